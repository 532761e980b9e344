"""
The directory of a batch. What it says is the truth, for any number of submitters, engines and hosts:

    DIR/batch.json                  frozen
    DIR/cancel                      its presence cancels whatever runs
    DIR/results.jsonl               all records, made again from them
    DIR/items/ID/lock               held by the process that makes an attempt
    DIR/items/ID/N.log              what `batch item` itself said, written by its engine
    DIR/items/ID/N/                 attempt N: started.json, events.ndjson, …, and result.json by rename as the last
    DIR/items/ID/N/again            the item starts again after this attempt, although it was done
    DIR/items/ID/N.lost-K/          an attempt that ended without a record; its number was used again

Nothing in it is reached through a link, and what another user could have written is not read.
"""

import errno
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from acp_launch.batch.model import Batch, Item, Record, Standing, Started, Verdict, judge
from acp_launch.descent import open_file, parent, real, remove
from acp_launch.document.nodes import shorten
from acp_launch.errors import StateError, UsageError
from acp_launch.private import blake2b, find_doubt, locked, make_private, replace
from acp_launch.problem import did_you_mean, ours
from acp_launch.profile.discover import here
from acp_launch.regex import regex
from acp_launch.waits import format_time

BATCH, RESULT, STARTED = "batch.json", "result.json", "started.json"
EVENTS, STDERR, ANSWER, PATCH, CHECK = "events.ndjson", "stderr.txt", "answer.md", "patch.diff", "check.txt"
SETUP = "setup.txt"
RESULTS, CANCEL, AGAIN, LOCK = "results.jsonl", "cancel", "again", "lock"
# Of an item: it is the name of a directory, so no dot begins it, and an argument of `batch item`, so no dash does.
ID = regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
MAX_FILE_BYTES = 256 << 20  # of `batch.json`, with its prompts, and of a record
MAX_ID = 200  # characters; it names files and directories, which may have 255
S = TypeVar("S", bound=msgspec.Struct)
V = TypeVar("V", bound=Verdict)


class BatchDirectory:
    """The directory of a batch, with the frozen batch."""

    def __init__(self, path: Path, batch: Batch, digest: str = "") -> None:
        """`digest` is of `batch.json`; empty if it is not written."""
        self.path, self.batch, self.digest = path, batch, digest
        self._by_id = {item.id: item for item in batch.items}

    def find_item(self, id: str) -> Item:
        """Return the item of this id; raise UsageError if there is none."""
        if id not in self._by_id:
            hint = did_you_mean(id, self._by_id)
            batch = ("--resume", str(self.path)) if self.path.name else ("FILE",)  # it is not written yet
            raise UsageError(f'the batch has no item "{id}"{hint}', fix=ours("batch", "run", *batch, "--dry-run"))
        return self._by_id[id]

    @cached_property
    def root(self) -> Path:
        """The directory without links on its way: no file is reached but below it."""
        return real(self.path)

    def directory_of(self, id: str, attempt: int | None = None) -> Path:
        """Return the directory of an item, or of one of its attempts."""
        directory = self.root / "items" / id
        return directory if attempt is None else directory / str(attempt)

    def require_own(self, *directories: Path) -> None:
        """Refuse directories of the batch that are links, or that another user could have put things into.

        Raises:
            StateError: as it says.
        """
        for directory in directories:
            with suppress(FileNotFoundError):
                status = directory.lstat()
                if doubt := "is a link" if stat.S_ISLNK(status.st_mode) else find_doubt(status):
                    raise StateError(f"{directory} {doubt}, so it is not believed", fix="move it away")

    def log_of(self, id: str, attempt: int) -> Path:
        """Return the file of what `batch item` itself said."""
        return locate_log(self.root, id, attempt)

    def open(self, file: Path) -> BinaryIO:
        """Open a file of the batch for reading; raise OSError if that fails, or another user may write it."""
        return _open(file, self.root)

    def write(self, file: Path, content: bytes) -> None:
        """Write a small file that is not missed after a crash; a link in its place is an error."""
        with self._create(file) as opened:
            opened.write(content)

    @contextmanager
    def _create(self, file: Path) -> Iterator[BinaryIO]:
        descriptor = open_file(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, below=self.root)
        try:
            with os.fdopen(descriptor, "wb") as opened:
                yield opened
        except OSError as error:  # a full disk does not say of which file
            raise OSError(error.errno, error.strerror, error.filename or str(file)) from None

    def append(self, file: Path) -> int:
        """Open a file for writing at its end; return the descriptor."""
        return open_file(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, below=self.root)

    def attempts(self, id: str) -> list[int]:
        """List the attempts that have a record, in order."""
        found = (int(name) for name in _list_names(self.directory_of(id)) if name.isdecimal())
        return sorted(number for number in found if (self.directory_of(id, number) / RESULT).exists())

    def verdicts(self, id: str) -> list[Verdict]:
        """Read what the records of an item say, in order; a few members of each are kept in memory."""
        return [self._read_result(id, number, Verdict) for number in self.attempts(id)]

    def _read_result(self, id: str, attempt: int, shape: type[V]) -> V:
        file = self.directory_of(id, attempt) / RESULT
        found = _read(file, shape, self.root)
        if (found.item, found.attempt) != (id, attempt):
            raise _damage(file, f"it is the record of {found.item}, attempt {found.attempt}")
        return found

    def judge(self, id: str, verdicts: Sequence[Verdict] | None = None) -> Standing:
        """Judge an item by its records; `verdicts` are those that were just read."""
        verdicts = self.verdicts(id) if verdicts is None else verdicts
        opened = (each.attempt for each in verdicts if (self.directory_of(id, each.attempt) / AGAIN).exists())
        return judge(verdicts, self.batch.retry, max(opened, default=0))

    def read_record(self, id: str, attempt: int) -> Record:
        """Read the whole record of an attempt."""
        return self._read_result(id, attempt, Record)

    def records(self) -> Iterator[Record]:
        """Read every record, item by item; one at a time, since each may hold an answer of 64 KiB."""
        for item in self.batch.items:
            for attempt in self.attempts(item.id):
                yield self.read_record(item.id, attempt)

    # Making an attempt.

    @contextmanager
    def lock(self, id: str, patience: float | None = None) -> Iterator[None]:
        """Hold the lock of an item. Its records may have changed: look again inside.

        Raises:
            TimeoutError: another process held it for `patience` seconds.
            StateError: another user could have written there.
        """
        make_private(self.directory_of(id), below=self.root)
        self.require_own(self.root / "items", self.directory_of(id))
        with locked(self.directory_of(id) / LOCK, patience, below=self.root):
            yield

    def begin(self, id: str, attempt: int) -> Path:
        """Make the directory of an attempt, and return it; one without a record is renamed. Call it under the lock."""
        directory = self.directory_of(id, attempt)
        if directory.exists():
            names = set(_list_names(directory.parent))
            free = (f"{attempt}.lost-{number}" for number in range(1, len(names) + 2))
            lost = next(name for name in free if name not in names)
            with parent(directory, self.root) as (within, name):
                os.rename(name, lost, src_dir_fd=within, dst_dir_fd=within)
        make_private(directory, below=self.root)
        started = Started(pid=os.getpid(), host=os.uname().nodename, started=format_time(time.time()))
        self.write(directory / STARTED, encode(started))
        return directory

    def write_record(self, record: Record) -> None:
        """Write the record of an attempt: from then on it has happened."""
        file = self.directory_of(record.item, record.attempt) / RESULT
        replace(file, encode(record) + b"\n", below=self.root)

    def read_started(self, id: str, attempt: int) -> Started | None:
        """Read who began an attempt, and when; None if it was not begun."""
        file = self.directory_of(id, attempt) / STARTED
        is_there = file.exists() and file.stat().st_size  # it may be being written
        return _read(file, Started, self.root) if is_there else None

    def is_running(self, id: str) -> bool:
        """Whether a process holds the lock of an item, on any host."""
        if not (self.directory_of(id) / LOCK).exists():
            return False
        try:
            with self.lock(id, 0):
                return False
        except TimeoutError:
            return True
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES):
                raise
            return False  # what cannot be written is not being made

    # The batch as a whole.

    def reopen(self, id: str) -> None:
        """Let a done item start again."""
        self.write(self.directory_of(id, self.attempts(id)[-1]) / AGAIN, b"")

    def is_cancelled(self) -> bool:
        return (self.root / CANCEL).exists()

    def cancel(self) -> None:
        self.write(self.root / CANCEL, b"")

    def uncancel(self) -> None:
        remove(self.root / CANCEL, below=self.root)

    def write_results(self) -> None:
        """Make `results.jsonl` again from the records; raise OSError if that fails."""
        fresh = f".{RESULTS}.{os.getpid()}"
        with self._create(self.root / fresh) as results:
            for item in self.batch.items:
                for attempt in self.attempts(item.id):
                    results.write(_read_bounded(self.directory_of(item.id, attempt) / RESULT, self.root))
        with parent(self.root / RESULTS, self.root) as (directory, name):
            os.replace(fresh, name, src_dir_fd=directory, dst_dir_fd=directory)


def spell(path: Path) -> Path:
    """Return an absolute path. Links stay, so other hosts see the same path."""
    return Path(os.path.normpath(path if path.is_absolute() else here() / path))


@contextmanager
def explain_faults() -> Iterator[None]:
    """Turn an error of a file into a StateError: the directory is full, read-only, or cannot be entered."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno not in (errno.ENOSPC, errno.EDQUOT):  # not about our file
            raise
        raise StateError(f"cannot write {error.filename or 'to the disk'}: {error.strerror}") from None


def locate_log(directory: Path, id: str, attempt: int) -> Path:
    """Return `BatchDirectory.log_of` without reading the batch."""
    return directory / "items" / id / f"{attempt}.log"


def open_batch(directory: Path) -> BatchDirectory:
    """Open the directory of a batch.

    Raises:
        UsageError: it holds no batch.
        StateError: its batch cannot be read.
    """
    path = spell(directory)
    if not (path / BATCH).is_file():
        raise UsageError(f"{directory} holds no batch", fix=ours("batch", "prepare", "FILE"))
    root = real(path)
    if doubt := find_doubt(root.stat()):
        raise StateError(f"{path} {doubt}, so it is not believed", fix="make a batch of your own: batch prepare FILE")
    content = _read_file(root / BATCH, root)
    batch = _decode_file(root / BATCH, content, Batch)
    _check(batch, root / BATCH)
    return BatchDirectory(path, batch, digest_batch(content))


def digest_batch(content: bytes) -> str:
    return blake2b(content, digest_size=32).hexdigest()


def _check(batch: Batch, file: Path) -> None:
    """Check what names files and directories, since a repository may bring the file."""
    ids = {item.id for item in batch.items}
    for item in batch.items:
        if not ID.fullmatch(item.id) or len(item.id) > MAX_ID or item.profile not in batch.profiles:
            raise _damage(file, f'"{shorten(item.id)}" is not an item of it')
    if len(ids) < len(batch.items):
        raise _damage(file, "two items have one id")


def _open(file: Path, root: Path) -> BinaryIO:
    descriptor = open_file(file, os.O_RDONLY, below=root)
    try:
        status = os.fstat(descriptor)
        doubt = find_doubt(status) if stat.S_ISREG(status.st_mode) else "is not a regular file"
        if doubt:
            raise PermissionError(errno.EACCES, f"it {doubt}", str(file))
        return os.fdopen(descriptor, "rb")
    except OSError:
        os.close(descriptor)
        raise


def _read(file: Path, shape: type[S], root: Path) -> S:
    return _decode_file(file, _read_file(file, root), shape)


def _read_file(file: Path, root: Path) -> bytes:
    try:
        return _read_bounded(file, root)
    except OSError as error:
        raise StateError(f"cannot read {file}: {error.strerror}") from None


def _read_bounded(file: Path, root: Path) -> bytes:
    with _open(file, root) as opened:
        if os.fstat(opened.fileno()).st_size > MAX_FILE_BYTES:
            raise OSError(errno.EFBIG, f"it is larger than {MAX_FILE_BYTES >> 20} MiB")
        return opened.read()


def _decode_file(file: Path, content: bytes, shape: type[S]) -> S:
    try:
        return msgspec.json.decode(content, type=shape, dec_hook=_decode)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _damage(file, str(error)) from None


def _damage(file: Path, why: str) -> StateError:
    return StateError(f"{file} is damaged: {why}", fix="restore it, or move its directory away")


def encode(struct: msgspec.Struct) -> bytes:
    return msgspec.json.encode(struct, enc_hook=float)  # a Duration


def _decode(kind: type, value: object) -> object:
    return kind(value)


def _list_names(directory: Path) -> list[str]:
    try:
        return [each.name for each in directory.iterdir()]
    except FileNotFoundError:
        return []
