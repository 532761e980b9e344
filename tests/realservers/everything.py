"""
The script for @modelcontextprotocol/server-everything: every method and every tool, as one client would use them.

A line nobody asked for (progress, logs, updates) is always waited for before the next request, so that both ways to
the server see it at the same place.
"""

from collections.abc import Callable, Mapping

from tests.realservers.recorder import Json, Recorder, Responder, result

Call = tuple[str, Json]
TEXT, BLOB = "demo://resource/dynamic/text/1", "demo://resource/dynamic/blob/2"
CAPABILITIES: Json = {
    "roots": {"listChanged": True},
    "sampling": {},
    "elicitation": {"form": {}, "url": {}},
    "tasks": {"requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}},
}
SAMPLED = {
    "role": "assistant",
    "content": {"type": "text", "text": "sämpled"},
    "model": "none",
    "stopReason": "endTurn",
}
ELICITED = {"action": "accept", "content": {"name": "Ada", "check": True, "number": 2.5, "interpretation": "snake"}}

DATA = "data:text/plain;base64,SGVsbG8gd29ybGQ="
CALLS: list[Call] = [
    ("echo", {"message": 'quotes " and \\ and \u2028 and \U0001f600'}),
    ("echo", {"message": 1}),  # refused by its schema
    ("get-annotated-message", {"messageType": "error", "includeImage": True}),
    ("get-annotated-message", {"messageType": "success"}),
    ("get-annotated-message", {"messageType": "debug"}),
    ("get-env", {}),
    ("get-resource-links", {"count": 4}),
    ("get-resource-reference", {"resourceType": "Text", "resourceId": 3}),
    ("get-resource-reference", {"resourceType": "Blob", "resourceId": 4}),
    ("get-resource-reference", {"resourceType": "Text", "resourceId": -1}),
    ("get-roots-list", {}),
    ("get-structured-content", {"location": "Chicago"}),
    ("get-sum", {"a": 1.5, "b": 1e20}),
    ("get-tiny-image", {}),
    ("gzip-file-as-resource", {"name": "one.gz", "data": DATA, "outputType": "resource"}),
    ("gzip-file-as-resource", {"name": "two.gz", "data": DATA, "outputType": "resourceLink"}),
    ("trigger-sampling-request", {"prompt": "say something", "maxTokens": 10}),
    ("trigger-sampling-request-async", {"prompt": "say something", "maxTokens": 10}),
    ("trigger-elicitation-request", {}),
    ("trigger-elicitation-request-async", {}),
    ("trigger-url-elicitation", {"url": "https://example.com/", "elicitationId": "e-1"}),
    ("trigger-url-elicitation", {"url": "https://example.com/", "elicitationId": "e-2", "errorPath": True}),
    ("no-such-tool", {}),
]
ELSEWHERE = {  # tools with a step of their own below
    "trigger-long-running-operation",
    "toggle-simulated-logging",
    "toggle-subscriber-updates",
    "simulate-research-query",
}


def answers() -> Mapping[str, Responder]:
    """A client that can do everything; what is asked as a task it does as a task, which takes two looks."""
    looks: list[Json] = []

    def as_task(value: Json) -> Responder:
        def answer(params: Json) -> Json:
            if "task" not in params:
                return {"result": value}
            looks[:] = [_task("working"), _task("completed"), value]
            return {"result": {"task": looks.pop(0)}}

        return answer

    return {
        "ping": result({}),
        "roots/list": result({"roots": [{"uri": "file:///a%20b", "name": "ä"}, {"uri": "file:///c"}]}),
        "sampling/createMessage": as_task(SAMPLED),
        "elicitation/create": as_task(ELICITED),
        "tasks/get": lambda params: {"result": looks.pop(0)},
        "tasks/result": lambda params: {"result": looks.pop(0)},
    }


def _task(status: str) -> Json:
    now = "2026-01-01T00:00:00Z"
    return {"taskId": "t-1", "status": status, "createdAt": now, "lastUpdatedAt": now, "ttl": None, "pollInterval": 10}


def introduced(recorder: Recorder) -> None:
    """Hands shaken; the server has asked for the roots, as it does a moment later, and said so."""
    recorder.initialize(capabilities=CAPABILITIES)
    recorder.expect("roots/list")
    recorder.expect("notifications/message")


def everything(recorder: Recorder) -> None:
    introduced(recorder)
    for part in PARTS:
        part(recorder)


def lists(recorder: Recorder) -> None:
    for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
        recorder.request(method)
    recorder.request("ping")
    recorder.request("no/such/method", {"x": [1, None]})
    recorder.request("resources/list", {"cursor": "no such cursor"})


def tools(recorder: Recorder) -> None:
    for tool, arguments in CALLS:
        recorder.call(tool, arguments)
    recorder.request("tools/call", {"arguments": {}})  # no name


def progress(recorder: Recorder) -> None:
    arguments = {"duration": 0.2, "steps": 4}
    for token in ("a token", 7):
        recorder.call("trigger-long-running-operation", arguments, _meta={"progressToken": token})


def cancellation(recorder: Recorder) -> None:
    """Nothing answers what was cancelled."""
    params = {"name": "trigger-long-running-operation", "arguments": {"duration": 0.4, "steps": 2}}
    recorder.skip()
    id = recorder.start("tools/call", {**params, "_meta": {"progressToken": "cancelled"}})
    recorder.expect("notifications/progress")
    recorder.notify("notifications/cancelled", {"requestId": id, "reason": "enough"})
    recorder.expect("notifications/progress")  # this server goes on and says so
    recorder.call("echo", {"message": "the next one"})


def resources(recorder: Recorder) -> None:
    for resource in recorder.request("resources/list")["result"]["resources"]:
        recorder.request("resources/read", {"uri": resource["uri"]})
    for uri in (TEXT, BLOB, "demo://resource/dynamic/text/x", "demo://nowhere"):
        recorder.request("resources/read", {"uri": uri})
    recorder.request("resources/subscribe", {"uri": TEXT})
    recorder.request("resources/subscribe", {"uri": BLOB})
    recorder.request("resources/unsubscribe", {"uri": TEXT})
    recorder.call("toggle-subscriber-updates")  # every 5 s, and once before the answer
    recorder.call("toggle-subscriber-updates")


def prompts(recorder: Recorder) -> None:
    asked: list[tuple[str, Json]] = [
        ("simple-prompt", {}),
        ("args-prompt", {"city": "Köln", "state": "NRW"}),
        ("completable-prompt", {"department": "Sales", "name": "Eve"}),
        ("resource-prompt", {"resourceType": "Text", "resourceId": "1"}),
        ("args-prompt", {}),  # refused
        ("no-such-prompt", {}),
    ]
    for name, arguments in asked:
        recorder.request("prompts/get", {"name": name, "arguments": arguments})


def completion(recorder: Recorder) -> None:
    prompt = {"type": "ref/prompt", "name": "completable-prompt"}
    argument = {"name": "name", "value": ""}
    recorder.request("completion/complete", {"ref": prompt, "argument": {"name": "department", "value": "S"}})
    context = {"arguments": {"department": "Sales"}}
    recorder.request("completion/complete", {"ref": prompt, "argument": argument, "context": context})
    template = {"type": "ref/resource", "uri": "demo://resource/dynamic/text/{resourceId}"}
    recorder.request("completion/complete", {"ref": template, "argument": {"name": "resourceId", "value": "3"}})


def logging(recorder: Recorder) -> None:
    recorder.request("logging/setLevel", {"level": "no such level"})
    recorder.request("logging/setLevel", {"level": "debug"})
    recorder.call("toggle-simulated-logging")
    recorder.call("toggle-simulated-logging")
    recorder.request("logging/setLevel", {"level": "error"})
    recorder.request("resources/subscribe", {"uri": TEXT})  # which it would tell at `info`


def roots_changed(recorder: Recorder) -> None:
    recorder.request("logging/setLevel", {"level": "info"})
    recorder.skip()
    recorder.notify("notifications/roots/list_changed")
    recorder.expect("roots/list")
    recorder.expect("notifications/message")


PARTS: list[Callable[[Recorder], None]] = [
    *(lists, tools, progress, cancellation, resources, prompts, completion, logging, roots_changed)
]


def research(recorder: Recorder) -> None:
    """A task of 2025-11-25 that asks something on its way; its result is waited for."""
    introduced(recorder)
    asked = {"name": "simulate-research-query", "arguments": {"topic": "python", "ambiguous": True}, "task": {}}
    task = recorder.request("tools/call", asked)["result"]["task"]["taskId"]
    recorder.request("tasks/result", {"taskId": task})
    recorder.request("tasks/get", {"taskId": task})
    other = recorder.request("tools/call", asked)["result"]["task"]["taskId"]
    recorder.request("tasks/cancel", {"taskId": other})
    recorder.request("tasks/list")
