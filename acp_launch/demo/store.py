"""
The demo agent's sessions on disk: one append-only journal per session, `sessions/<id>.jsonl`.

The first line is the session itself, the others are records in the order they happened: `{"title": …}`,
`{"turn": the prompt's text}` and `{"update": a session/update}`. A journal appears whole (written aside, then renamed)
and grows by single appends, so `kill -9` costs at most its unfinished last line, and processes do not disturb each
other. Listing reads only the first two lines of each.
"""

import json
import os
import re
import time
from pathlib import Path

from acp_launch.demo import home
from acp_launch.demo.wire import INTERNAL_ERROR, INVALID_PARAMS, NOT_FOUND, Message, RpcError

PAGE = 20  # sessions; small, so that paging is really met
HEAD = 1 << 20  # bytes; the longest first line we believe
SAFE = re.compile(r"[0-9a-f]{32}")  # what `create` makes; anything else cannot be a file of ours


class Store:
    def __init__(self) -> None:
        self._folder = home.directory() / "sessions"
        self._folder.mkdir(mode=0o700, exist_ok=True)

    def create(self, cwd: str, directories: list[str]) -> str:
        identity = os.urandom(16).hex()
        head = {"sessionId": identity, "cwd": cwd, "additionalDirectories": directories}
        aside = self._folder / f".{identity}"
        home.append(aside, _line(head), create=True)
        aside.replace(self._path(identity))
        return identity

    def append(self, identity: str, record: Message) -> None:
        """Add a record. A session deleted meanwhile, by us or by another process, does not come back."""
        try:
            home.append(self._path(identity), _line(record), create=False)
        except FileNotFoundError as error:
            raise _unknown(identity) from error

    def read(self, identity: str) -> tuple[Message, list[Message]]:
        """The session and its records.

        Raises:
            RpcError: -32002 no such session, -32603 its file is damaged.
        """
        path = self._path(identity)
        try:
            lines = [_parse(line) for line in _whole_lines(path)]
        except FileNotFoundError as error:
            raise _unknown(identity) from error
        head, *records = [line for line in lines if line is not None] or [{}]
        if None in lines or head.get("sessionId") != identity or not isinstance(head.get("cwd"), str):
            raise RpcError(INTERNAL_ERROR, f"the file of session {identity} is damaged; it was left as it is: {path}")
        return head, records

    def delete(self, identity: str) -> None:
        """Forget a session; one that does not exist is forgotten already."""
        if SAFE.fullmatch(identity):
            self._path(identity).unlink(missing_ok=True)

    def page(self, cwd: str | None, cursor: str | None) -> tuple[list[Message], str | None]:
        """Up to PAGE sessions, last used first, and the cursor of the next page if there is one."""
        places = sorted(self._places(), reverse=True)
        if cursor is not None:
            after = _place(cursor)
            places = [place for place in places if place < after]
        found: list[Message] = []
        last = (0, "")
        for place in places:
            item = self._item(*place)
            if item is None or (cwd is not None and item["cwd"] != cwd):
                continue
            if len(found) == PAGE:
                return found, f"{last[0]} {last[1]}".encode().hex()
            found.append(item)
            last = place
        return found, None

    def _path(self, identity: str) -> Path:
        if not SAFE.fullmatch(identity):
            raise _unknown(identity)
        return self._folder / f"{identity}.jsonl"

    def _places(self) -> list[tuple[int, str]]:
        places = []
        for path in self._folder.glob("*.jsonl"):
            try:
                places.append((path.stat().st_mtime_ns, path.stem))
            except FileNotFoundError:  # deleted by another process since the directory was read
                continue
        return places

    def _item(self, used: int, identity: str) -> Message | None:
        """What `session/list` shows of a session; None when its file is gone or damaged."""
        try:
            with self._path(identity).open("rb") as file:
                head, second = _parse(file.readline(HEAD)), _parse(file.readline(HEAD))
        except (OSError, RpcError):
            return None
        if head is None or head.get("sessionId") != identity or not isinstance(head.get("cwd"), str):
            return None
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(used / 1e9))
        title = {"title": second["title"]} if second and isinstance(second.get("title"), str) else {}
        return {**head, **title, "updatedAt": stamp}


def _whole_lines(path: Path) -> list[bytes]:
    """The finished lines. An unfinished last one, left by a crash in the middle of a write, is cut off."""
    with path.open("r+b") as file:
        home.lock(file.fileno())
        content = file.read()
        whole, newline, torn = content.rpartition(b"\n")
        if torn and newline:
            file.truncate(len(content) - len(torn))
    return whole.split(b"\n")


def _line(record: Message) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def _parse(line: bytes) -> Message | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _place(cursor: str) -> tuple[int, str]:
    try:
        used, identity = bytes.fromhex(cursor).decode().split(" ")
        return int(used), identity
    except ValueError as error:
        raise RpcError(INVALID_PARAMS, "this cursor is not one of ours") from error


def _unknown(identity: str) -> RpcError:
    return RpcError(NOT_FOUND, f"no session {identity[:64]!r}")
