"""stdout carries the answer, stderr everything else; three ways to have it (docs/scripting.md)."""

from tests.cli.launcher import Ended, Json, Launcher

UPDATE = '{"type":"update","time":"T","sessionId":"session-1","update":%s}'


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
