"""Does not end with its input; TERM ends it."""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.servers import script, toolbox

script.hello(script.name("deaf"))
toolbox.serve()
script.hang()
