"""Answers one call, and exits with status 0."""

import os
import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.servers import script, toolbox


def last(request: script.Message) -> None:
    answers["tools/call"](request)
    os._exit(0)


script.hello(script.name("quitter"))
answers = toolbox.answers()
script.serve({**answers, "tools/call": last})
