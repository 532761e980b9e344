"""
Programs that are not part of the launch, for example the user's browser, which we must not end.

Everything that descends from us is ended with us, and orphans come to us as their subreaper. So such a program is
started by a helper child (release.py) that exits while we are not a subreaper: then the program belongs to init, and so
does everything it starts. That moment is a millisecond, in which an orphan of an agent would get away from us too, and
be found only by its mark.
"""

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from acp_launch.process import prepare
from acp_launch.waits import stretch

PROGRAM = Path(__file__).with_name("release.py")
WITHIN = stretch(5.0)  # seconds for each step; an interpreter starts in hundredths of a second
_SET_CHILD_SUBREAPER, _GET_CHILD_SUBREAPER = 36, 37  # prctl(2)


def start(argv: Sequence[str], env: Mapping[str, str]) -> str:
    """Start `argv` (its first element an absolute path) with exactly `env`, in its own session, in `/`, without output.

    Call this where nothing else of ours lists processes or spawns meanwhile: on the thread of the event loop, which it
    blocks until an interpreter has started. Returns why it could not be started; empty if it was.
    """
    try:
        starter = _starter(argv, env)
    except (OSError, ValueError) as error:
        return str(error.strerror if isinstance(error, OSError) else error)
    with starter:
        return _released(starter)


def _starter(argv: Sequence[str], env: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    starter = subprocess.Popen(
        [sys.executable, "-I", "-S", str(PROGRAM), *argv],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=dict(env),
        cwd="/",
        start_new_session=True,
    )
    prepare.give_back_limit(starter.pid)
    return starter


def _released(starter: "subprocess.Popen[bytes]") -> str:
    assert starter.stdin is not None and starter.stdout is not None
    deadline = time.monotonic() + WITHIN
    try:
        if _next_bytes(starter.stdout.fileno(), deadline) != b".":
            return "it could not be started"
        with _no_subreaper():
            starter.stdin.write(b"!")
            starter.wait(WITHIN)
        said = b""
        while more := _next_bytes(starter.stdout.fileno(), deadline):
            said += more
        return said.decode(errors="replace")
    except (TimeoutError, subprocess.TimeoutExpired, BrokenPipeError):
        starter.kill()
        return "it did not start in time"


def _next_bytes(descriptor: int, deadline: float) -> bytes:
    """Return the next bytes; empty at the end.

    Raises:
        TimeoutError: nothing came in time.
    """
    poll = select.poll()  # select() cannot watch descriptors beyond 1023
    poll.register(descriptor, select.POLLIN)
    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise TimeoutError
    return os.read(descriptor, 1000)


@contextmanager
def _no_subreaper() -> Iterator[None]:
    """Let orphans go to init, or to another subreaper above us, for the length of the block."""
    if not _is_subreaper():
        yield
        return
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    try:
        yield
    finally:
        prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _is_subreaper() -> bool:
    if not prepare.IS_LINUX:
        return False
    try:
        import ctypes
    except ImportError:
        return False  # then we could not become one either
    found = ctypes.c_int(0)
    ctypes.CDLL(None).prctl(_GET_CHILD_SUBREAPER, ctypes.byref(found), 0, 0, 0)
    return found.value != 0
