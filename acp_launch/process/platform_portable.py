"""
Processes as psutil shows them, for macOS and the BSDs.

Weaker than Linux: there is no child subreaper, so a descendant that daemonised before we first listed it is not
found, unless it stayed in a process group we know.
"""

import os

import psutil

from acp_launch.process.identity import Process

_STOPPED = {psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP}
_DEAD = {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}


class PsutilTable:
    """One pass over the machine when first asked for children."""

    def __init__(self) -> None:
        self._by_parent: dict[int, list[int]] | None = None

    def read(self, pid: int) -> Process | None:
        try:
            seen = psutil.Process(pid)
            with seen.oneshot():
                status = seen.status()
                return Process(
                    pid=pid,
                    started=seen.create_time(),
                    parent=seen.ppid(),
                    group=os.getpgid(pid),
                    session=os.getsid(pid),
                    is_stopped=status in _STOPPED,
                    is_dead=status in _DEAD,
                )
        except (psutil.NoSuchProcess, psutil.AccessDenied, ProcessLookupError, PermissionError):
            return None

    def all(self) -> dict[int, Process]:
        return {pid: seen for pid in psutil.pids() if (seen := self.read(pid))}

    def children(self, pid: int) -> list[int]:
        return self._scan().get(pid, [])

    def _scan(self) -> dict[int, list[int]]:
        if self._by_parent is None:
            self._by_parent = {}
            for seen in psutil.process_iter(["ppid"]):
                self._by_parent.setdefault(seen.info["ppid"], []).append(seen.pid)
        return self._by_parent
