"""
Empty working directories for servers that have no business in the project: one for each, private, for one launch.

Files that a program looks for in its working directory (modules, packages, settings) are not there, and the directories
above are the user's own, since they lie in the state directory. If a variable has moved that into a project, they lie
in the directory for temporary files.

They are removed with the launch. A launch has one directory that holds them, and locks it; the kernel releases the lock
however the launch ends. An unlocked directory was left by a launch that was killed, and the next launch, or `reap`,
removes it.
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

ReportLeft = Callable[[str, Sequence[str]], None]


@contextmanager
def workdirs(state: Path, servers: Sequence[str], left: ReportLeft) -> Iterator[dict[str, Path]]:
    """Create a directory for each of these servers, by its name. `left` is told at the end what a server left in its
    own.

    Raises:
        StateError: no directory can be created.
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
    """Create the launch's directory in the first suitable place. Returns it with the descriptor of its lock."""
    reasons = []
    for root in _roots(state):
        if lies_in(root, grounds(root)):
            reasons.append(f"{root}: it lies in a project, which could place files in it")
            continue
        try:
            make_private(root)
            _sweep(root)
            return _locked(root)
        except OSError as error:
            reasons.append(f"{root}: {error.strerror or error}")
    fix = "set ACP_LAUNCH_STATE_DIR to your own directory outside of any project, or give each server a cwd"
    raise StateError("cannot create the directories that servers run in", fix=fix, detail=reasons)


def _each(ours: Path, servers: Sequence[str]) -> dict[str, Path]:
    try:
        return {name: _made(ours / str(index)) for index, name in enumerate(servers)}
    except OSError as error:
        fix = "make room there, or give each server a cwd"
        raise StateError(f"cannot create a directory in {ours}: {error.strerror or error}", fix=fix) from error


def _locked(root: Path) -> tuple[Path, int]:
    """Create a directory. Returns it with the descriptor of its lock."""
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
    directory.chmod(0o700)  # whatever the umask removes
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
    """Whether we hold the lock now. None without lock support, so that old and new cannot be distinguished."""
    try:
        return take_lock(lock)
    except OSError:
        return None


def _names(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))  # noqa: PTH208
    except OSError:  # not created yet, or removed
        return []


def _remove(directory: Path) -> None:
    """Remove it. What resists, because a server removed rights or another user wrote it, is left to the next launch."""
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
