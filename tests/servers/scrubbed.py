"""Polite itself; its double-forked daemon, NAME-helper, runs in an empty environment, so that it carries no marker."""

import os
import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.servers import script, toolbox


def become_a_helper() -> None:
    code = f"import sys; sys.path.insert(0, {sys.path[0]!r}); from tests.servers import helper"
    argv = [sys.executable, "-I", "-S", "-c", code, os.environ["LIVENESS"], f"{name}-helper"]
    os.execve(sys.executable, argv, {})


name = script.name("scrubbed")
script.hello(name)
script.leave_behind(become_a_helper)
toolbox.serve()
