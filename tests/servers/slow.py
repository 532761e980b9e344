"""Reads nothing before the fifo argv[1] was written to."""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.servers import script, toolbox

script.hello(script.name("slow"))
with open(sys.argv[1]) as fifo:  # noqa: PTH123
    fifo.read()
toolbox.serve()
