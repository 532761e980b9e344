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
def done(request):
    script.answer(request, {})
able = json.loads(sys.argv[1]) if sys.argv[1:] else {"loadSession": True, "sessionCapabilities": {"resume": {}}}
script.serve({
    "initialize": lambda request: script.initialize(request, **able),
    "session/load": load, "session/resume": done, "session/set_mode": done,
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


def mortal(launch: Launcher, able: dict[str, Any] | None = None) -> None:
    launch.scripted(MORTAL)
    if able is not None:
        profile = json.loads((launch.project / ".acp-launch" / "p.yaml").read_text())
        profile["agent"]["args"].append(json.dumps(able))
        launch.write(profile)


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


def test_a_line_that_is_over_the_cap_or_no_message_is_refused_under_its_id_and_the_connection_goes_on(
    launch: Launcher,
) -> None:
    """The id of a line over the cap may stand at its end."""
    mortal(launch)
    with serving(launch, is_valid=False, ACP_LAUNCH_MAX_LINE="100000") as editor:
        editor.begin()
        session = editor.open()
        asked = editor.start("session/prompt", editor.words(session, "x" * 100_000))
        params = json.dumps({"sessionId": "s", "prompt": [{"type": "text", "text": 'x", "id": 1}' * 20_000}]})
        editor.write(f'{{"params":{params},"method":"session/prompt","id":"late"}}'.encode())
        for text in MALFORMED:
            editor.write(text.encode())
        assert editor.prompt(session, "hello")["result"] == {"stopReason": "end_turn"}
        errors = [each for each in map(json.loads, editor.lines) if "error" in each]
        assert [each["id"] for each in errors] == [asked, "late", *MALFORMED.values()]
        assert {each["error"]["code"] for each in errors} == {-32600}
        assert re.fullmatch(
            r"the editor sent a line of 100,\d\d\d bytes, where 100,000 are allowed; "
            r"attach less, or raise the limit: ACP_LAUNCH_MAX_LINE=<bytes>",
            errors[0]["error"]["message"],
        )
    assert editor.told == ""


MALFORMED: dict[str, object] = {
    '{"id":79,"method":5}': 79,
    '{"jsonrpc":"2.0","id":"a","method":null,"params":{}}': "a",
    '{"id":903}': 903,
    '{"id":904,"params":{}}': 904,
    '{"id":{"a":1},"method":5}': None,
    '{"method":5}': None,
    "[]": None,
}


def test_an_answer_over_the_cap_is_an_error_to_the_agent(launch: Launcher) -> None:
    mortal(launch)
    answers = {"session/request_permission": result({"outcome": {"outcome": "cancelled"}, "x": "x" * 100_000})}
    with serving(launch, answers=answers, is_valid=False, ACP_LAUNCH_MAX_LINE="100000") as editor:
        editor.begin()
        asked = editor.start("session/prompt", editor.words(editor.open(), "ask"))
        assert "result" in editor.answer(asked)
        (answer,) = (each for each in editor.agent_heard if each.get("id") == "q")
        assert answer["error"]["code"] == -32600


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


def test_an_editor_that_is_gone_takes_everything_along(launch: Launcher) -> None:
    """Both of its pipes break, as when it is killed."""
    launch.profile("wrapper")
    with serving(launch, is_valid=False) as editor:
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
