"""Does what it is asked, and ends with its input."""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.servers import script, toolbox

script.hello(script.name("polite"))
toolbox.serve()
