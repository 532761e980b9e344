"""
Events (`--output json`): one per line, and nothing else on stdout. docs/scripting.md "Events" documents every type.

An update keeps its bytes: it is never decoded and encoded again, so unknown members are not lost. Only invisible
characters become escapes, which mean the same.
"""

import time
from collections.abc import Callable, Iterator

from msgspec import Raw
from msgspec.structs import replace

from acp_launch.console.stream.outlet import JOINED, JoinedText, Outlet
from acp_launch.console.stream.text import SAME_MESSAGE, Notices
from acp_launch.protocol import acp
from acp_launch.protocol.conversation import WORDS, Updated
from acp_launch.protocol.splice import PIECE_BYTES, is_plain, visible_bytes, written
from acp_launch.session.events import (
    AnyEvent,
    OutsideEvent,
    PermissionEvent,
    ReplayEvent,
    ResultEvent,
    UpdateEvent,
    encode,
)
from acp_launch.session.state import KINDS
from acp_launch.waits import format_time

_EMPTY = Raw(b"0")
Told = UpdateEvent | ReplayEvent | OutsideEvent


def choose_type(update: Updated) -> type[Told]:
    if update.replay:
        return ReplayEvent
    return OutsideEvent if update.outside and update.kind in WORDS else UpdateEvent


class TurnRecord:
    """What the `result` of a turn says besides the agent's answer: the final message, and the denied call.

    It collects the message as `quiet` does, but in less time, since every update comes here.
    """

    def __init__(self) -> None:
        self._text = JoinedText()
        self._message_id = ""
        self._is_over = True  # the next chunk begins a new message
        self._denied: tuple[str, str] | None = None  # the last denied call and what denied it, unless work went on

    def on_update(self, update: Updated, kind: type[Told]) -> None:
        if kind is UpdateEvent and update.kind == "agent_message_chunk":
            text, message_id = acp.read_chunk(update.update)
            if self._is_over or (message_id and message_id != self._message_id):
                self._text, self._is_over, self._message_id = JoinedText(), False, message_id or self._message_id
            self._text.add(text)
        elif kind is UpdateEvent and update.kind not in SAME_MESSAGE:
            self._is_over = True
        if self._denied and update.kind in KINDS:
            is_completed = acp.mapping(acp.decoded(update.update)).get("status") == "completed"
            self._denied = None if is_completed else self._denied

    def complete(self, event: AnyEvent) -> AnyEvent:
        """Return a `result` with all it says but its text (`message`), and any other event as it is."""
        if isinstance(event, PermissionEvent) and not event.allowed:
            self._denied = (event.title, event.by)
        if not isinstance(event, ResultEvent):
            return event
        denied, by = self._denied or (event.denied, None)
        self._denied = None
        return replace(event, text="", denied=denied, denied_by=by)

    def message(self) -> JoinedText:
        """Return the final message; the next chunk begins another."""
        message, self._text, self._is_over = self._text, JoinedText(), True
        return message


def _with_text(line: bytes, message: JoinedText) -> Iterator[bytes | memoryview]:
    """Yield the line of a `result` with its text; the first member of this name is its own."""
    head, name, rest = line.partition(b'"text":')
    yield head + name + b'"'
    for text in message.taken():
        yield from visible_bytes(written(text)[1:-1])
    yield rest.removeprefix(b'"') + b"\n"


class Ndjson:
    """Writes events to `outlet`."""

    def __init__(self, outlet: Outlet, clock: Callable[[], float] = time.time) -> None:
        self._outlet = outlet
        self._clock = clock
        self._turn = TurnRecord()
        self._session: str | None = None  # that `_heads` are for; None: the next update has another time
        self._heads: dict[type[Told], bytes] = {}

    def show(self, event: AnyEvent) -> None:
        event = self._turn.complete(event)
        self._session = None
        event = event if event.time else replace(event, time=self._now())
        line = b"".join(visible_bytes(encode(event)))
        if isinstance(event, ResultEvent):
            message = self._turn.message()
            pieces = _with_text(line, message)
            if sum(map(len, message.parts)) > JOINED:
                self._outlet.write_later(pieces)
            else:
                self._outlet.write(*pieces)
        else:
            self._outlet.write(line, b"\n")
        if isinstance(event, PermissionEvent) and not event.allowed:
            Notices().show(event)  # the user should see it even if a script reads the events

    def _now(self) -> str:
        return format_time(self._clock())

    def update(self, update: Updated) -> None:
        if update.session_id != self._session:
            time = self._now()
            self._session = update.session_id
            for kind in (UpdateEvent, ReplayEvent, OutsideEvent):
                line = b"".join(visible_bytes(encode(kind(time=time, session_id=update.session_id, update=_EMPTY))))
                self._heads[kind] = line.removesuffix(b"%b}" % bytes(_EMPTY))
        kind = choose_type(update)
        head, said = self._heads[kind], update.update
        if len(said) <= PIECE_BYTES and is_plain(line := b"%b%b}\n" % (head, said)):
            self._outlet.write(line)
        else:
            self._outlet.write(head, *visible_bytes(memoryview(said)), b"}\n")
        self._turn.on_update(update, kind)

    def pause(self) -> None:
        """Do nothing: a question is asked on stderr, so stdout may go on."""

    async def drain(self) -> None:
        self._session = None
        await self._outlet.drain()
