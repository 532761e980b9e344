"""
The mark that whatever we start carries in its environment, and most of its descendants inherit.

It says which launch a process belongs to, and which of the processes we started it came of, after all its parents are
gone and it has left every group and session. Who scrubs the environment of what it starts loses it; Linux shows it
(to the same user), macOS does not.
"""

import itertools
import os
from functools import cache

from acp_launch.process import prepare

VARIABLE = "ACP_LAUNCH_ID"  # ID.SERIAL

_serials = itertools.count(1)


@cache
def launch_id() -> str:
    """Of this process: made once, and nobody else's."""
    return os.urandom(8).hex()


def fresh() -> str:
    """The mark for one more process."""
    return f"{launch_id()}.{next(_serials)}"


def mark_of(pid: int) -> str | None:
    """The mark of a living process; None where there is none, or none to be read."""
    if not prepare.IS_LINUX:
        return None
    beginning = f"\0{VARIABLE}=".encode()
    _, found, rest = (b"\0" + _environment(pid)).partition(beginning)
    return rest.partition(b"\0")[0].decode(errors="replace") if found else None


def is_ours(pid: int) -> bool:
    """Whether a living process shows the mark of something this very launch has started."""
    return (mark_of(pid) or "").startswith(f"{launch_id()}.")


def _environment(pid: int) -> bytes:
    """NUL-separated; empty where it cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:  # noqa: PTH123 - it is asked of every process
            return file.readall()
    except OSError:
        return b""
