"""
Empty directories for servers that have nothing to do in the project: one for each, private, made for one launch.

What a program looks for in the directory it is started in (modules, packages, settings) is not there, and the
directories above are the user's own, since they lie in the state directory. Should a variable have led that into a
project, they lie where temporary files go.

They go with the launch. It has one directory with theirs in it, and holds a lock there, which the kernel takes back
however the launch ends: a directory whose lock is free was left by a launch that was killed, and the next one, or
`reap`, removes it.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from acp_launch.errors import StateError
from acp_launch.private import is_private, make_private, take_lock
from acp_launch.settings.load import grounds, lies_in

FOLDER = "workdirs"  # in the state directory
BEGINNING = "acp-launch-workdir-"
LOCK = "lock"
_ATTEMPTS = 5  # another launch that cleans up may take a new directory for an old one, until it is locked

Left = Callable[[str, Sequence[str]], None]


@contextmanager
def workdirs(state: Path, servers: Sequence[str], left: Left) -> Iterator[dict[str, Path]]:
    """A directory for each of these servers, by its name. `left` is told what one has in its own at the end.

    Raises:
        StateError: there is no place for them.
    """
    ours, lock = _begun(state)
    try:
        made = _each(ours, servers)
        yield made
        for name, directory in made.items():
            if names := _names(directory):
                left(name, names)
    finally:
        _remove(ours)
        os.close(lock)


def sweep(state: Path) -> None:
    """Remove the directories of launches that were killed."""
    for root in _roots(state):
        _sweep(root)


def _roots(state: Path) -> tuple[Path, ...]:
    return state / FOLDER, Path(os.environ.get("TMPDIR") or "/tmp").absolute()


def _begun(state: Path) -> tuple[Path, int]:
    """A launch's directory in the first place that will do, and the descriptor that holds its lock."""
    reasons = []
    for root in _roots(state):
        if lies_in(root, grounds(root)):
            reasons.append(f"{root}: it lies in a project, which could lay something in their way")
            continue
        try:
            make_private(root)
            _sweep(root)
            return _locked(root)
        except OSError as error:
            reasons.append(f"{root}: {error.strerror or error}")
    fix = "set ACP_LAUNCH_STATE_DIR to a directory of yours outside of any project, or give each server a cwd"
    raise StateError("there is no place for the directories that servers run in", fix=fix, detail=reasons)


def _each(ours: Path, servers: Sequence[str]) -> dict[str, Path]:
    try:
        return {name: _made(ours / str(index)) for index, name in enumerate(servers)}
    except OSError as error:
        fix = "make room there, or give each server a cwd"
        raise StateError(f"no directory can be made in {ours}: {error.strerror or error}", fix=fix) from error


def _locked(root: Path) -> tuple[Path, int]:
    """A new directory, and the descriptor that holds its lock."""
    for _ in range(_ATTEMPTS):
        made = _made(root / f"{BEGINNING}{os.urandom(8).hex()}")
        try:
            lock = os.open(made / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            continue
        if _is_ours(lock) is not False and (made / LOCK).exists():
            return made, lock
        os.close(lock)
    raise FileExistsError("other launches keep removing it")


def _made(directory: Path) -> Path:
    directory.mkdir(0o700)
    directory.chmod(0o700)  # whatever the umask takes away
    return directory


def _sweep(root: Path) -> None:
    for name in _names(root):
        if name.startswith(BEGINNING) and is_private(root / name):
            _remove_deserted(root / name)


def _remove_deserted(directory: Path) -> None:
    try:
        lock = os.open(directory / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:  # about to be locked, or its launch was killed before
        _remove_empty(directory)
        return
    except OSError:
        return
    try:
        if _is_ours(lock):
            _remove(directory)
    finally:
        os.close(lock)


def _is_ours(lock: int) -> bool | None:
    """Whether we hold the lock now. None where locks cannot be had, and so old and new are not told apart."""
    try:
        return take_lock(lock)
    except OSError:
        return None


def _names(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))  # noqa: PTH208
    except OSError:  # never made, or not there any more
        return []


def _remove(directory: Path) -> None:
    """What resists, because a server took rights away or another user wrote it, is for the next launch to try."""
    for name in _names(directory):
        if name != LOCK:
            _remove_empty(directory / name)
    if _names(directory) not in ([LOCK], []):
        import shutil  # takes 10 ms, and most servers write nothing

        shutil.rmtree(directory, ignore_errors=True)
        return
    with suppress(OSError):
        (directory / LOCK).unlink(missing_ok=True)
    _remove_empty(directory)


def _remove_empty(directory: Path) -> None:
    with suppress(OSError):
        directory.rmdir()
