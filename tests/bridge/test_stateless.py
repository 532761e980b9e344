"""Ring 1. Requests without a session over HTTP (MCP 2026-07-28)."""

import json

import pytest

from acp_launch.bridge.front.gate import Head
from acp_launch.bridge.front.stateless import REMOVED, Stateless
from tests.bridge.fronted import META
from tests.bridge.replying import Json, Said, Server, line

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
LEVEL = "io.modelcontextprotocol/logLevel"
SCHEMA = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "size": {"type": "integer", "x-mcp-header": "Size"},
    },
}
TOOLS = {"tools": [{"name": "deploy", "inputSchema": SCHEMA}]}


def made() -> tuple[Stateless, Server]:
    server = Server()
    return Stateless(server), server


def head(method: str, name: str = "", **headers: str | None) -> Head:
    """The headers as they should be; keyword arguments replace some, `None` leaves one out."""
    plain = {"mcp-protocol-version": "2026-07-28", "mcp-method": method, "mcp-name": name or None}
    given = plain | {key.replace("_", "-"): value for key, value in headers.items()}
    return Head("POST", "/", tuple((key, value) for key, value in given.items() if value is not None))


def ask(shared: Stateless, id: object, method: str, params: Json | None = None, **headers: str | None) -> Said:
    said = Said()
    params = {"_meta": META, **(params or {})}
    name = str(params.get("name") or params.get("uri") or "")
    shared.posts(head(method, name, **headers), line(id=id, method=method, params=params), said)
    return said


def call(shared: Stateless, id: object, *, token: object = None, **more: object) -> Said:
    meta = META | ({} if token is None else {"progressToken": token})
    return ask(shared, id, "tools/call", {"name": "a", "arguments": {}, "_meta": meta | more})


def test_requests_of_several_clients_do_not_meet() -> None:
    """M-39: ids and progress tokens are ours on the way, and theirs again in what comes back."""
    shared, server = made()
    first, second = call(shared, 1, token="t"), call(shared, 1, token="t")
    asked = server.take()
    ids = [message["id"] for message in asked]
    assert len(set(ids)) == 2
    assert [message["params"]["_meta"]["progressToken"] for message in asked] == ids
    for id in reversed(ids):
        shared.says(line(method="notifications/progress", params={"progressToken": id, "progress": id}))
        shared.says(line(id=id, result={"for": id}))
    for said, id in ((first, ids[0]), (second, ids[1])):
        progress, answer = said.messages
        assert progress["params"] == {"progressToken": "t", "progress": id}
        assert answer == {"jsonrpc": "2.0", "id": 1, "result": {"for": id}}
        assert said.is_over


@pytest.mark.parametrize("id", [0, 1, "1", "ä", 10**25])
def test_an_id_comes_back_as_it_was(id: object) -> None:
    """M-2."""
    shared, server = made()
    said = ask(shared, id, "tools/list")
    (asked,) = server.take()
    shared.says(line(id=asked["id"], result={}))
    assert (said.status, said.messages) == (200, [{"jsonrpc": "2.0", "id": id, "result": {}}])


def test_nothing_else_of_a_message_is_changed() -> None:
    """M-1, M-5: unknown members, numbers and the order of keys."""
    shared, server = made()
    meta = json.dumps(META).encode()
    tail = b'"n": 1.0, "big": 1e400, "x": {"id": 5, "\\u2028": [1, {"progressToken": 3}]}, "_meta": ' + meta
    body = b'{"z": 1, "method": "tools/list", "params": {' + tail + b'}, "jsonrpc": "2.0", "id" : 77 }'
    shared.posts(head("tools/list"), body, Said())
    assert server.lines == [body.replace(b'"id" : 77', b'"id" : 1')]


@pytest.mark.parametrize(
    "answer",
    [
        b'{"jsonrpc":"2.0","id":1,"result":{"id":1}}',
        b' { "id" : 1 , "result" : { "id" : 1 } , "jsonrpc" : "2.0" }',
        b'{"result":{"id":1},"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","result":{"id":1},"id":1}',
    ],
)
def test_an_answers_own_id_is_changed_wherever_it_stands(answer: bytes) -> None:
    shared, _ = made()
    said = ask(shared, "mine", "tools/list")
    shared.says(answer)
    assert said.messages == [{"jsonrpc": "2.0", "id": "mine", "result": {"id": 1}}]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (-32601, 404),
        (-32602, 400),
        (-32600, 400),
        (-32022, 400),
        (-32021, 400),
        (-32020, 400),
        (-32603, 200),
        (-1, 200),
    ],
)
def test_an_error_has_the_status_that_belongs_to_it(error: int, status: int) -> None:
    shared, server = made()
    said = ask(shared, 9, "x/y")
    (asked,) = server.take()
    shared.says(line(id=asked["id"], error={"code": error, "message": "no"}))
    assert (said.status, said.messages[0]["id"], said.messages[0]["error"]["code"]) == (status, 9, error)


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"mcp_protocol_version": None}, -32020),
        ({"mcp_protocol_version": "2025-11-25"}, -32020),
        ({"mcp_method": None}, -32020),
        ({"mcp_method": "TOOLS/CALL"}, -32020),
        ({"mcp_name": None}, -32020),
        ({"mcp_name": "b"}, -32020),
        ({"mcp_name": "=?base64?YQ?="}, -32020),
        ({"mcp_name": "=?base64?YQ==?="}, None),
    ],
)
def test_headers_that_differ_from_the_body_are_refused(headers: dict[str, str | None], code: int | None) -> None:
    """M-31 from the server's side."""
    shared, server = made()
    said = ask(shared, 3, "tools/call", {"name": "a"}, **headers)
    if code is None:
        assert len(server.lines) == 1
        return
    assert (said.status, said.messages[0]["id"], said.messages[0]["error"]["code"]) == (400, 3, code)
    assert server.lines == []


@pytest.mark.parametrize("missing", sorted(META))
def test_a_request_says_its_version_and_what_its_client_can(missing: str) -> None:
    shared, server = made()
    meta = {name: value for name, value in META.items() if name != missing}
    said = ask(shared, 3, "tools/list", {"_meta": meta})
    assert (said.status, said.messages[0]["id"], said.messages[0]["error"]["code"]) == (400, 3, -32602)
    assert server.lines == []


@pytest.mark.parametrize("method", REMOVED)
def test_a_method_of_the_older_era_does_not_exist(method: str) -> None:
    """An `initialize` with the newer `_meta` is a request for a removed method, not a handshake."""
    shared, server = made()
    said = ask(shared, 3, method)
    assert (said.status, said.messages[0]["id"], said.messages[0]["error"]["code"]) == (404, 3, -32601)
    assert server.lines == []


@pytest.mark.parametrize(
    ("body", "code"), [(b"x", -32700), (b"[]", -32700), (b'{"jsonrpc":"2.0","id":1,"result":{}}', -32600)]
)
def test_a_body_that_is_not_a_request_is_refused(body: bytes, code: int) -> None:
    shared, server = made()
    said = Said()
    shared.posts(head("tools/list"), body, said)
    assert (said.status, said.messages[0]["error"]["code"]) == (400, code)
    assert server.lines == []


def test_arguments_are_checked_against_their_headers() -> None:
    """M-31. The tools are asked for once; a call is refused only by a list that is fresh."""
    shared, server = made()
    params: Json = {"name": "deploy", "arguments": {"region": "eu ", "size": 42}}
    good = {"mcp_param_region": "=?base64?ZXUg?=", "mcp_param_size": "42.0"}
    said = ask(shared, 1, "tools/call", params, **good)
    (listing,) = server.take()
    assert (listing["method"], listing["params"]["_meta"]) == ("tools/list", META)
    shared.says(line(id=listing["id"], result={**TOOLS, "nextCursor": "2"}))
    (page,) = server.take()
    assert page["params"]["cursor"] == "2"
    shared.says(line(id=page["id"], result={"tools": []}))
    (asked,) = server.take()
    assert asked["method"] == "tools/call"
    shared.says(line(id=asked["id"], result={}))
    assert said.status == 200
    for bad in (
        {**good, "mcp_param_size": "43"},
        {"mcp_param_size": "42"},
        {**good, "mcp_param_region": "=?base64?!?="},
    ):
        refused = ask(shared, 2, "tools/call", params, **bad)
        (listing,) = server.take()
        shared.says(line(id=listing["id"], result=TOOLS))
        assert (refused.status, refused.messages[0]["error"]["code"]) == (400, -32020)
        assert server.lines == []
    extra = ask(shared, 3, "tools/call", {"name": "deploy", "arguments": {}}, mcp_param_region="eu")
    (listing,) = server.take()
    shared.says(line(id=listing["id"], result=TOOLS))
    assert extra.status == 400


def test_tools_that_the_client_has_listed_are_not_asked_for_again() -> None:
    shared, server = made()
    ask(shared, 1, "tools/list")
    shared.says(line(id=server.take()[0]["id"], result=TOOLS))
    ask(shared, 2, "tools/call", {"name": "deploy", "arguments": {"size": 1}}, mcp_param_size="1")
    assert [message["method"] for message in server.take()] == ["tools/call"]


def test_a_client_that_leaves_cancels_its_request_alone() -> None:
    """M-40. A late answer is dropped."""
    shared, server = made()
    gone, kept = call(shared, 1), call(shared, 2)
    first, second = (message["id"] for message in server.take())
    shared.gone(gone)
    (cancelled,) = server.take()
    assert (cancelled["method"], cancelled["params"]["requestId"]) == ("notifications/cancelled", first)
    shared.says(line(id=first, result={}))
    shared.says(line(id=second, result={}))
    assert (gone.messages, kept.messages[0]["id"]) == ([], 2)


def test_a_subscription_is_named_by_the_clients_own_id() -> None:
    """M-15."""
    shared, server = made()
    stream, other = ask(shared, "s", "subscriptions/listen"), ask(shared, "t", "subscriptions/listen")
    id = server.take()[0]["id"]
    shared.says(line(method="notifications/subscriptions/acknowledged", params={"_meta": {SUBSCRIPTION: id}}))
    shared.says(line(method="notifications/tools/list_changed", params={"_meta": {SUBSCRIPTION: id}}))
    shared.says(line(id=id, result={"_meta": {SUBSCRIPTION: id}}))
    *told, answer = stream.messages
    assert [message["params"]["_meta"][SUBSCRIPTION] for message in told] == ["s", "s"]
    assert (answer["id"], answer["result"]["_meta"][SUBSCRIPTION]) == ("s", "s")
    assert stream.is_over
    assert other.messages == []
    only_json = Said(takes_events=False)
    body = line(id="u", method="subscriptions/listen", params={"_meta": META})
    shared.posts(head("subscriptions/listen"), body, only_json)
    assert only_json.status == 406


def test_log_messages_go_to_a_request_that_wants_them() -> None:
    shared, _ = made()
    quiet, loud, newest = call(shared, 1), call(shared, 2, **{LEVEL: "debug"}), call(shared, 3)
    shared.says(line(method="notifications/message", params={"level": "info", "data": "x"}))
    assert [len(said.messages) for said in (quiet, loud, newest)] == [0, 1, 0]


def test_a_server_of_this_era_asks_nothing() -> None:
    """The request is refused, and no client hears of it."""
    shared, server = made()
    said = call(shared, 1)
    server.take()
    shared.says(line(id=1, method="sampling/createMessage", params={}))
    (refusal,) = server.take()
    assert (refusal["id"], refusal["error"]["code"]) == (1, -32601)
    assert said.messages == []


def test_the_end_of_the_server_answers_everything() -> None:
    shared, _ = made()
    said = [call(shared, 1), ask(shared, 2, "subscriptions/listen")]
    waiting = ask(shared, 3, "tools/call", {"name": "deploy", "arguments": {"size": 1}})
    shared.end("the server has gone")
    assert [each.messages[0]["error"]["code"] for each in (*said, waiting)] == [-32010] * 3
    assert not shared.is_waiting


def test_a_probe_alone_is_known_as_such() -> None:
    shared, _ = made()
    ask(shared, 1, "server/discover")
    assert shared.is_probe
    ask(shared, 2, "tools/list")
    assert not shared.is_probe
