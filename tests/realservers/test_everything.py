"""@modelcontextprotocol/server-everything, directly and through the seat: line by line the same (docs/mcp.md)."""

from pathlib import Path

import pytest

from tests.realservers import everything
from tests.realservers.everything import answers
from tests.realservers.npm import EVERYTHING
from tests.realservers.published import needs_npm, server
from tests.realservers.recorder import Json, Recorder
from tests.realservers.seated import assert_same

pytestmark = needs_npm
LEGACY = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


def results(messages: list[Json], member: str) -> list[Json]:
    return [message["result"] for message in messages if member in message.get("result", {})]


def methods(messages: list[Json]) -> set[str]:
    return {message["method"] for message in messages if "method" in message}


def test_every_method_and_every_tool_is_the_same_through_the_seat(tmp_path: Path) -> None:
    messages = assert_same(server(EVERYTHING, cwd=tmp_path), everything.everything, answers)
    offered = {tool["name"] for tool in results(messages, "tools")[0]["tools"]}
    assert offered == {tool for tool, _ in everything.CALLS} - {"no-such-tool"} | everything.ELSEWHERE
    assert methods(messages) == {
        *("roots/list", "sampling/createMessage", "elicitation/create", "tasks/get", "tasks/result"),
        *("notifications/message", "notifications/progress", "notifications/resources/updated"),
        *("notifications/tools/list_changed", "notifications/resources/list_changed"),
    }


def test_a_task_that_asks_something_on_its_way_is_the_same_through_the_seat(tmp_path: Path) -> None:
    messages = assert_same(server(EVERYTHING, cwd=tmp_path), everything.research, answers)
    assert "elicitation/create" in methods(messages)
    (report,) = [content["content"][0]["text"] for content in results(messages, "content")]
    assert report.startswith("# Research Report: python (snake)")


@pytest.mark.parametrize("version", [LEGACY[0], "1999-01-01"])
def test_the_server_and_not_the_bridge_chooses_the_protocol_version(version: str, tmp_path: Path) -> None:
    """M-8; a version nobody knows is answered with the server's newest."""

    def script(recorder: Recorder) -> None:
        recorder.initialize(version)
        recorder.request("tools/list")
        recorder.call("echo", {"message": version})

    opened, *_ = assert_same(server(EVERYTHING, cwd=tmp_path), script)
    assert opened["result"]["protocolVersion"] == (version if version in LEGACY else LEGACY[-1])
