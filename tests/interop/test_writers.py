"""A profile in the words of each tool, and the way there and back."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from acp_launch.document.yaml import parse
from acp_launch.interop.drafts import collect_drafts, fill
from acp_launch.interop.formats import Misfit
from acp_launch.interop.tools import EXPORTED, TOOLS, Host, Tool, own_place, places
from acp_launch.interop.tools import parse as parse_file
from acp_launch.interop.write import (
    ExportContext,
    Exported,
    ExportEntry,
    compare,
    export_entries,
    insert_entries,
    standalone_text,
)
from acp_launch.profile.check import check
from acp_launch.profile.model import Profile
from tests.interop.test_readers import FILES, entries, expected, imported

EXPORTABLE = [tool for tool in FILES if tool in EXPORTED]
AROUND = ExportContext("/project", "/home/me", "work", "/usr/bin/python3")
PROFILE = """
version: 1
agent:
  command: ./bin/agent
  args: [--acp]
  env: {MODE: fast, KEY: "${secret:agent}"}
mcp_servers:
  github:
    command: npx
    args: [-y, server-github, "--root=${project}/src"]
    env: {GITHUB_TOKEN: "${secret:github}", HOST: "${env:GH_HOST}", PLAIN: text}
    restart: {policy: always}
  docs:
    type: http
    url: https://docs.example.com/mcp
    headers: {Authorization: "Bearer ${secret:team/docs}", X-Tenant: acme}
"""


def profile(text: str) -> Profile:
    document, problems = parse(text, "p.yaml")
    assert document is not None
    checked, further = check(document)
    assert checked is not None, (problems, further)
    return checked


def export(tool: str, text: str = PROFILE) -> Exported:
    return export_entries(profile(text), TOOLS[tool], AROUND)


@pytest.mark.parametrize("tool", EXPORTABLE)
def test_a_profile_becomes_these_entries_of_a_tool(tool: str) -> None:
    found = structs.asdict(export(tool))
    assert json.loads(json.dumps({key: value for key, value in found.items() if value})) == expected(tool)["exported"]


@pytest.mark.parametrize("tool", EXPORTABLE)
def test_a_restriction_that_a_tool_cannot_say_is_spoken_of(tool: str) -> None:
    """Without its restriction the server would offer more tools than the user wants."""
    found = export(tool, PROFILE.replace("    restart: {policy: always}", '    tools: {deny: ["delete_*"]}'))
    assert tool == "jetbrains" or [note for note in found.notes if note.startswith("github: tools")]


@pytest.mark.parametrize(
    ("tool", "text"),
    [("claude", "a ${b}"), ("qwen", "a $b"), ("vscode", "a ${env:b}"), ("crush", "$(b)")],
)
def test_text_that_a_tool_would_take_for_a_variable_is_not_written(tool: str, text: str) -> None:
    ours = json.dumps(text.replace("${", "$${"))
    server = f'mcp_servers: {{a: {{type: http, url: "https://x", headers: {{X: {ours}}}}}}}'
    found = export(tool, f"version: 1\nagent: {{command: x}}\n{server}\n")
    title = TOOLS[tool].title
    assert found.notes[-1] == (f"a: headers.X is left out: it holds text that {title} would take for a variable")


@pytest.mark.parametrize("tool", ["vscode", "cursor", "roo", "windsurf", "claude-desktop"])
def test_a_variable_for_the_program_is_written_as_it_stands(tool: str) -> None:
    server = "{command: npx, args: [mcp-remote, 'https://x', --header, 'Authorization:$${AUTH}']}"
    found = export(tool, f"version: 1\nagent: {{command: x}}\nmcp_servers: {{a: {server}}}\n")
    assert found.servers["a"]["args"][-1] == "Authorization:${AUTH}"


@pytest.mark.parametrize("tool", [name for name in EXPORTABLE if TOOLS[name].servers])
def test_what_a_tool_says_comes_back_as_it_was(tool: str) -> None:
    """Import, export, import: the servers that could be said are the same, but for what the secrets are called."""
    first = imported(tool)
    agents = [one.name for one in first.drafts if one.kind == "agent"]
    servers = {name: entry for name, entry in entries(first).items() if name not in agents}
    text = json.dumps({"version": 1, "agent": {"command": "x"}, "mcp_servers": servers})
    found = export_entries(profile(text), TOOLS[tool], AROUND)
    again = collect_drafts([(TOOLS[tool], _read_back(TOOLS[tool], standalone_text(found, TOOLS[tool])))], "/project")
    names = ["s"] * len(again.tokens)
    back = {one.name: fill(one.shape, names) for one in again.drafts if one.kind == "server"}
    kept = {name: _nameless(entry) for name, entry in servers.items() if name in found.servers}
    noted = " ".join(found.notes)
    assert {name: _nameless(entry) for name, entry in back.items() if f"{name}:" not in noted} == {
        name: entry for name, entry in kept.items() if f"{name}:" not in noted
    }
    assert len(found.servers) >= len(servers) / 2


def _nameless(value: Any) -> Any:
    """Without what secrets are called; one that the tool takes from its environment is a variable there."""
    if isinstance(value, dict):
        return {key: _nameless(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_nameless(item) for item in value]
    if isinstance(value, str):
        text = "?".join(piece.partition("}")[2] if index else piece for index, piece in enumerate(value.split("${s")))
        return "?".join(piece.partition("}")[2] if index else piece for index, piece in enumerate(text.split("${env:")))
    return value


def _read_back(tool: Tool, text: str) -> Any:
    return parse_file(text, tool.syntax, "")[0]


@pytest.mark.parametrize("tool", EXPORTABLE)
def test_an_entry_is_added_to_a_real_file_and_everything_else_stays(tool: str) -> None:
    chosen, found = TOOLS[tool], export(tool)
    before = (Path(__file__).parent / "configs" / FILES[tool]).read_text()
    wanted = tuple(one for one in compare(found, chosen, _read_back(chosen, before)) if one.difference == "new")
    made = insert_entries(before, chosen, wanted, found.inputs)
    assert wanted
    lines = iter(made.splitlines())
    lost = [line for line in before.splitlines() if line.strip().strip(",") and not _comes(line, lines)]
    assert lost == []
    assert all(one.difference == "same" for one in compare(found, chosen, _read_back(chosen, made)) if one in wanted)
    again = compare(found, chosen, _read_back(chosen, made))
    assert [one.difference for one in again if one.name in {each.name for each in wanted}] == ["same"] * len(wanted)


def _comes(line: str, lines: Any) -> bool:
    """As it was, or with a comma more."""
    return any(other in (line, f"{line},") or other.startswith(f"{line.split(' //')[0]},") for other in lines)


def test_an_entry_of_the_same_name_is_replaced_only_where_it_stands() -> None:
    text = '{\n  // mine\n  "servers": {\n    "github": {"command": "mine"}, // here\n    "b": 1\n  }\n}\n'
    piece = ExportEntry("servers", "github", {"command": "x"}, "other")
    made = insert_entries(text, TOOLS["vscode"], (piece,), {})
    assert made == text.replace('{"command": "mine"}', '{\n      "command": "x"\n    }')


def test_a_file_in_which_a_key_comes_twice_is_left_alone() -> None:
    text = '{"servers": {"a": {}, "x": {}}, "servers": [1]}'
    with pytest.raises(Misfit):
        insert_entries(text, TOOLS["vscode"], (ExportEntry("servers", "x", {"command": "x"}, "new"),), {})


@pytest.mark.parametrize(("platform", "folder"), [("linux", ".config"), ("darwin", "Library/Application Support")])
def test_every_tool_has_a_place_on_every_system(platform: str, folder: str) -> None:
    machine = Host(Path("/home/me"), {}, platform)
    found = places(TOOLS["claude-desktop"], machine, Path("/p"))
    assert found == (Path("/home/me", folder, "Claude", "claude_desktop_config.json"),)
    assert all(places(tool, machine, Path("/p")) for tool in TOOLS.values())


def test_the_directories_a_person_chose_are_looked_into() -> None:
    chosen = {"XDG_CONFIG_HOME": "/c", "CODEX_HOME": "/x", "CLAUDE_CONFIG_DIR": "/d"}
    machine = Host(Path("/home/me"), chosen, "linux")
    assert places(TOOLS["zed"], machine, Path("/p"))[-1] == Path("/c/zed/settings.json")
    assert places(TOOLS["codex"], machine, Path("/p"))[-1] == Path("/x/config.toml")
    assert places(TOOLS["claude"], machine, Path("/p"))[-1] == Path("/d/.claude.json")


@pytest.mark.parametrize("tool", sorted(EXPORTABLE))
@pytest.mark.parametrize("scope", ["project", "user"])
def test_an_export_goes_into_the_file_that_is_there_by_whatever_name_the_tool_reads_it(
    tool: str, scope: str, tmp_path: Path
) -> None:
    """A second file beside it would be read, too, or instead of it."""
    machine = Host(tmp_path / "home", {}, "linux")
    project = tmp_path / "project"
    read = [
        file
        for file in places(TOOLS[tool], machine, project)
        if file.is_relative_to(tmp_path / scope.replace("user", "home"))
    ]
    for file in read:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")
        is_usual = (scope == "user" and tool in ("claude", "vscode", "cursor")) or (scope, tool) == ("project", "zed")
        assert (own_place(TOOLS[tool], machine, project) == file) is not is_usual
        file.unlink()
        file.symlink_to("nowhere")
        assert (own_place(TOOLS[tool], machine, project) == file) is not is_usual
        file.unlink()


def test_of_two_names_that_are_there_the_first_is_written_to(tmp_path: Path) -> None:
    for name in (".crush.json", "crush.json"):
        (tmp_path / name).write_text("{}")
        assert own_place(TOOLS["crush"], Host(tmp_path, {}, "linux"), tmp_path) == tmp_path / name


def test_the_variables_of_a_remote_server_are_headers_elsewhere_and_what_only_we_do_is_said() -> None:
    text = (
        "version: 1\nagent: {command: x}\nmcp_servers: {a: {type: http, url: 'https://x/', headers: {X: y},"
        " env: {REGION: eu}, tools: {deny: [b]}, restart: {max: 1}, timeouts: {start: 5s},"
        " oauth: true, protocol: legacy}}\n"
    )
    found = export("vscode", text)
    assert found.servers["a"]["headers"] == {"X": "y", "X-Env-REGION": "eu"}
    assert found.notes == (
        "a: timeouts.start is left out: VS Code has no such setting",
        "a: tools.deny is left out: VS Code has no such setting",
        "a: protocol, restart, oauth is left out: only acp-launch does that",
    )


@pytest.mark.parametrize("place", ["confined: true", "container: {image: x}", "ssh: {host: h, directory: /x}"])
def test_an_agent_that_leaves_its_place_is_told_of(place: str) -> None:
    found = export("zed", f"version: 1\nagent: {{command: a}}\nruntime: {{{place}}}\n")
    kind = place.partition(":")[0]
    assert found.notes[-1] == f"Zed starts the agent here, as you: it has no word for runtime.{kind}"
