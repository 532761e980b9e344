"""Its tool `talk` answers with {bytes} of text in one line."""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.servers import script, toolbox

script.hello(script.name("bigmouth"))
toolbox.serve(talk=lambda arguments: "m" * arguments["bytes"])
