"""Signals that reach exactly whom they are meant for: identities are compared, groups are ours, nothing is recycled."""

import os
import signal
from collections.abc import Iterable

from acp_launch.process import pidfd, prepare
from acp_launch.process.identity import Process


def send(process: Process, number: signal.Signals) -> bool:
    """Signal exactly this process; False when it is gone, recycled, or not ours to signal."""
    try:
        if prepare.IS_LINUX:
            return _send_by_descriptor(process, number)
        return _send_by_pid(process, number)
    except (ProcessLookupError, PermissionError):
        return False


def terminate(processes: Iterable[Process]) -> None:
    """Ask all of them to end: each group once, so that nobody gets a second, "really now", TERM."""
    listed = list(processes)
    for group in {process.group for process in listed if process.group not in (0, 1, os.getpgrp())}:
        _send_to_group(group, [process for process in listed if process.group == group], signal.SIGTERM)
    for process in listed:
        if process.is_stopped:
            send(process, signal.SIGCONT)  # a stopped process cannot act on TERM


def stop_groups(processes: Iterable[Process]) -> None:
    """STOP whole groups, in one step for the kernel: a fork bomb is faster than a listing, but not than that.

    Only groups of other sessions, all of which were made below what we spawned.
    """
    ours = os.getsid(0)
    _signal_groups({process.group for process in processes if process.session != ours}, signal.SIGSTOP)


def kill_groups(processes: Iterable[Process], leader: int) -> None:
    """Where orphans do not come to us, the group reaches some that no listing shows. Never needed on Linux."""
    _signal_groups({leader, *(process.group for process in processes)}, signal.SIGKILL)


def _signal_groups(groups: set[int], number: signal.Signals) -> None:
    for group in groups - {0, 1, os.getpgrp()}:
        try:
            os.killpg(group, number)
        except (ProcessLookupError, PermissionError):
            continue  # empty by now, or (macOS) only zombies in it


def _send_to_group(group: int, members: list[Process], number: signal.Signals) -> None:
    table = prepare.table()
    if not any(table.read(member.pid) == member for member in members):
        return  # all gone: the number may name somebody else's group by now
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def _send_by_pid(process: Process, number: signal.Signals) -> bool:
    if prepare.table().read(process.pid) != process:
        return False
    os.kill(process.pid, number)
    return True


def _send_by_descriptor(process: Process, number: signal.Signals) -> bool:
    """The pidfd pins the process before we compare, so the signal cannot go astray in between."""
    descriptor = pidfd.open_process(process)
    if descriptor is None:
        return False
    if descriptor == pidfd.NONE_TO_BE_HAD:
        return _send_by_pid(process, number)
    try:
        signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)
    return True
