"""
One MCP session of an agent that speaks HTTP, for the versions with a handshake (2024-11-05 to 2025-11-25). Sans-IO.

A conversation has one line in each direction; HTTP has many streams. So each message of the server gets a stream: an
answer goes to the stream of its request, progress to the stream of the request that owns the token, the server's own
requests and its log messages to the newest call, and everything else to the stream that the client opens with GET. No
message goes to two streams.

Each event has an id of its stream and its number, such as `3-7`. A client that lost its connection asks for the events
after the last one it got. Events are kept for that within bounds; an answer that had to be dropped is replaced by an
error, so that each request gets an answer. To close a stream does not cancel its request.
"""

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from msgspec import UNSET, Raw, Struct

from acp_launch.bridge.front.replies import ALIVE, ENDED, INVALID_REQUEST, PARSE_ERROR, Reply, event, priming, refuse
from acp_launch.mcp.message import cancelled_id, reported_token, wanted_token
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.acp import decoded, mapping
from acp_launch.protocol.ids import key
from acp_launch.protocol.jsonrpc import Envelope

INITIALIZE = "initialize"
PROGRESS, CANCELLED, LOG = "notifications/progress", "notifications/cancelled", "notifications/message"
CALLS = frozenset({"tools/call", "prompts/get", "resources/read", "completion/complete"})
KEPT = 4 * 1024 * 1024  # bytes of events kept for clients that lost their connection
KEPT_EVENTS = 4096
STREAMS = 256  # ended streams that can still be asked for
LISTENING = 4  # streams opened with GET at once; the newest gets the messages
RETRY = 1000  # milliseconds until a client that lost its connection tries again
PRIMED = ("2025-11-25",)  # clients of older versions do not expect an event without a message
DROPPED = "acp-launch has not kept this answer, because the connection to the client was lost for too long"
UNHEARD = "the agent does not listen for requests of the server"
NOT_KEPT = "there is no stream of this event, or it is not kept any more"
NO_MESSAGE = "the body is not a JSON-RPC message"


class Ports(Protocol):
    """The server's side of a session."""

    def send(self, line: bytes) -> None: ...


class Event(Struct):
    """A message on a stream; `answers` is the id of the request that it answers."""

    number: int
    text: bytes
    answers: Raw | None = None
    question: Raw | None = None  # the id of the server's request that it is
    is_replacement: bool = False  # of an answer that was dropped


class Stream:
    """The messages for the client in the answer to one POST, or (number 0) on its GET streams."""

    def __init__(self, number: int, reply: Reply | None, *, has_events: bool) -> None:
        self.number, self.reply, self.has_events = number, reply, has_events
        self.events: deque[Event] = deque()
        self.waiting: set[bytes] = set()  # requests without an answer
        self.tokens: set[bytes] = set()  # their progress tokens
        self.is_call = False
        self.last = self.sent = 0  # the numbers of the last event, and of the last one that was written to a client

    @property
    def is_ended(self) -> bool:
        return bool(self.number) and not self.waiting

    def id(self, number: int) -> str:
        return f"{self.number}-{number}"


class HttpSession:
    """A session and its streams; `id` is for the client's header."""

    def __init__(self, id: str, ports: Ports, *, kept: int = KEPT) -> None:
        self.id = id
        self.version = ""  # negotiated; empty before the server's answer
        self.is_refused = False  # the server has refused the handshake
        self.has_listened = False  # the client has opened a stream with GET
        self._ports, self._kept = ports, kept
        self._alone = Stream(0, None, has_events=True)
        self._listening: list[Reply] = []
        self._streams: dict[int, Stream] = {}
        self._owners: dict[bytes, Stream] = {}  # by the keys of open requests
        self._questions: dict[bytes, Stream] = {}  # by the keys of the server's open requests
        self._held = self._count = 0  # bytes and number of kept events
        self._number = 0
        self._opening = b""  # the key of `initialize`, until it is answered

    @property
    def replies(self) -> list[Reply]:
        """The HTTP requests that are being answered."""
        posted = [stream.reply for stream in self._streams.values() if stream.reply is not None]
        return [*posted, *self._listening]

    @property
    def is_waiting(self) -> bool:
        """Whether a request of the client has no answer yet."""
        return bool(self._owners)

    # The client.

    def posts(self, line: bytes, reply: Reply) -> None:
        """Take the body of a POST."""
        parts = jsonrpc.batch(line)
        lines = [line] if parts is None else parts
        messages = [jsonrpc.decode(part) for part in lines]
        if not messages or any(message is None or not _is_whole(message) for message in messages):
            refuse(reply, 400, PARSE_ERROR, NO_MESSAGE)
            return
        known = [message for message in messages if message is not None]
        asked = [message for message in known if message.method is not UNSET and message.id is not UNSET]
        if asked:
            self._asks(asked, reply)
        for message, part in zip(known, lines, strict=True):
            self._settle(message)
            self._ports.send(part)
        if not asked:
            reply.answer(202)

    def _asks(self, asked: Sequence[Envelope], reply: Reply) -> None:
        self._number += 1
        stream = Stream(self._number, reply, has_events=reply.takes_events)
        self._streams[stream.number] = stream
        for message in asked:
            assert message.id is not UNSET
            id = key(message.id)
            if (older := self._owners.get(id)) is not None:  # an answer could not tell them apart
                older.waiting.discard(id)
                self._finish(older)
            self._owners[id] = stream
            stream.waiting.add(id)
            stream.is_call = stream.is_call or message.method in CALLS
            if (token := wanted_token(message.params)) is not None:
                stream.tokens.add(key(token))
            if message.method == INITIALIZE:
                self._opening = id
        if stream.has_events and not self._opening:
            self._open(stream, reply)

    def _settle(self, message: Envelope) -> None:
        """Forget a question of the server that the client answers."""
        if message.method is UNSET and message.id is not UNSET:
            self._questions.pop(key(message.id), None)

    def forget_unheard(self) -> None:
        """Drop the notifications that wait for a GET stream: an elevated session replays, or ends, what they are of."""
        waiting = [kept for kept in self._alone.events if kept.number > self._alone.sent and kept.question is None]
        for kept in waiting:
            self._alone.events.remove(kept)
            self._held -= len(kept.text)
            self._count -= 1

    def listens(self, reply: Reply, last: str) -> None:
        """Take a GET; `last` is its `Last-Event-ID`, empty if it has none."""
        if last:
            self._resumes(reply, last)
            return
        self._listen(reply, self._alone.sent)

    def _listen(self, reply: Reply, seen: int) -> None:
        """Add a GET stream, which gets what came after event `seen`."""
        if len(self._listening) >= LISTENING:
            self._listening.pop(0).end()
        self._listening.append(reply)
        self.has_listened = True
        self._open(self._alone, reply, after=seen)
        for kept in self._alone.events:
            if kept.number > seen:
                reply.write(kept.text)
        self._alone.sent = self._alone.last

    def _resumes(self, reply: Reply, last: str) -> None:
        number, _, seen = last.partition("-")
        if not (_is_number(number) and _is_number(seen)):
            refuse(reply, 400, jsonrpc.INVALID_PARAMS, NOT_KEPT)
            return
        if int(number) == 0:
            self._listen(reply, int(seen))
            return
        stream = self._streams.get(int(number))
        if stream is None or not stream.has_events:
            refuse(reply, 400, jsonrpc.INVALID_PARAMS, NOT_KEPT)
            return
        if stream.reply is not None:
            stream.reply.end()
        stream.reply = reply
        self._open(stream, reply, after=int(seen))
        for kept in stream.events:
            if kept.number > int(seen):
                reply.write(kept.text)
        stream.sent = stream.last
        self._finish(stream)

    def gone(self, reply: Reply) -> None:
        """Note that the client has closed the connection. Its request goes on."""
        if reply in self._listening:
            self._listening.remove(reply)
            return
        for stream in self._streams.values():
            if stream.reply is reply:
                stream.reply = None
                stream.has_events = stream.has_events and reply.is_open  # else the client has no id to resume at
                self._finish(stream)
                return

    def beat(self) -> None:
        """Show every client that its connection is alive; called now and then."""
        for stream in list(self._streams.values()):
            reply = stream.reply
            if reply is not None and stream.has_events and not reply.is_open:
                self._open(stream, reply)
        for reply in self.replies:
            if reply.is_open and not reply.is_full:
                reply.write(ALIVE)

    def _open(self, stream: Stream, reply: Reply, *, after: int = 0) -> None:
        reply.open(session=self.id)
        if self.version in PRIMED:
            reply.write(priming(stream.id(after), RETRY))

    # The server.

    def says(self, line: bytes) -> None:
        """Take a line of the server."""
        parts = jsonrpc.batch(line)
        for part in [line] if parts is None else parts:
            if (message := jsonrpc.decode(part)) is not None:
                self._message(message, part)

    def _message(self, message: Envelope, line: bytes) -> None:
        if message.method is UNSET:
            self._answers(message, line)
            return
        stream = self._stream_for(message)
        made = Event(0, b"")
        if message.id is not UNSET:
            made.question = message.id.copy()
            self._questions[key(made.question)] = stream
        self._put(stream, made, line)

    def _answers(self, message: Envelope, line: bytes) -> None:
        if message.id is UNSET:
            return
        id = key(message.id)
        if id == self._opening:
            self._opening = b""
            self._introduced(message)
        stream = self._owners.pop(id, None)
        if stream is None:
            return
        stream.waiting.discard(id)
        reply = stream.reply
        if reply is not None and reply.takes_json and not reply.is_open and stream.is_ended and not stream.events:
            stream.reply = None
            reply.answer(200, line, session="" if self.is_refused else self.id)
            self._forget(stream)
            return
        self._put(stream, Event(0, b"", answers=message.id.copy()), line)
        self._finish(stream)

    def _introduced(self, message: Envelope) -> None:
        if message.result is UNSET:
            self.is_refused = True
            return
        version = mapping(decoded(message.result)).get("protocolVersion")
        self.version = version if isinstance(version, str) else ""

    def _stream_for(self, message: Envelope) -> Stream:
        if message.method == PROGRESS:
            said = reported_token(message.params)
            token = b"" if said is None else key(said)
            owners = (stream for stream in self._streams.values() if token in stream.tokens and stream.waiting)
            return self._able(next(owners, None))
        if message.method == CANCELLED:
            about = cancelled_id(message.params)
            return self._alone if about is None else self._questions.pop(key(about), self._alone)
        if message.id is not UNSET or message.method == LOG:
            return self._able(self._newest())
        return self._alone

    def _newest(self) -> Stream | None:
        """Return the stream of the newest open request, preferably of a call."""
        able = [stream for stream in self._streams.values() if stream.waiting and stream.has_events]
        return max(able, key=lambda stream: (stream.reply is not None, stream.is_call, stream.number), default=None)

    def _able(self, stream: Stream | None) -> Stream:
        return stream if stream is not None and stream.has_events else self._alone

    def _put(self, stream: Stream, made: Event, line: bytes) -> None:
        """Add an event to a stream, and send it if a client is connected."""
        if (
            stream.number and not stream.has_events
        ):  # its client takes JSON alone, or is gone without an id to resume at
            self._only_json(stream, made, line)
            return
        stream.last += 1
        made.number, made.text = stream.last, event(line, stream.id(stream.last))
        stream.events.append(made)
        self._held += len(made.text)
        self._count += 1
        reply = self._listener() if stream is self._alone else stream.reply
        if reply is not None:
            if not reply.is_open:
                self._open(stream, reply)
            reply.write(made.text)
            stream.sent = made.number
        self._drop()

    def _only_json(self, stream: Stream, made: Event, line: bytes) -> None:
        if stream.reply is None:
            return
        stream.events.append(Event(0, line))  # of a batch: one message for each request
        if stream.is_ended:
            lines = [kept.text for kept in stream.events]
            body = lines[0] if len(lines) == 1 else b"[" + b",".join(lines) + b"]"
            reply, stream.reply = stream.reply, None
            reply.answer(200, body, session=self.id)
            stream.events.clear()
            self._forget(stream)

    def _listener(self) -> Reply | None:
        return self._listening[-1] if self._listening else None

    def _finish(self, stream: Stream) -> None:
        """End a stream whose requests are all answered; its events are kept for a client that has lost them."""
        if not stream.is_ended:
            return
        stream.tokens.clear()
        if stream.reply is not None:
            reply, stream.reply = stream.reply, None
            if reply.is_open:
                reply.end()
            else:
                refuse(reply, 200, INVALID_REQUEST, "another request has its id")
        if not stream.events:
            self._forget(stream)
        ended = [old for old in self._streams.values() if old.is_ended]
        for old in ended[: max(0, len(ended) - STREAMS)]:
            self._forget(old)

    def _forget(self, stream: Stream) -> None:
        self._streams.pop(stream.number, None)
        self._held -= sum(len(kept.text) for kept in stream.events if kept.number)
        self._count -= sum(1 for kept in stream.events if kept.number)
        stream.events.clear()

    def _drop(self) -> None:
        """Drop the oldest events until the bounds hold: first those that a client has been sent."""
        while self._count > 1 and (self._held > self._kept or self._count > KEPT_EVENTS):
            streams = [stream for stream in (*self._streams.values(), self._alone) if stream.events]
            sent = [stream for stream in streams if stream.events[0].number <= stream.sent]
            stream = min(sent or streams, key=lambda each: (each.events[0].is_replacement, each.number or self._number))
            oldest = stream.events.popleft()
            self._held -= len(oldest.text)
            self._count -= 1
            if oldest.number <= stream.sent:
                continue
            if oldest.question is not None and key(oldest.question) in self._questions:
                del self._questions[key(oldest.question)]
                self._ports.send(jsonrpc.error(oldest.question, jsonrpc.INTERNAL_ERROR, UNHEARD))
            if oldest.answers is not None:
                self._replace(stream, oldest)

    def _replace(self, stream: Stream, oldest: Event) -> None:
        """Keep an error in place of an answer that no client has got."""
        assert oldest.answers is not None
        oldest.text = event(jsonrpc.error(oldest.answers, ENDED, DROPPED), stream.id(oldest.number))
        oldest.answers, oldest.is_replacement = None, True
        stream.events.appendleft(oldest)
        self._held += len(oldest.text)
        self._count += 1

    def end(self, why: str) -> None:
        """End the session: every open request is answered with an error, and every stream is closed."""
        for stream in list(self._streams.values()):
            for id in sorted(stream.waiting):
                self._answers(Envelope(id=Raw(id)), jsonrpc.error(Raw(id), ENDED, why))
            if stream.reply is not None:
                stream.reply.end()
        for reply in self._listening:
            reply.end()
        self._listening.clear()
        self._streams.clear()


def _is_whole(message: Envelope) -> bool:
    return message.method is not UNSET or message.id is not UNSET


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= jsonrpc.DIGITS
