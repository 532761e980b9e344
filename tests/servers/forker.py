"""Polite itself; a child it forked, NAME-child, holds its pipes open and ends by no signal that can be ignored."""

import os
import signal
import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.servers import script, toolbox

name = script.name("forker")
script.hello(name)
if os.fork() == 0:
    script.ignore(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    script.hello(f"{name}-child")
    script.hang()
toolbox.serve()
