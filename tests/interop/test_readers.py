"""Each tool's format, by files written from its public documentation, and what of each becomes part of a profile."""

from pathlib import Path
from typing import Any

import pytest

from acp_launch.interop.drafts import DraftBuilder, DraftSet, collect_drafts, fill
from acp_launch.interop.tools import TOOLS, Source, read
from acp_launch.secret.value import Secret

CONFIGS = Path(__file__).parent / "configs"
FILES = {
    "claude-desktop": "claude_desktop_config.json",
    "claude": "claude.mcp.json",
    "vscode": "vscode.mcp.json",
    "cursor": "cursor.mcp.json",
    "codex": "codex.config.toml",
    "gemini": "gemini.settings.json",
    "zed": "zed.settings.json",
    "jetbrains": "jetbrains.acp.json",
    "opencode": "opencode.jsonc",
    "goose": "goose.config.yaml",
    "acpx": "acpxrc.json",
}


def source(tool: str) -> Source:
    return read(CONFIGS / FILES[tool], TOOLS[tool])


def imported(tool: str) -> DraftSet:
    return collect_drafts([(TOOLS[tool], source(tool).root)], "/project")


def entries(found: DraftSet) -> dict[str, Any]:
    names = found.names()
    return {one.name: fill(one.shape, names) for one in found.drafts if not one.unfit and not one.disabled}


def left(found: DraftSet) -> dict[str, tuple[tuple[str, str], ...]]:
    return {one.name: one.left for one in found.drafts if one.left}


def unfit(found: DraftSet) -> dict[str, str]:
    return {one.original: one.unfit for one in found.drafts if one.unfit}


def secrets(found: DraftSet) -> dict[str, Secret | str]:
    """The value of each secret, or why it is unknown."""
    pairs = zip(found.names(), found.tokens, strict=True)
    return {name: token.secret if token.secret is not None else token.why for name, token in pairs}


def test_there_is_a_file_for_every_tool() -> None:
    assert FILES.keys() == TOOLS.keys()


def test_claude_desktop() -> None:
    found = imported("claude-desktop")
    assert entries(found) == {
        "filesystem": {
            "command": "npx",
            "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/me/$${not_a_variable}"],
        },
        "brave": {
            "command": "C:\\Program Files\\nodejs\\npx.cmd",
            "args": ["-y", "@modelcontextprotocol/server-brave-search"],
            "env": {"BRAVE_API_KEY": "${secret:brave}"},
        },
    }
    assert secrets(found) == {"brave": Secret("BSAq7Rk29fLmZt41vXw83NcD")}


def test_claude_code() -> None:
    found = imported("claude")
    assert entries(found) == {
        "db": {
            "command": "${env:BIN:-uvx}",
            "args": ["db-mcp", "--dsn", "postgres://app:${secret:db}@db.example/app"],
            "env": {"HOST": "${env:DB_HOST}", "LITERAL": "$NOT and $${not closed"},
            "timeouts": {"call": "1m"},
        },
        "remote": {
            "type": "http",
            "url": "${env:API:-https://api.example.com}/mcp",
            "headers": {"Authorization": "Bearer ${env:TOKEN}"},
        },
        "events": {"type": "sse", "url": "https://events.example.com/sse"},
    }
    assert secrets(found) == {"db": Secret("c0rrect-h0rse")}
    assert left(found) == {
        "db": (("env.NESTED", "has a variable in the default of another"),),
        "remote": (("headersHelper", "belongs in your settings, as headers_command: acp-launch help login"),),
    }


def test_what_vs_code_asks_for_becomes_one_secret_for_all_servers() -> None:
    found = imported("vscode")
    assert entries(found) == {
        "perplexity": {
            "command": "npx",
            "args": ["-y", "server-perplexity-ask", "--root", "${project}/src"],
            "env": {"PERPLEXITY_API_KEY": "${secret:perplexity-key}", "HOME_DIR": "${home}"},
        },
        "github": {
            "type": "http",
            "url": "https://api.githubcopilot.com/mcp",
            "headers": {"X-Key": "k-${secret:perplexity-key}"},
        },
    }
    assert secrets(found) == {"perplexity-key": "VS Code keeps it in its own store"}
    assert left(found) == {
        "perplexity": (
            ("env.REGION", "asks for an input that the file does not describe"),
            ("envFile", "has no counterpart in a profile"),
        )
    }
    assert unfit(found) == {"configured": "its command uses a variable that only the editor knows (config)"}


def test_cursor() -> None:
    found = imported("cursor")
    assert entries(found) == {
        "figma": {
            "command": "npx",
            "args": ["figma-mcp", "--cache=${home}/.cache"],
            "env": {"FIGMA_TOKEN": "${env:FIGMA_TOKEN}"},
        },
        "linear": {
            "type": "sse",
            "url": "https://mcp.linear.app/sse",
            "headers": {"Authorization": "Bearer ${env:LINEAR}"},
        },
    }
    assert [one.name for one in found.drafts if one.disabled] == ["off"]


def test_codex() -> None:
    found = imported("codex")
    assert entries(found) == {
        "context7": {
            "command": "npx",
            "args": ["-y", "@upstash/context7-mcp"],
            "env": {
                "LOCALE": "en $${US}",
                "CONTEXT7_HOME": "${env:CONTEXT7_HOME}",
                "CONTEXT7_EXTRA": "${env:CONTEXT7_EXTRA}",
            },
            "cwd": "/srv/context7",
            "timeouts": {"start": "20s", "call": "45500ms"},
            "tools": {"allow": ["search", "get[*]"], "deny": ["delete"]},
            "required": False,
        },
        "figma": {
            "type": "http",
            "url": "https://mcp.figma.com/mcp",
            "headers": {
                "X-Figma-Region": "us-east-1",
                "Authorization": "Bearer ${env:FIGMA_OAUTH_TOKEN}",
                "X-Team": "${env:FIGMA_TEAM}",
            },
            "required": False,
        },
    }
    assert [one.name for one in found.drafts if one.disabled] == ["old"]


def test_gemini_cli() -> None:
    found = imported("gemini")
    assert entries(found) == {
        "python": {
            "command": "python",
            "args": ["-m", "my_mcp", "--key", "${env:PLAIN_ARG}"],
            "cwd": "./mcp_tools",
            "env": {"DATABASE_URL": "${env:DB_CONNECTION_STRING}", "API_KEY": "${env:EXTERNAL_API_KEY}"},
            "timeouts": {"call": "15s"},
            "tools": {"allow": ["safe_tool"], "deny": ["dangerous_tool"]},
        },
        "http": {
            "type": "http",
            "url": "https://http.example.com/mcp",
            "headers": {"Authorization": "Bearer ${env:KEY}"},
        },
        "sse": {"type": "sse", "url": "https://sse.example.com/sse"},
        "typed": {"type": "http", "url": "https://typed.example.com/mcp"},
    }
    assert left(found) == {"python": (("trust", "has no counterpart in a profile"),)}


def test_zed_with_its_agents_and_its_older_form() -> None:
    found = imported("zed")
    assert entries(found) == {
        "My-Agent": {"command": "node", "args": ["/opt/agent/index.js", "--acp"], "env": {"MODE": "x"}},
        "local-mcp-server": {"command": "some-command", "args": ["arg-1"]},
        "old-form": {"command": "/usr/bin/old", "args": ["-v"], "env": {"A": "1"}},
        "remote-mcp-server": {
            "type": "http",
            "url": "https://mcp.example.com",
            "headers": {"Authorization": "Bearer ${secret:remote-mcp-server}"},
        },
    }
    assert unfit(found) == {
        "gemini": "its command is not in the file: the editor installs it",
        "from-extension": "its command is not in the file",
    }
    assert secrets(found) == {"remote-mcp-server": Secret("Zq81-kkLm-29fj")}


def test_a_placeholder_of_jetbrains_becomes_a_secret_that_is_still_to_be_set() -> None:
    found = imported("jetbrains")
    assert entries(found) == {
        "Example-Agent": {
            "command": "/path/to/agent",
            "args": ["acp"],
            "env": {"API_KEY": "${secret:Example-Agent/api-key}"},
        }
    }
    assert secrets(found) == {"Example-Agent/api-key": "the file has only a placeholder"}
    assert left(found) == {"Example-Agent": (("use_idea_mcp", "has no counterpart in a profile"),)}


def test_opencode() -> None:
    found = imported("opencode")
    assert entries(found) == {
        "everything": {
            "command": "npx",
            "args": ["-y", "@modelcontextprotocol/server-everything"],
            "env": {"TOKEN": "${env:EVERYTHING_TOKEN}", "TEXT": "{not} $${a} variable"},
            "timeouts": {"start": "10s"},
        },
        "sentry": {"type": "http", "url": "https://mcp.sentry.dev/mcp", "headers": {"X": "${env:X}"}},
    }
    assert left(found) == {
        "everything": (("environment.KEY", "is read from a file"),),
        "sentry": (("oauth", "is a login of that tool; write oauth: true for your own"),),
    }
    assert unfit(found) == {
        "empty": "it has neither a command nor a url",
        "override": "it has neither a command nor a url",
    }


def test_what_goose_keeps_in_its_own_store_becomes_a_secret_that_is_still_to_be_set() -> None:
    found = imported("goose")
    assert entries(found) == {
        "github": {
            "command": "npx",
            "args": ["-y", "@modelcontextprotocol/server-github", "$HOME"],
            "env": {"GITHUB_HOST": "github.com", "GITHUB_PERSONAL_ACCESS_TOKEN": "${secret:github}"},
            "timeouts": {"call": "2m"},
        },
        "nested": {"command": "nested-mcp"},
        "stream": {
            "type": "http",
            "url": "https://stream.example.com/mcp",
            "headers": {"Authorization": "Bearer ${secret:stream}", "X-Region": "${env:REGION}"},
        },
    }
    kept = "goose keeps it in its own store"
    assert secrets(found) == {"github": kept, "stream": kept}
    assert unfit(found) == {"developer": "it is part of goose itself"}


def test_acpx_with_its_lists_of_pairs() -> None:
    found = imported("acpx")
    assert entries(found) == {
        "linear": {
            "type": "http",
            "url": "https://mcp.linear.app/mcp",
            "headers": {"Authorization": "Bearer ${secret:linear}"},
        },
        "files": {"command": "files-mcp", "args": ["$${HOME}"], "env": {"DEBUG": "1"}},
        "files-2": {"command": "other-files-mcp"},
        "mine": {"command": "node", "args": ["agent.js", "--acp"]},
        "legacy": {"command": "legacy-agent", "args": ["acp"]},
    }
    assert secrets(found) == {"linear": Secret("lin_api_Ab12Cd34Ef56Gh78Ij90Kl12Mn34Op56")}


def test_of_claude_codes_projects_only_this_one_counts_and_comes_first() -> None:
    root = {
        "mcpServers": {"a": {"command": "user"}, "b": {"command": "user"}},
        "projects": {"/project": {"mcpServers": {"a": {"command": "mine"}}}, "/x": {"mcpServers": {"c": {}}}},
    }
    found = collect_drafts([(TOOLS["claude"], root)], "/project")
    assert entries(found) == {"a": {"command": "mine"}, "b": {"command": "user"}}


@pytest.mark.parametrize("tool", FILES)
def test_no_value_of_a_credential_is_in_anything_that_can_be_shown(tool: str) -> None:
    found = imported(tool)
    texts = [repr(found), str(found), repr(DraftBuilder())]
    for value in ("BSAq7Rk29fLmZt41vXw83NcD", "c0rrect-h0rse", "lin_api_Ab12", "Zq81-kkLm-29fj"):
        assert not any(value in text for text in texts)


ENTRY: dict[str, Any] = {"command": "x"}


def of_claude(**entry: Any) -> DraftSet:
    return collect_drafts([(TOOLS["claude"], {"mcpServers": {"s": {**ENTRY, **entry}}})], "/project")


@pytest.mark.parametrize("key", ["env", "headers"])
def test_what_a_list_holds_instead_of_names_and_values_is_said(key: str) -> None:
    """A variable that is missing makes it another server; and it may be a credential, so it is not repeated."""
    good = {"name": "A", "value": "1"}
    items = ["TOKEN=ghp_secret", good, {"name": "B"}, {"value": "x"}, {"name": 1, "value": "x"}, ["C", "d"], None, good]
    entry = {key: items} if key == "env" else {"command": None, "url": "https://x.example/mcp", key: items}
    found = of_claude(**entry)
    assert entries(found)["s"][key] == {"A": "1"}
    assert left(found)["s"] == (
        *((f"{key}[{index}]", "is not a name with a value") for index in (0, 2, 3, 4, 5, 6)),
        (f"{key}[7]", "names A again"),
    )


@pytest.mark.parametrize("key", ["env", "headers"])
@pytest.mark.parametrize("value", ["A=1", 7, True, [["A", "1"]] * 10_001])
def test_what_is_neither_a_map_nor_a_list_is_said(key: str, value: Any) -> None:
    entry = {key: value} if key == "env" else {"command": None, "url": "https://x.example/mcp", key: value}
    assert left(of_claude(**entry))["s"] == ((key, "is not a mapping of strings"),)


NUMBERS = {"A": "1.50", "B": "1e3", "C": "-0.0", "D": "10", "E": "123456789012345678901234567890.10"}


def written(tmp_path: Path, tool: str) -> Path:
    if tool == "codex":
        pairs = ", ".join(f"{name} = {number}" for name, number in NUMBERS.items())
        file, text = "config.toml", f"[mcp_servers.s]\ncommand = 'x'\nargs = [1.50]\nenv = {{{pairs}}}\n"
    elif tool == "goose":
        pairs = ", ".join(
            f"{name}: {number}" for name, number in {**NUMBERS, "F": "007", "G": "0x1F", "H": "+5"}.items()
        )
        file, text = "config.yaml", f"extensions:\n  s: {{cmd: x, args: [1.50], envs: {{{pairs}}}}}\n"
    else:
        pairs = ", ".join(f'"{name}": {number}' for name, number in NUMBERS.items())
        file, text = "a.json", f'{{"mcpServers": {{"s": {{"command": "x", "args": [1.50], "env": {{{pairs}}}}}}}}}'
    (tmp_path / file).write_text(text)
    return tmp_path / file


@pytest.mark.parametrize("tool", ["claude", "codex", "goose"])
def test_a_number_is_taken_over_as_it_is_written(tool: str, tmp_path: Path) -> None:
    """A version of 1.50 is none of 1.5."""
    found = entries(collect_drafts([(TOOLS[tool], read(written(tmp_path, tool), TOOLS[tool]).root)], "/project"))["s"]
    assert found["args"] == ["1.50"]
    more = {"F": "007", "G": "0x1F", "H": "+5"} if tool == "goose" else {}
    assert found["env"] == {**NUMBERS, **more}


def test_the_limits_and_tools_of_a_remote_server_are_kept_and_headers_of_the_connection_left_out() -> None:
    server = {
        "url": "https://mcp.figma.com/mcp",
        "http_headers": {"Accept": "application/json, text/event-stream", "X-Team": "a"},
        "startup_timeout_sec": 20,
        "disabled_tools": ["delete"],
    }
    found = collect_drafts([(TOOLS["codex"], {"mcp_servers": {"figma": server}})], "/project")
    assert entries(found)["figma"] == {
        "type": "http",
        "url": "https://mcp.figma.com/mcp",
        "headers": {"X-Team": "a"},
        "timeouts": {"start": "20s"},
        "tools": {"deny": ["delete"]},
    }
    assert left(found) == {"figma": (("http_headers.Accept", "is set by the connection itself"),)}
