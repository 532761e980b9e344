"""Answers `initialize` only once somebody has written to the fifo argv[1] (and closed it).

argv[2] `session`: it is `session/new` that waits; `prompt`: the prompt.
"""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

fifo, *moment = sys.argv[1:]


def waiting(answer: script.Answer) -> script.Answer:
    def then(request: script.Message) -> None:
        with open(fifo, "rb") as file:  # noqa: PTH123 - blocks until there is a writer, then until it closes
            file.read()
        answer(request)

    return then


method = {"session": "session/new", "prompt": "session/prompt"}.get((*moment, "")[0], "initialize")
script.serve({method: waiting(script.POLITE[method])})
