"""
Launch records: a file for each launch that lists its processes, for `ps`, and for cleaning up after a crashed launch.

One line an event, written in one write and never changed, so the file can be read at any moment; a last line without an
end is ignored. Fields are separated by tabs:

    launch ID PID STARTED BOOT NAMESPACE VERB PROFILE
    guard PID STARTED                   the upper one, the lower one, and those that took their places
    cwd PATH                            the directory it works in
    cgroup PATH                         where the launch may have its own
    child PID STARTED RESTARTS NAME
    boxed PID STARTED                   a child that is confined
    engine PROGRAM                      what the launch has containers of, which carry its id (`process.containers`)
    client PID STARTED                  a child whose program runs in a container
    code PID STARTED MTIME SIZE INODE PATH    a file that a child was started from, as it was then (`process.code`)
    seen PID STARTED                    a descendant of a child
    ended PID STARTED TIME              of a child and all its tree; Unix seconds
    remote TIME RESTARTS STATE NAME     a remote server's connection from then on; Unix seconds

It holds no variable of any process, and of its arguments only files of code, hence no secret. The launch removes its
file at its end, or the guard does; a file whose launcher is dead is for `leftovers`.
"""

import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from acp_launch.private import make_private
from acp_launch.process import prepare
from acp_launch.process.code import CodeFile
from acp_launch.process.spawn import Spawned
from acp_launch.process.table import Process, boot_id, pid_namespace
from acp_launch.regex import regex

FOLDER = "launches"  # in the state directory
# Bytes of `seen` and `remote` lines: an agent that runs commands all day long, or a server that is down, must not fill
# the disk.
OUTPUT_ROOM_BYTES = 1024 * 1024
MAX_RECORD_BYTES = 4 * 1024 * 1024
_NAME = regex(r"[0-9a-f]{16}")  # as in prepare.launch_id
_ESCAPE = regex(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U000[0-9a-f]{5}|U0010[0-9a-f]{4}|[tnr\\])")


class LaunchRecord:
    """The record of this process's launch; observes what it spawns. Without a file once that cannot be written."""

    def __init__(self, state: Path, note: Callable[[str], None]) -> None:
        """Prepare the record. `note` is called once if it cannot be written."""
        self._directory = state / FOLDER
        self._note = note
        self._descriptor = -1
        self._room = OUTPUT_ROOM_BYTES
        self._is_left = False
        self.path: Path | None = None
        self.clients: list[Spawned] = []  # all of the engine

    def begin(self, verb: str, profile: str) -> None:
        path = self._directory / prepare.launch_id()
        try:
            make_private(self._directory)
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except OSError as error:
            self._give_up(error)
            return
        self.path = path
        ours = launcher()
        self._add("launch", prepare.launch_id(), ours.pid, ours.started, boot_id(), pid_namespace(), verb, profile)

    def works_in(self, directory: Path) -> None:
        self._add("cwd", directory)

    def guard(self, process: Process) -> None:
        self._add("guard", process.pid, process.started)

    def cgroup(self, path: Path) -> None:
        self._add("cgroup", path)

    def engine(self, program: str) -> None:
        self._add("engine", program)

    def began(self, spawned: Spawned) -> None:
        self._add("child", spawned.pid, spawned.started, spawned.restarts, spawned.name)
        if spawned.is_boxed and not spawned.opening:  # an agent elsewhere is named so, and is not confined here
            self._add("boxed", spawned.pid, spawned.started)
        if spawned.is_client:
            self._add("client", spawned.pid, spawned.started)
            self.clients.append(spawned)
        for each in spawned.code:
            self._add("code", spawned.pid, spawned.started, each.mtime, each.size, each.inode, each.path)

    def ended(self, spawned: Spawned) -> None:
        self._add("ended", spawned.pid, spawned.started, f"{time.time():.3f}")

    def seen(self, process: Process) -> None:
        if self._room > 0:
            self._room -= self._add("seen", process.pid, process.started)

    def connected(self, name: str, state: str, restarts: int) -> None:
        if self._room > 0:
            self._room -= self._add("remote", f"{time.time():.3f}", restarts, state, name)

    def leave(self) -> None:
        """Have `remove` leave the file to the next start, because containers may be left."""
        self._is_left = True

    def remove(self) -> None:
        """Remove the record, because the launch is over and nothing is left of it."""
        try:
            if self.path is not None and not self._is_left:
                self.path.unlink(missing_ok=True)
        except OSError:
            return  # the directory is no longer writable: the next start looks again
        finally:
            self._close()

    def _add(self, *fields: object) -> int:
        """Write one line. Returns how many bytes it took."""
        if self._descriptor < 0:
            return 0
        line = ("\t".join(_escaped(str(field)) for field in fields) + "\n").encode("ascii")
        try:
            return os.write(self._descriptor, line)
        except OSError as error:
            self._give_up(error)
            return 0

    def _give_up(self, error: OSError) -> None:
        self._close()
        self._note(
            f"cannot write {self._directory} ({(error.strerror or str(error)).lower()}),"
            " so `acp-launch ps` will not show this run"
        )

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def launcher() -> Process:
    ours = prepare.table().read(os.getpid())
    assert ours is not None
    return ours


class Known(Struct, frozen=True):
    """A process in a record."""

    pid: int
    started: float
    name: str = ""
    restarts: int = 0

    @property
    def identity(self) -> tuple[int, float]:
        return self.pid, self.started


class Connection(Struct, frozen=True):
    """The latest state of the connection to a remote server; `since` is in Unix seconds."""

    name: str
    state: str
    restarts: int
    since: float

    @property
    def age(self) -> float:
        """Return for how many seconds it has this state."""
        return max(0.0, time.time() - self.since)


class RecordedLaunch(Struct, frozen=True, kw_only=True):
    """The content of a record. `children` have a name and have not ended; `guards` are all, killed ones too.

    `boxed` are confined, `clients` are in containers of `engine`. `code` is what each child was started from, by its
    identity. `ended` are the latest processes of children that have none at the moment.
    """

    path: Path
    id: str
    launcher: Known
    boot: str
    namespace: str
    verb: str
    profile: str
    guards: tuple[Known, ...]
    children: tuple[Known, ...]
    seen: tuple[Known, ...]
    boxed: tuple[Known, ...] = ()
    clients: tuple[Known, ...] = ()
    engine: str = ""
    code: Mapping[tuple[int, float], tuple[CodeFile, ...]] = {}
    ended: tuple[Known, ...] = ()
    connections: tuple[Connection, ...] = ()
    cgroup: str = ""
    cwd: str = ""

    @property
    def known(self) -> set[tuple[int, float]]:
        """Return the identities of its processes that may still live."""
        return {process.identity for process in (*self.children, *self.seen)}


def files(state: Path) -> list[Path]:
    """Return every record, oldest name first. Files with other names are not ours."""
    try:
        names = sorted(os.listdir(state / FOLDER))  # noqa: PTH208
    except OSError:
        return []  # nothing was launched yet, or the directory cannot be read
    return [state / FOLDER / name for name in names if _NAME.fullmatch(name)]


def read_all(state: Path) -> list[RecordedLaunch]:
    return [launch for path in files(state) if (launch := read(path))]


def read(path: Path) -> RecordedLaunch | None:
    """Read a record; None if it is gone, cannot be read, or does not begin as the record of this name."""
    content = _content(path)
    text = "" if content is None else content.decode("ascii", errors="replace")
    lines = [[_plain(field) for field in line.split("\t")] for line in text.split("\n")[:-1]]
    match lines[:1]:
        case [["launch", id, pid, started, boot, namespace, verb, profile]] if id == path.name:
            launcher = next(_knowns([["launch", pid, started]], "launch"), None)
        case _:
            return None
    if launcher is None:
        return None
    begun = list(_knowns(lines, "child"))
    over = {known.identity for known in _knowns(lines, "ended")}
    latest = {known.name: known for known in begun}
    return RecordedLaunch(
        path=path,
        id=id,
        launcher=launcher,
        boot=boot,
        namespace=namespace,
        verb=verb,
        profile=profile,
        guards=tuple(_knowns(lines, "guard")),
        children=tuple(known for known in begun if known.identity not in over),
        seen=tuple(_knowns(lines, "seen")),
        boxed=tuple(_knowns(lines, "boxed")),
        clients=tuple(_knowns(lines, "client")),
        engine=_text(lines, "engine"),
        code=_code(lines),
        cgroup=_text(lines, "cgroup"),
        cwd=_text(lines, "cwd"),
        ended=tuple(known for known in latest.values() if known.identity in over),
        connections=tuple({each.name: each for each in _connections(lines)}.values()),
    )


def _content(path: Path) -> bytes | None:
    """Return the content; None if it is gone, unreadable, or not a regular file. A pipe would make us wait."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        with os.fdopen(descriptor, "rb", closefd=False) as file:  # a directory raises here
            return file.read(MAX_RECORD_BYTES) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _text(lines: list[list[str]], kind: str) -> str:
    return next((line[1] for line in lines if line[0] == kind and len(line) == 2), "")


def _knowns(lines: list[list[str]], kind: str) -> Iterator[Known]:
    """Yield the processes in the lines of one kind, but none with what cannot be numbers."""
    for line in lines:
        match line:
            case [first, pid, started, *rest] if first == kind:
                restarts, name = rest if len(rest) == 2 else ("0", "")
                with suppress(ValueError):
                    yield Known(int(pid), float(started), name, int(restarts))


def _code(lines: list[list[str]]) -> dict[tuple[int, float], tuple[CodeFile, ...]]:
    found: dict[tuple[int, float], tuple[CodeFile, ...]] = {}
    for line in lines:
        match line:
            case ["code", pid, started, mtime, size, inode, path]:
                with suppress(ValueError):
                    of = int(pid), float(started)
                    found[of] = (*found.get(of, ()), CodeFile(path, int(mtime), int(size), int(inode)))
    return found


def _connections(lines: list[list[str]]) -> Iterator[Connection]:
    for line in lines:
        match line:
            case ["remote", since, restarts, state, name]:
                with suppress(ValueError):
                    yield Connection(name, state, int(restarts), float(since))


def _escaped(text: str) -> str:
    return text.encode("unicode_escape").decode("ascii")


def _plain(field: str) -> str:
    """Undo `_escaped`. Text that is not our escape stays unchanged."""
    return _ESCAPE.sub(lambda found: found[0].encode("ascii").decode("unicode_escape"), field)
