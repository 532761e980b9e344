"""Reads everything and answers nothing."""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.servers import script

script.hello(script.name("mute"))
while script.read() is not None:
    pass
