"""Speaks MCP with a handshake only. Its argument says what becomes of an unknown method, and of any other before the
handshake: `silence`, `exit` or `leave` (with the status 1 or 0), or the code of an error."""

import sys
from typing import Any

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.servers import script, toolbox
from tests.servers.script import Answer, Message

(HOW,) = sys.argv[1:]
polite = toolbox.answers()


def unknown(request: Message) -> None:
    if HOW in ("exit", "leave"):
        sys.exit(HOW == "exit")
    if HOW != "silence":
        script.refuse(request, int(HOW), f"no method {request['method']}")


def checked(method: str, answer: Answer) -> Answer:
    def act(request: Message) -> None:
        if method == "initialize" or toolbox.state["initialize"]:
            answer(request)
        else:
            unknown(request)

    return act


class Methods(dict[str, Any]):
    """Knows every method."""

    def __contains__(self, method: object) -> bool:
        return not str(method).startswith("notifications/") or super().__contains__(method)

    def __missing__(self, method: str) -> Answer:
        return unknown


script.hello(script.name("older"))
methods = Methods({method: checked(method, answer) for method, answer in polite.items()})
methods["ping"] = lambda request: script.answer(request, {})
while (found := script.read()) is not None:
    message, line = found
    script.take(script.with_line(message, line), methods)
