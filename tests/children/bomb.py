"""
Never alone: `bomb.py COUNT` becomes COUNT processes without a mark, and each starts another when one of its own dies.

Each is in a group of its own and ignores TERM. The first says hello, on a line that all of them inherit.
"""

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.children.hello import hello


def grow(count: int) -> None:
    """Be the first of `count`: two halves below this one, each as fast as it can."""
    os.setpgid(0, 0)
    left = count - 1
    halves = [half for half in (left // 2, left - left // 2) if half]
    below = {start(half): half for half in halves}
    while below:
        pid, _ = os.wait()
        half = below.pop(pid)
        below[start(half)] = half
    while True:
        signal.pause()


def start(count: int) -> int:
    if pid := os.fork():
        return pid
    grow(count)
    return 0


if len(sys.argv) > 2:
    os.environ["LIVENESS"] = sys.argv[2]
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    hello("bomb")
    grow(int(sys.argv[1]))
os.execve(sys.executable, [sys.executable, "-I", "-S", __file__, sys.argv[1], os.environ["LIVENESS"]], {})
