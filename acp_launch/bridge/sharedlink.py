"""
The sessions of a shared server at work: many connections of the agent, which a relay uses as if they were one link.

A session that does not read its messages makes the server wait only as long as it is alone. With others there, they are
held for it within bounds, and then it is closed.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from acp_launch.bridge.link import Link, LinkEnd, LinkUser, QuickWay
from acp_launch.bridge.multiplexer import Multiplexer
from acp_launch.bridge.seat import ShimConnection
from acp_launch.waits import stretch

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
