"""
The pump between a server's process and our side of the conversation: one reader, one writer, requests as futures.

When the server ends, in whatever way, every open request fails at once with how it ended and its last words. A server
that does not read what it is sent blocks nobody but itself: writing is queued, and every wait has its deadline.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Protocol, TypeVar

from msgspec import Raw

from acp_launch.errors import (
    LaunchError,
    LocalProtocolError,
    RemoteProtocolError,
    ServerError,
    ServerRefused,
    WaitExpired,
)
from acp_launch.mcp.client import Client, Event, Reply
from acp_launch.mcp.message import Progress, Said
from acp_launch.process.child import Child
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.framing import LineFramer, LineTooLong
from acp_launch.protocol.mishap import Mishaps
from acp_launch.protocol.peer import Answered, Call, Junk
from acp_launch.protocol.written import written
from acp_launch.secret.redact import excerpt

FLOOD = 1024 * 1024  # bytes on stdout without a message among them
MAX_REPLIES = 16 * 1024 * 1024  # bytes of our answers a server may leave unread
LAST_WORDS = 1.0  # seconds for a server that closed a pipe to end, so that we can say how
FAREWELL = 0.5  # seconds for it to take the last we have to say
NOISE = 5  # lines that are no messages, quoted when the handshake fails
T = TypeVar("T")


class Listener(Protocol):
    """Whoever shows what a server tells besides its answers; must not block."""

    def progress(self, progress: Progress) -> None: ...
    def said(self, said: Said) -> None: ...
    def note(self, text: str) -> None: ...


class Awaited(Protocol):
    """A wait that says a word when it takes long (`session.waits.awaited`); `limit` is in seconds."""

    async def __call__(
        self, future: asyncio.Future[T], *, what: str, limit: float, since: Callable[[], float] | None = None
    ) -> T: ...


class Connection:
    def __init__(self, name: str, child: Child, client: Client, listener: Listener, awaited: Awaited) -> None:
        self.name = name
        self.label = f'the MCP server "{name}"'
        self.client = client
        self.is_open = False
        self.noise: list[str] = []
        self._child = child
        self._listener = listener
        self._awaited = awaited
        self._clock = asyncio.get_running_loop().time
        self._waiting: dict[int, tuple[str, asyncio.Future[Answered]]] = {}
        self._over: Callable[[str], LaunchError] | None = None
        self._outbox: asyncio.Queue[bytes] = asyncio.Queue()
        self._unsent = 0
        self._junk = 0
        self._junk_bytes = 0  # since its last message
        self._progressed = self._opened = self._clock()
        self._asked_for_roots = asyncio.Event()
        self._mishaps = Mishaps(listener.note)

    def opened(self) -> None:
        """The handshake is behind us."""
        self.is_open = True
        self._opened = self._clock()

    async def roots_asked(self, *, within: float) -> int:
        """How often the server has asked for the roots; it has `within` seconds from the handshake to begin."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._opened + within):
                await self._asked_for_roots.wait()
        return self.client.roots_asked

    def progressed(self) -> float:
        """Loop time of the last request or progress."""
        return self._progressed

    def send(self, line: bytes) -> None:
        self._unsent += len(line)
        self._outbox.put_nowait(line)

    async def ask(
        self, call: Call, *, what: str, limit: float, knob: str, since: Callable[[], float] | None = None
    ) -> Raw:
        """Send a request and wait for its answer; `knob` names what makes the wait longer.

        Given up, or cancelled, the server is told so (never of `initialize`; MCP "cancellation").

        Raises:
            ServerError: it ended first.
            ServerRefused: it answered with an error.
            RemoteProtocolError: it broke the protocol.
            WaitExpired: it did not answer in time.
        """
        if self._over:
            raise self._over(call.method)
        self._progressed = self._clock()
        future: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._waiting[call.number] = (call.method, future)
        self.send(call.line)
        try:
            named = f"{what} from {self.label}"
            answer = await self._awaited(future, what=named, limit=limit, since=since)
        except WaitExpired as error:
            error.fix = f"if it needs longer: {knob}"
            await self._withdraw(call, "it took too long")
            raise
        except asyncio.CancelledError:
            await self._withdraw(call, "the user stopped it")
            raise
        finally:
            del self._waiting[call.number]
        if answer.fault is not None:
            raise self._refused(call.method, answer.fault)
        return answer.result

    async def read(self, *, max_line: int) -> None:
        """Pump until the server ends; what it does wrong fails whatever waits for it."""
        framer = LineFramer(limit=max_line)
        try:
            while chunk := await self._child.read():
                for line in framer.feed(chunk):
                    self._take(line)
        except LineTooLong as error:
            self._end(self._too_long(error))
        except LaunchError as error:
            self._end(error)
        else:
            how = await self._how()
            self._end(lambda method: self._death(how, method))

    async def write(self) -> None:
        """Write what was queued, in order, until cancelled or the server stops taking it."""
        try:
            while True:
                line = await self._outbox.get()
                await self._child.write(line)
                self._unsent -= len(line)
                self._outbox.task_done()
        except BrokenPipeError:
            await asyncio.sleep(LAST_WORDS)  # mostly it is ending, and the reader learns how
            self._end(lambda method: self._death("closed its stdin", method))

    def _take(self, line: bytes) -> None:
        try:
            self._handle(line)
        except LaunchError:
            raise
        except Exception as error:
            self._mishaps.add(self.label, error)
            self._make_good(line)

    def _make_good(self, line: bytes) -> None:
        """Whoever waits for what we failed to handle waits no longer."""
        for number, reply in self.client.spoilt(line):
            if reply:
                self._reply(reply)
            method, future = self._waiting.get(-1 if number is None else number, ("", None))
            if future is not None and not future.done():
                said = f"the answer of {self.label} to {method} was left out, by a bug in acp-launch"
                future.set_exception(LocalProtocolError(said))

    def _handle(self, line: bytes) -> None:
        for event in self.client.receive(line):
            if not isinstance(event, Junk):
                self._junk_bytes = 0
            if isinstance(event, Answered):
                self._answer(event)
            elif isinstance(event, Reply):
                self._reply(event.line)
            else:
                self._tell(event, line)

    def _tell(self, event: Event, line: bytes) -> None:
        if isinstance(event, Junk):
            self._note_junk(event, line)
        elif isinstance(event, Progress):
            self._progressed = self._clock()
            self._listener.progress(event)
        elif isinstance(event, Said):
            self._listener.said(event)

    def _answer(self, answer: Answered) -> None:
        _, future = self._waiting.get(answer.number, ("", None))
        if future is not None and not future.done():  # an answer to what we gave up may come late
            future.set_result(answer)

    def _reply(self, line: bytes) -> None:
        if self._unsent > MAX_REPLIES:
            raise RemoteProtocolError(f"{self.label} sends requests and does not read the answers")
        self.send(line)
        if self.client.roots_asked:
            self._asked_for_roots.set()

    def _note_junk(self, junk: Junk, line: bytes) -> None:
        """
        Raises:
            RemoteProtocolError: there is nothing else on its stdout, and no end of it.
        """
        self._junk_bytes += len(line) + 1
        if self._junk_bytes > FLOOD:
            raise RemoteProtocolError(
                f"{self.label} floods its stdout with lines that are no messages",
                fix="is the command right? some servers speak MCP on stdio only with a flag or a subcommand",
            )
        if not line.strip():
            return
        if not self.is_open:  # banners are common; they are quoted if the handshake fails
            self.noise += [excerpt(line, 200)] if len(self.noise) < NOISE else []
            return
        self._junk += 1
        if self._junk in (1, 100, 10_000):
            self._listener.note(f"the stdout of {self.label} holds {junk.reason}; ignored ({self._junk} so far)")

    async def _withdraw(self, call: Call, reason: str) -> None:
        if call.method == "initialize":
            return
        self.send(self.client.cancelled(call.number, reason))
        await self.flush()

    async def flush(self) -> None:
        """Until everything that was sent is in the pipe: what a server still waits for keeps it from ending."""
        with suppress(TimeoutError):  # it does not read; it will be stopped all the same
            async with asyncio.timeout(FAREWELL):
                await self._outbox.join()

    async def _how(self) -> str:
        try:
            async with asyncio.timeout(LAST_WORDS):
                return str(await self._child.wait())
        except TimeoutError:
            return "closed its output but is still running"

    def _death(self, how: str, method: str) -> LaunchError:
        return ServerError(f"{self.label} {how} before it answered {method}")

    def _refused(self, method: str, fault: jsonrpc.Fault) -> ServerRefused:
        detail = [] if fault.data is None else [f"data: {excerpt(written(fault.data), 2000)}"]
        said = f"{self.label} answered {method} with an error: {fault.message} ({fault.code})"
        return ServerRefused(said, code=fault.code, detail=detail)

    def _too_long(self, error: LineTooLong) -> LaunchError:
        return RemoteProtocolError(
            error.message.replace("the agent", self.label), fix=error.fix.replace("agent", "server")
        )

    def _end(self, error: "LaunchError | Callable[[str], LaunchError]") -> None:
        failed = error if callable(error) else lambda method: error
        self._over = self._over or failed
        for method, future in self._waiting.values():
            if not future.done():
                future.set_exception(self._over(method))


@asynccontextmanager
async def connect(
    name: str, child: Child, client: Client, listener: Listener, awaited: Awaited, *, max_line: int
) -> AsyncIterator[Connection]:
    """A connection that is pumped for as long as the block runs; errors come out as themselves, not in a group."""
    try:
        async with asyncio.TaskGroup() as tasks:
            connection = Connection(name, child, client, listener, awaited)
            pumps = [tasks.create_task(connection.read(max_line=max_line)), tasks.create_task(connection.write())]
            try:
                yield connection
                await connection.flush()
            finally:
                for pump in pumps:
                    pump.cancel()
    except BaseExceptionGroup as failures:
        raise _first(failures) from None


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """What the body raised, before anything that followed from it."""
    failure: BaseException = failures
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return failure
