"""Ring 3. Ten launches at once with one process of a server: each gets what it asked for, once, and nothing else."""

import json
import os
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from acp_launch.bridge.multiplexer import LEVELS

from .agent import Agent, said
from .stage import hosting, wished

CALLS = int(os.environ.get("ACP_SOAK_SHARED_CALLS", "1000"))
LAUNCHES = 10
AT_ONCE = 8
TOUCHES = 20  # of each resource, by one launch
BUSY = wished(file=Path(__file__).with_name("busy.py"), share="user")


class Client:
    """One launch's agent, which knows what it is owed."""

    def __init__(self, number: int, agent: Agent) -> None:
        self.number, self.agent = number, agent
        self.level = LEVELS[number % len(LEVELS)]
        self._chance = random.Random(number)
        self._owed: dict[int, str] = {}
        self._reported: dict[int, str] = {}
        self._waiting: set[int] = set()

    def begin(self) -> None:
        self.agent.introduce()
        for method, params in (
            ("logging/setLevel", {"level": self.level}),
            ("resources/subscribe", {"uri": f"test://{self.number}"}),
        ):
            assert self.agent.answer(self.agent.ask(method, params))["result"] == {}

    def work(self, calls: int) -> None:
        """Make so many calls, several at a time."""
        neighbour = f"test://{(self.number + 1) % LAUNCHES}"
        for number in range(calls):
            self.agent.until(lambda: self._unanswered() < AT_ONCE)
            if number % (calls // TOUCHES) == 0:
                self.agent.send("touch", uri=neighbour)
                self.agent.send("log", level=self._chance.choice(LEVELS), text="a call of some launch")
            self._call(f"{self.number}: {number}")
        self.agent.until(lambda: not self._unanswered())
        self.agent.until(lambda: len(self.heard("notifications/resources/updated")) >= TOUCHES)

    def _unanswered(self) -> int:
        self._waiting = {id for id in self._waiting if id not in self.agent.answers}
        return len(self._waiting)

    def _call(self, text: str) -> None:
        chance = self._chance.random()
        if chance < 0.02:
            held = self.agent.send("hold")
            cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": held}}
            self.agent.say(cancelled)
            return
        params: dict[str, object] = {"name": "echo", "arguments": {"text": text}}
        if chance < 0.5:
            self._reported[token := len(self._owed)] = text
            params["_meta"] = {"progressToken": token}
        self._waiting.add(id := self.agent.ask("tools/call", params))
        self._owed[id] = text

    def heard(self, method: str) -> list[dict[str, object]]:
        messages = (json.loads(each) for each in self.agent.notifications)
        return [message["params"] for message in messages if message.get("method") == method]

    def judge(self) -> None:
        """Each answer, progress and update came once, and nothing that is another's."""
        for id, text in self._owed.items():
            (answer,) = self.agent.answers[id]
            assert said(answer) == text
        assert all(len(answers) == 1 for answers in self.agent.answers.values())
        progress = self.heard("notifications/progress")
        assert {each["progressToken"]: each["message"] for each in progress} == self._reported
        assert len(progress) == len(self._reported)
        updates = [each["uri"] for each in self.heard("notifications/resources/updated")]
        assert updates == [f"test://{self.number}"] * TOUCHES
        logged = {str(each["level"]) for each in self.heard("notifications/message")}
        assert all(LEVELS.index(each) >= LEVELS.index(self.level) for each in logged)


def test_ten_launches_at_once_get_what_they_asked_for() -> None:
    with ExitStack() as launches:
        stages = [launches.enter_context(hosting(busy=BUSY)) for _ in range(LAUNCHES)]
        clients = [Client(number, stage.agent("busy")) for number, stage in enumerate(stages)]
        with ThreadPoolExecutor(LAUNCHES) as threads:
            list(threads.map(Client.begin, clients))
            list(threads.map(partial(Client.work, calls=CALLS // LAUNCHES), clients))
        for client in clients:
            client.judge()
        level, subscribed = json.loads(clients[0].agent.call("state"))
        assert (level, len(subscribed)) == ("debug", LAUNCHES)
        assert len({stage.process_of("busy") for stage in stages}) == 1
