"""Everybody is killed once, alone and in pairs, in the midst of calls.

Nobody survives, the session goes on where it should, and where it should not the exit code says whose end it was.
That somebody is dead the kernel tells, by the line or the descriptor it closes.
"""

from signal import SIGKILL, SIGSTOP, SIGTERM, Signals

import pytest

from tests.matrix.cast import TEMPERS, Cast, cast, run
from tests.matrix.signals import with_each_signal
from tests.patience import PATIENCE
from tests.seat.stage import Stage

ALL = [*TEMPERS]
FEW = ["polite", "wrapped"]  # who end as soon as they may
EXITS = {  # who dies → what the run ends with
    ("launcher", SIGKILL): -SIGKILL,
    ("launcher", SIGTERM): 128 + SIGTERM,
    ("agent", SIGKILL): 4,
    ("agent", SIGTERM): 4,
    ("wrapper", SIGKILL): 4,
    ("wrapper", SIGTERM): 4,
}


def lost(server: str, how: str) -> str:
    return f'MCP server "{server}" {how} during tools/call, whose outcome is unknown; it is being started again'


# Those the session survives.


@with_each_signal
def test_a_server_that_is_killed_comes_back_and_its_like_go_on(stage: Stage, number: int) -> None:
    """`stubborn` ignores TERM, so that nothing happens to it. Whoever is left of a killed server goes with it, but for
    the helper that nothing shows to be its: that one goes with the run.
    """
    how = f"was killed by {Signals(number).name}"
    victims = [
        server for server in ALL if server not in ("wrapped", "setsid") and (server, number) != ("stubborn", SIGTERM)
    ]
    with cast(stage, *ALL) as everybody:
        for server in victims:
            everybody.kill(server, number)
        for server in victims:
            assert everybody.answer(server)["error"]["message"] == lost(server, how)
            for name in TEMPERS[server]:
                if name != "scrubbed-helper":
                    everybody.voices[name].dies()
            everybody.add_up(server)
        for server in set(ALL) - set(victims):
            everybody.add_up(server)
            assert everybody.voices[server].is_alive
        everybody.end_in_order()


@pytest.mark.parametrize("victim", ["shell", "wrapped"])
@with_each_signal
def test_a_server_behind_a_shell_comes_back_whichever_of_the_two_is_killed(
    stage: Stage, victim: str, number: int
) -> None:
    """`sh -c 'server; true'` ends with status 0 when its server is killed: by the policy a clean end."""
    with cast(stage, "wrapped") as everybody:
        everybody.kill(victim, number)
        message = everybody.answer("wrapped")["error"]["message"]
        if victim == "shell":
            assert message == lost("wrapped", f"was killed by {Signals(number).name}")
            everybody.add_up("wrapped")
        else:
            assert "exited with status 0; its restart policy is on-failure" in message
        everybody.voices["wrapped"].dies()
        everybody.watched["shell"].dies()
        everybody.end_in_order()


@pytest.mark.parametrize("victim", ["setsid", "setsid-parent"])
@with_each_signal
def test_a_server_in_a_session_of_its_own_comes_back_whichever_of_the_two_is_killed(
    stage: Stage, victim: str, number: int
) -> None:
    with cast(stage, "setsid") as everybody:
        everybody.kill(victim, number)
        how = f"was killed by {Signals(number).name}"
        if victim == "setsid":
            how = f"exited with status {-number & 0xFF}"
        assert everybody.answer("setsid")["error"]["message"] == lost("setsid", how)
        everybody.add_up("setsid")
        for name in TEMPERS["setsid"]:
            everybody.voices[name].dies()
        everybody.end_in_order()


@with_each_signal
def test_a_shim_that_is_killed_takes_its_server_with_it_and_its_like_go_on(stage: Stage, number: int) -> None:
    with cast(stage, "polite", "deaf", "daemon") as everybody:
        agent = everybody.play.agent
        for server in ("polite", "deaf", "daemon"):
            everybody.kill(f"shim {server}", number)
        for server in ("polite", "deaf", "daemon"):
            assert agent.do("gone", server) == {"status": -number}
            everybody.voices[server].dies()
            assert "line" in agent.do("reopen", server)
            everybody.add_up(server)
        everybody.end_in_order()


@pytest.mark.sample(0, 2)
@pytest.mark.parametrize("guard", ["lower guard", "upper guard"])
@pytest.mark.parametrize("beside", ["", "polite", "daemon", "shim polite"])
def test_the_session_goes_on_without_one_of_its_guards_and_nobody_outlives_it(
    stage: Stage, guard: str, beside: str
) -> None:
    """Alone and beside another victim. What the dead guard had started is below the other one, or its own still."""
    with cast(stage, *ALL) as everybody:
        everybody.kill(guard, SIGTERM)  # which it ignores
        everybody.kill(guard)
        if beside:
            everybody.kill(beside)
        everybody.watched[guard].dies()
        everybody.finish_other()
        if beside in TEMPERS:
            assert everybody.answer(beside)["error"]["message"] == lost(beside, "was killed by SIGKILL")
            everybody.add_up(beside)
        everybody.add_up("deaf")
        everybody.kill("launcher")
        everybody.play.running.process.wait(20)
        everybody.nobody_stays()


def test_the_session_goes_on_without_both_of_its_guards_and_ends_in_order(stage: Stage) -> None:
    with cast(stage, *ALL) as everybody:
        for guard in ("upper guard", "lower guard"):
            everybody.kill(guard)
            everybody.watched[guard].dies()
        everybody.kill("polite")
        assert everybody.answer("polite")["error"]["message"] == lost("polite", "was killed by SIGKILL")
        everybody.add_up("polite")
        everybody.end_in_order()


# Those it does not.


def with_victim(name: str) -> list[str]:
    return [*FEW, name] if name in {*TEMPERS} - {*FEW} else FEW


def dies(everybody: Cast, number: int, *victims: str) -> None:
    """All of them at once; the run ends as the first one's end demands, and nobody survives."""
    everybody.kill_together(number, *victims)
    process = everybody.play.running.process
    _, err = process.communicate(timeout=PATIENCE)
    everybody.nobody_survives()
    expected = EXITS[victims[0], Signals(number)]
    assert process.returncode == expected, err.decode()
    if expected == 4:
        how = f"was killed by {Signals(number).name}"
        assert f"the agent {how} before it answered session/prompt" in err.decode()


@pytest.mark.parametrize("victim", ["launcher", "agent", "wrapper"])
@with_each_signal
def test_nobody_outlives(stage: Stage, victim: str, number: int) -> None:
    with cast(stage, *ALL, wrapped=victim == "wrapper") as everybody:
        dies(everybody, number, victim)


BESIDE = ["lower guard", "upper guard", "polite", "shim polite", "agent", "stubborn", "daemon"]
PAIRS = [(first, other) for other in BESIDE for first in ("launcher", "agent", "wrapper") if first != other]


@pytest.mark.sample(0, 5)
@pytest.mark.parametrize(("victim", "beside"), PAIRS)
@with_each_signal
def test_nobody_outlives_two_that_are_killed_together(stage: Stage, victim: str, beside: str, number: int) -> None:
    with cast(stage, *with_victim(beside), wrapped=victim == "wrapper") as everybody:
        dies(everybody, number, victim, beside)


@pytest.mark.parametrize(
    "ended_by", [["reap"], ["run", "demo", "help", "--output", "quiet"]], ids=lambda words: words[0]
)
def test_what_outlives_launcher_and_guards_together_is_ended_by_the_next_one(stage: Stage, ended_by: list[str]) -> None:
    """The only way to leave a process: one that does not end with its input, until then."""
    three = ("launcher", "upper guard", "lower guard")
    with cast(stage, *ALL, apart=True) as everybody:
        for number in (SIGSTOP, SIGKILL):
            for who in three:
                everybody.kill(who, number)
        everybody.play.running.process.wait(20)
        for who in three:
            everybody.watched[who].dies()
        everybody.voices["polite"].dies()
        assert everybody.voices["stubborn"].is_alive
        done = run(stage, *ended_by)
        assert done.returncode == 0, done.stderr
        everybody.nobody_stays()
