"""
The MCP servers of a launch.

Bridged stdio servers run beside the agent, which gets shims for them; the launch waits for required ones and reports
their states. Remote servers, which the agent connects to itself, are checked for accepting connections.
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
LONGEST = 10.0  # seconds for the check of a remote server; `checks.answers` gives up earlier
SILENT = 3.0  # seconds after which a live but silent process is accepted, as not every server answers a ping


class LaunchServers:
    """The servers of a launch, and their observer. Made by `launch_servers`; does nothing without bridged servers."""

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
        """Report a state change of a server, except while the servers are being stopped."""
        self._logs.mark(change.server, _mark(change))
        if not self._is_stopping:
            self._observer.server(change)
            self._news.set()
            self.listed()

    def listed(self) -> None:
        """Report the states of the servers once all of them are known."""
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
        """Show a line to the user."""
        self._observer.note(text)
        self._news.set()

    def waiting(self, what: str, seconds: float, limit: float) -> None:
        """Report a wait for `what` of so many seconds, which ends at `limit`."""
        self._observer.waiting(what, seconds, self._budget.clamped(seconds, limit))
        self._news.set()

    async def tell(self) -> None:
        """Drain the observer after an event, as it may hold events back until then."""
        await self._news.wait()
        self._news.clear()
        await self._observer.drain()

    @property
    def way(self) -> Way | None:
        """How shims reach the launcher; None without bridged servers."""
        if self._inner is None:
            return None
        from acp_launch.bridge import shim

        seat = self._inner.seat
        return Way(Path(sys.executable), Path(shim.__file__), seat.path, seat.token)

    def asking(self, asked: "Sequence[Asked]") -> None:
        """Take the running checks of remote servers."""
        self._asked = asked

    async def up(self) -> None:
        """Wait until the required servers have answered a ping, or have been alive but silent for a moment.

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
            self.note(f"{plan.name} has not answered within {patience:g} s; the session opens without waiting for it")

    async def _reached(self) -> None:
        for server, answer in self._asked:
            what = f'connection to the MCP server "{server.name}"'
            why = await awaited(answer, what=what, limit=LONGEST, waiting=self.waiting)
            if not why or server.name in self.absent:
                continue
            said = f'no answer from the MCP server "{server.name}" at {masked(server.url.display())}: {why}'
            if server.required:
                fix = "start it, or correct its url; with required: false the session opens without it"
                raise ServerError(said, fix=fix)
            self.note(f"{said}; the session opens without it")
            self.absent |= {server.name}

    def standings(self) -> list[Standing]:
        """Return the state of each bridged server, in the profile's order."""
        return self._inner.servers.standings() if self._inner else []

    def restart(self, name: str) -> None:
        """Restart a server, also a failed one, and reset its budget of restarts."""
        if self._inner is not None:
            self._inner.servers.restart(name)

    def opened(self) -> None:
        """Note that the session is open; the servers' states are reported when known, as some agents open them late."""
        self._is_open = True
        self.listed()

    def first_turn_over(self) -> None:
        """Report the states after the first turn: the agent opens no more servers, and some drop servers silently
        (docs/agents.md)."""
        if self._inner is None:
            return
        standings = self._inner.servers.standings()
        if not self._is_told:
            self._is_told = True
            self._observer.standing(standings, "opened")
        self._observer.standing(standings, "turn")

    async def proven(self) -> None:
        """Wait for the first answer of each required server that has not answered yet, up to its `timeouts.start`.

        If the agent has not opened the server, the handshake is done here, as in `doctor`, because some servers answer
        nothing before it.

        Raises:
            ServerError: a server has not answered, so the turn was done without it.
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
        """Note that the last agent is about to be stopped; only the first call counts.

        After an orderly end each server is stopped when the agent has left it; otherwise at once, with less patience.
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
    """Start the servers of `plan`; leaving stops them, which must be after the agent, because its shims use them."""
    servers = LaunchServers(plan, observer, interrupts.budget, logs)
    ours = _ours(plan)
    async with _reaching(plan) as asked:
        servers.asking(asked)
        if not ours:
            yield servers
            return
        from acp_launch.bridge.servers import Needs, running  # takes 15 ms, which a launch without servers saves

        directories = (plan.cwd, *plan.additional_directories)
        needs = Needs(secrets=secrets, directories=directories, max_line=max_line, hurry=interrupts.hurry)
        async with running(ours, needs, servers) as inner:
            servers.running(inner)
            yield servers


@asynccontextmanager
async def _reaching(plan: LaunchPlan) -> AsyncIterator[Sequence[Asked]]:
    """Check the remote servers while the agent starts."""
    remote = [server for server in plan.servers if isinstance(server, RemotePlan)]
    asked = [(server, asyncio.create_task(_unreached(server))) for server in remote]
    try:
        yield asked
    finally:
        for _, task in asked:
            task.cancel()
        await asyncio.gather(*(task for _, task in asked), return_exceptions=True)


async def _unreached(server: RemotePlan) -> str:
    """Return why a remote server does not answer; empty if it does, or if that is unknown."""
    from acp_launch.checks.answers import LATE, PATIENCE, address, connect
    from acp_launch.session.files import run_in_thread

    where = address(server.url, os.environ)
    if where is None or isinstance(where, str):
        return where or ""
    try:
        return await run_in_thread(lambda: connect(*where), name="mcp server", limit=PATIENCE)
    except TimeoutError:
        return LATE
    except OSError:  # no thread is available; the agent will find out
        return ""


def _ours(plan: LaunchPlan) -> list[StdioPlan]:
    return [server for server in plan.servers if isinstance(server, StdioPlan) and is_bridged(server)]


def _mark(change: Change) -> str:
    """Return the line about a state change in the server's log."""
    words = [change.state + (f" (pid {change.pid})" if change.pid else ""), change.exit, change.reason]
    return ", ".join(filter(None, words))


def _hello() -> bytes:
    from acp_launch.mcp.client import Client

    return Client(()).initialize().line


def _unproven(called: str, plan: StdioPlan, last: Change | None) -> ServerError:
    """Build the error of a required server that has never answered."""
    if last is not None and last.state in OVER and not last.exit.startswith(OVERDUE):
        return _failed(called, last, plan.name)
    from acp_launch.mcp.client import silent  # the same message as in `doctor`

    error = silent(plan.name, plan.timeouts.start)
    error.fix = f"{error.fix}; with required: false a run does without it"
    return error


def _is_settled(standing: Standing) -> bool:
    """Tell whether the state of a server is final, or ready with its tools listed."""
    return standing.state in OVER or (standing.state == "ready" and standing.tools is not None)


def _failed(called: str, change: Change | None, name: str) -> ServerError:
    how = "; ".join(filter(None, (change.exit, change.reason))) if change else "it was stopped"
    return ServerError(
        f'the MCP server "{name}" failed: {how}',
        fix=f"{ours('logs', called, name)} shows its log; with required: false the session opens without it",
        detail=change.detail if change else (),
    )
