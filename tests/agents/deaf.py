"""Never reads its input; outlives the end of it, and TERM."""

import signal
import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

script.ignore(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
script.complain("deaf: ready")
script.hang()
