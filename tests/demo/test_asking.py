"""What the demo agent asks of its client besides a plain permission, and only when it is offered (C-68)."""

from pathlib import Path
from typing import Any

from tests.demo.client import Chooser, Client, Refused, choose

FILES: dict[str, Any] = {"fs": {"readTextFile": True, "writeTextFile": True}}
TERMINAL: dict[str, Any] = {"terminal": True}
ASKING: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}


def always(result: dict[str, Any]) -> Chooser:
    return lambda params: result


def test_nothing_is_asked_of_a_client_that_offers_nothing(agent: Client, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    session = agent.open(tmp_path)
    for prompt in ("read a.txt", "edit a.txt", "shell ls", "form", "link"):
        agent.prompt(session, prompt)
    assert agent.served == []
    assert agent.said() == "Your client opens no pages (clientCapabilities.elicitation.url), so I cannot ask for one."
    agent.prompt(session, "form")
    assert agent.said() == "Your client offers no forms (clientCapabilities.elicitation.form), so I cannot show one."
    agent.prompt(session, "shell ls")
    assert agent.said() == (
        "Your client offers no terminals (clientCapabilities.terminal), so I cannot run anything."
        " In a profile, `client: {terminal: true}` offers them."
    )
    for prompt in ("read a.txt", "edit a.txt"):
        agent.prompt(session, prompt)
        assert agent.said().startswith("Your client does not serve files (clientCapabilities.fs)")
    assert agent.statuses() == []


def test_an_edit_shows_its_difference_and_asks_first(agent: Client, tmp_path: Path) -> None:
    text = "first line\nEdited by the demo agent.\n"
    agent.capabilities = FILES
    agent.services = {"fs/read_text_file": always({"content": "first line\n"}), "fs/write_text_file": always({})}
    session = agent.open(tmp_path)
    agent.prompt(session, "edit @new.txt")
    assert agent.requests("fs/write_text_file")[0]["content"] == text
    diff = {"type": "diff", "path": str(tmp_path / "new.txt"), "oldText": "first line\n", "newText": text}
    call = agent.of_kind("tool_call")[0]
    assert (call["kind"], call["title"], call["content"]) == ("edit", "Edit new.txt", [diff])
    assert call["locations"] == [{"path": str(tmp_path / "new.txt"), "line": 2}]
    assert agent.of_kind("tool_call_update")[-1]["content"] == [diff]
    assert [message["params"]["toolCall"]["kind"] for message in agent.asked] == ["edit"]
    agent.permission = choose("reject-once")
    agent.prompt(session, "edit new.txt")
    assert agent.said() == "I did not do it: permission was refused."
    assert len(agent.requests("fs/write_text_file")) == 1


def test_files_go_through_a_client_that_serves_them(agent: Client, tmp_path: Path) -> None:
    agent.capabilities = FILES
    reading = {"fs/read_text_file": lambda params: {"content": "old\n"}}
    written: Any = iter([{}, None])  # the answer of the schema, and that of the documentation and of toad
    agent.services = {**reading, "fs/write_text_file": lambda params: next(written)}
    session = agent.open(tmp_path)
    path = str(tmp_path / "a.txt")
    agent.prompt(session, "read a.txt 3 4")
    assert agent.requests("fs/read_text_file") == [{"sessionId": session, "path": path, "line": 3, "limit": 4}]
    assert agent.said() == "a.txt, read through the client:\n\n```\nold\n```\n"
    for _ in range(2):
        agent.prompt(session, "edit a.txt new")
        assert agent.said() == "a.txt is written, through the client."
    assert agent.requests("fs/write_text_file") == [{"sessionId": session, "path": path, "content": "old\nnew\n"}] * 2
    assert list(tmp_path.glob("*.txt")) == []


def test_a_file_the_client_does_not_have_is_a_new_one_and_its_refusals_are_told(agent: Client, tmp_path: Path) -> None:
    def missing(params: dict[str, Any]) -> dict[str, Any]:
        raise Refused(-32002, "no such file")

    def refused(params: dict[str, Any]) -> dict[str, Any]:
        raise Refused(-32602, "outside the roots")

    agent.capabilities = FILES
    agent.services = {"fs/read_text_file": missing, "fs/write_text_file": refused}
    session = agent.open(tmp_path)
    agent.prompt(session, "edit a.txt")
    assert agent.of_kind("tool_call")[0]["title"] == "Create a.txt"
    assert agent.of_kind("tool_call")[0]["content"][0]["oldText"] is None
    assert agent.statuses()[-1] == "failed"
    assert agent.said() == "I could not write a.txt: outside the roots"
    agent.services["fs/read_text_file"] = refused
    agent.prompt(session, "edit a.txt")
    assert agent.said() == "I could not read a.txt: outside the roots"


def test_a_command_runs_in_a_terminal_of_the_client(agent: Client, tmp_path: Path) -> None:
    def refused(params: dict[str, Any]) -> dict[str, Any]:
        raise Refused(-32603, "no such command")

    agent.capabilities = TERMINAL
    session = agent.open(tmp_path)
    for ended, output, status, words in (
        ({"exitCode": 0}, "a\nb\n", "completed", "exit status 0 and printed 2 lines"),
        ({"exitCode": 7}, "a", "failed", "exit status 7 and printed 1 line"),
        ({"exitCode": None, "signal": "SIGKILL"}, "", "failed", "signal SIGKILL and printed 0 lines, without its beg"),
    ):
        agent.served.clear()
        agent.services = {
            "terminal/create": always({"terminalId": "t-1"}),
            "terminal/wait_for_exit": always(ended),
            "terminal/output": always({"output": output, "truncated": not output}),
            "terminal/release": always({}),
        }
        agent.prompt(session, "shell make test | tee log")
        assert [message["method"] for message in agent.served] == [*agent.services]
        created = agent.requests("terminal/create")[0]
        assert (created["command"], created["args"], created["cwd"]) == (
            *("sh", ["-c", "make test | tee log"]),
            str(tmp_path),
        )
        call = agent.of_kind("tool_call")[0]
        assert (call["title"], call["kind"]) == ("make test | tee log", "execute")
        shown = [{"type": "terminal", "terminalId": "t-1"}]
        assert [update["content"] for update in agent.of_kind("tool_call_update")] == [shown, shown]
        assert agent.statuses() == ["pending", "in_progress", status]
        assert agent.said().startswith(f"It ended with {words}")
    agent.services = {"terminal/create": refused}
    agent.prompt(session, "shell nothing")
    assert agent.said() == "The client did not run it: no such command"
    assert agent.statuses() == ["pending", "failed"]


def test_a_cancelled_command_is_taken_back_and_its_terminal_released(agent: Client, tmp_path: Path) -> None:
    agent.capabilities = TERMINAL
    agent.services = {"terminal/create": lambda params: {"terminalId": "t-1"}}
    session = agent.open(tmp_path)
    request = agent.begin_prompt(session, "shell sleep 100")
    waiting = agent.until(lambda message: message.get("method") == "terminal/wait_for_exit")
    agent.notify("session/cancel", {"sessionId": session})
    withdrawn = agent.until(lambda message: message.get("method") == "$/cancel_request")
    assert withdrawn["params"] == {"requestId": waiting["id"]}
    assert agent.answer_to(request)["result"]["stopReason"] == "cancelled"
    assert agent.requests("terminal/release") == [{"sessionId": session, "terminalId": "t-1"}]
    assert agent.statuses()[-1] == "failed"


def test_a_form_has_a_field_of_each_kind_and_its_answers_are_said(agent: Client, tmp_path: Path) -> None:
    agent.capabilities = ASKING
    agent.services = {"elicitation/create": lambda params: {"action": "accept", "content": {"name": "x", "copies": 2}}}
    session = agent.open(tmp_path)
    agent.prompt(session, "form")
    asked = agent.requests("elicitation/create")[0]
    assert (asked["mode"], asked["sessionId"]) == ("form", session)
    fields = asked["requestedSchema"]["properties"].values()
    assert {field["type"] for field in fields} == {"string", "integer", "number", "boolean", "array"}
    assert {field.get("format") for field in fields} == {None, "email", "uri", "date", "date-time"}
    for key in ("enum", "oneOf", "pattern", "default", "minLength", "minimum", "minItems"):
        assert any(key in field for field in fields), key
    assert agent.said() == "You said:\n\n- name: 'x'\n- copies: 2\n"
    for action in ("decline", "cancel"):
        agent.services["elicitation/create"] = always({"action": action})
        agent.prompt(session, "form")
        assert agent.said() == f"The form was not filled in ({action})."
