"""
Named sessions for users and for scripts: pure functions from records to text.

Titles come from the agent, so control and direction characters are replaced; JSON is ASCII for the same reason. Names
are never cut, because users type them again.
"""

import json
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from acp_launch.mark import MARK

if TYPE_CHECKING:
    from acp_launch.session.store import Record

HEADINGS = ("NAME", "PROFILE", "TITLE", "LAST USED", "DIRECTORY")
TITLE, DIRECTORY = 2, 4  # the columns that give way when the terminal is narrow
NARROWEST = 9  # cells that each of them keeps
GAP = "  "
JOINERS = "\u200c\u200d"  # harmless formatting characters that Persian and emoji need
STEPS = ((60, 60, "minute"), (3600, 24, "hour"), (86400, 14, "day"), (7 * 86400, 9, "week"))  # seconds, up to, name


def table(records: "Sequence[Record]", *, now: float, home: str, width: int | None, zone: tzinfo | None = None) -> str:
    """Return the lines for `session list`; empty without records.

    `width` is the terminal's width in cells; None without a terminal, and then nothing is cut. `zone` is the time zone
    of dates; None for the local one.
    """
    if not records:
        return ""
    rows = [HEADINGS, *(_row(record, now, home, zone) for record in records)]
    widths = [max(cells(row[column]) for row in rows) for column in range(len(HEADINGS))]
    if width is not None:
        widths = _narrowed(widths, width)
    return "\n".join(_line(row, widths) for row in rows)


def details(record: "Record", *, now: float, home: str, zone: tzinfo | None = None) -> str:
    """Return the lines for `session show`."""
    agent = f"{record.agent_name} {record.agent_version}".strip()
    shown = {
        "name": record.name,
        "profile": record.profile,
        "project": tilde(record.project, home),
        "title": _flowing(record.title),
        "session id": record.session_id,
        "agent": agent,
        "command": record.agent_command,
        "directory": tilde(record.cwd, home),
        "created": f"{_moment(record.created, zone)} ({ago(record.created, now=now, zone=zone)})",
        "last used": f"{_moment(record.last_used, zone)} ({ago(record.last_used, now=now, zone=zone)})",
    }
    return "\n".join(f"{label + ':':<12}{plain(value)}" for label, value in shown.items() if value)


def table_json(records: "Sequence[Record]") -> str:
    """Return the JSON for `session list --json`: objects as in `details_json`."""
    return json.dumps({"sessions": [asdict(record) for record in records]}, indent=2)


def details_json(record: "Record") -> str:
    """Return the JSON for `session show --json`: every field by its name in Record, times in Unix seconds."""
    return json.dumps(asdict(record), indent=2)


def ago(moment: float, *, now: float, zone: tzinfo | None = None) -> str:
    """Return `3 hours ago`; a date if that is two months ago or more, or in the future by a minute or more."""
    age = now - moment
    if -60 < age < 60:
        return "just now"
    for unit, up_to, name in STEPS:
        if 0 < age < unit * up_to:
            count = int(age // unit)
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return _moment(moment, zone)[:10]


def tilde(path: str, home: str) -> str:
    """Return `path` with `~` for the home directory."""
    if home in ("", "/"):
        return path
    return "~" + path.removeprefix(home) if path == home or path.startswith(f"{home}/") else path


def plain(text: str) -> str:
    """Return `text` on one line, safe to print on any terminal."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_printable, text))


def cells(text: str) -> int:
    """Return how many columns of a terminal `text` takes."""
    return len(text) if text.isascii() else sum(_cells(character) for character in text)


def _row(record: "Record", now: float, home: str, zone: tzinfo | None) -> tuple[str, ...]:
    used = ago(record.last_used, now=now, zone=zone)
    texts = (record.name, record.profile, _flowing(record.title), used, tilde(record.cwd, home))
    return tuple(plain(text) for text in texts)


def _narrowed(widths: list[int], width: int) -> list[int]:
    """Narrow the wider of title and directory, cell by cell, until the row fits or both have the least width."""
    widths = list(widths)
    while sum(widths) + len(GAP) * (len(widths) - 1) > width:
        widest = max(TITLE, DIRECTORY, key=lambda column: widths[column])
        if widths[widest] <= NARROWEST:
            break
        widths[widest] -= 1
    return widths


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    fitted = [
        _fit(text, width, tail=column == DIRECTORY)
        for column, (text, width) in enumerate(zip(row, widths, strict=True))
    ]
    return GAP.join(text + " " * (width - cells(text)) for text, width in zip(fitted, widths, strict=True)).rstrip()


def _fit(text: str, width: int, *, tail: bool) -> str:
    """Cut `text` to `width` cells, with `…` at the cut; `tail` keeps its end instead of its beginning."""
    if cells(text) <= width:
        return text
    kept = text
    while cells(kept) > width - 1:
        kept = kept[1:] if tail else kept[:-1]
    return f"…{kept}" if tail else f"{kept}…"


def _flowing(title: str) -> str:
    """Put a title on one line, since agents take titles from prompts, line breaks included."""
    return " ".join(title.split())


def _printable(character: str) -> str:
    if character.isspace():
        return " "
    hidden = unicodedata.category(character) in ("Cc", "Cf", "Cs") or character == MARK
    return "\N{REPLACEMENT CHARACTER}" if hidden and character not in JOINERS else character


def _cells(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _moment(moment: float, zone: tzinfo | None) -> str:
    return datetime.fromtimestamp(moment, zone).strftime("%Y-%m-%d %H:%M:%S")


# The agent's own list of sessions (`session list --agent`), read leniently because any member may be missing.


COLUMNS = ("sessionId", "updatedAt", "cwd", "title")
OF_THE_AGENT = ("SESSION ID", "UPDATED", "DIRECTORY", "TITLE")


def agent_table(found: Sequence[Mapping[str, Any]], *, home: str) -> str:
    """Return lines for users. Session ids are never cut, because users compare them."""
    rows = [OF_THE_AGENT, *(tuple(_cell(session.get(column), home) for column in COLUMNS) for session in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS) - 1)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=True)), row[-1]]).rstrip()
        for row in rows
    )


def agent_json(found: Sequence[Mapping[str, Any]]) -> str:
    """Return everything the agent sent, unchanged."""
    return json.dumps({"sessions": list(found)}, indent=2)


def _cell(value: object, home: str) -> str:
    return plain(" ".join(tilde(value, home).split())) if isinstance(value, str) else ""
