"""Whatever is killed of launches that share a server: every call is answered, and nothing is left after the last."""

import os
import random
import signal
from contextlib import ExitStack

import pytest

from acp_launch.process.records import read_all
from tests.seat.stage import Play, Stage
from tests.seat.test_share_user import host, play, the_host_ends

__all__ = ["the_host_ends"]  # a fixture
LAUNCHES = 2
MOMENTS = 10  # of each victim
CALLS = 20
VICTIMS = ("host", "server", "guard", "launch", "launches", "everything")
CASES = [(victim, moment) for moment in range(MOMENTS) for victim in VICTIMS]


def pids_of(victim: str, stage: Stage, plays: list[Play]) -> list[int]:
    pid, launches = host(stage).pid, [each.running.process.pid for each in plays]
    if victim == "server":
        return [stage.roll.heard("polite")[-1].pid]
    if victim == "guard":
        return [each.guards[0].pid for each in read_all(stage.launch.state) if each.launcher.pid == pid]
    return {"host": [pid], "launch": launches[:1], "launches": launches}.get(victim, [pid, *launches])


@pytest.mark.sample(0, len(VICTIMS))
@pytest.mark.parametrize(("victim", "moment"), CASES)
def test_a_kill_leaves_no_call_without_an_answer_and_no_process(stage: Stage, victim: str, moment: int) -> None:
    fatal = random.Random(f"{victim} {moment}").randrange(CALLS)
    with ExitStack() as launches:
        plays = [launches.enter_context(play(stage)) for _ in range(LAUNCHES)]
        for each in plays:
            each.agent.tools("polite")
        start(plays, range(fatal))
        pids = pids_of(victim, stage, plays)
        assert pids
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        dead = {"launch": 1, "launches": LAUNCHES, "everything": LAUNCHES}.get(victim, 0)
        start(plays[dead:], range(fatal, CALLS))
        for each in plays[dead:]:
            judge(each)


def start(plays: list[Play], numbers: range) -> None:
    for number in numbers:
        for each in plays:
            each.agent.start("polite", "echo", text=str(number))


def judge(play: Play) -> None:
    """Each call has one answer, and the launch goes on as if nothing had happened."""
    answers = play.agent.awaits()
    said = [each["result"]["content"][0]["text"] for each in answers if "result" in each]
    assert len(answers) == CALLS
    assert said == sorted(said, key=int)
    assert play.agent.call("polite", "add", a=1, b=2) == 3
    assert play.end().code == 0
