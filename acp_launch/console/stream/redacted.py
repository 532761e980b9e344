"""
An output that removes secrets, in front of any other output.

Objects without secrets pass through unchanged. Events keep their number and their order, except for notices, which may
come while a chunk is held back: a pause within a secret must not reveal it, and a notice about a server says nothing
about the rest of the agent's message.
"""

import json
import sys
from collections.abc import Callable
from itertools import accumulate
from typing import Protocol

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from acp_launch.console.stream.text import SAME_MESSAGE
from acp_launch.process.lifecycle import Change
from acp_launch.protocol import acp, splice
from acp_launch.protocol.conversation import WORDS, Updated
from acp_launch.secret.redact import Redactor, Span, Tables, joined, redactor
from acp_launch.secret.value import MASK
from acp_launch.session.events import AnyEvent, NoteEvent, Observer, ServersEvent, WaitingEvent, redact

# Secrets that are cut over several chunks of a message.
#
# Readers put the chunks of a message together, so a secret's form must not be readable across them. Chunks of one
# stream (the agent's message, its thoughts, the user's message; per session) whose text ends in three or more
# characters that begin a form are held back, whole and in order, until the next chunk shows whether it is a form. If it
# is, its characters are removed from the chunks that hold them, and `***` replaces them in the first of these.
#
# The promise: together, the chunks of a stream never hold a whole form. As long as nothing comes between them, they
# hold no more than its first two characters. An event in between (a tool call, a question, the end of the turn; not
# updates that leave a message alone, nor a notice) releases the held chunks: up to `MAX_SHOWN_CHARS` unchanged, more as
# `***`. The rest of that form is hidden too, with its own `***`, so no reader sees more than its first
# `MAX_SHOWN_CHARS`. The beginning of a form is hidden as well when it is released. A character beyond U+FFFF that is
# itself cut in two is not joined here.


MIN_HELD_CHARS = 3  # fewer begin a form too often, and holding them would make every message stutter
MAX_SHOWN_CHARS = 5  # of a form; one less than the shortest form has
MAX_HELD_UPDATES = 1_000  # then they are released, so that empty chunks of an agent do not fill memory


class ChunkHold:
    """Holds back chunks that may end within a secret, and what must stay behind them."""

    def __init__(self, redactor: Redactor, show: Callable[[Updated, str | None], None]) -> None:
        """`show` takes an update that may be shown, and the new text of its chunk, None if it is unchanged."""
        self._redactor = redactor
        self._show = show
        self._out: dict[tuple[str, str], str] = {}  # by stream: the end of the shown text, if a form begins with it
        self._stream = ("", "")
        self._held: list[tuple[Updated, str]] = []

    def passes(self, session_id: str, kind: str, text: str) -> bool:
        """Whether a chunk may be shown without a look at its neighbours, as nearly all may; else `on_update` has it."""
        stream, tables = (session_id, kind), self._redactor.tables
        is_alone = not self._held and stream == self._stream and stream not in self._out
        return is_alone and tables is not None and not tables.text.held(text)

    def on_update(self, update: Updated) -> None:
        """Take the next update, which is shown now or later; only while there are secrets."""
        if update.kind in WORDS:
            text, _ = acp.read_chunk(update.update)
            if self.passes(update.session_id, update.kind, text):
                self._show(update, None)
            else:
                stream = (update.session_id, update.kind)
                if stream != self._stream:
                    self.release()
                    self._stream = stream
                if self._held or not self._stands_alone(text):
                    self._held.append((update, text))
                    self._settle(MIN_HELD_CHARS)
                else:
                    self._show(update, None)
        elif self._held and update.kind in SAME_MESSAGE:  # it keeps its place behind the held chunks
            self._held.append((update, ""))
            self._settle(MIN_HELD_CHARS)
        else:
            self.release()
            self._show(update, None)

    def release(self) -> None:
        if self._held:
            self._settle(sys.maxsize)

    def _stands_alone(self, text: str) -> bool:
        """Return whether no form reaches into `text` from shown text, nor far enough out of it to hold it back."""
        needles = self._tables().text
        out = self._out.get(self._stream, "")
        if out and needles.may_begin(out + text, len(out)):
            return False
        length = needles.held(text)
        if length < MIN_HELD_CHARS:
            self._remember(text[len(text) - length :])
        return length < MIN_HELD_CHARS

    def _settle(self, least: int) -> None:
        """Show the text that no form can reach any more: all but an end of `least` characters or more."""
        needles = self._tables().text
        out = self._out.get(self._stream, "")
        window = out + "".join(text for _, text in self._held)
        spans = needles.spans(window)
        open_end = len(window) - needles.held(window)
        is_waiting = len(window) - open_end >= least and len(self._held) < MAX_HELD_UPDATES
        if not is_waiting and len(window) - open_end > MAX_SHOWN_CHARS:
            spans = joined([*spans, (open_end, len(window))])
        shown = self._let_go(len(out), open_end if is_waiting else len(window), spans)
        self._remember(window[min([open_end, *(begin for begin, end in spans if begin < shown < end)]) : shown])

    def _let_go(self, out: int, limit: int, spans: list[Span]) -> int:
        """Show the first of the held updates: none beyond `limit`, and none that would split a span.

        They begin at `out`; return where the remaining ones begin.
        """
        ends = [*accumulate((len(text) for _, text in self._held), initial=out)]
        going = max(
            count for count, end in enumerate(ends) if count == 0 or (end <= limit and not _is_within(end, spans))
        )
        leaving, self._held = self._held[:going], self._held[going:]
        for (update, text), begin in zip(leaving, ends[:going], strict=True):
            visible = _visible(text, begin, spans, out)
            self._show(update, None if visible == text else visible)
        return ends[going]

    def _remember(self, end: str) -> None:
        if end:
            self._out[self._stream] = end
        else:
            self._out.pop(self._stream, None)

    def _tables(self) -> Tables:
        assert self._redactor.tables is not None, "nothing is held where nothing is secret"
        return self._redactor.tables


def _is_within(place: int, spans: list[Span]) -> bool:
    return any(begin < place < end for begin, end in spans)


def _visible(text: str, begin: int, spans: list[Span], first: int) -> str:
    """Return the visible part of the text at `begin`. A mask stands where its span begins, or at `first` if later."""
    pieces, at, stop = [], begin, begin + len(text)
    for left, right in spans:
        if right <= begin or left >= stop:
            continue
        mask = MASK if begin <= max(left, first) < stop else ""
        pieces += [text[at - begin : max(left, begin) - begin], mask]
        at = min(right, stop)
    return "".join([*pieces, text[at - begin :]]) if pieces else text


BESIDE = (WaitingEvent, NoteEvent, Change, ServersEvent)  # they may come within a message


class RunOutput(Observer, Protocol):
    """An observer that shows a run."""

    def pause(self) -> None:
        """Leave the terminal to a question."""


class RedactedOutput:
    """An output that passes everything to `output` without its secrets."""

    def __init__(self, output: RunOutput, source: Redactor = redactor) -> None:
        self._output = output
        self._redactor = source
        self._seams = ChunkHold(source, self._show)
        self.passes = self._seams.passes  # tells whether a chunk may be shown without `update`
        self._session_id = ""  # of the latest update, if it holds no secret

    def update(self, update: Updated) -> None:
        if self._redactor.tables is None:
            self._output.update(update)
        else:
            self._seams.on_update(update)

    def show(self, event: AnyEvent) -> None:
        if not isinstance(event, BESIDE):
            self._seams.release()
        self._output.show(event if self._redactor.tables is None else redact(event, self._redactor))

    def pause(self) -> None:
        self._seams.release()
        self._output.pause()

    async def drain(self) -> None:
        """Do not release held chunks: the pump drains after every batch, wherever it was cut."""
        await self._output.drain()

    def _show(self, update: Updated, text: str | None) -> None:
        """Pass an update on; `text` replaces the text of its chunk."""
        if update.line:  # an editor gets the whole message
            line = update.line
            if text is not None:
                line = splice.replaced(line, ("params", "update"), with_text(bytes(update.update), text))
            line = self._redactor.raw_json(line)
            self._output.update(update if line is update.line else replace(update, line=line))
            return
        said = bytes(update.update)
        written = self._redactor.raw_json(said if text is None else with_text(said, text))
        session_id = update.session_id
        if session_id != self._session_id:
            self._session_id = session_id = self._redactor.text(session_id)
        if written is not said or session_id != update.session_id:
            update = replace(update, session_id=session_id, update=Raw(written))
        self._output.update(update)


def with_text(update: bytes, text: str) -> bytes:
    """Return the chunk with another text; all other members stay unchanged."""
    written = json.dumps(text).encode()  # half a surrogate pair may be in it, which msgspec does not write
    try:
        members = msgspec.json.decode(update, type=dict[str, Raw])
        content = msgspec.json.decode(members["content"], type=dict[str, Raw])
    except msgspec.DecodeError:
        body = acp.mapping(acp.decoded(update))
        return json.dumps({**body, "content": {**acp.mapping(body.get("content")), "text": text}}).encode()
    members["content"] = Raw(msgspec.json.encode({**content, "text": Raw(written)}))
    return msgspec.json.encode(members)
