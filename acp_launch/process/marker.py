"""
The mark in the environment of everything we start, which most of its descendants inherit.

It says to which launch a process belongs, and from which of our processes it descends, even after all its parents are
gone and it has left every group and session. A program that cleans the environment of its children removes it. Linux
shows it (to the same user), macOS does not.
"""

import itertools
import os
from functools import cache

from acp_launch.process import prepare

VARIABLE = "ACP_LAUNCH_ID"  # ID.SERIAL

_serials = itertools.count(1)


@cache
def launch_id() -> str:
    """Return the id of this process's launch, unique and created once."""
    return os.urandom(8).hex()


def fresh() -> str:
    """Return the mark for one more process."""
    return f"{launch_id()}.{next(_serials)}"


def mark_of(pid: int) -> str | None:
    """Return the mark of a living process; None if it has none or it cannot be read."""
    if not prepare.IS_LINUX:
        return None
    beginning = f"\0{VARIABLE}=".encode()
    _, found, rest = (b"\0" + environment(pid)).partition(beginning)
    return rest.partition(b"\0")[0].decode(errors="replace") if found else None


def is_ours(pid: int) -> bool:
    """Whether a living process shows the mark of this very launch."""
    return (mark_of(pid) or "").startswith(f"{launch_id()}.")


def environment(pid: int) -> bytes:
    """Return the environment, NUL-separated; empty if it cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:  # noqa: PTH123 - called for every process
            return file.readall()
    except OSError:
        return b""
