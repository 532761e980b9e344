"""The README leaves nothing out that a user can write or meet: its tables are held against the code."""

import json
import re
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from acp_launch.cli.app import app
from acp_launch.interactive.commands import COMMANDS
from acp_launch.protocol.offers import Offers
from acp_launch.session.client import CHUNKS
from acp_launch.session.options.state import KINDS as TOLD
from acp_launch.session.toolcall import KINDS as CALLS
from tests.test_readme import README, ROOT

TERMINALS = " ".join(f"`terminal/{verb}`" for verb in ("create", "output", "wait_for_exit", "kill", "release"))


def test_every_verb_and_every_option_of_run_is_in_the_tables_of_commands() -> None:
    verbs = dict(_verbs(get_command(app)))
    options = [
        option.opts[-1] if option.opts[-1].startswith("--") else option.opts[0] for option in verbs["run"].params
    ]
    told = _section("Commands")
    assert [verb for verb in verbs if f"`{verb}" not in told] == []
    assert [option for option in options if option.startswith("-") and f"`{option}" not in told] == []


def test_every_command_of_an_interactive_session_is_in_its_table() -> None:
    told = _section("A session to sit in front of")
    hinted = [f"{name} {command.hint}".strip() for name, command in COMMANDS.items()]
    assert [command for command in hinted if f"`{command}`" not in told] == []


def test_every_key_of_a_profile_is_in_the_reference() -> None:
    told = re.findall(r"[a-z_]+", _section("Profile reference"))
    assert sorted(_keys(json.loads((ROOT / "schema.json").read_text())) - set(told)) == []


def test_every_method_that_is_served_and_every_kind_of_update_that_is_known_is_in_the_tables_of_acp() -> None:
    told = _section("All of ACP").replace("`terminal/create`, `output`, `wait_for_exit`, `kill`, `release`", TERMINALS)
    everything = Offers(read_files=True, write_files=True, terminals=True, forms=True, urls=True)
    known = [*sorted(everything.methods), *sorted(CHUNKS | CALLS | TOLD)]
    assert [name for name in known if f"`{name}`" not in told] == []


def test_every_event_is_in_the_table_of_events() -> None:
    """Each type is written once, in the module that writes them."""
    written = (ROOT / "acp_launch" / "console" / "ndjson.py").read_text()
    types = re.findall(r'(?:emit\(|return |\(True, |\(False, )"([a-z]+)"', written)
    assert {"permission", "file", "terminal", "update", "replay"} <= set(types)
    assert [type for type in types if f"| `{type}` |" not in _section("Events")] == []


def _section(title: str) -> str:
    """From its heading to the next of the same rank."""
    (found,) = re.findall(
        rf"^## {re.escape(title)}\n(.*?)(?=^#{{1,2}} |\Z)", _without_blocks(), re.DOTALL | re.MULTILINE
    )
    return str(found)


def _without_blocks() -> str:
    """A comment in a shell block is no heading."""
    return re.sub(r"^```.*?^```$", "", README.read_text(), flags=re.DOTALL | re.MULTILINE)


def _verbs(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if hasattr(command, "commands"):
        for name, below in command.commands.items():
            yield from _verbs(below, (*path, name))
    else:
        yield " ".join(path), command


def _keys(schema: Any) -> set[str]:
    """The names of all properties, at any depth."""
    if isinstance(schema, list):
        return set().union(*map(_keys, schema))
    if not isinstance(schema, dict):
        return set()
    return set(schema.get("properties", {})).union(*map(_keys, schema.values()))
