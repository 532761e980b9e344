"""Ring 1. C-56: what an update of a tool call changes, and what it leaves."""

from acp_launch.session.state import ToolCalls, server, title, tool


def test_an_update_changes_what_it_names_and_nothing_else() -> None:
    calls = ToolCalls()
    calls.merge({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "Read", "kind": "read", "status": "pending"})
    call = calls.merge({"sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "completed", "title": None})
    assert call == {"toolCallId": "1", "title": "Read", "kind": "read", "status": "completed"}


def test_collections_are_replaced_whole() -> None:
    calls = ToolCalls()
    calls.merge({"sessionUpdate": "tool_call", "toolCallId": "1", "content": [1, 2], "locations": [3]})
    call = calls.merge({"sessionUpdate": "tool_call_update", "toolCallId": "1", "content": [9], "locations": []})
    assert (call["content"], call["locations"]) == ([9], [])


def test_an_update_of_an_unknown_call_creates_it() -> None:
    """gemini sends tool_call_update without any tool_call."""
    call = ToolCalls().merge({"sessionUpdate": "tool_call_update", "toolCallId": "9", "status": "in_progress"})
    assert call == {"toolCallId": "9", "status": "in_progress"}


def test_a_tool_call_with_a_known_id_starts_over() -> None:
    calls = ToolCalls()
    calls.merge({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "A", "kind": "read"})
    assert calls.merge({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "B"}) == {
        "toolCallId": "1",
        "title": "B",
    }


def test_a_permission_question_is_merged_into_the_call_it_is_about() -> None:
    calls = ToolCalls()
    calls.merge({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "Edit", "kind": "edit"})
    assert calls.merge({"toolCallId": "1"})["kind"] == "edit"


def test_what_a_question_does_not_say_again_of_its_tool_is_still_known() -> None:
    """qwen's question has the arguments for a title, and names the tool in `_meta`, without its server."""
    calls = ToolCalls()
    announced = {
        "toolCallId": "1",
        "title": "echo (tiny MCP Server)",
        "_meta": {"toolName": "echo", "serverId": "tiny"},
    }
    calls.merge({"sessionUpdate": "tool_call", **announced})
    question = {"toolCallId": "1", "title": '{"text":"hi"}', "_meta": {"toolName": "mcp__tiny__echo"}}
    assert calls.announced(question) == "echo (tiny MCP Server)"
    call = calls.merge(question)
    assert call["_meta"] == {"toolName": "mcp__tiny__echo", "serverId": "tiny"}
    assert (tool(call), server(call), title(call)) == ("mcp__tiny__echo", "tiny", '{"text":"hi"}')


def test_a_question_that_brings_no_other_title_was_announced_as_nothing_else() -> None:
    calls = ToolCalls()
    calls.merge({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "Edit"})
    for question in ({}, {"title": "Edit"}, {"title": None}, {"title": 7}):
        assert calls.announced({"toolCallId": "1", **question}) == ""
    assert calls.announced({"toolCallId": "unheard of", "title": "Edit"}) == ""


def test_a_server_is_known_by_what_is_said_or_by_the_name_of_its_tool() -> None:
    assert server({"name": "mcp__my_files__read_it"}) == "my_files"
    assert server({"_meta": {"claudeCode": {"toolName": "x", "mcpServer": {"name": "files"}}}}) == "files"
    for call in ({"name": "Bash"}, {"name": "mcp__x"}, {"name": "mcp____y"}, {"_meta": 3}, {}):
        assert server(call) == ""


def test_cancelling_marks_what_is_unfinished() -> None:
    """C-63."""
    calls = ToolCalls()
    calls.merge({"sessionUpdate": "tool_call", "toolCallId": "1", "status": "completed"})
    calls.merge({"sessionUpdate": "tool_call", "toolCallId": "2", "status": "in_progress"})
    calls.merge({"sessionUpdate": "tool_call", "toolCallId": "3"})
    assert [call["toolCallId"] for call in calls.cancel()] == ["2", "3"]
    assert calls.cancel() == []


def test_a_call_without_a_title_is_named_by_what_there_is() -> None:
    assert title({"title": "T", "name": "n", "kind": "read"}) == "T"
    assert title({"name": "n", "kind": "read"}) == "n"
    assert title({"kind": "read"}) == "read"
    assert title({"title": 7}) == "a tool call"
