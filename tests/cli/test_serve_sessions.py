"""Ring 3. Permissions, secrets and named sessions of an editor that `serve` stands behind."""

import json
from typing import Any

import pytest

from tests.cli.launcher import DEMO, DEMO_SERVER, Launcher, names
from tests.cli.serving import Editor, serving
from tests.realservers.recorder import Responder

CANARY = "canary-7f3a9c-tweet"


def choosing(option: str) -> Responder:
    return lambda params: {"result": {"outcome": {"outcome": "selected", "optionId": option}}}


def log(launch: Launcher) -> list[dict[str, Any]]:
    return [json.loads(line) for line in launch("permission", "log", "p", "--json").out.splitlines()]


# Permissions.


def test_a_rule_answers_before_the_editor_is_asked_and_is_recorded(launch: Launcher) -> None:
    rules = [{"allow": {"kind": "edit"}}, {"deny": {"kind": "execute"}}]
    for kind, option in (("edit", "allow_once"), ("execute", "reject_once")):
        launch.profile("asker", f"kind={kind}", permissions={"rules": rules})
        with serving(launch) as editor:
            editor.begin()
            editor.prompt(editor.open(), "go")
            assert editor.said() == f"outcomes: {option}-{'1' if option == 'allow_once' else '3'}"
            assert editor.heard("session/request_permission") == []
    assert [each["answer"] for each in log(launch)] == ["allow", "deny"]
    assert all(each["by"].startswith("permissions.rules[") for each in log(launch))


@pytest.mark.parametrize("options", [(), ("-v",)])
def test_what_is_well_is_said_once_on_stderr_with_verbose_only(launch: Launcher, options: tuple[str, ...]) -> None:
    """After the first turn at the latest, as of these servers the agent opens only one."""
    servers = {"notes": DEMO_SERVER, "more": DEMO_SERVER}
    launch.write({"agent": DEMO, "mcp_servers": servers, "permissions": {"default": "allow"}})
    with serving(launch, *options) as editor:
        editor.begin()
        session = editor.open()
        for _ in range(2):
            assert editor.prompt(session, "note buy milk")["result"]["stopReason"] == "end_turn"
    if options:
        assert editor.told.count("mcp servers: notes ready in ") == 1, editor.told
        assert "allowed: Note: buy milk" in editor.told
    else:
        assert editor.told == ""


def test_what_no_rule_decides_goes_to_the_editor_as_it_is_and_its_answer_holds_in_its_session(launch: Launcher) -> None:
    launch.profile("asker", 'meta={"x": [1,  2]}')
    answers = {"session/request_permission": choosing("allow_always-0")}
    with serving(launch, answers=answers, is_valid=False) as editor:  # the agent uses its ids again
        editor.begin()
        session = editor.open()
        editor.prompt(session, "go")
        assert editor.said() == "outcomes: allow_always-0"
        (question,) = editor.heard("session/request_permission")
        assert question["params"]["toolCall"]["_meta"] == {"x": [1, 2]}
        editor.prompt(session, "again")
        assert len(editor.heard("session/request_permission")) == 1
        editor.prompt(editor.open(), "go")
        assert len(editor.heard("session/request_permission")) == 2
    first, again, _ = log(launch)
    assert (first["answer"], first["by"], again["answer"]) == ("allow", "the editor, in this session", "allow")


def test_the_agent_may_take_a_question_back(launch: Launcher) -> None:
    launch.profile("asker", "withdraw")
    withdrawn = {"error": {"code": -32800, "message": "Request cancelled"}}
    with serving(launch, answers={"session/request_permission": lambda params: withdrawn}) as editor:
        editor.begin()
        editor.withhold("session/request_permission")  # a question that is answered cannot be taken back
        turn = editor.start("session/prompt", editor.words(editor.open(), "go"))
        question = editor.expect("session/request_permission")
        assert editor.expect("$/cancel_request")["params"]["requestId"] == question["id"]
        editor.release()
        editor.answer(turn)
        assert editor.said() == "outcomes: error -32800"


# An agent that opens a session only once its opening is cancelled: in `/kept` all the same.
SLOW = """
def new(request):
    script.send({"method": "_test/opening", "params": {}})
    assert script.expect("$/cancel_request")["params"]["requestId"] == request["id"]
    if request["params"]["cwd"].endswith("/kept"):
        script.new(request)
    else:
        script.refuse(request, -32800, "Request cancelled")
script.serve({"session/new": new})
"""


def test_an_editor_may_take_back_a_session_while_the_agent_opens_it(launch: Launcher) -> None:
    launch.scripted(SLOW)
    (kept := launch.project / "kept").mkdir()
    with serving(launch) as editor:
        editor.begin()
        answers = []
        for cwd in (None, kept):
            opening = editor.start("session/new", editor.place(cwd))
            editor.expect("_test/opening")
            editor.notify("$/cancel_request", {"requestId": opening})
            answers.append(editor.answer(opening))
        assert answers[0]["error"]["code"] == -32800
        assert editor.prompt(answers[1]["result"]["sessionId"], "go on")["result"] == {"stopReason": "end_turn"}


def test_rules_and_the_client_section_also_keep_the_editor_from_what_it_would_do_for_the_agent(
    launch: Launcher,
) -> None:
    body = """
def prompt(request):
    session = script.session_of(request)
    for path in ("/secret/key", "/open/note"):
        said = script.ask("fs/read_text_file", {"sessionId": session, "path": path}, identity=path)
        script.say(session, json.dumps(said.get("result", said.get("error"))) + " ")
    said = script.ask("fs/write_text_file", {"sessionId": session, "path": "/x", "content": ""})
    script.say(session, str(said["error"]["code"]))
    script.end(request)
import json
script.serve({"session/prompt": prompt})
"""
    launch.scripted(body)
    launch.extend(permissions={"rules": [{"deny": {"path": "/secret/**"}}]}, client={"fs": "read"})
    with serving(launch, answers={"fs/read_text_file": lambda params: {"result": {"content": "text"}}}) as editor:
        editor.begin()
        editor.prompt(editor.open(), "go")
        assert "denied: permissions.rules[0]" in editor.said()
        assert editor.said().endswith('{"content": "text"} -32601')
        assert [each["params"]["path"] for each in editor.heard("fs/read_text_file")] == ["/open/note"]
    (asked,) = [each["params"] for each in editor.agent_heard if each.get("method") == "initialize"]
    assert asked["clientCapabilities"] == {"fs": {"readTextFile": True, "writeTextFile": False}, "terminal": True}


# Secrets.


def test_no_secret_of_the_profile_reaches_the_editor_or_stderr_in_any_message(launch: Launcher) -> None:
    body = """
import os
secret = os.environ["TOKEN"]
def prompt(request):
    session = script.session_of(request)
    script.complain(f"stderr {secret}")
    script.say(session, f"words {secret}")
    script.update(session, "tool_call", toolCallId="c", title=secret, rawInput={secret: [secret]})
    script.update(session, "session_info_update", title=secret)
    script.send({"method": "_vendor/notice", "params": {"deep": [{"x": secret[:9] + "\\\\u002d" + secret[10:]}]}})
    said = script.ask("fs/write_text_file", {"sessionId": session, "path": "/x", "content": secret})
    script.refuse(request, -32000, secret, more=secret)
script.serve({"session/prompt": prompt})
"""
    launch.scripted(body, env={"TOKEN": "${secret:token}"})
    wrote: list[str] = []

    def write(params: dict[str, Any]) -> dict[str, Any]:
        wrote.append(params["content"])
        return {"result": {}}

    with serving(launch, answers={"fs/write_text_file": write}, ACP_LAUNCH_SECRET_TOKEN=CANARY) as editor:
        editor.begin()
        assert editor.prompt(editor.open(), "go")["error"]["message"] == "***"
        seen = b"".join(line for line in editor.lines if b"fs/write_text_file" not in line).decode()
        assert CANARY not in seen
        assert seen.count("***") >= 7
        assert wrote == [CANARY], "a file is written as the agent wants it"
    assert CANARY not in editor.told
    state = launch.state
    assert not [path for path in state.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]


def test_a_secret_that_is_cut_over_updates_is_masked_and_all_that_was_said_stays_in_its_order(launch: Launcher) -> None:
    body = """
import os
secret = os.environ["TOKEN"]
def prompt(request):
    session = script.session_of(request)
    script.say(session, "it is " + secret[:7])
    script.update(session, "usage_update", used=1, size=2)
    script.say(session, secret[7:12])
    script.say(session, secret[12:] + " indeed")
    script.say(session, "; " + secret[:4])
    script.update(session, "tool_call", toolCallId="c", title="a tool")
    script.say(session, "and " + secret[:4])
    script.end(request)
script.serve({"session/prompt": prompt})
"""
    launch.scripted(body, env={"TOKEN": "${secret:token}"})
    with serving(launch, ACP_LAUNCH_SECRET_TOKEN=CANARY) as editor:
        editor.begin()
        session = editor.open()
        before = len(editor.lines)
        editor.prompt(session, "go")
        messages = [json.loads(line) for line in editor.lines[before:]]
    assert messages[-1]["result"] == {"stopReason": "end_turn"}
    updates = [each["params"]["update"] for each in messages if each.get("method") == "session/update"]
    assert [each["content"]["text"] if "content" in each else each["sessionUpdate"] for each in updates] == [
        *("it is ***", "usage_update", "", " indeed"),
        *("; " + CANARY[:4], "tool_call", "and " + CANARY[:4]),
    ]


# Named sessions.


def test_a_terminal_goes_on_with_the_session_of_an_editor_and_the_editor_with_that(launch: Launcher) -> None:
    launch.profile("replayer", "2")
    with serving(launch) as editor:
        editor.begin()
        unused, used = editor.open(), editor.open()
        editor.prompt(used, "fix  the tests")
        (name,) = names(launch)
        busy = launch("run", "p", "--continue", "more")
        assert (busy.code, "acp-launch serve p" in busy.err) == (3, True)
    assert unused != used
    (shown,) = sessions(launch)
    assert (shown["title"], shown["session_id"], shown["turns"]) == ("fix the tests", used, 1)
    done = launch("run", "p", "--continue", "more")
    assert done.code == 0, done.err
    assert next(each["params"]["sessionId"] for each in done.heard if each["method"].startswith("session/")) == used
    with serving(launch) as editor:
        editor.begin()
        assert editor.request("session/load", {"sessionId": used, **editor.place()})["result"] == {}
        assert len(editor.heard("session/update")) == 2, "the history is shown"
        editor.prompt(used, "and more")
    assert names(launch) == [name], "it is the same session"
    assert json.loads(launch("session", "show", name, "--json").out)["turns"] == 3


def test_a_session_that_is_in_use_is_refused_and_free_again_once_it_is_closed(launch: Launcher) -> None:
    launch.profile("replayer", "0")
    with serving(launch) as one, serving(launch) as other:
        one.begin()
        other.begin()
        session = one.open()
        one.prompt(session, "mine")
        load = {"sessionId": session, **other.place()}
        text = other.refused("session/load", **load)
        assert "is in use by process" in text
        assert one.request("session/close", {"sessionId": session})["result"] == {}
        _until(one, lambda: "result" in other.request("session/load", load))
        other.prompt(session, "now mine")


def test_the_title_is_the_agents_or_the_first_prompt(launch: Launcher) -> None:
    launch.scripted("""
def prompt(request):
    if script.said(request) == "theirs":
        script.update(script.session_of(request), "session_info_update", title="Their title")
    script.end(request)
script.serve({"session/prompt": prompt})
""")
    with serving(launch) as editor:
        editor.begin()
        session = editor.open()
        editor.prompt(session, "my words")
        assert [each["title"] for each in sessions(launch)] == ["my words"]
        editor.prompt(session, "theirs")
    assert [each["title"] for each in sessions(launch)] == ["Their title"]


def sessions(launch: Launcher) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(launch("session", "list", "--json").out)["sessions"]
    return found


def _until(editor: Editor, holds: Any) -> None:
    """Ask the agent of `editor` for nothing until something holds."""
    for _ in range(10_000):
        if holds():
            return
        editor.request("_test/round", {})
    raise AssertionError("it never held")


DELETING = """
able = {"loadSession": True, "sessionCapabilities": {"delete": {}}}
script.serve({
    "initialize": lambda request: script.initialize(request, **able),
    "session/load": lambda request: script.answer(request, {}),
    "session/delete": lambda request: script.answer(request, {}), "session/prompt": script.end,
})
"""


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_session_that_another_editor_has_open_is_not_deleted(launch: Launcher, is_stored: bool) -> None:
    launch.scripted(DELETING)
    with serving(launch) as one, serving(launch) as other:
        one.begin()
        other.begin()
        assert "result" in one.request("session/load", {"sessionId": "theirs", **one.place()})
        if is_stored:
            one.prompt("theirs", "work")
        text = other.refused("session/delete", sessionId="theirs")
        assert f"is in use by process {one.pid}" in text and text.endswith("\nfix: close it there first")
        assert one.request("session/delete", {"sessionId": "theirs"})["result"] == {}, "its own"
        assert other.request("session/delete", {"sessionId": "unknown"})["result"] == {}
        assert sessions(launch) == []


def test_a_session_is_free_again_once_it_is_deleted(launch: Launcher) -> None:
    launch.scripted(DELETING)
    with serving(launch) as editor:
        editor.begin()
        session = editor.open()
        editor.prompt(session, "work")
        (name,) = names(launch)
    with serving(launch) as editor:
        editor.begin()
        assert editor.request("session/delete", {"sessionId": session})["result"] == {}
        assert launch("run", "p", "--session", name, "again").code == 0


def test_a_call_that_runs_without_a_question_is_told_of_on_stderr(launch: Launcher) -> None:
    launch.scripted("""
def prompt(request):
    session = script.session_of(request)
    call = {"toolCallId": "c", "title": "Run make", "kind": "execute", "rawInput": {"command": "make"}}
    script.update(session, "tool_call", **call, status="pending")
    script.update(session, "tool_call_update", toolCallId="c", status="completed")
    script.end(request)
script.serve({"session/prompt": prompt})
""")
    launch.extend(permissions={"rules": [{"deny": {"command": "make*"}}]})
    with serving(launch) as editor:
        editor.begin()
        editor.prompt(editor.open(), "work")
    assert "Run make" in editor.told
    assert "without asking (policy: permissions.rules[0]" in editor.told
    assert [each["how"] for each in log(launch)] == ["unasked"]
