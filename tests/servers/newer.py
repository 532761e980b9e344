"""
Speaks MCP 2026-07-28 only, and uses what it has instead of requests of the server.

The tool `greet` needs the user's name (elicitation), `think` the model, `where` the roots, `later` another try without
any input; `meta` returns the `_meta` of its call. `grow` tells those who listen that the tools have changed, `touch`
that the resource has. Each listens with `subscriptions/listen`.
"""

import json
import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.servers import script, toolbox
from tests.servers.script import Message
from tests.servers.toolbox import PREFIX, VERSION, unknown

STATE = "state-\u00e9=="  # opaque to the client
listeners: dict[object, Message] = {}
ASKED = {
    "greet": {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": {"type": "object"}}},
    "think": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}},
    "where": {"method": "roots/list"},
}
TOOLS = [*ASKED, "later", "meta", "grow", "touch", "wait"]


def answer(request: Message, result: Message) -> None:
    about = {PREFIX + "serverInfo": {"name": "newer", "version": "2"}}
    script.answer(request, {"resultType": "complete", **result, "_meta": about})


def discover(request: Message) -> None:
    offers = {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "logging": {}}
    said = {"supportedVersions": [VERSION], "capabilities": offers, "instructions": "Use it."}
    answer(request, {**said, "ttlMs": 1000, "cacheScope": "public"})


def listing(request: Message) -> None:
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
    answer(request, {"tools": tools, "ttlMs": 1000, "cacheScope": "public"})


def call(request: Message) -> None:
    params = request["params"]
    name = params["name"]
    if name in (*ASKED, "later") and "requestState" not in params:
        wanted = {"inputRequests": {"q": ASKED[name]}} if name in ASKED else {}
        answer(request, {"resultType": "input_required", "requestState": STATE, **wanted})
        return
    if name in (*ASKED, "later"):
        assert params["requestState"] == STATE
        answer(request, toolbox.text(json.dumps(params.get("inputResponses", {}).get("q"))))
        return
    if name == "grow":
        tell("toolsListChanged", "notifications/tools/list_changed")
    elif name == "touch":
        tell("resourceSubscriptions", "notifications/resources/updated", uri=params["arguments"]["uri"])
    elif name == "wait":
        return
    answer(request, toolbox.text(params["_meta"]))


def tell(wanted: str, method: str, **params: object) -> None:
    for id, filter in listeners.items():
        if filter.get(wanted):
            script.notify(method, {**params, "_meta": {PREFIX + "subscriptionId": id}})


def listen(request: Message) -> None:
    listeners[request["id"]] = filter = request["params"]["notifications"]
    meta = {PREFIX + "subscriptionId": request["id"]}
    script.notify("notifications/subscriptions/acknowledged", {"notifications": filter, "_meta": meta})


def cancelled(message: Message) -> None:
    listeners.pop(message["params"]["requestId"], None)


script.hello(script.name("newer"))
methods: dict[str, script.Answer] = {
    "server/discover": discover,
    "tools/list": listing,
    "tools/call": call,
    "subscriptions/listen": listen,
}
script.serve({**toolbox.modern(methods), "initialize": unknown, "notifications/cancelled": cancelled})
