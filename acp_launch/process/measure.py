"""What a process is, how old and how large, for people to read. psutil is imported only where there is no /proc."""

import os
from pathlib import Path

from msgspec import Struct

from acp_launch.process import prepare


class Measured(Struct, frozen=True):
    """`command` is the program's name without arguments, `age` in seconds, `memory` resident bytes."""

    command: str
    age: float
    memory: int


def measure(pid: int) -> Measured | None:
    """None when there is no such process (any more)."""
    return _by_proc(pid) if prepare.IS_LINUX else _by_psutil(pid)


def _by_proc(pid: int) -> Measured | None:
    seen = prepare.table().read(pid)
    try:
        command = Path(f"/proc/{pid}/comm").read_bytes().decode(errors="replace").rstrip("\n")
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        since_boot = float(Path("/proc/uptime").read_text().split()[0])
    except OSError:
        return None
    if seen is None:
        return None
    age = since_boot - seen.started / os.sysconf("SC_CLK_TCK")
    return Measured(command, max(0.0, age), pages * os.sysconf("SC_PAGE_SIZE"))


def _by_psutil(pid: int) -> Measured | None:
    import time

    import psutil

    try:
        process = psutil.Process(pid)
        with process.oneshot():
            age = max(0.0, time.time() - process.create_time())
            return Measured(process.name(), age, process.memory_info().rss)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None
