"""A server whose tool `ask` asks the client what {method}, {params} and {id} say, and returns the whole response."""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.servers import script, toolbox

script.hello(script.name("asker"))
toolbox.serve()
