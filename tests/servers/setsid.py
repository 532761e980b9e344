"""Serves from a session of its own, deaf to the end of input; the process that was started waits for it (`setsid -w`).

On the liveness line that one is called NAME-parent.
"""

import os
import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.servers import script, toolbox

name = script.name("setsid")
script.hello(f"{name}-parent")
if child := os.fork():
    _, status = os.waitpid(child, 0)
    raise SystemExit(os.waitstatus_to_exitcode(status) & 0xFF)
os.setsid()
script.hello(name)
toolbox.serve()
script.hang()
