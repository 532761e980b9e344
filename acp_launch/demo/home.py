"""The directory of the demo programs: `$ACP_DEMO_HOME`, else one in the user's state directory."""

import os
import sys
import time
from pathlib import Path


def directory() -> Path:
    """Return its absolute path; created if missing, readable by its owner alone."""
    chosen = Path(os.environ.get("ACP_DEMO_HOME") or _state()).absolute()
    chosen.mkdir(mode=0o700, parents=True, exist_ok=True)
    return chosen


def _state() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "acp-launch" / "demo"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "acp-launch" / "demo"


def append(path: Path, line: bytes, *, create: bool) -> None:
    """Append one line to a file that other processes may append to at the same time.

    One `write` with O_APPEND under a lock: the line is whole, or cut at the end by a full disk or a crash.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | (os.O_CREAT if create else 0), 0o600)
    try:
        lock(descriptor)
        written = os.write(descriptor, line)
        now = (
            time.time_ns()
        )  # the file system's clock has steps of a few ms, in which two sessions would get the same time
        os.utime(path, ns=(now, now))
    finally:
        os.close(descriptor)
    if written != len(line):
        raise OSError(f"the disk took {written} of {len(line)} bytes")


def lock(descriptor: int) -> None:
    """Keep other demo processes out of this file until the descriptor is closed."""
    try:
        import fcntl
    except ImportError:  # Windows has none; on it, demo processes do not share files
        return
    fcntl.flock(descriptor, fcntl.LOCK_EX)
