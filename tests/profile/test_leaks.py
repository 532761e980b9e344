"""The leak gate: every literal that looks like a credential, at its place, with the steps that move it (ours)."""

from pathlib import Path
from typing import Any

import pytest

from acp_launch.document.yaml import parse
from acp_launch.profile.leaks import in_comments, leaks, literals
from acp_launch.secret.value import SecretReference
from acp_launch.secret.value import parse as references

TOKEN = "ghp_" + "a1B2" * 9
OTHER = "glpat-" + "a1B2" * 5
PASSWORD = "hunter22"
RANDOM = "k7Qz" + "Xm2Pv9" + "Lw4RtB8" + "nYc3Hs"
ROOT = Path(__file__).parents[2]


def said(root: dict[str, Any]) -> list[str]:
    """`path: severity: message | fix` for each; what was found is in none of them."""
    faults = list(leaks(root))
    lines = [f"{'.'.join(map(str, each.path))}: {each.severity}: {each.message} | {each.fix}" for each in faults]
    texts = [each.message + each.fix for each in faults]
    assert not [text for text in texts if TOKEN in text or OTHER in text or RANDOM in text]
    return lines


def server(**entries: object) -> dict[str, Any]:
    return {"mcp_servers": {"github": {"command": "npx", **entries}}}


def test_a_servers_only_credential_is_named_after_the_server() -> None:
    assert said(server(env={"LOG": "info", "GITHUB_TOKEN": TOKEN})) == [
        "mcp_servers.github.env.GITHUB_TOKEN: error: this looks like a GitHub token"
        ' | acp-launch secret set github, then write "${secret:github}" here'
    ]


def test_several_are_named_after_their_variables_too() -> None:
    assert said(server(env={"GITHUB_TOKEN": TOKEN, "DB_PASSWORD": "hunter22"})) == [
        "mcp_servers.github.env.GITHUB_TOKEN: error: this looks like a GitHub token"
        ' | acp-launch secret set github/github-token, then write "${secret:github/github-token}" here',
        "mcp_servers.github.env.DB_PASSWORD: error: this looks like a password, by its name"
        ' | acp-launch secret set github/db-password, then write "${secret:github/db-password}" here',
    ]


def test_the_agents_are_named_after_their_variables() -> None:
    assert said({"agent": {"command": "x", "env": {"ANTHROPIC_API_KEY": "abcd-1234"}}}) == [
        "agent.env.ANTHROPIC_API_KEY: error: this looks like a key, by its name"
        ' | acp-launch secret set anthropic-api-key, then write "${secret:anthropic-api-key}" here'
    ]


@pytest.mark.parametrize(
    ("entries", "written"),
    [
        ({"headers": {"Authorization": f"Bearer {TOKEN}"}}, "${secret:github} in its place"),
        ({"args": ["--token", "abcd1234"]}, '"${secret:github}" here'),
        ({"env": {"X": "${env:TOKEN:-abcd1234}"}}, '"${secret:github}" here'),
        ({"env": {"X": "a ${env:TOKEN:-abcd1234}"}}, "${secret:github} in place of the reference"),
        ({"env": {"KEY": "-----BEGIN " + "PRIVATE KEY-----\n" + RANDOM + "\n"}}, '"${secret:github}" here'),
    ],
)
def test_the_fix_says_what_to_write_where(entries: dict[str, object], written: str) -> None:
    (line,) = said(server(**entries))
    assert line.partition(" | ")[2] == f"acp-launch secret set github, then write {written}"


def test_a_command_comes_from_no_secret_so_the_credential_moves_to_env() -> None:
    moved = "acp-launch secret set {}, then pass it in env"
    assert said({"agent": {"command": f"npx --token={TOKEN}"}}) == [
        f"agent.command: error: this looks like a GitHub token | {moved.format('token')}"
    ]
    assert said(server(command=f"npx --password {PASSWORD}")) == [
        f"mcp_servers.github.command: error: this looks like a password, by its name | {moved.format('github')}"
    ]
    assert said(server(command=["npx", TOKEN])) == [
        f"mcp_servers.github.command.1: error: this looks like a GitHub token | {moved.format('github')}"
    ]


@pytest.mark.parametrize("owner", [("agent",), ("mcp_servers", "command")])
def test_only_the_program_itself_is_a_command(owner: tuple[str, ...]) -> None:
    root: dict[str, Any] = {"env": {"command": TOKEN}}
    for step in reversed(owner):
        root = {step: root}
    (line,) = said(root)
    assert line.endswith('}" here')


MISSPELT = [
    "${secret:x:-def-1234}",
    "${secret:git hub}",
    f"${{{TOKEN}}}",
    f"${{secret:x:-{TOKEN}}}",
    f"${{secret {RANDOM}}}",
    f"${{TOKEN={RANDOM}",
    "${env:A:-${secret:b}}",
    "${env:ACP_LAUNCH_PASSPHRASE:-abcd-1234}",
]


def test_a_misspelt_reference_is_no_literal() -> None:
    for misspelt in MISSPELT:
        for around in ["{}", "Bearer {}", "https://me:{}@x.example"]:
            for name in ["A_TOKEN", "Authorization", "X"]:
                assert said(server(env={name: around.format(misspelt)})) == []
                assert said(server(args=[f"--token={misspelt}", "--token", misspelt])) == []


def test_literals_beside_a_misspelt_reference_are_examined() -> None:
    assert said(server(env={"A_TOKEN": "abcd-1234${git hub}"})) == [
        "mcp_servers.github.env.A_TOKEN: error: this looks like a token, by its name"
        " | acp-launch secret set github, then write ${secret:github} in its place"
    ]


def test_two_credentials_of_a_text_have_two_places_and_two_names() -> None:
    url = "https://me:hunter22@x.example/mcp?api_key=abcd1234"
    assert names(server(env={"URL": url})) == ["github/password", "github/api-key"]
    found = list(leaks(server(env={"URL": url})))
    assert [each.offset for each in found] == [url.index("hunter22"), url.index("abcd1234")]


def test_a_login_in_an_address_gets_the_fix_of_the_rule_and_no_secret_there() -> None:
    logs = "mcp_servers.github.url: error: the url holds a user name or a password, which end up in logs"
    rule = f'{logs} | remove it, and write headers: {{Authorization: "Basic ${{secret:NAME}}"}}'
    assert said(server(url="https://me:hunter22@x.example/mcp")) == [rule]
    assert said(server(url="https://me:hunter22@x.example/mcp?api_key=abcd1234")) == [
        rule,
        "mcp_servers.github.url: error: this looks like a key, by its name"
        " | acp-launch secret set github, then write ${secret:github} in its place",
    ]


def test_a_placeholder_is_shown_and_a_guess_is_a_warning() -> None:
    assert said(server(env={"API_KEY": "changeme", "SESSION": RANDOM})) == [
        'mcp_servers.github.env.API_KEY: warning: "changeme" is a placeholder, not a key'
        ' | acp-launch secret set github/api-key, then write "${secret:github/api-key}" here',
        "mcp_servers.github.env.SESSION: warning: this looks like a credential: it is long and random"
        ' | acp-launch secret set github/session, then write "${secret:github/session}" here',
    ]


def names(root: dict[str, Any]) -> list[str]:
    return [line.partition("secret set ")[2].partition(",")[0] for line in said(root)]


def test_no_name_is_suggested_that_already_means_another_secret() -> None:
    used = {"agent": {"env": {"A": "${secret:github}", "B": "${secret:github/github-token}"}}}
    assert names({**used, **server(env={"GITHUB_TOKEN": TOKEN})}) == ["github/github-token-2"]
    assert names(server(env={"A": "${secret:other}", "TOKEN": TOKEN})) == ["github/token"]
    assert names(server(args=["-e", f"A={TOKEN}", "-e", f"B={OTHER}"])) == ["github/a", "github/b"]
    assert names(server(args=[TOKEN, OTHER])) == ["github/token", "github/token-2"]


def test_one_literal_in_two_places_is_one_secret_and_one_placeholder_two() -> None:
    assert names(server(env={"A_TOKEN": TOKEN, "B_TOKEN": TOKEN})) == ["github", "github"]
    assert names(server(env={"A_TOKEN": "changeme", "B_TOKEN": "changeme"})) == ["github/a-token", "github/b-token"]


@pytest.mark.parametrize("name", ["my server", "a/b", "é", "...", TOKEN, "x" * 200])
@pytest.mark.parametrize("variable", ["MY VAR", "ÄÖ", "A_TOKEN", f"{TOKEN}"])
def test_every_suggested_name_is_one_a_secret_may_have(name: str, variable: str) -> None:
    root = {"mcp_servers": {name: {"env": {variable: TOKEN, "X": OTHER}}, "two": {"env": {"X": RANDOM}}}}
    suggested = names(root)
    assert len(set(suggested)) == 3
    assert [references(f"${{secret:{each}}}") for each in suggested] == [(SecretReference(each),) for each in suggested]


@pytest.mark.parametrize(
    "root",
    [
        {},
        {"agent": None, "mcp_servers": 3},
        {"agent": [], "mcp_servers": {"a": None, "b": "x", "c": []}},
        {"agent": {"env": 1, "args": {"a": [None, 2]}, "url": True, "headers": None, "command": []}},
        server(env={"GITHUB_TOKEN": "${secret:github}"}, args=["-y", "--token", "${env:TOKEN}", "--", "x"]),
        server(args=["--token", "--verbose"]),
        {"description": TOKEN},
    ],
)
def test_anything_else_is_let_pass_whatever_its_shape(root: dict[str, Any]) -> None:
    assert said(root) == []


POPULAR = """
agent: {command: gemini, args: [--acp, --model, gemini-2.5-pro], env: {GEMINI_CLI_TRUST_WORKSPACE: "true"}}
mcp_servers:
  files: {command: npx, args: [-y, "@modelcontextprotocol/server-filesystem", /home/me/projects]}
  git: {command: uvx, args: [mcp-server-git, --repository, "${project}"]}
  pinned: {command: uvx, args: [--from, "git+https://github.com/o/r@0123456789abcdef0123456789abcdef01234567", r]}
  github:
    command: docker
    args: [run, -i, --rm, -e, GITHUB_PERSONAL_ACCESS_TOKEN, ghcr.io/github/github-mcp-server:v0.5.0]
    env: {GITHUB_PERSONAL_ACCESS_TOKEN: "${secret:github}"}
  digest:
    command: docker
    args: [run, "mcp/x@sha256:9b2f3c1d4e5f60718293a4b5c6d7e8f90123456789abcdef0123456789abcdef"]
  remote: {command: npx, args: [mcp-remote, "https://x.example/sse", --header, "Authorization: Bearer ${secret:x}"]}
  db: {command: npx, args: [-y, server-postgres, "postgresql://localhost/mydb"], env: {PGUSER: me, PGPORT: "5432"}}
  slack: {command: npx, env: {SLACK_BOT_TOKEN: "${secret:slack}", SLACK_TEAM_ID: T01234567}}
  sentry: {command: uvx, args: [mcp-server-sentry, --auth-token, "${secret:sentry}"]}
  aws: {command: uvx, env: {AWS_PROFILE: prod-admin-2, AWS_REGION: us-east-1, FASTMCP_LOG_LEVEL: ERROR}}
  google: {command: npx, env: {GOOGLE_APPLICATION_CREDENTIALS: /home/me/key.json, GOOGLE_CLOUD_PROJECT: my-project-123}}
  azure: {command: npx, env: {AZURE_TENANT_ID: 123e4567-e89b-12d3-a456-426614174000, CLIENT_ID: 8x7k3jh5a9v0c1b2n3m4l5}}
  docs: {type: http, url: "https://docs.example.com/mcp", headers: {Authorization: "Bearer ${secret:docs}"}}
  notion: {type: http, url: "https://mcp.notion.com/mcp", headers: {Notion-Version: "2022-06-28"}}
"""


def test_popular_servers_as_they_should_be_written_give_nothing_away() -> None:
    document, problems = parse(POPULAR, "p")
    assert document is not None and problems == []
    assert said(document.root) == []


REMOVE = "remove it, and rotate the {}: everyone who can read this file has it"


def strayed(text: str) -> list[tuple[int, int, str]]:
    """Line, column and `message | fix` of each; all are errors of the file as a whole."""
    document, _ = parse(text, "p")
    told = (
        [
            ((place.line, place.column), offset, literal)
            for path, offset, literal in literals(document.root)
            for place in [document.where(path, offset=offset)]
        ]
        if document
        else []
    )
    found = list(in_comments(text, told))
    assert {(fault.path, fault.severity) for _, fault in found} <= {((), "error")}
    assert TOKEN not in str(found) and OTHER not in str(found)
    return [(line, column, f"{fault.message} | {fault.fix}") for (line, column), fault in found]


A_TOKEN_IS_LEFT = "this looks like a GitHub token | " + REMOVE.format("token")


def test_a_certain_credential_is_found_wherever_it_stands_in_the_file() -> None:
    for text, line, column in [
        (f"# {TOKEN}\n", 1, 3),
        (f"version: 1\ndescription: mine is {TOKEN}!\n", 2, 22),
        (f"session:\n  name: {TOKEN}\n", 2, 9),
        (f"workspace: {{cwd: /x/{TOKEN}}}\n", 1, 21),
        (f"agent: {{inherit_env: [{TOKEN}]}}\n", 1, 23),
        (f"agent:\n  evn: {{A_TOKEN: {TOKEN}}}\n", 2, 18),
        (f"mcp_servers: {{{TOKEN}: {{command: x}}}}\n", 1, 15),
        (f"agent: {{env: {{A: '${{{TOKEN}}}'}}}}\n", 1, 21),
        (f"agent: {{env: {{A: '${{secret:x:-{TOKEN}}}'}}}}\n", 1, 31),
        (f"agent: [\n  {TOKEN}", 2, 3),
        (f"a\r\nb\rc: {TOKEN}\n", 3, 4),
        (f"&{TOKEN} a\n", 1, 2),
        (f"é: 'ü' # {TOKEN}\n", 1, 10),
    ]:
        assert strayed(text) == [(line, column, A_TOKEN_IS_LEFT)]


@pytest.mark.parametrize(
    ("literal", "said"),
    [
        ("sk-ant-" + "api03-" + "a1B2" * 12, "an Anthropic key | " + REMOVE.format("key")),
        ("postgres://me:hunter22@db/x", "a password | " + REMOVE.format("password")),
        ("https://hooks.slack.com/" + "services/T0/B0/" + "a1B2" * 6, "a Slack webhook | " + REMOVE.format("webhook")),
    ],
)
def test_the_fix_says_what_to_replace(literal: str, said: str) -> None:
    assert [what for _, _, what in strayed(f"# {literal}\n")] == [f"this looks like {said}"]


KEY = "-----BEGIN " + "RSA PRIVATE KEY-----\n" + "a1B2" * 16 + "\n-----END RSA PRIVATE KEY-----"


def test_what_has_a_fault_already_is_not_told_twice() -> None:
    for value in [
        TOKEN,
        f'"{TOKEN}"',
        f"'x {TOKEN}'",
        f"Bearer {TOKEN}",
        f"x={TOKEN}",
        f"|\n    {TOKEN}\n",
        f">-\n    a\n    {TOKEN}\n",
        f'"\\x61 {TOKEN}\\n"',
        f'"a\n    {TOKEN}"',
        f"'it''s {TOKEN}'",
        f"https://me:{TOKEN}@x.example",
        "https://me:hunter22@x.example",
        "|\n    " + KEY.replace("\n", "\n    ") + "\n",
        '"' + KEY.replace("\n", "\\n") + '"',
        f"['{TOKEN}', {OTHER}, {TOKEN}]",
        f"&a {TOKEN}\n  Y: *a",
        f"${{secret:{TOKEN}}}",
        f"${{env:X:-{TOKEN}}}",
    ]:
        for name in ["A_TOKEN", "Authorization", "X"]:
            text = f"agent:\n env:\n  {name}: {value}\n"
            document, problems = parse(text, "p")
            assert document is not None and problems == []
            assert said(document.root) != []
            assert strayed(text) == []


@pytest.mark.parametrize("value", [TOKEN, f"|\n    {TOKEN}\n", f"&a {TOKEN}\n  X: *a"])
def test_the_same_token_elsewhere_is_told_all_the_same(value: str) -> None:
    text = f"# {TOKEN}\nagent:\n env:\n  A_TOKEN: {value}\n# {TOKEN}\n"
    assert strayed(text) == [(line, 3, A_TOKEN_IS_LEFT) for line in (1, text.count("\n"))]


@pytest.mark.parametrize(
    "comment",
    [
        "ghp_...",
        "ghp_" + "x" * 36,
        "ghp_your_token_here",
        "AKIA" + "IOSFODNN7" + "EXAMPLE",
        "https://user:password@host",
        "https://me:<password>@host",
        "https://me:${secret:x}@host",
        "https://me:${env:PASSWORD:-hunter22}@host",
        "paste all from -----BEGIN " + "PRIVATE KEY----- to -----END PRIVATE KEY-----",
        "A_TOKEN: abcd-1234",
        RANDOM,
        "${",
    ],
)
def test_a_comment_may_explain_and_hold_a_place(comment: str) -> None:
    assert strayed(f"# {comment}\nversion: 1\n") == []


@pytest.mark.parametrize("file", sorted((ROOT / "profiles").glob("*.yaml")), ids=lambda file: file.name)
def test_the_built_in_profiles_hold_no_credential_anywhere(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    document, _ = parse(text, file.name)
    assert document is not None
    assert (said(document.root), strayed(text)) == ([], [])


@pytest.mark.whole
def test_a_file_full_of_tokens_costs_linear_time() -> None:
    """Not by the clock: the suite's own time-out is what the square would meet."""
    text = "agent:\n env:\n" + "".join(f"  V{n}: {TOKEN} # {TOKEN}\n" for n in range(2_000))
    assert len(strayed(text)) == 2_000
    assert said(server(env={"A": "${a b}" * 100_000})) == []
