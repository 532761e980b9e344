"""
The MCP servers of a launch. The stdio ones run beside the agent, are waited for, offered as shims, and told about. The
others, which the agent connects to itself, are asked whether they take connections.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from acp_launch.bridge.offer import Way, is_bridged
from acp_launch.errors import ServerError, WaitExpired
from acp_launch.launch.loop import Interrupts
from acp_launch.plan.model import LaunchPlan, RemotePlan, StdioPlan
from acp_launch.problem import ours
from acp_launch.process.lifecycle import OVERDUE, Change, Standing
from acp_launch.process.logs import ServerLogs
from acp_launch.secret.detect import masked
from acp_launch.secret.value import Secret
from acp_launch.session.connection import Budget
from acp_launch.session.observer import Observer
from acp_launch.waits import awaited

if TYPE_CHECKING:
    from acp_launch.bridge.servers import Running

Asked = tuple[RemotePlan, "asyncio.Task[str]"]
OVER = ("failed", "stopped")
LONGEST = 10.0  # seconds until whether a remote server answers must be known; `checks.reach` gives up before
SILENT = 3.0  # seconds after which a process that lives and says nothing passes: not every server answers a ping


class LaunchServers:
    """Made by `launch_servers` only; without any server of ours it does nothing. Observes those that run."""

    def __init__(self, plan: LaunchPlan, observer: Observer, budget: Budget, logs: ServerLogs) -> None:
        self._plan, self._observer, self._budget, self._logs = plan, observer, budget, logs
        self._asked: Sequence[Asked] = ()
        self.absent: frozenset[str] = frozenset()  # names of optional remote servers that do not answer
        self._inner: Running | None = None
        self._is_open = self._is_told = self._is_stopping = False
        self._news = asyncio.Event()

    def running(self, inner: "Running") -> None:
        self._inner = inner

    def changed(self, change: Change) -> None:
        """A step in the life of a server. Those of our own stopping are not told."""
        self._logs.mark(change.server, _mark(change))
        if not self._is_stopping:
            self._observer.server(change)
            self._news.set()
            self.listed()

    def listed(self) -> None:
        """Something about the servers has changed: how they stand is told once all of that is known."""
        if self._inner is None or self._is_told or not self._is_open:
            return
        if all(map(_is_settled, standings := self._inner.servers.standings())):
            self._is_told = True
            self._observer.standing(standings, "opened")
            self._news.set()

    def log(self, server: str) -> Callable[[bytes], None]:
        return self._logs.of(server)

    def log_end(self, server: str) -> None:
        self._logs.end(server)

    def note(self, text: str) -> None:
        """A line for the user."""
        self._observer.note(text)
        self._news.set()

    def waiting(self, what: str, seconds: float, limit: float) -> None:
        """`what` has been awaited for so long; at `limit` it is given up."""
        self._observer.waiting(what, seconds, self._budget.clamped(seconds, limit))
        self._news.set()

    async def tell(self) -> None:
        """Pass on what was told between the agent's words: the observer may keep it until it is drained."""
        await self._news.wait()
        self._news.clear()
        await self._observer.drain()

    @property
    def way(self) -> Way | None:
        """How shims get to their seat."""
        if self._inner is None:
            return None
        from acp_launch.bridge import shim

        seat = self._inner.seat
        return Way(Path(sys.executable), Path(shim.__file__), seat.path, seat.token)

    def asking(self, asked: "Sequence[Asked]") -> None:
        """Whether remote servers answer is being found out."""
        self._asked = asked

    async def up(self) -> None:
        """Until the required servers have shown a sign of life, or have been alive and silent for a moment.

        Raises:
            ServerError: one of them failed.
        """
        await self._reached()
        if self._inner is None:
            return
        servers = self._inner.servers
        waits = {servers.up(plan): plan for plan in _ours(self._plan) if plan.required}
        patience = min(SILENT, max((plan.timeouts.start for plan in waits.values()), default=0.0))
        deadline = asyncio.get_running_loop().time() + patience
        while waits:
            left = deadline - asyncio.get_running_loop().time()
            done, _ = await asyncio.wait(waits, timeout=max(0.0, left), return_when=asyncio.FIRST_COMPLETED)
            if not done:
                break
            for task in done:
                plan = waits.pop(task)
                if not task.result():
                    raise _failed(self._plan.called, servers.last(plan), plan.name)
        for task, plan in waits.items():
            task.cancel()
            self.note(f"{plan.name} has said nothing for {patience:g} s; going on, it may still come")

    async def _reached(self) -> None:
        for server, answer in self._asked:
            what = f'connection to the MCP server "{server.name}"'
            why = await awaited(answer, what=what, limit=LONGEST, waiting=self.waiting)
            if not why or server.name in self.absent:
                continue
            said = f'nobody answers for the MCP server "{server.name}" at {masked(server.url.display())}: {why}'
            if server.required:
                fix = "start it, or correct its url; with required: false the session opens without it"
                raise ServerError(said, fix=fix)
            self.note(f"{said}; the session opens without it")
            self.absent |= {server.name}

    def standings(self) -> list[Standing]:
        """How each server of ours stands now, in the profile's order."""
        return self._inner.servers.standings() if self._inner else []

    def restart(self, name: str) -> None:
        """Start a server anew, whatever became of it; its budget of restarts begins anew as well."""
        if self._inner is not None:
            self._inner.servers.restart(name)

    def opened(self) -> None:
        """The session is open: how the servers stand is told as soon as that is known: agents take their time."""
        self._is_open = True
        self.listed()

    def first_turn_over(self) -> None:
        """By now the agent has opened what it ever will; some drop servers without a word (docs/agents.md)."""
        if self._inner is None:
            return
        standings = self._inner.servers.standings()
        if not self._is_told:
            self._is_told = True
            self._observer.standing(standings, "opened")
        self._observer.standing(standings, "turn")

    async def proven(self) -> None:
        """Wait for the first answer of each required server that has not given one, until its `timeouts.start` is over.

        With one that the agent has not opened we shake hands ourselves, as `doctor` does: not every server answers
        before that.

        Raises:
            ServerError: one has not answered; the work was done without it.
        """
        if self._inner is None:
            return
        servers = self._inner.servers
        waits = [plan for plan in _ours(self._plan) if plan.required and not servers.has_answered(plan)]
        opened = {standing.server for standing in servers.standings() if standing.opened}
        with ExitStack() as connections:
            for plan in waits:
                if plan.name not in opened:
                    connections.enter_context(servers.greet(plan, _hello()))
            for plan in waits:
                await self._answer_of(plan)

    async def _answer_of(self, plan: StdioPlan) -> None:
        assert self._inner is not None
        servers, what = self._inner.servers, f'answer from the MCP server "{plan.name}"'
        up = servers.up(plan)
        try:
            has_answered = await awaited(up, what=what, limit=servers.patience(plan), waiting=self.waiting)
        except WaitExpired:
            has_answered = False
        finally:
            up.cancel()
        if not has_answered:
            raise _unproven(self._plan.called, plan, servers.last(plan))

    def stopping(self, *, is_orderly: bool) -> None:
        """The last agent is about to be stopped; only the first call counts.

        After an orderly end its servers are stopped when it has let go of them, else at once and with less patience.
        """
        if self._is_stopping:
            return
        self._is_stopping = True
        if self._inner is None:
            return
        self._inner.servers.stopping()
        if not is_orderly:
            self._inner.servers.abandon()


@asynccontextmanager
async def launch_servers(
    plan: LaunchPlan,
    observer: Observer,
    interrupts: Interrupts,
    *,
    secrets: Mapping[str, Secret],
    max_line: int,
    logs: ServerLogs,
) -> AsyncIterator[LaunchServers]:
    """Start the servers of `plan` now; leaving stops them, after the agent, whose shims they answer."""
    servers = LaunchServers(plan, observer, interrupts.budget, logs)
    ours = _ours(plan)
    async with _reaching(plan) as asked:
        servers.asking(asked)
        if not ours:
            yield servers
            return
        from acp_launch.bridge.servers import Needs, running  # 15 ms, which a launch without servers need not pay

        directories = (plan.cwd, *plan.additional_directories)
        needs = Needs(secrets=secrets, directories=directories, max_line=max_line, hurry=interrupts.hurry)
        async with running(ours, needs, servers) as inner:
            servers.running(inner)
            yield servers


@asynccontextmanager
async def _reaching(plan: LaunchPlan) -> AsyncIterator[Sequence[Asked]]:
    """While the agent starts."""
    remote = [server for server in plan.servers if isinstance(server, RemotePlan)]
    asked = [(server, asyncio.create_task(_unreached(server))) for server in remote]
    try:
        yield asked
    finally:
        for _, task in asked:
            task.cancel()
        await asyncio.gather(*(task for _, task in asked), return_exceptions=True)


async def _unreached(server: RemotePlan) -> str:
    """Why it does not answer; empty when it does, or when that cannot be told."""
    from acp_launch.checks.answers import LATE, PATIENCE, address, connect
    from acp_launch.session.files import run_in_thread

    where = address(server.url, os.environ)
    if where is None or isinstance(where, str):
        return where or ""
    try:
        return await run_in_thread(lambda: connect(*where), name="mcp server", limit=PATIENCE)
    except TimeoutError:
        return LATE
    except OSError:  # there is no thread for it: the agent will find out
        return ""


def _ours(plan: LaunchPlan) -> list[StdioPlan]:
    return [server for server in plan.servers if isinstance(server, StdioPlan) and is_bridged(server)]


def _mark(change: Change) -> str:
    """The line between the server's own in its log."""
    words = [change.state + (f" (pid {change.pid})" if change.pid else ""), change.exit, change.reason]
    return ", ".join(filter(None, words))


def _hello() -> bytes:
    from acp_launch.mcp.client import Client

    return Client(()).initialize().line


def _unproven(called: str, plan: StdioPlan, last: Change | None) -> ServerError:
    """Why a run cannot be said to have had a server that it needs."""
    if last is not None and last.state in OVER and not last.exit.startswith(OVERDUE):
        return _failed(called, last, plan.name)
    from acp_launch.mcp.client import silent  # what `doctor` says of it

    error = silent(plan.name, plan.timeouts.start)
    error.fix = f"{error.fix}; with required: false a run does without it"
    return error


def _is_settled(standing: Standing) -> bool:
    """Whether there is more to tell than that it has been started."""
    return standing.state in OVER or (standing.state == "ready" and standing.tools is not None)


def _failed(called: str, change: Change | None, name: str) -> ServerError:
    how = "; ".join(filter(None, (change.exit, change.reason))) if change else "it was stopped"
    return ServerError(
        f'the MCP server "{name}" failed: {how}',
        fix=f"{ours('logs', called, name)} shows all it said; with required: false the session opens without it",
        detail=change.detail if change else (),
    )
