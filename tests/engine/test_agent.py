"""The agent of a front that outlives it: its life, the requests that wait for it, and whom its messages reach."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest
from msgspec import Raw

from acp_launch.engine.agent import AgentSession, ManagedAgent, QueuedRequest
from acp_launch.engine.run import Ending, Launch, Story
from acp_launch.errors import AgentError, LaunchError, WaitExpired
from acp_launch.protocol.conversation import Opened, PermissionAsked, Updated
from acp_launch.session.connection import Connection
from tests.looped import bounded
from tests.patience import PATIENCE

T = TypeVar("T")
NOTHING = Raw(b"{}")


class FakeConnection:
    """A connection to an agent that dies at a word."""

    agent = SimpleNamespace(title="fake")

    def __init__(self) -> None:
        self.says: Any = None
        self.death: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def listen(self, listener: Any) -> None:
        self.says = listener

    def with_stall_reason(self, error: LaunchError) -> LaunchError:
        return error

    async def race_with_close(self, work: Coroutine[Any, Any, T]) -> T:
        running = asyncio.ensure_future(work)
        either: list[asyncio.Future[Any]] = [running, self.death]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if self.death.done():
            running.cancel()
            self.death.result()
        return running.result()


class FakeLaunch(Launch):
    """A launch whose agents are in memory; those that `fail` do not come up."""

    def __init__(self, fail: Sequence[int] = ()) -> None:
        self.interrupts = cast(Any, SimpleNamespace(watch=lambda story: story))
        self.met: list[FakeConnection] = []
        self._fail = fail
        self._started = 0

    agent_process = None

    async def meet(self, story: Story[T], ending: Ending) -> T:
        self._started += 1
        if self._started - 1 in self._fail:
            raise AgentError(f"agent {self._started - 1} did not come up")
        self.met.append(FakeConnection())
        return await story(cast(Connection, self.met[-1]))


class FakeSession(AgentSession):
    def __init__(self, agent: "ManagedAgent[FakeSession]", number: int = -1) -> None:
        super().__init__(agent)
        self.heard: list[object] = []
        self.client: Any = SimpleNamespace(number=number, on_event=self.heard.append, judges=True)

    def begin(self, opened: Opened) -> None:
        self.heard.append(opened)


class FakeFront:
    """A front that writes down what it is told. Its sessions are back once it is `restored`."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.strays: list[object] = []
        self.restored, self.lost = asyncio.Event(), asyncio.Event()
        self.restored.set()

    def meet(self, connection: Connection) -> None:
        self.told.append("met")

    async def restore(self) -> None:
        await self.restored.wait()

    def end(self, error: BaseException | None) -> None:
        raise AssertionError("the launch is a fake")

    def lose(self, error: LaunchError, *, is_told: bool) -> None:
        self.told.append(error.message + ", as a request is told" * is_told)
        self.lost.set()

    def stray(self, message: object) -> None:
        self.strays.append(message)


class Scene:
    def __init__(self, fail: Sequence[int] = ()) -> None:
        self.launch, self.front, self.over = FakeLaunch(fail), FakeFront(), asyncio.Event()
        self.agent: ManagedAgent[FakeSession] = ManagedAgent(self.launch, self.front, self.over)
        self.order: list[str] = []

    def queue(self, name: str) -> None:
        def refuse(error: LaunchError) -> bool:
            self.order.append(f"{name}: {error.message}")
            return True

        self.agent.queue(QueuedRequest(lambda: self.order.append(name), refuse))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
            tasks.create_task(self.agent.run())
            yield
            self.over.set()


@bounded
async def test_requests_wait_in_their_order_until_the_agent_has_its_sessions() -> None:
    scene = Scene()
    scene.front.restored.clear()
    async with scene.running():
        assert scene.launch.met == []  # nothing wants it
        scene.queue("first")
        scene.queue("second")
        await scene.agent.reconnected()  # as a session does that it has to get back
        assert scene.order == [] and not scene.agent.is_ready
        scene.front.restored.set()
        await scene.agent.connected()
        assert scene.order == ["first", "second"] and scene.agent.is_ready


@bounded
async def test_an_agent_that_has_died_is_started_again_when_it_is_wanted() -> None:
    scene = Scene()
    async with scene.running():
        first = await scene.agent.connected()
        scene.launch.met[0].death.set_exception(AgentError("it crashed"))
        await scene.agent.until_end(first)
        assert not scene.agent.is_ready
        assert await scene.agent.connected() is not first
        assert scene.front.told == ["met", "it crashed", "met"]


@bounded
async def test_those_that_wait_for_an_agent_that_does_not_come_up_are_told_why_and_the_next_starts_another() -> None:
    scene = Scene(fail=[0])
    async with scene.running():
        scene.queue("first")
        with pytest.raises(AgentError, match="agent 0 did not come up"):
            await scene.agent.connected()
        assert scene.order == ["first: agent 0 did not come up"]
        assert scene.front.told == ["agent 0 did not come up, as a request is told"]
        scene.queue("next")
        await scene.agent.connected()
        assert scene.order[1:] == ["next"]


@bounded
async def test_a_request_that_comes_while_the_agent_dies_waits_for_the_next() -> None:
    scene = Scene()
    async with scene.running():
        first = await scene.agent.connected()
        scene.launch.met[0].death.set_exception(AgentError("it crashed"))
        await scene.agent.until_end(first)
        scene.queue("late")
        await scene.agent.connected()
        assert scene.order == ["late"]


@bounded
@pytest.mark.parametrize("reason", [None, WaitExpired("it hangs")])
async def test_an_agent_that_is_stopped_is_started_again_by_the_next_request(reason: LaunchError | None) -> None:
    scene = Scene()
    async with scene.running():
        first = await scene.agent.connected()
        scene.agent.stop(reason)
        await scene.agent.until_end(first)
        assert await scene.agent.connected() is not first
        lost = ["it hangs"] if reason else []
        assert scene.front.told == ["met", *lost, "met"]


@bounded
async def test_without_an_answer_of_any_agent_the_end_is_its_error() -> None:
    scene = Scene(fail=[0])
    scene.queue("first")
    running = asyncio.create_task(scene.agent.run())
    await scene.front.lost.wait()
    scene.over.set()
    with pytest.raises(AgentError, match="agent 0 did not come up"):
        await running


@bounded
async def test_a_message_reaches_the_session_that_it_concerns_and_the_front_if_there_is_none() -> None:
    scene = Scene()
    async with scene.running():
        await scene.agent.connected()
        one, other, silent = FakeSession(scene.agent, 4), FakeSession(scene.agent, 5), FakeSession(scene.agent)
        silent.client = None
        scene.agent.by_id["silent"] = silent
        says = scene.launch.met[0].says
        opened = [Opened("a", "new", NOTHING, number, b"") for number in (4, 5, 6)]
        says(opened[0])
        update = Updated("a", "plan", NOTHING, False)
        says(update)
        says(opened[1])  # the same id again: the latest session has it
        question = PermissionAsked(NOTHING, "a", {}, [], b"")
        says(question)
        says(opened[2])  # a request that was given up
        strays = [Updated(id, "plan", NOTHING, False) for id in ("silent", "unknown")]
        for each in strays:
            says(each)
        assert one.heard == [opened[0], update]
        assert other.heard == [opened[1], question]
        assert scene.front.strays == strays
        other.end()
        assert scene.agent.sessions == [one, silent] and list(scene.agent.by_id) == ["silent"]


@bounded
async def test_a_question_goes_to_the_front_of_an_agent_that_is_a_host() -> None:
    scene = Scene()
    async with scene.running():
        await scene.agent.connected()
        scene.agent.by_id["a"] = session = FakeSession(scene.agent)
        session.client.judges = False
        question = PermissionAsked(NOTHING, "a", {}, [], b"")
        scene.launch.met[0].says(question)
        assert (session.heard, scene.front.strays) == ([], [question])
