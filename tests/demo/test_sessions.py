"""The demo agent's sessions outlive it: load, resume, list, close, delete, and what a crash or a damaged file does."""

from collections.abc import Callable
from pathlib import Path

from tests.demo.client import Client, Message, server_entry

Start = Callable[[], Client]


def journals(tmp_path: Path) -> Path:
    return tmp_path / "home" / "sessions"


def again(client: Client, method: str, session: str, cwd: Path) -> Message:
    client.updates.clear()
    return client.request(method, {"sessionId": session, "cwd": str(cwd), "mcpServers": []})


def test_load_replays_the_whole_conversation_before_it_answers(start: Start, tmp_path: Path) -> None:
    live: list[Message] = []
    with start() as client:
        session = client.open(tmp_path, server_entry())
        for text in ("note buy milk", "hello there"):
            client.prompt(session, text)
            live += [update for update in client.updates if update["sessionUpdate"].startswith(("agent", "tool"))]
    with start() as client:
        client.initialize()
        assert "configOptions" in again(client, "session/load", session, tmp_path)["result"]
        assert [update for update in client.updates if update["sessionUpdate"] != "user_message_chunk"] == live
        assert client.said("user_message_chunk") == "note buy milkhello there"
        assert client.updates[0]["sessionUpdate"] == "user_message_chunk"
        client.prompt(session, "history")
        assert client.said() == "Before this one, the session had 2 turns. The last prompt was: hello there"


def test_what_was_said_before_a_kill_is_there_afterwards(start: Start, tmp_path: Path) -> None:
    client = start()
    session = client.open(tmp_path)
    client.begin_prompt(session, "count 10000")
    client.until(lambda message: "5 " in str(message.get("params")))
    client.process.kill()
    client.finish()
    with start() as client:
        client.initialize()
        again(client, "session/load", session, tmp_path)
        assert client.said().startswith("1 2 3 4 5 ")


def test_an_unfinished_last_line_is_dropped_and_resume_goes_on_without_replay(start: Start, tmp_path: Path) -> None:
    with start() as client:
        session = client.open(tmp_path)
        client.prompt(session, "hello")
    with (journals(tmp_path) / f"{session}.jsonl").open("ab") as file:
        file.write(b'{"turn": "half a li')
    with start() as client:
        client.initialize()
        assert "configOptions" in again(client, "session/resume", session, tmp_path)["result"]
        assert client.updates == []
        client.prompt(session, "history")
        assert client.said().startswith("Before this one, the session had 1 turn.")


def test_a_damaged_session_is_not_listed_and_cannot_be_loaded(agent: Client, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    opening = {"cwd": str(tmp_path), "mcpServers": []}
    other = agent.result("session/new", opening)["sessionId"]
    path = journals(tmp_path) / f"{session}.jsonl"
    for content in (b"garbage\n", b'{"sessionId":"another"}\n'):
        path.write_bytes(content)
        assert [item["sessionId"] for item in agent.result("session/list", {})["sessions"]] == [other]
        assert agent.code("session/load", {"sessionId": session, **opening}) == -32002
        assert path.read_bytes() == content


def test_an_unknown_or_impossible_id_is_not_found(agent: Client, tmp_path: Path) -> None:
    agent.initialize()
    for session in ("0" * 32, "../../etc/passwd"):
        for method in ("session/load", "session/resume"):
            assert agent.code(method, {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}) == -32002
        assert agent.result("session/delete", {"sessionId": session}) == {}
        assert agent.code("session/close", {"sessionId": session}) == -32002


def test_a_session_is_loaded_in_its_own_directory_only(agent: Client, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    params = {"sessionId": session, "cwd": str(other), "mcpServers": []}
    assert agent.code("session/load", params) == -32602
    assert "result" in agent.request("session/load", {**params, "cwd": f"{tmp_path}/"})


def test_listing_is_newest_first_and_filtered_by_directory(agent: Client, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    agent.initialize()
    made = [
        agent.result("session/new", {"cwd": str(cwd), "mcpServers": []})["sessionId"]
        for cwd in (tmp_path, other, tmp_path, other)
    ]
    agent.prompt(made[0], "be the newest")
    sessions = agent.result("session/list", {})["sessions"]
    assert [each["sessionId"] for each in sessions] == [made[0], made[3], made[2], made[1]]
    assert sessions[0]["title"] == "be the newest"
    mine = agent.result("session/list", {"cwd": str(other)})["sessions"]
    assert [each["sessionId"] for each in mine] == [made[3], made[1]]


def test_closing_ends_the_turn_first_and_the_session_can_be_loaded_again(agent: Client, tmp_path: Path) -> None:
    session = agent.open(tmp_path)
    running = agent.begin_prompt(session, "count 10000")
    agent.until(lambda message: "1 " in str(message.get("params")))
    closing = agent.begin("session/close", {"sessionId": session})
    assert agent.answer_to(running)["result"]["stopReason"] == "cancelled"
    assert agent.answer_to(closing)["result"] == {}
    assert agent.code("session/prompt", {"sessionId": session, "prompt": []}) == -32002
    assert "result" in again(agent, "session/load", session, tmp_path)


def test_a_deleted_session_is_gone_even_while_another_process_has_it_open(start: Start, tmp_path: Path) -> None:
    with start() as one, start() as other:
        session = one.open(tmp_path)
        other.initialize()
        other.result("session/resume", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
        assert other.result("session/delete", {"sessionId": session}) == {}
        assert other.result("session/list", {})["sessions"] == []
        error = one.request("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]})
        assert error["error"]["code"] == -32002
        assert list(journals(tmp_path).iterdir()) == []
