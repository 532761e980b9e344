"""
Polite itself, but leaves a stubborn daemon without a mark that changes its pid again and again: `hopper.py SECONDS`.

The daemon is in a session of its own each time, and waits SECONDS between two changes. It says hello once, at its first
pid, on a line that its successors inherit: the line closes when the last of them is dead.
"""

import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.children.hello import hello


def hop(seconds: float) -> None:
    """Die, and go on as a child that nothing ties to this process but what is open."""
    while True:
        if os.fork():
            os._exit(0)
        os.setsid()
        time.sleep(seconds)  # the temper itself, not a wait


if len(sys.argv) > 2:
    os.environ["LIVENESS"] = sys.argv[2]  # /proc shows what we were started with
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    hello("hopping")
    hop(float(sys.argv[1]))
hello("hopper")
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.execve(sys.executable, [sys.executable, "-I", "-S", __file__, *sys.argv[1:], os.environ["LIVENESS"]], {})
os.wait()
sys.stdin.read()
