"""A supervisor with a program that has no process, as a remote server: what it is told, and what it tells."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from acp_launch.errors import AgentError
from acp_launch.process.lifecycle import Change, Ended
from acp_launch.process.tree import StopOutcome

from .supervising import HandClock, Watched, supervised

EXPIRED = Ended("closed the session", follows="again")
REFUSED = Ended("does not accept the key (401)", follows="never")


class Connection:
    """A `Running` that ends when the test says so."""

    def __init__(self) -> None:
        self.hurry = asyncio.Event()
        self.end: Ended | None = None
        self.unsent: Sequence[bytes] = ()
        self.pid: int | None = None
        self.is_dead = False
        self.lines = None
        self.stops = 0
        self._over = asyncio.Event()

    def over(self, end: Ended) -> None:
        self.end = self.end or end
        self._over.set()

    async def wait(self) -> None:
        await self._over.wait()

    async def stop(self, *, grace: float) -> StopOutcome:
        self.stops += 1
        self.over(Ended("was stopped", is_clean=True))
        return StopOutcome(None, (), ())

    def stderr_tail(self) -> list[str]:
        return ["connecting", "what the server said"]


class Network:
    """A `Program` whose connections are kept."""

    name = "tracker"
    may_fetch = False

    def __init__(self, fails: int = 0) -> None:
        self.fails, self.begun, self.left = fails, list[Connection](), 0

    @asynccontextmanager
    async def begin(self, *, restarts: int, log: Callable[[bytes], None] | None) -> AsyncIterator[Connection]:
        if restarts < self.fails:
            raise AgentError("the certificates cannot be read", fix="correct SSL_CERT_FILE")
        connection = Connection()
        self.begun.append(connection)
        try:
            yield connection
        finally:
            self.left += 1


@supervised
async def test_a_session_that_timed_out_is_replaced_at_once_and_a_refusal_is_final() -> None:
    network, clock = Network(), HandClock()
    watched = Watched(network, clock=clock)
    async with watched.running() as task:
        await watched.until("started")
        watched.supervisor.ready()
        clock.move(3600)
        network.begun[0].over(EXPIRED)
        await watched.until("started", 2)
        assert (watched.supervisor.pid, watched.supervisor.restarts) == (None, 1)
        network.begun[1].over(REFUSED)
        await watched.until_final()
        assert await watched.supervisor.stop() == StopOutcome(None, (), ())
        await task
    assert watched.story == [
        "starting", "started", "ready",
        "resting", "lost: resting", "starting", "started",
        "failed", "lost: failed",
    ]  # fmt: skip
    words = ("connecting", "what the server said")
    assert watched.changes[2:] == [
        Change(
            server="tracker", state="resting", budget=5, after=3600, exit="closed the session", retry=0.0, detail=words
        ),
        Change(server="tracker", state="starting", budget=5),
        Change(server="tracker", state="failed", budget=5, after=0.0, exit=REFUSED.how, detail=words),
    ]
    assert network.left == 2


@supervised
async def test_a_connection_is_stopped_once_with_patience_and_left() -> None:
    network = Network()
    watched = Watched(network)
    async with watched.running():
        await watched.until("started")
        await watched.supervisor.stop()
    assert watched.story == ["starting", "started", "stopping", "ending", "stopped", "lost: stopped"]
    assert not network.begun[0].hurry.is_set()
    assert (network.begun[0].stops, network.left) == (2, 1)


@supervised
async def test_a_condemned_connection_is_ended_in_a_hurry_and_followed_by_another() -> None:
    network, clock = Network(), HandClock()
    watched = Watched(network, clock=clock)
    async with watched.running():
        await watched.until("started")
        watched.supervisor.answered()
        watched.supervisor.condemn("does not answer any more")
        await watched.until("lost: resting")
        assert network.begun[0].hurry.is_set()
        assert (watched.last.exit, watched.last.retry) == ("does not answer any more", 0.2)
        clock.move(0.2)
        await watched.until("started", 2)
        await watched.supervisor.stop()
