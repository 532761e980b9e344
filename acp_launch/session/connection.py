"""
The pump between a transport and a conversation: one reader, one writer, requests of ours as futures.

Lines are handled one after the other, inside the reader, so updates keep their order and an answer is delivered only
after the updates before it (C-10); what needs time (asking a person) runs beside it (C-11). The reader stops reading
while the observer has no room. When the agent ends, in whatever way, every open request fails at once with how it
ended and its last words (C-12).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from math import inf
from typing import Any, Protocol, TypeVar

from msgspec import Raw

from acp_launch.errors import (
    AgentError,
    AgentRefused,
    AuthRequired,
    LaunchError,
    LocalProtocolError,
    RemoteProtocolError,
    RunExpired,
    WaitExpired,
    first,
)
from acp_launch.protocol import acp, jsonrpc
from acp_launch.protocol.acp import OWN_COMMAND, Negotiated, Offers
from acp_launch.protocol.conversation import (
    Completed,
    Conversation,
    Event,
    Opened,
    PermissionAsked,
    Reply,
    ServiceAsked,
    Updated,
    Withdrawn,
)
from acp_launch.protocol.jsonrpc import Answered, Call, Junk, LineFramer
from acp_launch.protocol.mishap import Mishaps
from acp_launch.protocol.written import written
from acp_launch.secret.redact import excerpt
from acp_launch.session.observer import Observer
from acp_launch.transport import Transport, TransportClosed

# Every wait has a name, a deadline and a word on stderr (DESIGN §6). All the waits of a run together may have one, too.


FIRST_WORD = 3.0  # seconds until we say what we wait for
T = TypeVar("T")


def seconds(amount: float) -> str:
    """`0.3 s`, `3 s`, `2 min`."""
    if amount >= 120:
        return f"{amount / 60:.3g} min"
    return f"{amount:.3g} s"


def in_profile(wait: str) -> str:
    """What makes a wait for the agent longer: `initialize`, `session` or `silence`."""
    return f"agent.timeouts.{wait} in the profile"


def on_command_line(wait: str) -> str:
    """The same for `run --agent`."""
    return f"--timeout {wait}=DURATION"


class Budget:
    """The seconds that a run may take in all (`--timeout`), or None for as many as it needs."""

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
        """Spend nothing while this block within the other runs."""
        self._rest()
        try:
            yield
        finally:
            self._go()

    def clamped(self, waited: float, limit: float) -> float:
        """After how many seconds a wait that has taken `waited` so far ends, if its own limit is `limit`."""
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


def dealt_with() -> None:
    """The current task was cancelled, and goes on: what waits in it later is not cancelled once more."""
    task = asyncio.current_task()
    assert task is not None, "only a task can be cancelled"
    task.uncancel()


async def awaited(
    future: asyncio.Future[T],
    *,
    what: str,
    limit: float,
    waiting: Callable[[str, float, float], None],
    since: Callable[[], float] | None = None,
) -> T:
    """The future's result, if it comes within `limit` seconds of silence.

    `since` gives the loop time of the last sign of life and is asked again after each step, so that a lively turn
    never expires; the clock starts now at the earliest. Words come after 3 s, then at growing intervals: within one
    wait a later silence is mentioned only if it outlasts the earlier ones.

    Raises:
        WaitExpired: the deadline passed; the future is left as it is.
    """
    loop = asyncio.get_running_loop()
    begun = loop.time()
    word = FIRST_WORD

    def last() -> float:
        return max(begun, since()) if since else begun

    while True:
        left = last() + min(word, limit) - loop.time()
        if left > 0:
            done, _ = await asyncio.wait([future], timeout=left)
            if done:
                return future.result()
        elif word >= limit:
            raise WaitExpired(f"no {what} within {seconds(limit)}")
        else:
            waiting(what, word, limit)
            word = min(word * 3, word + 60)


AGENT = "the agent"
MAX_REPLIES = 16 * 1024 * 1024  # bytes of our answers an agent may leave unread
LAST_WORDS = 1.0  # seconds for an agent that closed its stdin to end, so that we can say how


class Listener(Protocol):
    """Who handles what the agent sends; called in wire order and must not block."""

    def updated(self, update: Updated) -> None: ...
    def opened(self, opened: Opened) -> None: ...
    def asked(self, question: PermissionAsked) -> None: ...
    def service(self, question: ServiceAsked) -> None: ...
    def completed(self, elicitation_id: str) -> None: ...
    def withdrawn(self, withdrawn: Withdrawn) -> None: ...


class Connection:
    def __init__(
        self,
        transport: Transport,
        observer: Observer,
        tasks: asyncio.TaskGroup,
        *,
        max_line: int,
        command: Callable[[], str],
        longer: Callable[[str], str] = in_profile,
        budget: Budget | None = None,
    ) -> None:
        """`longer` says what makes a wait longer; `budget` is the run's."""
        self.conversation = Conversation()
        self.observer = observer
        self.negotiated: acp.Negotiated | None = None
        self.offered = Offers()  # to the agent, when we shook hands
        self.explain: Callable[[AgentRefused], None] = lambda error: None  # adds what can be done about a refusal
        self.held_back = False  # the observer has no room, so the agent is not read
        self.noise: list[str] = []  # the first lines that were no messages, while nothing was negotiated
        self._transport, self._longer, self._budget = transport, longer, budget or Budget()
        self._tasks = tasks
        self._command = command
        self._framer = LineFramer(limit=max_line)
        self._running: set[asyncio.Task[None]] = set()
        self._listener: Listener | None = None
        self._waiting: dict[int, tuple[str, asyncio.Future[Answered]]] = {}
        self._over: Callable[[str], LaunchError] | None = None
        self._is_over = asyncio.Event()
        self._outbox: asyncio.Queue[bytes] = asyncio.Queue()
        self._unsent = 0
        self._heard = asyncio.get_running_loop().time()
        self._junk = 0
        self.mishaps = Mishaps(observer.note)  # failures of ours with what the agent said

    def listen(self, listener: Listener) -> None:
        self._listener = listener

    @property
    def agent(self) -> acp.Negotiated:
        """Who the agent is and what it can do, once it said so."""
        assert self.negotiated is not None, "negotiate comes first"
        return self.negotiated

    def beside(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do something while the pump goes on; it ends with the connection at the latest."""
        task = self._tasks.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def unless_over(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` gives, unless the agent ends first.

        Raises:
            AgentError, RemoteProtocolError: how it ended.
        """
        running, over = asyncio.ensure_future(work), asyncio.ensure_future(self._is_over.wait())
        try:
            await asyncio.wait({running, over}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                return running.result()
            assert self._over is not None
            raise self._over("")
        finally:
            running.cancel()
            over.cancel()

    def close(self) -> None:
        for task in self._running:
            task.cancel()

    def heard(self) -> float:
        """Loop time of the last sign of life."""
        return self._heard

    def send(self, line: bytes) -> None:
        """Queue a line; b"" is nothing."""
        if line:
            self._unsent += len(line)
            self._outbox.put_nowait(line)

    async def call(
        self, call: Call, *, what: str, limit: float, knob: str = "", since: Callable[[], float] | None = None
    ) -> Raw:
        """Send a request and wait for its answer; `what` names the wait, and `knob` is the one of `agent.timeouts`.

        Raises:
            AgentError: the agent ended first.
            AuthRequired: it answered -32000 (C-30).
            AgentRefused: it answered with another error.
            WaitExpired: it did not answer in time; a late answer is ignored (C-66).
            RunExpired: there is no time left for the whole run; not where `since` is given, as in a turn.
        """
        if self._over:
            raise self._over(call.method)
        future: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._waiting[call.number] = (call.method, future)
        self.send(call.line)
        try:
            answer = await awaited(future, what=what, limit=limit, waiting=self._waiting_word, since=since)
        except WaitExpired as error:
            error.fix = f"if it needs longer: {self._longer(knob)}" if knob else ""
            raise self.blamed(error) from None
        except asyncio.CancelledError:
            if since is not None or not self._budget.is_spent:
                raise
            dealt_with()
            late = RunExpired(f"no {what} within {self._budget}", fix="if it needs longer: a longer --timeout")
            raise self.blamed(late) from None
        finally:
            self._waiting.pop(call.number, None)
        if answer.fault is not None:
            raise self._refused(call.method, answer.fault)
        return answer.result

    def _waiting_word(self, what: str, waited: float, limit: float) -> None:
        self.observer.waiting(what, waited, self._budget.clamped(waited, limit))

    def _refused(self, method: str, fault: jsonrpc.Fault) -> LaunchError:
        if fault.code == jsonrpc.AUTH_REQUIRED:
            return self._auth_required(fault)
        error = AgentRefused(
            f"the agent answered {method} with an error: {fault.message} ({fault.code})",
            code=fault.code,
            detail=_data(fault),
        )
        self.explain(error)
        return error

    def _auth_required(self, fault: jsonrpc.Fault) -> LaunchError:
        methods = self.negotiated.auth_methods if self.negotiated else ()
        offered = [f"{method.name} ({method.id}): {method.description}".rstrip(": ") for method in methods]
        return AuthRequired(
            f"the agent wants a login first: {fault.message}",
            fix=OWN_COMMAND,
            detail=[*(f"it offers: {' '.join(line.split())}" for line in offered), *_data(fault)],
        )

    async def read(self) -> None:
        """Pump until the agent ends; never raises for what the agent does, but fails what waits for it."""
        try:
            while chunk := await self._transport.read():
                self._heard = asyncio.get_running_loop().time()
                for line in self._framer.feed(chunk):
                    self._handle(line)
                self.held_back = True
                await self.observer.drain()
                self.held_back = False
        except LaunchError as error:
            failure = error
            self._end(lambda _: failure)
            return
        how, last_words = await self._transport.describe_end()
        self._end(lambda method: self._death(how, last_words, method))

    async def write(self) -> None:
        """Write what was queued, in order, until cancelled or the agent stops taking it."""
        try:
            while True:
                line = await self._outbox.get()
                await self._transport.write(line)
                self._unsent -= len(line)
        except TransportClosed:
            # An agent that closed its stdin is mostly ending: give the reader a moment to learn how.
            await asyncio.sleep(LAST_WORDS)
            how, last_words = "closed its stdin", ()
            self._end(lambda method: self._death(how, last_words, method))

    def _handle(self, line: bytes) -> None:
        """A bug of ours costs the event in which it shows, and nothing beside it."""
        events, is_whole = self._received(line)
        for event in events:
            try:
                self._take(event, line)
            except LaunchError:
                raise
            except Exception as error:
                self.mishaps.add(AGENT, error)
                is_whole = False
        if not is_whole:
            self._make_good(line)

    def _received(self, line: bytes) -> tuple[Sequence[Event], bool]:
        """The events of a line, and whether it could be read."""
        try:
            return self.conversation.receive(line), True
        except LaunchError:
            raise
        except Exception as error:
            self.mishaps.add(AGENT, error)
            return (), False

    def _make_good(self, line: bytes) -> None:
        """Whoever waits for what we failed to handle waits no longer."""
        number, reply = self.conversation.spoilt(line)
        if reply:
            self.reply(reply)
        method, future = self._waiting.get(-1 if number is None else number, ("", None))
        if future is not None and not future.done():
            said = f"the agent's answer to {method} was left out, by a bug in acp-launch"
            future.set_exception(LocalProtocolError(said))

    def _take(self, event: Event, line: bytes) -> None:
        if isinstance(event, Updated):
            if self._listener:
                self._listener.updated(event)
        elif isinstance(event, Answered):
            self._answer(event)
        elif isinstance(event, Junk):
            self._note_junk(event, line)
        elif isinstance(event, Reply):
            self.reply(event.line)
        else:
            self._tell(event)

    def _tell(self, event: Opened | PermissionAsked | ServiceAsked | Completed | Withdrawn) -> None:
        match self._listener, event:
            case None, _:
                return
            case listener, Opened():
                listener.opened(event)
            case listener, PermissionAsked():
                listener.asked(event)
            case listener, ServiceAsked():
                listener.service(event)
            case listener, Completed(elicitation_id):
                listener.completed(elicitation_id)
            case listener, Withdrawn():
                listener.withdrawn(event)

    def _answer(self, answer: Answered) -> None:
        _, future = self._waiting.get(answer.number, ("", None))
        if future is not None and not future.done():  # a late answer to what we gave up is fine (C-66)
            future.set_result(answer)

    def reply(self, line: bytes) -> None:
        """Send an answer to the agent.

        Raises:
            RemoteProtocolError: too many of them are unread.
        """
        if self._unsent > MAX_REPLIES:
            raise RemoteProtocolError("the agent sends requests and does not read the answers")
        self.send(line)

    def _note_junk(self, junk: Junk, line: bytes) -> None:
        if not line.strip():
            return
        if self.negotiated is None:  # banners are common; they are quoted if the handshake fails
            if len(self.noise) < 5:
                self.noise.append(excerpt(line, 200))
            return
        self._junk += 1
        if self._junk in (1, 100, 10_000):
            self.observer.note(f"the agent's stdout holds {junk.reason}; ignored ({self._junk} so far)")

    def _death(self, how: str, last_words: tuple[str, ...], method: str) -> LaunchError:
        before = f" before it answered {method}" if method else ""
        return self.blamed(AgentError(f"the agent {how}{before}", detail=last_words))

    def blamed(self, error: LaunchError) -> LaunchError:
        """The same error of an agent that ended, hung or is none, which tells first what was started."""
        if command := self._command():
            told = f"command: {command}"
            error.detail = (told, *(line for line in error.detail if line != told))
        return error

    def _end(self, error: Callable[[str], LaunchError]) -> None:
        if self._over is None:
            self._over = error
            self._is_over.set()
        for method, future in self._waiting.values():
            if not future.done():
                future.set_exception(self._over(method))


def _data(fault: jsonrpc.Fault) -> list[str]:
    return [] if fault.data is None else [f"data: {excerpt(written(fault.data), 2000)}"]


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
    """A connection that is pumped for as long as the block runs; errors come out as themselves, not in a group.

    `command` is the agent's command line, for the errors that blame it; `longer` and `budget` are for its waits.
    """
    try:
        async with asyncio.TaskGroup() as tasks:
            connection = Connection(
                transport, observer, tasks, max_line=max_line, command=command, longer=longer, budget=budget
            )
            connection.beside(connection.read())
            connection.beside(connection.write())
            try:
                yield connection
            finally:
                connection.close()
    except BaseExceptionGroup as failures:
        raise first(failures) from None


# `initialize`, alone and first: what the agent is and what it can do.


KNOB = "initialize"
ACP_MODE = "is the command right? many agents speak ACP only with a flag or as an adapter of their own"


async def negotiate(connection: Connection, *, limit: float, offers: Offers | None = None) -> Negotiated:
    """Shake hands within `limit` seconds; without `offers` the agent is offered nothing.

    Raises:
        AgentError: the agent ended, refused, or is no ACP agent: it printed text and did not answer in time.
        RemoteProtocolError: it speaks another version (C-17).
        WaitExpired: it said nothing in time.
    """
    connection.offered = offers or Offers()
    call = connection.conversation.initialize(connection.offered)
    try:
        result = await connection.call(call, what="answer to initialize from the agent", limit=limit, knob=KNOB)
        connection.negotiated = connection.conversation.negotiated(result)
    except (AgentError, WaitExpired) as error:
        raise connection.blamed(_explained(error, connection.noise)) from None
    except RemoteProtocolError as error:
        raise connection.blamed(error) from None
    connection.observer.negotiated(connection.negotiated)
    return connection.negotiated


def _explained(error: LaunchError, noise: list[str]) -> LaunchError:
    """The same error with the reason most likely behind it: a program that is not an ACP agent."""
    printed = [f"it printed: {line}" for line in noise]
    if noise and isinstance(error, WaitExpired) and not isinstance(error, RunExpired):
        return AgentError(f"this is no ACP agent: it printed text, and {error.message}", fix=ACP_MODE, detail=printed)
    error.fix = f"{ACP_MODE}; {error.fix}" if error.fix else ACP_MODE
    error.detail = (*printed, *error.detail)
    return error
