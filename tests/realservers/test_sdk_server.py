"""A server on PyPI `mcp`, directly and through the seat: line by line the same; and 10 MB both ways."""

from pathlib import Path

import pytest

from tests.realservers import sdk
from tests.realservers.recorder import Json, Recorder
from tests.realservers.sdk import MANY, answers, server
from tests.realservers.seated import assert_same, seated

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25"])
def test_every_method_and_every_tool_is_the_same_through_the_seat(version: str, tmp_path: Path) -> None:
    messages = assert_same(server(tmp_path), lambda recorder: sdk.everything(recorder, version), answers)
    assert messages[0]["result"]["protocolVersion"] == version
    called = {tool for tool, _ in sdk.CALLS} - {"no_such_tool"} | {"count", "wait", "grow", "touch"}
    offered = {tool["name"] for tool in messages[1]["result"]["tools"]}
    assert offered == called | {"talk", "measure", "die"}
    asked = {message["method"] for message in messages if "method" in message and "id" in message}
    assert asked == {"elicitation/create", "sampling/createMessage", "roots/list", "ping"}


def test_ten_megabytes_pass_in_both_directions(tmp_path: Path) -> None:
    """M-4."""

    def script(recorder: Recorder) -> None:
        recorder.initialize()
        recorder.call("talk", {"size": MANY})
        recorder.call("measure", {"text": "\u2028ä\n" * (MANY // 6)})

    _, talked, measured = assert_same(server(tmp_path), script)
    assert talked["result"]["content"][0]["text"] == "m" * MANY
    assert measured["result"]["structuredContent"] == {"result": MANY // 6 * 3}


def modern(method: str, recorder: Recorder, **params: Json | str) -> Json:
    return recorder.request(method, {**params, "_meta": META})


def test_an_agent_that_asks_for_the_newer_era_is_refused_by_the_server_and_shakes_hands(tmp_path: Path) -> None:
    """A server of both eras goes by the first request, which was our ping."""
    with seated(server=server(tmp_path)) as seats, seats.open() as recorder:
        refused = modern("server/discover", recorder)
        assert refused["error"]["code"] in (-32600, -32601)  # the server's own, or ours once it has answered us
        recorder.initialize()
        added = recorder.call("add", {"a": 1, "b": 2})
    assert added["result"]["structuredContent"] == {"result": 3}
