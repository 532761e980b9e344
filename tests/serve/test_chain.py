"""Ring 1. What goes to a successor in a chain of proxies and comes from it, byte for byte."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.protocol import jsonrpc
from acp_launch.serve.chain import unwrapped, wrapped
from tests.serve.test_relay import IDS, VALUES, Wire, answer, asked


@given(IDS, st.text(min_size=1), VALUES, st.booleans(), st.booleans())
def test_what_is_wrapped_comes_out_as_it_was(id: object, method: str, params: Any, is_request: bool, has: bool) -> None:
    message: dict[str, Any] = {"jsonrpc": "2.0", **({"id": id} if is_request else {}), "method": method}
    message |= {"params": params} if has and params is not None else {}
    line = json.dumps(message, separators=(",", ":")).encode()
    through = wrapped(line, "proxy/successor")
    outer = json.loads(through)
    assert (outer["method"], outer.get("id"), "id" in outer) == ("proxy/successor", message.get("id"), is_request)
    assert outer["params"] == {key: message[key] for key in ("method", "params") if key in message}
    assert unwrapped(through) == line


def test_numbers_and_the_meta_inside_stay_as_they_were_written_and_that_of_the_envelope_goes_no_further() -> None:
    params = b'{ "_meta" : {"a":1.0}, "n":1e2, "s":"\\u00e9" }'
    line = b'{"jsonrpc":"2.0","id":7,"method":"x","params":%b}' % params
    assert params in wrapped(line, "proxy/successor")
    outer = b'{"id": 7, "params": {"_meta":{"hop":1},"params": %b, "method": "x"}, "method":"proxy/successor"}' % params
    assert unwrapped(outer) == line


@pytest.mark.parametrize("params", [b"{}", b'{"method":1}', b"null", b"[]", b'"x"'])
def test_an_envelope_without_a_method_is_none(params: bytes) -> None:
    assert unwrapped(b'{"jsonrpc":"2.0","id":1,"method":"proxy/successor","params":%b}' % params) is None


def test_parameters_that_are_null_are_left_out() -> None:
    line = b'{"jsonrpc":"2.0","method":"proxy/successor","params":{"method":"x","params":null}}'
    assert unwrapped(line) == b'{"jsonrpc":"2.0","method":"x"}'


def test_one_peer_that_speaks_for_both_sides_is_understood_by_its_ids() -> None:
    wire = Wire()

    def side(message: object) -> str:
        line = json.dumps(message).encode()
        decoded = jsonrpc.decode(line)
        assert decoded is not None
        return wire.relay.side_of(line, decoded)

    wire.says("editor", asked(1))
    wire.says("agent", asked(2, "fs/read_text_file"))
    (prompt,), (reading,) = wire.got("agent"), wire.got("editor")
    assert (side(answer(prompt["id"])), side(answer(reading["id"]))) == ("agent", "editor")
    withdrawn = {"jsonrpc": "2.0", "method": "$/cancel_request"}
    assert side({**withdrawn, "params": {"requestId": 1}}) == "editor"
    assert side({**withdrawn, "params": {"requestId": 2}}) == "agent"
    assert side({**withdrawn, "params": {"requestId": "2"}}) == "editor"
    assert side({**withdrawn, "params": None}) == "editor"
