"""
Log files: one for each server of a launch, and its agent's. Our lines say when each process began and ended.

`LogFile` writes one, `ServerLogs` all servers', `LogReader` reads one while it is written. The name of a file
tells the launch, the profile and the server; launches beyond the newest `MAX_LAUNCHES` are removed.
"""

import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from io import FileIO
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec
from msgspec import Struct

from acp_launch.private import make_digest
from acp_launch.regex import regex
from acp_launch.secret.redact import redactor

# The names of log files:
#
#     20261121T121300.123Z-4711+demo.log          an agent's
#     20261121T121300.123Z-4711+demo+github.log   its server's; github#2 for a second process of it
#     …+github.log.shared                         where the stderr of a process that launches share is kept
#
# Before the first `+` is the launch: when it began (UTC, so that names sort by age), its pid, and a digest of its
# project, if it has one: 20261121T121300.123Z-4711-1a2b… Characters of the two names other than letters, digits and
# `_.-~#` are written as `%2B`, so that a file's name can be read back.


SUFFIX = ".log"
OLDER = ".1"  # after the suffix of a file that was full
SHARED = ".shared"  # after the suffix of a file that only says where another one is
MAX_NAME_CHARS = 80  # of either name, as written; a file's name has room for 255 bytes
_STAMP = r"[1-9][0-9]{3}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])T(?:[01][0-9]|2[0-3])[0-5][0-9][0-6][0-9]\.[0-9]{3}Z"
_SHAPE = regex(rf"({_STAMP}-[0-9]{{1,10}}(?:-[0-9a-f]{{32}})?)\+([^+]+)(?:\+([^+]+))?\.log")


class LogName(Struct, frozen=True):
    """The parts of a log file's name. `server` is empty for the agent's log."""

    launch: str
    profile: str
    server: str = ""

    def is_of(self, project: Path) -> bool:
        """Whether it may be a launch in `project`; a name without a project does not tell."""
        return self.launch.count("-") < 2 or self.launch.endswith(f"-{make_digest(str(project))}")


def launch_in(project: Path) -> str:
    """Return the name of this process's launch, which is in `project`."""
    return f"{this_launch()}-{make_digest(str(project))}"


@cache
def this_launch() -> str:
    """Return the name of this process's launch without its project."""
    now = time.time()
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now))
    return f"{stamp}.{int(now * 1000) % 1000:03d}Z-{os.getpid()}"


def began(launch: str) -> float:
    """Return when a launch began, in Unix seconds. A 31st of February is a day in March."""
    from calendar import timegm

    date, clock, milliseconds = launch[:8], launch[9:15], launch[16:19]
    moment = (int(date[:4]), int(date[4:6]), int(date[6:]), int(clock[:2]), int(clock[2:4]), int(clock[4:]))
    return timegm(moment) + int(milliseconds) / 1000


def written(name: LogName) -> str:
    return "+".join([name.launch, *map(_quoted, filter(None, (name.profile, name.server)))]) + SUFFIX


def read(file: str) -> LogName | None:
    """Parse a file's name; None if it is not our log. A very long name comes back cut, as by `kept`."""
    if not (found := _SHAPE.fullmatch(file)):
        return None
    launch, profile, server = found.groups(default="")
    return LogName(launch, _unquoted(profile), _unquoted(server))


def shortened(name: str) -> str:
    """Return `name` as in a file's name: a very long one is cut, with a checksum."""
    return _unquoted(_quoted(name))


def _quoted(name: str) -> str:
    text = quote(name, safe="#", errors="surrogateescape")
    if len(text) <= MAX_NAME_CHARS:
        return text
    return f"{text[: MAX_NAME_CHARS - 33]}~{make_digest(text)}"


def _unquoted(text: str) -> str:
    return unquote(text, errors="surrogateescape")


# The existing log files, by launch. The oldest launches are removed; files that are not ours stay untouched.


MAX_LAUNCHES = 50  # an agent writes about 10 lines a session


def logs(directory: Path) -> dict[Path, LogName]:
    """Return every log: the oldest launch first, in each the agent's first and then its servers' by name.

    A path may not exist for a moment, while a full file is renamed.
    """
    found = {file.with_name(file.name.removesuffix(OLDER)) for file in _files(directory)}
    names = {file: name for file in found if (name := read(file.name.removesuffix(SHARED)))}
    return dict(sorted(names.items(), key=lambda item: (item[1].launch, item[1].profile, item[1].server, item[0].name)))


def forget_the_oldest(directory: Path, launch: str) -> None:
    """Make room for `launch`: remove all files of launches beyond the newest `MAX_LAUNCHES`."""
    launches: dict[str, list[Path]] = {}
    for file in sorted(_files(directory)):
        if name := read(file.name.removesuffix(OLDER).removesuffix(SHARED)):
            launches.setdefault(name.launch, []).append(file)
    launches.pop(launch, None)
    for old in list(launches)[: max(0, len(launches) - MAX_LAUNCHES + 1)]:  # names begin with the time
        for file in launches[old]:
            file.unlink(missing_ok=True)  # another launch may remove it too


def _files(directory: Path) -> Iterator[Path]:
    """Yield the files named like a log. Pipes, which would make us wait, and links are left out."""
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.name.endswith((SUFFIX, SUFFIX + OLDER, SUFFIX + SHARED)) and entry.is_file(
                    follow_symlinks=False
                ):
                    yield directory / entry.name
    except OSError:
        return  # nothing was logged yet, or the directory cannot be read


# A child's stderr in a file, created with its first byte.
#
# A full file is renamed, with `.1` after its name, and a new one begins: a child in a loop cannot fill the disk, and
# its last output is the part that stays. Both files together are its output, byte for byte.


MAX_LOG_BYTES = 10 * 1024 * 1024  # of one file


class LogFile:
    """One log file; call it with bytes. Raises OSError if it cannot be written: the caller reports that once and goes
    on.

    Without `server` it is the agent's. `launch` is this process's unless another is given.
    """

    def __init__(self, directory: Path, profile: str, server: str = "", *, launch: str = "") -> None:
        self._launch = launch or this_launch()
        self._file = directory / written(LogName(self._launch, profile, server))
        self._descriptor = -1
        self._size = 0
        self._last = b""  # byte; unknown if the file existed before
        self._is_closed = False

    def __call__(self, data: bytes) -> None:
        if data:
            self._begin()
        while data:
            if length := self._fitting(data):
                piece = data[:length]
                self._last = piece[-1:]
                rest = memoryview(piece)
                while rest:
                    count = os.write(self._descriptor, rest)
                    self._size += count
                    rest = rest[count:]
                data = data[length:]
            else:
                with suppress(FileNotFoundError):  # this launch is old, and a newer one has removed its files
                    self._file.rename(f"{self._file}{OLDER}")
                full = self._descriptor
                self._open()
                os.close(full)

    def begin(self) -> None:
        """Create the file before there is anything to write, so that the launch is found.

        A failure is left to the first write.
        """
        with suppress(OSError):
            self._begin()

    def mark(self, text: str) -> None:
        """Write our line between the child's output. It must hold no secret."""
        self._begin()
        line = f"--- {time.strftime('%Y-%m-%d %H:%M:%S')} {' '.join(text.split())} ---\n"
        self((b"" if self._last == b"\n" else b"\n") + line.encode(errors="replace"))

    def share(self, file: Path, offset: int) -> None:
        """Say that `file` is this child's log from there on; the log of a process which launches share is kept once."""
        inode = file.stat().st_ino if offset else 0  # it may not be there before its first byte
        place = Shared(str(file), inode, offset)
        self._begin()
        descriptor = os.open(f"{self._file}{SHARED}", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "ab") as notes:
            notes.write(msgspec.json.encode(place) + b"\n")

    def close(self) -> None:
        self._is_closed = True
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _fitting(self, data: bytes) -> int:
        """Return how many bytes of `data` fit: whole lines, unless one alone fills a file."""
        room = MAX_LOG_BYTES - self._size
        if len(data) <= room:
            return len(data)
        lines = data.rfind(b"\n", 0, max(0, room)) + 1
        return lines or (0 if self._size else room)

    def _begin(self) -> None:
        if self._is_closed:
            raise ValueError("the log is closed")
        if self._descriptor >= 0:
            return
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        forget_the_oldest(self._file.parent, self._launch)
        self._open()
        self._last = b"" if self._size else b"\n"

    def _open(self) -> None:
        self._descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._descriptor).st_size


class ServerLogs:
    """The log files of a launch's servers. `server` is a name as in `lifecycle.Change`: `github#2` has its own file."""

    def __init__(self, directory: Path, profile: str, *, launch: str = "") -> None:
        self._directory = directory
        self._profile = profile
        self._launch = launch
        self._logs: dict[str, LogFile] = {}
        self._is_closed = False

    def mark(self, server: str, text: str) -> None:
        """Note something between the lines: "started (pid 123), restart 1". Never raises, and is redacted here."""
        if self._is_closed:
            return
        with suppress(OSError):  # the next bytes meet the same error, and their sender reports it
            self.of(server).mark(f"{server} {redactor.text(text)}")

    def close(self) -> None:
        """Close all files. A later write raises ValueError."""
        self._is_closed = True
        for log in self._logs.values():
            log.close()

    def end(self, server: str) -> None:
        """Close the file of a process of the server that will not return."""
        if log := self._logs.pop(server, None):
            log.close()

    def of(self, server: str) -> LogFile:
        """Return the file of the server's stderr, which is redacted already (`child.Errors`)."""
        if server not in self._logs:
            self._logs[server] = LogFile(self._directory, self._profile, server, launch=self._launch)
        return self._logs[server]


# Reading a log while it is written.


TAIL_BYTES = 256 * 1024


class Shared(Struct, frozen=True):
    """A place in another log. `inode` is its file, 0 for the beginning of whatever is there."""

    file: str
    inode: int = 0
    offset: int = 0


class LogReader:
    """Reads one log from its beginning, or from a place in it, over every file it fills."""

    def __init__(self, file: Path, place: Shared | None = None) -> None:
        self._file, self._place = file, place
        self._older = Path(f"{file}{OLDER}")
        self._sources: list[FileIO] = []  # the last one is the one that grows
        self._open: list[bytes] = []  # pieces of the line without an end so far

    @property
    def is_within_a_line(self) -> bool:
        return any(self._open)

    def lines(self) -> Iterator[bytes]:
        """Yield the lines completed since the last call, without their ends.

        Raises:
            OSError: the log exists and cannot be read.
        """
        for chunk in self._chunks():
            first, *others = chunk.split(b"\n")
            self._open.append(first)
            if others:
                yield b"".join(self._open)
                yield from others[:-1]
                self._open = [others[-1]]

    def rest(self) -> bytes:
        """Return the line without an end; it will not come again."""
        rest, self._open = b"".join(self._open), []
        return rest

    def close(self) -> None:
        while self._sources:
            self._sources.pop().close()

    def _chunks(self) -> Iterator[bytes]:
        self._look()
        while self._sources:
            while chunk := self._sources[0].read(TAIL_BYTES):
                yield chunk
            if len(self._sources) == 1:
                return
            self._sources.pop(0).close()

    def _look(self) -> None:
        """Find the new files. The one we hold is full once another has its name; its rest is read first."""
        current = self._new(self._file)
        if current or not self._sources:
            older = self._new(self._older, current)
            self._sources += self._from_place([source for source in (older, current) if source])

    def _from_place(self, found: list[FileIO]) -> list[FileIO]:
        place, self._place = self._place, None
        for index, source in enumerate(found):
            seen = os.fstat(source.fileno())
            if place is not None and seen.st_ino == place.inode and seen.st_size >= place.offset:
                source.seek(place.offset)
                for before in found[:index]:
                    before.close()
                return found[index:]
        return found

    def _new(self, file: Path, *known: FileIO | None) -> FileIO | None:
        """Open the file, unless it is gone, not a regular file, `known`, or already open."""
        try:
            found = FileIO(file, opener=_without_waiting)
        except FileNotFoundError:
            return None
        status = os.fstat(found.fileno())
        held = [source for source in (*self._sources, *known) if source]
        is_held = any(os.path.samestat(status, os.fstat(source.fileno())) for source in held)
        if is_held or not stat.S_ISREG(status.st_mode):
            found.close()
            return None
        return found


class SharedLogReader:
    """Reads the logs that a file with places names, one after the other."""

    def __init__(self, file: Path) -> None:
        self._places, self._trails = LogReader(file), list[LogReader]()

    @property
    def is_within_a_line(self) -> bool:
        return any(trail.is_within_a_line for trail in self._trails)

    def lines(self) -> Iterator[bytes]:
        for line in self._places.lines():
            with suppress(msgspec.MsgspecError):
                place = msgspec.json.decode(line, type=Shared)
                self._trails.append(LogReader(Path(place.file), place))
        for trail in self._trails:
            yield from trail.lines()

    def rest(self) -> bytes:
        return b"\n".join(filter(None, [trail.rest() for trail in self._trails]))

    def close(self) -> None:
        for trail in (self._places, *self._trails):
            trail.close()


def open_log(file: Path) -> LogReader | SharedLogReader:
    """Return what reads a log of `logs`."""
    return SharedLogReader(file) if file.name.endswith(SHARED) else LogReader(file)


def _without_waiting(file: str, flags: int) -> int:
    """Open a path without waiting for a writer, if it is a pipe."""
    return os.open(file, flags | os.O_NONBLOCK)
