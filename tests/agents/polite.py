"""Does everything right and nothing more: echoes the prompt in one chunk."""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

script.serve()
