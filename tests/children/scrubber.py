"""Polite itself, but leaves a stubborn double-forked daemon in a session of its own whose environment holds nothing."""

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.children.hello import hello


def leave_a_daemon() -> None:
    if first := os.fork():
        os.waitpid(first, 0)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    os.execve(sys.executable, [sys.executable, "-I", "-S", __file__, os.environ["LIVENESS"]], {})


if len(sys.argv) > 1:
    os.environ["LIVENESS"] = sys.argv[1]  # /proc shows what we were started with
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    hello("scrubbed")
    while True:
        signal.pause()
hello("scrubber")
leave_a_daemon()
sys.stdin.read()
