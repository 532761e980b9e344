"""
Several sessions of an agent with one conversation of a server (`share: true`).

    session 0 ──▶                ──▶
    session 1 ──▶  Multiplexer   ──▶  the server, by its relay
    session 2 ◀──                ◀──

`Multiplexer` is sans-IO: lines in, lines out. `SharedLink` has the connections, which a relay uses as if they were one.

Each request gets an id of ours, and a progress token of ours if it has one; both are changed back in what the server
sends (M-39). What a session asks of the server for itself alone is kept apart here, because the server knows only one
client:

- the handshake is that of the first session; the others get the same answer
- a resource is subscribed to as long as one session is, and its updates go to those that are
- the server's log level is the most verbose that a session has asked for, and each gets what its own level admits
- what the server asks goes to the session with the newest open call, else to the first that declared to answer it
- a session that ends cancels its requests, and what it held is given up

Sessions without a handshake (2026-07-28) share in the same way, but not together with others.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from msgspec import UNSET, Raw, Struct, field

from acp_launch.bridge.link import Link, LinkEnd, LinkUser, QuickWay
from acp_launch.bridge.seat import ShimConnection
from acp_launch.mcp.era import (
    CANCELLED,
    DISCOVER,
    INITIALIZE,
    INITIALIZED,
    LOG,
    PING,
    PROGRESS,
    SET_LEVEL,
    SUBSCRIBE,
    SUBSCRIPTION,
    UNSUBSCRIBE,
    UPDATED,
    is_stateless,
)
from acp_launch.mcp.message import answer_to, cancelled_id, renumber, reported_token
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.acp import decoded, mapping
from acp_launch.protocol.jsonrpc import METHOD_NOT_FOUND, NULL, Envelope, key
from acp_launch.protocol.splice import replaced
from acp_launch.protocol.written import written
from acp_launch.waits import stretch

CALLS = frozenset({"tools/call", "prompts/get", "resources/read", "completion/complete"})
NEEDS = {  # method of a request of the server → the capability of a client that answers it
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
USUAL = "info"  # the level of a session that has asked for none, once another has
UNREADABLE = "this line is not a JSON-RPC message and was not passed on"
MIXED = "this server is shared with a session of another era of MCP; remove share, to use both at once"
SHARED = "this server is shared with a session that has begun with a handshake; begin with initialize"
ENDED = "the session that was asked has ended"
UNANSWERED = "no session of the agent answers this"


class Ports(Protocol):
    """The two sides of a multiplexer. They must not call it."""

    def to_server(self, line: bytes) -> None: ...

    def to_session(self, session: int, line: bytes) -> None: ...


class _Asker(Struct):
    """A session's request; `token` is its progress token."""

    session: int
    id: Raw
    token: Raw | None = None


class _Asked(Struct):
    """An open request to the server, for several sessions if they asked the same; for none if it is our own."""

    method: str
    askers: list[_Asker]
    about: str = ""  # the address of a resource, or a level


class _Session(Struct):
    """What is known of one session."""

    is_stateless: bool | None = None  # None before its first request
    is_open: bool = False  # it has the server's answer to the handshake, or needs none
    able: dict[str, Any] = field(default_factory=dict)  # the capabilities that it declared
    level: str = ""


class Multiplexer:
    """The sessions of one server. Numbers name them, and are never used again."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._sessions: dict[int, _Session] = {}
        self._joined = 0
        self._number = 0
        self._asked: dict[int, _Asked] = {}
        self._questions: dict[bytes, tuple[int, Raw]] = {}  # the server's requests: which session has them
        self._subscribed: dict[str, set[int]] = {}  # by the address of the resource
        self._joinable: dict[str, int] = {}  # open subscriptions that a further session may wait for, by address
        self._opening: int | None = None  # the open handshake
        self._hello: Raw | None = None  # the server's answer to it
        self._is_introduced = False  # the server knows that it was answered
        self._level = ""  # that the server was asked for

    def joins(self) -> int:
        """Add a session, and return its number."""
        self._joined += 1
        self._sessions[self._joined] = _Session()
        return self._joined

    def owes(self, session: int) -> bool:
        """Tell whether a request of this session has no answer yet."""
        return any(asker.session == session for asked in self._asked.values() for asker in asked.askers)

    def leaves(self, session: int) -> None:
        """End a session: its requests are cancelled, its subscriptions ended, and what it was asked is refused."""
        del self._sessions[session]
        for number, asked in list(self._asked.items()):
            asked.askers = [asker for asker in asked.askers if asker.session != session]
            if not asked.askers and asked.method not in (INITIALIZE, SUBSCRIBE, UNSUBSCRIBE, SET_LEVEL):
                del self._asked[number]
                params = {"requestId": number, "reason": "the session has ended"}
                self._ports.to_server(jsonrpc.notification(CANCELLED, params))
        for id, (asked_of, own) in list(self._questions.items()):
            if asked_of == session:
                del self._questions[id]
                self._ports.to_server(jsonrpc.error(own, jsonrpc.INTERNAL_ERROR, ENDED))
        for uri in [uri for uri, subscribers in self._subscribed.items() if session in subscribers]:
            if self._unsubscribes(session, uri):
                self._send(UNSUBSCRIBE, {"uri": uri}, _Asked(UNSUBSCRIBE, []))
        self._adjust()

    # A session.

    def says(self, session: int, line: bytes) -> None:
        """Take a line of a session."""
        for part in jsonrpc.batch(line) or (line,):
            message = jsonrpc.decode(part)
            if message is None or (message.method is UNSET and message.id is UNSET):
                if part.strip():
                    self._ports.to_session(session, jsonrpc.error(NULL, jsonrpc.PARSE_ERROR, UNREADABLE))
            elif message.method is UNSET:
                self._answers(session, message, part)
            elif message.id is UNSET:
                self._notifies(session, message, part)
            else:
                self._asks(session, message, part)

    def _answers(self, session: int, message: Envelope, line: bytes) -> None:
        assert message.id is not UNSET
        if self._questions.get(id := key(message.id), (0, NULL))[0] == session:
            del self._questions[id]
            self._ports.to_server(line)

    def _notifies(self, session: int, message: Envelope, line: bytes) -> None:
        if message.method == INITIALIZED:
            if self._is_introduced or (self._hello is None and self._opening is None):
                return
            self._is_introduced = True
        if message.method == CANCELLED:
            self._cancels(session, message.params, line)
        else:
            self._ports.to_server(line)

    def _cancels(self, session: int, params: Raw, line: bytes) -> None:
        """Cancel a request, unless another session waits for it, too."""
        cancelled = cancelled_id(params)
        if cancelled is None:
            return
        for number, asked in self._asked.items():
            asker = next((each for each in asked.askers if each.session == session), None)
            if asker is not None and key(asker.id) == key(cancelled) and not _is_common(asked.method):
                self._ports.to_server(replaced(line, ("params", "requestId"), written(number)))
                return

    def _asks(self, session: int, message: Envelope, line: bytes) -> None:
        assert message.id is not UNSET
        asker, params = _Asker(session, message.id.copy()), mapping(decoded(message.params))
        if message.method == DISCOVER:
            self._discovers(asker, line)
        elif self._is_mixed(session, is_stateless(message.params)):
            self._refuse(asker, jsonrpc.INVALID_REQUEST, MIXED)
        elif message.method == INITIALIZE:
            self._introduces(asker, params, line)
        elif message.method == SET_LEVEL:
            self._levels(asker, params.get("level"), line)
        elif message.method == SUBSCRIBE and isinstance(uri := params.get("uri"), str):
            self._subscribes(asker, uri, line)
        elif message.method == UNSUBSCRIBE and isinstance(uri := params.get("uri"), str):
            if self._unsubscribes(session, uri):
                self._forward(line, _Asked(UNSUBSCRIBE, [asker]))
            else:
                self._grant(asker)
        else:
            self._forward(line, _Asked(str(message.method), [asker]))

    def _discovers(self, asker: _Asker, line: bytes) -> None:
        """Let a session ask for the server's era, unless another one has begun with a handshake.

        That does not show the era of the session itself, as it may begin with a handshake, too.
        """
        if any(each.is_stateless is False for each in self._sessions.values()):
            self._refuse(asker, METHOD_NOT_FOUND, SHARED)
        else:
            self._forward(line, _Asked(DISCOVER, [asker]))

    def _is_mixed(self, session: int, is_stateless: bool) -> bool:
        """Note the era of a session; tell whether another one is of the other era."""
        self._sessions[session].is_stateless = is_stateless
        self._sessions[session].is_open |= is_stateless
        return any(each.is_stateless not in (None, is_stateless) for each in self._sessions.values())

    def _introduces(self, asker: _Asker, params: dict[str, Any], line: bytes) -> None:
        self._sessions[asker.session].able = mapping(params.get("capabilities"))
        if self._hello is not None:
            self._ports.to_session(asker.session, jsonrpc.result(asker.id, self._hello))
            self._opens(asker.session)
        elif self._opening is not None:
            self._asked[self._opening].askers.append(asker)
        else:
            self._opening = self._forward(line, _Asked(INITIALIZE, [asker]))

    def _levels(self, asker: _Asker, level: object, line: bytes) -> None:
        """Ask for the most verbose level; a level that we do not know is the server's to refuse."""
        if level not in LEVELS:
            self._forward(line, _Asked(SET_LEVEL, [asker]))
            return
        assert isinstance(level, str)
        self._sessions[asker.session].level = level
        if (wanted := self._wanted()) == self._level:
            self._grant(asker)
            return
        self._level = wanted
        self._forward(replaced(line, ("params", "level"), written(wanted)), _Asked(SET_LEVEL, [asker], wanted))

    def _wanted(self) -> str:
        """Return the most verbose level of the sessions; empty if none has asked for one."""
        asked = [session.level for session in self._sessions.values() if session.is_open or session.level]
        return min((level or USUAL for level in asked), key=LEVELS.index) if any(asked) else ""

    def _adjust(self) -> None:
        """Ask for another level if a session that wanted this one has ended, or one has come that wants more."""
        wanted = self._wanted()
        if wanted and wanted != self._level:
            self._level = wanted
            self._send(SET_LEVEL, {"level": wanted}, _Asked(SET_LEVEL, [], wanted))

    def _subscribes(self, asker: _Asker, uri: str, line: bytes) -> None:
        is_new = not self._subscribed.get(uri)
        self._subscribed.setdefault(uri, set()).add(asker.session)
        if (open := self._joinable.get(uri)) is not None:
            self._asked[open].askers.append(asker)
        elif is_new:
            self._joinable[uri] = self._forward(line, _Asked(SUBSCRIBE, [asker], uri))
        else:
            self._grant(asker)

    def _unsubscribes(self, session: int, uri: str) -> bool:
        """Take a session off a resource; return whether it was the last, so that the server must be told."""
        subscribers = self._subscribed.get(uri)
        if subscribers is None or session not in subscribers:
            return False
        subscribers.discard(session)
        if subscribers:
            return False
        del self._subscribed[uri]
        self._joinable.pop(uri, None)  # a further session needs a subscription that comes after the end of this one
        return True

    def _forward(self, line: bytes, asked: _Asked) -> int:
        self._number += 1
        line, token = renumber(line, self._number)
        if asked.askers:
            asked.askers[0].token = token
        self._asked[self._number] = asked
        self._ports.to_server(line)
        return self._number

    def _send(self, method: str, params: object, asked: _Asked) -> None:
        """Send a request of our own."""
        self._number += 1
        self._asked[self._number] = asked
        self._ports.to_server(jsonrpc.request(self._number, method, params))

    def _grant(self, asker: _Asker) -> None:
        """Answer what the server has granted before."""
        self._ports.to_session(asker.session, jsonrpc.result(asker.id, {}))

    def _refuse(self, asker: _Asker, code: int, why: str) -> None:
        self._ports.to_session(asker.session, jsonrpc.error(asker.id, code, why))

    # The server.

    def hears(self, line: bytes) -> None:
        """Take a line of the server."""
        for part in jsonrpc.batch(line) or (line,):
            message = jsonrpc.decode(part)
            if message is None:
                continue
            if message.method is UNSET:
                self._answered(message, part)
            elif message.id is UNSET:
                for session, told in self._told(message, part):
                    self._ports.to_session(session, told)
            else:
                self._questioned(message, part)

    def _answered(self, message: Envelope, line: bytes) -> None:
        number = decoded(message.id) if message.id is not UNSET else None
        asked = self._asked.pop(number, None) if isinstance(number, int) else None
        if asked is None:
            return
        assert isinstance(number, int)
        is_granted = message.result is not UNSET
        if asked.method == INITIALIZE:
            self._greeted(asked, message)
        elif asked.method == SUBSCRIBE:
            self._settle(asked, number, is_granted=is_granted)
        elif asked.method == SET_LEVEL and not is_granted and self._level == asked.about:
            self._level = ""  # it is asked for again
        for asker in asked.askers:
            self._ports.to_session(asker.session, answer_to(line, asker.id, number))

    def _greeted(self, asked: _Asked, message: Envelope) -> None:
        """Note the answer to the handshake; after a refusal the next session may try."""
        self._opening = None
        if message.result is UNSET:
            self._is_introduced = False
            return
        self._hello = message.result.copy()
        for asker in asked.askers:
            self._opens(asker.session)

    def _opens(self, session: int) -> None:
        self._sessions[session].is_open = True
        self._adjust()

    def _settle(self, asked: _Asked, number: int, *, is_granted: bool) -> None:
        if self._joinable.get(asked.about) != number:
            return
        del self._joinable[asked.about]
        if not is_granted:
            self._subscribed.pop(asked.about, None)

    def _questioned(self, message: Envelope, line: bytes) -> None:
        assert message.id is not UNSET
        id = message.id.copy()
        session = None if message.method == PING else self._addressee(str(message.method))
        if message.method == PING:
            self._ports.to_server(jsonrpc.result(id, {}))
        elif session is None:
            self._ports.to_server(jsonrpc.error(id, METHOD_NOT_FOUND, UNANSWERED))
        else:
            self._questions[key(id)] = session, id
            self._ports.to_session(session, line)

    def _addressee(self, method: str) -> int | None:
        """Return the session that a request of the server is for: it is about a call of that session, if there is
        one, and then it is for no other."""
        calling = [asker.session for asked in self._asked.values() if asked.method in CALLS for asker in asked.askers]
        candidates = [*reversed(calling)] or [number for number, each in self._sessions.items() if each.is_open]
        need = NEEDS.get(method)
        able = (number for number in candidates if need is None or need in self._sessions[number].able)
        return next(able, None)

    def _told(self, message: Envelope, line: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the sessions that get a notification, and what each gets."""
        if message.method == PROGRESS:
            yield from self._progressed(message.params, line)
            return
        if message.method == CANCELLED:
            cancelled = cancelled_id(message.params)
            asked_of = self._questions.pop(key(cancelled), None) if cancelled is not None else None
            if asked_of is not None:
                yield asked_of[0], line
            return
        params = mapping(decoded(message.params))
        subscription = mapping(params.get("_meta")).get(SUBSCRIPTION)
        if subscription is not None:
            owner = self._asker(subscription)
            if owner is not None:
                yield owner.session, replaced(line, ("params", "_meta", SUBSCRIPTION), bytes(owner.id))
            return
        for session in self._listeners(str(message.method), params):
            yield session, line

    def _progressed(self, params: Raw, line: bytes) -> Iterator[tuple[int, bytes]]:
        token = reported_token(params)
        owner = None if token is None else self._asker(decoded(token))
        if owner is not None and owner.token is not None:
            yield owner.session, replaced(line, ("params", "progressToken"), bytes(owner.token))

    def _asker(self, number: object) -> _Asker | None:
        asked = self._asked.get(number) if isinstance(number, int) else None
        return asked.askers[0] if asked is not None and asked.askers else None

    def _listeners(self, method: str, params: dict[str, Any]) -> Iterable[int]:
        there = [number for number, session in self._sessions.items() if session.is_open]
        if method == UPDATED:
            return self._subscribers(there, params.get("uri"))
        if method == LOG and params.get("level") in LEVELS:
            weight = LEVELS.index(params["level"])
            return [number for number in there if weight >= self._least(self._sessions[number])]
        return there

    def _subscribers(self, there: Iterable[int], uri: object) -> Iterable[int]:
        """Return the subscribers of a resource, or of one that it is a part of."""
        if not isinstance(uri, str):
            return ()
        found = self._subscribed.get(uri)
        if found is None:
            parents = (each for address, each in self._subscribed.items() if uri.startswith(address))
            found = set().union(*parents)
        return [number for number in there if number in found]

    def _least(self, session: _Session) -> int:
        """Return the weight from which log messages are for a session."""
        return LEVELS.index(session.level or (USUAL if self._level else LEVELS[0]))


def _is_common(method: str) -> bool:
    """Tell whether several sessions may wait for one request of this method, so that none of them can cancel it."""
    return method in (INITIALIZE, SUBSCRIBE, UNSUBSCRIBE, SET_LEVEL)


# The sessions at work. One that does not read its messages makes the server wait only as long as it is alone. With
# others there, they are held for it within bounds, and then it is closed.


HELD = 16 * 1024 * 1024  # bytes for a session that does not read
LINGER = stretch(0.5)  # seconds for answers to a session that has closed its side


class _Member(LinkUser):
    """One session."""

    def __init__(self, number: int, shim: ShimConnection, shared: "SharedLink") -> None:
        self.number, self.shim = number, shim
        self.link: Link | None = None  # None once it is to be closed
        self.parting: asyncio.TimerHandle | None = None
        self._shared = shared

    def receive(self, line: bytes) -> None:
        self._shared.say(self, line)

    def over(self, end: LinkEnd) -> None:
        self._shared.end(self, end)

    def room(self) -> None:
        self._shared.resume_member(self)

    def fail(self, error: Exception) -> None:
        self._shared.user.fail(error)

    def burst(self, is_on: bool) -> None:
        self._shared.user.burst(is_on)


class SharedLink:
    """The connections to the server `name`, with the face of a `Link`; the server's lines are given to `send`.

    `emptied` is called when the last one has ended. `note` shows a line to the user.
    """

    def __init__(
        self,
        name: str,
        user: LinkUser,
        way: QuickWay,
        emptied: Callable[[], None],
        note: Callable[[str], None],
        *,
        max_line: int,
    ) -> None:
        self.user, self._way = user, way
        self._name, self._emptied, self._note, self._max_line = name, emptied, note, max_line
        self._multiplexer = Multiplexer(self)
        self._members: dict[int, _Member] = {}
        self._down: deque[bytes] = deque()  # for the server, which may answer before the multiplexer is done
        self._is_paused = self._is_flushing = self._is_closed = False
        self._loop = asyncio.get_running_loop()

    def join(self, shim: ShimConnection) -> None:
        """Begin another session; its descriptors are ours from now on."""
        number = self._multiplexer.joins()
        member = self._members[number] = _Member(number, shim, self)
        member.link = Link(shim.source, shim.sink, member, max_line=self._max_line)
        if self._is_paused:
            member.link.pause()
        if shim.lent:
            self._loop.add_reader(shim.line, self.leave, number)  # readable only at its end, when the shim has ended

    def leave(self, number: int) -> None:
        """End a session, if it has not ended."""
        member = self._members.pop(number, None)
        if member is None:
            return
        self._shut(member)
        self._multiplexer.leaves(number)
        self._flush()
        if not self._members:
            self._emptied()
        else:
            self.user.room()  # it may have been the one that was waited for

    def tick(self) -> None:
        """End sessions that left while they were not read; called now and then."""
        for number, member in list(self._members.items()):
            if member.link is not None and member.link.is_paused and member.link.has_hung_up:
                self.leave(number)

    # The face of a link.

    @property
    def is_open(self) -> bool:
        """Whether there is a session."""
        return bool(self._members)

    @property
    def is_full(self) -> bool:
        """Whether none of them reads."""
        links = self._links()
        return bool(links) and all(link.is_full for link in links)

    @property
    def held(self) -> int:
        return sum(link.held for link in self._links())

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    @property
    def has_hung_up(self) -> bool:
        return False  # `tick` looks at each

    def send(self, line: bytes) -> None:
        """Take a line of the server, or several that came in one chunk."""
        for each in line.split(b"\n"):
            self._multiplexer.hears(each)
        if self._down and not self._is_flushing:
            self._loop.call_soon(self._flush)  # its relay is busy with this line

    def gather(self) -> None:
        for link in self._links():
            link.gather()

    def release(self) -> None:
        for link in self._links():
            link.release()

    def pause(self) -> None:
        self._is_paused = True
        for link in self._links():
            link.pause()

    def resume(self) -> None:
        self._is_paused = False
        for link in self._links():
            if not link.is_full:
                link.resume()

    def close(self) -> None:
        self._is_closed = True
        members, self._members = self._members, {}
        for member in members.values():
            self._shut(member)

    # Ports of the multiplexer.

    def to_server(self, line: bytes) -> None:
        self._down.append(line)

    def to_session(self, session: int, line: bytes) -> None:
        member = self._members.get(session)
        link = None if member is None else member.link
        if member is None or link is None:
            return
        if link.held > HELD:
            member.link = None
            link.close()
            self._note(f"a session of {self._name} is closed: it does not read what the server sends")
            self._loop.call_soon(self.leave, session)
            return
        link.send(line)

    # For a member.

    def say(self, member: _Member, line: bytes) -> None:
        """Handle a line of a session; one that sends requests but does not read our answers is not read either."""
        self._multiplexer.says(member.number, line)
        self._flush()
        if member.link is not None and member.link.is_full:
            member.link.pause()

    def end(self, member: _Member, over: LinkEnd) -> None:
        """End a session whose connection has ended, once it has what it is owed."""
        if over.is_fault:
            self._note(f"the agent's connection to {self._name} is closed: it {over.why}")
        if over.is_fault or not self._multiplexer.owes(member.number):
            self.leave(member.number)
        else:
            member.parting = self._loop.call_later(LINGER, self.leave, member.number)

    def resume_member(self, member: _Member) -> None:
        """Read a session again that has taken what was held for it."""
        if member.link is not None and not self._is_paused:
            member.link.resume()
        self.user.room()

    # Private.

    def _flush(self) -> None:
        if self._is_flushing:
            return
        self._is_flushing = True
        try:
            while self._down:
                line = self._down.popleft()
                if self._is_closed:
                    continue
                if (message := self._way.passes(line)) is not None:
                    self._way.forward(line, (message,))
                else:
                    self.user.receive(line)
        finally:
            self._is_flushing = False

    def _links(self) -> list[Link]:
        return [member.link for member in self._members.values() if member.link is not None]

    def _shut(self, member: _Member) -> None:
        if member.parting is not None:
            member.parting.cancel()
        if member.shim.lent:
            self._loop.remove_reader(member.shim.line)
        if member.link is not None:
            member.link.close()
        member.shim.close()
