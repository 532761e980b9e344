"""An MCP server that reads everything and answers nothing."""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

while script.read() is not None:
    pass
