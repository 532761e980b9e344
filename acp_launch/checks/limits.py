"""How much of this machine we may have: room on the disk, file descriptors, processes."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from acp_launch.checks.check import Check, ok, problem, warning
from acp_launch.checks.directories import nearest
from acp_launch.process import prepare

MIB = 1024**2
LEAST, LITTLE = 5 * MIB, 100 * MIB  # bytes free: less than one launch may write; less than a few days of logs
FEW_FILES = 100  # inodes
FEW_DESCRIPTORS = 256  # three for each child, and as many for agents that open files
FEW_PROCESSES = 64  # an agent in Node.js has a dozen threads, each server as many; all of them count


def disk(kind: str, directory: Path) -> Check:
    """The file system of `directory`, which may not be there yet."""
    there = nearest(directory)
    try:
        usage = shutil.disk_usage(there)
        files = os.statvfs(there) if hasattr(os, "statvfs") else None
    except OSError as error:
        return warning("disk", kind, f"cannot be asked: {error.strerror}", f"look at {there}")
    files_left = files.f_favail if files and files.f_files else None  # some file systems do not count them
    return room(kind, usage.free, files_left)


def room(kind: str, free: int, files: int | None) -> Check:
    """`files` is how many more there can be, None when nobody knows."""
    fix = "make room there, or choose another directory: " + f"export ACP_LAUNCH_{kind.upper()}_DIR=DIRECTORY"
    text, facts = f"{size(free)} free", {"free": free, "files": files}
    if free < LEAST or files == 0:
        return problem("disk", kind, text if files != 0 else "no room for another file", fix, **facts)
    if free < LITTLE:
        return warning("disk", kind, text, fix, **facts)
    if files is not None and files < FEW_FILES:
        return warning("disk", kind, f"room for {files} more files only", fix, **facts)
    return ok("disk", kind, text, **facts)


def size(amount: int) -> str:
    """`812 KiB`, `1.2 GiB`."""
    value, unit = amount / 1024, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"


def descriptors() -> Check:
    """To be asked before the first child is started, since that raises our own limit."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return open_files(*(None if limit == resource.RLIM_INFINITY else limit for limit in (soft, hard)))


def open_files(soft: int | None, hard: int | None) -> Check:
    """None is no limit. The soft one is raised by whoever launches."""
    facts = {"soft": soft, "hard": hard}
    text = f"{_counted(soft)}, up to {_counted(hard)} for acp-launch itself"
    if hard is not None and hard < prepare.FEW_DESCRIPTORS:
        return problem("limit", "open files", text, f"raise the hard limit to {FEW_DESCRIPTORS} or more", **facts)
    if hard is not None and hard < FEW_DESCRIPTORS:
        return warning("limit", "open files", text, f"raise the hard limit to {FEW_DESCRIPTORS} or more", **facts)
    return ok("limit", "open files", text, **facts)


def processes() -> Check:
    """What is left of the user's limit, or of the container's, whichever is less."""
    left = min((each for each in (_of_user(), _of_container()) if each is not None), default=None)
    return more_processes(left)


def more_processes(left: int | None) -> Check:
    if left is None:
        return ok("limit", "processes", "no limit", left=None)
    text = f"{max(0, left):,} more"
    if left < FEW_PROCESSES:
        fix = "end what you do not need, or raise the limit: ulimit -u, or the container's pids limit"
        return warning("limit", "processes", text, fix, left=left)
    return ok("limit", "processes", text, left=left)


def _of_user() -> int | None:
    """Threads count as well, on Linux. Root has no such limit."""
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if limit == resource.RLIM_INFINITY or os.geteuid() == 0:
        return None
    return limit - sum(_ours())


def _ours() -> Iterator[int]:
    import psutil

    for process in psutil.process_iter(["uids", "num_threads"]):
        uids = process.info["uids"]
        if uids is not None and uids.real == os.getuid():
            yield (process.info["num_threads"] or 1) if sys.platform == "linux" else 1


def _of_container() -> int | None:
    """cgroup v2; None where there is none, or no limit."""
    try:
        own = Path("/proc/self/cgroup").read_text(encoding="ascii").partition("0::")[2].partition("\n")[0]
        group = Path("/sys/fs/cgroup", own.lstrip("/"))
        most, current = ((group / f"pids.{each}").read_text(encoding="ascii").strip() for each in ("max", "current"))
    except (OSError, UnicodeError):
        return None
    return int(most) - int(current) if most.isdecimal() and current.isdecimal() else None


def _counted(limit: int | None) -> str:
    return "no limit" if limit is None else f"{limit:,}"
