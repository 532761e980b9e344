"""One update in one line of SIZE megabytes, then the end of the turn. argv: SIZE (default 1)."""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

size = int((*sys.argv[1:], "1")[0]) << 20


def prompt(request: script.Message) -> None:
    session = script.session_of(request)
    script.say(session, "x" * size)
    script.say(session, "done")
    script.end(request)


script.serve({"session/prompt": prompt})
