"""A server on PyPI `mcp`, directly and through the seat: line by line the same."""

from pathlib import Path

import pytest

from tests.realservers import sdk
from tests.realservers.sdk import answers, server
from tests.realservers.seated import assert_same

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


@pytest.mark.sample(0, 1)
@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25"])
def test_every_method_and_every_tool_is_the_same_through_the_seat(version: str, tmp_path: Path) -> None:
    messages = assert_same(server(tmp_path), lambda recorder: sdk.everything(recorder, version), answers)
    assert messages[0]["result"]["protocolVersion"] == version
    called = {tool for tool, _ in sdk.CALLS} - {"no_such_tool"} | {"count", "wait", "grow", "touch"}
    offered = {tool["name"] for tool in messages[1]["result"]["tools"]}
    assert offered == called
    asked = {message["method"] for message in messages if "method" in message and "id" in message}
    assert asked == {"elicitation/create", "sampling/createMessage", "roots/list", "ping"}
