"""
`fs/read_text_file` and `fs/write_text_file` (ACP v1 "file system", C-69, C-70): which files is in `beneath`.

Each is put before `allowed` first, a write with the change it would make. Between that and the write the file must
not have changed, so that nobody allows what they have not seen. A text that is written gets the line ends and the
byte order mark of the one it replaces: models drop both. What is read is given as it is, secrets and all: `***` in its
place would be written back.
"""

import asyncio
import errno
import os
import secrets
import stat
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, NoReturn, TypeVar

from msgspec import Struct

from acp_launch.protocol import jsonrpc
from acp_launch.session.beneath import NO_LINK, Denied, Place, opened, parent, place, regular
from acp_launch.session.service import FileServed, Refusal, Services, invalid, missing

# Lines of a file, and not more than wanted: however large it is, what is held in memory is bounded.


CHUNK = 64 * 1024  # bytes
FAR = 64  # times as much as may be given is passed over in search of a line; a sparse file has no end otherwise


class TooMuch(Exception):  # noqa: N818 - it reads as what happened
    """Raised when the lines do not fit; its text is the end of a sentence about the file."""


def lines(file: BinaryIO, first: int, count: int | None, most: int) -> bytes:
    """`count` lines from line `first` on, or all of them, with their ends: at most `most` bytes.

    A line ends with a line feed, as everywhere but in old Macs. Beyond the last line there is nothing.
    """
    if not _pass_over(file, first - 1, most * FAR):
        return b""
    found = file.read(most + 1) if count is None else _next(file, count, most)
    if len(found) > most:
        raise TooMuch(f"more than {size(most)} of it were asked for; ask for fewer lines")
    return found


def size(amount: int) -> str:
    """`1 byte`, `512 bytes`, `9.5 MiB`."""
    if amount < 1024:
        return f"{amount} byte{'s' if amount != 1 else ''}"
    units = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    power = min((amount.bit_length() - 1) // 10, len(units))
    return f"{round(amount / 1024**power, 1):g} {units[power - 1]}"


def _pass_over(file: BinaryIO, count: int, most: int) -> bool:
    """Whether there were so many lines."""
    passed = 0
    while count:
        piece = file.readline(CHUNK)
        if not piece:
            return False
        count -= piece.endswith(b"\n")
        passed += len(piece)
        if passed > most:
            raise TooMuch(f"the line that was asked for is beyond its first {size(most)}")
    return True


def _next(file: BinaryIO, count: int, most: int) -> bytes:
    """One byte more than `most` at the most."""
    found = bytearray()
    while count and len(found) <= most:
        piece = file.readline(min(CHUNK, most + 1 - len(found)))
        if not piece:
            break
        count -= piece.endswith(b"\n")
        found += piece
    return bytes(found)


# A file replaced whole: a new one is written beside it, flushed to the disk and renamed over it.
#
# Readers see the old or the new text, and a full disk leaves the old. Permission bits are kept, the owner where we may
# give files away. Other names of the file (hard links) keep the old text; extended attributes and setuid bits are not
# carried over. If we are killed meanwhile, a file `.acp-launch-…` may stay.
#
# `private.replace` does not do: it goes by paths, while an agent's file is written in a directory that was opened
# without following links (`beneath`), and is given back to its owner.


_FRESH = NO_LINK | os.O_WRONLY | os.O_CREAT | os.O_EXCL


def put(directory: int, name: str, data: bytes, before: os.stat_result | None) -> None:
    """Make `data` the content of `name` in the open directory `directory`; `before` is what has that name now.

    Raises:
        OSError: it cannot be; nothing is left of the attempt.
    """
    fresh = f".acp-launch-{secrets.token_hex(8)}"
    # A new file is what the umask makes of it; one that takes another's place is nobody else's before it is complete.
    descriptor = os.open(fresh, _FRESH, 0o666 if before is None else 0o600, dir_fd=directory)
    try:
        try:
            _fill(descriptor, data, before)
        finally:
            os.close(descriptor)
        os.rename(fresh, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        os.unlink(fresh, dir_fd=directory)
        raise


def _fill(descriptor: int, data: bytes, before: os.stat_result | None) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    if before is not None:
        _give_back(descriptor, before)
        os.fchmod(descriptor, stat.S_IMODE(before.st_mode) & 0o777)
    os.fsync(descriptor)


def _give_back(descriptor: int, before: os.stat_result) -> None:
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) == (before.st_uid, before.st_gid):
        return
    try:
        os.fchown(descriptor, before.st_uid, before.st_gid)
    except PermissionError:
        return  # only root gives files away: it is ours now, with the same bits


# The files below a session's directories, and none elsewhere: reading and replacing them, blocking, for a thread.
#
# How they are opened is in `beneath`, how they are replaced in `replacing`. Directories that are missing are made.


class _Present(Struct, frozen=True):
    data: bytes
    status: os.stat_result


class FileBox:
    def __init__(self, roots: Sequence[Path], *, limit: int) -> None:
        """`limit` is the most that is read or written at once, in bytes."""
        self._roots = [(root, Path(os.path.realpath(root))) for root in roots]
        self._limit = limit
        self._writing = Lock()  # what was given up goes on in its thread

    def place(self, path: str) -> Place:
        """Where the agent's path leads; raises as `beneath.place` does."""
        return place(path, self._roots)

    def found(self, path: str) -> Place:
        """Like `place`, for a file that must be there.

        Raises:
            Refusal: it is not, or it is no regular file.
        """
        there = self.place(path)
        with _said(there, "read"), parent(there) as (directory, name):
            regular(os.stat(name, dir_fd=directory, follow_symlinks=False), there)
        return there

    def read(self, place: Place, first: int, count: int | None) -> str:
        """The text from line `first` on (1-based), `count` lines of it, with its line ends and its byte order mark.

        Raises:
            Refusal: there is no such file, it is too large, or not text in UTF-8.
        """
        with _said(place, "read"), parent(place) as (directory, name), opened(directory, name, place) as file:
            if count is None and first == 1:
                self.check_size(os.fstat(file.fileno()).st_size, place)
            data = self._taken(file, first, count, place)
        return _file_text(data, place)

    def present(self, place: Place) -> bytes | None:
        """What the file holds; None when there is none yet."""
        with _said(place, "read"):
            try:
                with parent(place) as (directory, name):
                    found = self._present(directory, name, place, os.O_RDONLY)
            except FileNotFoundError:
                return None
        return found.data if found else None

    def replace(self, place: Place, data: bytes, *, instead_of: bytes | None) -> None:
        """Make `data` the content of the file, if it still holds what `present` gave.

        Raises:
            Refusal: it does not, or it cannot be written.
        """
        with self._writing, _said(place, "written"), parent(place, make=True) as (directory, name):
            found = self._present(directory, name, place, os.O_RDWR)  # what is read-only stays
            if (found.data if found else None) != instead_of:
                raise Refusal(jsonrpc.INTERNAL_ERROR, f'"{place.shown}" was changed meanwhile; read it again')
            put(directory, name, data, found.status if found else None)

    def check_size(self, found: int, place: Place) -> None:
        """
        Raises:
            Refusal: so many bytes are more than the limit.
        """
        if found > self._limit:
            raise invalid(f'"{place.shown}": {size(found)} are more than the {size(self._limit)} taken at once')

    def _present(self, directory: int, name: str, place: Place, how: int) -> _Present | None:
        try:
            with opened(directory, name, place, how) as file:
                status = os.fstat(file.fileno())
                self.check_size(status.st_size, place)
                return _Present(self._taken(file, 1, None, place), status)
        except FileNotFoundError:
            return None

    def _taken(self, file: BinaryIO, first: int, count: int | None, place: Place) -> bytes:
        try:
            return lines(file, first, count, self._limit)
        except TooMuch as much:
            raise invalid(f'"{place.shown}": {much}') from None


def _file_text(data: bytes, place: Place) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise invalid(f'"{place.shown}" is not text in UTF-8') from None
    if "\0" in text:
        raise invalid(f'"{place.shown}" is not text: it holds NUL characters')
    return text


@contextmanager
def _said(place: Place, what: str) -> Iterator[None]:
    """Whatever the system says against it becomes a refusal."""
    try:
        yield
    except OSError as error:
        _refuse(error, place, what)


def _refuse(error: OSError, place: Place, what: str) -> NoReturn:
    is_lookup = what == "read"
    if is_lookup and isinstance(error, FileNotFoundError | NotADirectoryError):
        raise missing(f'there is no file "{place.shown}"', {"path": place.shown}) from None
    reason = (error.strerror or str(error)).lower()
    raise Refusal(jsonrpc.INTERNAL_ERROR, f'"{place.shown}" could not be {what}: {reason}') from None


# Blocking work in a thread that can be given up: a disk on the network may not answer for hours.


T = TypeVar("T")


async def aside(work: Callable[[], T], *, name: str, limit: float) -> T:
    """What `work` gives or raises, if that comes within `limit` seconds.

    After that, or when the caller is cancelled, the work goes on, nobody hears of it, and it holds up no exit.

    Raises:
        TimeoutError: it did not come in time.
        OSError: there is no thread for it (EAGAIN).
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def deliver(result: T | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)  # type: ignore[arg-type]  # there is one when there is no error

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:
            error = raised
        try:
            loop.call_soon_threadsafe(deliver, result, error)
        except RuntimeError:  # the loop is closed: it was given up long ago
            return

    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    except RuntimeError:
        raise OSError(errno.EAGAIN, "no more threads are allowed") from None
    async with asyncio.timeout(limit):
        return await answer


LIMIT = 10 * 1024 * 1024  # bytes read or written at once; what ten models in a row could not hold
AT_ONCE = 8  # requests at work on the disk; the rest wait
DISK = 30.0  # seconds for one of them: more than a sleeping disk needs, less than a lost network takes
UINT32 = 2**32 - 1
BOM = "\ufeff"

# A tool call that says what is to be done; gives an empty string, or why it may not be.
Allowed = Callable[[dict[str, Any]], Awaitable[str]]


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
