"""
Launch records: what runs for whom, in a file a launch, for `ps` and for whoever cleans up after a launch that died.

One line an event, written in one go and never changed, so the file can be read at any moment; a last line without an
end is not yet, or never was, one. Fields are separated by tabs:

    launch ID PID STARTED BOOT NAMESPACE VERB PROFILE
    guard PID STARTED
    child PID STARTED RESTARTS NAME
    seen PID STARTED                    a descendant of a child
    ended PID STARTED TIME              of a child and all its tree; Unix seconds

No argument and no variable of any process, hence no secret. The launch removes its file at its end, the guard in its
place; a file whose launcher is dead is for `leftovers`.
"""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from acp_launch.process import boot, marker, prepare
from acp_launch.process.identity import Process
from acp_launch.process.spawn import Spawned
from acp_launch.secret.private import make_private

FOLDER = "launches"  # in the state directory
ROOM = 1024 * 1024  # bytes of `seen` lines: an agent that runs commands all day long must not fill the disk


class LaunchRecord:
    """The record of this process's launch; a witness of what it spawns. Without a file once that cannot be written."""

    def __init__(self, state: Path, note: Callable[[str], None]) -> None:
        """`note` is told, once, that there can be no record."""
        self._directory = state / FOLDER
        self._note = note
        self._descriptor = -1
        self._room = ROOM
        self.path: Path | None = None

    def begin(self, verb: str, profile: str) -> None:
        path = self._directory / marker.launch_id()
        try:
            make_private(self._directory)
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except OSError as error:
            self._give_up(error)
            return
        self.path = path
        ours = launcher()
        self._add(
            "launch", marker.launch_id(), ours.pid, ours.started, boot.boot_id(), boot.pid_namespace(), verb, profile
        )

    def guard(self, process: Process) -> None:
        self._add("guard", process.pid, process.started)

    def began(self, spawned: Spawned) -> None:
        self._add("child", spawned.pid, spawned.started, spawned.restarts, spawned.name)

    def ended(self, spawned: Spawned) -> None:
        self._add("ended", spawned.pid, spawned.started, f"{time.time():.3f}")

    def seen(self, process: Process) -> None:
        if self._room > 0:
            self._room -= self._add("seen", process.pid, process.started)

    def remove(self) -> None:
        """The launch is over, and nothing is left of it."""
        try:
            if self.path is not None:
                self.path.unlink(missing_ok=True)
        except OSError:
            return  # the directory is not to be written any more: the next start looks again
        finally:
            self._close()

    def _add(self, *fields: object) -> int:
        """How many bytes that took."""
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
            f"{self._directory} cannot be written ({(error.strerror or str(error)).lower()}),"
            " so `acp-launch ps` will not show this run"
        )

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def launcher() -> Process:
    """This very process."""
    ours = prepare.table().read(os.getpid())
    assert ours is not None
    return ours


class Known(Struct, frozen=True):
    """A process a record knows."""

    pid: int
    started: float
    name: str = ""
    restarts: int = 0

    @property
    def identity(self) -> tuple[int, float]:
        return self.pid, self.started


class Launch(Struct, frozen=True, kw_only=True):
    """What a record says. `children` have a name and have not ended; `guard` is the latest."""

    path: Path
    id: str
    launcher: Known
    boot: str
    namespace: str
    verb: str
    profile: str
    guard: Known | None
    children: tuple[Known, ...]
    seen: tuple[Known, ...]


def files(state: Path) -> list[Path]:
    """Every record there is, oldest name first."""
    try:
        return [state / FOLDER / name for name in sorted(os.listdir(state / FOLDER))]  # noqa: PTH208
    except OSError:
        return []  # nothing was launched yet, or nobody can know


def read_all(state: Path) -> list[Launch]:
    return [launch for path in files(state) if (launch := read(path))]


def read(path: Path) -> Launch | None:
    """None when it is gone, cannot be read, or does not begin as a record does."""
    try:
        text = path.read_bytes().decode("ascii", errors="replace")
    except OSError:
        return None
    lines = [[_plain(field) for field in line.split("\t")] for line in text.split("\n")[:-1]]
    match lines[:1]:
        case [["launch", id, pid, started, boot, namespace, verb, profile]] if _are_numbers(pid, started):
            pass
        case _:
            return None
    children = {known.identity: known for known in _knowns(lines, "child")}
    for over in _knowns(lines, "ended"):
        children.pop(over.identity, None)
    return Launch(
        path=path,
        id=id,
        launcher=_known(pid, started),
        boot=boot,
        namespace=namespace,
        verb=verb,
        profile=profile,
        guard=next(reversed(list(_knowns(lines, "guard"))), None),
        children=tuple(children.values()),
        seen=tuple(_knowns(lines, "seen")),
    )


def _knowns(lines: list[list[str]], kind: str) -> Iterator[Known]:
    for line in lines:
        match line:
            case [first, pid, started, *rest] if first == kind and _are_numbers(pid, started):
                named = len(rest) == 2 and rest[0].isdecimal()
                yield Known(int(pid), float(started), rest[1], int(rest[0])) if named else _known(pid, started)


def _known(pid: str, started: str) -> Known:
    return Known(int(pid), float(started))


def _are_numbers(pid: str, started: str) -> bool:
    try:
        return pid.isdecimal() and float(started) >= 0
    except ValueError:
        return False


def _escaped(text: str) -> str:
    return text.encode("unicode_escape").decode("ascii")


def _plain(field: str) -> str:
    try:
        return field.encode("ascii", errors="replace").decode("unicode_escape")
    except UnicodeDecodeError:
        return field  # no line of ours
