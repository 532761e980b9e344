"""Every wait has a name and a deadline, and after three seconds a word on stderr (docs/internals.md): exit 124."""

import pytest

from tests.cli.launcher import Launcher

ACP_MODE = "    fix: is the command right? many agents speak ACP only with a flag or as an adapter of their own"
LONGER = "if it needs longer: agent.timeouts.%s in the profile\n"


@pytest.mark.promise("limit")
@pytest.mark.sample(1)
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
            f"no activity from the agent within 0.2 s\nCOMMAND    fix: {LONGER % 'silence'}",
        ),
    ],
)
def test_a_wait_that_passes_its_deadline_is_named(launch: Launcher, temper: list[str], wait: str, said: str) -> None:
    launch.profile(*temper, agent={"timeouts": {wait: "200ms"}})
    done = launch("run", "p", "hi")
    assert (done.code, done.out, done.err) == (124, b"", f"acp-launch: {said.replace('COMMAND', launch.started())}")
    done = launch("run", "p", "hi", "--output", "json")
    assert done.events[-1]["exitCode"] == 124


NEVER = ("--agent", '/bin/sh -c "cat >/dev/null"')
COMMAND = "    command: /bin/sh -c 'cat >/dev/null'\n"


@pytest.mark.promise("limit")
def test_the_whole_run_has_a_limit_and_the_wait_that_passed_it_is_named(launch: Launcher) -> None:
    said = "no answer to initialize from the agent within --timeout 0.5s"
    done = launch("run", "--timeout", "500ms", *NEVER, "hi")
    fix = f"{ACP_MODE}; if it needs longer: a longer --timeout\n"
    assert (done.code, done.out, done.err) == (124, b"", f"acp-launch: {said}\n{COMMAND}{fix}")
    done = launch("run", "--timeout", "500ms", "--output", "json", *NEVER, "hi")
    assert (done.code, done.event("error")["exitCode"], done.event("error")["message"]) == (124, 124, said)


def test_each_limit_of_a_profile_can_be_given_where_there_is_none(launch: Launcher) -> None:
    done = launch("run", "--timeout", "1h", "--timeout", "initialize=0.2", *NEVER, "hi")
    said = "no answer to initialize from the agent within 0.2 s"
    fix = f"{ACP_MODE}; if it needs longer: --timeout initialize=DURATION\n"
    assert (done.code, done.out, done.err) == (124, b"", f"acp-launch: {said}\n{COMMAND}{fix}")


def test_a_limit_that_is_given_comes_before_the_profiles(launch: Launcher) -> None:
    launch.profile("silent_turn", agent={"timeouts": {"silence": "1h", "initialize": "1h"}})
    done = launch("run", "p", "hi", "--timeout", "silence=200ms")
    said = "no activity from the agent within 0.2 s"
    assert (done.code, done.err) == (124, f"acp-launch: {said}\n{launch.started()}    fix: {LONGER % 'silence'}")


def test_an_agent_that_is_late_and_deaf_is_ended_all_the_same(launch: Launcher) -> None:
    """To the end of its input, and to SIGTERM."""
    launch.profile("deaf")
    done = launch("run", "p", "hi", "--timeout", "0.5")
    assert done.code == 124
    assert "no answer to initialize from the agent within --timeout 0.5s" in done.err
