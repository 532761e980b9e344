"""Small inputs of the kinds that published configuration files hold, and what of each becomes part of a profile."""

from typing import Any

import pytest

from acp_launch.interop import merge
from acp_launch.interop.drafts import DraftSet, collect_drafts, fill
from acp_launch.interop.tools import TOOLS
from tests.interop.test_readers import entries, left, secrets, unfit

ASKED = "the file has only a placeholder"
REAL = "k7Qw92mZx4Tb81LdPc50"


def imported(tool: str, servers: Any, **same: Any) -> DraftSet:
    return collect_drafts([(TOOLS[tool], {TOOLS[tool].servers: servers})], "/project", **same)


def of(tool: str, **entry: Any) -> DraftSet:
    return imported(tool, {"s": {"command": "x", **entry} if "url" not in entry else entry})


def read(tool: str, **entry: Any) -> Any:
    return entries(of(tool, **entry))["s"]


# A password that is an ordinary word.

WORD: dict[str, Any] = {"command": "x", "env": {"DB_PASSWORD": "postgres"}}


@pytest.mark.parametrize(
    "text",
    [
        "@example/server-postgres",
        "postgresql://localhost:5432/app",
        "postgres://postgres:5432/postgres",
        "--host=postgres.example.com",
        "--db=postgres",
        "postgres:16",
        "postgres",
        "/var/lib/postgres",
        "https://example.com/postgres/mcp?mode=postgres",
    ],
)
def test_a_word_that_is_spelt_like_a_password_stays(text: str) -> None:
    found = imported("claude", {"db": WORD, "s": {"command": "postgres-mcp", "args": [text]}})
    assert entries(found)["s"] == {"command": "postgres-mcp", "args": [text]}
    assert entries(of("claude", args=[text], env={"DB_PASSWORD": "postgres"}))["s"]["args"] == [text]


@pytest.mark.parametrize(
    "password",
    [
        "admin",
        "admin123",
        "neo4j",
        "blue-db",
        "elasticsearch",
        "minio_admin",
        "12345678",
        "the-app-db",
        "production-database",
        "db-2-main",
    ],
)
def test_so_does_a_user_of_that_name_and_the_import_says_where(password: str) -> None:
    env = {"DB_USER": password, "DB_PASSWORD": password, "OTHER": f"{password}-mcp"}
    found = of("claude", env=env)
    assert entries(found)["s"]["env"] == {**env, "DB_PASSWORD": "${secret:s}"}
    assert [one.spot for one in found.echoes] == [("s", ("env", "DB_USER"), 0)]
    same = of("claude", env=env)
    again = imported("claude", {"s": {"command": "x", "env": env}}, same=[same.echoes[0].spot])
    assert entries(again)["s"]["env"]["DB_USER"] == "${secret:s}"


def test_so_does_the_value_of_another_option() -> None:
    args = ["-e", "POSTGRES_PASSWORD=mysecretpassword", "-e", "POSTGRES_DB=mysecretpassword"]
    found = of("claude", args=args)
    assert entries(found)["s"]["args"] == [args[0], "POSTGRES_PASSWORD=${secret:s}", *args[2:]]
    assert [one.spot for one in found.echoes] == [("s", ("args", 3), 0)]
    again = imported("claude", {"s": {"command": "x", "args": args}}, same=[found.echoes[0].spot])
    assert entries(again)["s"]["args"][3] == "POSTGRES_DB=${secret:s}"


@pytest.mark.parametrize(
    "text",
    [
        "--password={}",
        "PGPASSWORD={}",
        "postgresql://app:{}@db.example/postgres",
        "password: '{}'",
    ],
)
def test_a_password_is_taken_out_where_a_name_or_an_address_announces_it(text: str) -> None:
    found = of("claude", args=[text.format("postgres"), "--password", "postgres"], env={"DB_PASSWORD": "postgres"})
    assert entries(found)["s"]["args"] == [text.replace("{}", "${secret:s}"), "--password", "${secret:s}"]


def test_two_servers_with_the_same_word_have_two_secrets_and_with_the_same_token_one() -> None:
    found = imported("claude", {name: {"command": "x", "env": {"P_TOKEN": REAL, "PASSWORD": "admin"}} for name in "ab"})
    assert sorted(secrets(found).values()) == ["admin", "admin", REAL]


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("https://x.example/{}/sse", "https://x.example/${secret:s}/sse"),
        ("https://x.example/mcp?mode={}&a=b", "https://x.example/mcp?mode=${secret:s}&a=b"),
        ("--mode={}", "--mode=${secret:s}"),
        ("{}", "${secret:s}"),
        ("https://{}.example.com/", None),
        ("https://{}/x", None),
        ("@example/{}-mcp", None),
    ],
)
def test_a_longer_value_is_taken_out_where_it_stands_alone(text: str, becomes: str | None) -> None:
    text = text.format("blue-sky-over-town")
    found = of("claude", args=[text], env={"DB_PASSWORD": "blue-sky-over-town"})
    assert entries(found)["s"]["args"] == [becomes or text]


# A text with `${…}` that the tool does not replace.


@pytest.mark.parametrize("value", ["qT7${wZ4}nK8b", "${abc}def9", "a$${b}c9", "$9${x}", "pre${", "}${x}9z"])
@pytest.mark.parametrize("tool", ["claude-desktop", "codex", "zed", "goose", "windsurf"])
def test_a_credential_with_braces_is_stored_as_the_file_has_it(tool: str, value: str) -> None:
    keys = TOOLS[tool].keys
    entry = {keys.get("command", "command"): "x", keys.get("env", "env"): {"DB_PASSWORD": value}}
    found = imported(tool, {"s": {**entry, "args": [f"--pass={value}"]}})
    shape = entries(found)["s"]
    assert secrets(found)["s"] == value
    assert shape["env"] == {"DB_PASSWORD": "${secret:s}"}
    assert shape["args"] in ([f"--pass={value}".replace("${", "$${")], ["--pass=${secret:s}"])


BRIDGE: dict[str, Any] = {
    "command": "npx",
    "args": ["mcp-remote", "https://x.example/mcp", "--header", "Authorization:${AUTH_HEADER}"],
    "env": {"AUTH_HEADER": f"Bearer {REAL}"},
}


@pytest.mark.parametrize("tool", ["claude-desktop", "claude", "vscode", "cursor", "codex", "gemini", "roo", "windsurf"])
def test_a_variable_that_the_program_replaces_stays_text(tool: str) -> None:
    found = imported(tool, {"s": BRIDGE})
    assert entries(found)["s"] == {
        **BRIDGE,
        "args": [*BRIDGE["args"][:-1], "Authorization:$${AUTH_HEADER}"],
        "env": {"AUTH_HEADER": "Bearer ${secret:s}"},
    }
    assert [one.unfit for one in merge.mark_unfit(found.drafts)] == [""]


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "docker", "args": ["run", "-e", "K=${K}"], "env": {"K": "1"}},
        {"command": "npx", "args": ["mcp-remote", "--header", "X:${K}"], "env": {"K": "${K}"}},
        {"command": "npx", "args": ["mcp-remote", "--header", "X:${K}"]},
    ],
)
def test_one_that_claude_code_replaces_is_of_the_environment(entry: Any) -> None:
    assert entries(imported("claude", {"s": entry}))["s"]["args"][-1].endswith("${env:K}")


# What only stands for a credential.


PLACEHOLDERS = """
your-brave-api-key-here YOUR_NEO4J_PASSWORD your_supabase_service_role_key_here {secret} {{TOKEN}} <token> [token]
ntn_**** xxx xxxxxxxx changeme change-me-please REPLACE_ME REPLACE_WITH_YOUR_KEY sk-... sk-ant-api03-... AIzaSy...
ghp_your_token_here ghp_xxxxxxxxxxxxxxxxxxxx xoxb-your-bot-token aidoc_pat_XXXX __API_KEY__ @@TOKEN@@ %TOKEN% $TOKEN
optional-tavily-key your-32-char-key sk-1234567890abcdef ... TODO insert-your-key my-api-key pplx-your-key
tvly-YOUR_API_KEY AKIAIOSFODNN7EXAMPLE wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY <<API_KEY>> [[API_KEY]] yourApiKey
YourToken YOURAPIKEY ghp_YourPersonalAccessTokenHere sk-...yourkey 00000000-0000-0000-0000-000000000000
"""


@pytest.mark.parametrize("value", PLACEHOLDERS.split())
def test_a_placeholder_is_asked_for_as_a_whole(value: str) -> None:
    found = of("claude-desktop", env={"A_API_KEY": value}, args=["--api-key", value, f"--token={value}"])
    assert {*secrets(found).values()} == {ASKED}
    assert entries(found)["s"]["env"] == {"A_API_KEY": "${secret:s/a-api-key}"}
    remote = imported("claude-desktop", {"s": {"url": "https://x", "headers": {"Authorization": f"Bearer {value}"}}})
    assert entries(remote)["s"]["headers"] == {"Authorization": "Bearer ${secret:s}"}
    assert secrets(remote) == {"s": ASKED}


CREDENTIALS = (REAL, "hunter2", "sk-proj-Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0", "abc-key-here-9f", "postgres")


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        *(("A_API_KEY", each, {"s": each}) for each in CREDENTIALS),
        *(
            ("A_API_KEY", each, {"s": ASKED})
            for each in ("GITHUB_TOKEN", "optional", "<...>", "•••••••", "PASTE_THE_KEY")
        ),
        *((f"{each}_KEY", "customer2id", {}) for each in ("PRIMARY", "SORT", "PUBLIC", "CACHE", "IDEMPOTENCY")),
    ],
)
def test_a_variable_holds_a_credential_or_its_place_or_neither(name: str, value: str, found: dict[str, str]) -> None:
    assert secrets(of("claude-desktop", env={name: value})) == found


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("https://x.example/mcp?api_key={apiKey}&b=c", "https://x.example/mcp?api_key=${secret:s}&b=c"),
        ("https://x.example/mcp?tavilyApiKey=<your-api-key>", "https://x.example/mcp?tavilyApiKey=${secret:s}"),
        ("https://x.example/{FIRECRAWL_API_KEY}/v2", "https://x.example/${secret:s}/v2"),
        ("postgresql://me:[YOUR-PASSWORD]@db.example/x", "postgresql://me:${secret:s}@db.example/x"),
        ("Authorization: Bearer <your github token>", "Authorization: Bearer ${secret:s}"),
        ("X_TOKEN=your_token_here", "X_TOKEN=${secret:s}"),
        ("PW=your_password", "PW=${secret:s}"),
        ('{"apiKey":"your-api-key"}', '{"apiKey":"${secret:s}"}'),
        ("YOUR_GITHUB_TOKEN", "${secret:s}"),
        ("<github-token>", "${secret:s}"),
        ("YOUR_PROJECT_ID", "YOUR_PROJECT_ID"),
        ("GITHUB_TOKEN", "GITHUB_TOKEN"),
        ("add-token", "add-token"),
        ("@example/token-server", "@example/token-server"),
    ],
)
def test_a_placeholder_in_an_argument_is_asked_for_and_other_words_stay(text: str, becomes: str) -> None:
    found = of("claude", args=[text])
    assert entries(found)["s"]["args"] == [becomes]
    assert {*secrets(found).values()} <= {ASKED}


@pytest.mark.parametrize("name", ["FIGMA_KEY", "OPENAI_KEY", "X-Key", "figmaKey"])
def test_a_variable_whose_name_ends_in_key_holds_one(name: str) -> None:
    assert secrets(of("claude-desktop", env={name: "k7Qw92mZx4Tb"})) == {"s": "k7Qw92mZx4Tb"}
    for value in ("********", "your key here", "xxxx-xxxx", "YourApiKey"):
        assert secrets(of("claude-desktop", env={name: value})) == {"s": ASKED}


@pytest.mark.parametrize(
    ("tool", "written", "becomes"),
    [
        ("claude", "${YOUR_API_KEY}", "${env:YOUR_API_KEY}"),
        ("claude", "${TOKEN_HERE:-your-default-key}", "${env:TOKEN_HERE:-your-default-key}"),
        ("gemini", "$YOUR_API_KEY", "${env:YOUR_API_KEY}"),
        ("cursor", "${env:YOUR_API_KEY}", "${env:YOUR_API_KEY}"),
        ("opencode", "{env:YOUR_API_KEY}", "${env:YOUR_API_KEY}"),
        ("claude-desktop", "${YOUR_API_KEY}", "$${YOUR_API_KEY}"),
        ("vscode", "${REPLACE_TOKEN}", "$${REPLACE_TOKEN}"),
    ],
)
def test_the_name_within_a_reference_is_no_placeholder(tool: str, written: str, becomes: str) -> None:
    env, args = TOOLS[tool].keys.get("env", "env"), ["x", f"--token={written}", f"Bearer {written}"]
    found = of(tool, **({"command": args} if tool == "opencode" else {"args": args[1:]}), **{env: {"A_KEY": written}})
    shape = entries(found)["s"]
    assert [shape["args"][0], shape["args"][1], shape["env"]["A_KEY"]] == [
        f"--token={becomes}",
        f"Bearer {becomes}",
        becomes,
    ]
    assert [one.unfit for one in merge.mark_unfit(found.drafts)] == [""]


# Limits, command lines, lists of tools, and other tools' keys.


@pytest.mark.parametrize(
    ("tool", "written", "becomes"),
    [
        ("claude", 60000, {"call": "1m"}),
        ("gemini", 5000, {"call": "5s"}),
        ("qwen", 5000, {"call": "5s"}),
        ("copilot", 60000, {"call": "1m"}),
        ("kiro", 60000, {"call": "1m"}),
        ("cline", 60, {"call": "1m"}),
        ("roo", 300, {"call": "5m"}),
        ("crush", 15, {"start": "15s"}),
        ("opencode", 5000, {"start": "5s"}),
        ("zed", 60, {"call": "1m"}),
    ],
)
def test_a_limit_has_the_unit_of_its_tool(tool: str, written: float, becomes: dict[str, str]) -> None:
    command: Any = ["x"] if tool == "opencode" else "x"
    assert read(tool, command=command, timeout=written)["timeouts"] == becomes


@pytest.mark.parametrize(
    ("tool", "key", "value", "why"),
    [
        (
            "claude",
            "timeout",
            60,
            "is 60 ms, which every answer would miss; if seconds were meant, write timeouts: {call: 1m}",
        ),
        (
            "kiro",
            "timeout",
            300,
            "is 300 ms, which every answer would miss; if seconds were meant, write timeouts: {call: 5m}",
        ),
        (
            "codex",
            "startup_timeout_ms",
            20,
            "is 20 ms, which every answer would miss; if seconds were meant, write timeouts: {start: 20s}",
        ),
        ("codex", "tool_timeout_sec", 0.5, "is 500 ms, which every answer would miss"),
        ("roo", "timeout", 600000, "is longer than a day; if milliseconds were meant, write timeouts: {call: 10m}"),
        (
            "cline",
            "timeout",
            60000,
            "is 1000m, which no answer needs; if milliseconds were meant, write timeouts: {call: 1m}",
        ),
        ("roo", "timeout", 0, "is not a length of time"),
        ("claude", "timeout", "60s", "is not a length of time"),
    ],
)
def test_a_limit_that_cannot_be_meant_is_left_out_with_a_word(tool: str, key: str, value: Any, why: str) -> None:
    found = of(tool, **{key: value})
    assert "timeouts" not in entries(found)["s"]
    assert left(found)["s"] == ((key, why),)


@pytest.mark.parametrize(
    ("tool", "entry", "words"),
    [
        ("acpx", {"command": "/usr/bin/env node 'my agent.js'"}, ["/usr/bin/env", "node", "my agent.js"]),
        ("claude", {"command": "npx -y @x/y --flag 'a b'"}, ["npx", "-y", "@x/y", "--flag", "a b"]),
        ("cursor", {"args": ["--port", "1"], "command": "uv run server"}, ["uv", "run", "server", "--port", "1"]),
        ("claude", {"command": "/opt/my tools/run"}, ["/opt/my tools/run"]),
        ("claude", {"command": "${HOME}/my tools/run"}, ["${env:HOME}/my tools/run"]),
        ("claude", {"command": "cmd", "args": ["/c", "npx", "-y", "p"]}, ["npx", "-y", "p"]),
        ("claude", {"command": "C:\\Windows\\System32\\cmd.exe", "args": ["/d", "/C", "npx -y p"]}, ["npx", "-y", "p"]),
        ("claude", {"command": "npx.cmd", "args": ["p"]}, ["npx", "p"]),
        ("claude", {"command": "cmd", "args": ["serve"]}, ["cmd", "serve"]),
        ("claude", {"command": "C:\\Program Files\\nodejs\\npx.cmd"}, ["C:\\Program Files\\nodejs\\npx.cmd"]),
    ],
)
def test_a_command_line_becomes_a_program_and_its_arguments(tool: str, entry: Any, words: list[str]) -> None:
    servers: Any = [{"name": "s", **entry}] if tool == "acpx" else {"s": entry}
    shape = entries(imported(tool, servers))["s"]
    assert [shape["command"], *shape.get("args", ())] == words


def test_an_older_file_of_zed_has_a_program_and_its_arguments_under_command() -> None:
    entry = {"command": {"path": "npx", "args": ["-y", "p"], "env": {"A_TOKEN": REAL}}, "settings": {}}
    found = imported("zed", {"s": entry})
    assert entries(found)["s"] == {"command": "npx", "args": ["-y", "p"], "env": {"A_TOKEN": "${secret:s}"}}
    assert unfit(imported("zed", {"s": {"command": {"args": []}}})) == {"s": "its command is not in the file"}


def test_a_command_line_of_an_agent_whose_quote_is_open_is_refused() -> None:
    found = collect_drafts([(TOOLS["acpx"], {"agents": {"a": {"command": "x 'y"}}})], "/project")
    assert unfit(found) == {"a": "its command has a quote that is not closed"}


@pytest.mark.parametrize(
    ("tool", "entry", "becomes"),
    [
        ("copilot", {"tools": ["*"]}, None),
        ("claude", {"tools": ["*"]}, None),
        ("claude", {"tools": ["a"]}, {"allow": ["a"]}),
        ("copilot", {"tools": ["a", "b*"]}, {"allow": ["a", "b[*]"]}),
        ("roo", {"disabledTools": ["a"], "alwaysAllow": []}, {"deny": ["a"]}),
        ("claude", {"disabledTools": ["a"], "excludeTools": ["b"]}, {"deny": ["a", "b"]}),
        ("gemini", {"includeTools": ["a"], "excludeTools": ["b"]}, {"allow": ["a"], "deny": ["b"]}),
        ("crush", {"disabled_tools": ["a"]}, {"deny": ["a"]}),
        ("kiro", {"disabledTools": ["*"]}, {"deny": ["*"]}),
    ],
)
def test_a_list_of_tools_restricts_them(tool: str, entry: Any, becomes: Any) -> None:
    found = of(tool, **entry)
    assert entries(found)["s"].get("tools") == becomes
    assert left(found) == {}


@pytest.mark.parametrize("key", ["alwaysAllow", "autoApprove", "trust"])
def test_an_approval_is_no_restriction_and_is_not_given_by_an_import(key: str) -> None:
    found = of("roo", **{key: ["a"] if key != "trust" else True})
    assert entries(found)["s"] == {"command": "x"}
    (said,) = left(found)["s"]
    assert said == (key, "allows tools in advance; here a rule of permissions does: acp-launch help permissions")


@pytest.mark.parametrize("tool", ["claude", "cursor", "windsurf"])
def test_an_address_has_other_names_elsewhere(tool: str) -> None:
    found = imported(tool, {"a": {"serverUrl": "https://x.example/sse"}, "b": {"httpUrl": "https://x.example/sse"}})
    assert entries(found) == {
        "a": {"type": "sse", "url": "https://x.example/sse"},
        "b": {"type": "http", "url": "https://x.example/sse"},
    }


def test_a_plugin_has_its_servers_at_the_top_of_the_file() -> None:
    root = {"$schema": "x", "a": {"command": "x"}, "b": {"type": "http", "url": "https://x"}, "c": {"other": 1}}
    found = collect_drafts([(TOOLS["claude"], root)], "/project")
    assert entries(found) == {"a": {"command": "x"}, "b": {"type": "http", "url": "https://x"}}


@pytest.mark.parametrize("is_nested", [True, False])
def test_the_settings_of_vscode_hold_servers_and_inputs(is_nested: bool) -> None:
    within = {
        "servers": {"a": {"command": "x", "args": ["${input:key}"]}},
        "inputs": [{"type": "promptString", "id": "key"}],
    }
    root = {"mcp": within} if is_nested else {f"mcp.{key}": value for key, value in within.items()}
    found = collect_drafts([(TOOLS["vscode"], {"editor.fontSize": 12, **root})], "/project")
    assert [fill(one.shape, ["key"]) for one in found.drafts] == [{"command": "x", "args": ["${secret:key}"]}]


def test_what_another_tool_means_by_tools_is_left_out_with_a_word() -> None:
    found = of("claude", tools={"a": {"enabled": True}})
    assert (entries(found)["s"], left(found)) == (
        {"command": "x"},
        {"s": (("tools", "has no counterpart in a profile"),)},
    )


@pytest.mark.parametrize("entry", [{"disabled": True}, {"disabled": "true"}, {"enabled": False}])
def test_a_server_that_is_switched_off_is_one(entry: Any) -> None:
    assert [one.disabled for one in of("claude", **entry).drafts] == [True]


def test_gemini_switches_servers_off_by_lists() -> None:
    servers = {name: {"command": "x"} for name in "abc"}
    found = collect_drafts(
        [(TOOLS["gemini"], {"mcpServers": servers, "mcp": {"allowed": ["a", "b"], "excluded": ["b"]}})], "/project"
    )
    assert [one.name for one in found.drafts if one.disabled] == ["b", "c"]
