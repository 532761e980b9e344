"""
Several sessions of an agent (`share: launch`), or of launches (`share: user`), with one conversation of a server.

    session 0 ──▶                ──▶
    session 1 ──▶  Multiplexer   ──▶  the server, by its relay
    session 2 ◀──                ◀──

`Multiplexer` is sans-IO: lines in, lines out. `SharedLink` has the connections, which a relay uses as if they were one.

Each request gets our id, and our progress token if it has one; both are changed back in what the server
sends (M-39; `NumberedRequests`). What a session asks of the server for itself alone is kept apart here, because the
server knows only one client:

- the first session makes the handshake; the others get the same answer
- a resource is subscribed to as long as one session is, and its updates go to those that are
- the server's log level is the most verbose that a session has asked for, and each gets what its own level admits
- what the server asks goes to the session with the newest open call, else to the first that declared to answer it.
  Of several launches it goes to the one with open calls, if no other has any
- once there were several launches, a message that does not say whose it is (a log message, one that is not known here)
  goes to the launch with open requests, if no other has any, else to none; changes of lists go to all
- a session that ends cancels its requests, and what it held is given up

Sessions begin with a handshake: MCP 2026-07-28, which has none, is refused.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any, Protocol

from msgspec import UNSET, Raw, Struct, field

from acp_launch.bridge.conversation import GIVEN_UP
from acp_launch.bridge.ledger import NumberedRequest, NumberedRequests
from acp_launch.bridge.seat import ShimConnection
from acp_launch.mcp.message import (
    CANCELLED,
    DISCOVER,
    INITIALIZE,
    INITIALIZED,
    LOG,
    PING,
    PROGRESS,
    ROOTS,
    SET_LEVEL,
    SUBSCRIBE,
    UNSUBSCRIBE,
    UPDATED,
    cancelled_id,
    is_stateless,
)
from acp_launch.process.flow import FastPath, Link, LinkEnd, LinkUser
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.acp import decoded, mapping
from acp_launch.protocol.jsonrpc import METHOD_NOT_FOUND, NULL, Envelope, key, with_id
from acp_launch.protocol.splice import replaced, written
from acp_launch.waits import stretch

STAND_IN = f"acp-launch-{os.urandom(8).hex()}".encode()  # the server's name in errors, until each launch gets its own
CALLS = frozenset({"tools/call", "prompts/get", "resources/read", "completion/complete"})
NEEDS = {  # method of a request of the server → the capability of a client that answers it
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    ROOTS: "roots",
}
KEPT_APART = frozenset({SET_LEVEL, SUBSCRIBE, UNSUBSCRIBE})  # requests that are not just passed on
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
USUAL = "info"  # the level of a session that has asked for none, once another has
UNREADABLE = "this line is not a JSON-RPC message and was not passed on"
BEGIN_WITH_HANDSHAKE = "this server is shared by sessions that begin with a handshake; begin with initialize"
ENDED = "the session that was asked has ended"
UNANSWERED = "no session of the agent answers this"
UNCLEAR = "launches share this server, and not exactly one of them has an open call that this may be about"


class Ports(Protocol):
    """The two sides of a multiplexer. They must not call it."""

    def to_server(self, line: bytes) -> None: ...

    def to_session(self, session: int, line: bytes) -> None: ...

    def give_up(self) -> None:
        """End the server's process, as it hangs."""


class _Session(Struct):
    """The state of one session. `launch` is the id of its launch, if several launches have sessions."""

    launch: str = ""
    is_open: bool = False  # it has the server's answer to the handshake
    able: dict[str, Any] = field(default_factory=dict)  # the capabilities that it declared
    level: str = ""


class Multiplexer:
    """The sessions of one server. Numbers from 1 name them, and are never used again."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._sessions: dict[int, _Session] = {}
        self._met: set[str] = set()  # launches that have or had a session
        self._joined = 0
        self._requests = NumberedRequests()
        self._questions: dict[bytes, tuple[int, Raw]] = {}  # the server's requests: which session has them
        self._subscribed: dict[str, set[int]] = {}  # by the address of the resource
        self._hello: Raw | None = None  # the server's answer to the handshake
        self._waiting: list[tuple[int, Raw]] = []  # sessions that wait for it too, each with the id of its request
        self._is_introduced = False  # the server knows that it was answered
        self._level = ""  # that the server was asked for

    def joins(self, launch: str = "") -> int:
        """Add a session, and return its number."""
        self._joined += 1
        self._sessions[self._joined] = _Session(launch)
        self._met.add(launch)
        return self._joined

    def owes(self, session: int) -> bool:
        """Tell whether a request of this session has no answer yet."""
        waiting = (*(asked.owner for asked in self._requests.open.values()), *(each for each, _ in self._waiting))
        return session in waiting

    def leaves(self, session: int) -> None:
        """End a session: its requests are cancelled, its subscriptions ended, and what it was asked is refused."""
        del self._sessions[session]
        for line in self._requests.leave(session):
            self._ports.to_server(line)
        for id, (asked_of, own) in list(self._questions.items()):
            if asked_of == session:
                del self._questions[id]
                self._ports.to_server(jsonrpc.error(own, jsonrpc.INTERNAL_ERROR, ENDED))
        for uri in [uri for uri, subscribers in self._subscribed.items() if session in subscribers]:
            if self._unsubscribes(session, uri):
                self._ports.to_server(self._requests.make(UNSUBSCRIBE, {"uri": uri}))
        self._adjust()

    # A session.

    def says(self, session: int, line: bytes) -> None:
        for part in jsonrpc.batch(line) or (line,):
            message = jsonrpc.decode(part)
            if message is None or (message.method is UNSET and message.id is UNSET):
                if part == GIVEN_UP and self._sessions[session].launch:
                    # Take a launch's word that the server hangs; a server that works for another launch does not.
                    if not self._launches(CALLS) - {self._sessions[session].launch}:
                        self._ports.give_up()
                elif part.strip():
                    self._ports.to_session(session, jsonrpc.error(NULL, jsonrpc.PARSE_ERROR, UNREADABLE))
            elif message.method is UNSET:
                assert message.id is not UNSET
                if self._questions.get(id := key(message.id), (0, NULL))[0] == session:
                    del self._questions[id]
                    self._ports.to_server(part)
            elif message.id is UNSET:
                self._notifies(session, message, part)
            else:
                self._asks(session, message, message.id.copy(), part)

    def _launches(self, methods: Container[str] | None = None) -> set[str]:
        """Return the launches with open requests, of these methods if any are given."""
        open = self._requests.open.values()
        asking = {asked.owner for asked in open if methods is None or asked.method in methods}
        return {self._sessions[number].launch for number in asking if number in self._sessions}

    def _notifies(self, session: int, message: Envelope, line: bytes) -> None:
        if message.method == INITIALIZED:
            if self._is_introduced or (self._hello is None and not self._is_opening):
                return
            self._is_introduced = True
        passed = self._requests.cancel(message.params, line, owner=session) if message.method == CANCELLED else line
        if passed is not None:
            self._ports.to_server(passed)

    def _asks(self, session: int, message: Envelope, id: Raw, line: bytes) -> None:
        params = mapping(decoded(message.params)) if message.method in KEPT_APART else {}
        uri = params.get("uri")
        if message.method == DISCOVER or is_stateless(message.params):
            self._ports.to_session(session, jsonrpc.error(id, METHOD_NOT_FOUND, BEGIN_WITH_HANDSHAKE))
        elif message.method == INITIALIZE:
            self._sessions[session].able = mapping(mapping(decoded(message.params)).get("capabilities"))
            if self._hello is not None:
                self._ports.to_session(session, jsonrpc.result(id, self._hello))
                self._opens(session)
            elif self._is_opening:
                self._waiting.append((session, id))
            else:
                self._forward(session, message, line)
        elif message.method == SET_LEVEL and params.get("level") in LEVELS:  # another one is the server's to refuse
            # Ask for the most verbose level.
            self._sessions[session].level = mapping(decoded(message.params))["level"]
            if (wanted := self._wanted()) == self._level:
                self._ports.to_session(session, jsonrpc.result(id, {}))
                return
            self._level = wanted
            self._forward(session, message, replaced(line, ("params", "level"), written(wanted)), about=wanted)
        elif message.method == SUBSCRIBE and isinstance(uri, str):
            if uri in self._subscribed:
                self._ports.to_session(session, jsonrpc.result(id, {}))
            else:
                self._forward(session, message, line, about=uri)
            self._subscribed.setdefault(uri, set()).add(session)
        elif message.method == UNSUBSCRIBE and isinstance(uri, str):
            if self._unsubscribes(session, uri):
                self._forward(session, message, line, about=uri)
            else:
                self._ports.to_session(session, jsonrpc.result(id, {}))
        else:
            self._forward(session, message, line)

    def _forward(self, session: int, message: Envelope, line: bytes, *, about: str = "") -> None:
        self._ports.to_server(self._requests.forward(line, message, owner=session, about=about))

    @property
    def _is_opening(self) -> bool:
        """Whether the handshake is open."""
        return any(asked.method == INITIALIZE for asked in self._requests.open.values())

    def _wanted(self) -> str:
        """Return the most verbose level of the sessions; empty if none has asked for one."""
        asked = [session.level for session in self._sessions.values() if session.is_open or session.level]
        return min((level or USUAL for level in asked), key=LEVELS.index) if any(asked) else ""

    def _adjust(self) -> None:
        """Ask for another level if a session that wanted this one has ended, or one has come that wants more."""
        wanted = self._wanted()
        if wanted and wanted != self._level:
            self._level = wanted
            self._ports.to_server(self._requests.make(SET_LEVEL, {"level": wanted}, about=wanted))

    def _unsubscribes(self, session: int, uri: str) -> bool:
        """Take a session off a resource; return whether it was the last, so that the server must be told."""
        subscribers = self._subscribed.get(uri, set())
        if session not in subscribers:
            return False
        subscribers.discard(session)
        if not subscribers:
            del self._subscribed[uri]
        return not subscribers

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
        settled = None if message.id is UNSET else self._requests.settle(message.id, line)
        if settled is None:
            return
        asked, line = settled
        if asked.method == INITIALIZE:
            self._greeted(asked, message, line)
            return
        if message.result is UNSET and asked.method == SUBSCRIBE:
            self._subscribed.pop(asked.about, None)
        elif message.result is UNSET and asked.method == SET_LEVEL and self._level == asked.about:
            self._level = ""  # it is asked for again
        if asked.owner:
            self._ports.to_session(asked.owner, line)

    def _greeted(self, asked: NumberedRequest, message: Envelope, line: bytes) -> None:
        """Pass on the answer to the handshake; after a refusal the next session may try."""
        greeted, self._waiting = [(asked.owner, asked.id), *self._waiting], []
        if message.result is UNSET:
            self._is_introduced = False
        else:
            self._hello = message.result.copy()
        for session, id in greeted:
            if session in self._sessions:
                self._ports.to_session(session, with_id(line, id))
                if self._hello is not None:
                    self._opens(session)

    def _opens(self, session: int) -> None:
        self._sessions[session].is_open = True
        self._adjust()

    def _questioned(self, message: Envelope, line: bytes) -> None:
        assert message.id is not UNSET
        id = message.id.copy()
        is_unclear = message.method != ROOTS and self._is_unclear
        session = None if message.method == PING or is_unclear else self._addressee(str(message.method))
        if message.method == PING:
            self._ports.to_server(jsonrpc.result(id, {}))
        elif session is None:
            self._ports.to_server(jsonrpc.error(id, METHOD_NOT_FOUND, UNCLEAR if is_unclear else UNANSWERED))
        else:
            self._questions[key(id)] = session, id
            self._ports.to_session(session, line)

    @property
    def _is_unclear(self) -> bool:
        """Whether it is unclear which launch the server asks; all have the same roots."""
        return any(each.launch for each in self._sessions.values()) and len(self._launches(CALLS)) != 1

    def _addressee(self, method: str) -> int | None:
        """Return the session that a request of the server is for: it is about a call of that session, if there is
        one, and then it is for no other."""
        calling = [asked.owner for asked in self._requests.open.values() if asked.method in CALLS]
        candidates = [*reversed(calling)] or [number for number, each in self._sessions.items() if each.is_open]
        need = NEEDS.get(method)
        able = (number for number in candidates if need is None or need in self._sessions[number].able)
        return next(able, None)

    def _told(self, message: Envelope, line: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the sessions that get a notification, and what each gets."""
        if message.method == PROGRESS:
            progress = self._requests.progress(message.params, line)
            if progress is not None:
                yield progress[0].owner, progress[1]
        elif message.method == CANCELLED:
            cancelled = cancelled_id(message.params)
            asked_of = self._questions.pop(key(cancelled), None) if cancelled is not None else None
            if asked_of is not None:
                yield asked_of[0], line
        else:
            for session in self._listeners(str(message.method), mapping(decoded(message.params))):
                yield session, line

    def _listeners(self, method: str, params: dict[str, Any]) -> Iterable[int]:
        there = [number for number, session in self._sessions.items() if session.is_open]
        if method == UPDATED:
            uri = str(params.get("uri"))  # of a resource, or of a part of one
            parents = (each for address, each in self._subscribed.items() if _is_part(uri, address))
            subscribers = self._subscribed.get(uri) or set().union(*parents)
            return [number for number in there if number in subscribers]
        if len(self._met) > 1 and not method.endswith("/list_changed"):
            asking = self._launches()
            there = [number for number in there if {self._sessions[number].launch} == asking]
        if method == LOG and params.get("level") in LEVELS:
            weight = LEVELS.index(params["level"])
            return [number for number in there if weight >= self._least(self._sessions[number])]
        return there

    def _least(self, session: _Session) -> int:
        """Return the weight from which log messages are for a session; of other launches' it must ask."""
        if session.launch and not session.level:
            return len(LEVELS)
        return LEVELS.index(session.level or (USUAL if self._level else LEVELS[0]))


def _is_part(uri: str, address: str) -> bool:
    """Whether `uri` is below `address`, and does not just begin with the same letters."""
    return uri.startswith(address) and (address.endswith("/") or uri[len(address)] in "/?#")


# The sessions at work. One that does not read its messages makes the server wait only as long as it is alone. With
# others there, they are held for it within bounds. Then its answers are refused, and after as much of anything else it
# is closed.


MAX_HELD_BYTES = 16 * 1024 * 1024  # for a session that does not read
NOT_READ = -32012  # the code of the error in place of an answer that is not held
ANSWER_TIMEOUT = stretch(0.5)  # to a session that has closed its side


class _Member(LinkUser):
    """One session."""

    def __init__(self, number: int, shim: ShimConnection, called: str, shared: "SharedLink") -> None:
        self.number, self.shim = number, shim
        self.called = written(called)[1:-1]  # the server's name for its launch, as JSON
        self.unread = 0  # bytes besides answers that are held beyond the bound
        self.link: Link | None = None  # None once it is to be closed
        self.exit_timer: asyncio.TimerHandle | None = None
        self._shared = shared

    def receive(self, line: bytes) -> None:
        self._shared.say(self, line)

    def over(self, end: LinkEnd) -> None:
        self._shared.end(self, end)

    def on_drained(self) -> None:
        self._shared.resume_member(self)

    def fail(self, error: Exception) -> None:
        self._shared.user.fail(error)

    def on_burst(self, is_on: bool) -> None:
        self._shared.user.on_burst(is_on)


class SharedLink:
    """The connections to the server `name`, with the face of a `Link`; the server's lines are given to `send`.

    `note` shows a line to the user; `wedged` is called with the reason if its process must be ended.
    """

    def __init__(
        self,
        name: str,
        user: LinkUser,
        way: FastPath,
        note: Callable[[str], None],
        wedged: Callable[[str], None],
        *,
        max_line: int,
    ) -> None:
        self.user, self._way, self._wedged = user, way, wedged
        self._name, self._note, self._max_line = name, note, max_line
        self._multiplexer = Multiplexer(self)
        self._members: dict[int, _Member] = {}
        self._down: deque[bytes] = deque()  # for the server, which may answer before the multiplexer is done
        self._is_paused = self._is_flushing = self._is_closed = False
        self._loop = asyncio.get_running_loop()

    def join(self, shim: ShimConnection, launch: str = "", link: Link | None = None, called: str = "") -> LinkUser:
        """Begin another session, and return what takes its lines; its descriptors, and `link`, are ours from now on.

        `called` is the server's name for its launch.
        """
        number = self._multiplexer.joins(launch)
        member = self._members[number] = _Member(number, shim, called, self)
        if link is not None:
            link.serve(member)
        member.link = link or Link(shim.source, shim.sink, member, max_line=self._max_line)
        if self._is_paused:
            member.link.pause()
        if shim.lent:
            self._loop.add_reader(shim.line, self.leave, number)  # readable only at its end, when the shim has ended
        return member

    def leave(self, number: int) -> None:
        """End a session, if it has not ended."""
        member = self._members.pop(number, None)
        if member is None:
            return
        self._shut(member)
        self._multiplexer.leaves(number)
        self._flush()
        if self._members:
            self.user.on_drained()  # it may have been the one that was waited for

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
        links = (member.link for member in self._members.values() if member.link is not None)
        return not any(not link.is_full for link in links) and bool(self._links())  # mostly the first one tells

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

    def cork(self) -> None:
        for link in self._links():
            link.cork()

    def uncork(self) -> None:
        for link in self._links():
            link.uncork()

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
        if member is None or member.link is None:
            return
        if STAND_IN in line:
            line = line.replace(STAND_IN, member.called)
        if member.link.held > MAX_HELD_BYTES:
            line = self._refuse(member, member.link, line)
        if member.link is not None:
            member.link.send(line)

    def give_up(self) -> None:
        self._loop.call_soon(self._wedged, "no longer answers, as a launch says that uses it")

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
            member.exit_timer = self._loop.call_later(ANSWER_TIMEOUT, self.leave, member.number)

    def resume_member(self, member: _Member) -> None:
        """Read a session again that has taken what was held for it."""
        member.unread = 0
        if member.link is not None and not self._is_paused:
            member.link.resume()
        self.user.on_drained()

    # Private.

    def _refuse(self, member: _Member, link: Link, line: bytes) -> bytes:
        """Return an error in place of an answer that is not held, or close a session that does not read anything else.

        A session that reads at all is not closed for the size of its answers.
        """
        message = jsonrpc.decode(line)
        if message is not None and message.method is UNSET and message.id is not UNSET:
            why = f"an answer of {len(line):,} bytes was not passed on: {link.held:,} bytes before it are not read yet"
            return jsonrpc.error(message.id, NOT_READ, why)
        member.unread += len(line)
        if member.unread > MAX_HELD_BYTES:
            member.link = None
            link.close()
            self._note(f"a session of {self._name} is closed: it does not read what the server sends")
            self._loop.call_soon(self.leave, member.number)
        return line

    def _flush(self) -> None:
        if self._is_flushing:
            return
        self._is_flushing = True
        try:
            while self._down:
                line = self._down.popleft()
                if self._is_closed:
                    continue
                if (message := self._way.forward_fast(line)) is not None:
                    self._way.forward(line, (message,))
                else:
                    self.user.receive(line)
        finally:
            self._is_flushing = False

    def _links(self) -> list[Link]:
        return [member.link for member in self._members.values() if member.link is not None]

    def _shut(self, member: _Member) -> None:
        if member.exit_timer is not None:
            member.exit_timer.cancel()
        if member.shim.lent:
            self._loop.remove_reader(member.shim.line)
        if member.link is not None:
            member.link.close()
        member.shim.close()
