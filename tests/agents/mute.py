"""Reads everything, answers nothing; ends with its input. argv `held`: outlives it until TERM."""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

while script.read() is not None:
    pass
if sys.argv[1:] == ["held"]:
    script.hang()
