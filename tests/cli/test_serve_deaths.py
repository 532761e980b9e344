"""Ring 3. The agent of an editor dies or hangs, the editor or acp-launch is killed: the others end, or go on."""

import json
import os
import re
import signal
from typing import Any

import pytest

from tests.cli.launcher import Launcher, alive
from tests.cli.serving import Editor, serving
from tests.patience import until
from tests.process.launches import gone
from tests.realservers.recorder import result

# An agent that kills itself at a step of its turn. Its sessions are known to the next one, by any id.
MORTAL = """
import os, signal, sys, json
def die():
    os.kill(os.getpid(), signal.SIGKILL)
def prompt(request):
    session, text = script.session_of(request), script.said(request)
    if text == "die at once":
        die()
    script.say(session, f"heard {text}")
    if text == "die after words":
        die()
    script.update(session, "tool_call", toolCallId="c", title="Work", kind="edit", status="in_progress")
    if text == "die in a tool call":
        die()
    if text in ("die while asking", "ask"):
        options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
        call = {"toolCallId": "c", "title": "Work"}
        params = {"sessionId": session, "toolCall": call, "options": options}
        script.send({"id": "q", "method": "session/request_permission", "params": params})
        if text == "ask":
            script.response("q")
            script.end(request)
            return
        script.expect("_test/die")
        die()
    if text == "die in a terminal":
        made = script.ask("terminal/create", {"sessionId": session, "command": "sleep"}, identity="t")
        where = {"sessionId": session, "terminalId": made["result"]["terminalId"]}
        script.send({"id": "w", "method": "terminal/wait_for_exit", "params": where})
        script.expect("_test/die")
        die()
    if text == "leave a child" and not os.fork():
        signal.pause()
    if text == "hang":
        script.hang()
    script.end(request)
    if text == "die after the answer":
        die()
def load(request):
    if request["params"]["sessionId"] == "unknown":
        script.refuse(request, -32002, "no such session")
        return
    for kind in ("user_message_chunk", "agent_message_chunk"):
        script.update(script.session_of(request), kind, content={"type": "text", "text": "history"})
    content = [{"type": "terminal", "terminalId": "old"}, {"type": "content", "content": {"type": "text", "text": "x"}}]
    script.update(script.session_of(request), "tool_call", toolCallId="o", title="Old", status="completed",
                  content=content)
    script.answer(request, {})
def new(request):
    if request["params"]["cwd"].endswith("/deadly"):
        die()
    script.new(request)
def done(request):
    script.answer(request, {})
able = json.loads(sys.argv[1]) if sys.argv[1:] else {"loadSession": True, "sessionCapabilities": {"resume": {}}}
script.serve({
    "initialize": lambda request: script.initialize(request, **able),
    "session/new": new, "session/load": load, "session/resume": done, "session/set_mode": done,
    "session/prompt": prompt,
})
"""
STEPS = (
    "die at once",
    "die after words",
    "die in a tool call",
    "die while asking",
    "die in a terminal",
    "die after the answer",
)


def mortal(launch: Launcher, able: dict[str, Any] | None = None, **sections: Any) -> None:
    launch.scripted(MORTAL)
    profile = json.loads((launch.project / ".acp-launch" / "p.yaml").read_text())
    if able is not None:
        profile["agent"]["args"].append(json.dumps(able))
    profile["agent"] |= sections.pop("agent", {})
    launch.write({**profile, **sections})


def dies(editor: Editor, session: str, step: str) -> str:
    """Have the agent die at a step of a turn; the error that answers the prompt."""
    asked = editor.start("session/prompt", editor.words(session, step))
    if step == "die while asking":
        editor.expect("session/request_permission")
        editor.notify("_test/die", {})
    if step == "die in a terminal":
        editor.expect("terminal/wait_for_exit")
        editor.notify("_test/die", {})
    answer = editor.answer(asked)
    return str(answer["error"]["message"]) if "error" in answer else ""


def hears(editor: Editor, text: str, times: int) -> None:
    """Return once stderr has said something so often."""
    until(lambda: editor.told.count(text) >= times, lambda: editor.told)


@pytest.mark.promise("serve")
def test_the_agent_dies_at_each_step_of_a_turn_and_the_session_goes_on(launch: Launcher) -> None:
    mortal(launch)
    answers = {"terminal/create": result({"terminalId": "t1"}), "terminal/release": result({})}
    with serving(launch, answers=answers) as editor:
        editor.begin()
        session = editor.open()
        editor.request("session/set_mode", {"sessionId": session, "modeId": "plan"})
        for step in STEPS:
            editor.withhold("session/request_permission" if "asking" in step else "terminal/wait_for_exit")
            editor.skip()
            text = dies(editor, session, step)
            if step != "die after the answer":
                assert "SIGKILL before it answered session/prompt; it is started again" in text
            if step in ("die while asking", "die in a terminal"):
                taken = editor.expect("$/cancel_request")["params"]["requestId"]
                assert taken in [json.loads(line).get("id") for line in editor.lines]
            if step == "die in a terminal":
                assert editor.expect("terminal/release")["params"]["terminalId"] == "t1"
            editor.release()  # late answers are dropped
            if step == "die after the answer":
                hears(editor, "SIGKILL; it is started again with the next request", 1)
            before = len(editor.lines)
            assert editor.prompt(session, "go on")["result"] == {"stopReason": "end_turn"}
            assert editor.said(before) == "heard go on", "and no history"
        told = [each for each in editor.agent_heard if each.get("method") in ("session/resume", "session/set_mode")]
        assert [each["method"] for each in told] == [
            "session/set_mode",
            *["session/resume", "session/set_mode"] * len(STEPS),
        ]
        assert all(each["params"]["sessionId"] == session for each in told)


def test_a_prompt_right_after_the_death_of_the_idle_agent_waits_for_the_next_one(launch: Launcher) -> None:
    """Its child holds its pipes, so its connection ends later."""
    mortal(launch)
    with serving(launch) as editor:
        editor.begin()
        session = editor.open()
        editor.prompt(session, "leave a child")
        before = len(editor.lines)
        (running,) = json.loads(launch("ps", "--json").out)["launches"]
        (agent,) = [each["pid"] for each in running["processes"] if each["name"] == "agent"]
        with gone(agent):
            os.kill(agent, signal.SIGKILL)
        assert editor.prompt(session, "hello")["result"] == {"stopReason": "end_turn"}
        assert editor.said(before) == "heard hello"


def test_a_line_over_the_cap_is_skipped_with_an_error_and_the_connection_goes_on(launch: Launcher) -> None:
    mortal(launch)
    with serving(launch, is_valid=False, ACP_LAUNCH_MAX_LINE="100000") as editor:
        editor.begin()
        session = editor.open()
        asked = editor.start("session/prompt", editor.words(session, "x" * 100_000))
        assert editor.prompt(session, "hello")["result"] == {"stopReason": "end_turn"}
        error = editor.answer(asked)["error"]
        assert (error["code"], error["data"]["details"]) == (-32600, error["message"])
        assert re.fullmatch(
            r"the editor sent a line of 100,\d\d\d bytes, where 100,000 are allowed; "
            r"attach less, or raise the limit: ACP_LAUNCH_MAX_LINE=<bytes>",
            error["message"],
        )
    assert editor.told == ""


MALFORMED: dict[str, object] = {
    '{"id":79,"method":5}': 79,
    '{"jsonrpc":"2.0","id":"a","method":null,"params":{}}': "a",
    '{"id":3}': 3,
    '{"id":4,"params":{}}': 4,
    '{"id":{"a":1},"method":5}': None,
    '{"method":5}': None,
    "[]": None,
}


def test_a_malformed_request_is_refused_under_its_id_if_that_can_be_read(launch: Launcher) -> None:
    mortal(launch)
    with serving(launch, is_valid=False) as editor:
        editor.begin()
        for text in MALFORMED:
            editor.write(text.encode())
        editor.request("session/new", editor.place())
        errors = [each for each in map(json.loads, editor.lines) if "error" in each]
        assert [each["id"] for each in errors] == [*MALFORMED.values()]
        assert {each["error"]["code"] for each in errors} == {-32600}


def test_the_id_of_a_line_over_the_cap_may_stand_at_its_end(launch: Launcher) -> None:
    mortal(launch)
    with serving(launch, is_valid=False, ACP_LAUNCH_MAX_LINE="100000") as editor:
        editor.begin()
        params = json.dumps({"sessionId": "s", "prompt": [{"type": "text", "text": 'x", "id": 1}' * 20_000}]})
        editor.write(f'{{"params":{params},"method":"session/prompt","id":"late"}}'.encode())
        editor.request("session/new", editor.place())
        (error,) = (each for each in map(json.loads, editor.lines) if "error" in each)
        assert (error["id"], error["error"]["code"]) == ("late", -32600)


def test_an_answer_over_the_cap_is_an_error_to_the_agent(launch: Launcher) -> None:
    mortal(launch)
    answers = {"session/request_permission": result({"outcome": {"outcome": "cancelled"}, "x": "x" * 100_000})}
    with serving(launch, answers=answers, is_valid=False, ACP_LAUNCH_MAX_LINE="100000") as editor:
        editor.begin()
        asked = editor.start("session/prompt", editor.words(editor.open(), "ask"))
        assert "result" in editor.answer(asked)
        (answer,) = (each for each in editor.agent_heard if each.get("id") == "q")
        assert answer["error"]["code"] == -32600


def test_a_directory_with_a_nul_in_its_name_is_refused(launch: Launcher) -> None:
    mortal(launch)
    with serving(launch, is_valid=False) as editor:
        editor.begin()
        error = editor.request("session/new", {"cwd": "/a\0b", "mcpServers": []})["error"]
        assert (error["code"], error["message"]) == (-32602, "cwd: a directory's name has no NUL character")


def test_the_agent_dies_while_it_opens_a_session_and_the_others_go_on(launch: Launcher) -> None:
    mortal(launch)
    deadly = launch.project / "deadly"
    deadly.mkdir()
    with serving(launch) as editor:
        editor.begin()
        session = editor.open()
        editor.prompt(session, "first")
        assert "before it answered session/new" in editor.refused("session/new", **editor.place(deadly))
        assert editor.prompt(session, "second")["result"] == {"stopReason": "end_turn"}
        assert editor.said() == "heard firstheard second"


def test_an_agent_that_only_loads_shows_no_history_a_second_time(launch: Launcher) -> None:
    mortal(launch, {"loadSession": True})
    with serving(launch) as editor:
        editor.begin()
        one, other = editor.open(), editor.request("session/load", {"sessionId": "other", **editor.place()})
        assert "result" in other
        (old,) = [each for each in editor.heard("session/update") if "Old" in json.dumps(each)]
        assert [item["type"] for item in old["params"]["update"]["content"]] == ["content"], "no terminal of before"
        assert dies(editor, one, "die at once")
        before = len(editor.lines)
        editor.prompt("other", "go on")
        editor.prompt(one, "go on")
        assert editor.said(before) == "heard go on" * 2
        assert "history" not in b"".join(editor.lines[before:]).decode()


def test_a_session_that_no_agent_can_open_again_is_lost_and_the_connection_stays(launch: Launcher) -> None:
    mortal(launch, {})
    with serving(launch) as editor:
        editor.begin()
        session = editor.open()
        assert dies(editor, session, "die at once")
        text = editor.refused("session/prompt", **editor.words(session, "go on"))
        assert "does not have this session" in text
        assert editor.prompt(editor.open(), "go on")["result"] == {"stopReason": "end_turn"}


def test_an_agent_that_hangs_is_started_again(launch: Launcher) -> None:
    mortal(launch, agent={"timeouts": {"silence": "1s"}})
    with serving(launch) as editor:
        editor.begin()
        session = editor.open()
        text = editor.refused("session/prompt", **editor.words(session, "hang"))
        assert text.startswith("no activity from the agent within 1 s")
        assert editor.prompt(session, "go on")["result"] == {"stopReason": "end_turn"}


def test_an_agent_that_does_not_come_up_again_answers_each_request_with_the_reason(launch: Launcher) -> None:
    mortal(launch)
    body = (launch.project / "agent.py").read_text()
    with serving(launch) as editor:
        editor.begin()
        session = editor.open()
        (launch.project / "agent.py").write_text("raise SystemExit('broken now')")
        assert dies(editor, session, "die at once")
        assert "broken now" in editor.refused("session/prompt", **editor.words(session, "go on"))
        assert "broken now" in editor.refused("session/prompt", **editor.words(session, "go on"))
        (launch.project / "agent.py").write_text(body)
        assert editor.prompt(session, "go on")["result"] == {"stopReason": "end_turn"}


@pytest.mark.parametrize("temper", ["deaf", "wrapper"])
def test_an_editor_that_is_gone_takes_everything_along(launch: Launcher, temper: str) -> None:
    """Both of its pipes break, as when it is killed."""
    launch.profile(temper)
    with serving(launch, is_valid=False) as editor:
        if temper != "deaf":
            editor.begin()
        assert editor._process.stdout is not None
        editor._process.stdout.close()
        assert editor.end() in (0, 4)


def test_killing_acp_launch_leaves_nothing(launch: Launcher) -> None:
    mortal(launch)
    with serving(launch, apart=True, is_valid=False, leaves_record=True) as editor:
        editor.begin()
        editor.open()
        os.kill(editor.pid, signal.SIGKILL)
        until(lambda: not alive(editor.mark), lambda: alive(editor.mark))
        editor.ended()


def test_a_prompt_at_the_moment_of_its_agents_death_is_answered(launch: Launcher) -> None:
    """By the next agent, or by an error that says why; whichever sees the death first."""
    mortal(launch)
    with serving(launch) as editor:
        editor.begin()
        session = editor.open()
        for _ in range(10):
            dying = editor.start("session/prompt", editor.words(session, "die after the answer"))
            editor.answer(dying)
            answer = editor.answer(editor.start("session/prompt", editor.words(session, "hi")))
            text = str(answer.get("error", {}).get("message", ""))
            assert "result" in answer or text.endswith(
                "before it answered session/prompt; it is started again with the next request"
            )
