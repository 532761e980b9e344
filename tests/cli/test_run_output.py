"""stdout carries the answer, stderr everything else; three ways to have it (docs/scripting.md)."""

import pytest

from tests.cli.launcher import TIME, Ended, Json, Launcher

UPDATE = '{"type":"update","time":"T","sessionId":"session-1","update":%s}'


@pytest.mark.promise("answer")
def test_text_into_a_pipe_is_the_agents_words_alone(launch: Launcher) -> None:
    launch.profile("asker")
    done = launch("run", "p", "do", "it", "--approve", "all")
    assert (done.code, done.out) == (0, b"outcomes: allow_once-1\n")
    assert done.err == (
        "edit: Change a file: pending\n"
        "acp-launch: allowed: Change a file (--approve all)\n"
        "edit: Change a file: completed\n"
    )
    assert done.params("session/prompt") == {
        "sessionId": "session-1",
        "prompt": [{"type": "text", "text": "do it"}],
    }


@pytest.mark.promise("events")
def test_json_keeps_every_update_byte_for_byte(launch: Launcher) -> None:
    launch.profile("asker")
    done = launch("run", "p", "hi", "--approve", "all", "--output", "json")
    assert (done.code, done.err) == (0, "")
    types = ["initialized", "session", "update", "permission", "update", "update", "result"]
    assert [event["type"] for event in done.events] == types
    sent = '{"sessionUpdate": "tool_call_update", "toolCallId": "call-0", "status": "completed"}'
    assert UPDATE % sent in TIME.sub("T", done.out.decode()).splitlines()
    assert done.event("initialized")["result"]["agentInfo"] == {"name": "test-agent", "version": "1.0.0"}
    session = done.event("session")
    assert (session["sessionId"], session["how"], session["replayed"]) == ("session-1", "new", 0)
    call = {"toolCallId": "call-0", "title": "Change a file", "kind": "edit", "status": "pending"}
    kinds = ["allow_always", "allow_once", "reject_always", "reject_once"]
    options = [{"optionId": f"{kind}-{n}", "name": f"Option {kind}", "kind": kind} for n, kind in enumerate(kinds)]
    assert done.event("permission") | {"time": "T"} == {
        "type": "permission",
        "time": "T",
        "toolCall": call,
        "options": options,
        "allowed": True,
        "optionId": "allow_once-1",
        "by": "--approve all",
        "title": "Change a file",
    }
    assert done.event("result") | {"time": "T"} == {
        "type": "result",
        "time": "T",
        "stopReason": "end_turn",
        "text": "outcomes: allow_once-1",
        "usage": None,
        "denied": None,
        "deniedBy": None,
        "result": {"stopReason": "end_turn"},
    }


def test_updates_before_the_session_is_known_are_not_lost(launch: Launcher) -> None:
    """C-43."""
    launch.profile("early")
    done = launch("run", "p", "hi")
    assert (done.code, done.out, done.err) == (0, b"You said: hi\n", "outside a turn: I could not wait.\n")
    events = [event for event in launch("run", "p", "hi", "-o", "json").events if "update" in event]
    assert [(event["type"], event["update"]["sessionUpdate"]) for event in events] == [
        ("update", "available_commands_update"),
        ("update", "session_info_update"),
        ("outside", "agent_message_chunk"),
        ("update", "agent_message_chunk"),
    ]


def test_what_is_said_before_the_prompt_is_an_event_of_its_own(launch: Launcher) -> None:
    launch.profile("gemini_like")
    done = launch("run", "p", "hi", "--set", "mode=autoEdit", "--approve", "all", "--output", "json")
    assert [(event["type"], event["update"]["content"]["text"]) for event in words(done)] == [
        ("outside", "[MODE_UPDATE] "),
        ("outside", "autoEdit"),
        ("update", "outcome: proceed_once"),
    ]


def words(done: Ended) -> list[Json]:
    """The events that carry what the agent said."""
    return [event for event in done.events if event.get("update", {}).get("sessionUpdate") == "agent_message_chunk"]


def test_updates_after_the_turn_are_accepted(launch: Launcher) -> None:
    """C-59. Whether they are seen is a race that neither side can win for sure; they are no part of the answer."""
    launch.profile("late")
    done = launch("run", "p", "hi", "--output", "json")
    assert (done.code, done.err) == (0, "")
    assert done.events[-1]["type"] == "result"
    (answer,) = [event for event in words(done) if event["type"] == "update"]
    assert answer["update"]["content"]["text"] == "in the turn (0 late updates so far)"


def test_the_agents_stderr_is_shown_on_demand(launch: Launcher) -> None:
    launch.profile("crasher", "after-turn")
    done = launch("run", "p", "hi", "--verbose")
    assert (done.code, done.out) == (0, b"halfway there\n")
    assert done.err == "crasher: going down at after-turn\ncrasher: last words\n"
