"""Ring 3. Who does not read slows down who writes, as with a plain pipe; a flood fills nobody's memory."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.bridge.talker import Talker, call

from .agent import Agent, said
from .server import EAGER, numbered
from .stage import MIB, Stage, hosting, wished

FLOOD = 40_000_000  # bytes
SIZE = 4_000  # bytes of each notification: a write of a pipe's unit at most, see server.py
HELD = 4 * MIB  # what may be on its way in all: our own bound is 1 MiB, pipes and sockets hold the rest
ROOM = 16 * MIB  # what the host may need for it
LONG = 50_000_000  # bytes of one line
LOST = ", whose outcome is unknown; it is being started again"


def stuck_after(stage: Stage) -> int:
    """How much the server's flood got rid of before nobody took any."""
    return int(stage.complains("rude", "stuck after").split()[2])


def assert_in_order(agent: Agent, count: int) -> None:
    assert len(agent.notifications) == count
    for number, line in enumerate(agent.notifications):
        assert line + b"\n" == numbered(number, SIZE)


def test_an_agent_that_leaves_in_the_midst_of_a_flood_takes_its_server_along() -> None:
    with hosting(rude=wished()) as stage:
        agent = stage.guest("rude").introduce()
        agent.send("flood", bytes=FLOOD, size=SIZE)
        stuck_after(stage)
        agent.close()
        stage.becomes("rude", "stopped")
        assert stage.guest("rude").introduce().call("echo", text="the next") == "the next"


class Calls:
    """Calls of an agent that reads no answers."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.asked: dict[int, str] = {}

    def one(self) -> None:
        text = f"{len(self.asked)} ".ljust(1000, "x")
        self.asked[self.agent.send("echo", text=text)] = text

    def written(self) -> int:
        """Bytes that somebody took, about."""
        return len(self.asked) * 1000 - self.agent.unsaid

    def assert_answered(self) -> None:
        """Each once, in order."""
        self.agent.until(lambda: self.asked.keys() <= self.agent.answers.keys())
        for id, text in self.asked.items():
            (answer,) = self.agent.answers[id]
            assert said(answer) == text
        assert [id for id in self.agent.answers if id in self.asked] == list(self.asked)


@pytest.fixture
def gate(tmp_path: Path) -> str:
    """A fifo; who reads it waits until it is opened for writing."""
    os.mkfifo(tmp_path / "gate")
    return str(tmp_path / "gate")


def test_a_server_that_did_not_read_and_is_killed_leaves_nobody_waiting(gate: str) -> None:
    """What was kept for it is lost with it; what comes from then on waits for the next process."""
    with hosting(rude=wished()) as stage:
        agent = stage.agent("rude").introduce()
        calls = Calls(agent)
        agent.send("hold", path=gate)
        stage.complains("rude", "holding")
        agent.write_until_stuck(calls.one)
        os.kill(stage.process_of("rude"), signal.SIGKILL)
        agent.until(lambda: calls.asked.keys() <= agent.answers.keys())
        for id, text in calls.asked.items():
            (answer,) = agent.answers[id]
            lost = f'MCP server "rude" was killed by SIGKILL during tools/call{LOST}'
            assert said(answer) in (text, lost, 'MCP server "rude" was killed by SIGKILL; it is being started again')
        assert agent.call("echo", text="back") == "back"


def test_an_agent_that_leaves_while_its_server_does_not_read_takes_it_along(gate: str) -> None:
    with hosting(rude=wished()) as stage:
        agent = stage.guest("rude").introduce()
        agent.send("hold", path=gate)
        stage.complains("rude", "holding")
        agent.write_until_stuck(Calls(agent).one)
        agent.close()
        stage.becomes("rude", "stopped")


def test_an_agent_and_a_server_that_flood_each_other_and_do_not_read_have_to_wait_and_all_of_it_comes() -> None:
    with hosting(rude=wished()) as stage:
        agent = stage.agent("rude").introduce()
        before = stage.memory()
        id, calls = agent.send("flood", bytes=FLOOD, size=SIZE), Calls(agent)
        agent.write_until_stuck(calls.one)
        assert stuck_after(stage) < HELD
        assert calls.written() < HELD
        assert stage.memory() - before < ROOM
        assert said(agent.answer(id)) == f"{FLOOD // SIZE} sent"
        calls.assert_answered()
        assert_in_order(agent, FLOOD // SIZE)
        assert stage.peak() - before < ROOM


def test_an_agent_that_asks_us_much_and_reads_nothing_has_to_wait(gate: str) -> None:
    """Pings while a call is under way are answered by us, not by the server."""
    with hosting(rude=wished()) as stage:
        agent = stage.agent("rude").introduce()
        before = stage.memory()
        held = agent.send("hold", path=gate)
        stage.complains("rude", "holding")
        pings: list[int] = []
        agent.write_until_stuck(lambda: pings.append(agent.ask("ping", {"fill": "x" * 100})))
        assert stage.memory() - before < ROOM
        agent.until(lambda: set(pings) <= agent.answers.keys())
        assert [answer["result"] for id in pings for answer in agent.answers[id]] == [{}] * len(pings)
        Path(gate).write_text("open")
        assert said(agent.answer(held)) == "open"


def test_one_line_of_50_mb_passes_in_both_directions() -> None:
    with hosting(rude=wished()) as stage:
        agent = stage.agent("rude").introduce()
        before, text = stage.memory(), "x" * LONG
        assert agent.call("echo", text=text) == text
        assert stage.peak() - before < 3 * LONG
        assert agent.call("echo", text="and on") == "and on"


def test_a_line_over_the_cap_costs_the_agent_its_connection_and_nobody_else_anything() -> None:
    with hosting(rude=wished("loud"), max_line=MIB) as stage:
        agent, other = stage.agent("rude").introduce(), stage.agent("rude").introduce()
        agent.send("echo", text="x" * 5 * MIB)
        agent.until_hung_up()
        assert stage.next("note")["text"] == (
            "the agent's connection to rude is closed: it has sent a line of more than 1,048,576 bytes"
        )
        assert other.call("echo", text="still here") == "still here"
        assert stage.agent("rude").introduce().call("echo", text="again") == "again"


def test_half_a_line_of_a_shim_that_is_killed_is_never_passed_on() -> None:
    with hosting(rude=wished("loud")) as stage:
        agent, shim = stage.shim("rude")
        agent.introduce()
        whole, half = (json.dumps(call(id)).encode() for id in (9, 10))
        agent.raw(whole + b"\n" + half)
        agent.answer(9)
        shim.send_signal(signal.SIGKILL)
        stage.becomes("rude", "stopped")
        heard = [line for said in stage.heard("stderr") for line in said["text"].splitlines()]
        assert len(heard) == 4, "our ping, both halves of the handshake, and one call"
        assert heard[3] == f"heard {len(whole) + 1} bytes"


def test_a_server_that_floods_before_anybody_has_come_has_to_wait_and_all_of_it_comes() -> None:
    with hosting(rude=wished("eager")) as stage:
        before = stage.memory()
        assert stuck_after(stage) < HELD
        assert stage.memory() - before < ROOM
        agent = stage.agent("rude").introduce()
        assert_in_order(agent, EAGER // SIZE)


def test_a_time_out_is_no_fault_of_a_server_that_nobody_reads() -> None:
    with hosting(rude=wished(call=2.0)) as stage:
        agent = stage.agent("rude").introduce()
        id = agent.send("flood", bytes=FLOOD // 20, size=SIZE, stuck=2500)
        stuck_after(stage)
        assert said(agent.answer(id)) == f"{FLOOD // 20 // SIZE} sent"


def test_a_server_that_was_not_read_for_a_while_is_not_judged_by_that() -> None:
    """The same without clocks: nor by the pings it could not answer."""
    talker = Talker(call=5.0).introduced()
    talker.agent(call(1))
    talker.exchange.tick()
    talker.clock += 4.9
    talker.exchange.restart_clocks()
    talker.clock += 4.9
    talker.exchange.tick()
    assert talker.agent_hears() == []
    talker.clock += 0.2
    talker.exchange.tick()
    (answer,) = talker.agent_hears()
    assert answer["error"]["message"] == 'MCP server "github" did not answer tools/call within 5 s (timeouts.call)'
