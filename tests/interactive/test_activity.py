"""What an agent does is told in a few words, with the seconds that it takes."""

from typing import Any

import pytest

from acp_launch.interactive.output import SILENCE_SECONDS, ActivityTracker, describe_call, session_output
from acp_launch.interactive.terminal import Activity
from tests.clock import Clock
from tests.console.updates import waiting


@pytest.fixture
def tracker(clock: Clock) -> ActivityTracker:
    return ActivityTracker(clock)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ({"kind": "execute", "title": "npm test"}, "running npm test"),
        ({"kind": "execute", "title": "`npm test`"}, "running npm test"),
        ({"kind": "execute", "title": "Run npm test"}, "running npm test"),
        ({"kind": "read", "title": "Read settings.py"}, "reading settings.py"),
        ({"kind": "execute", "title": "bash: npm test"}, "running bash: npm test"),
        ({"kind": "edit", "title": "editor.py"}, "editing editor.py"),
        ({"kind": "edit", "title": "Create notes.txt"}, "creating notes.txt"),
        ({"kind": "move", "title": "Rename a to b"}, "renaming a to b"),
        ({"kind": "other", "title": "weather"}, "using weather"),
        ({"title": "weather"}, "using weather"),
        ({"name": "mcp__github__search", "title": "search"}, "waiting for github.search"),
        ({"title": "look", "_meta": {"serverId": "github", "toolName": "search"}}, "waiting for github.search"),
        ({"kind": "execute", "title": "a\x1b[2J\nb"}, "running a\\x1b[2J b"),
        ({"kind": 7, "title": None}, "using a tool call"),
    ],
)
def test_a_running_call_is_told_by_its_kind_and_its_title(call: dict[str, Any], told: str) -> None:
    assert describe_call(call) == told


def test_nothing_is_told_between_turns(tracker: ActivityTracker) -> None:
    tracker.begin("idle")
    assert tracker.now(()) is None


def test_a_start_is_told_with_its_seconds(tracker: ActivityTracker, clock: Clock) -> None:
    tracker.begin("starting")
    clock.now += 3
    assert tracker.now(()) == Activity("starting the agent", 3)
    tracker.begin("starting", is_open=True)
    assert tracker.now(()) == Activity("opening the session", 0)


def test_an_agent_thinks_until_it_answers_or_works(tracker: ActivityTracker, clock: Clock) -> None:
    tracker.begin("working")
    clock.now += 5
    assert tracker.now(()) == Activity("thinking", 5)
    tracker.hear("agent_thought_chunk")
    clock.now += 1
    assert tracker.now(()) == Activity("thinking", 6)
    tracker.hear("agent_message_chunk")
    clock.now += 2
    assert tracker.now(()) == Activity("answering", 2)
    tracker.hear("usage_update")
    assert tracker.now(()) == Activity("answering", 2)
    call = {"kind": "execute", "title": "npm test"}
    tracker.hear("tool_call")
    assert tracker.now([({"title": "first"}, 0.0), (call, clock.now - 12)]) == Activity(
        "running npm test and 1 more", 12
    )
    tracker.begin("cancelling")
    tracker.hear("agent_message_chunk")
    assert tracker.now([(call, clock.now)]) == Activity("cancelling", 0)


def test_a_question_on_another_terminal_is_told_in_place_of_what_the_agent_does(tracker: ActivityTracker) -> None:
    tracker.begin("working")
    tracker.is_asked_elsewhere = True
    assert tracker.now(()) == Activity("asked on another terminal")
    tracker.begin("down")
    assert tracker.now(()) is None, "the host has ended"


def test_silence_is_told_from_thirty_seconds_on_and_ends_with_the_next_sign(
    tracker: ActivityTracker, clock: Clock
) -> None:
    tracker.begin("working")
    tracker.waits("activity from the agent", 3, 1800)
    clock.now += SILENCE_SECONDS - 1
    assert tracker.now(()) == Activity("thinking", SILENCE_SECONDS - 1)
    clock.now += 1
    assert tracker.now(()) == Activity("thinking", SILENCE_SECONDS, "silent for 30 s, timeout 30 min")
    tracker.hear("agent_thought_chunk")
    assert tracker.now(()) == Activity("thinking", SILENCE_SECONDS)


def test_a_running_call_is_no_silence(tracker: ActivityTracker, clock: Clock) -> None:
    tracker.begin("working")
    clock.now += 60
    assert tracker.now([({"kind": "execute", "title": "npm test"}, 100.0)]) == Activity("running npm test", 60)


def test_another_wait_is_told_until_it_ends_or_nothing_more_is_heard_of_it(
    tracker: ActivityTracker, clock: Clock
) -> None:
    tracker.begin("idle")
    tracker.waits("answer to session/new from the agent", 3, 120)
    waiting = "still waiting for the answer to session/new from the agent"
    assert tracker.now(()) == Activity(waiting, 3, "timeout 2 min")
    clock.now += 6
    assert tracker.now(()) == Activity(waiting, 9, "timeout 2 min")
    clock.now += 6
    assert tracker.now(()) is None, "the next word would have come"
    tracker.waits("answer", 9, 120)
    tracker.begin("idle")
    assert tracker.now(()) is None


def test_a_front_of_lines_is_told_of_a_silent_agent_only_when_it_has_been_so_for_long(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = session_output(None, Clock())
    for waited in (3, 9, 27):
        output.show(waiting("activity from the agent", waited, 1800))
    output.show(waiting("answer to session/new from the agent", 3, 120))
    silent, opening = capsys.readouterr().err.splitlines()
    assert "the agent (27 s; timeout 30 min)" in silent
    assert "answer to session/new from the agent (3 s; timeout 2 min)" in opening
