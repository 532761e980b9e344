"""What an agent says of its own sessions (`session list --agent`): lenient, because every member may be missing."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from acp_launch.console.sessions import plain, tilde

COLUMNS = ("sessionId", "updatedAt", "cwd", "title")
HEADINGS = ("SESSION ID", "UPDATED", "DIRECTORY", "TITLE")


def table(found: Sequence[Mapping[str, Any]], *, home: str) -> str:
    """Lines for people; session ids are never cut, they are there to be compared."""
    rows = [HEADINGS, *(tuple(_cell(session.get(column), home) for column in COLUMNS) for session in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS) - 1)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=True)), row[-1]]).rstrip()
        for row in rows
    )


def as_json(found: Sequence[Mapping[str, Any]]) -> str:
    """Everything the agent said, unchanged."""
    return json.dumps({"sessions": list(found)}, indent=2)


def _cell(value: object, home: str) -> str:
    return plain(" ".join(tilde(value, home).split())) if isinstance(value, str) else ""
