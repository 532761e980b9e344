"""Every line we say ourselves, in an agent's or a server's place, is one that the types of PyPI `mcp` know."""

import json
from collections.abc import Iterator
from typing import Any

import mcp_types as types
import pytest
from mcp_types import jsonrpc, methods

from acp_launch.profile.model import Tools
from tests.bridge.talker import DEAD, HELLO, INITIALIZE, INITIALIZED, KILLED, Json, Talker, answer, ask, call, tell
from tests.realservers.test_sdk_server import META

VERSION = "2025-06-18"  # the one of tests/bridge/talker.py
URI = "test://one"
TOOL = {"name": "echo", "inputSchema": {"type": "object"}}


class Judged(Talker):
    """Keeps what each side was sent that the other has not said: our own lines."""

    said: list[bytes]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.said = []

    def agent(self, *messages: Json | bytes) -> None:
        self.said += [_line(message) for message in messages]
        super().agent(*messages)

    def server(self, *messages: Json | bytes) -> None:
        self.said += [_line(message) for message in messages]
        super().server(*messages)

    def own(self) -> Iterator[tuple[str, Json]]:
        for to, heard in (("agent", self.agent_heard), ("server", self.server_heard)):
            yield from ((to, json.loads(line)) for line in heard if line not in self.said)


def _line(message: Json | bytes) -> bytes:
    return message if isinstance(message, bytes) else json.dumps(message, separators=(",", ":")).encode()


def known(talker: Judged) -> None:
    """The server has shown its lists, and knows a level and a subscription."""
    talker.agent(ask(1, "tools/list"), ask(2, "prompts/list"), ask(3, "resources/list"))
    talker.agent(ask(4, "resources/templates/list"), ask(5, "logging/setLevel", level="info"))
    talker.agent(ask(6, "resources/subscribe", uri=URI))
    talker.server(answer(1, {"tools": [TOOL]}), answer(2, {"prompts": []}), answer(3, {"resources": []}))
    talker.server(answer(4, {"resourceTemplates": []}), answer(5, {}), answer(6, {}))


def introduced(**knobs: Any) -> Judged:
    talker = Judged(**knobs)
    talker.exchange.attached(probe=True)
    talker.agent(INITIALIZE)
    talker.server(answer(0, HELLO))
    talker.agent(INITIALIZED)
    return talker


def questions(talker: Judged) -> None:
    talker.server(ask(1, "sampling/createMessage", messages=[], maxTokens=1), ask("r", "roots/list"), ask("p", "ping"))


def a_crash() -> Judged:
    """In mid-call, with questions open; then another process, with other lists, which asks under the same id."""
    talker = introduced()
    known(talker)
    questions(talker)
    talker.agent(call(7), ask(8, "ping"))
    talker.exchange.on_gone(KILLED, for_good=False)
    talker.agent(call(9))
    talker.exchange.attached()
    talker.server(answer(0, HELLO))
    for own in [message for to, message in talker.own() if to == "server" and {"id", "method"} <= message.keys()]:
        talker.server(answer(own["id"], CHANGED.get(own["method"], {})))
    questions(talker)
    return talker


CHANGED: dict[str, Json] = {
    "tools/list": {"tools": []},
    "prompts/list": {"prompts": [{"name": "new"}]},
    "resources/list": {"resources": [{"uri": URI, "name": "new"}]},
    "resources/templates/list": {"resourceTemplates": []},
}


def the_end() -> Judged:
    talker = introduced()
    talker.agent(call("seven"))
    talker.exchange.on_gone(KILLED, for_good=False)
    talker.agent(call(8))
    talker.exchange.on_gone(DEAD, for_good=True)
    talker.agent(call(9), ask(10, "ping"))
    return talker


def time_outs() -> Judged:
    talker = introduced(call=10.0)
    talker.agent(call(7))
    talker.clock += 11
    talker.exchange.tick()
    talker.exchange.on_gone(KILLED, for_good=False)
    talker.agent(call(8))
    talker.clock += 31
    talker.exchange.tick()
    return talker


def what_may_not_be() -> Judged:
    talker = introduced(tools=Tools(deny=("echo",)))
    talker.agent(call(7), b"no message", b"[1]")
    early = Judged()
    early.exchange.attached()
    early.server(ask(1, "roots/list"), ask(2, "sampling/createMessage"), ask(3, "ping"), tell("notifications/message"))
    talker.said += early.said
    talker.agent_heard += early.agent_heard
    talker.server_heard += early.server_heard
    return talker


@pytest.mark.parametrize("scene", [a_crash, the_end, time_outs, what_may_not_be])
def test_what_we_say_in_anothers_place_is_proper_mcp(scene: Any) -> None:
    talker: Judged = scene()
    own = list(talker.own())
    assert {to for to, _ in own} == {"agent", "server"}
    for to, message in own:
        judge(to, message)


def test_the_scenes_show_all_that_we_ever_say() -> None:
    said = {
        (to, message.get("method") or ("error" if "error" in message else "result"))
        for scene in (a_crash, the_end, time_outs, what_may_not_be)
        for to, message in scene().own()
    }
    lists = {"tools/list", "prompts/list", "resources/list", "resources/templates/list"}
    noticed = {"tools", "prompts", "resources"}
    assert said == {
        *(("agent", f"notifications/{kind}/list_changed") for kind in noticed),
        *(("agent", kind) for kind in ("error", "result", "notifications/cancelled")),
        *(("agent", kind) for kind in ("sampling/createMessage", "ping")),  # of the server, under an id of ours
        *(("server", method) for method in lists | {"ping", "logging/setLevel", "resources/subscribe"}),
        *(("server", kind) for kind in ("error", "result", "notifications/cancelled")),
    }


def judge(to: str, message: Json) -> None:
    envelope = jsonrpc.jsonrpc_message_adapter.validate_python(message)
    params = message.get("params")
    match to, envelope:
        case "agent", jsonrpc.JSONRPCRequest():
            methods.parse_server_request(envelope.method, VERSION, params)
        case "agent", jsonrpc.JSONRPCNotification():
            methods.parse_server_notification(envelope.method, VERSION, params)
        case "server", jsonrpc.JSONRPCRequest():
            methods.validate_client_request(envelope.method, VERSION, params)
        case "server", jsonrpc.JSONRPCNotification():
            methods.validate_client_notification(envelope.method, VERSION, params)
        case "server", jsonrpc.JSONRPCResponse() if envelope.result:
            types.ListRootsResult.model_validate(envelope.result)
        case _, jsonrpc.JSONRPCResponse():
            assert envelope.result == {}  # a pong
        case _, jsonrpc.JSONRPCError():
            assert envelope.error.message


WRONG_ERA = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32600, "message": "this connection serves the handshake"}}


def modern(id: object) -> Json:
    return ask(id, "server/discover", _meta=META)


def test_a_refusal_of_the_newer_era_reaches_the_agent_which_then_shakes_hands() -> None:
    """Our ping may have made the server choose the older one; a process after the agent's first request gets none."""
    talker = Talker()
    talker.exchange.attached(probe=True)
    (ping,) = talker.server_hears()
    talker.server(answer(ping["id"], {}))
    talker.agent(modern(1))
    talker.server(WRONG_ERA)
    assert talker.agent_hears() == [WRONG_ERA]
    talker.exchange.on_gone(KILLED, for_good=False)
    talker.server_hears()
    talker.exchange.attached(probe=True)
    assert talker.server_hears() == []


def test_an_agent_that_goes_on_to_shake_hands_has_its_next_process_told_of_them() -> None:
    talker = Talker()
    talker.exchange.attached(probe=True)
    talker.agent(modern(1))
    talker.server({**WRONG_ERA, "error": {"code": -32601, "message": "no"}})
    talker.agent(INITIALIZE)
    talker.server(answer(0, HELLO))
    talker.exchange.on_gone(KILLED, for_good=False)
    talker.server_hears()
    talker.exchange.attached(probe=True)
    assert talker.server_hears() == [INITIALIZE]
