"""
`fs/read_text_file` and `fs/write_text_file` (ACP v1 "file system", C-69, C-70): which files is in `beneath`.

Each is put before `allowed` first, a write with the change it would make. Between that and the write the file must
not have changed, so that nobody allows what they have not seen. A text that is written gets the line ends and the
byte order mark of the one it replaces: models drop both. What is read is given as it is, secrets and all: `***` in its
place would be written back.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from acp_launch.protocol import jsonrpc
from acp_launch.session.files.aside import aside
from acp_launch.session.files.beneath import Denied, Place
from acp_launch.session.files.filebox import FileBox
from acp_launch.session.service import FileServed, Refusal, Services, invalid

LIMIT = 10 * 1024 * 1024  # bytes read or written at once; what ten models in a row could not hold
AT_ONCE = 8  # requests at work on the disk; the rest wait
DISK = 30.0  # seconds for one of them: more than a sleeping disk needs, less than a lost network takes
UINT32 = 2**32 - 1
BOM = "\ufeff"

# A tool call that says what is to be done; gives an empty string, or why it may not be.
Allowed = Callable[[dict[str, Any]], Awaitable[str]]
T = TypeVar("T")


class Files:
    def __init__(
        self,
        roots: Sequence[Path],
        *,
        may_write: bool,
        allowed: Allowed,
        tell: Callable[[FileServed], None],
        limit: int = LIMIT,
    ) -> None:
        """`tell` hears of every file that was named, however it went. `limit` is in bytes."""
        self._box = FileBox(roots, limit=limit)
        self._may_write = may_write
        self._allowed = allowed
        self._tell = tell
        self._disk = asyncio.Semaphore(AT_ONCE)
        self._turns: dict[str, tuple[asyncio.Lock, int]] = {}  # by file: whose turn it is, and how many want one

    def services(self) -> Services:
        reading: Services = {"fs/read_text_file": self._read}
        return {**reading, "fs/write_text_file": self._write} if self._may_write else reading

    async def _read(self, params: dict[str, Any]) -> object:
        path = _text(params, "path")
        first = _count(params, "line", least=1)
        count = _count(params, "limit", least=0)
        async with self._told(path, "read"):
            place = await self._on_disk(lambda: self._box.found(path))
            line = {} if first is None else {"line": first}
            where = [{"path": path, **line} for path in place.spellings]
            await self._ask({"kind": "read", "title": f"Read {place.shown}", "locations": where})
            content = await self._on_disk(lambda: self._box.read(place, first or 1, count))
            self._tell(FileServed(path=place.shown, how="read", outcome="done"))
        return {"content": content}

    async def _write(self, params: dict[str, Any]) -> object:
        path, content = _text(params, "path"), _text(params, "content")
        async with self._told(path, "write"):
            place = await self._on_disk(lambda: self._box.place(path))
            async with self._turn(place):
                await self._replace(place, content)
        return {}

    async def _replace(self, place: Place, content: str) -> None:
        before = await self._on_disk(lambda: self._box.present(place))
        old = None if before is None else before.decode(errors="replace")
        new = fitted(content, old)
        data = _encoded(new)
        self._box.check_size(len(data), place)
        await self._ask(_edit(place, old, new))
        await self._on_disk(lambda: self._box.replace(place, data, instead_of=before))
        self._tell(FileServed(path=place.shown, how="write", outcome="done", old=old, new=new))

    async def _ask(self, call: dict[str, Any]) -> None:
        if reason := await self._allowed(call):
            raise Denied(jsonrpc.INTERNAL_ERROR, reason)

    async def _on_disk(self, work: Callable[[], T]) -> T:
        async with self._disk:
            try:
                return await aside(work, name="a file for the agent", limit=DISK)
            except TimeoutError:
                raise Refusal(jsonrpc.INTERNAL_ERROR, f"the disk did not answer within {DISK:g} s") from None
            except OSError as error:  # no thread, no descriptor
                raise Refusal(jsonrpc.INTERNAL_ERROR, f"the disk cannot be asked: {error.strerror}") from None

    @asynccontextmanager
    async def _turn(self, place: Place) -> AsyncIterator[None]:
        """One write after the other to a file, each with its own question."""
        lock, users = self._turns.get(place.shown, (asyncio.Lock(), 0))
        self._turns[place.shown] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._turns.pop(place.shown)
            if users > 1:
                self._turns[place.shown] = (lock, users - 1)

    @asynccontextmanager
    async def _told(self, path: str, how: Any) -> AsyncIterator[None]:
        try:
            yield
        except Refusal as refusal:
            outcome: Any = "refused" if isinstance(refusal, Denied) else "failed"
            self._tell(FileServed(path=path, how=how, outcome=outcome, reason=refusal.message))
            raise


def fitted(new: str, old: str | None) -> str:
    """`new` with the line ends and the byte order mark of `old`, where it shows none of its own."""
    if old is None:
        return new
    if "\n" in old and "\r" not in new and old.count("\r\n") == old.count("\n"):
        new = new.replace("\n", "\r\n")
    return BOM + new if old.startswith(BOM) and not new.startswith(BOM) else new


def _edit(place: Place, old: str | None, new: str) -> dict[str, Any]:
    diff = {"type": "diff", "path": place.shown, "oldText": old, "newText": new}
    title = f"{'Create' if old is None else 'Write'} {place.shown}"
    return {
        "kind": "edit",
        "title": title,
        "locations": [{"path": path} for path in place.spellings],
        "content": [diff],
    }


def _text(params: dict[str, Any], name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise invalid(f'"{name}" must be a string')
    return value


def _count(params: dict[str, Any], name: str, *, least: int) -> int | None:
    """A number the schema calls uint32; None when it is not given."""
    value = params.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= UINT32:
        raise invalid(f'"{name}" must be a whole number from {least} on')
    return value


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise invalid('"content" holds half a surrogate pair, which is no text') from None
