"""
`fs/read_text_file` and `fs/write_text_file` (ACP v1 "file system", C-69, C-70). `safepath` decides which files.

Every request is first shown to `allowed`, a write with the change it would make. The file must not change between that
and the write, so that the user allows exactly what happens. A written text gets the line ends and the byte order mark
of the text it replaces, because models drop both. A read text is returned unchanged, including secrets: `***` in their
place would be written back.

`lines` reads a part of a file, `SessionFiles` does it and replaces one within the session's directories,
`run_in_thread` runs blocking work, and `Files` serves the agent.
"""

import asyncio
import errno
import os
import stat
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, Literal, TypeVar
from weakref import WeakValueDictionary

from acp_launch.plan.model import Place
from acp_launch.plan.place import can_write, shows
from acp_launch.private import replace_in
from acp_launch.problem import count
from acp_launch.protocol import jsonrpc
from acp_launch.session.events import FileEvent, Refusal, Services, invalid, missing
from acp_launch.session.safepath import (
    Denied,
    PinnedPath,
    open_regular,
    outside,
    parent,
    require_regular,
    resolve,
)

# Some lines of a file. However large the file is, the memory used is bounded.


CHUNK_BYTES = 64 * 1024
FAR = 64  # times the limit are skipped in search of a line; a sparse file is endless otherwise


def lines(file: BinaryIO, first: int, count: int | None, most: int, shown: str) -> bytes:
    """Return `count` lines from line `first` on, or all of them, with their ends. `shown` is the path for the message.

    A line ends with a line feed, as everywhere but in old Macs. Beyond the last line the result is empty.

    Raises:
        Refusal: they are larger than `most` bytes.
    """
    found, line, passed = bytearray(), 1, 0
    while (count is None or line < first + count) and (piece := file.readline(CHUNK_BYTES)):
        if line >= first:
            found += piece
        elif (passed := passed + len(piece)) > most * FAR:
            raise invalid(f'"{shown}": the requested line is beyond its first {size(most * FAR)}')
        if len(found) > most:
            raise invalid(f'"{shown}": the requested lines are larger than {size(most)}; request fewer lines')
        line += piece.endswith(b"\n")
    return bytes(found)


def size(amount: int) -> str:
    """Format a number of bytes: `1 byte`, `512 bytes`, `9.5 MiB`."""
    if amount < 1024:
        return count(amount, "byte")
    units = ("KiB", "MiB", "GiB", "TiB")
    power = min((amount.bit_length() - 1) // 10, len(units))
    return f"{round(amount / 1024**power, 1):g} {units[power - 1]}"


# Reading and replacing the files below a session's directories, and nowhere else; of a confined agent those that it may
# read or write itself. It blocks, so it runs in a thread. Missing directories are created.
#
# A file is replaced whole: readers see the old or the new text, and a full disk leaves the old one. Permission bits are
# kept, and the owner if we may give files away. Other names of the file (hard links) keep the old text; extended
# attributes and setuid bits are not carried over.


class SessionFiles:
    def __init__(self, roots: Sequence[Path], *, limit: int, place: Place | None = None) -> None:
        """Serve the files below `roots`; `limit` is the most to read or write at once, in bytes. `place` is that of a
        confined agent."""
        self._roots = [(root, Path(os.path.realpath(root))) for root in roots]
        self._limit, self._place = limit, place
        self._writing = Lock()  # abandoned work continues in its thread

    def resolve(self, path: str, how: Literal["read", "write"]) -> PinnedPath:
        """Resolve the agent's path.

        Raises:
            Refusal, Denied: as `safepath.resolve`; or its place does not let the agent read, or write, there.
        """
        pinned = resolve(path, self._roots)
        if self._place is not None:
            if not shows(self._place, pinned.real):
                raise outside(path)
            if how == "write" and not can_write(self._place, pinned.real):
                raise Denied(jsonrpc.INVALID_PARAMS, f'"{pinned.shown}" may only be read (runtime.confined)')
        return pinned

    def found(self, path: str) -> PinnedPath:
        """Resolve the path of a regular file that exists, so that the user is not asked about another."""
        there = self.resolve(path, "read")
        with _refuse_faults(there, "read"), parent(there) as (directory, name):
            require_regular(os.stat(name, dir_fd=directory, follow_symlinks=False), there)
        return there

    def read(self, pinned: PinnedPath, first: int, count: int | None) -> str:
        """Return the text from line `first` on (1-based), `count` lines of it, with its line ends and byte order mark.

        Raises:
            Refusal: there is no such file, it is too large, or not UTF-8 text.
        """
        with (
            _refuse_faults(pinned, "read"),
            parent(pinned) as (directory, name),
            open_regular(directory, name, pinned) as file,
        ):
            if count is None and first == 1:
                self.check_size(os.fstat(file.fileno()).st_size, pinned)
            data = lines(file, first, count, self._limit, pinned.shown)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise invalid(f'"{pinned.shown}" is not UTF-8 text') from None
        if "\0" in text:
            raise invalid(f'"{pinned.shown}" is not text: it holds NUL characters')
        return text

    def present(self, pinned: PinnedPath) -> bytes | None:
        """Return the content of the file, or None if it does not exist yet."""
        with _refuse_faults(pinned, "read"):
            try:
                with parent(pinned) as (directory, name):
                    return self._present(directory, name, pinned, os.O_RDONLY)[0]
            except FileNotFoundError:
                return None

    def replace(self, pinned: PinnedPath, data: bytes, *, instead_of: bytes | None) -> None:
        """Make `data` the content of the file, if it still holds what `present` returned.

        Raises:
            Refusal: it has changed, or cannot be written.
        """
        with self._writing, _refuse_faults(pinned, "write"), parent(pinned, make=True) as (directory, name):
            before, status = self._present(directory, name, pinned, os.O_RDWR)  # fails for a read-only file
            if before != instead_of:
                raise Refusal(jsonrpc.INTERNAL_ERROR, f'"{pinned.shown}" has changed since it was read; read it again')
            replace_in(directory, name, data, None if status is None else stat.S_IMODE(status.st_mode) & 0o777, status)

    def check_size(self, found: int, pinned: PinnedPath) -> None:
        """Check a size in bytes against the limit.

        Raises:
            Refusal: it is larger.
        """
        if found > self._limit:
            raise invalid(f'"{pinned.shown}": {size(found)} is more than the limit of {size(self._limit)}')

    def _present(
        self, directory: int, name: str, pinned: PinnedPath, how: int
    ) -> tuple[bytes, os.stat_result] | tuple[None, None]:
        """Return the content and the status of the file, if it exists."""
        try:
            with open_regular(directory, name, pinned, how) as file:
                status = os.fstat(file.fileno())
                self.check_size(status.st_size, pinned)
                return lines(file, 1, None, self._limit, pinned.shown), status
        except FileNotFoundError:
            return None, None


@contextmanager
def _refuse_faults(pinned: PinnedPath, what: str) -> Iterator[None]:
    """Turn an OSError into a refusal."""
    try:
        yield
    except OSError as error:
        if what == "read" and isinstance(error, FileNotFoundError | NotADirectoryError):
            raise missing(f'there is no file "{pinned.shown}"', {"path": pinned.shown}) from None
        reason = (error.strerror or str(error)).lower()
        raise Refusal(jsonrpc.INTERNAL_ERROR, f'cannot {what} "{pinned.shown}": {reason}') from None


# Blocking work in a thread that can be abandoned, because a network disk may not answer for hours.


T = TypeVar("T")


async def run_in_thread(work: Callable[[], T], *, name: str, limit: float) -> T:
    """Return or raise the result of `work`, if it comes within `limit` seconds.

    After that, or if the caller is cancelled, the work continues unobserved, and does not hold up our exit.

    Raises:
        TimeoutError: it did not come in time.
        OSError: no thread is available (EAGAIN).
    """
    answer: Future[T] = Future()
    answer.set_running_or_notify_cancel()  # from now on a cancelled caller abandons it, and the thread may end it

    def run() -> None:
        try:
            answer.set_result(work())
        except BaseException as error:
            answer.set_exception(error)

    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    except RuntimeError:
        raise OSError(errno.EAGAIN, "no more threads are allowed") from None
    async with asyncio.timeout(limit):
        return await asyncio.wrap_future(answer)


MAX_FILE_BYTES = 10 * 1024 * 1024  # read or written at once; more than ten models in a row could hold
MAX_DISK_REQUESTS = 8  # at work; the others wait
DISK = 30.0  # seconds for one of them: more than a sleeping disk needs, less than a lost network takes
UINT32 = 2**32 - 1
BOM = "\ufeff"

# Takes a tool call that describes the action; returns an empty string, or why it is not allowed.
Allowed = Callable[[dict[str, Any]], Awaitable[str]]


class Files:
    def __init__(
        self,
        roots: Sequence[Path],
        *,
        may_write: bool,
        allowed: Allowed,
        tell: Callable[[FileEvent], None],
        limit: int = MAX_FILE_BYTES,
        place: Place | None = None,
    ) -> None:
        """Serve files below `roots`. `tell` is called for every named file, with the result. `limit` is in bytes,
        `place` is a confined agent's."""
        self._box = SessionFiles(roots, limit=limit, place=place)
        self._may_write = may_write
        self._allowed = allowed
        self._tell = tell
        self._disk = asyncio.Semaphore(MAX_DISK_REQUESTS)
        self._turns = WeakValueDictionary[str, asyncio.Lock]()  # by file

    def services(self) -> Services:
        reading: Services = {"fs/read_text_file": self._read}
        return {**reading, "fs/write_text_file": self._write} if self._may_write else reading

    async def _read(self, params: dict[str, Any]) -> object:
        path = _text(params, "path")
        first = whole_number(params, "line", least=1)
        count = whole_number(params, "limit", least=0)
        async with self._report(path, "read"):
            pinned = await self._on_disk(lambda: self._box.found(path))
            line = {} if first is None else {"line": first}
            where = [{"path": path, **line} for path in pinned.spellings]
            await self._ask({"kind": "read", "title": f"Read {pinned.shown}", "locations": where})
            content = await self._on_disk(lambda: self._box.read(pinned, first or 1, count))
            self._tell(FileEvent(path=pinned.shown, how="read", outcome="done"))
        return {"content": content}

    async def _write(self, params: dict[str, Any]) -> object:
        path, content = _text(params, "path"), _text(params, "content")
        async with self._report(path, "write"):
            pinned = await self._on_disk(lambda: self._box.resolve(path, "write"))
            # One write after the other changes a file, each with its own question.
            async with self._turns.setdefault(pinned.shown, asyncio.Lock()):
                await self._replace(pinned, content)
        return {}

    async def _replace(self, pinned: PinnedPath, content: str) -> None:
        before = await self._on_disk(lambda: self._box.present(pinned))
        old = None if before is None else before.decode(errors="replace")
        new = fit_ends(content, old)
        data = _encode(new)
        self._box.check_size(len(data), pinned)
        await self._ask(_edit(pinned, old, new))
        await self._on_disk(lambda: self._box.replace(pinned, data, instead_of=before))
        self._tell(FileEvent(path=pinned.shown, how="write", outcome="done", created=old is None, old=old, new=new))

    async def _ask(self, call: dict[str, Any]) -> None:
        if reason := await self._allowed(call):
            raise Denied(jsonrpc.INTERNAL_ERROR, reason)

    async def _on_disk(self, work: Callable[[], T]) -> T:
        async with self._disk:
            try:
                return await run_in_thread(work, name="a file for the agent", limit=DISK)
            except TimeoutError:
                raise Refusal(jsonrpc.INTERNAL_ERROR, f"the disk did not answer within {DISK:g} s") from None
            except OSError as error:  # no thread, no descriptor
                raise Refusal(jsonrpc.INTERNAL_ERROR, f"cannot use the disk: {error.strerror}") from None

    @asynccontextmanager
    async def _report(self, path: str, how: Any) -> AsyncIterator[None]:
        try:
            yield
        except Refusal as refusal:
            outcome: Any = "refused" if isinstance(refusal, Denied) else "failed"
            self._tell(FileEvent(path=path, how=how, outcome=outcome, reason=refusal.message))
            raise


def fit_ends(new: str, old: str | None) -> str:
    """Return `new` with the line ends and the byte order mark of `old`, unless it has its own."""
    if old is None:
        return new
    if "\n" in old and "\r" not in new and old.count("\r\n") == old.count("\n"):
        new = new.replace("\n", "\r\n")
    return BOM + new if old.startswith(BOM) and not new.startswith(BOM) else new


def _edit(pinned: PinnedPath, old: str | None, new: str) -> dict[str, Any]:
    diff = {"type": "diff", "path": pinned.shown, "oldText": old, "newText": new}
    title = f"{'Create' if old is None else 'Write'} {pinned.shown}"
    return {
        "kind": "edit",
        "title": title,
        "locations": [{"path": path} for path in pinned.spellings],
        "content": [diff],
    }


def _text(params: dict[str, Any], name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise invalid(f'"{name}" must be a string')
    return value


def whole_number(params: dict[str, Any], name: str, *, least: int, most: int = UINT32) -> int | None:
    """Return an integer of the schema, or None if it is not given."""
    value = params.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise invalid(f'"{name}" must be a whole number, at least {least}')
    return value


def _encode(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise invalid('"content" holds half a surrogate pair, which is not valid text') from None
