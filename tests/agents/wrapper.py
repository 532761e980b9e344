"""Starts another agent of this directory behind `sh -c`, in a session of its own, as npx and its likes do.

argv: NAME ARGS… of that agent (default polite). Before that it leaves behind a double-forked daemon which ignores
the end of input, TERM, INT and HUP.
"""

import os
import signal
import subprocess
import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script


def leave_a_daemon() -> None:
    """Returns once the daemon is in a session of its own ."""
    ready, done = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            script.ignore(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
            os.close(done)
            script.hang()
        os._exit(0)
    os.waitpid(child, 0)
    os.close(done)
    os.read(ready, 1)


name, *arguments = sys.argv[1:] or ["polite"]
leave_a_daemon()
agent = [sys.executable, "-I", "-S", __file__.replace("wrapper.py", f"{name}.py"), *arguments]
child = subprocess.Popen(["sh", "-c", '"$@"; exit $?', "sh", *agent], start_new_session=True)
raise SystemExit(child.wait())
