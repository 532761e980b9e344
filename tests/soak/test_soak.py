"""Ring 3. Thousands of calls through shim, seat and relay to a server that is killed again and again."""

import os
import random
import signal

import pytest

from .agent import Agent, said
from .stage import MIB, Stage, hosting, wished

CALLS = int(os.environ.get("ACP_SOAK_CALLS", "5000"))
EVERY = 200  # calls between two kills
AT_ONCE = 32
SEED = 20261121
GROWTH = MIB  # of the host between a fifth of the calls and all of them; what it holds for each would be more
LOST = 'MCP server "echo" was killed by SIGKILL during tools/call, whose outcome is unknown; it is being started again'


class Soak:
    """Calls with as many in flight as chance will have it, and a kill in every `EVERY` of them."""

    def __init__(self, stage: Stage, agent: Agent) -> None:
        self._stage, self._agent = stage, agent
        self._chance = random.Random(SEED)
        self._in_flight: list[int] = []
        self.asked: dict[int, str] = {}
        self.kills = 0

    def run(self, calls: int) -> None:
        """So many more, all answered."""
        for number in range(calls):
            if number % EVERY == 0:
                fatal = self._chance.randrange(EVERY)
            self._call()
            if number % EVERY == fatal:
                self._kill()
        self._agent.until(lambda: not self._unanswered())

    def _call(self) -> None:
        most = self._chance.randint(1, AT_ONCE)
        self._agent.until(lambda: len(self._unanswered()) < most)
        text = f"call {len(self.asked)}"
        id = self._agent.send("echo", text=text)
        self.asked[id] = text
        self._in_flight.append(id)

    def _unanswered(self) -> list[int]:
        self._in_flight = [id for id in self._in_flight if id not in self._agent.answers]
        return self._in_flight

    def _kill(self) -> None:
        """Every now and then the next process too, in the midst of its handshake."""
        pid = self._stage.process_of("echo")
        for _ in range(self._chance.choice([1, 1, 1, 3])):
            os.kill(pid, signal.SIGKILL)
            self._stage.becomes("echo", "resting")
            pid = int(self._stage.becomes("echo", "starting")["pid"])
        self.kills += 1

    def judge(self) -> tuple[int, int]:
        """How many calls were answered with a result, and how many with the error; each once, with nothing else."""
        results = errors = 0
        for id, text in self.asked.items():
            (answer,) = self._agent.answers[id]
            assert said(answer) == (LOST if "error" in answer else text)
            errors += "error" in answer
            results += "result" in answer
        assert len(self._agent.answers) == len(self.asked) + 1  # the handshake
        assert self._agent.notifications == []
        return results, errors


@pytest.mark.timeout(60 + CALLS / 100)
def test_every_call_has_one_answer_however_often_its_server_is_killed_and_nothing_grows() -> None:
    with hosting(echo=wished(restarts=CALLS)) as stage:
        agent = stage.agent("echo").introduce()
        soak = Soak(stage, agent)
        soak.run(CALLS // 5)
        stage.process_of("echo")
        memory, descriptors, children = stage.memory(), stage.descriptors(), stage.children()
        soak.run(CALLS - CALLS // 5)
        stage.process_of("echo")
        assert stage.memory() - memory < GROWTH
        assert (stage.descriptors(), stage.children()) == (descriptors, children)
        results, errors = soak.judge()
        assert results + errors == CALLS
        assert 0 < errors <= soak.kills * AT_ONCE
        assert soak.kills == CALLS // EVERY
