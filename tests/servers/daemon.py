"""Polite itself; a double-forked daemon, NAME-helper, stays behind and ignores what can be ignored."""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.servers import script, toolbox

name = script.name("daemon")
script.hello(name)
script.leave_behind(lambda: script.hello(f"{name}-helper"))
toolbox.serve()
