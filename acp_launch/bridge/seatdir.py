"""A private directory for a launch's socket, with a path that fits into a socket's address."""

import os
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from acp_launch.errors import StateError
from acp_launch.private import is_private

SOCKET = "seat"
LONGEST = 107 if sys.platform == "linux" else 103  # bytes; sun_path less its NUL, and the BSDs have 4 fewer
_MADE_UP = "12345678"  # as long as what mkdtemp adds


@contextmanager
def directory() -> Iterator[Path]:
    """A fresh directory nobody else may enter, gone afterwards with the socket in it.

    In the user's runtime directory if there is one, else where temporary files go; where that has too long a name, in
    /tmp. What launches that were killed have left there is taken away.

    Raises:
        StateError: there is no such place.
    """
    made = _make()
    try:
        yield made
    finally:
        _remove(made)


def _make() -> Path:
    reasons = []
    for home, prefix in _homes():
        if not _fits(home, prefix):
            reasons.append(f"{home}: its name is too long for a socket")
            continue
        try:
            _sweep(home, prefix.removesuffix(f"{os.getpid()}-"))
            made = Path(tempfile.mkdtemp(prefix=prefix, dir=home))
            made.chmod(0o700)  # whatever the umask takes away
        except OSError as error:
            reasons.append(f"{home}: {error.strerror}")
        else:
            return made
    fix = "set TMPDIR to a directory with a short name that you may write to"
    raise StateError("there is no place for the socket that connects agent and servers", fix=fix, detail=reasons)


def _homes() -> Iterator[tuple[Path, str]]:
    """Where to try, and how the directory's name begins: with our process id, so that it can be told whose it is."""
    runtime = _runtime()
    if runtime is not None:
        yield runtime, f"{os.getpid()}-"
    for home in dict.fromkeys([os.environ.get("TMPDIR") or "/tmp", "/tmp"]):
        yield Path(home).absolute(), f"acp-launch-{os.getpid()}-"


def _fits(home: Path, prefix: str) -> bool:
    return len(os.fsencode(home / f"{prefix}{_MADE_UP}" / SOCKET)) <= LONGEST


def _runtime() -> Path | None:
    """`acp-launch` in the user's runtime directory, made if need be; None where that is not private or not there."""
    given = Path(os.environ.get("XDG_RUNTIME_DIR") or "-")
    if not (given.is_absolute() and is_private(given)):
        return None
    ours = given / "acp-launch"
    try:
        ours.mkdir(mode=0o700, exist_ok=True)
    except OSError:  # full, read-only, or no directory at all: there are other places
        return None
    return ours if is_private(ours) else None


def _sweep(home: Path, start: str) -> None:
    """Take away what killed launches have left: ours, of a process that is gone, with a socket nobody listens to, and
    nothing else in it."""
    for left in home.glob(f"{start}[0-9]*-*"):
        pid, _, made_up = left.name.removeprefix(start).partition("-")
        is_named_so = pid.isdecimal() and len(made_up) == len(_MADE_UP)
        if is_named_so and is_private(left) and not _is_running(int(pid)) and _holds_a_deserted_socket(left):
            _remove(left)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _holds_a_deserted_socket(left: Path) -> bool:
    """And that alone: to connect to a file of any other kind is refused as well."""
    try:
        seen = (left / SOCKET).lstat()
        is_alone = os.listdir(left) == [SOCKET]  # noqa: PTH208
    except OSError:
        return False
    return is_alone and stat.S_ISSOCK(seen.st_mode) and seen.st_uid == os.geteuid() and _is_deserted(left / SOCKET)


def _is_deserted(path: Path) -> bool:
    """Nobody listens: the process ids of a container that shares the directory mean nothing to us."""
    with socket.socket(socket.AF_UNIX) as knocking:
        knocking.setblocking(False)
        try:
            knocking.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def _remove(made: Path) -> None:
    try:
        (made / SOCKET).unlink(missing_ok=True)
        made.rmdir()
    except OSError:  # somebody was faster, or has put something in: it is theirs
        return
