"""Exits when it is pinged before `initialize`, as servers with a strict state machine do."""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.servers import script, toolbox


def ping(request: script.Message) -> None:
    if toolbox.state["initialize"] is None:
        script.complain("pinghater: initialize first")
        raise SystemExit(1)
    script.answer(request, {})


script.hello(script.name("pinghater"))
script.serve({**toolbox.answers(), "ping": ping})
