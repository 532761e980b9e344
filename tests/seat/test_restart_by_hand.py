"""A person restarts a server: whatever became of it, the agent's next call succeeds, and the old process is gone."""

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.seat.roll import Voice
from tests.seat.stage import Json, Play, Stage
from tests.seat.test_restart import AT_ONCE, states, steps

HAND = [sys.executable, "-P", str(Path(__file__).with_name("hand.py"))]
LONG = {"backoff": {"initial": "60s", "max": "60s"}}  # a restart that no test waits for
BY_HAND = "was restarted by the user"
INITIALIZE = (
    '{"jsonrpc":"2.0","id":77,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
    '"clientInfo":{"name":"again","version":"1"}}}'
)


@dataclass
class Hand:
    voice: Voice

    def restart(self, server: str) -> None:
        """Returns once that was asked for."""
        self.voice.tell(server)
        self.voice.says("done")


@contextmanager
def played(stage: Stage, *options: str, servers: Json) -> Iterator[tuple[Play, Hand]]:
    with stage.play(*options, servers=servers, prefix=HAND) as play:
        yield play, Hand(stage.roll.hear("hand"))


@pytest.mark.parametrize("policy", ["on-failure", "never"])
def test_a_server_that_works_is_replaced_and_told_what_the_old_one_knew(stage: Stage, policy: str) -> None:
    polite = stage.server("polite", restart={"policy": policy, **LONG})
    with played(stage, servers={"polite": polite, "other": stage.server("polite")}) as (play, hand):
        agent = play.agent
        agent.ask("polite", "logging/setLevel", level="warning")
        before = agent.call("polite", "state")
        old = stage.roll.hear("polite")
        hand.restart("polite")
        after = agent.call("polite", "state")
        old.dies()
        assert (after["level"], after["initialize"], after["initialized"]) == ("warning", before["initialize"], True)
        assert after["calls"] == 1
        assert agent.call("polite", "pid") == stage.roll.hear("polite").pid != old.pid
        assert agent.call("other", "pid") == stage.roll.hear("other").pid
        done = play.end()
    assert done.code == 0
    assert states(done, "polite") == ["starting", "ready", "resting", "starting", "ready"]
    wish = steps(done, "polite")[2]
    assert (wish["exit"], wish["reason"], wish["restarts"], wish["retry"]) == (BY_HAND, None, 0, 0)
    assert states(done, "other") == ["starting", "ready"]


def test_a_server_that_was_given_up_works_again_once_it_is_mended_and_has_its_budget_back(
    stage: Stage, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    crasher = stage.server("crasher", f"while={broken}", restart={"max": 2, **AT_ONCE})
    with played(stage, servers={"crasher": crasher}) as (play, hand):
        agent = play.agent
        before = agent.call("crasher", "state")
        broken.touch()
        agent.refused("crasher", "crash")
        assert "2 restarts are used up" in agent.refused("crasher", "add", a=1, b=2)["message"]
        hand.restart("crasher")
        assert "2 restarts are used up" in agent.refused("crasher", "add", a=1, b=2)["message"], "it is as before"
        broken.unlink()
        hand.restart("crasher")
        assert agent.call("crasher", "add", a=1, b=2) == 3
        after = agent.call("crasher", "state")
        assert (after["initialize"], after["initialized"]) == (before["initialize"], True)
        agent.refused("crasher", "kill")
        assert agent.call("crasher", "add", a=2, b=2) == 4
        done = play.end()
    assert done.code == 0
    loop = ["resting", "starting"] * 2
    assert states(done, "crasher") == [
        "starting", "ready", *loop, "failed", "resting", "starting", *loop, "failed",
        "resting", "starting", "ready", "resting", "starting", "ready",
    ]  # fmt: skip
    assert steps(done, "crasher")[-3]["restarts"] == 1


def test_every_process_of_the_server_is_restarted(stage: Stage) -> None:
    with played(stage, servers={"polite": stage.server("polite"), "other": stage.server("polite")}) as (play, hand):
        agent = play.agent
        agent.do("open", "polite", "second")
        before = {agent.call("polite", "pid"), agent.call("second", "pid")}
        old = [stage.roll.hear("polite") for _ in range(2)]
        assert {voice.pid for voice in old} == before
        hand.restart("polite")
        after = {agent.call("polite", "pid"), agent.call("second", "pid")}
        for voice in old:
            voice.dies()
        assert after == {stage.roll.hear("polite").pid for _ in range(2)}
        assert not after & before
        done = play.end()
    assert states(done, "polite") == states(done, "polite#2") == ["starting", "ready", "resting", "starting", "ready"]


def test_a_process_without_a_handshake_after_a_refusal_is_not_killed_for_its_silence(stage: Stage) -> None:
    quick: dict[str, Any] = {"required": False, "timeouts": {"start": "300ms"}, "restart": AT_ONCE}
    mute = {name: stage.server("mute", **quick) for name in ("left", "asked")}
    with played(stage, servers=mute) as (play, hand):
        agent = play.agent
        failed = [agent.opened(name)["error"]["message"].partition(" failed: ")[2] for name in mute]
        assert failed == ["did not answer within 0.3 s; it was started 3 times and never answered"] * 2
        for _ in range(3):
            stage.roll.hear("left").dies()
        hand.restart("left")
        left = stage.roll.hear("left")
        hand.restart("asked")
        agent.do("raw", "asked", INITIALIZE)
        assert "error" in json.loads(agent.do("answer", "asked", "77")["line"]), "its clock ran three times meanwhile"
        assert left.is_alive
        assert play.end().code == 0


def test_a_restart_under_way_when_the_launch_is_interrupted_leaves_nothing(stage: Stage) -> None:
    with played(stage, servers={"stubborn": stage.server("stubborn")}) as (play, hand):
        assert play.agent.call("stubborn", "add", a=1, b=2) == 3
        hand.restart("stubborn")
        play.running.kill(signal.SIGTERM)
        assert play.running.end().code == 128 + signal.SIGTERM
    stage.roll.all_die()
    assert len(stage.roll.heard("stubborn")) == 1
