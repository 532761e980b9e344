"""
Secrets that are cut over several chunks of a message.

Whoever shows or reads a message puts its chunks together, so a form must not be readable across them. Chunks of one
stream (the agent's words, its thoughts, the user's words; each session has its own) whose text ends in three or more
characters that a form begins with are held back, whole and in order, until the next chunk shows whether it is one.
If it is, its characters go from the chunks that hold them, and `***` stands in the first of them.

The promise: put together, the chunks of a stream never hold a whole form. As long as nothing comes between them, they
hold no more than its first two characters. What does come between (a tool call, a question, the end of the turn; not
the updates that leave a message alone, nor the notice of a wait) lets go of what is held: up to `SHOWN` characters as
they are, more with `***` in their place. What follows of that form is hidden too, with a `***` of its own, so nobody
ever reads more than its first `SHOWN` characters. A form that was only begun is hidden as well when it is let go of.
A character beyond U+FFFF that is itself cut in two is not put together here.
"""

import sys
from collections.abc import Callable
from itertools import accumulate

from acp_launch.protocol import acp
from acp_launch.protocol.event import Updated
from acp_launch.secret.needles import Span, joined
from acp_launch.secret.redact import Redactor, Tables
from acp_launch.secret.value import MASK

LEAST = 3  # characters; fewer are too often the beginning of a form, and holding them would make every message stutter
SHOWN = 5  # characters of a form that may be seen; one less than the shortest has
MOST = 1_000  # updates held back; then they are let go of, so that an agent's empty chunks do not fill memory


class Seams:
    def __init__(self, redactor: Redactor, show: Callable[[Updated, str | None], None]) -> None:
        """`show` takes an update that may go out, and the text its chunk has instead of its own, if it is another."""
        self._redactor = redactor
        self._show = show
        self._out: dict[tuple[str, str], str] = {}  # by stream: the end of what was shown, if a form begins with it
        self._stream = ("", "")
        self._held: list[tuple[Updated, str]] = []

    @property
    def is_holding(self) -> bool:
        return bool(self._held)

    def pass_by(self, update: Updated) -> bool:
        """Whether nothing has to be known of a chunk, before it or after it: so it is with nearly all of them.

        False where `chunk` has to look.
        """
        tables, stream = self._redactor.tables, (update.session_id, update.kind)
        if self._held or stream != self._stream or stream in self._out or tables is None:
            return False
        return not tables.text.held(acp.read_chunk(update.update)[0])

    def chunk(self, update: Updated) -> None:
        """The next chunk of its stream; shown now or later."""
        stream = (update.session_id, update.kind)
        if stream != self._stream:
            self.release()
            self._stream = stream
        text, _ = acp.read_chunk(update.update)
        if self._held or not self._stands_alone(text):
            self._held.append((update, text))
            self._settle(LEAST)
        else:
            self._show(update, None)

    def wait(self, update: Updated) -> None:
        """Something that leaves the message alone; keeps its place behind what is held."""
        self._held.append((update, ""))
        self._settle(LEAST)

    def release(self) -> None:
        """Let go of everything."""
        if self._held:
            self._settle(sys.maxsize)

    def _stands_alone(self, text: str) -> bool:
        """Whether no form reaches into `text` from what is out, nor far enough out of it to hold it back."""
        needles = self._tables().text
        out = self._out.get(self._stream, "")
        if out and needles.may_begin(out + text, len(out)):
            return False
        length = needles.held(text)
        if length < LEAST:
            self._remember(text[len(text) - length :])
        return length < LEAST

    def _settle(self, least: int) -> None:
        """Show what no form can reach any more: all but an end of `least` characters or more."""
        needles = self._tables().text
        out = self._out.get(self._stream, "")
        window = out + "".join(text for _, text in self._held)
        spans = needles.spans(window)
        open_end = len(window) - needles.held(window)
        is_waiting = len(window) - open_end >= least and len(self._held) < MOST
        if not is_waiting and len(window) - open_end > SHOWN:
            spans = joined([*spans, (open_end, len(window))])
        shown = self._let_go(len(out), open_end if is_waiting else len(window), spans)
        self._remember(window[min([open_end, *(begin for begin, end in spans if begin < shown < end)]) : shown])

    def _let_go(self, out: int, limit: int, spans: list[Span]) -> int:
        """Show the first of the held updates: none that goes beyond `limit`, nor half of a span.

        `out` is where they begin; gives where those that are still held do.
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
    """What remains of the text that stands at `begin`; a span's mask is where it begins, or at `first` if later."""
    pieces, at, stop = [], begin, begin + len(text)
    for left, right in spans:
        if right <= begin or left >= stop:
            continue
        mask = MASK if begin <= max(left, first) < stop else ""
        pieces += [text[at - begin : max(left, begin) - begin], mask]
        at = min(right, stop)
    return "".join([*pieces, text[at - begin :]]) if pieces else text
