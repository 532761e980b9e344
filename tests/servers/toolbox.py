"""
A server that does what it is asked, for tempers that differ in one thing.

It remembers what a client told it; the tool `state` shows it: `level`, `subscriptions`, the line of `initialize` as it
came, whether `notifications/initialized` did, and how many calls there were. `wait` says "waiting" on the liveness
line, then reads the fifo it is given and returns what it held. `ask` sends the client a request and returns the whole
response.
"""

import json
import os
import sys
from collections.abc import Callable

from tests.servers import script
from tests.servers.script import Answer, Message

Tool = Callable[[Message], object]

state: Message = {"level": None, "subscriptions": [], "initialize": None, "initialized": False, "calls": 0}
RESOURCES = [{"uri": f"test://{name}", "name": name} for name in ("one", "two")]


def wait(arguments: Message) -> str:
    script.tell("waiting")
    with open(arguments["path"]) as fifo:  # noqa: PTH123
        return fifo.read()


def ask(arguments: Message) -> object:
    return script.ask(arguments["method"], arguments.get("params", {}), identity=arguments["id"])


def log(arguments: Message) -> str:
    script.notify("notifications/message", {"level": arguments["level"], "data": arguments["text"]})
    return "logged"


def touch(arguments: Message) -> str:
    """Whoever subscribed to it hears of a change."""
    if arguments["uri"] in state["subscriptions"]:
        script.notify("notifications/resources/updated", {"uri": arguments["uri"]})
    return "touched"


def digest(arguments: Message) -> str:
    import hashlib  # which would take a fifth of the time that the others need to start

    return hashlib.sha256(os.environ[arguments["name"]].encode()).hexdigest()


def complain(arguments: Message) -> str:
    script.complain(arguments["text"])
    return "complained"


TOOLS: dict[str, Tool] = {
    "echo": lambda arguments: arguments["text"],
    "add": lambda arguments: arguments["a"] + arguments["b"],
    "pid": lambda arguments: os.getpid(),
    "cwd": lambda arguments: os.getcwd(),  # noqa: PTH109
    "env_names": lambda arguments: sorted(os.environ),
    "env_digest": digest,
    "argv": lambda arguments: sys.argv[1:],
    "state": lambda arguments: state,
    "wait": wait,
    "ask": ask,
    "log": log,
    "touch": touch,
    "complain": complain,
}
WAITING = {"wait", "ask"}  # done in threads of their own


def introduce(request: Message) -> None:
    state["initialize"] = request["line"]
    capabilities = {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "logging": {}}
    about = {"name": "test-server", "version": "1.0.0"}
    version = request["params"]["protocolVersion"]
    script.answer(request, {"protocolVersion": version, "capabilities": capabilities, "serverInfo": about})


def initialized(message: Message) -> None:
    state["initialized"] = True


def level(request: Message) -> None:
    state["level"] = request["params"]["level"]
    script.answer(request, {})


def subscribe(request: Message) -> None:
    state["subscriptions"].append(request["params"]["uri"])
    script.answer(request, {})


def unsubscribe(request: Message) -> None:
    state["subscriptions"].remove(request["params"]["uri"])
    script.answer(request, {})


def listed(tools: dict[str, Tool]) -> list[Message]:
    return [{"name": name, "description": f"the tool {name}", "inputSchema": {"type": "object"}} for name in tools]


def text(value: object) -> Message:
    """The result of a call: a text is itself, anything else is JSON."""
    return {"content": [{"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}]}


def calls(tools: dict[str, Tool]) -> Answer:
    def act(request: Message) -> None:
        params = request["params"]
        script.answer(request, text(tools[params["name"]](params.get("arguments", {}))))

    def call(request: Message) -> None:
        state["calls"] += 1
        if request["params"]["name"] not in tools:
            script.refuse(request, -32602, f"no tool {request['params']['name']}")
        elif request["params"]["name"] in WAITING:
            script.apart(act, request)
        else:
            act(request)

    return call


def answers(**more: Tool) -> dict[str, Answer]:
    """For `script.serve`; `more` are tools besides the usual ones."""
    tools = {**TOOLS, **more}
    return {
        "initialize": introduce,
        "notifications/initialized": initialized,
        "logging/setLevel": level,
        "resources/list": lambda request: script.answer(request, {"resources": RESOURCES}),
        "resources/subscribe": subscribe,
        "resources/unsubscribe": unsubscribe,
        "tools/list": lambda request: script.answer(request, {"tools": listed(tools)}),
        "tools/call": calls(tools),
    }


VERSION, PREFIX = "2026-07-28", "io.modelcontextprotocol/"


def unknown(request: Message) -> None:
    script.refuse(request, -32601, f"no method {request['method']}")


def modern(answers: dict[str, Answer]) -> dict[str, Answer]:
    """These answers alone, to requests with the version in `_meta`; others are refused with what is spoken."""

    def checked(answer: Answer) -> Answer:
        def act(request: Message) -> None:
            if request.get("params", {}).get("_meta", {}).get(PREFIX + "protocolVersion") == VERSION:
                answer(request)
                return
            fault = {"code": -32022, "message": "unsupported version", "data": {"supported": [VERSION]}}
            script.send({"jsonrpc": "2.0", "id": request["id"], "error": fault})

        return act

    return {method: checked(answer) for method, answer in answers.items()} | {"ping": unknown}


def serve(**more: Tool) -> None:
    script.serve(answers(**more))
