"""
Has a child before it becomes another program, as shell scripts do: `wrapper.py PORT ARGV...`.

The child is a nurse that dies at TERM and leaves a worker in a session of its own, with an empty environment; both say
hello at PORT, with their pid.
"""

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.children.hello import hello


def stay(name: str) -> None:
    hello(f"{name} {os.getpid()}")
    while True:
        signal.pause()


def nurse() -> None:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        os.execve(sys.executable, [sys.executable, "-I", "-S", __file__, os.environ["LIVENESS"]], {})
    stay("nurse")


port, *argv = sys.argv[1:]
if argv and os.fork():
    os.execv(argv[0], argv)
os.environ["LIVENESS"] = port
if argv:
    nurse()
else:
    stay("worker")
