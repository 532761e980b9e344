"""The script for sdk_server.py, spoken by our own client: the methods of the handshake era."""

import sys
from collections.abc import Mapping
from pathlib import Path

from tests.cli.launcher import ROOT
from tests.realservers.recorder import Json, Recorder, Responder, result
from tests.realservers.sdk_server import URI
from tests.realservers.seated import Server

CAPABILITIES: Json = {"roots": {}, "sampling": {}, "elicitation": {}}
CALLS: list[tuple[str, Json]] = [
    ("add", {"a": 1, "b": 2}),
    ("add", {"a": 2**70, "b": -1}),
    ("add", {"a": "x"}),
    ("forecast", {"city": "Zürich"}),
    ("picture", {}),
    ("fail", {"why": "because"}),
    ("greet", {}),
    ("think", {}),
    ("where", {}),
    ("ping_back", {}),
    ("state", {}),
    ("no_such_tool", {}),
]


def server(cwd: Path, **keys: object) -> Server:
    run = f"runpy.run_module('{__package__}.sdk_server', None, '__main__')"
    start = f"import sys, runpy; sys.path.insert(0, {str(ROOT)!r}); {run}"
    return Server([sys.executable, "-I", "-c", start], cwd, keys=keys)


def answers() -> Mapping[str, Responder]:
    sampled = {"role": "assistant", "content": {"type": "text", "text": "nothing"}, "model": "none"}
    return {
        "ping": result({}),
        "roots/list": result({"roots": [{"uri": "file:///a%20b"}]}),
        "sampling/createMessage": result(sampled),
        "elicitation/create": result({"action": "accept", "content": {"name": "Ada"}}),
    }


def everything(recorder: Recorder, version: str) -> None:
    recorder.initialize(version, CAPABILITIES)
    listing(recorder)
    for tool, arguments in CALLS:
        recorder.call(tool, arguments)
    for token in ("a token", 7):
        recorder.call("count", {"steps": 3}, _meta={"progressToken": token})
    cancellation(recorder)
    changes(recorder)
    prompts(recorder)


def listing(recorder: Recorder) -> None:
    for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list", "ping"):
        recorder.request(method)
    for uri in (URI, "test://blob", "test://note/a%20b", "test://nowhere"):
        recorder.request("resources/read", {"uri": uri})
    recorder.request("no/such/method", {"x": [1, None]})


def cancellation(recorder: Recorder) -> None:
    recorder.skip()
    params = {"name": "wait", "arguments": {}, "_meta": {"progressToken": "w"}}
    id = recorder.start("tools/call", params)
    recorder.expect("notifications/progress")
    recorder.notify("notifications/cancelled", {"requestId": id, "reason": "enough"})
    recorder.call("add", {"a": 3, "b": 4})


def changes(recorder: Recorder) -> None:
    recorder.call("grow", {"name": "grown"})
    recorder.request("tools/list")
    recorder.call("grown")
    for method in ("resources/subscribe", "resources/unsubscribe", "resources/subscribe"):
        recorder.request(method, {"uri": URI})
    recorder.call("touch")
    recorder.request("logging/setLevel", {"level": "warning"})
    recorder.call("state")


def prompts(recorder: Recorder) -> None:
    recorder.request("prompts/get", {"name": "review", "arguments": {"code": "x = 1"}})
    recorder.request("prompts/get", {"name": "review"})
    ref = {"type": "ref/prompt", "name": "review"}
    recorder.request("completion/complete", {"ref": ref, "argument": {"name": "language", "value": "p"}})
