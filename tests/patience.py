"""How long tests wait for what must come, and how. They only ever wait so long when they fail."""

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Literal, TypeVar

from acp_launch.waits import stretch

PATIENCE = stretch(10.0)  # seconds for anything
AS_USERS_WAIT = {"ACP_LAUNCH_TEST_PATIENCE": "1"}  # for what is told after seconds, and for what is waited out
T = TypeVar("T")


def until(look: Callable[[], T | Literal[False] | None], shown: Callable[[], object] = lambda: "it never came") -> T:
    """Return what `look` gives once that is true; a program is run between two looks, so that others get on."""
    deadline = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < deadline, shown()
        subprocess.run([sys.executable, "-I", "-S", "-c", ""], check=True)  # some 10 ms
    return found


def until_ended(pid: int) -> None:
    """Return once this process has ended."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([watched], [], [], PATIENCE)[0], f"{pid} does not end"
    finally:
        os.close(watched)
