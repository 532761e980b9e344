"""
Named sessions for users and for scripts: pure functions from records to text.

Titles come from the agent, so control and direction characters are replaced; JSON is ASCII for the same reason. Names
are never cut, because users type them again.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from acp_launch.console.stderr import harmless
from acp_launch.console.stdout import columns, labelled
from acp_launch.session.hold import is_fresh

if TYPE_CHECKING:
    from acp_launch.session.history import SessionTurn
    from acp_launch.session.store import Record

HEADINGS = ("NAME", "PROFILE", "TITLE", "TURNS", "LAST USED", "DIRECTORY")
TITLE, DIRECTORY = 2, 5  # the columns that give way when the terminal is narrow
STEPS = ((60, 60, "minute"), (3600, 24, "hour"), (86400, 14, "day"), (7 * 86400, 9, "week"))  # seconds, up to, name


States = Mapping[tuple[str, str, str], str]  # of sessions that hosts hold, by project, profile and name


def table(
    records: "Sequence[Record]",
    *,
    now: float,
    home: str,
    width: int | None,
    states: States = MappingProxyType({}),
) -> str:
    """Return the lines for `session list`; empty without records.

    `width` is the terminal's width in cells; None without a terminal, and then nothing is cut. Where a session has a
    state, there is a column for it.
    """
    if not records:
        return ""
    rows = [HEADINGS, *(_row(record, now, home) for record in records)]
    known = [states.get(record.key, "") for record in records]
    if any(known):
        rows = [(*row, state) for row, state in zip(rows, ["STATE", *known], strict=True)]
    return "\n".join(columns(rows, width=width, ends=[TITLE], starts=[DIRECTORY]))


def display_name(name: str, title: str) -> str:
    """Return what users call a session: its name, or the title of a session that they did not name."""
    return _one_line(title) or name if is_fresh(name) else name


CHOICE = ("SESSION", "LAST USED", "TURNS", "PROFILE")


def choice_row(record: "Record", *, now: float) -> tuple[str, ...]:
    """Return the texts of a session under the headings `CHOICE`, for the user to choose one."""
    name, title = display_name(record.name, record.title), _one_line(record.title)
    shown = f"{name}: {title}" if title and name != title else name
    return (shown, ago(record.last_used, now=now), str(record.turns or ""), record.profile)


def details(record: "Record", *, now: float, home: str) -> str:
    """Return the lines for `session show`."""
    agent = f"{record.agent_name} {record.agent_version}".strip()
    texts = {
        "name": record.name,
        "profile": record.profile,
        "project": tilde(record.project, home),
        "title": _one_line(record.title),
        "session id": record.session_id,
        "turns": str(record.turns or ""),
        "agent": agent,
        "command": record.agent_command,
        "directory": tilde(record.cwd, home),
        "created": f"{_moment(record.created)} ({ago(record.created, now=now)})",
        "last used": f"{_moment(record.last_used)} ({ago(record.last_used, now=now)})",
    }
    return labelled(texts)


def table_json(records: "Sequence[Record]", states: States = MappingProxyType({})) -> dict[str, Any]:
    """Return the JSON for `session list --json`: the fields of each record, and a `state` where a host has one."""
    found = [(asdict(record), states.get(record.key)) for record in records]
    return {"sessions": [fields | ({"state": state} if state else {}) for fields, state in found]}


def ago(moment: float, *, now: float) -> str:
    """Return `3 hours ago`; a date if that is two months ago or more, or in the future by a minute or more."""
    age = now - moment
    if -60 < age < 60:
        return "just now"
    for unit, up_to, name in STEPS:
        if 0 < age < unit * up_to:
            count = int(age // unit)
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return _moment(moment)[:10]


def tilde(path: str, home: str) -> str:
    """Return `path` with `~` for the home directory."""
    if home in ("", "/"):
        return path
    return "~" + path.removeprefix(home) if path == home or path.startswith(f"{home}/") else path


def _row(record: "Record", now: float, home: str) -> tuple[str, ...]:
    used = ago(record.last_used, now=now)
    title = _one_line(record.title)
    name = "" if title and display_name(record.name, title) == title else record.name
    return (name, record.profile, title, str(record.turns or ""), used, tilde(record.cwd, home))


def _one_line(title: str) -> str:
    """Put a title on one line, since agents take titles from prompts, line breaks included."""
    return " ".join(title.split())


def turn_json(turn: "SessionTurn") -> dict[str, Any]:
    """Return a turn as data, with its time in UTC."""
    return {**asdict(turn), "time": datetime.fromtimestamp(turn.time, UTC).isoformat(timespec="seconds")}


def turn_text(turn: "SessionTurn") -> str:
    """Return a turn for readers: the prompt quoted, then the tool calls, then the answer."""
    prompt = "\n".join(f"> {line}" for line in turn.prompt.splitlines())
    tools = "\n".join(f"- {_one_line(each)}" for each in turn.tools)
    end = "" if turn.stop_reason in ("end_turn", "") else f"({turn.stop_reason})"
    parts = (_moment(turn.time), prompt, tools, turn.answer.strip("\n"), end)
    return harmless("\n".join(filter(None, parts))) + "\n"


def _moment(moment: float) -> str:
    return datetime.fromtimestamp(moment).strftime("%Y-%m-%d %H:%M:%S")


# The agent's own list of sessions (`session list --agent`), read leniently because any member may be missing.


COLUMNS = ("sessionId", "updatedAt", "cwd", "title")
OF_THE_AGENT = ("SESSION ID", "UPDATED", "DIRECTORY", "TITLE")


def agent_table(found: Sequence[Mapping[str, Any]], *, home: str) -> str:
    """Return lines for users. Session ids are never cut, because users compare them."""
    cells = ([session.get(column) for column in COLUMNS] for session in found)
    rows = [[_one_line(tilde(cell, home)) if isinstance(cell, str) else "" for cell in row] for row in cells]
    return "\n".join(columns([OF_THE_AGENT, *rows]))
