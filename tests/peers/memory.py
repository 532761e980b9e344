"""
What both peers share, standard library only: their sessions on disk, and a record of what the client wrote.

`ACP_TEST_HISTORY` names the directory of the sessions. When `ACP_TEST_TRANSCRIPT` names a file, every message is
appended to it, or to the one beside it for those that the peer sends, as `tests.oracle.check_transcript` wants it.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4


class Said(NamedTuple):
    role: str  # user or agent
    text: str


class Memory:
    """One file a session: its directory, then one line for everything that was said."""

    def __init__(self) -> None:
        self._directory = Path(os.environ["ACP_TEST_HISTORY"])
        self._directory.mkdir(exist_ok=True)

    def create(self, cwd: str) -> str:
        session_id = uuid4().hex
        self._append(session_id, cwd)
        return session_id

    def add(self, session_id: str, role: str, text: str) -> None:
        self._append(session_id, [role, text])

    def cwd(self, session_id: str) -> str:
        return str(self._lines(session_id)[0])

    def recall(self, session_id: str) -> list[Said]:
        return [Said(*said) for said in self._lines(session_id)[1:]]

    def sessions(self) -> Iterator[str]:
        return (path.stem for path in sorted(self._directory.glob("*.jsonl")))

    def forget(self, session_id: str) -> None:
        self._file(session_id).unlink()

    def _file(self, session_id: str) -> Path:
        return self._directory / f"{session_id}.jsonl"

    def _lines(self, session_id: str) -> list[Any]:
        return [json.loads(line) for line in self._file(session_id).read_text().splitlines()]

    def _append(self, session_id: str, entry: object) -> None:
        with self._file(session_id).open("a") as file:
            file.write(json.dumps(entry) + "\n")


def record(event: Any) -> None:
    """A stream observer of either SDK."""
    if path := os.environ.get("ACP_TEST_TRANSCRIPT"):
        with Path(path + ("" if event.direction.value == "incoming" else ".sent")).open("a") as file:
            file.write(json.dumps(event.message) + "\n")
