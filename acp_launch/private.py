"""
Files for the user alone: bounded reads, atomic writes, locks between processes, and directories for sockets.

Files and directories get modes 0600 and 0700, whatever the umask is. A reader sees the old content or the new one,
never half of it; a writer that fails leaves the old one. `read_bounded` reads, `create` and `replace` write, `publish`
moves a whole file, `locked` and `take_lock` take a lock file, `make_digest` tells the names of files apart, and
`directory` makes a place for the sockets of a launch. None of them writes through a link that leads out of a project
(`descent`).
"""

import errno
import fcntl
import math
import os
import stat
import sys
import time
from _operator import _compare_digest
from _socket import AF_UNIX, SOCK_STREAM, socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader, FileIO
from pathlib import Path

from acp_launch.descent import open_file, parent
from acp_launch.descent import real as real
from acp_launch.errors import StateError

try:
    from _blake2 import blake2b as blake2b  # hashlib and hmac would load OpenSSL: 4 ms
except ImportError:
    from hashlib import blake2b as blake2b
try:
    from _sha2 import sha256 as sha256  # type: ignore[import-not-found]  # Python 3.12
except ImportError:
    try:
        from _sha256 import sha256 as sha256  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha256 as sha256

compare_digest = _compare_digest  # what hmac gives
MAX_LINKS = 40  # on the way to one file; what Linux follows
_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def make_digest(*parts: str) -> str:
    """Return 32 hex digits that differ for different parts, also if an attacker chooses them. No part holds a NUL."""
    return blake2b("\0".join(parts).encode(errors="surrogatepass"), digest_size=16).hexdigest()


def hash_content(data: bytes) -> str:
    """Return the SHA-256 of a content, in hex."""
    return str(sha256(data).hexdigest())


class Unfit(Exception):  # noqa: N818 - it reads as what it is
    """Raised for a file of the wrong kind or size; the text continues a sentence that begins with its path."""


def read_bounded(path: Path, most: int) -> tuple[bytes, int] | None:
    """Return the content and the permission bits; None if the file does not exist.

    Raises:
        Unfit: it is not a regular file, or holds more than `most` bytes.
        OSError: it cannot be read.
    """
    try:
        file = BufferedReader(FileIO(path, opener=_without_waiting))
    except FileNotFoundError:
        return None
    with file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise Unfit("is not a regular file")
        content = file.read(most + 1)
    if len(content) > most:
        raise Unfit(f"is larger than {most} bytes")
    return content, stat.S_IMODE(mode)


def _without_waiting(path: str, flags: int) -> int:
    """Open the file without waiting for a writer if it is a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


def make_private(directory: Path, *, below: Path | None = None) -> None:
    """Create `directory` and its missing parents, each with mode 0700; an existing directory keeps its mode.

    Raises:
        OSError: it cannot be created, or something else has its name.
    """
    if below is None and directory.is_dir():
        return
    with parent(directory / "file", below, make=0o700):
        return


def is_private(directory: Path) -> bool:
    """Whether it is a directory (not a link) that belongs to the user and has mode 0700."""
    try:
        seen = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid() and stat.S_IMODE(seen.st_mode) == 0o700


def find_doubt(status: os.stat_result) -> str:
    """Say why a file or a directory may have been written by another user; empty if it cannot."""
    if status.st_uid not in (0, os.getuid()):
        return f"belongs to another user (uid {status.st_uid})"
    is_sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX  # as /tmp
    return "can be written by all users" if status.st_mode & stat.S_IWOTH and not is_sticky else ""


def create(path: Path, content: bytes, *, is_shared: bool = False) -> None:
    """Write a new file and flush it to disk; a failure removes it again.

    A shared file gets the mode of the umask, as directories that are missing above it.

    Raises:
        FileExistsError: the name is taken.
        OSError: it cannot be written.
    """
    with parent(path, make=0o777 if is_shared else None) as (directory, name):
        _create(directory, name, content, None if is_shared else 0o600)


def _create(directory: int, name: str, content: bytes, mode: int | None, owner: os.stat_result | None = None) -> None:
    descriptor = os.open(name, _MAKE, 0o666 if mode is None else 0o600, dir_fd=directory)
    try:
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            if owner is not None:
                _give_back(descriptor, owner)
            if mode is not None:
                os.fchmod(descriptor, mode)  # a umask may take rights from the owner too
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except BaseException:
        os.unlink(name, dir_fd=directory)
        raise


def _give_back(descriptor: int, owner: os.stat_result) -> None:
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) == (owner.st_uid, owner.st_gid):
        return
    try:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    except PermissionError:
        return  # only root gives files away: it is ours now, with the same bits


def read_link(path: Path) -> str | None:
    """Return the target of a link; None if it is not a link."""
    try:
        return os.readlink(path)  # noqa: PTH115 - the text as it stands
    except OSError:
        return None


def follow_links(path: Path, read: Callable[[Path], str | None] = read_link) -> tuple[Path, tuple[Path, ...]]:
    """Return where an absolute path leads, and each link on the way, all without links in their directories.

    `read` reads a link. Of links that form a loop the last one is returned.
    """
    here, rest, links = Path("/"), [*reversed(path.parts[1:])], list[Path]()
    while rest:
        name = rest.pop()
        here = here.parent if name == ".." else here / name
        target = read(here) if len(links) < MAX_LINKS else None
        if target is not None:
            links.append(here)
            parts = Path(target).parts
            here = Path("/") if parts[:1] == ("/",) else here.parent
            rest += reversed(parts[1:] if parts[:1] == ("/",) else parts)
    return here, tuple(links)


def sqlite_uri(path: Path) -> str:
    """Return the address of a file for SQLite. `Path.as_uri` of Python 3.14 imports an HTTP client."""
    escaped = str(path.absolute()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return f"file://{escaped}"


def replace(path: Path, content: bytes, *, mode: int | None = 0o600, below: Path | None = None) -> None:
    """Replace the content of the file at `path` atomically; `mode` None leaves it to the umask.

    If that is a link, the file that it leads to is replaced; `below` a directory the link itself.
    """
    with parent(path, below, follow=True) as (directory, name):
        replace_in(directory, name, content, mode)
        _sync(directory, Path(name).parent)


def publish(fresh: Path, path: Path, *, below: Path | None = None) -> None:
    """Move a whole file of the same file system to `path`, for the user alone: atomically, and flushed to disk."""
    descriptor = open_file(fresh, os.O_RDONLY, below=below)
    try:
        os.fchmod(descriptor, 0o600)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    with parent(path, below) as (directory, name):
        os.replace(fresh, name, dst_dir_fd=directory)
        _sync(directory, Path(name).parent)


def replace_in(
    directory: int, name: str, content: bytes, mode: int | None, owner: os.stat_result | None = None
) -> None:
    """Replace the content of a file of an open directory; `owner` is the status of a file whose owner it gets.

    If we are killed in it, a file `.acp-launch-…` may stay.

    Raises:
        OSError: it cannot be written; nothing is left of the attempt.
    """
    fresh = str(Path(name).with_name(f".acp-launch-{os.urandom(8).hex()}"))
    _create(directory, fresh, content, mode, owner)
    try:
        os.replace(fresh, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        os.unlink(fresh, dir_fd=directory)
        raise


def _sync(directory: int, path: Path) -> None:
    """Flush a directory to disk, so that a new name survives a crash.

    Not every file system can do that (EINVAL). The file itself is complete and in place by now.
    """
    descriptor = os.open(path, os.O_RDONLY, dir_fd=directory)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)


# Locks: one holder at a time among all processes and threads. The kernel releases the lock when its holder dies.
#
# A lock file is empty and is never deleted. If it were deleted, a process that waits for the deleted file would wait
# for ever, or two processes would hold one lock.

_LOCK_RETRY_SECONDS = 0.02  # when the wait is bounded


@contextmanager
def locked(path: Path, patience: float | None = None, *, below: Path | None = None) -> Iterator[int]:
    """Hold the lock file at `path` while the block runs; create the file if needed.

    Without `patience` the wait has no limit. Gives the open file: a program that inherits it holds the lock as well.

    Raises:
        TimeoutError: another process held it for `patience` seconds.
        OSError: the directory does not exist or is not writable, or its file system has no locks. As with every
            error here, `filename` is the lock file.
    """
    descriptor = _open_lock(path, below)  # not inherited, so a child that outlives this process does not hold it
    try:
        _wait_for(descriptor, path, patience)
        try:
            yield descriptor
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def _open_lock(path: Path, below: Path | None) -> int:
    try:
        descriptor = open_file(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, below=below)
    except FileExistsError:
        return open_file(path, os.O_RDWR, below=below)
    if os.fstat(descriptor).st_mode & 0o600 != 0o600:
        os.fchmod(descriptor, 0o600)  # a umask took rights from the owner too: it could not be opened again
    return descriptor


def _wait_for(descriptor: int, path: Path, patience: float | None) -> None:
    deadline = time.monotonic() + (math.inf if patience is None else patience)
    try:
        if patience is None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            return
        while not take_lock(descriptor):
            if time.monotonic() >= deadline:
                raise TimeoutError(errno.ETIMEDOUT, f"another process held it for {patience:g} s")
            time.sleep(_LOCK_RETRY_SECONDS)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def take_lock(descriptor: int) -> bool:
    """Take the lock of an open file without waiting. False if another process holds it.

    Raises:
        OSError: its file system has no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


# The private directory of a launch's sockets. The path of each must fit into a socket's address.

SOCKET, SOCKETS = "seat", "sockets"
MAX_SOCKET_PATH_BYTES = 107 if sys.platform == "linux" else 103  # sun_path less its NUL, and the BSDs have 4 fewer
_STALE_SECONDS = 3600.0
_MADE_UP = "12345678"  # as long as what tells two directories of one process apart


@contextmanager
def directory(state: Path | None = None) -> Iterator[Path]:
    """Make a directory that no other user may enter, and remove it with its socket afterwards.

    It is in the user's directory `state`, which outlives a login and a batch job; if that is not given or takes no
    socket, in the user's runtime directory, in the directory of temporary files, or in /tmp. Directories left there by
    killed launches are removed.

    Raises:
        StateError: none of these directories can be used.
    """
    made = _make_directory(state)
    try:
        yield made
    finally:
        _remove_sockets(made)


def restore(made: Path) -> None:
    """Make such a directory again if it was removed, with what lacks above it.

    Raises:
        OSError: it cannot be made, or another user could put another one in its place.
    """
    make_private(made)
    if made.parent.stat().st_uid not in (0, os.geteuid()) or not is_private(made):
        raise PermissionError(errno.EPERM, "it belongs to another user")


def _make_directory(state: Path | None) -> Path:
    reasons = []
    for home, prefix in _homes(state):
        if len(os.fsencode(home / f"{prefix}{_MADE_UP}" / SOCKET)) > MAX_SOCKET_PATH_BYTES:
            reasons.append(f"{home}: its name is too long for a socket")
            continue
        try:
            made = _make_in(home, prefix, is_state=state is not None and home.parent == state)
        except OSError as error:
            reasons.append(f"{home}: {error.strerror}")
        else:
            return made
    fix = "set TMPDIR to a directory with a short name that you may write to"
    raise StateError("there is no place for the socket that connects agent and servers", fix=fix, detail=reasons)


def _make_in(home: Path, prefix: str, *, is_state: bool) -> Path:
    if is_state:
        make_private(home)
    _sweep(
        home, prefix.removesuffix(f"{os.getpid()}-"), _STALE_SECONDS if is_state else 0.0
    )  # it may be shared by machines
    made = home / f"{prefix}{os.urandom(len(_MADE_UP) // 2).hex()}"
    made.mkdir(mode=0o700)
    made.chmod(0o700)  # whatever the umask takes away
    if is_state:
        _try_socket(made)
    return made


def _try_socket(made: Path) -> None:
    """Connect to a socket there, which some file systems of containers and networks do not allow."""
    listener, knocking, path = socket(AF_UNIX, SOCK_STREAM), socket(AF_UNIX, SOCK_STREAM), str(made / SOCKET)
    try:
        listener.bind(path)
        listener.listen(1)
        knocking.connect(path)
    except OSError:
        _remove_sockets(made)
        raise
    finally:
        listener.close()
        knocking.close()
    os.unlink(path)  # noqa: PTH108


def _homes(state: Path | None) -> Iterator[tuple[Path, str]]:
    """Yield the parent directories to try, with a prefix for the name, which holds our process id to tell its owner."""
    if state is not None:
        yield state / SOCKETS, f"{os.getpid()}-"
    runtime = _runtime()
    if runtime is not None:
        yield runtime, f"{os.getpid()}-"
    for home in dict.fromkeys([os.environ.get("TMPDIR") or "/tmp", "/tmp"]):
        yield Path(home).absolute(), f"acp-launch-{os.getpid()}-"


def _runtime() -> Path | None:
    """Return `acp-launch` in the user's runtime directory, made if missing; None if that is missing or not private."""
    given = Path(os.environ.get("XDG_RUNTIME_DIR") or "-")
    if not (given.is_absolute() and is_private(given)):
        return None
    ours = given / "acp-launch"
    try:
        ours.mkdir(mode=0o700, exist_ok=True)
    except OSError:  # full, read-only, or not a directory: other parent directories are tried
        return None
    return ours if is_private(ours) else None


def _sweep(home: Path, start: str, age: float) -> None:
    """Remove directories left by killed launches: ours, of an ended process, holding only sockets without listeners,
    and older than `age` seconds."""
    for left in home.glob(f"{start}[0-9]*-*"):
        pid, _, made_up = left.name.removeprefix(start).partition("-")
        is_named_so = pid.isdecimal() and len(made_up) == len(_MADE_UP)
        if is_named_so and is_private(left) and not is_running(int(pid)) and _holds_deserted_sockets(left, age):
            _remove_sockets(left)


def is_running(pid: int) -> bool:
    """Whether a process has this id."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _holds_deserted_sockets(left: Path, least: float) -> bool:
    """Tell whether a directory of this age holds only abandoned sockets; their type is checked, as other files refuse,
    too. An empty one may be about to get its socket, unless it is old.
    """
    try:
        sockets = [*left.iterdir()]
        seen = [path.lstat() for path in sockets]
        age = time.time() - left.lstat().st_mtime
    except OSError:
        return False
    are_ours = all(stat.S_ISSOCK(each.st_mode) and each.st_uid == os.geteuid() for each in seen)
    return are_ours and age >= (least if sockets else _STALE_SECONDS) and all(map(_is_deserted, sockets))


def _is_deserted(path: Path) -> bool:
    """Tell whether no process listens, because the owner may run in a container with process ids of its own."""
    import socket  # few launches find one

    with socket.socket(socket.AF_UNIX) as knocking:
        knocking.setblocking(False)
        try:
            knocking.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def _remove_sockets(made: Path) -> None:
    try:
        for path in made.iterdir():
            if path.is_socket():
                path.unlink(missing_ok=True)
        made.rmdir()
    except OSError:  # another launch has removed it, or a file was put in, which is not ours
        return
