"""Ring 1. JSON-RPC: two id spaces, every id kept, everything that is no message survived (C-3 to C-9)."""

import json

import pytest
from msgspec import Raw

from acp_launch.protocol.jsonrpc import Answered, Called, Junk, Notified, Peer, with_id


def test_what_is_no_message_is_junk_and_nothing_more() -> None:
    """C-3, C-4."""
    for line in [
        b"Welcome to the agent!",
        b"",
        b"   ",
        b"\r",
        b"3",
        b"null",
        b'"text"',
        b"true",
        b"[]",
        b'[{"jsonrpc":"2.0","id":0,"result":{}}]',
        b"{",
        b'{"jsonrpc":"2.0"}',
        b'{"method":3}',
        b'{"jsonrpc":"2.0","id":99,"result":{}}',
        b'{"jsonrpc":"2.0","id":"0","result":{}}',
        b'{"jsonrpc":"2.0","id":{"a":1},"result":{}}',
        b'{"jsonrpc":"2.0","id":[0],"error":{}}',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}',
        b"\xff\xfe{}",
        b'{"method":"x","params":"\xff"}',
    ]:
        peer = Peer()
        call = peer.call("initialize", {})
        assert isinstance(peer.receive(line), Junk)
        answer = peer.receive(b'{"jsonrpc":"2.0","error":null,"id":0,"result":{"ok":1}}')
        assert isinstance(answer, Answered)
        assert (answer.number, answer.fault, answer.result) == (call.number, None, Raw(b'{"ok":1}'))
    junk = peer.receive(b'{"jsonrpc":"2.0","id":7,"result":{"token":"s3cret"}}')
    assert isinstance(junk, Junk) and "s3cret" not in junk.reason


@pytest.mark.parametrize("prefix", [b"", b"\xef\xbb\xbf", b"  "])
@pytest.mark.parametrize("suffix", [b"", b"\r", b"  "])
def test_a_bom_and_line_ends_of_another_world_are_tolerated(prefix: bytes, suffix: bytes) -> None:
    event = Peer().receive(prefix + b'{"jsonrpc":"2.0","method":"x","params":{}}' + suffix)
    assert isinstance(event, Notified)
    assert event.method == "x"


@pytest.mark.parametrize("id", ["0", "1", '"0"', '"abc"', "null", "12345678901234567890", '"\\u00e9"', "-3"])
def test_an_answer_carries_the_id_as_it_came(id: str) -> None:
    """C-6."""
    peer = Peer()
    peer.call("ours", {})  # our own id 0 is another space
    event = peer.receive(f'{{"jsonrpc":"2.0","id":{id},"method":"ask","params":{{}}}}'.encode())
    assert isinstance(event, Called)
    line = peer.respond(event.id, {"x": 1})
    assert line == f'{{"jsonrpc":"2.0","id":{id},"result":{{"x":1}}}}\n'.encode()


def test_a_request_is_answered_once_and_its_id_may_be_used_again_after_that_and_not_before() -> None:
    peer = Peer()
    ask = b'{"jsonrpc":"2.0","id":0,"method":"ask"}'
    first = peer.receive(ask)
    assert isinstance(first, Called)
    assert isinstance(peer.receive(ask), Junk)
    peer.respond(first.id, {})
    assert peer.refuse(first.id, -32601, "no") == b""
    assert isinstance(peer.receive(ask), Called)


def test_a_message_is_one_line_of_utf8_with_an_integer_of_ours() -> None:
    """C-1."""
    peer = Peer()
    for number in range(3):
        line = peer.call("m", {"text": "näïve\r\n\u2028 \x00"}).line
        assert line.count(b"\n") == 1 and line.endswith(b"\n")
        params = {"text": "näïve\r\n\u2028 \x00"}
        assert json.loads(line.decode()) == {"jsonrpc": "2.0", "id": number, "method": "m", "params": params}


@pytest.mark.parametrize(
    ("member", "code", "message"),
    [
        (b'{"code":-32000,"message":"log in"}', -32000, "log in"),
        (b'{"code":400,"message":"model"}', 400, "model"),
        (b'{"message":"only words"}', -32603, "only words"),
        (b'"just text"', -32603, '"just text"'),
        (b'{"code":"x"}', -32603, '{"code":"x"}'),
        (b'{"code":4,"message":"cut \\ud83d"}', 4, "cut \ud83d"),
    ],
)
def test_an_error_of_any_shape_has_a_code_and_words(member: bytes, code: int, message: str) -> None:
    peer = Peer()
    peer.call("m", {})
    event = peer.receive(b'{"jsonrpc":"2.0","id":0,"error":' + member + b"}")
    assert isinstance(event, Answered)
    assert event.fault is not None
    assert (event.fault.code, event.fault.message) == (code, message)


@pytest.mark.parametrize(
    "params",
    [
        rb'{"t":"cut \ud83d"}',
        rb'{"t":"\uDE00 cut"}',
        b'{"t":' + b"[" * 5000 + b"]" * 5000 + b"}",
        rb'{"t":"cut \ud83d","u":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
    ids=["first half", "second half", "deep", "first half, and deep"],
)
def test_what_the_decoder_refuses_and_json_allows_arrives_as_it_is(params: bytes) -> None:
    """Programs in JavaScript cut their text in the middle of an emoji."""
    line = b'{"jsonrpc":"2.0","id":"a","method":"m","params":' + params + b"}"
    called = Peer().receive(line)
    assert isinstance(called, Called)
    assert (bytes(called.id), called.method, bytes(called.params)) == (b'"a"', "m", params)


@pytest.mark.parametrize(
    ("id", "method"), [(rb'"i\ud83d"', rb'"m"'), (b"7", rb'"m\ud83d"')], ids=["in the id", "in the method"]
)
def test_half_a_character_in_the_head_is_answered_as_it_came(id: bytes, method: bytes) -> None:
    """Else whoever asked would wait for ever (C-8)."""
    peer = Peer()
    called = peer.receive(b'{"jsonrpc":"2.0","id":' + id + b',"method":' + method + b"}")
    assert isinstance(called, Called)
    assert called.method == json.loads(method)
    assert id in peer.refuse(called.id, -32601, "method not found")


def test_half_a_character_goes_back_as_an_escape() -> None:
    peer = Peer()
    id = Raw(b'"a"')
    line = peer.call("m", {"path": "\udcff", "raw": Raw(b'{"a":1}')}).line
    assert json.loads(line)["params"] == {"path": "\udcff", "raw": {"a": 1}}
    peer.receive(b'{"jsonrpc":"2.0","id":"a","method":"m"}')
    assert json.loads(peer.respond(id, {"optionId": "a\ud83d"}))["result"] == {"optionId": "a\ud83d"}
    peer.receive(b'{"jsonrpc":"2.0","id":"a","method":"m"}')
    said = json.loads(peer.refuse(id, 1, "no \ud83d", {"x": "\udcff"}))
    assert said == {"jsonrpc": "2.0", "id": "a", "error": {"code": 1, "message": "no \ud83d", "data": {"x": "\udcff"}}}


@pytest.mark.parametrize(
    "line", [b"[" * 100_000, b'{"id":1,"result":[[}', rb'{"id":1,"t":"\ud83d"', rb'{"id":"\ud83d",}']
)
def test_what_json_does_not_allow_stays_junk(line: bytes) -> None:
    assert isinstance(Peer().receive(line), Junk)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":{"id":7}}', b'{"jsonrpc":"2.0","id":"new","result":{"id":7}}'),
        (b' { "jsonrpc" : "2.0" , "id" : 7 , "method":"x"}', b' { "jsonrpc" : "2.0" , "id" : "new" , "method":"x"}'),
        (b'{"id":"a b","method":"x"}', b'{"id":"new","method":"x"}'),
        (b'{"id":"\\u0061","method":"x"}', b'{"id":"new","method":"x"}'),
        (b'{"id":null,"method":"x"}', b'{"id":"new","method":"x"}'),
        (b'{"method":"x","params":{"id":1},"id":7}', b'{"method":"x","params":{"id":1},"id":"new"}'),
        (b'{"id":1,"method":"x","id":7}', b'{"id":1,"method":"x","id":"new"}'),
        (b'{"id":1,"method":"x","\\u0069d":7}', b'{"id":1,"method":"x","\\u0069d":"new"}'),
        (b'{"method":"x"}', b'{"method":"x"}'),
    ],
)
def test_only_the_id_that_counts_is_replaced(line: bytes, expected: bytes) -> None:
    """C-6: of two members of one name the last one counts."""
    assert with_id(line, Raw(b'"new"')) == expected
    assert with_id(line, Raw(b'"new"'), was=7) == expected
