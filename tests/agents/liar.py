"""Says one thing and does another.

argv: `version N` answers that protocol version; `load`, `resume`, `list`, `close`, `delete` advertise a method and then
refuse it with -32601; `no-session` answers session/new without an id; `twice` answers every request two times; `stop`
ends a turn without a stop reason; `text-version` answers version "1".
"""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

lie, value = (*sys.argv[1:], "", "")[:2]
ADVERTISED: dict[str, object] = {"loadSession": True} if lie == "load" else {"sessionCapabilities": {lie: {}}}


def initialize(request: script.Message) -> None:
    if lie == "version":
        script.answer(request, {"protocolVersion": int(value)})
    elif lie == "text-version":
        script.answer(request, {"protocolVersion": "1"})
    else:
        script.initialize(request, **ADVERTISED)


def new(request: script.Message) -> None:
    if lie == "no-session":
        script.answer(request, {})
    else:
        script.new(request)


def prompt(request: script.Message) -> None:
    if lie == "stop":
        script.answer(request, {})
    else:
        script.prompt(request)


def twice(once: script.Answer) -> script.Answer:
    def both(request: script.Message) -> None:
        once(request)
        if lie == "twice":
            script.refuse(request, -32603, "the second answer to the same request")

    return both


script.serve({"initialize": twice(initialize), "session/new": twice(new), "session/prompt": twice(prompt)})
