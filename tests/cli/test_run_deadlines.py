"""Every wait has a name and a deadline, and after three seconds a word on stderr (DESIGN §6): exit 124."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cli.launcher import Launcher

ACP_MODE = "    fix: is the command right? many agents speak ACP only with a flag or as an adapter of their own"
LONGER = "if it needs longer: agent.timeouts.%s in the profile\n"


@pytest.mark.parametrize(
    ("temper", "wait", "said"),
    [
        (
            ["mute"],
            "initialize",
            f"no answer to initialize from the agent within 0.2 s\nCOMMAND{ACP_MODE}; {LONGER % 'initialize'}",
        ),
        (
            ["silent_turn"],
            "silence",
            f"no sign of life from the agent in its turn within 0.2 s\nCOMMAND    fix: {LONGER % 'silence'}",
        ),
    ],
)
def test_a_wait_that_passes_its_deadline_is_named(launch: Launcher, temper: list[str], wait: str, said: str) -> None:
    launch.profile(*temper, agent={"timeouts": {wait: "200ms"}})
    done = launch("run", "p", "hi")
    assert (done.code, done.out, done.err) == (124, b"", f"acp-launch: {said.replace('COMMAND', launch.started())}")
    done = launch("run", "p", "hi", "--output", "json")
    assert done.events[-1]["exitCode"] == 124


def test_a_session_that_is_not_opened_in_time_is_named(launch: Launcher) -> None:
    launch.scripted('script.serve({"session/new": lambda request: None})', timeouts={"session": "200ms"})
    done = launch("run", "p", "hi", "--output", "json")
    assert done.code == 124
    said = "no answer about a new session from the agent within 0.2 s"
    assert done.err == f"acp-launch: {said}\n{launch.started()}    fix: {LONGER % 'session'}"
    assert [event["type"] for event in done.events] == ["initialized", "error"]
    error = done.event("error")
    assert (error["message"], f"{error['fix']}\n") == (said, LONGER % "session")


def test_the_last_stderr_lines_come_with_a_deadline(launch: Launcher) -> None:
    launch.scripted(
        'script.complain("downloading: 12 %")\nscript.serve({"initialize": lambda request: None})',
        timeouts={"initialize": "200ms"},
    )
    done = launch("run", "p", "hi")
    assert (done.code, done.err) == (
        124,
        f"acp-launch: no answer to initialize from the agent within 0.2 s\n{launch.started()}    downloading: 12 %\n"
        f"{ACP_MODE}; {LONGER % 'initialize'}",
    )


def test_silence_counts_from_the_last_sign_of_life(launch: Launcher) -> None:
    launch.profile("silent_turn", "works", agent={"timeouts": {"silence": "200ms"}})
    done = launch("run", "p", "hi")
    assert (done.code, done.out, done.err) == (
        124,
        b"thinking about it\n",
        "acp-launch: no sign of life from the agent in its turn within 0.2 s\n"
        f"{launch.started()}    fix: {LONGER % 'silence'}",
    )


def test_a_turn_that_takes_longer_than_it_may_is_cancelled(launch: Launcher) -> None:
    launch.profile("cancellable", "quiet")
    done = launch("run", "p", "hi", "--timeout", "0.2")
    assert (done.code, done.out) == (124, b"working\n")
    assert done.err == (
        "execute: Long work: in_progress\n"
        "acp-launch: cancelling the turn; Ctrl-C stops at once\n"
        "acp-launch: cancelled: Long work\n"
        "acp-launch: the turn took longer than --timeout 0.2s and was cancelled\n"
    )
    assert done.methods[-1] == "session/cancel"


@pytest.mark.timeout(40)
def test_a_long_wait_is_mentioned_again_and_again_until_it_ends(launch: Launcher) -> None:
    """The slowest test of all: 3 s until the first word, 9 until the second, 10 for an agent deaf to the cancel."""
    launch.profile("cancel_deaf", "never")
    arguments = ("run", "p", "hi", "--timeout", "0.3", "--output")
    with ThreadPoolExecutor(2) as pool:
        text, events = pool.map(lambda output: launch(*arguments, output), ["text", "json"])
    assert (text.code, text.out, text.methods[-1]) == (124, b"working\n", "session/cancel")
    said = "the turn took longer than --timeout 0.3s; the agent went on for 10 s after its turn was cancelled"
    assert text.err == (
        "acp-launch: cancelling the turn; Ctrl-C stops at once\n"
        "acp-launch: no sign of life from the agent in its turn for 3 s; giving up at 30 min\n"
        "acp-launch: no sign of life from the agent in its turn for 9 s; giving up at 30 min\n"
        f"acp-launch: {said}\n{launch.started()}"
    )
    waits = [event for event in events.events if event["type"] == "waiting"]
    what = {"type": "waiting", "for": "sign of life from the agent in its turn", "limit": 1800.0}
    assert waits == [{**what, "seconds": 3.0}, {**what, "seconds": 9.0}]
    assert events.events[-1]["message"] == said
