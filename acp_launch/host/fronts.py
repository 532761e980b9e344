"""
A front as its host sees it: a line that is read and answered, and written to as fast as the other side reads.

What happens in the session that it follows is read from the session's window, so a slow front delays neither the agent
nor others, and holds no memory of its own. An answer to it stands after the events before it.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

import msgspec
from msgspec import Raw, Struct

from acp_launch.errors import LaunchError
from acp_launch.host.wire import SocketTransport, as_fault, event
from acp_launch.protocol import acp, jsonrpc
from acp_launch.protocol.jsonrpc import Called, Notified, Peer, as_line, notification
from acp_launch.protocol.window import Window
from acp_launch.rpc import Pump, TransportClosed
from acp_launch.secret.redact import redactor
from acp_launch.session.permission.policy import Approve

PIECE = 256 * 1024  # bytes of events in one write


class FrontGone(Exception):  # noqa: N818 - it reads as what happened
    """Raised by a request to a front that has left, or does not answer such requests."""


class UnknownMethod(Exception):  # noqa: N818 - not an error of ours
    """Raised by `House.serve`."""


class EventStream(Protocol):
    """What a front follows."""

    window: Window

    def is_hidden(self, id: int, front: "FrontLine") -> bool:
        """Return whether this event is not for this front, as it knows it already, or it is of another's turn."""

    def hides(self, last: int, end: int, front: "FrontLine") -> bool:
        """Return whether one of the events after `last` and up to `end` is not for this front."""


class House(Protocol):
    """What a front is attached to."""

    max_line: int

    def now(self) -> float: ...

    async def serve(self, front: "FrontLine", method: str, params: dict[str, Any], raw: Raw) -> object:
        """Return the result of a request.

        Raises:
            LaunchError: it is refused.
            UnknownMethod: nothing serves it.
        """

    def told(self, front: "FrontLine", method: str, params: Raw) -> None:
        """Take a notification."""

    def note(self, text: str) -> None:
        """Take a line about a front that does not do what it should."""

    def gone(self, front: "FrontLine") -> None:
        """Note that the front has left."""


class _Place:
    """Where a front is in the stream of a session: `at` is the last event that was written."""

    def __init__(self, stream: EventStream, at: int) -> None:
        self.stream, self.at = stream, at
        self.is_held = False  # nothing of the stream is written, only answers


class FrontLine:
    """The line to one front, which follows one session, or several of an editor."""

    def __init__(self, house: House, line: socket.socket) -> None:
        self.can_ask = False  # whether a user can be asked there
        self.can_elicit = False  # whether it shows forms and links
        self.approve: Approve | None = None  # `--approve` of its turns
        self.is_alone = False  # it is not shown the turns of others
        self.is_editor = False  # it enters several sessions, and is asked in the words of ACP
        self._house, self._line = house, line
        self._peer = Peer()
        self._transport = SocketTransport(line, "has left")
        self._places: dict[int, _Place] = {}  # by the identity of the stream
        self._said: deque[tuple[dict[int, int], bytes]] = deque()  # lines, and the events that they stand after
        self._news = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None
        self._pump = Pump(
            self._transport, self._receive, self, "a front", spoilt=self._peer.spoilt, max_line=house.max_line
        )

    async def run(self) -> None:
        try:
            async with self._pump.running() as self._tasks:
                self._tasks.create_task(self._write())
                await self._pump.over()
                raise FrontGone
        except (FrontGone, TransportClosed, LaunchError):
            pass  # it left, also while we wrote to it, or broke the protocol: other fronts go on
        finally:
            self._house.gone(self)
            self._line.close()

    def close(self) -> None:
        """End it: its line is read to the end."""
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)

    # What is written to it.

    def say(self, line: bytes) -> None:
        """Write a line after all events so far."""
        after = {key: place.stream.window.newest for key, place in self._places.items() if not place.is_held}
        self._said.append((after, line))
        self.news()

    def news(self) -> None:
        self._news.set()

    def follow(self, stream: EventStream, at: int) -> None:
        """Write the events of a session from now on, those after the one with the id `at`."""
        self._places[id(stream)] = _Place(stream, at)

    def unfollow(self, stream: EventStream) -> None:
        self._places.pop(id(stream), None)
        self.news()

    def hold(self, stream: EventStream) -> None:
        """Write no event of the session until `go_on`."""
        self._places[id(stream)].is_held = True

    def is_held(self, stream: EventStream) -> bool:
        return (place := self._places.get(id(stream))) is not None and place.is_held

    def go_on(self, stream: EventStream) -> None:
        if (place := self._places.get(id(stream))) is not None:
            place.is_held = False
        self.news()

    def is_first(self, stream: EventStream) -> bool:
        """Tell whether of all that it follows this session is the one that tells what concerns the whole host."""
        return next(iter(self._places), id(stream)) == id(stream)

    def show(self, line: bytes) -> None:
        """Write a line now, before the events that were not written yet."""
        self._said.append(({}, line))
        self.news()

    async def _write(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while piece := self._piece():
                await self._transport.write(piece)

    def _piece(self) -> bytes:
        """Return what is to be written next; empty if there is nothing."""
        parts: list[bytes] = []
        self._due(parts)
        for place in list(self._places.values()):
            while not (parts or place.is_held):
                piece = place.stream.window.joined(place.at, PIECE, self._house.now())
                if piece is None:
                    parts.append(event("missed", place.stream.window.newest))
                    place.at = place.stream.window.newest
                elif piece[0] == place.at:
                    break
                else:
                    self._take(place, piece, parts)
                self._due(parts)
        return b"".join(parts)

    def _take(self, place: _Place, piece: tuple[int, bytes], parts: list[bytes]) -> None:
        """Add the events of a piece: as they are for all, if nothing stands between them and none is hidden."""
        end, lines = piece
        stream = place.stream
        stands = self._said[0][0].get(id(stream), end) if self._said else end
        if stands >= end and not stream.hides(place.at, end, self):
            parts.append(lines)
        else:
            for number, line in stream.window.between(place.at, end):
                if not stream.is_hidden(number, self):
                    parts.append(line)
                place.at = number
                self._due(parts)
        place.at = end

    def _due(self, parts: list[bytes]) -> None:
        """Add the lines whose events were written, and those of sessions that it does not follow any more."""
        while self._said and all(self._is_past(key, id) for key, id in self._said[0][0].items()):
            parts.append(self._said.popleft()[1])

    def _is_past(self, key: int, id: int) -> bool:
        place = self._places.get(key)
        return place is None or place.at >= id

    async def request(self, method: str, params: Mapping[str, object]) -> Raw:
        """Ask the front.

        Raises:
            FrontGone: it left, or does not answer such requests.
        """
        call = self._peer.call(method, params)
        try:
            with self._pump.asking(jsonrpc.Call(call.number, method, b"")) as future:
                self.say(call.line)
                try:
                    answer = await future
                except asyncio.CancelledError:
                    self.say(as_line(notification("$/cancel_request", {"requestId": call.number})))
                    raise
        except LaunchError as error:
            self.can_ask = False
            raise FrontGone from error
        if answer.fault is not None:
            self.can_ask = False
            raise FrontGone
        return answer.result

    # What it says.

    def _receive(self, line: bytes) -> tuple[object, ...]:
        return (self._peer.receive(line),)

    def take(self, message: Called | Notified) -> None:
        assert self._tasks is not None
        if isinstance(message, Called):
            self._tasks.create_task(self._serve(message))
        else:
            self._house.told(self, message.method, message.params)

    def note(self, text: str) -> None:
        self._house.note(text)

    def died(self, how: str, last_words: tuple[str, ...], method: str) -> LaunchError:
        return LaunchError(f"the front {how}")

    async def drain(self) -> None:
        """Return at once: what a front sends is little."""

    async def _serve(self, called: Called) -> None:
        try:
            params = acp.mapping(acp.decoded(called.params))
            result = await self._house.serve(self, called.method, params, called.params)
        except UnknownMethod:
            self.say(self._peer.refuse(called.id, jsonrpc.METHOD_NOT_FOUND, "method not found"))
        except LaunchError as error:
            code, message, data = as_fault(error)
            self.say(redactor.raw_json(self._peer.refuse(called.id, code, message, data)))
        except Exception as error:  # a bug of ours costs the request, not the host
            self._pump.mishaps.add("a front", error)
            self.say(self._peer.refuse(called.id, jsonrpc.INTERNAL_ERROR, jsonrpc.BROKEN))
        else:
            self.say(self._peer.respond(called.id, result))


LAST = frozenset(
    {
        "usage_update",
        "plan",
        "current_mode_update",
        "config_option_update",
        "available_commands_update",
        "session_info_update",
    }
)
CALLS = frozenset({"tool_call", "tool_call_update"})


class _Params(Struct):
    update: Raw


class _Line(Struct):
    params: _Params


class _Update(Struct):
    sessionUpdate: str  # noqa: N815 - as on the wire
    toolCallId: str = ""  # noqa: N815


_line, _update = msgspec.json.Decoder(_Line), msgspec.json.Decoder(_Update)
_members = msgspec.json.Decoder(dict[str, Raw])


def coalesce(lines: Sequence[bytes]) -> list[bytes]:
    """Return what is left of these lines, each a `session/update`; one that cannot be read stays as it is."""
    left: list[bytes | None] = []
    last: dict[str, int] = {}  # the place of the latest, by kind
    calls: dict[str, int] = {}  # the place of the first, by call
    for line in lines:
        try:
            update = _update.decode(_line.decode(line).params.update)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            left.append(line)
            continue
        if update.sessionUpdate in CALLS and update.toolCallId in calls:
            place = calls[update.toolCallId]
            left[place] = _merge(left[place] or b"", line)
            continue
        if update.sessionUpdate in CALLS:
            calls[update.toolCallId] = len(left)
        elif update.sessionUpdate in LAST:
            if update.sessionUpdate in last:
                left[last[update.sessionUpdate]] = None
            last[update.sessionUpdate] = len(left)
        left.append(line)
    return [line for line in left if line is not None]


def _merge(first: bytes, second: bytes) -> bytes:
    """Return the first line with the members that the update of the second replaces (ACP v1 "tool calls")."""
    said = _members.decode(_line.decode(first).params.update)
    more = _members.decode(_line.decode(second).params.update)
    del more["sessionUpdate"]
    head, _, _ = first.partition(b'"update":')
    return head + b'"update":' + msgspec.json.encode(said | more) + b"}}\n"
