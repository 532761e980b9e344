"""Never reads its input. `deaf.py` ends at TERM, `deaf.py stubborn` ignores it, `deaf.py frozen` stops itself first."""

import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.children.hello import hello

temper = sys.argv[1] if len(sys.argv) > 1 else "deaf"
if temper == "stubborn":
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
hello(temper)
if temper == "frozen":
    signal.raise_signal(signal.SIGSTOP)
while True:
    signal.pause()
