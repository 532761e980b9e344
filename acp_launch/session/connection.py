"""
The connection to an ACP agent over a pump (`rpc`): calls with deadlines, messages to the listener, and the handshake.

The agent's faults are reported with its command line. Work that needs time (asking the user) runs next to the pump
(C-11). The agent is not read while the observer has no room.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from math import inf
from typing import Any, TypeVar

from msgspec import Raw

from acp_launch.errors import (
    AgentError,
    AgentRefused,
    AuthRequired,
    LaunchError,
    RemoteProtocolError,
    RunExpired,
    WaitExpired,
)
from acp_launch.process import node
from acp_launch.protocol import acp, jsonrpc
from acp_launch.protocol.acp import OWN_COMMAND, Negotiated, Offers
from acp_launch.protocol.conversation import (
    Completed,
    Conversation,
    Extension,
    Opened,
    Passing,
    PermissionAsked,
    ServiceAsked,
    Updated,
    Withdrawn,
)
from acp_launch.protocol.jsonrpc import Answered, Call
from acp_launch.rpc import Pump, Transport, details
from acp_launch.session.events import InitializedEvent, Observer, WaitingEvent, show_note
from acp_launch.waits import awaited, is_asking

# How to make a wait for the agent longer, and the time limit of a whole run.

T = TypeVar("T")
L = TypeVar("L", bound=LaunchError)


def in_profile(wait: str) -> str:
    """Return the profile key that makes a wait longer: `initialize`, `session` or `silence`."""
    return f"agent.timeouts.{wait} in the profile"


def on_command_line(wait: str) -> str:
    """Return the option that does the same for `run --agent`."""
    return f"--timeout {wait}=DURATION"


class Budget:
    """The seconds that a run may take in all (`--timeout`); None for no limit."""

    def __init__(self, seconds: float | None = None) -> None:
        self.is_spent = False
        self.seconds = seconds
        self._left = inf if seconds is None else seconds
        self._until: float | None = None  # loop time, while it is being spent
        self._timer: asyncio.TimerHandle | None = None
        self._over: Callable[[], None] = lambda: None

    def __str__(self) -> str:
        return f"--timeout {self.seconds:g}s"

    @contextmanager
    def spending(self, over: Callable[[], None]) -> Iterator[None]:
        """Spend it while the block runs; `over` is called when nothing is left."""
        self._over = over
        self._go()
        try:
            yield
        finally:
            self._rest()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop spending while this block, within the other, runs."""
        self._rest()
        try:
            yield
        finally:
            self._go()

    def clamped(self, waited: float, limit: float) -> float:
        """Return after how many seconds a wait ends that has taken `waited` so far and has its own `limit`."""
        if self._until is None:
            return limit
        return min(limit, round(waited + self._until - asyncio.get_running_loop().time(), 1))

    def _go(self) -> None:
        if self.seconds is not None and not self.is_spent:
            loop = asyncio.get_running_loop()
            self._until = loop.time() + self._left
            self._timer = loop.call_at(self._until, self._end)

    def _rest(self) -> None:
        if self._timer is not None and self._until is not None:
            self._timer.cancel()
            self._left = max(0.0, self._until - asyncio.get_running_loop().time())
            self._timer = self._until = None

    def _end(self) -> None:
        self.is_spent = True
        self._timer = None
        self._over()


def uncancel_current_task() -> None:
    """Note that the current task handled its cancellation: its later waits are not cancelled again."""
    task = asyncio.current_task()
    assert task is not None, "only a task can be cancelled"
    task.uncancel()


AGENT = "the agent"
SHIM = "acp-launch: no connection for the MCP server"  # on its stderr, from what it starts in place of servers


# What the agent sends to the client of a session, or about all of them.
AgentMessage = Updated | Opened | PermissionAsked | ServiceAsked | Completed | Withdrawn
Listener = Callable[[AgentMessage], None]  # called in wire order, must not block


class Connection:
    def __init__(
        self,
        transport: Transport,
        observer: Observer,
        *,
        max_line: int,
        command: Callable[[], str],
        longer: Callable[[str], str] = in_profile,
        budget: Budget | None = None,
    ) -> None:
        """Set up the connection. `longer` says how to make a wait longer; `budget` is the run's."""
        self.conversation = Conversation()
        self.observer = observer
        self.negotiated: acp.Negotiated | None = None
        self.offered = Offers()  # what we offered in the handshake
        self.explain: Callable[[AgentRefused], None] = lambda error: None  # adds what can be done about a refusal
        self.held_back = False  # the observer has no room, so the agent is not read
        self.drain_listeners: set[Callable[[float], None]] = set()  # hear how long it was not read
        self.read_own_error: Callable[[jsonrpc.Fault], LaunchError | None] = lambda fault: None  # of a host
        self.extension: Callable[[Extension], None] = lambda extension: None  # takes what a host says besides ACP
        self.stall_reason: Callable[[], LaunchError | None] = lambda: None  # other than the agent
        self._on_passthrough: Callable[[Passing], None] = lambda message: None  # passes a message on to an editor
        self._longer, self._budget, self._command = longer, budget or Budget(), command
        self._listener: Listener | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._running: set[asyncio.Task[None]] = set()
        conversation = self.conversation
        self._pump = Pump(transport, conversation.receive, self, AGENT, recover=conversation.recover, max_line=max_line)
        self.heard, self.mishaps, self.noise = self._pump.heard, self._pump.mishaps, self._pump.noise
        self._clock = asyncio.get_running_loop().time
        self.send, self.reply = self._pump.send, self._pump.reply

    def pass_on(self, method: str, line: bytes, answered: Callable[[Answered], None]) -> int:
        """Pass an editor's request on; return its number. `answered` gets the answer; none comes if the agent ends."""
        call = self.conversation.pass_on(method, line)
        self._pump.ask(call, lambda answer: answered(answer) if isinstance(answer, Answered) else None)
        return call.number

    @property
    def unsent(self) -> int:
        """Return how many bytes wait for the agent to take them."""
        return self._pump.unsent

    def attach_editor(
        self,
        *,
        lines: Callable[[bytes, Iterable[bytes]], Iterable[bytes]],
        on_passthrough: Callable[[Passing], None],
        written: Callable[[], None],
    ) -> None:
        """Give an editor its messages. `lines` takes a chunk of the agent and its lines, and returns those that it
        has not passed on; `on_passthrough` passes a message on; `written` hears whenever the agent has taken something.
        """
        self._pump.line_filter, self._pump.written, self._on_passthrough = lines, written, on_passthrough

    @asynccontextmanager
    async def pumping(self) -> AsyncIterator[None]:
        """Pump for as long as the block runs."""
        async with self._pump.running() as self._tasks:
            try:
                yield
            finally:
                for task in self._running:
                    task.cancel()

    def met(self, negotiated: acp.Negotiated) -> None:
        """Note the result of the handshake."""
        self.negotiated = negotiated
        self._pump.is_open = True

    def listen(self, listener: Listener | None) -> None:
        """Give it all that comes from now on; without one it is ignored."""
        self._listener = listener

    @property
    def agent(self) -> acp.Negotiated:
        """Return what the agent is and can do. Only after the handshake."""
        assert self.negotiated is not None, "negotiate comes first"
        return self.negotiated

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a task while the pump continues; it ends with the connection at the latest."""
        assert self._tasks is not None, "the pump runs"
        task = self._tasks.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def race_with_close(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`, unless the agent ends first.

        Raises:
            AgentError, RemoteProtocolError: how it ended.
        """
        running, over = asyncio.ensure_future(work), asyncio.ensure_future(self._pump.over())
        try:
            await asyncio.wait({running, over}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                return running.result()
            raise over.result()
        finally:
            running.cancel()
            over.cancel()

    async def call(
        self, call: Call, *, what: str, limit: float, knob: str = "", since: Callable[[], float] | None = None
    ) -> Raw:
        """Send a request and wait for its answer. `what` names the wait, and `knob` its key in `agent.timeouts`.

        Raises:
            AgentError: the agent ended first.
            AuthRequired: it answered -32000 (C-30).
            AgentRefused: it answered with another error.
            WaitExpired: it did not answer in time; a late answer is ignored (C-66).
            RunExpired: the whole run is out of time; not if `since` is given, as in a turn.
        """
        with self._pump.asking(call) as future:
            try:
                answer = await awaited(future, what=what, limit=limit, waiting=self._waiting_word, since=since)
            except WaitExpired as error:
                error.fix = f"if it needs longer: {self._longer(knob)}" if knob else ""
                raise self.blamed(error) from None
            except asyncio.CancelledError:
                if since is not None or not self._budget.is_spent:
                    raise
                uncancel_current_task()
                late = RunExpired(f"no {what} within {self._budget}", fix="if it needs longer: a longer --timeout")
                raise self.blamed(late) from None
        if answer.fault is not None:
            raise self._error_of(call.method, answer.fault)
        return answer.result

    def _waiting_word(self, what: str, waited: float, limit: float) -> None:
        limit = self._budget.clamped(waited, limit)
        if not is_asking() and not self.tell_stall_reason() and limit < inf:  # a wait without one is known to the user
            self.observer.show(WaitingEvent(what=what, seconds=waited, limit=limit))

    def _error_of(self, method: str, fault: jsonrpc.Fault) -> LaunchError:
        if (foreseen := self.read_own_error(fault)) is not None:
            return foreseen
        if fault.code == jsonrpc.AUTH_REQUIRED:
            methods = self.negotiated.auth_methods if self.negotiated else ()
            offered = [f"{method.name} ({method.id}): {method.description}".rstrip(": ") for method in methods]
            wanted = AuthRequired(
                f"the agent wants a login first: {fault.message}",
                fix=OWN_COMMAND,
                detail=[*(f"it offers: {' '.join(line.split())}" for line in offered), *details(fault)],
            )
            wanted.reply = fault.code, fault.message, fault.data
            return wanted
        error = AgentRefused(
            f"the agent answered {method} with an error: {fault.message} ({fault.code})",
            code=fault.code,
            detail=details(fault),
        )
        error.reply = fault.code, fault.message, fault.data
        self.explain(error)
        return error

    # Called by the pump.

    def on_event(self, event: AgentMessage | Passing | Extension) -> None:
        if isinstance(event, Updated):  # first, as a turn has very many
            if self._listener is not None:
                self._listener(event)
        elif isinstance(event, Extension):
            self.extension(event)
        elif isinstance(event, Passing):
            self._on_passthrough(event)
        elif self._listener is not None:
            self._listener(event)

    def note(self, text: str) -> None:
        show_note(self.observer, text)

    async def drain(self) -> None:
        began, self.held_back = self._clock(), True
        await self.observer.drain()
        self.held_back = False
        for hear in tuple(self.drain_listeners):
            hear(self._clock() - began)

    def died(self, how: str, last_words: tuple[str, ...], method: str) -> LaunchError:
        before = f" before it answered {method}" if method else ""
        its_own = tuple(line for line in last_words if not line.startswith(SHIM))
        return self.blamed(AgentError(f"the agent {how}{before}", fix=node.advice(its_own), detail=its_own))

    def blamed(self, error: LaunchError) -> LaunchError:
        """Add the command line to the error of an agent that ended, hung or is not an ACP agent."""
        if command := self._command():
            told = f"command: {command}"
            error.detail = (told, *(line for line in error.detail if line != told))
        return self.with_stall_reason(error)

    def tell_stall_reason(self) -> bool:
        """Tell the user what else than the agent explains its silence; return whether anything does."""
        reason = self.stall_reason()
        if reason is not None:
            self.note(f"{reason.message}: {reason.fix}")
        return reason is not None

    def with_stall_reason(self, error: L) -> L:
        """Let what explains the silence take the place of the error that blames the agent."""
        if (reason := self.stall_reason()) is not None:
            error.message, error.fix = reason.message, reason.fix
        return error


@asynccontextmanager
async def connect(
    transport: Transport,
    observer: Observer,
    *,
    max_line: int,
    command: Callable[[], str] = lambda: "",
    longer: Callable[[str], str] = in_profile,
    budget: Budget | None = None,
) -> AsyncIterator[Connection]:
    """Open a connection that is pumped while the block runs. Errors are raised as themselves, not in a group.

    `command` is the agent's command line, for errors that blame it; `longer` and `budget` are for its waits.
    """
    connection = Connection(transport, observer, max_line=max_line, command=command, longer=longer, budget=budget)
    async with connection.pumping():
        yield connection


# `initialize`, alone and first: what the agent is and what it can do.


KNOB = "initialize"
ACP_MODE = "is the command right? many agents speak ACP only with a flag or as an adapter of their own"


async def negotiate(
    connection: Connection, *, limit: float, offers: Offers | None = None, greeting: bytes = b""
) -> Negotiated:
    """Shake hands within `limit` seconds; without `offers` the agent is offered nothing. `greeting` is the `initialize`
    of an editor, if there is one.

    Raises:
        AgentError: the agent ended, refused, or is not an ACP agent: it printed text and did not answer in time.
        RemoteProtocolError: it speaks another version (C-17).
        WaitExpired: it said nothing in time.
    """
    connection.offered = offers or Offers()
    conversation = connection.conversation
    call = conversation.initialize_for(greeting) if greeting else conversation.initialize(connection.offered)
    try:
        result = await connection.call(call, what="answer to initialize from the agent", limit=limit, knob=KNOB)
        negotiated = connection.conversation.negotiated(result)
    except (AgentError, WaitExpired) as error:
        raise connection.blamed(_explain(error, connection.noise)) from None
    except RemoteProtocolError as error:
        raise connection.blamed(error) from None
    connection.met(negotiated)
    connection.observer.show(InitializedEvent(result=negotiated.raw))
    return negotiated


def _explain(error: LaunchError, noise: list[str]) -> LaunchError:
    """Return the error with its most likely reason: a program that is not an ACP agent."""
    printed = [f"it printed: {line}" for line in noise]
    if noise and isinstance(error, WaitExpired) and not isinstance(error, RunExpired):
        return AgentError(
            f"this is not an ACP agent: it printed text, and {error.message}", fix=ACP_MODE, detail=printed
        )
    has_own = any(line.strip().startswith("fix: ") for line in error.detail)  # a replay says what to do itself
    is_known = bool(error.fix) and not isinstance(error, WaitExpired)  # that ssh, or an engine, failed
    mode = "" if has_own or is_known else ACP_MODE
    error.fix = node.advice(error.detail) or "; ".join(filter(None, (mode, error.fix)))
    error.detail = (*printed, *error.detail)
    return error
