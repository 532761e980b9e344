"""
Descriptors that each mean one process, and waiting on many of them; without an event loop.

Without pidfds (not Linux, kernels before 5.3, no descriptor left) processes are polled every 10 ms.
"""

import os
import select
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from errno import EMFILE, ENFILE, ENOSYS, EPERM

from acp_launch.process import prepare
from acp_launch.process.table import Process

POLL_SECONDS = 0.01
NO_PIDFD = -1


def open_pid(pid: int) -> int | None:
    """Return a pidfd for the process that has this pid now; None if there is no such process."""
    if not hasattr(os, "pidfd_open"):
        return NO_PIDFD
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    except OSError as error:
        if error.errno in (ENOSYS, EPERM, EMFILE, ENFILE):  # EPERM: older container sandboxes
            return NO_PIDFD
        raise


def open_process(process: Process) -> int | None:
    """Return a pidfd for exactly this process; None if it is gone, even if its pid is taken again."""
    descriptor = open_pid(process.pid)
    if descriptor is None or descriptor == NO_PIDFD:
        return descriptor
    if prepare.table().read(process.pid) == process:
        return descriptor
    os.close(descriptor)
    return None


@contextmanager
def open_all(processes: Iterable[Process]) -> Iterator[tuple[list[int], list[Process]]]:
    """Yield a pidfd for each living process, and the processes for which there is none."""
    descriptors: list[int] = []
    unwatchable: list[Process] = []
    try:
        for process in processes:
            descriptor = open_process(process)
            if descriptor == NO_PIDFD:
                unwatchable.append(process)
            elif descriptor is not None:
                descriptors.append(descriptor)
        yield descriptors, unwatchable
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def living(processes: Iterable[Process]) -> bool:
    """Whether any of them is still alive."""
    table = prepare.table()
    now = [(table.read(process.pid), process) for process in processes]
    return any(seen is not None and seen == process and not seen.is_dead for seen, process in now)


def block_until_gone(processes: Iterable[Process], *, within: float) -> None:
    """Wait until all of them have died, at most `within` seconds."""
    deadline = time.monotonic() + within
    with open_all(processes) as (descriptors, unwatchable):
        poll = select.poll()
        for descriptor in descriptors:
            poll.register(descriptor, select.POLLIN)
        left = len(descriptors)
        while left and (remaining := deadline - time.monotonic()) > 0:
            for descriptor, _ in poll.poll(remaining * 1000):
                poll.unregister(descriptor)
                left -= 1
        while living(unwatchable) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
