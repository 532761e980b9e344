"""
A remote MCP server behind the interface of a process: messages on one side, HTTP on the other.

`RemoteProgram.begin` imports this module, with aiohttp, and gives a `Remote`, which a supervisor uses like a child, and
a relay like the link to one. The connection in `http` decides; this module makes its requests.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import zip_longest
from types import SimpleNamespace
from typing import Any, Literal

from yarl import URL

from acp_launch.http import REQUEST_ERRORS, SetUp, aiohttp, make_client
from acp_launch.mcp.http.clients import failure
from acp_launch.mcp.http.connection import RemoteConnection
from acp_launch.mcp.http.site import Endpoint
from acp_launch.mcp.http.wire import (
    DELETE_TIMEOUT,
    Credentials,
    Era,
    Failure,
    Headers,
    HttpRequest,
    Limits,
    NoToken,
    RemoteFacts,
    RemoteMemory,
    joined,
    origin,
    read_challenges,
)
from acp_launch.process.child import Tail
from acp_launch.process.lifecycle import Ended
from acp_launch.process.tree import Exit, StopOutcome
from acp_launch.protocol.jsonrpc import Envelope, Mishaps
from acp_launch.secret.redact import redactor
from acp_launch.waits import stretch

LEAVE_TIMEOUT = stretch(1.0)  # for cancelled requests to close their connections
WATCH_SECONDS = 5.0  # between two looks at the clocks


def _do_nothing(*arguments: object) -> None:
    """Stand in where nobody listens."""


class HttpResponse(aiohttp.ClientResponse):
    """An answer. `tls` is the version ("TLSv1.3") of the connection it comes by; empty without encryption."""

    tls = ""

    async def start(self, connection: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        secured = connection.transport and connection.transport.get_extra_info("ssl_object")
        self.tls = secured.version() if secured else ""
        return await super().start(connection)


class Remote:
    """A connection to a remote server at work. Only `RemoteProgram.begin` creates one."""

    def __init__(
        self,
        site: Endpoint,
        memory: RemoteMemory,
        limits: Limits,
        credentials: Credentials | None,
        log: Callable[[bytes], None] | None,
    ) -> None:
        self.hurry = asyncio.Event()
        self._site, self._memory, self._limits, self._credentials = site, memory, limits, credentials
        self._log, self._tail = log, Tail()
        self._loop = asyncio.get_running_loop()
        self._connection = RemoteConnection(site, self, known=memory.era, limits=limits)
        self._connection.refusal = credentials.refusal if credentials is not None else None
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._closed: set[asyncio.Task[None]] = set()  # cancelled, and not over yet
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._ticking: asyncio.TimerHandle | None = None
        self._ended = asyncio.Event()
        self.end: Ended | None = None
        self.tls = ""  # the version of TLS ("TLSv1.3") of the first answer; empty without encryption
        self._line: Callable[[bytes, Envelope | None], None] | None = None  # gets the server's messages
        self._room: Callable[[], None] = _do_nothing
        self._on_burst: Callable[[bool], None] = _do_nothing
        self._may_read = asyncio.Event()  # set: whoever listens takes more
        self._queue: deque[tuple[bytes, Envelope | None]] = deque()  # messages that were sent during a step
        self._turn: Literal["", "sends", "reads"] = ""  # the step under way
        self._was_full = False
        self._stopping: asyncio.Task[StopOutcome] | None = None
        self._client: aiohttp.ClientSession | None = None
        self._is_answered = False
        self._mishaps = Mishaps(self.note)

    # The interface of a process.

    @property
    def pid(self) -> None:
        return None

    @property
    def lines(self) -> "Remote":
        return self

    @property
    def is_dead(self) -> bool:
        return self.end is not None

    @property
    def era(self) -> Era:
        """The era of the server, as far as it is known."""
        return self._connection.era

    def facts(self, era: str) -> RemoteFacts:
        """Return the state of the connection; `era` is its server's if it is not known here."""
        return RemoteFacts(self._site.type, self.era or era, self._connection.has_session, self.tls)

    @property
    def unsent(self) -> Sequence[bytes]:
        """Return the lines that certainly had no effect, in order. To be called once the connection has ended."""
        return tuple(self._connection.unsent)

    async def wait(self) -> Ended:
        await self._ended.wait()
        assert self.end is not None
        return self.end

    def stderr_tail(self) -> list[str]:
        return self._tail.lines()

    async def stop(self, *, grace: float) -> StopOutcome:
        """End the session, if there is one, and the connection."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop(grace))
        return await asyncio.shield(self._stopping)

    def open(self) -> None:
        self._connection.begin()
        self._tick()

    async def leave(self) -> None:
        """Close everything at once."""
        self._connection.stop(Ended("was disconnected", is_clean=True))
        if self._ticking is not None:
            self._ticking.cancel()
        for number in list(self._timers):
            self._timers.pop(number).cancel()
        ending: list[asyncio.Task[Any]] = [*self._tasks.values(), *self._closed]
        ending += [self._stopping] if self._stopping is not None else []
        for task in ending:
            task.cancel()
        self._line = None
        if ending:
            await asyncio.wait(ending, timeout=LEAVE_TIMEOUT)
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_TIMEOUT):
                if self._client is not None:
                    await self._client.close()
        if self._credentials is not None:
            await self._credentials.leave()

    async def _stop(self, grace: float) -> StopOutcome:
        if not self.hurry.is_set() and self._connection.leave():
            until = self._loop.time() + min(grace, DELETE_TIMEOUT)
            while self._connection.is_leaving and (left := until - self._loop.time()) > 0 and not self.hurry.is_set():
                waits = [*self._tasks.values(), asyncio.ensure_future(self.hurry.wait())]
                await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                waits[-1].cancel()
        self._connection.stop(Ended("was disconnected", is_clean=True))
        return StopOutcome(Exit(0, None), (), ())

    # The face of a link.

    def listen(
        self,
        line: Callable[[bytes, Envelope | None], None],
        on_drained: Callable[[], None] = _do_nothing,
        on_burst: Callable[[bool], None] = _do_nothing,
    ) -> None:
        self._line, self._room, self._on_burst = line, on_drained, on_burst
        self._may_read.set()

    @property
    def is_full(self) -> bool:
        return self._connection.is_full

    @property
    def held(self) -> int:
        return self._connection.held

    @property
    def is_paused(self) -> bool:
        return not self._may_read.is_set()

    def send(self, line: bytes, messages: Sequence[Envelope] = ()) -> None:
        self._queue += [pair for pair in zip_longest(line.split(b"\n"), messages) if pair[0]]
        if not self._turn:
            self._step(self._send_queued, turn="sends")

    def cork(self) -> None:
        """Do nothing: each message is a request of its own."""

    def uncork(self) -> None:
        """Do nothing."""

    def pause(self) -> None:
        self._may_read.clear()

    def resume(self) -> None:
        self._may_read.set()

    def close(self) -> None:
        self._line = None
        self._may_read.set()

    def _send_queued(self) -> None:
        while self._queue:
            self._run(self._connection.send, *self._queue.popleft())

    def _step(self, step: "Callable[..., None]", *arguments: Any, turn: Literal["sends", "reads"] = "reads") -> None:
        """Let the connection take a step, and send what was to be sent during it: it is never entered twice."""
        self._turn = turn
        self._run(step, *arguments)
        self._send_queued()
        self._turn = ""
        was_full, self._was_full = self._was_full, self._connection.is_full
        if was_full and not self._was_full:
            self._room()

    def _run(self, step: "Callable[..., None]", *arguments: Any) -> None:
        """Run a step. Our failure costs that step only."""
        try:
            step(*arguments)
        except Exception as error:
            self._mishaps.add(f"the MCP server {self._site.name}", error)

    # Ports of the connection.

    def receive(self, line: bytes, message: Envelope | None = None) -> None:
        if self._turn == "sends":  # the sender is not ready for what it brings
            self._loop.call_soon(self.receive, line, message)
        elif self._line is not None:
            self._line(line, message)

    def request(self, request: HttpRequest) -> None:
        task = self._loop.create_task(self._ask(request))
        self._tasks[request.stream] = task
        task.add_done_callback(partial(self._is_done, request.stream))

    def drop(self, stream: int) -> None:
        if (timer := self._timers.pop(stream, None)) is not None:
            timer.cancel()
        task = self._tasks.pop(stream, None)
        if task is not None and task is not asyncio.current_task(self._loop):
            task.cancel()
            self._closed.add(task)

    def timer(self, stream: int, after: float) -> None:
        if (timer := self._timers.pop(stream, None)) is not None:
            timer.cancel()
        self._timers[stream] = self._loop.call_later(after, self._ring, stream)

    def _ring(self, stream: int) -> None:
        self._timers.pop(stream, None)
        self._step(self._connection.on_timer, stream)

    def note_end(self, ended: Ended) -> None:
        self.end = ended
        self._memory.is_proven |= self._connection.is_met
        self._ended.set()

    def note(self, text: str) -> None:
        line = redactor.text(f"acp-launch: {text}\n").encode(errors="replace")
        self._tail.feed(line)
        if self._log is not None:
            self._log(line)

    def remember_era(self, era: Era) -> None:
        self._memory.era = era

    def now(self) -> float:
        return self._loop.time()

    # The requests.

    async def _ask(self, request: HttpRequest) -> None:
        """Make one request, and tell the connection what comes of it, until it has enough."""
        connection, stream = self._connection, request.stream
        try:
            if self._client is None:
                sent = aiohttp.TraceConfig()
                sent.on_request_headers_sent.append(self._note_sent)
                connect = self._limits.connect
                self._client = make_client(
                    request.url, is_own=True, connect=connect, traces=[sent], response_class=HttpResponse
                )
            client = self._client
            response, fix = await self._send_authorized(client, request)
        except aiohttp.ServerTimeoutError as error:  # of a connection; it is a TimeoutError, too
            self._step(connection.fail, stream, self._failure(error))
            return
        except TimeoutError:
            late = Failure(f"did not answer within {request.patience:g} s", timed_out=True)
            self._step(connection.fail, stream, late)
            return
        except Exception as error:
            self._step(connection.fail, stream, self._failure(error))
            return
        try:
            await self._read(response, stream, fix)
        finally:
            response.release()

    async def _send_authorized(self, client: aiohttp.ClientSession, request: HttpRequest) -> tuple[HttpResponse, str]:
        """Send a request with its credentials, if there are any; once more with others if they are refused.

        Return its answer, and what the user can do about it if that is a refusal.
        """
        credentials = self._credentials
        url = self._site.url
        if credentials is None or (request.url != url and origin(request.url) != origin(url)):
            return await self._send(client, request, {}), ""
        headers = await credentials.headers()
        response = await self._send(client, request, headers)
        if response.status == 401 and (headers or credentials.has_news):
            response.release()
            headers = await credentials.headers(headers)
            response = await self._send(client, request, headers)
        self._connection.refusal = credentials.refusal
        if response.status == 403 or (response.status == 401 and not headers):
            said = read_challenges(joined(response.headers.items()).get("www-authenticate", ""))
            return response, await credentials.note_challenge(said)
        return response, ""

    async def _send(self, client: aiohttp.ClientSession, request: HttpRequest, headers: Headers) -> HttpResponse:
        """Send a request; return its answer as soon as it begins."""
        sent = {**request.headers, **{name: value.expose() for name, value in headers.items()}}
        async with asyncio.timeout(request.patience):
            response = await client.request(
                request.method,
                URL(request.url, encoded=request.url.isascii()),
                headers=sent,
                data=request.body if request.method == "POST" else None,
                allow_redirects=False,
                trace_request_ctx=request.stream,
            )
        assert isinstance(response, HttpResponse)
        if not self._is_answered:
            self._is_answered, self.tls = True, response.tls
        return response

    async def _note_sent(self, client: object, about: SimpleNamespace, sent: object) -> None:
        """Note that a request has a connection, before its first byte is sent."""
        self._connection.note_sent(about.trace_request_ctx)

    async def _read(self, response: HttpResponse, stream: int, fix: str) -> None:
        connection, task = self._connection, asyncio.current_task()
        headers: Mapping[str, str] = response.headers
        if response.status in (401, 403):  # a server may write each challenge into a header of its own
            headers = joined(response.headers.items())
        coding = headers.get("content-encoding", "")
        if "," in coding:  # each can make it a thousand times as long
            self._step(connection.fail, stream, Failure("sent an answer that is compressed more than once"))
            return
        self._step(connection.begin_answer, stream, response.status, headers, fix)
        try:
            while self._tasks.get(stream) is task:
                await self._may_read.wait()
                if not (chunk := await response.content.readany()):
                    break
                self._step(self._take, stream, chunk)
                if coding:  # one read can give many pieces
                    await asyncio.sleep(0)
        except Exception as error:
            self._step(connection.fail, stream, self._failure(error))
            return
        if self._tasks.get(stream) is task:
            self._step(connection.end_answer, stream)

    def _take(self, stream: int, chunk: bytes) -> None:
        if chunk.count(b"data:") < 2:
            self._connection.receive_chunk(stream, chunk)
            return
        self._on_burst(True)
        try:
            self._connection.receive_chunk(stream, chunk)
        finally:
            self._on_burst(False)

    def _failure(self, error: BaseException) -> Failure:
        if isinstance(error, NoToken):
            return Failure(error.how, error.fix, was_sent=False, is_final=error.is_final, is_denied=True)
        if isinstance(error, Exception) and not isinstance(error, (SetUp, *REQUEST_ERRORS)):
            self._mishaps.add(f"the MCP server {self._site.name}", error)
        return failure(error, self._site.url, connect=self._limits.connect)

    def _is_done(self, stream: int, task: "asyncio.Task[None]") -> None:
        self._closed.discard(task)
        if self._tasks.get(stream) is task:
            del self._tasks[stream]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._step(self._connection.fail, stream, self._failure(error))

    def _tick(self) -> None:
        self._step(self._connection.tick)
        limits = self._limits
        every = max(0.01, min(WATCH_SECONDS, limits.silence / 3, limits.idle / 3))
        self._ticking = self._loop.call_later(every, self._tick)
