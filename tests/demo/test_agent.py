"""The demo agent keeps every promise of its `initialize` answer. Every line it writes is judged by the oracle."""

import json
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from acp_launch.demo import replies
from tests.demo.client import Client, choose, prompt_params, script_entry, server_entry
from tests.patience import PATIENCE


def test_it_says_that_it_is_scripted_and_what_it_can_do(agent: Client, tmp_path: Path) -> None:
    answer = agent.initialize()
    able = answer["agentCapabilities"]
    assert (answer["protocolVersion"], answer["authMethods"], able["loadSession"]) == (1, [], True)
    assert answer["agentInfo"]["title"] == "Demo agent (scripted, no model)"
    assert [*able["sessionCapabilities"]] == ["list", "resume", "close", "delete", "additionalDirectories"]
    assert "auth" not in able
    agent.result("session/new", {"cwd": str(tmp_path), "mcpServers": []})
    message = agent.until(lambda message: message.get("method") == "session/update")
    assert "note" in [command["name"] for command in message["params"]["update"]["availableCommands"]]


def test_help_lists_every_command_in_several_chunks_of_one_message(agent: Client, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    for text in ("help", "", "/help"):
        agent.prompt(session, text)
        chunks = agent.of_kind("agent_message_chunk")
        assert len(chunks) > 5
        assert len({chunk["messageId"] for chunk in chunks}) == 1
        lines = agent.said().splitlines()
        assert [line for line in lines if line.startswith("**")] == [f"**{group}**" for group in replies.GROUPS]
        assert len([line for line in lines if line.startswith("- ")]) == len(replies.REPLIES)


def test_what_it_does_not_understand_is_echoed_and_names_the_session(agent: Client, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    answer = agent.prompt(session, "good  morning\nworld")
    assert agent.said().startswith("You said: good  morning\nworld\n\n") and "`help`" in agent.said()
    assert (answer["stopReason"], answer["usage"]["inputTokens"]) == ("end_turn", 3)
    assert answer["usage"]["totalTokens"] == 3 + len(agent.said().split())
    assert [update["title"] for update in agent.of_kind("session_info_update")] == ["good  morning\nworld"]
    assert agent.updates[-1]["sessionUpdate"] == "usage_update"
    agent.prompt(session, "again")
    assert agent.of_kind("session_info_update") == []


def test_tools_lists_each_server_with_its_tools_or_what_is_wrong_with_it(agent: Client, tmp_path: Path) -> None:
    missing = {"name": "missing", "command": "/nonexistent/server", "args": [], "env": []}
    session = agent.open(tmp_path, server_entry(), missing, script_entry("crasher", "start"))
    agent.prompt(session, "tools")
    assert "**notes**: connected, 3 tools" in agent.said()
    assert "`add_note` (asks first): Append a note" in agent.said()
    assert "`list_notes`: List all notes" in agent.said()
    assert "**missing**: not connected: [Errno 2]" in agent.said()
    assert "**crasher**: not connected" in agent.said()


def test_the_first_answer_waits_until_the_servers_are_connected(agent: Client, tmp_path: Path) -> None:
    """So that whoever asks one thing and leaves has seen them all opened."""
    heard = tmp_path / "heard"
    recording = {"env": [{"name": "ACP_TEST_TRANSCRIPT", "value": str(heard)}]}
    session = agent.open(tmp_path, {**script_entry("mcp_slow", str(tmp_path / "cancelled")), **recording})
    agent.prompt(session, "help")
    methods = [json.loads(line)["method"] for line in heard.read_bytes().splitlines()]
    assert methods == ["initialize", "notifications/initialized", "tools/list"]


def test_a_note_is_written_after_permission_and_can_be_read_back(agent: Client, tmp_path: Path) -> None:
    notes = tmp_path / "home" / "notes.txt"
    session = agent.open(tmp_path, server_entry())
    agent.permission = choose("reject-once")
    assert agent.prompt(session, "note buy bread")["stopReason"] == "end_turn"
    assert agent.statuses() == ["pending", "failed"]
    assert agent.said() == "I did not do it: permission was refused."
    agent.permission = lambda params: {"outcome": {"outcome": "cancelled"}}
    assert agent.prompt(session, "note buy bread")["stopReason"] == "cancelled"
    assert agent.statuses() == ["pending", "failed"]
    assert not notes.exists()
    agent.permission = choose("allow-always")
    agent.prompt(session, "note buy milk")
    assert agent.statuses() == ["pending", "in_progress", "completed"]
    assert agent.asked[-1]["params"]["toolCall"]["kind"] == "edit"
    assert [option["kind"] for option in agent.asked[-1]["params"]["options"]] == [
        *("allow_once", "allow_always", "reject_once")
    ]
    agent.prompt(session, "remember eggs")
    assert notes.read_text() == "buy milk\neggs\n"
    agent.prompt(session, "notes")
    assert agent.said() == "1. buy milk\n2. eggs"
    assert len(agent.asked) == 3


def test_any_tool_can_be_called_with_json_arguments_and_repeatedly(agent: Client, tmp_path: Path) -> None:
    session = agent.open(tmp_path, server_entry())
    for prompt, said in (
        ('call notes add {"a": 2, "b": 40}', "42"),
        ('call notes add {"a": "two"}', "The tool `add` failed: a must be a number"),
        ("call notes nothing", "No server `notes` with a tool `nothing`."),
        ("repeat", 'I repeat a call from 1 to 1000 times: `repeat 20 notes add {"a":1,"b":2}`.'),
        ("call notes", "Say which server, which tool, and its arguments as a JSON object: `call notes add_note"),
        ("repeat 3 notes add {", "These arguments are not JSON: Expecting property name enclosed in double quotes:"),
    ):
        agent.prompt(session, prompt)
        assert agent.said().startswith(said)
        assert ("failed" in agent.statuses()) == ("two" in prompt)
    agent.prompt(session, 'repeat 3 notes add {"a": 2, "b": 40}')
    assert agent.said() == "1. 42\n2. 42\n3. 42\n"
    assert agent.statuses() == ["pending", "in_progress", "completed"] * 3
    titles = [update["title"] for update in agent.of_kind("tool_call")]
    assert titles == [f"notes: add ({number} of 3)" for number in (1, 2, 3)]


def test_a_server_that_dies_in_a_call_fails_that_call_alone(agent: Client, tmp_path: Path) -> None:
    session = agent.open(tmp_path, script_entry("crasher"), server_entry())
    agent.prompt(session, "call crasher crash")
    assert agent.statuses()[-1] == "failed"
    assert "crasher closed its output" in agent.said()
    agent.prompt(session, 'call notes add {"a": 2, "b": 3}')
    assert agent.said() == "5"


def test_plans_and_thoughts_are_such_and_directories_are_told(agent: Client, tmp_path: Path) -> None:
    more = tmp_path / "more"
    more.mkdir()
    session = agent.open(tmp_path, additionalDirectories=[str(more)])
    agent.prompt(session, "plan")
    plans = [[entry["status"] for entry in update["entries"]] for update in agent.of_kind("plan")]
    assert (plans[0], plans[-1]) == (["in_progress", "pending", "pending"], ["completed"] * 3)
    agent.prompt(session, "think about it")
    assert agent.said("agent_thought_chunk") == "about it"
    agent.prompt(session, "where")
    assert agent.said() == f"Working directory: {tmp_path}\nAdditional directory: {more}\n"


def test_environment_values_are_never_said_nor_given_to_servers(agent: Client, tmp_path: Path) -> None:
    session = agent.open(tmp_path, server_entry())
    agent.prompt(session, "tools")
    child = psutil.Process(agent.process.pid).children()[0]
    assert "DEMO_SECRET" not in child.environ()
    agent.prompt(session, "env DEMO_SECRET")
    assert "hunter2" not in agent.said()


def test_one_prompt_runs_at_a_time_and_a_cancel_stops_it_between_two_chunks(agent: Client, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    request = agent.begin_prompt(session, "count 10000")
    agent.until(lambda message: "3 " in str(message.get("params")))
    assert agent.code("session/prompt", prompt_params(session, "hello")) == -32600
    agent.notify("session/cancel", {"sessionId": session})
    assert agent.answer_to(request)["result"]["stopReason"] == "cancelled"
    assert agent.prompt(session, "hello")["stopReason"] == "end_turn"


def test_a_cancel_while_permission_is_asked_ends_the_turn(agent: Client, tmp_path: Path) -> None:
    agent.permission = None
    session = agent.open(tmp_path, server_entry())
    request = agent.begin_prompt(session, "note x")
    question = agent.until(lambda message: message.get("method") == "session/request_permission")
    agent.notify("session/cancel", {"sessionId": session})
    agent.send({"id": question["id"], "result": {"outcome": {"outcome": "cancelled"}}})
    assert agent.answer_to(request)["result"]["stopReason"] == "cancelled"
    assert agent.statuses() == ["pending", "failed"]


def test_a_cancel_during_a_tool_call_is_passed_on_to_the_server(agent: Client, tmp_path: Path) -> None:
    seen = tmp_path / "cancelled"
    session = agent.open(tmp_path, script_entry("mcp_slow", str(seen)))
    request = agent.begin_prompt(session, "call mcp_slow wait")
    agent.until(lambda message: "in_progress" in str(message))
    agent.notify("session/cancel", {"sessionId": session})
    assert agent.answer_to(request)["result"]["stopReason"] == "cancelled"
    agent.result("session/close", {"sessionId": session})
    assert seen.read_text() == "2"  # after initialize (0) and tools/list (1)


def test_what_is_not_a_message_is_refused_with_a_null_id_and_ends_nothing(agent: Client) -> None:
    for line, code in (
        (b"{ not json\n", -32700),
        (b"\xff\xfe\n", -32700),
        (b"[]\n", -32600),
        (b'{"jsonrpc":"2.0"}\n', -32600),
        (b'{"jsonrpc":"2.0","id":[1],"method":"initialize"}\n', -32600),
    ):
        agent.raw(b"\n\r\n" + line)
        assert agent.answer_to(None)["error"]["code"] == code
    assert agent.initialize()["protocolVersion"] == 1


def test_unknown_methods_are_not_found(agent: Client) -> None:
    agent.initialize()
    assert agent.code("_vendor/thing", {}) == -32601
    assert agent.code("session/fork", {"sessionId": "x"}) == -32601
    assert agent.code("authenticate", {"methodId": "demo-agent"}) == -32601
    agent.notify("_vendor/notice", {})
    agent.notify("session/cancel", {"sessionId": "nobody"})
    assert agent.code("session/close", {"sessionId": "unknown"}) == -32002


def test_a_session_with_wrong_parameters_is_refused(agent: Client, tmp_path: Path) -> None:
    agent.initialize()
    server = {"name": "a", "command": "/bin/true", "args": []}
    changes: list[dict[str, object]] = [
        {"cwd": "relative"},
        {"cwd": "/nonexistent/directory"},
        {"cwd": None},
        {"mcpServers": None},
        {"mcpServers": [server]},
        {"mcpServers": [{**server, "env": {"A": "b"}}]},
        {"mcpServers": [{"type": "http", "name": "a", "url": "https://example.com", "headers": []}]},
        {"additionalDirectories": ["/nonexistent/directory"]},
    ]
    for change in changes:
        assert agent.code("session/new", {"cwd": str(tmp_path), "mcpServers": [], **change}) == -32602


@pytest.mark.parametrize("stop", ["eof", "term"])
def test_it_ends_at_once_and_takes_stubborn_servers_along(
    start: Callable[[], Client], tmp_path: Path, stop: str
) -> None:
    client = start()
    session = client.open(tmp_path, server_entry(), script_entry("stubborn"))
    client.prompt(session, "tools")
    children = psutil.Process(client.process.pid).children(recursive=True)
    assert len(children) == 2
    client.begin_prompt(session, "count 10000")
    client.until(lambda message: "1 " in str(message.get("params")))
    if stop == "term":
        client.process.terminate()
        assert client.process.wait(PATIENCE) == 143
    assert client.finish() == (0 if stop == "eof" else 143)
    _, alive = psutil.wait_procs(children, timeout=5)
    assert alive == []
    assert client.violations == []
