"""
A front as its host sees it: a line that is read and answered, and written to as fast as the other side reads.

What happens in the session that it follows is read from the session's window, so a slow front holds no memory of its
own, and delays neither others nor the agent, unless the host waits for it. An answer to it stands after the events
before it.
"""

import asyncio
import os
import socket
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from math import inf
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Raw
from msgspec.structs import replace

from acp_launch.bridge.seat import listening, peer_uid
from acp_launch.errors import LaunchError
from acp_launch.private import directory
from acp_launch.protocol import acp, jsonrpc
from acp_launch.protocol.jsonrpc import Called, Notified, Peer, as_line, notification
from acp_launch.protocol.window import Window
from acp_launch.rpc import Pump, TransportClosed
from acp_launch.secret.redact import redactor
from acp_launch.served.connect import SocketTransport
from acp_launch.served.wire import MISSED, READY, AttachOptions, as_fault, event_line
from acp_launch.session.events import NoteEvent

MAX_EVENTS = 50_000  # of a session that are kept for fronts
KEPT_BYTES = 16 * 1024 * 1024
KEPT_FOR = 3600.0  # seconds
MARKS = 1000  # turns whose front is remembered, twice
Known = Literal["here", "elsewhere"]  # to all fronts of the session; to those that follow another session, too
WRITE_BYTES = 256 * 1024  # of events in one write
MAX_BEHIND_BYTES = KEPT_BYTES // 2  # of events that a front was not written, where the agent waits for it


class SessionEvents:
    """All that happens in a session, by id, and which fronts are not shown an event."""

    def __init__(self, now: Callable[[], float], tell: Callable[[], None]) -> None:
        """`tell` has the fronts read on."""
        self.window = Window(count=MAX_EVENTS, size=KEPT_BYTES, age=KEPT_FOR)
        self.began = 0  # the last event before the latest turn
        self._answer = deque[tuple[int, bytes]]()  # the agent's answer in the latest turn, also once it left the window
        self._answer_bytes = 0
        self._now, self._tell = now, tell
        self._has_news = False
        self._known: dict[int, ClientConnection | Known] = {}  # by event: who knows it already
        self._marks: list[
            tuple[int, ClientConnection | None]
        ] = []  # the event before a turn, or before its end, and whose

    def add_answer(self, line: bytes) -> None:
        """Add an event of the agent's answer, which is kept until the next turn; of a longer one, its end."""
        self.add(line)
        self._answer.append((self.window.newest, line))
        self._answer_bytes += len(line)
        while self._answer_bytes > KEPT_BYTES:
            self._answer_bytes -= len(self._answer.popleft()[1])

    def lost_answer(self, last: int, front: "ClientConnection") -> list[bytes]:
        """Return the kept part of the answer after the event `last`, of events that left the window."""
        lost = self.window.lost
        return [line for id, line in self._answer if last < id <= lost and not self.is_hidden(id, front)]

    def add(self, line: bytes, known: "ClientConnection | Known | None" = None) -> None:
        """Add an event; `known` is who knows it already: one front, all that are here, or those in another session."""
        id = self.window.append(line, key=None, now=self._now())
        if known is not None:
            self._known[id] = known
            while next(iter(self._known)) <= self.window.lost:
                del self._known[next(iter(self._known))]
        if not self._has_news:
            self._has_news = True
            asyncio.get_running_loop().call_soon(self._read_on)

    def _read_on(self) -> None:
        """Have the fronts read on, once for all that has come: so they read the same pieces."""
        self._has_news = False
        self._tell()

    def hides(self, last: int, end: int, front: "ClientConnection") -> bool:
        """Return whether one of the events after `last` and up to `end` is not for this front."""
        for id in reversed(self._known):
            if id <= last:
                break
            if id <= end and self._is_known(id, front):
                return True
        return front.options.own_turns_only and self._has_turn_of_other(last, end, front)

    def _is_known(self, id: int, front: "ClientConnection") -> bool:
        known = self._known.get(id)
        if known == "here" and front.options.acp_only:  # it is not told of a turn's begin, and knows its own prompts
            return self._turn_of(id) is front
        return known in (front, "here") or (known == "elsewhere" and not front.is_first(self))

    def _has_turn_of_other(self, last: int, end: int, front: "ClientConnection") -> bool:
        for before, whose in reversed(self._marks):
            if before < end and whose not in (None, front):
                return True
            if before <= last:
                break
        return False

    def is_hidden(self, id: int, front: "ClientConnection") -> bool:
        """Return whether this event is not for this front, as it knows it already, or it is of another's turn."""
        return self._is_known(id, front) or (front.options.own_turns_only and self._turn_of(id) not in (None, front))

    def begin_turn(self, front: "ClientConnection") -> None:
        self.began = self.window.newest
        self._answer.clear()
        self._answer_bytes = 0
        self.mark(front)

    def mark(self, front: "ClientConnection | None") -> None:
        """Note that what follows is of a turn of this front, or of none."""
        self._marks.append((self.window.newest, front))
        del self._marks[:-MARKS]

    def forget(self, front: "ClientConnection") -> None:
        """Forget what a front knew that has left."""
        self._known = {id: known for id, known in self._known.items() if known is not front and id > self.began}
        self.window.unjoin()

    def _turn_of(self, id: int) -> "ClientConnection | None":
        """Return the front whose turn an event is of; None if it is of none."""
        return next((front for last, front in reversed(self._marks) if last < id), None)


class FrontGone(Exception):  # noqa: N818 - it reads as what happened
    """Raised by a request to a front that has left, or does not answer such requests."""


class UnknownMethod(Exception):  # noqa: N818 - not our error
    """Raised by `FrontServer.serve`."""


class FrontServer(Protocol):
    """What a front is attached to."""

    max_line: int

    def now(self) -> float: ...

    async def serve(self, front: "ClientConnection", method: str, params: dict[str, Any], raw: Raw) -> object:
        """Return the result of a request.

        Raises:
            LaunchError: it is refused.
            UnknownMethod: nothing serves it.
        """

    def on_notification(self, front: "ClientConnection", method: str, params: Raw) -> None:
        """Take a notification."""

    def note(self, text: str) -> None:
        """Take a line about a front that does not do what it should."""

    def on_gone(self, front: "ClientConnection") -> None:
        """Note that the front has left."""


class _Place:
    """Where a front is in the stream of a session: `at` is the last event that was written, `had` counts the bytes."""

    def __init__(self, stream: SessionEvents, at: int) -> None:
        self.stream, self.at = stream, at
        self.had = stream.window.appended - sum(len(line) for _, line in stream.window.since(at, 0.0) or ())
        self.is_held = False  # nothing of the stream is written, only answers


class ClientConnection:
    """The line to one front, which follows one session, or several of an editor."""

    def __init__(self, server: FrontServer, line: socket.socket) -> None:
        self.options = AttachOptions(name="", can_ask=False)  # those with which it has entered a session last
        self.can_elicit = False  # whether it shows forms and links
        self._server, self._line = server, line
        self._peer = Peer()
        self._transport = SocketTransport(line, "has left")
        self._places: dict[int, _Place] = {}  # by the identity of the stream
        self._said: deque[tuple[dict[int, int], bytes]] = deque()  # lines, and the events that they stand after
        self._news, self._has_written = asyncio.Event(), asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None
        self._pump = Pump(
            self._transport, self._receive, self, "a front", recover=self._peer.recover, max_line=server.max_line
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
            self._server.on_gone(self)
            self._line.close()
            self._places.clear()
            self._has_written.set()

    def close(self) -> None:
        """End it: its line is read to the end."""
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)

    # Messages to it.

    def say(self, line: bytes) -> None:
        """Write a line after all events so far."""
        after = {key: place.stream.window.newest for key, place in self._places.items() if not place.is_held}
        self._said.append((after, line))
        self.news()

    def news(self) -> None:
        self._news.set()

    def follow(self, stream: SessionEvents, at: int) -> None:
        """Write the events of a session from now on, those after the one with the id `at`."""
        self._places[id(stream)] = _Place(stream, at)

    def unfollow(self, stream: SessionEvents) -> None:
        self._places.pop(id(stream), None)
        self._has_written.set()
        self.news()

    def hold(self, stream: SessionEvents) -> None:
        """Write no event of the session until `resume`."""
        self._places[id(stream)].is_held = True

    def is_held(self, stream: SessionEvents) -> bool:
        return (place := self._places.get(id(stream))) is not None and place.is_held

    def resume(self, stream: SessionEvents) -> None:
        if (place := self._places.get(id(stream))) is not None:
            place.is_held = False
        self.news()

    def last_written(self, stream: SessionEvents) -> float:
        """Return the last event of the session that was written; infinite if it does not follow the session."""
        return place.at if (place := self._places.get(id(stream))) is not None else inf

    async def catch_up(self, stream: SessionEvents) -> None:
        """Wait while more than `MAX_BEHIND_BYTES` of the session's events are to be written."""
        while (place := self._places.get(id(stream))) is not None and not place.is_held:
            if stream.window.appended - place.had <= MAX_BEHIND_BYTES:
                break
            self._has_written.clear()
            await self._has_written.wait()

    def is_first(self, stream: SessionEvents) -> bool:
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
                self._has_written.set()

    def _piece(self) -> bytes:
        """Return the next bytes to write; empty if there are none."""
        parts: list[bytes] = []
        self._due(parts)
        for place in list(self._places.values()):
            while not (parts or place.is_held):
                piece = place.stream.window.joined(place.at, WRITE_BYTES, self._server.now())
                if piece is None:
                    parts += [event_line(NoteEvent(text=MISSED)), *place.stream.lost_answer(place.at, self)]
                    place.at = place.stream.window.lost
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
        place.had += len(lines)

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
            self._answer_nothing()
            raise FrontGone from error
        if answer.fault is not None:
            self._answer_nothing()
            raise FrontGone
        return answer.result

    def _answer_nothing(self) -> None:
        self.options = replace(self.options, can_ask=False)

    # What it says.

    def _receive(self, line: bytes) -> tuple[object, ...]:
        return (self._peer.receive(line),)

    def on_event(self, message: Called | Notified) -> None:
        assert self._tasks is not None
        if isinstance(message, Called):
            self._tasks.create_task(self._serve(message))
        else:
            self._server.on_notification(self, message.method, message.params)

    def note(self, text: str) -> None:
        self._server.note(text)

    def died(self, how: str, last_words: tuple[str, ...], method: str) -> LaunchError:
        return LaunchError(f"the front {how}")

    async def drain(self) -> None:
        """Return at once: what a front sends is little."""

    async def _serve(self, called: Called) -> None:
        try:
            params = acp.mapping(acp.decoded(called.params))
            result = await self._server.serve(self, called.method, params, called.params)
        except UnknownMethod:
            self.say(self._peer.refuse(called.id, jsonrpc.METHOD_NOT_FOUND, "method not found"))
        except LaunchError as error:
            code, message, data = as_fault(error)
            self.say(redactor.raw_json(self._peer.refuse(called.id, code, message, data)))
        except Exception as error:  # our bug costs the request, not the host
            self._pump.mishaps.add("a front", error)
            self.say(self._peer.refuse(called.id, jsonrpc.INTERNAL_ERROR, jsonrpc.BROKEN))
        else:
            self.say(self._peer.respond(called.id, result))


@asynccontextmanager
async def listen(attach: Callable[[socket.socket], None], state: Path) -> AsyncIterator[Path]:
    """Listen for fronts while the block runs; `attach` takes the line of each. `state` is the user's state directory.

    Raises:
        StateError: there is no place for the socket.
    """

    def accept(line: socket.socket) -> None:
        if peer_uid(line) not in (None, os.geteuid()):
            line.close()
            return
        with suppress(OSError):  # it has gone
            line.send(READY)
        attach(line)

    with directory(state) as place:
        async with listening(place, accept) as path:
            yield path
