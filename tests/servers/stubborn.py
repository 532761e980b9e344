"""Ends neither with its input nor at TERM, INT or HUP."""

import signal
import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.servers import script, toolbox

script.ignore(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
script.hello(script.name("stubborn"))
toolbox.serve()
script.hang()
