"""@modelcontextprotocol/server-everything, directly and through the seat: line by line the same (docs/mcp.md)."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.realservers import everything
from tests.realservers.everything import answers
from tests.realservers.npm import EVERYTHING, needs_npm, server
from tests.realservers.recorder import Json, Recorder
from tests.realservers.seated import assert_same, directly, seated

pytestmark = needs_npm
TIMED_OUT = -32011  # bridge/conversation.py
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


@pytest.mark.parametrize("version", [*LEGACY, "1999-01-01"])
def test_the_server_and_not_the_bridge_chooses_the_protocol_version(version: str, tmp_path: Path) -> None:
    """M-8; a version nobody knows is answered with the server's newest."""

    def script(recorder: Recorder) -> None:
        recorder.initialize(version)
        recorder.request("tools/list")
        recorder.call("echo", {"message": version})

    opened, *_ = assert_same(server(EVERYTHING, cwd=tmp_path), script)
    assert opened["result"]["protocolVersion"] == (version if version in LEGACY else LEGACY[-1])


def test_a_client_that_declares_nothing_is_offered_only_what_needs_nothing_of_it(tmp_path: Path) -> None:
    """M-43: what the agent has not declared is not declared in its place."""

    def script(recorder: Recorder) -> None:
        recorder.initialize()
        recorder.request("tools/list")

    messages = assert_same(server(EVERYTHING, cwd=tmp_path), script)
    offered = {tool["name"] for tool in results(messages, "tools")[0]["tools"]}
    needs_a_client = {"get-roots-list", *(tool for tool, _ in everything.CALLS if tool.startswith("trigger-"))}
    assert offered & (needs_a_client - {"trigger-long-running-operation"}) == set()


def test_a_busy_server_does_not_keep_a_ping_waiting(tmp_path: Path) -> None:
    """M-42: who answers may differ, that it is answered may not."""
    call = {"name": "trigger-long-running-operation", "arguments": {"duration": 0.3, "steps": 1}}
    with seated(server=server(EVERYTHING, cwd=tmp_path)) as seats, seats.open() as recorder:
        recorder.initialize()
        id = recorder.start("tools/call", call)
        assert recorder.request("ping") == {"jsonrpc": "2.0", "id": id + 1, "result": {}}
        assert "result" in recorder.answer(id)


def test_a_long_call_lives_of_its_progress_and_silence_ends_it(tmp_path: Path) -> None:
    """M-41, `timeouts.call`."""
    arguments = {"duration": 1.2, "steps": 6}
    limited = replace(server(EVERYTHING, cwd=tmp_path), keys={"call": 0.6})
    with seated(server=limited) as seats, seats.open() as recorder:
        recorder.initialize()
        done = recorder.call("trigger-long-running-operation", arguments, _meta={"progressToken": "t"})
        assert "completed" in done["result"]["content"][0]["text"]
        silent = recorder.call("trigger-long-running-operation", arguments)["error"]
        said = 'MCP server "server" did not answer tools/call within 0.6 s (timeouts.call)'
        assert (silent["code"], silent["message"]) == (TIMED_OUT, said)
        assert "result" in recorder.call("echo", {"message": "the next one"})


def test_what_the_profile_denies_is_neither_listed_nor_called_and_the_rest_is_untouched(tmp_path: Path) -> None:
    everything = server(EVERYTHING, cwd=tmp_path)
    with directly(everything) as recorder:
        recorder.initialize()
        tools = recorder.request("tools/list")["result"]["tools"]
    with seated(server=replace(everything, keys={"deny": ["get-*"]})) as seats, seats.open() as recorder:
        recorder.initialize()
        allowed = recorder.request("tools/list")["result"]["tools"]
        assert "error" in recorder.call("get-env")
        assert "result" in recorder.call("echo", {"message": "allowed"})
    assert allowed == [tool for tool in tools if not tool["name"].startswith("get-")]
    assert 0 < len(allowed) < len(tools)
