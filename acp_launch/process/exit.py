"""How a process ended, as a value and as words."""

import os
import signal

from msgspec import Struct

from acp_launch.process.spawn import STATUS_LOST


class Exit(Struct, frozen=True):
    """`status` or `signal`, the other is None; both are when somebody else reaped the process."""

    status: int | None
    signal: int | None

    def __str__(self) -> str:
        if self.signal is not None:
            return f"was killed by {_signal_name(self.signal)}"
        if self.status is None:
            return "exited; its status was lost"
        return f"exited with status {self.status}"


def from_wait_status(status: int) -> Exit:
    """What waitpid(2) reported, or `STATUS_LOST`."""
    if status == STATUS_LOST:
        return Exit(None, None)
    code = os.waitstatus_to_exitcode(status)
    return Exit(code, None) if code >= 0 else Exit(None, -code)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have numbers only
        return f"signal {number}"
