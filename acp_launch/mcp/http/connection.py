"""
The connection to a remote MCP server: messages in, HTTP requests out; HTTP answers in, messages out. Sans-IO.

The era of a message is decided by its `_meta`: one with a protocol version goes out on its own, with headers that
repeat its body (2026-07-28); any other belongs to the session that `initialize` has opened (2025-03-26 to 2025-11-25).
With HTTP+SSE (2024-11-05) one event stream carries all answers.

The first messages wait while the connection is `opening`: the handshake is awaited, or the address to post to. While it
is `draining` nothing more is sent; other requests may still be answered.

There is no single socket. A connection ends when the server has forgotten the session or refuses us altogether, or
cannot be reached while nothing else of it lives; a stream that breaks fails the requests on it alone, unless it can be
resumed. A request that cannot be sent while others are answered is sent again, and at last fails alone. Each request
gets one answer: the server's, or our error, or it is still open when the connection ends; then it is `unsent` if
it certainly had no effect.
"""

from collections import deque
from collections.abc import Mapping
from typing import Literal

from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from acp_launch.mcp import message as mcp
from acp_launch.mcp.http.site import Endpoint
from acp_launch.mcp.http.stream import (
    MIN_RETRY_SECONDS,
    RETRY_SECONDS,
    EventStream,
    HttpAnswer,
    RequestStream,
    Role,
    ServerEvent,
    error_in,
    one_line,
)
from acp_launch.mcp.http.wire import (
    DELETE_TIMEOUT,
    EXCERPT_CHARS,
    JITTER,
    Challenge,
    ConnectionPorts,
    Era,
    Failure,
    HttpRequest,
    Limits,
    ended_by,
    phrase,
    read_challenges,
    retry_after,
    shown_origin,
)
from acp_launch.mcp.message import CLIENT_INFO, HELLO, LEGACY_VERSIONS, cancelled_id
from acp_launch.process.lifecycle import Ended
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.acp import decoded, mapping, text
from acp_launch.protocol.jsonrpc import SERVER_LOST, Envelope, LineTooLong, key
from acp_launch.waits import stretch

OURS = "acp-launch:"
QUICK_TIMEOUT = 30.0  # for what a server need not think about
SIGNS = 2  # further attempts, if it cannot be sent or its connection breaks
FAREWELL_TIMEOUT = stretch(0.5)  # for other requests to learn that the session is gone, too
RESUMES = 4  # attempts in a row to resume a stream that bring nothing
REPEATS = 4  # times that a request which never got to the server, or was refused as it is busy, is sent again
MAX_BUSY_SECONDS = 5.0  # that a busy server may ask us to wait for that
REDIRECTS = 5
MAX_REFUSAL_BYTES = 64 * 1024
MAX_HELD_BYTES = 1024 * 1024  # until the session opens; then the writer has to wait
MAX_STREAMS = 512  # requests under way before the writer has to wait
STREAM_END_TIMEOUT = 5.0  # for a server to close a stream on which everything is answered

Phase = Literal["opening", "open", "draining", "over"]

MODERN = mcp.MODERN_VERSIONS[0]
META = {mcp.VERSION: MODERN, mcp.CLIENT: CLIENT_INFO, mcp.CAPABILITIES: {}}
PARAMS: Mapping[str, object] = {mcp.PING: None, mcp.INITIALIZE: HELLO, mcp.DISCOVER: {"_meta": META}}  # of our requests
MARK = mcp.VERSION.encode()


class RemoteSession(Struct):
    """What the handshake has brought."""

    id: str = ""
    version: str = ""


class RemoteConnection:
    """One connection. `known` is a belief about the server's era.

    `refusal` is what a 401 means if requests carry credentials that were renewed because of it.
    """

    def __init__(self, site: Endpoint, ports: ConnectionPorts, *, known: Era = "", limits: Limits) -> None:
        self.phase: Phase = "open"
        self.era: Era = "sse" if site.type == "sse" else known
        self.is_met = False  # it has answered in this connection
        self.refusal: Failure | None = None
        self.unsent: list[bytes] = []  # once it is over: messages that certainly had no effect, in order
        self._site, self._url, self._ports, self._limits = site, site.url, ports, limits
        self._endpoint = ""  # HTTP+SSE: where to post
        self._session, self._modern = RemoteSession(), ""
        self._streams: dict[int, RequestStream] = {}
        self._owners: dict[bytes, RequestStream] = {}  # by the key of each request that waits for an answer
        self._numbers = 0
        self._held: deque[bytes] = (
            deque()
        )  # messages that wait until `_awaited` is answered, or for the address to post to
        self._awaited = 0  # a stream
        self._health_check = 0  # the stream of the awaited sign of life
        self._checked = 0.0  # when the last one was asked for
        self._pongs: list[Raw] = []  # pings of our user that one will answer
        self._end = Ended()  # how it ends once other requests have learned that the session is gone
        self._refused: dict[int, bytes] = {}  # messages that had no effect, by the number of their stream
        self._has_noted: set[str] = set()

    @property
    def is_full(self) -> bool:
        """Whether so much is under way that the writer should wait."""
        return len(self._streams) > MAX_STREAMS or sum(map(len, self._held)) > MAX_HELD_BYTES

    @property
    def held(self) -> int:
        """A measure of what the server has not taken yet."""
        return (sum(map(len, self._held)) if self._held else 0) + len(self._streams)

    @property
    def has_session(self) -> bool:
        """Whether the server has given a session id that is in use."""
        return bool(self._session.id)

    @property
    def is_leaving(self) -> bool:
        """Whether the end of the session is not answered yet."""
        return any(stream.role == "delete" for stream in self._streams.values())

    @property
    def _is_closed(self) -> bool:
        return self.phase in ("draining", "over")

    # Messages for the server.

    def begin(self) -> None:
        """Open what must be open before the first message."""
        if self.era == "sse":
            self._open_endpoint()

    def send(self, line: bytes, message: Envelope | None = None) -> None:
        """Take one message for the server, without its newline; `message` is what it says, if that was read.

        The messages of a batch (MCP 2025-03-26) are sent one by one, as most servers know no batch.
        """
        if self._is_closed:
            self.unsent.append(line)
            return
        if message is None and (parts := jsonrpc.batch(line)):
            for part in parts:
                self.send(part)
            return
        message = message or jsonrpc.decode(line)
        if message is None or self._intercept(message):
            return
        is_stateless = message.method is not UNSET and MARK in line and self.era != "sse"
        if is_stateless and (version := mcp.version_of(message.params)):
            self._post_alone(line, message, version)
        elif self.phase == "opening":
            self._held.append(line)
        else:
            self._post(line, message)

    def _intercept(self, message: Envelope) -> bool:
        """Handle messages that are not sent as they are: cancellations, and a ping before the handshake."""
        if message.method == mcp.CANCELLED and message.id is UNSET:
            return self._cancel(message.params)
        if message.method == mcp.PING and message.id is not UNSET and not (self._session.version or self._modern):
            self._probe(message.id.copy())
            return True
        return False

    def _cancel(self, params: Raw) -> bool:
        """Cancel a request; return whether the server must not be told by a message."""
        id = cancelled_id(params)
        owner = None if id is None else self._owners.get(key(id))
        if owner is None:
            return bool(self._modern) and not self._session.version
        if owner.is_stateless or owner.is_waiting:
            self._drop(owner)  # the end of the stream is the cancellation; or the server has never seen it
            return True
        if owner.is_introduction:
            return True  # never cancelled
        owner.is_cancelled, owner.finished = True, self._ports.now()
        return False

    def _post_alone(self, line: bytes, message: Envelope, version: str) -> None:
        self._modern = version
        headers = {**self._site.posting, **mcp.request_headers(version, str(message.method), message.params)}
        stream = self._stream(
            "line", line, headers, message, patience=None if message.id is not UNSET else QUICK_TIMEOUT
        )
        stream.is_stateless = True
        self._ask(stream)

    def _post(self, line: bytes, message: Envelope) -> None:
        if message.method == mcp.INITIALIZE:
            self._session = RemoteSession()
        patience = (
            None if message.method is not UNSET and message.id is not UNSET and self.era != "sse" else QUICK_TIMEOUT
        )
        stream = self._stream("line", line, self._in_session(self._site.posting), message, patience=patience)
        if self.era != "sse" and message.method in (mcp.INITIALIZE, mcp.INITIALIZED):
            self.phase, self._awaited = "opening", stream.number
        self._ask(stream)

    def _release(self) -> None:
        """Send what has waited, as far as nothing holds it back again."""
        if self.phase == "opening":
            self.phase, self._awaited = "open", 0
            while self._held and self.phase == "open":
                self.send(self._held.popleft())

    # Requests.

    def _stream(
        self,
        role: Role,
        line: bytes,
        headers: Mapping[str, str],
        message: Envelope | None = None,
        *,
        verb: str = "POST",
        patience: float | None = QUICK_TIMEOUT,
    ) -> RequestStream:
        self._numbers += 1
        url = self._endpoint if self.era == "sse" and verb == "POST" else self._url
        request = HttpRequest(self._numbers, verb, url, headers, line, patience)
        stream = RequestStream(self._numbers, role, request, self._ports.now())
        if message is not None and message.method is not UNSET:
            stream.method = message.method
            stream.id = None if message.id is UNSET else message.id.copy()
        return stream

    def _get(self, role: Role, last_event: str = "") -> RequestStream:
        headers = {**self._site.listening, "Last-Event-ID": last_event} if last_event else self._site.listening
        patience = None if role == "listen" else QUICK_TIMEOUT
        return self._stream(role, b"", self._in_session(headers), verb="GET", patience=patience)

    def _own(self, role: Role, method: str, patience: float = QUICK_TIMEOUT) -> RequestStream:
        line = jsonrpc.request(Raw(f'"{OURS}{self._numbers + 1}"'.encode()), method, PARAMS[method])
        headers = self._in_session(self._site.posting)
        if method == mcp.DISCOVER:
            headers = {**self._site.posting, "MCP-Protocol-Version": MODERN, "Mcp-Method": method}
        stream = self._stream(role, line, headers, patience=patience)
        stream.method = method
        return stream

    def _in_session(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        session = self._session
        if not session.version or self.era == "sse":
            return headers
        named = {"Mcp-Session-Id": session.id} if session.id else {}
        return {**headers, "MCP-Protocol-Version": session.version, **named}

    def _ask(self, stream: RequestStream) -> None:
        self._streams[stream.number] = stream
        if stream.id is not None:
            self._owners[key(stream.id)] = stream
        self._send(stream)

    def _send(self, stream: RequestStream) -> None:
        stream.begun = stream.heard = self._ports.now()
        stream.is_waiting = stream.is_sent = False
        stream.redirects = 0
        self._ports.request(stream.request)

    def _send_again(self, stream: RequestStream, pause: float) -> None:
        """Let a request that had no effect wait, to be sent again."""
        stream.is_waiting = True
        stream.repeated += 1
        self._rest(stream, pause)

    def _rest(self, stream: RequestStream, pause: float | None = None) -> None:
        """Wait, and send a request again, or ask for the rest of an event stream."""
        now = self._ports.now()
        pause = stream.pause(now) if pause is None else pause
        stream.answer, stream.heard = HttpAnswer(), now + pause
        self._ports.timer(stream.number, pause)

    def _listen_again(self, stream: RequestStream) -> None:
        if self.phase == "draining":  # without the session there is nothing to ask for
            self._fail(stream, self._end.how)
            self._close(stream)
            return
        again = self._get("listen", stream.last_event).request
        patience = None if stream.role == "listen" else QUICK_TIMEOUT
        stream.request = replace(again, stream=stream.number, patience=patience)
        self._send(stream)

    # The sign of life, and the first question to a server.

    def check_health(self) -> None:
        """Ask for a sign of life at once, unless one is awaited."""
        if self._is_closed or self._health_check or not self.is_met:
            return
        self._checked = self._ports.now()
        method = mcp.PING if self._session.version else mcp.DISCOVER
        stream = self._own("health_check", method, self._limits.health_check)
        self._health_check = stream.number
        self._ask(stream)

    def _probe(self, id: Raw) -> None:
        """Answer a ping before the handshake as soon as the server has shown that it lives."""
        self._pongs.append(id)
        if self.era == "sse":
            if self._endpoint:
                self._pong()
        elif len(self._pongs) == 1:
            self._ask(
                self._own("probe", mcp.PING if self.era == "legacy" or self._site.pinned == "legacy" else mcp.DISCOVER)
            )

    def _take_probe(self, stream: RequestStream, message: Envelope | None) -> None:
        """Take the answer to the first question, or the end of one that held none."""
        self._forget(stream)
        if message is not None and message.id is not UNSET:
            self.is_met = True
        if message is not None and stream.method == mcp.DISCOVER:
            self._read_discovery(message)
        elif stream.method == mcp.INITIALIZE:
            self._set_era("legacy")
        self._pong()

    def _read_discovery(self, message: Envelope) -> None:
        if message.result is not UNSET:
            found = mcp.read_discovered(message)
            self._set_era("modern" if found is None or not found.versions or MODERN in found.versions else "legacy")
        elif message.error is not UNSET:
            self._set_era("modern" if jsonrpc.fault(message.error).code == mcp.UNSUPPORTED else "legacy")

    def _pong(self) -> None:
        pongs, self._pongs = self._pongs, []
        for id in pongs:
            self._ports.receive(jsonrpc.result(id, {}))

    def _refuse_probe(self, stream: RequestStream, body: bytes) -> None:
        status, error, is_last = stream.answer.status, error_in(body), stream.method == mcp.INITIALIZE
        if status == 403:
            self._deny(stream)
        elif error is not None:
            self._take_probe(stream, Envelope(id=Raw(b"null"), error=error))
        elif status == 400 and not is_last:
            self._take_probe(stream, Envelope(error=Raw(b"{}")))
        elif status in (404, 405) and not is_last:
            self._close(stream)
            self._ask(self._own("probe", mcp.INITIALIZE))
        elif status in (400, 404, 405) and self._site.type == "http" and self._site.pinned != "modern":
            self._close(stream)
            self._begin_sse()
        else:
            self.stop(self._turn_away(stream, f"answered {phrase(status)}{self._site.quote(body)}"))

    # HTTP+SSE.

    def _may_be_sse(self, stream: RequestStream) -> bool:
        return (
            stream.is_introduction
            and not self.is_met
            and self.era in ("", "legacy")
            and stream.answer.status in (400, 404, 405)
            and self._site.pinned != "modern"
        )

    def _fall_back(self, stream: RequestStream) -> None:
        """Try the older transport with a handshake that streamable HTTP has refused."""
        self._streams.pop(stream.number, None)
        self._take_request(stream)
        self._held.appendleft(stream.request.body)
        self._awaited = 0
        self._begin_sse()

    def _begin_sse(self) -> None:
        if self.era != "sse" and not self._is_closed:
            self.era = "sse"
            self._open_endpoint()

    def _open_endpoint(self) -> None:
        self._endpoint = ""
        self.phase = "opening"
        self._ask(self._get("endpoint"))

    def _take_endpoint(self, data: bytes) -> None:
        """Take the address that messages are posted to; it must be of the same origin."""
        found, is_near = self._site.join(self._url, data.decode(errors="replace").strip())
        if not is_near:
            how = f"wants its messages to be sent elsewhere, to {self._site.name_of(found)}"
            self.stop(Ended(how, follows="never", fault="protocol"))
            return
        is_first = not self._endpoint
        self._endpoint = found
        if not is_first:
            return
        self._ports.remember_era("sse")
        self.is_met = True
        self._pong()
        self._release()

    def _miss_events(self, stream: RequestStream, how: str) -> None:
        """Handle a server that gives no event stream: fatal for HTTP+SSE only."""
        status = stream.answer.status
        if stream.role == "listen":
            self._drop(stream)
            if status == 404:
                self.check_health()
        else:
            self._ports.remember_era("")
            self.stop(self._turn_away(stream, how))

    # Answers, by the number of their stream. A stream that was dropped gets no more.

    def note_sent(self, number: int) -> None:
        """Note that a request has a connection, and is being sent."""
        if (stream := self._streams.get(number)) is not None:
            stream.is_sent = True

    def begin_answer(self, number: int, status: int, headers: Mapping[str, str], fix: str = "") -> None:
        """Take the head of an answer; the names of the headers are in lower case. `fix` may help if it refuses."""
        stream = self._streams.get(number)
        if stream is None:
            return
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        stream.answer, stream.heard, stream.fix = HttpAnswer(status, kind), self._ports.now(), fix
        stream.is_sent = True
        if stream.role == "health_check" and status != 404:
            self._forget(stream)  # a 404 may mean that the session is gone
        elif status in (301, 302, 303, 307, 308):
            self._redirect(stream, headers.get("location", ""))
        elif 200 <= status < 300:
            self._accept(stream, headers)
        elif status in (429, 503):
            stream.retry = retry_after(headers)
        elif status in (401, 403):
            stream.answer.challenge = read_challenges(headers.get("www-authenticate", ""))

    def receive_chunk(self, number: int, chunk: bytes) -> None:
        """Take a part of an answer's body, decompressed."""
        stream = self._streams.get(number)
        if stream is None:
            return
        stream.heard = self._ports.now()
        answer = stream.answer
        if answer.events is not None:
            self._take_events(stream, answer.events, chunk)
            return
        answer.size += len(chunk)
        if answer.size <= (self._limits.max_line if answer.is_success else MAX_REFUSAL_BYTES):
            answer.body.append(chunk)
        elif answer.is_success:
            self._cut(stream)
        else:
            self._ports.drop(number)
            self.end_answer(number)

    def _take_events(self, stream: RequestStream, events: EventStream, chunk: bytes) -> None:
        try:
            for event in events.feed(chunk):
                self._take_event(stream, event)
                if stream.number not in self._streams:
                    return
        except LineTooLong:
            self._cut(stream)

    def _cut(self, stream: RequestStream) -> None:
        """Give up an answer that is too long."""
        how = f"sent an answer of more than {self._limits.max_line:,} bytes"
        self._fail(stream, how)
        if stream.role in ("endpoint", "probe"):
            self.stop(Ended(how, jitter=JITTER))
        else:
            self._drop(stream)

    def end_answer(self, number: int) -> None:
        """Note that an answer is complete."""
        stream = self._streams.get(number)
        if stream is None:
            return
        if not stream.answer.is_success:
            self._take_refusal(stream)
        elif stream.answer.events is not None:
            self._end_events(stream, "ended its event stream")
        else:
            self._end_body(stream)

    def fail(self, number: int, failure: Failure) -> None:
        """Note that a request failed."""
        stream = self._streams.get(number)
        if stream is None:
            return
        if stream.role == "delete":
            self._drop(stream)
        elif failure.is_denied:
            self._miss_token(stream, failure)
        elif stream.role == "health_check" and not (failure.timed_out or failure.is_final) and stream.repeated < SIGNS:
            self._send_again(stream, RETRY_SECONDS * 2**stream.repeated)
        elif not failure.was_sent:
            self._miss_server(stream, failure)
        elif stream.role in ("health_check", "probe"):
            self.stop(ended_by(failure))
        elif stream.answer.events is not None or stream.is_resuming or stream.role != "line":
            self._end_events(stream, failure.how)
        else:
            self._give_up(stream, failure.how, failure.fix)

    def _give_up(self, stream: RequestStream, how: str, fix: str = "") -> None:
        """Fail the requests of a stream, or the connection if it has never worked."""
        if stream.id is not None and not self.is_met:
            self.stop(Ended(how, reason=fix, jitter=JITTER))
            return
        self._fail(stream, how)
        self._close(stream)
        self.check_health()

    # The clock.

    def on_timer(self, number: int) -> None:
        """Note that the timer of a stream has gone off."""
        stream = self._streams.get(number)
        if stream is None:
            if self.phase == "draining":
                self.stop(self._end)
        elif stream.is_waiting:
            if not self._is_closed:  # else it goes to the next connection
                stream.retry = None
                self._send(stream)
        elif stream.role == "endpoint" and not self._endpoint:
            how = f"opened an event stream, but did not say within {QUICK_TIMEOUT:g} s where to send"
            self.stop(Ended(how, jitter=JITTER))
        elif stream.role == "listen" or stream.is_resuming:
            self._listen_again(stream)

    def tick(self) -> None:
        """Look at the clock, now and then: ask a silent server for a sign of life, and tidy up."""
        now = self._ports.now()
        for stream in list(self._streams.values()):
            silence = now - stream.heard
            if stream.finished is not None and now - stream.finished >= STREAM_END_TIMEOUT:
                self._drop(stream)
            elif stream.answer.body and silence >= self._limits.idle:
                self._ports.drop(stream.number)
                self._give_up(stream, f"stopped in the middle of its answer: nothing came for {self._limits.idle:g} s")
            elif self._awaits(stream) and now - max(stream.heard, self._checked) >= self._limits.silence:
                self.check_health()

    def _awaits(self, stream: RequestStream) -> bool:
        if stream.role == "endpoint":
            return bool(self._owners)
        return stream.id is not None and not stream.is_cancelled

    # What an answer holds.

    def _accept(self, stream: RequestStream, headers: Mapping[str, str]) -> None:
        session = headers.get("mcp-session-id", "")
        if stream.is_introduction:
            self._session.id = session
        elif session and stream.method == mcp.INITIALIZE:
            self._end_session(session)
        if stream.answer.kind == "text/event-stream":
            stream.answer.events = EventStream(limit=self._limits.max_line)
            if stream.role == "endpoint":
                self._ports.timer(stream.number, QUICK_TIMEOUT)

    def _take_event(self, stream: RequestStream, event: ServerEvent) -> None:
        if event.id or event.retry is not None:
            stream.note_event(event)
        if stream.role == "endpoint" and event.kind == "endpoint":
            self._take_endpoint(event.data)
        elif event.kind == "message" and (line := one_line(event.data)):
            stream.resumed = 0
            self._take_line(stream, line, is_direct=False)

    def _take_line(self, stream: RequestStream, line: bytes, *, is_direct: bool) -> None:
        """Take what the server says; `is_direct` as the body of an answer."""
        if line.startswith(b"{"):  # as nearly all do
            self._take_message(stream, line, is_direct=is_direct)
            return
        for part in jsonrpc.batch(line) or (line,):
            self._take_message(stream, part, is_direct=is_direct)

    def _take_message(self, stream: RequestStream, line: bytes, *, is_direct: bool) -> None:
        message = jsonrpc.decode(line)
        if message is None or message.method is not UNSET or message.id is UNSET:
            if not is_direct or (message is not None and message.method is not UNSET):
                self.is_met |= message is not None
                self._ports.receive(line, message)
        elif stream.role == "probe":
            self._take_probe(stream, message)
        else:
            self._settle(stream, message, message.id, line, is_direct=is_direct)

    def _settle(self, stream: RequestStream, message: Envelope, id: Raw, line: bytes, *, is_direct: bool) -> None:
        """Pass an answer on, if a request waits for it."""
        owner = self._owners.get(key(id))
        if owner is None or (is_direct and owner is not stream):
            self.is_met |= bytes(id).startswith(b'"' + OURS.encode())
            return  # late, or an answer to nothing, or to our own sign of life
        self._take_request(owner)
        self.is_met = True
        if owner.method == mcp.INITIALIZE and not owner.is_stateless:
            self._introduce(message)
        elif owner.method == mcp.DISCOVER and owner.is_stateless and message.result is not UNSET:
            self._read_discovery(message)
        self._ports.receive(line, message)
        owner.finished = self._ports.now()
        self._unblock(owner)

    def _introduce(self, message: Envelope) -> None:
        """Take the server's answer to a handshake."""
        if message.result is UNSET:
            self._session.id = ""
            if message.error is not UNSET and jsonrpc.fault(message.error).code == mcp.UNSUPPORTED:
                self._set_era("modern")
            return
        self._session.version = text(mapping(decoded(message.result)).get("protocolVersion")) or LEGACY_VERSIONS[0]
        if self.era not in ("sse", "modern"):
            self._set_era("legacy")

    def _set_era(self, era: Era) -> None:
        if era != self.era:
            self.era = era
            self._ports.remember_era(era)

    def _end_body(self, stream: RequestStream) -> None:
        body = stream.answer.take_body()
        if stream.role == "delete":
            self._drop(stream)
        elif stream.role in ("listen", "endpoint"):
            self._miss_events(stream, f"answered {phrase(stream.answer.status)} without an event stream")
        elif self._endpoint:  # the answers come on the event stream
            self._close(stream)
        else:
            self._take_body(stream, body)

    def _take_body(self, stream: RequestStream, body: bytes) -> None:
        if body and (stream.answer.kind == "application/json" or (stream.id is not None and body[:1] in b"{[")):
            self._take_line(stream, one_line(body), is_direct=True)
        if stream.number in self._streams and (stream.id is not None or stream.role == "probe"):
            kind = f" ({self._site.show(stream.answer.kind)[:60]})" if stream.answer.kind else ""
            how = f"answered {phrase(stream.answer.status)}{kind} and not with MCP{self._site.quote(body)}"
            if self.is_met:
                self._fail(stream, how)
            else:
                self.stop(self._turn_away(stream, how), also=stream)
        if self.phase != "over":
            self._close(stream)

    def _end_events(self, stream: RequestStream, how: str) -> None:
        """Handle the end of an event stream, however it came."""
        if stream.role == "endpoint":
            self.stop(Ended(how, jitter=JITTER))
        elif stream.role == "listen":
            self._rest(stream)
        elif stream.role == "probe":
            self._take_probe(stream, None)
        elif stream.id is None or stream.is_cancelled:
            self._fail(stream, how)
            self._close(stream)
        elif stream.last_event and not stream.is_stateless and stream.resumed < RESUMES:
            stream.is_resuming = True
            stream.resumed += 1
            self._rest(stream)
        else:
            self._give_up(stream, how)

    # Refusals.

    def _take_refusal(self, stream: RequestStream) -> None:
        body, status = stream.answer.take_body(), stream.answer.status
        if stream.role == "delete":
            self._drop(stream)
        elif status == 401 and (self.refusal is not None or stream.role != "listen"):
            self._deny(stream) if self.refusal is None else self._miss_token(stream, self.refusal)
        elif status == 404 and "Mcp-Session-Id" in stream.request.headers and stream.role in ("line", "health_check"):
            self._lose_session(stream)
        elif stream.role in ("listen", "endpoint"):
            self._miss_events(stream, f"answered {phrase(status)}")
        elif stream.role == "probe":
            self._refuse_probe(stream, body)
        elif stream.role == "health_check":
            self._forget(stream)
        elif not self._asks_again(stream):
            self._refuse_line(stream, body)

    def _refuse_line(self, stream: RequestStream, body: bytes) -> None:
        status, error = stream.answer.status, error_in(body)
        if status == 403 and not self.is_met:
            self._deny(stream)
        elif status == 403 and stream.answer.challenge.wants_more:
            self._refuse(stream, "; ".join(filter(None, (_too_few(stream.answer.challenge), self._fix(stream)))))
            self._close(stream)
        elif error is not None and stream.id is not None:
            self._pass_on(stream, error, body)
            self._close(stream)
        elif self._may_be_sse(stream):
            self._fall_back(stream)
        elif self._endpoint and status == 404:
            self._lose_session(stream)
        elif not self.is_met and stream.id is not None and not stream.is_resuming and not self._is_of_other_era(stream):
            how = f"answered {phrase(status)}{self._site.quote(body)}"
            self.stop(self._turn_away(stream, how), also=stream)
        else:
            self._refuse_request(stream, f"answered {phrase(status)}{self._site.quote(body)}")
            self._close(stream)

    def _refuse_request(self, stream: RequestStream, how: str) -> None:
        """Answer a request that was refused without a reason in JSON-RPC, while the connection goes on."""
        status, retry = stream.answer.status, stream.retry
        if stream.id is None:
            self._note_once(f"{how} to a notification")
        elif stream.is_resuming:
            self._fail(stream, f"ended its event stream, and refused to resume it ({phrase(status)})")
        elif self._is_of_other_era(stream):
            self._refuse(stream, how, jsonrpc.METHOD_NOT_FOUND)
        elif status < 500 or status == 503:
            self._refuse(stream, how if retry is None else f"{how}; it may be asked again in {retry:g} s")
        else:
            self._fail(stream, how)

    def _is_of_other_era(self, stream: RequestStream) -> bool:
        """Whether a first request was refused because the server may speak the other era only."""
        if self.era == "sse" or stream.answer.status not in (400, 404, 405, 406, 415):
            return False
        if stream.is_stateless:
            return not self.is_met or self.era == "legacy"
        return self.era == "modern" and not self._session.version

    def _asks_again(self, stream: RequestStream) -> bool:
        """Let a request wait that a busy server has refused, if it may be asked again soon; return whether it may.

        A handshake is asked for again until the server's `timeouts.start`, which is for the caller to watch.
        """
        status, retry, is_handshake = stream.answer.status, stream.retry, stream.is_introduction
        is_busy = status == 429 or (status == 503 and (retry is not None or is_handshake))
        if not is_busy or not self.is_met or stream.is_resuming:
            return False
        pause = RETRY_SECONDS * 2 ** min(stream.repeated, REPEATS) if retry is None else max(retry, MIN_RETRY_SECONDS)
        if is_handshake:
            self._note_once(f"answered {phrase(status)} to the handshake, which is sent again")
        elif pause > MAX_BUSY_SECONDS or stream.repeated == REPEATS:
            return False
        self._send_again(stream, pause)
        return True

    def _pass_on(self, stream: RequestStream, error: Raw, body: bytes) -> None:
        """Answer the request of a stream with the server's own error, under the request's id."""
        self._take_line(stream, one_line(body), is_direct=True)
        if (id := self._take_request(stream)) is not None:  # the error has no id
            self._ports.receive(b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (bytes(id), bytes(error)))

    def _turn_away(self, stream: RequestStream, how: str) -> Ended:
        """Describe the end of a connection that has never worked."""
        status = stream.answer.status
        if status in (408, 429) or status >= 500:
            return Ended(how, pause=stream.retry or 0.0, jitter=JITTER)
        fix = f"{shown_origin(self._url)} answers, but not as MCP at this path: check its `url`, `type` and `headers`"
        follows: Literal["judged", "never"] = "judged" if self._site.is_proven else "never"
        return Ended(how, reason=fix, follows=follows, jitter=JITTER, fault="protocol")

    # Credentials.

    def _deny(self, stream: RequestStream) -> None:
        how = f"answered {phrase(stream.answer.status)}"
        what = "it wants a login" if self._is_login_wanted(stream) else "it does not accept our credentials"
        if stream.answer.challenge.wants_more:
            how, what = _too_few(stream.answer.challenge), ""
        if not (fix := self._fix(stream)) and self._site.refusal:
            what, fix = self._site.refusal
        why = ": ".join(filter(None, (what, fix or "check its `headers`")))
        self.stop(Ended(how, reason=why, follows="never", fault="credentials"), also=stream)

    def _is_login_wanted(self, stream: RequestStream) -> bool:
        site = self._site
        return not site.has_own_credentials and bool(site.login) and stream.answer.challenge.is_bearer

    def _fix(self, stream: RequestStream) -> str:
        """Return what may help the user to other credentials: mostly the command that logs in."""
        if stream.fix:
            return stream.fix
        if self.refusal is not None:
            return self.refusal.fix
        return self._site.login if self._is_login_wanted(stream) else ""

    def _miss_token(self, stream: RequestStream, failure: Failure) -> None:
        """Handle a request that had no effect for want of a token; the next may have one, as the user may log in."""
        if stream.role == "listen":
            self._rest(stream)
        elif not self.is_met:
            ended = ended_by(failure)
            self.stop(replace(ended, fault="credentials") if failure.is_final else ended, also=stream)
        elif stream.role != "line":
            self._forget(stream)
        else:
            how = f"{failure.how}; {failure.fix}" if failure.fix else failure.how
            self._note_once(how)
            self._refuse_or_fail(stream, how)

    # Redirects.

    def _redirect(self, stream: RequestStream, location: str) -> None:
        """Follow a redirect within the origin, with the same method: a call must not become a GET."""
        before = stream.request
        found, is_near = self._site.join(before.url, location)
        stream.redirects += 1
        self._ports.drop(stream.number)
        if is_near and location and stream.redirects <= REDIRECTS and stream.answer.status != 303:
            if before.url == self._url and found.rstrip("/") == self._url.rstrip("/"):
                self._url = found  # many servers add or remove the slash each time
            stream.answer, stream.request = HttpAnswer(), replace(before, url=found)
            self._ports.request(stream.request)
            return
        how = f"redirects to {self._site.name_of(found)}"
        fix = f"if that is right, write that address into its `url`; its headers are for {shown_origin(self._url)} only"
        if stream.role == "delete":
            self._drop(stream)
        elif self.is_met:
            self._refuse_or_fail(stream, how)
        else:
            self.stop(Ended(how, reason=fix, follows="never"), also=stream)

    # The session that the server has forgotten, and servers that cannot be reached.

    def _lose_session(self, stream: RequestStream) -> None:
        """Note that the server does not know the session any more; other requests learn it, too, or fail."""
        if stream.is_resuming:
            self._fail(stream, "has closed the session")
        self._session.id = ""
        self._part(stream, Ended("has closed the session", follows="again"))

    def _miss_server(self, stream: RequestStream, failure: Failure) -> None:
        """Handle a request that never got to the server; the connection ends only if nothing else of it lives."""
        if stream.is_resuming:
            if stream.resumed < RESUMES and not failure.is_final:
                stream.resumed += 1
                self._rest(stream)
                return
            self._fail(stream, failure.how)
        if self._is_closed or not self._answers_others(stream) or stream.number == self._awaited:
            self._part(stream, ended_by(failure))
        elif stream.role == "listen":
            self._rest(stream)
        elif stream.role != "line":
            self._part(stream, ended_by(failure))
        elif stream.repeated < REPEATS and not failure.is_final:
            self._send_again(stream, RETRY_SECONDS * 2**stream.repeated)
        else:
            self._refuse(stream, failure.how)
            self._close(stream)

    def _answers_others(self, stream: RequestStream) -> bool:
        """Whether the server is at work on requests of other streams, as far as we know."""
        others = [owner for owner in self._owners.values() if owner is not stream and not owner.is_cancelled]
        at_server = (owner for owner in others if owner.is_sent and not owner.is_waiting)
        return any(owner.answer.status or not owner.is_resuming for owner in at_server)

    # Answers of our own, and the ends of streams.

    def _take_request(self, stream: RequestStream) -> Raw | None:
        """Return the id of a stream's request, which waits for no answer any more; None if it did not."""
        id, stream.id = stream.id, None
        if id is not None:
            self._owners.pop(key(id), None)
        return id

    def _fail(self, stream: RequestStream, how: str) -> None:
        """Answer the request of a stream, if it is open, with an error."""
        id = self._take_request(stream)
        if id is not None and not stream.is_cancelled:
            self._answer(id, f"{how} during {stream.method}, whose outcome is unknown")

    def _refuse(self, stream: RequestStream, how: str, code: int = SERVER_LOST) -> None:
        """Answer the request of a stream, which had no effect, with an error."""
        if (id := self._take_request(stream)) is not None:
            self._answer(id, how, code)

    def _answer(self, id: Raw, how: str, code: int = SERVER_LOST) -> None:
        server = self._site.name
        self._ports.receive(jsonrpc.error(id, code, f'MCP server "{server}" {how}', {"server": server}))

    def _refuse_or_fail(self, stream: RequestStream, how: str) -> None:
        """Do so with a stream that may have had an effect before."""
        self._fail(stream, how) if stream.is_resuming else self._refuse(stream, how)
        self._close(stream)

    def _drop(self, stream: RequestStream) -> None:
        self._take_request(stream)
        self._forget(stream)
        self._unblock(stream)

    def _forget(self, stream: RequestStream) -> None:
        self._streams.pop(stream.number, None)
        self._ports.drop(stream.number)
        if stream.number == self._health_check:
            self._health_check = 0

    def _close(self, stream: RequestStream) -> None:
        """Forget a stream that has ended, and go on after it."""
        self._forget(stream)
        if stream.method == mcp.INITIALIZED and stream.answer.is_success and self.era != "sse":
            for old in [each for each in self._streams.values() if each.role == "listen"]:
                self._forget(old)  # of the session before, if the agent has shaken hands again
            self._ask(self._get("listen"))
        self._unblock(stream)
        if self.phase == "draining":
            self._part_if_all_know()

    def _unblock(self, stream: RequestStream) -> None:
        if self._awaited == stream.number:
            self._release()

    # The end of the connection.

    def _part(self, stream: RequestStream, ended: Ended) -> None:
        """Begin to end the connection because of a request that had no effect; others may learn the same."""
        if not stream.was_effective and (stream.id is not None or not stream.answer.status):
            self._refused[stream.number] = stream.request.body
        self._take_request(stream)
        self._streams.pop(stream.number, None)
        if not self._is_closed:
            self.phase = "draining"
            self._end = ended
            self._ports.timer(0, FAREWELL_TIMEOUT)
        self._part_if_all_know()

    def _part_if_all_know(self) -> None:
        lines = [stream for stream in self._streams.values() if stream.role == "line" and not stream.is_unseen]
        if all(stream.answer.status for stream in lines):
            self.stop(self._end)

    def leave(self) -> bool:
        """Begin to end the session; return whether there is one that the server should be told about."""
        if self.phase == "over":
            return False
        self.phase = "draining"
        for stream in list(self._streams.values()):
            self._drop(stream)
        if not self._session.id or self.era == "sse":
            return False
        self._end_session(self._session.id)
        return True

    def _end_session(self, session: str) -> None:
        version = self._session.version or LEGACY_VERSIONS[0]
        headers = {**self._site.headers, "Mcp-Session-Id": session, "MCP-Protocol-Version": version}
        self._ask(self._stream("delete", b"", headers, verb="DELETE", patience=DELETE_TIMEOUT))

    def stop(self, ended: Ended, *, also: RequestStream | None = None) -> None:
        """End the connection. The request of `also` had no effect."""
        if self.phase == "over":
            return
        self.phase = "over"
        refused = self._refused
        if also is not None and also.id is not None and not also.was_effective:
            refused[also.number] = also.request.body
        for stream in self._streams.values():
            self._ports.drop(stream.number)
            if stream.is_unseen:
                refused[stream.number] = stream.request.body
        self.unsent[:0] = [*(refused[number] for number in sorted(refused)), *self._held]
        self._held.clear()
        self._streams.clear()
        self._owners.clear()
        self._ports.note_end(ended)

    def _note_once(self, text: str) -> None:
        if text not in self._has_noted and len(self._has_noted) < 100:
            self._has_noted.add(text)
            self._ports.note(text)


def _too_few(challenge: Challenge) -> str:
    scopes = " ".join(challenge.scopes)[:EXCERPT_CHARS]
    return f"answered 403 Forbidden: it wants {f'the scopes {scopes}' if scopes else 'more scopes'}"
