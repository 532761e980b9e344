"""
The requests of a remote connection that are under way, and what comes back on each: bodies, event streams, failures.

The part of the machine that does not depend on how messages are sent; `machine` has the rest. Sans-IO.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping

from msgspec import UNSET, Raw, Struct, UnsetType, field
from msgspec.json import Decoder

from acp_launch.mcp.http.challenge import NONE, challenged
from acp_launch.mcp.http.eventstream import EventStream, ServerEvent
from acp_launch.mcp.http.wire import (
    AGAIN,
    AGAIN_AT_MOST,
    DELETE,
    HASTY,
    HELD,
    JITTER,
    LEAST,
    LINGER,
    LONGEST_ID,
    LONGEST_PAUSE,
    LOST,
    MODERN,
    PARTING,
    QUICK,
    REFUSAL,
    RESUMES,
    SIGNS,
    STREAMS,
    WRONG_VERSION,
    Asked,
    Era,
    Failure,
    Limits,
    Ports,
    Request,
    Role,
    Stream,
    ended_by,
    key,
    one_line,
    origin,
    phrase,
    retry_after,
    with_id,
)
from acp_launch.mcp.message import CLIENT_INFO, VERSIONS
from acp_launch.process.lifecycle import Ended
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.jsonrpc import Envelope, LineTooLong


class _Introduction(Struct):
    version: str = field(default="", name="protocolVersion")


class _Discovered(Struct):
    versions: list[str] | UnsetType = field(default=UNSET, name="supportedVersions")


_introduction, _discovered = Decoder(_Introduction), Decoder(_Discovered)

SCHEMES = {"Basic", "Bearer", "Digest", "Token"}  # of authorization: no secrets
AGENT = f"{CLIENT_INFO['name']}/{CLIENT_INFO['version']}"


class Streams(ABC):
    """The connection to one remote server. `known` is what is believed of its era; `is_proven`: it has answered before.

    `pin` is the profile's `protocol`. `login` is the command that logs in to the server. `refusal` is what a 401 means
    if requests carry credentials that were renewed because of it.
    """

    def __init__(
        self,
        server: str,
        url: str,
        headers: Mapping[str, str],
        ports: Ports,
        *,
        type: str = "http",
        pin: str = "auto",
        known: Era = "",
        is_proven: bool = False,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        login: str = "",
        refusal: Failure | None = None,
    ) -> None:
        self.server, self.limits = server, limits
        self._login, self.refusal = login, refusal
        self.era: Era = "sse" if type == "sse" else known
        self._is_assumed = type != "sse" and known == "sse"
        self.unsent: list[bytes] = []
        self.is_over = False
        self.is_met = False  # it has answered in this connection
        self._ports, self._type, self._pin, self._is_proven = ports, type, pin, is_proven
        self._url, self._origin = url, origin(url)
        words = {word for value in headers.values() for word in (value, *value.split()) if len(word) > 3} - SCHEMES
        self._secrets = sorted(words, key=len, reverse=True)
        names = {name.lower() for name in headers}
        self._has_own_credentials = "authorization" in names
        own = {} if "user-agent" in names else {"User-Agent": AGENT}
        self._headers = {**own, **headers, "Accept": "application/json, text/event-stream"}
        self._listening = {**self._headers, "Accept": "text/event-stream", "Cache-Control": "no-store"}
        self._posting = {**self._headers, "Content-Type": "application/json"}
        self._streams: dict[int, Stream] = {}
        self._owners: dict[bytes, Stream] = {}  # of each request that waits for an answer
        self._held: deque[bytes] = deque()
        self._held_bytes = 0
        self._barrier = 0  # the stream that must be answered before the next message is sent
        self._numbers = 0
        self._session = self._version = self._modern = ""
        self._has_initialized = False
        self._pongs: list[Raw] = []  # our user's pings that a sign of life will answer
        self._own: set[bytes] = set()  # ids of our own requests on an event stream
        self._sign = 0  # the stream of the sign of life that is awaited
        self._checked = 0.0  # when the last was asked for
        self._parting = 0  # the number of the timer that ends it
        self._departure = Ended()
        self._has_left = False  # the session is being ended by us
        self._refused: dict[int, bytes] = {}  # what certainly had no effect, by the number of its stream
        self._endpoint = ""  # HTTP+SSE: where to post
        self._has_noted: set[str] = set()

    @property
    def is_full(self) -> bool:
        """Whether so much is under way that the writer should wait."""
        return self._held_bytes > HELD or len(self._streams) > STREAMS

    @property
    def held(self) -> int:
        """A measure of what the server has not taken yet."""
        return self._held_bytes + len(self._streams)

    @property
    def is_busy(self) -> bool:
        return bool(self._owners)

    # Requests.

    @property
    def has_session(self) -> bool:
        """Whether the server has given a session id that is in use."""
        return bool(self._session)

    def _with_session(self, request: Request) -> Request:
        if not self._version or self.era == "sse":
            return request
        headers = {**request.headers, "MCP-Protocol-Version": self._version}
        if self._session:
            headers["Mcp-Session-Id"] = self._session
        return Request(request.stream, request.method, request.url, headers, request.body, request.patience)

    def _stream(
        self, role: Role, line: bytes, headers: Mapping[str, str], messages: list[Envelope], *, is_modern: bool = False
    ) -> Stream:
        asked = {
            key(message.id): Asked(message.id.copy(), message.method)
            for message in messages
            if message.id is not UNSET and message.method is not UNSET
        }
        number = self._next()
        url = self._endpoint if self.era == "sse" else self._url
        patience = None if asked and role == "line" and self.era != "sse" else QUICK
        request = Request(number, "POST", url, headers, line, patience)
        return Stream(number, role, request, asked, is_modern, self._ports.now())

    def _get(self, role: Role, last_event: str = "") -> Stream:
        number = self._next()
        headers = {**self._listening, "Last-Event-ID": last_event} if last_event else self._listening
        request = Request(number, "GET", self._url, headers, b"", None if role == "listen" else QUICK)
        return Stream(number, role, self._with_session(request), {}, False, self._ports.now())

    def _next(self) -> int:
        self._numbers += 1
        return self._numbers

    def _send(self, stream: Stream) -> None:
        self._streams[stream.number] = stream
        if stream.role == "line":
            for known in stream.open:
                self._owners[known] = stream
        stream.begun = self._ports.now()
        self._ports.request(stream.request)

    def _release(self) -> None:
        """Send what has waited, as far as nothing holds it back again."""
        self._barrier = 0
        while self._held and not (self._barrier or self.is_over or self._parting or self._has_left):
            line = self._held.popleft()
            self._held_bytes -= len(line)
            self.said(line)

    # From the server, by the number of the stream. A stream that was dropped gets no more.

    def advise(self, number: int, fix: str) -> None:
        """Take what the user can do about a refusal; its answer follows."""
        if (stream := self._streams.get(number)) is not None:
            stream.fix = fix

    def answered(self, number: int, status: int, headers: Mapping[str, str]) -> None:
        """Take the head of an answer; the names of the headers are in lower case."""
        stream = self._streams.get(number)
        if stream is None:
            return
        stream.status, stream.heard = status, self._ports.now()
        stream.kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        stream.events, stream.body, stream.size = None, [], 0
        if status in (301, 302, 303, 307, 308):
            self._redirected(stream, headers.get("location", ""))
        elif 200 <= status < 300:
            self._accepted(stream, headers)
        else:
            stream.retry = retry_after(headers) if status in (429, 503) else stream.retry
            stream.challenge = challenged([headers.get("www-authenticate", "")]) if status in (401, 403) else NONE

    def took(self, number: int, chunk: bytes) -> None:
        """Take a part of an answer's body, decompressed."""
        stream = self._streams.get(number)
        if stream is None:
            return
        stream.heard = self._ports.now()
        if stream.events is not None:
            self._took_events(stream, chunk)
            return
        is_refused = not 200 <= stream.status < 300
        limit = REFUSAL if is_refused else self.limits.max_line
        stream.size += len(chunk)
        if stream.size <= limit:
            stream.body.append(chunk)
        elif is_refused:
            self._ports.drop(number)
            self.ended(number)
        else:
            self._too_long(stream)

    def _took_events(self, stream: Stream, chunk: bytes) -> None:
        assert stream.events is not None
        try:
            for event in stream.events.feed(chunk):
                self._event(stream, event)
                if stream.number not in self._streams or self.is_over:
                    return
        except LineTooLong:
            self._too_long(stream)

    def _too_long(self, stream: Stream) -> None:
        self._fail(stream, f"sent an answer of more than {self.limits.max_line:,} bytes")
        if stream.role in ("endpoint", "probe"):
            self._finish(Ended(f"sent an answer of more than {self.limits.max_line:,} bytes", jitter=JITTER))
        else:
            self._drop(stream)

    def ended(self, number: int) -> None:
        """Note that an answer is complete."""
        stream = self._streams.get(number)
        if stream is None:
            return
        if not 200 <= stream.status < 300:
            self._refusal(stream)
        elif stream.events is not None:
            self._events_ended(stream, "ended its event stream")
        else:
            self._body_ended(stream)

    def broke(self, number: int, failure: Failure) -> None:
        """Note that a request failed."""
        stream = self._streams.get(number)
        if stream is None:
            return
        if stream.role == "delete":
            self._drop(stream)
        elif failure.is_denied:
            self._unauthorized(stream, failure)
        elif not failure.was_sent:
            self._unreached(stream, failure)
        elif stream.role == "sign" and not failure.timed_out and stream.attempts < SIGNS:
            stream.attempts += 1
            self._ports.request(stream.request)
        elif stream.role in ("sign", "probe"):
            self._finish(ended_by(failure))
        elif stream.events is not None or stream.is_resuming or stream.role in ("listen", "endpoint"):
            self._events_ended(stream, failure.how)
        else:
            self._give_up(stream, failure.how, failure.fix)

    def _give_up(self, stream: Stream, how: str, fix: str = "") -> None:
        """Fail the requests of a stream, or the connection if it has never worked."""
        if stream.open and not self.is_met:
            self._finish(Ended(how, reason=fix, jitter=JITTER))
            return
        self._fail(stream, how)
        self._over(stream)
        self.verify()

    def woke(self, number: int) -> None:
        """Note that the timer of a stream has gone off."""
        if self.is_over:
            return
        if number == self._parting:
            self._depart_now()
            return
        stream = self._streams.get(number)
        if stream is None:
            return
        if stream.is_waiting:
            self._repeat(stream)
        elif stream.role == "endpoint" and not self._endpoint:
            self._finish(
                Ended(f"opened an event stream, but did not say within {QUICK:g} s where to send", jitter=JITTER)
            )
        elif stream.role == "listen" or stream.is_resuming:
            self._listen_again(stream)

    def tick(self) -> None:
        """Look at the clock, now and then: ask a silent server for a sign of life, and tidy up."""
        now = self._ports.now()
        for stream in list(self._streams.values()):
            silence = now - stream.heard
            if stream.finished is not None and now - stream.finished >= LINGER:
                self._drop(stream)
            elif stream.body and stream.events is None and not stream.is_waiting and silence >= self.limits.idle:
                self._ports.drop(stream.number)
                self._give_up(stream, f"stopped in the middle of its answer: nothing came for {self.limits.idle:g} s")
            elif self._is_slow(stream, now):
                self._living(stream, None)  # it has begun to answer
            elif self._awaits(stream) and now - max(stream.heard, self._checked) >= self.limits.silence:
                self.verify()

    def _is_slow(self, stream: Stream, now: float) -> bool:
        """Whether an answer of ours has begun that does not end in its time."""
        limit = {"sign": self.limits.sign, "probe": QUICK}.get(stream.role)
        return limit is not None and bool(stream.status) and now - stream.begun >= limit

    def _awaits(self, stream: Stream) -> bool:
        if stream.role == "endpoint":
            return bool(self._owners)
        return bool(stream.open) and not stream.is_cancelled

    def leave(self) -> bool:
        """Begin to end the session; return whether there is one that the server should be told about."""
        self._has_left = True
        for stream in list(self._streams.values()):
            self._drop(stream)
        if self.is_over or not self._session or self.era == "sse":
            return False
        self._end_session(self._session)
        return True

    def _end_session(self, session: str) -> None:
        number = self._next()
        headers = {**self._headers, "Mcp-Session-Id": session, "MCP-Protocol-Version": self._version or VERSIONS[0]}
        request = Request(number, "DELETE", self._url, headers, b"", DELETE)
        self._send(Stream(number, "delete", request, {}, False, self._ports.now()))

    @property
    def is_leaving(self) -> bool:
        """Whether the end of the session is not answered yet."""
        return any(stream.role == "delete" for stream in self._streams.values())

    def stop(self, ended: Ended) -> None:
        """End the connection from our side."""
        self._finish(ended)

    # Answers.

    def _accepted(self, stream: Stream, headers: Mapping[str, str]) -> None:
        if any(asked.method == "initialize" for asked in stream.open.values()) and not stream.is_modern:
            session = headers.get("mcp-session-id", "")
            if session and not (session.isascii() and session.isprintable() and " " not in session):
                self._note("the id of its session has characters that are not allowed; it is not used")
                session = ""
            self._session = session
        if stream.role == "probe" and stream.step == "initialize" and (given := headers.get("mcp-session-id")):
            self._end_session(given)
        if stream.kind == "text/event-stream":
            stream.events = EventStream(limit=self.limits.max_line)
            if stream.role == "endpoint":
                self._ports.timer(stream.number, QUICK)

    def _event(self, stream: Stream, event: ServerEvent) -> None:
        if event.id.isprintable() and event.id and event.id == event.id.strip() and len(event.id) <= LONGEST_ID:
            # Any other cannot be sent back.
            if event.id != stream.last_event:
                stream.attempts = 0
            stream.last_event = event.id
        if event.retry is not None:
            stream.retry = min(event.retry, LONGEST_PAUSE)
        if stream.role == "endpoint" and event.kind == "endpoint":
            self._found_endpoint(event.data)
        elif event.kind == "message" and event.data.strip():
            stream.attempts = 0
            self._line(stream, one_line(event.data), is_direct=False)

    def _line(self, stream: Stream, line: bytes, *, is_direct: bool) -> None:
        for part in jsonrpc.batch(line) or (line,):
            self._part(stream, part, is_direct=is_direct)

    def _part(self, stream: Stream, line: bytes, *, is_direct: bool) -> None:
        message = jsonrpc.decode(line)
        if message is None:
            line = line.decode(errors="replace").encode()
            message = jsonrpc.decode(line)
        if message is None or message.method is not UNSET or message.id is UNSET:
            if not is_direct or (message is not None and message.method is not UNSET):
                self.is_met |= message is not None
                self._ports.receive(line)
            return
        self._settles(stream, message, line, is_direct=is_direct)

    def _settles(self, stream: Stream, message: Envelope, line: bytes, *, is_direct: bool) -> None:
        """Pass an answer on, if a request waits for it."""
        assert message.id is not UNSET
        known = key(message.id)
        if stream.role in ("probe", "sign"):
            self._living(stream, message)
            return
        if known in self._own:
            self._own.discard(known)
            self.is_met = True
            return
        owner = self._owners.get(known)
        if owner is None or (is_direct and known not in stream.open):
            if not (is_direct and len(stream.open) == 1 and message.error is not UNSET):
                return  # late, or an answer to nothing
            known, owner = next(iter(stream.open)), stream
            line = with_id(line, message, stream.open[known].id)
        del self._owners[known]
        asked = owner.open.pop(known)
        if not owner.open:
            owner.finished = self._ports.now()
        self._deliver(asked, message, line, is_modern=owner.is_modern)
        if not owner.open:
            self._unblock(owner)

    def _deliver(self, asked: Asked, message: Envelope, line: bytes, *, is_modern: bool) -> None:
        self.is_met = True
        if asked.method == "initialize" and not is_modern:
            self._introduced(message)
        elif asked.method == "server/discover" and is_modern and message.result is not UNSET:
            self._discovered(message)
        self._ports.receive(line)

    def _introduced(self, message: Envelope) -> None:
        if message.result is UNSET:
            self._session = ""
            if message.error is not UNSET and jsonrpc.fault(message.error).code == WRONG_VERSION:
                self._judge("modern")
            return
        read = jsonrpc.read(_introduction, message.result)
        version = read.version if read else ""
        is_fit = (
            version.isascii() and version.isprintable() and version == version.strip() and len(version) <= LONGEST_ID
        )
        self._version = version if version and is_fit else VERSIONS[0]
        if self.era != "sse":
            self._judge("legacy" if self.era != "modern" else "modern")

    def _discovered(self, message: Envelope) -> None:
        read = jsonrpc.read(_discovered, message.result) if message.result is not UNSET else None
        versions = read.versions if read and read.versions is not UNSET else []
        self._judge("modern" if MODERN in versions or not versions else "legacy")

    def _judge(self, era: Era) -> None:
        if era != self.era:
            self.era = era
            self._ports.remember_era(era)

    def _body_ended(self, stream: Stream) -> None:
        body, stream.body = b"".join(stream.body), []
        if stream.role == "delete":
            self._drop(stream)
        elif stream.role in ("listen", "endpoint"):
            self._no_stream(stream, f"answered {phrase(stream.status)} without an event stream")
        elif stream.role == "sign":
            self._living(stream, None)
        elif self._endpoint:  # the answers come on the event stream
            self._over(stream)
        else:
            self._answer_ended(stream, body)

    def _answer_ended(self, stream: Stream, body: bytes) -> None:
        if body and (stream.kind == "application/json" or (stream.open and body[:1] in b"{[")):
            self._line(stream, one_line(body), is_direct=True)
        if stream.number in self._streams and (stream.open or stream.role == "probe"):
            self._strange(stream, body)
        if not self.is_over:
            self._over(stream)

    def _events_ended(self, stream: Stream, how: str) -> None:
        """Handle the end of an event stream, however it came."""
        if stream.role == "endpoint":
            self._finish(Ended(how, jitter=JITTER))
        elif stream.role == "listen":
            self._rest(stream)
        elif stream.role in ("sign", "probe"):
            self._living(stream, None)
        elif not stream.open or stream.is_cancelled:
            self._fail(stream, how)
            self._over(stream)
        elif stream.last_event and not stream.is_modern and stream.attempts < RESUMES:
            stream.is_resuming = True
            stream.attempts += 1
            self._rest(stream)
        else:
            self._give_up(stream, how)

    def _rest(self, stream: Stream) -> None:
        """Wait, and ask for the rest of an event stream."""
        if stream.role == "listen":
            lived = self._ports.now() - stream.begun
            stream.attempts = 0 if lived > AGAIN_AT_MOST else stream.attempts + 1
        pause = AGAIN if stream.retry is None else stream.retry
        if stream.role == "listen" or stream.retry is None:
            pause = min(AGAIN_AT_MOST, max(pause, AGAIN * 2 ** (stream.attempts - 1) if stream.attempts > 1 else 0.0))
        stream.hasty = stream.hasty + 1 if self._ports.now() - stream.begun < AGAIN else 0
        if stream.hasty > HASTY:
            pause = max(pause, LEAST)
        stream.status, stream.events = 0, None
        stream.heard = self._ports.now() + pause
        self._ports.timer(stream.number, pause)

    def _listen_again(self, stream: Stream) -> None:
        again = self._get("listen", stream.last_event).request
        patience = None if stream.role == "listen" else QUICK
        stream.request = Request(stream.number, "GET", again.url, again.headers, b"", patience)
        stream.redirects = 0
        stream.begun = stream.heard = self._ports.now()
        self._ports.request(stream.request)

    def _fail(self, stream: Stream, how: str) -> None:
        """Answer every open request of a stream with an error."""
        for known, asked in stream.open.items():
            self._owners.pop(known, None)
            if not stream.is_cancelled:
                said = f'MCP server "{self.server}" {how} during {asked.method}, whose outcome is unknown'
                self._ports.receive(jsonrpc.error(asked.id, LOST, said, {"server": self.server}))
        stream.open.clear()

    def _refuse(self, stream: Stream, how: str, code: int = LOST) -> None:
        """Answer every open request of a stream, which had no effect, with an error."""
        for known, asked in stream.open.items():
            self._owners.pop(known, None)
            said = f'MCP server "{self.server}" {how}'
            self._ports.receive(jsonrpc.error(asked.id, code, said, {"server": self.server}))
        stream.open.clear()

    def _drop(self, stream: Stream) -> None:
        for known in stream.open:
            self._owners.pop(known, None)
        self._forget(stream)
        self._unblock(stream)

    def _forget(self, stream: Stream) -> None:
        self._streams.pop(stream.number, None)
        self._ports.drop(stream.number)
        if stream.number == self._sign:
            self._sign = 0

    def _over(self, stream: Stream) -> None:
        """Forget a stream that has ended, and go on after it."""
        self._forget(stream)
        if stream.role == "line" and not self._has_initialized and not stream.is_modern and self.era != "sse":
            is_it = b'"notifications/initialized"' in stream.request.body
            self._has_initialized = is_it and 200 <= stream.status < 300
            if self._has_initialized:
                self._send(self._get("listen"))
        self._unblock(stream)
        if self._parting:
            self._depart_if_all_know()

    def _unblock(self, stream: Stream) -> None:
        if self._barrier == stream.number:
            self._release()

    # The end of the connection, and requests that are sent again.

    def _depart(self, stream: Stream, ended: Ended) -> None:
        """Begin to end the connection because of a request that had no effect; others may learn the same."""
        if stream.role == "line" and not stream.is_resuming and (stream.open or not stream.status):
            self._refused[stream.number] = stream.request.body
        for known in stream.open:
            self._owners.pop(known, None)
        stream.open.clear()
        self._streams.pop(stream.number, None)
        if not self._parting:
            self._departure = ended
            self._parting = self._next()
            self._ports.timer(self._parting, PARTING)
        self._depart_if_all_know()

    def _depart_if_all_know(self) -> None:
        lines = [stream for stream in self._streams.values() if stream.role == "line" and not stream.is_waiting]
        if all(stream.status for stream in lines):
            self._depart_now()

    def _depart_now(self) -> None:
        self._finish(self._departure)

    def _wait(self, stream: Stream, pause: float) -> None:
        """Let a request that had no effect wait, to be sent again."""
        stream.is_waiting, stream.repeats = True, stream.repeats + 1
        stream.status, stream.events = 0, None
        stream.heard = self._ports.now() + pause
        self._ports.timer(stream.number, pause)

    def _repeat(self, stream: Stream) -> None:
        if self._parting:
            return  # it goes to the next connection
        stream.is_waiting, stream.redirects, stream.retry = False, 0, None
        stream.begun = stream.heard = self._ports.now()
        self._ports.request(stream.request)

    def _finish(self, ended: Ended, *, also: Stream | None = None) -> None:
        """End the connection. The request of `also` had no effect."""
        if self.is_over:
            return
        self.is_over = True
        if also is not None and also.role == "line" and also.open and not also.is_resuming:
            self._refused[also.number] = also.request.body
        for stream in self._streams.values():
            self._ports.drop(stream.number)
            if stream.is_waiting and stream.role == "line":
                self._refused[stream.number] = stream.request.body
        before = [self._refused[number] for number in sorted(self._refused)]
        self.unsent[:0] = [*before, *self._held]
        self._held.clear()
        self._streams.clear()
        self._owners.clear()
        self._ports.ended(ended)

    def _note(self, text: str) -> None:
        self._ports.note(text)

    def _note_once(self, text: str) -> None:
        if text not in self._has_noted and len(self._has_noted) < 100:
            self._has_noted.add(text)
            self._note(text)

    # What `Machine` adds.

    @abstractmethod
    def said(self, line: bytes) -> None: ...

    @abstractmethod
    def verify(self) -> None: ...

    @abstractmethod
    def _unreached(self, stream: Stream, failure: Failure) -> None: ...

    @abstractmethod
    def _refusal(self, stream: Stream) -> None: ...

    @abstractmethod
    def _unauthorized(self, stream: Stream, failure: Failure) -> None: ...

    @abstractmethod
    def _redirected(self, stream: Stream, location: str) -> None: ...

    @abstractmethod
    def _found_endpoint(self, data: bytes) -> None: ...

    @abstractmethod
    def _no_stream(self, stream: Stream, how: str) -> None: ...

    @abstractmethod
    def _living(self, stream: Stream, message: Envelope | None) -> None: ...

    @abstractmethod
    def _strange(self, stream: Stream, body: bytes) -> None: ...
