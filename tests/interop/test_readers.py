"""Each tool's format, by files written from its public documentation, and what of each becomes part of a profile."""

import json
from pathlib import Path
from typing import Any

import pytest

from acp_launch.interop.drafts import DraftBuilder, DraftSet, collect_drafts, fill
from acp_launch.interop.tools import TOOLS, Source, read

CONFIGS = Path(__file__).parent / "configs"
FILES = {
    "claude-desktop": "claude_desktop_config.json",
    "claude": "claude.mcp.json",
    "vscode": "vscode.mcp.json",
    "cursor": "cursor.mcp.json",
    "codex": "codex.config.toml",
    "gemini": "gemini.settings.json",
    "qwen": "qwen.settings.json",
    "copilot": "copilot.mcp-config.json",
    "cline": "cline_mcp_settings.json",
    "roo": "roo.mcp.json",
    "kiro": "kiro.mcp.json",
    "windsurf": "windsurf.mcp_config.json",
    "zed": "zed.settings.json",
    "jetbrains": "jetbrains.acp.json",
    "opencode": "opencode.jsonc",
    "crush": "crush.json",
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


def secrets(found: DraftSet) -> dict[str, str]:
    """The value of each secret, or why it is unknown."""
    pairs = zip(found.names(), found.tokens, strict=True)
    return {name: token.secret.expose() if token.secret is not None else token.why for name, token in pairs}


def expected(tool: str) -> Any:
    """What the file of a tool becomes, and what `test_writers.PROFILE` becomes in it."""
    return json.loads((CONFIGS.parent / "expected" / f"{tool}.json").read_text())


def test_there_is_a_file_for_every_tool() -> None:
    assert FILES.keys() == TOOLS.keys()


@pytest.mark.parametrize("tool", FILES)
def test_a_tools_file_becomes_these_entries_of_a_profile(tool: str) -> None:
    found = imported(tool)
    made = {
        "entries": entries(found),
        "secrets": secrets(found),
        "left": left(found),
        "unfit": unfit(found),
        "disabled": [one.name for one in found.drafts if one.disabled],
    }
    assert json.loads(json.dumps({key: value for key, value in made.items() if value})) == expected(tool)["imported"]


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
@pytest.mark.parametrize("value", ["A=1", 7, True])
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
