"""
The pump between a process and our side of a JSON-RPC conversation: bytes come in and go out, one message a line, and
requests of ours are futures. An agent and an MCP server are each at the other end of one.

    transport ──read──▶ lines ──receive──▶ events ──▶ answers to the futures that wait for them
                                                      replies to the queue of what is written
                                                      all others to the listener, in the order they came
    transport ◀──write── queue ◀── requests, notifications, replies

Lines are handled one after the other, inside the reader, so an answer is delivered only after what came before it
(C-10). When the other side ends, in whatever way, every open request fails at once with how it ended (C-12). A side
that does not read what it is sent blocks only itself: writing is queued.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import chain
from typing import Any, Protocol

from acp_launch.errors import LaunchError, LocalProtocolError, RemoteProtocolError, first
from acp_launch.process.child import Child
from acp_launch.protocol.conversation import Reply
from acp_launch.protocol.jsonrpc import Answered, Call, Fault, Junk, LineFramer, LineTooLong
from acp_launch.protocol.mishap import Mishaps
from acp_launch.protocol.written import written
from acp_launch.secret.redact import excerpt


class TransportClosed(Exception):  # noqa: N818 - it reads as what happened
    """Raised by `write` when the other side takes nothing any more, or we closed our side."""


class Transport(Protocol):
    """Two directions of bytes that end on their own. All that a conversation sees of a process."""

    async def read(self) -> bytes:
        """The next chunk as it comes; b"" once the other side has ended."""

    async def write(self, data: bytes) -> None:
        """Return when the other side's buffer has taken all of it. Concurrent writes queue and never mix.

        Raises:
            TransportClosed: see there.
        """

    async def close(self) -> None:
        """End our sending side; reading goes on. A second time is nothing."""

    async def describe_end(self) -> tuple[str, tuple[str, ...]]:
        """How the other side ended, as what follows a subject ("was killed by SIGKILL"), and its last stderr lines.

        Waits at most a second for the end to be known.
        """


EXIT = 1.0  # seconds between the end of a child's output and its exit status; normally microseconds


class StdioTransport:
    """A child's stdin and stdout. The child belongs to its caller, who stops it."""

    def __init__(self, child: Child) -> None:
        self._child = child

    async def read(self) -> bytes:
        return await self._child.read()

    async def write(self, data: bytes) -> None:
        try:
            await self._child.write(data)
        except BrokenPipeError as error:
            raise TransportClosed(f"nothing more can be sent: {error.strerror}") from error

    async def close(self) -> None:
        self._child.close_stdin()

    async def describe_end(self) -> tuple[str, tuple[str, ...]]:
        try:
            async with asyncio.timeout(EXIT):
                how = str(await self._child.wait())
        except TimeoutError:
            how = "closed its output but is still running"
        return how, tuple(self._child.stderr_tail())


MAX_REPLIES = 16 * 1024 * 1024  # bytes of our answers the other side may leave unread
LAST_WORDS = 1.0  # seconds for a process that closed its stdin to end, so that we can say how
FAREWELL = 0.5  # seconds for the other side to take the last we have to say
NOISE = 5  # lines that are not messages, quoted when the handshake fails
TOLD = (1, 100, 10_000)  # of those that come later, the ones that the listener is told of

OWN = frozenset({Answered, Reply, Junk})  # events that the pump handles itself

Receive = Callable[[bytes], Iterable[Any]]  # a message becomes events
Spoilt = Callable[[bytes], tuple[int | None, bytes]]  # what a message is due whose handling failed (`Peer.spoilt`)
Split = Callable[[bytes], Iterable[bytes]]  # a line becomes messages


def details(fault: Fault) -> list[str]:
    """What an error of the other side carries besides its message."""
    return [] if fault.data is None else [f"data: {excerpt(written(fault.data), 2000)}"]


class Listener(Protocol):
    """Takes what a pump does not handle itself; called in wire order, must not block."""

    def take(self, event: Any) -> None:
        """An event that is neither an answer, nor a reply, nor junk."""

    def note(self, text: str) -> None:
        """A line for the user."""

    def died(self, how: str, last_words: tuple[str, ...], method: str) -> LaunchError:
        """The error of a request `method` that is not answered any more; the method is empty where no request waits."""

    async def drain(self) -> None:
        """Return when there is room for more; nothing is read meanwhile."""


class Pump:
    """`label` names the other side in messages: "the agent"."""

    def __init__(
        self,
        transport: Transport,
        receive: Receive,
        listener: Listener,
        label: str,
        *,
        spoilt: Spoilt,
        max_line: int,
        split: Split | None = None,
    ) -> None:
        """`max_line` is in bytes. Without `split` each line is one message."""
        self.label = label
        self.is_open = False  # the handshake is done
        self.noise: list[str] = []  # the first lines that were not messages, until then
        self.mishaps = Mishaps(listener.note)  # failures of ours with what the other side said
        self._transport, self._listener, self._deliver = transport, listener, listener.take
        self._receive, self._spoilt, self._split = receive, spoilt, split
        self._framer = LineFramer(limit=max_line)
        self._clock = asyncio.get_running_loop().time
        self._heard = self._clock()
        self._waiting: dict[int, tuple[str, asyncio.Future[Answered]]] = {}
        self._outbox: asyncio.Queue[bytes] = asyncio.Queue()
        self._unsent = 0
        self._junk = 0
        self._over: Callable[[str], LaunchError] | None = None
        self._is_over = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.TaskGroup]:
        """Pump for as long as the block runs; errors come out as themselves, not in a group.

        The group is for work beside the pump, which is to end with the block.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                pumps = [tasks.create_task(self.read()), tasks.create_task(self.write())]
                try:
                    yield tasks
                finally:
                    for pump in pumps:
                        pump.cancel()
        except BaseExceptionGroup as failures:
            raise first(failures) from None

    def heard(self) -> float:
        """Loop time of the last sign of life."""
        return self._heard

    def send(self, line: bytes) -> None:
        """Queue a line; b"" is nothing."""
        if line:
            self._unsent += len(line)
            self._outbox.put_nowait(line)

    def reply(self, line: bytes) -> None:
        """Queue an answer to the other side.

        Raises:
            RemoteProtocolError: too many of them are unread.
        """
        if self._unsent > MAX_REPLIES:
            raise RemoteProtocolError(f"{self.label} sends requests and does not read the answers")
        self.send(line)

    async def flush(self) -> None:
        """Return when everything that was sent is in the pipe: what a server still waits for keeps it from ending."""
        with suppress(TimeoutError):  # it does not read; it will be stopped all the same
            async with asyncio.timeout(FAREWELL):
                await self._outbox.join()

    @contextmanager
    def asking(self, call: Call) -> Iterator["asyncio.Future[Answered]"]:
        """Send a request; its answer is waited for within the block, and ignored when it comes later (C-66).

        Raises:
            LaunchError: the other side has ended.
        """
        if self._over:
            raise self._over(call.method)
        future: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._waiting[call.number] = (call.method, future)
        self.send(call.line)
        try:
            yield future
        finally:
            self._waiting.pop(call.number, None)

    async def over(self) -> LaunchError:
        """Wait for the end of the other side, and return how it ended."""
        await self._is_over.wait()
        assert self._over is not None
        return self._over("")

    async def read(self) -> None:
        """Pump until the other side ends. What it does wrong is not raised, but fails what waits for it."""
        try:
            await self._read()
        except LineTooLong as error:
            self._end_with(
                RemoteProtocolError(
                    f"{self.label} sent {error}",
                    fix=f"if {self.label} is right, raise the cap: ACP_LAUNCH_MAX_LINE=<bytes>",
                )
            )
        except LaunchError as error:
            self._end_with(error)
        else:
            how, last_words = await self._transport.describe_end()
            self._end(lambda method: self._listener.died(how, last_words, method))

    async def _read(self) -> None:
        split = self._split
        while chunk := await self._transport.read():
            self._heard = self._clock()
            lines = self._framer.feed(chunk)
            for message in lines if split is None else chain.from_iterable(map(split, lines)):
                self._handle(message)
            await self._listener.drain()

    async def write(self) -> None:
        """Write what was queued, in order, until cancelled or the other side stops taking it."""
        try:
            while True:
                line = await self._outbox.get()
                await self._transport.write(line)
                self._unsent -= len(line)
                self._outbox.task_done()
        except TransportClosed:
            # A process that closed its stdin is mostly ending: give the reader a moment to learn how.
            await asyncio.sleep(LAST_WORDS)
            self._end(lambda method: self._listener.died("closed its stdin", (), method))

    def _handle(self, line: bytes) -> None:
        """Handle a message. A bug of ours costs the event in which it shows, and nothing beside it."""
        is_whole = True
        try:
            for event in self._receive(line):
                try:
                    if type(event) in OWN:
                        self._take(event, line)
                    else:
                        self._deliver(event)
                except LaunchError:
                    raise
                except Exception as error:
                    self.mishaps.add(self.label, error)
                    is_whole = False
        except LaunchError:
            raise
        except Exception as error:
            self.mishaps.add(self.label, error)
            is_whole = False
        if not is_whole:
            self._make_good(line)

    def _take(self, event: Answered | Reply | Junk, line: bytes) -> None:
        if isinstance(event, Answered):
            self._answer(event)
        elif isinstance(event, Reply):
            self.reply(event.line)
        else:
            self._note_junk(event, line)

    def _make_good(self, line: bytes) -> None:
        """Answer, or fail, what waits for a message that we failed to handle."""
        number, reply = self._spoilt(line)
        if reply:
            self.reply(reply)
        method, future = self._waiting.get(-1 if number is None else number, ("", None))
        if future is not None and not future.done():
            said = f"the answer of {self.label} to {method} was left out, by a bug in acp-launch"
            future.set_exception(LocalProtocolError(said))

    def _answer(self, answer: Answered) -> None:
        _, future = self._waiting.get(answer.number, ("", None))
        if future is not None and not future.done():  # a late answer to what we gave up is fine (C-66)
            future.set_result(answer)

    def _note_junk(self, junk: Junk, line: bytes) -> None:
        if not line.strip():
            return
        if not self.is_open:  # banners are common; they are quoted if the handshake fails
            self.noise += [excerpt(line, 200)] if len(self.noise) < NOISE else []
            return
        self._junk += 1
        if self._junk in TOLD:
            self._listener.note(f"the stdout of {self.label} holds {junk.reason}; ignored ({self._junk} so far)")

    def _end_with(self, error: LaunchError) -> None:
        self._end(lambda method: error)

    def _end(self, error: Callable[[str], LaunchError]) -> None:
        if self._over is None:
            self._over = error
            self._is_over.set()
        for method, future in self._waiting.values():
            if not future.done():
                future.set_exception(self._over(method))
