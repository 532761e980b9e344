"""
What the demo programs keep on disk, in `$ACP_DEMO_HOME` or a directory of the user's state: lines that are appended.

A session is a journal, `sessions/<id>.jsonl`. Its first line describes it, the others are records in their order:
`{"title": …}`, `{"turn": the prompt's text}` and `{"update": a session/update}`.
"""

import json
import os
import re
import sys
import time
from pathlib import Path

from acp_launch.demo.wire import NOT_FOUND, Message, RpcError

SAFE = re.compile(r"[0-9a-f]{32}")  # the form that `create` makes; no other name is our file


def home() -> Path:
    """Return the directory of the demo programs; created if missing, readable by its owner alone."""
    if chosen := os.environ.get("ACP_DEMO_HOME"):
        directory = Path(chosen).absolute()
    elif sys.platform == "darwin":
        directory = Path.home() / "Library" / "Application Support" / "acp-launch" / "demo"
    else:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        directory = Path(state, "acp-launch", "demo").absolute()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory


def append(path: Path, data: bytes, *, create: bool) -> None:
    """Append with one `write`, so that other processes may append at the same time."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | (os.O_CREAT if create else 0), 0o600)
    try:
        written = os.write(descriptor, data)
        now = time.time_ns()  # by the file system's own clock, two sessions of a few ms would have the same time
        os.utime(path, ns=(now, now))
    finally:
        os.close(descriptor)
    if written != len(data):
        raise OSError(f"the disk took {written} of {len(data)} bytes")


class Store:
    """The sessions on disk."""

    def __init__(self) -> None:
        self._folder = home() / "sessions"
        self._folder.mkdir(mode=0o700, exist_ok=True)

    def create(self, cwd: str, directories: list[str]) -> str:
        identity = os.urandom(16).hex()
        head = {"sessionId": identity, "cwd": cwd, "additionalDirectories": directories}
        append(self._path(identity), _line(head), create=True)
        return identity

    def append(self, identity: str, record: Message) -> None:
        """Add a record. A session that was deleted, also by another process, is not created again."""
        try:
            append(self._path(identity), _line(record), create=False)
        except FileNotFoundError as error:
            raise _no_session(identity) from error

    def read(self, identity: str) -> tuple[Message, list[Message]]:
        """Return the session and its records; RpcError (-32002) if there is none, or its file is damaged."""
        try:
            head, *records = _parse_lines(self._path(identity).read_bytes()) or [{}]
        except FileNotFoundError as error:
            raise _no_session(identity) from error
        if not _is_head(head, identity):
            raise _no_session(identity)
        return head, records

    def delete(self, identity: str) -> None:
        """Delete a session; a missing one is ignored."""
        if SAFE.fullmatch(identity):
            self._path(identity).unlink(missing_ok=True)

    def list_sessions(self) -> list[Message]:
        """Return the entries of `session/list`, last used first; damaged files have none."""
        found: list[tuple[float, Message]] = []
        for path in self._folder.glob("*.jsonl"):
            try:
                head, *records = _parse_lines(path.read_bytes()) or [{}]
                used = path.stat().st_mtime
            except FileNotFoundError:  # deleted by another process
                continue
            if _is_head(head, path.stem):
                stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(used))
                title = next(({"title": each["title"]} for each in records if "title" in each), {})
                found.append((used, {**head, **title, "updatedAt": stamp}))
        return [entry for _, entry in sorted(found, key=lambda each: each[0], reverse=True)]

    def _path(self, identity: str) -> Path:
        if not SAFE.fullmatch(identity):
            raise _no_session(identity)
        return self._folder / f"{identity}.jsonl"


def _line(record: Message) -> bytes:
    """After a line that was cut off, by a crash or a full disk, the newline in front begins a new one."""
    return b"\n" + json.dumps(record, separators=(",", ":")).encode() + b"\n"


def _parse_lines(content: bytes) -> list[Message]:
    found = []
    for line in content.split(b"\n"):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            found.append(record)
    return found


def _is_head(record: Message, identity: str) -> bool:
    return record.get("sessionId") == identity and isinstance(record.get("cwd"), str)


def _no_session(identity: str) -> RpcError:
    return RpcError(NOT_FOUND, f"no session {identity[:64]!r}")
