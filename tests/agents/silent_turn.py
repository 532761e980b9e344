"""Opens sessions, then never answers a prompt. argv `works`: says one chunk first. Obeys no cancel."""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script


def prompt(request: script.Message) -> None:
    if sys.argv[1:] == ["works"]:
        script.say(script.session_of(request), "thinking about it")


script.serve({"session/prompt": prompt})
