"""Says its last words on stderr, waits for a line, and ends: `crasher.py exit 3` or `crasher.py signal 9`."""

import signal
import sys

sys.stderr.write("first\nlast words\n")
sys.stderr.flush()
sys.stdin.readline()
how, number = sys.argv[1:]
if how == "exit":
    sys.exit(int(number))
signal.signal(int(number), signal.SIG_DFL) if int(number) != signal.SIGKILL else None
signal.raise_signal(signal.Signals(int(number)))
