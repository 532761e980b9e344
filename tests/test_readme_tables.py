"""docs/ leaves nothing out that a user can write or meet: its tables are held against the code."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import typer
from typer.main import get_command

from acp_launch import errors
from acp_launch.cli.app import app
from acp_launch.console.doctor import __doc__ as doctors_answer
from acp_launch.interactive.commands import COMMANDS
from acp_launch.interop.tools import TOOLS, Host, places
from acp_launch.profile.agents import AGENTS
from acp_launch.protocol.acp import Offers
from acp_launch.protocol.conversation import WORDS
from acp_launch.session.events import TYPES
from acp_launch.session.state import KINDS as CALLS
from acp_launch.session.state import OPTION_KINDS as TOLD
from tests.test_readme import ROOT

TERMINALS = " ".join(f"`terminal/{verb}`" for verb in ("create", "output", "wait_for_exit", "kill", "release"))


def test_every_verb_and_every_option_of_run_is_in_the_tables_of_commands() -> None:
    verbs = dict(_verbs(get_command(app)))
    options = [
        option.opts[-1] if option.opts[-1].startswith("--") else option.opts[0] for option in verbs["run"].params
    ]
    told = _section("commands")
    assert [verb for verb in verbs if f"`{verb}" not in told] == []
    assert [option for option in options if option.startswith("-") and f"`{option}" not in told] == []


def test_every_command_of_an_interactive_session_is_in_its_table() -> None:
    told = _section("session", "Commands in a session")
    hinted = [f"{name} {command.hint}".strip() for name, command in COMMANDS.items()]
    assert [command for command in hinted if f"`{command}`" not in told] == []


def test_each_type_of_an_event_is_told_with_its_members() -> None:
    rows = dict(re.findall(r"^\| `([a-z]+)` \|(.*)", _section("scripting", "Events"), re.MULTILINE))
    shapes = [msgspec.inspect.type_info(each) for each in TYPES]
    told: dict[str, list[str]] = {}
    for shape in shapes:
        assert isinstance(shape, msgspec.inspect.StructType)
        names = [member.encode_name for member in shape.fields if member.encode_name != "time"]
        told[str(shape.tag)] = [name for name in names if f"`{name}`" not in rows[str(shape.tag)]]
    assert told == {key: [] for key in rows}
    assert list(told) == list(rows)


def test_every_key_of_a_profile_is_in_the_reference() -> None:
    told = re.findall(r"[a-z_]+", _section("profiles", "Keys of a profile"))
    assert sorted(_keys(json.loads((ROOT / "schema.json").read_text())) - set(told)) == []


def test_every_verb_that_takes_trust_is_named() -> None:
    taking = {
        verb for verb, command in _verbs(get_command(app)) if any("--trust" in each.opts for each in command.params)
    }
    (line,) = re.findall(r"^(`mcp inspect`.*) take `--trust`", _section("commands"), re.MULTILINE)
    group, named = "", {"run", "doctor", "export"}
    for verb in re.findall(r"`([a-z -]+)`", line):
        group = verb.split()[0] if " " in verb else group
        named.add(verb if " " in verb or verb in ("login", "logout", "up", "serve") else f"{group} {verb}")
    assert named == taking


def test_every_option_of_the_verbs_about_other_tools_trust_and_beginning_is_told() -> None:
    verbs = dict(_verbs(get_command(app)))
    lines = _section("commands").splitlines()
    for verb in ("init", "import", "export", "trust", "doctor", "profile add-server", "show"):
        (line,) = [line for line in lines if line.startswith(f"| `{verb} ")]
        spelled = [each for one in verbs[verb].params for each in (one.opts, one.secondary_opts) if each]
        options = [max(each, key=len) for each in spelled if each[0].startswith("-")]
        assert [option for option in options if option not in line and option != "--help"] == [], verb


def test_every_exit_code_of_ours_is_in_the_table() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.LaunchError)]
    codes = {kind.exit_code for kind in kinds} - {errors.Stopped.exit_code}
    assert {2, 3, 7} <= codes
    assert [code for code in sorted(codes) if f"\n| {code} |" not in _section("scripting", "Exit codes")] == []


def test_every_other_tool_is_told_with_its_files() -> None:
    lines = _section("interop", "The tools and their files").splitlines()
    told = {line.split("`")[1]: line for line in lines if "| `" in line}
    assert set(told) == set(TOOLS)
    home, project = Path("/home/me"), Path("/project")
    for name, tool in TOOLS.items():
        files = [str(file).replace("/home/me", "~") for file in places(tool, Host(home, {}, "linux"), project)]
        named = [file.removeprefix("/project/").replace(".jsonc", ".json") for file in files]
        assert [file for file in named if f"`{file}`" not in told[name]] == [], name


def test_every_agent_that_init_knows_is_named() -> None:
    told = _section("profiles", "Begin a profile")
    assert [name for name in AGENTS if f"`{name}`" not in told] == []


def test_every_member_of_doctors_answer_is_in_its_table() -> None:
    members = re.findall(r"^ {4,8}([a-z_]+(?:, [a-z]+)?) {2,}", doctors_answer or "", re.MULTILINE)
    names = [name for each in members for name in each.split(", ")]
    assert {"profile", "exit_code", "subject", "facts"} <= set(names)
    assert [name for name in names if f"`{name}`" not in _section("scripting", "The answer of doctor")] == []


def test_every_method_that_is_served_and_every_kind_of_update_that_is_known_is_in_the_tables_of_acp() -> None:
    told = _section("acp").replace("`terminal/create`, `output`, `wait_for_exit`, `kill`, `release`", TERMINALS)
    everything = Offers(read_files=True, write_files=True, terminals=True, forms=True, urls=True)
    known = [*sorted(everything.methods), *sorted(WORDS | CALLS | TOLD)]
    assert [name for name in known if f"`{name}`" not in told] == []


def _section(page: str, title: str = "") -> str:
    """A page without its blocks (a comment in one is not a heading); with a title, from it to the next heading."""
    text = (ROOT / "docs" / f"{page}.md").read_text()
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    if not title:
        return text
    (found,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    return str(found)


def _verbs(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if hasattr(command, "commands"):
        for name in command.commands:
            yield from _verbs(command.get_command(typer.Context(command), name), (*path, name))
    else:
        yield " ".join(path), command


def _keys(schema: Any) -> set[str]:
    """The names of all properties, at any depth."""
    if isinstance(schema, list):
        return set().union(*map(_keys, schema))
    if not isinstance(schema, dict):
        return set()
    return set(schema.get("properties", {})).union(*map(_keys, schema.values()))
