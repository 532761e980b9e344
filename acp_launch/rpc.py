"""
The pump between a process and our side of a JSON-RPC conversation: one message per line, and our requests are futures.
An agent and an MCP server each have one.

    transport ──read──▶ lines ──receive──▶ events ──▶ answers to the futures that wait for them
                                                      replies to the queue of lines to write
                                                      all others to the listener, in the order they came
    transport ◀──write── queue ◀── requests, notifications, replies

The reader handles lines one after the other, so an answer is delivered only after the messages before it (C-10). When
the other side ends, every open request fails at once with the way it ended (C-12). Writing is queued, so a side that
does not read blocks only itself.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, cast

from acp_launch.errors import LaunchError, LocalProtocolError, RemoteProtocolError, first
from acp_launch.protocol.conversation import Reply
from acp_launch.protocol.jsonrpc import Answered, Call, Envelope, Fault, Junk, LineFramer, LineTooLong, Mishaps
from acp_launch.protocol.splice import written
from acp_launch.secret.redact import excerpt
from acp_launch.waits import first_of, stretch

if TYPE_CHECKING:  # a front of a host has no process
    from acp_launch.process.child import Child
    from acp_launch.process.program import Lines, Running


class TransportClosed(Exception):  # noqa: N818 - it reads as what happened
    """Raised by `write` when the other side has closed its input."""


class Transport(Protocol):
    """Two directions of bytes that end independently; the part of a process that a conversation uses."""

    async def read(self) -> bytes:
        """Return the next chunk; b"" after the other side has ended."""

    async def write(self, data: bytes) -> None:
        """Return when the other side's buffer has taken all the data. Concurrent writes queue and never mix.

        Raises:
            TransportClosed: the other side has closed its input.
        """

    async def describe_end(self) -> tuple[str, tuple[str, ...]]:
        """Return how the other side ended, as a verb phrase ("was killed by SIGKILL"), and its last stderr lines.

        Waits at most a second for its end.
        """


END_TIMEOUT = stretch(1.0)  # for how a remote server has ended


class StdioTransport:
    """A child's stdin and stdout. The child belongs to its caller, who stops it."""

    def __init__(self, child: "Child") -> None:
        self._child = child

    async def read(self) -> bytes:
        return await self._child.read()

    async def write(self, data: bytes) -> None:
        try:
            await self._child.write(data)
        except BrokenPipeError as error:
            raise TransportClosed(f"nothing more can be sent: {error.strerror}") from error

    async def describe_end(self) -> tuple[str, tuple[str, ...]]:
        return await self._child.describe_end()


class RemoteTransport:
    """The messages of a remote server, whose connection belongs to its caller."""

    def __init__(self, remote: "Running", lines: "Lines") -> None:
        self._remote, self._lines = remote, lines
        self._heard: list[bytes] = []
        self._news, self._room = asyncio.Event(), asyncio.Event()
        lines.listen(self._hear, self._room.set)

    def _hear(self, line: bytes, message: Envelope | None) -> None:
        self._heard.append(line)
        self._news.set()

    async def read(self) -> bytes:
        """Return the messages that have come, each with its newline; b"" once the connection has ended."""
        while not self._heard and self._remote.end is None:
            self._news.clear()
            await first_of(self._news.wait(), self._remote.wait())
        heard, self._heard = self._heard, []
        return b"\n".join([*heard, b""]) if heard else b""

    async def write(self, data: bytes) -> None:
        """Send whole messages."""
        self._lines.send(data)
        while self._lines.is_full and self._remote.end is None:
            self._room.clear()
            await first_of(self._room.wait(), self._remote.wait())

    async def describe_end(self) -> tuple[str, tuple[str, ...]]:
        with suppress(TimeoutError):
            async with asyncio.timeout(END_TIMEOUT):
                await self._remote.wait()
        end = self._remote.end
        how = "; ".join(filter(None, (end.how, end.reason))) if end else "has closed the connection"
        return how, tuple(self._remote.stderr_tail())


def transport(child: "Running") -> Transport:
    """Return the transport of a process, or of a remote server."""
    if (lines := child.lines) is not None:
        return RemoteTransport(child, lines)
    return StdioTransport(cast("Child", child))


class Trace(Protocol):
    """The trace of a launch (`acp_launch.trace`), as far as a connection needs it."""

    def connected(self, child: "Running", server: str = "") -> AbstractContextManager[Transport]:
        """Connect as `connected`, and trace it."""


@contextmanager
def connected(child: "Running", trace: Trace | None = None, server: str = "") -> Iterator[Transport]:
    """Connect to an agent, or to a server if one is named; the child is stopped within the block."""
    if trace is None:
        yield transport(child)
        return
    with trace.connected(child, server) as traced:
        yield traced


MAX_REPLIES = 16 * 1024 * 1024  # bytes of our answers that the other side may leave unread
EXIT_STATUS_TIMEOUT = stretch(1.0)  # for a process that closed its stdin to exit, so that we can report how
FLUSH_TIMEOUT = stretch(0.5)  # for the other side to take our last lines
NOISE = 5  # lines that are not messages, quoted if the handshake fails

OWN = frozenset({Answered, Reply, Junk})  # events that the pump handles itself

Deliver = Callable[[Answered | LaunchError], None]
Receive = Callable[[bytes], Iterable[Any]]  # a message becomes events
Recover = Callable[[bytes], tuple[int | None, bytes]]  # what a message we failed to handle needs (`Peer.recover`)
Split = Callable[[bytes], Iterable[bytes]]  # a line becomes messages


def details(fault: Fault) -> list[str]:
    """Return the data of an error as detail lines."""
    return [] if fault.data is None else [f"data: {excerpt(written(fault.data), 2000)}"]


class Listener(Protocol):
    """Receives the events that a pump does not handle itself, in wire order; must not block."""

    def on_event(self, event: Any) -> None:
        """Take an event that is neither an answer, nor a reply, nor junk."""

    def note(self, text: str) -> None:
        """Show a line to the user."""

    def died(self, how: str, last_words: tuple[str, ...], method: str) -> LaunchError:
        """Return the error of a request `method` that the other side's end left open; "" if no request waits."""

    async def drain(self) -> None:
        """Return when there is room for more; nothing is read until then."""


class Pump:
    """Connects a transport and a conversation. `label` names the other side in messages: "the agent"."""

    def __init__(
        self,
        transport: Transport,
        receive: Receive,
        listener: Listener,
        label: str,
        *,
        recover: Recover,
        max_line: int,
        split: Split | None = None,
    ) -> None:
        """`max_line` is in bytes. Without `split` each line is one message."""
        self.label = label
        self.is_open = False  # the handshake is done
        self.noise: list[str] = []  # the first lines that were not messages, before the handshake is done
        self.mishaps = Mishaps(listener.note)  # our own failures to handle a message
        self._transport, self._listener, self._deliver = transport, listener, listener.on_event
        self._receive, self._recover, self._split = receive, recover, split
        self._framer = LineFramer(limit=max_line)
        self._clock = asyncio.get_running_loop().time
        self._heard = self._clock()
        self._waiting: dict[int, tuple[str, Deliver]] = {}
        self.written: Callable[[], None] = lambda: None  # hears that the other side has taken something
        # Takes a chunk and its lines, and gives those of them that are to be handled here.
        self.line_filter: Callable[[bytes, Iterable[bytes]], Iterable[bytes]] | None = None
        self._outbox: asyncio.Queue[bytes] = asyncio.Queue()
        self.unsent = 0  # bytes that wait for the other side to take them
        self._over: Callable[[str], LaunchError] | None = None
        self._is_over = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.TaskGroup]:
        """Pump while the block runs; errors are raised as themselves, not in a group.

        The yielded group is for tasks that run next to the pump and end with the block.
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
        """Return the loop time of the last received bytes."""
        return self._heard

    def send(self, line: bytes) -> None:
        """Queue a line; b"" is ignored."""
        if line:
            self.unsent += len(line)
            self._outbox.put_nowait(line)

    def reply(self, line: bytes) -> None:
        """Queue an answer to the other side.

        Raises:
            RemoteProtocolError: too many of them are unread.
        """
        if self.unsent > MAX_REPLIES:
            raise RemoteProtocolError(f"{self.label} sends requests and does not read the answers")
        self.send(line)

    async def flush(self) -> None:
        """Return when all queued lines are in the pipe; a server that waits for one of them would not end."""
        with suppress(TimeoutError):  # the other side does not read; it will be stopped all the same
            async with asyncio.timeout(FLUSH_TIMEOUT):
                await self._outbox.join()

    @contextmanager
    def asking(self, call: Call) -> Iterator["asyncio.Future[Answered]"]:
        """Send a request. The answer is delivered within the block, and ignored if it comes later (C-66).

        Raises:
            LaunchError: the other side has ended.
        """
        if self._over:
            raise self._over(call.method)
        future: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self.ask(call, partial(_set, future))
        try:
            yield future
        finally:
            self._waiting.pop(call.number, None)

    def ask(self, call: Call, deliver: Deliver) -> None:
        """Send a request; `deliver` gets its answer in the order of all messages, or the error that stands for it."""
        self._waiting[call.number] = (call.method, deliver)
        self.send(call.line)

    async def over(self) -> LaunchError:
        """Wait for the end of the other side, and return how it ended."""
        await self._is_over.wait()
        assert self._over is not None
        return self._over("")

    async def read(self) -> None:
        """Read until the other side ends. A protocol error is not raised, but fails the open requests."""
        try:
            split = self._split
            while chunk := await self._transport.read():
                self._heard = self._clock()
                lines: Iterable[bytes] = self._framer.feed(chunk)
                if self.line_filter is not None:
                    lines = self.line_filter(chunk, lines)
                for message in lines if split is None else chain.from_iterable(map(split, lines)):
                    self._handle(message)
                await self._listener.drain()
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

    async def write(self) -> None:
        """Write queued lines in order, until cancelled or the other side closes its input."""
        try:
            while True:
                line = await self._outbox.get()
                await self._transport.write(line)
                self.unsent -= len(line)
                self._outbox.task_done()
                self.written()
        except TransportClosed:
            # A process that closed its stdin is usually ending, so give the reader a moment to learn how.
            await asyncio.sleep(EXIT_STATUS_TIMEOUT)
            self._end(lambda method: self._listener.died("closed its stdin", (), method))

    def _handle(self, line: bytes) -> None:
        """Handle a message. Our bug affects only the event in which it shows."""
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
            number, reply = self._recover(line)
            if reply:
                self.reply(reply)
            method, deliver = self._waiting.pop(-1 if number is None else number, ("", None))
            if deliver is not None:
                said = f"the answer of {self.label} to {method} was left out, by a bug in acp-launch"
                deliver(LocalProtocolError(said))

    def _take(self, event: Answered | Reply | Junk, line: bytes) -> None:
        if isinstance(event, Answered):
            _, deliver = self._waiting.pop(event.number, ("", None))
            if deliver is not None:  # a late answer to an abandoned request is allowed (C-66)
                deliver(event)
        elif isinstance(event, Reply):
            self.reply(event.line)
        else:
            if not line.strip():
                return
            if not self.is_open:  # banners are common, and quoted only if the handshake fails
                self.noise += [excerpt(line, 200)] if len(self.noise) < NOISE else []
                return
            self.mishaps.add_junk(f"the stdout of {self.label}", event.reason)

    def _end_with(self, error: LaunchError) -> None:
        self._end(lambda method: error)

    def _end(self, error: Callable[[str], LaunchError]) -> None:
        if self._over is None:
            self._over = error
            self._is_over.set()
        waiting, self._waiting = self._waiting, {}
        for method, deliver in waiting.values():
            deliver(self._over(method))


def _set(future: "asyncio.Future[Answered]", answer: Answered | LaunchError) -> None:
    if future.done():
        return
    if isinstance(answer, LaunchError):
        future.set_exception(answer)
    else:
        future.set_result(answer)
