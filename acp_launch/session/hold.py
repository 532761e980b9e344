"""
The name of a session, and its lock: one holder at a time. The kernel releases it when the holder dies.

The lock is an flock on a file for each session; the content of the file is only for the message to the second process.
The holder deletes the file before it unlocks. A process that locked a deleted file holds a lock that others cannot see,
and tries again. So only a killed holder leaves a file, of about 100 bytes, and the next holder deletes it. The
descriptor is not inherited by programs we start, so a child that outlives us holds nothing.
"""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from acp_launch.errors import SessionError
from acp_launch.private import make_digest, make_private, take_lock

Key = tuple[str, str, str]  # project, profile, name
FOLDER = "locks"  # in the state directory
NOTE_LIMIT = 4096  # bytes read of the holder's note


def fresh_name() -> str:
    """Return a name for an unnamed session: it sorts by time, and two runs in one second differ."""
    return time.strftime("%Y%m%d-%H%M%S-") + os.urandom(2).hex()


def is_fresh(name: str) -> bool:
    """Whether it looks like a name from `fresh_name`."""
    return re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{4}", name) is not None


@contextmanager
def hold(
    state_dir: Path, key: Key, *, verb: str = "run", now: float | None = None, session_id: str = ""
) -> Iterator[None]:
    """Hold the session `key` for the length of the block; never waits.

    `verb` is what we do and `now` since when (Unix seconds), for the message to a second process. `session_id` is that
    of the agent, if the session is not in the store yet.

    Raises:
        SessionError: another process holds it, or the lock cannot be created.
    """
    path = _place(state_dir, key)
    with _explain(path, key[2]):
        descriptor = _lock(path, key[2])
    try:
        with _explain(path, key[2]):
            note = _note(key, verb, time.time() if now is None else now, session_id)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, note, 0)
        yield
    finally:
        path.unlink(missing_ok=True)  # it is locked by us, so we may delete it
        os.close(descriptor)


def _place(state_dir: Path, key: Key) -> Path:
    """Return a readable path, made unique by a digest of the whole key."""
    readable = "".join(mark if mark.isalnum() or mark in "-_." else "_" for mark in f"{key[1][:40]}-{key[2][:60]}")
    plain = readable.encode("ascii", "replace").decode().replace("?", "_")
    return state_dir / FOLDER / f"{plain}-{make_digest(*key)}.lock"


def _lock(path: Path, name: str) -> int:
    """Open and lock the file at `path`. Returns its descriptor."""
    while True:
        descriptor = _open(path)
        try:
            _take(descriptor, name)
            if _is_at(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its last holder deleted it between our open and our lock


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


@contextmanager
def _explain(path: Path, name: str) -> Iterator[None]:
    try:
        yield
    except UnicodeEncodeError as error:
        what = f'cannot lock session "{name}": {error.object!r} is not valid Unicode'
        raise SessionError(what, fix="rename the directory") from None
    except OSError as error:
        raise SessionError(
            f'cannot lock session "{name}": {path}: {error.strerror}',
            fix=f"check the owner and mode of {path.parent}, or set ACP_LAUNCH_STATE_DIR to a local directory",
        ) from error


def _open(path: Path) -> int:
    make_private(path.parent)
    # Python's descriptors are close-on-exec. Non-blocking, in case the name is a pipe.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o600)
    os.fchmod(descriptor, 0o600)  # whatever the umask is
    return descriptor


def _take(descriptor: int, name: str) -> None:
    if not take_lock(descriptor):
        raise SessionError(
            f'session "{name}" is in use by {_describe_holder(descriptor)}',
            fix="wait for it, end it, or use another --session",
        )


def _note(key: Key, verb: str, now: float, session_id: str) -> bytes:
    _, profile, name = key
    words = {"run": f"run {profile} --session {name}", "serve": f"serve {profile}"}
    command = f"acp-launch {words.get(verb, f'{verb} {name}')}" if verb != "api" else f"a Python program, {profile}"
    return msgspec.json.encode(SessionHolder(os.getpid(), now, command, key, session_id))


def _describe_holder(descriptor: int) -> str:
    """Return a description of the lock's holder from its note. A note of a dead process is not the holder's."""
    try:
        if holder := _read_note(descriptor):
            os.kill(holder.pid, 0)
            return f"process {holder.pid} ({holder.command}), since {_clock(holder.since)}"
    except (OSError, OverflowError):
        pass
    return "another process"


class SessionHolder(msgspec.Struct, frozen=True):
    """A session in use: the process that holds it, since when (Unix seconds), its key, and its id if that is known."""

    pid: int
    since: float
    command: str
    key: Key = ("", "", "")  # so in the note of an earlier version
    session_id: str = ""


def _read_note(descriptor: int) -> SessionHolder | None:
    """Return the note; None for one that is being written."""
    try:
        return msgspec.json.decode(os.pread(descriptor, NOTE_LIMIT, 0), type=SessionHolder)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def list_held(state_dir: Path) -> list[SessionHolder]:
    """Return the sessions in use, by the notes of their holders.

    A note may be left of a killed holder: the caller compares it with the processes that live.
    """
    try:
        paths = sorted((state_dir / FOLDER).glob("*.lock"))
        return [found for path in paths if (found := _held(path)) and any(found.key)]
    except OSError:  # nothing was held yet, or the directory cannot be read
        return []


def _held(path: Path) -> SessionHolder | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:  # it was released just now
        return None
    try:
        return _read_note(descriptor)
    finally:
        os.close(descriptor)


def _clock(moment: float) -> str:
    """Format a time: `12:03:11`, after the date if that is not today."""
    local = time.localtime(moment)
    today = time.localtime()[:3] == local[:3]
    return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S", local)
