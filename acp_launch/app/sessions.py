"""Sessions of the store and of hosts, as users see them."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from msgspec.structs import replace

from acp_launch.console import sessions, stdout
from acp_launch.console.sessions import States
from acp_launch.console.stderr import YELLOW, tell
from acp_launch.console.stdout import terminal_width
from acp_launch.errors import StateError, UsageError
from acp_launch.problem import ours
from acp_launch.served.registry import any_host, hosts
from acp_launch.session.hold import Key

if TYPE_CHECKING:
    from acp_launch.served.wire import SessionStatus
    from acp_launch.session.store import Record


def session_label(record: "Record") -> str:
    """Return what users call a session."""
    return sessions.display_name(record.name, record.title)


def list_sessions(records: "Sequence[Record]", states: States | None = None) -> None:
    """Print a table of sessions."""
    width, home = terminal_width(), str(Path.home())
    stdout.line(sessions.table(records, now=time.time(), home=home, width=width, states=states or {}))


def refuse_to_choose(records: "Sequence[Record]") -> NoReturn:
    """Print the sessions, and the command that resumes the latest."""
    list_sessions(records)
    latest = records[0]
    fix = f"name one: {ours('run', latest.profile, '--session', latest.name)}"
    raise UsageError(f"there are {len(records)} sessions, and no terminal to choose one on", fix=fix)


def hosted_sessions(state: "Path") -> "dict[Key, SessionStatus]":
    """Return the sessions that hosts hold, by project, profile and name, with their states as users call them: runs,
    asks or idle. A host that does not answer is told of."""
    found: dict[Key, SessionStatus] = {}
    if not any_host(state):
        return found
    from acp_launch.served.connect import read_status

    for note in hosts(state):
        try:
            listed = read_status(note).sessions if note.socket else ()
        except StateError as error:
            tell(f"{error.message}", style=YELLOW)
            continue
        for each in listed:
            state_word = "runs" if each.state == "works" else each.state
            found[note.project, note.profile, each.name] = replace(each, state=state_word)
    return found
