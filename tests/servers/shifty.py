"""Has one more tool at every start, `tool-N`; the file argv[1] counts them. The tool `crash` makes it start again."""

import os
import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.servers import script, toolbox

with open(sys.argv[1], "a+") as file:  # noqa: PTH123
    file.write("x")
    file.seek(0)
    starts = len(file.read())
script.hello(script.name("shifty"))
tools: dict[str, toolbox.Tool] = {f"tool-{number}": lambda arguments: "mine" for number in range(starts)}
toolbox.serve(crash=lambda arguments: os._exit(3), **tools)
