"""
Where each value of a YAML text begins and ends, so that one can be changed and every other byte left alone. Pure.

Only for text that `document.tree.parse` takes: that one bounds its size, its depth and its aliases.
"""

import re
from bisect import bisect, bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from ruamel.yaml import YAML
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    DocumentStartEvent,
    MappingStartEvent,
    ScalarEvent,
    StreamStartEvent,
)

from acp_launch.document.nodes import scalar

LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # YAML's
_NOTHING = re.compile(r"(?:\s|(?<!\S)#[^\n\r]*)*")  # blanks, line breaks and comments
_BLANKS = re.compile(r"[ \t]*")
_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")  # an anchor and a tag
_LAST_BREAK = re.compile("(?:\r\n|[\n\r\x85\u2028\u2029])\\Z")
_MERGE = "<<"


@dataclass(slots=True)
class Span:
    """
    The text from `start` to `end`, anchor and tag included, without comments around it.

    `after` is where the ":" or "-" before it ends, None where nothing can be put there. `column` is where the keys, or
    the dashes, of a block stand. `style` is a scalar's quote, `|` or `>`. One that `keeps_breaks` ends in a text
    that a blank line after it would be part of.
    """

    kind: Literal["scalar", "mapping", "sequence", "alias"]
    start: int
    end: int
    after: int | None = None
    flow: bool = False
    column: int = 0
    style: str = ""
    is_null: bool = False
    keeps_breaks: bool = False
    parts: list["Part"] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether no text stands for it, as in `key:`."""
        return self.start == self.end

    def part(self, step: str | int) -> "Part | None":
        """The entry of that key, or the item of that number."""
        if isinstance(step, int):
            is_item = self.kind == "sequence" and step < len(self.parts)
            return self.parts[step] if is_item else None
        return next((part for part in self.parts if self.kind == "mapping" and part.key == step), None)


@dataclass(slots=True)
class Part:
    """An entry of a mapping, from its key, or an item of a sequence, from its dash. No `key` for an item, for `<<`, and
    for what is no text."""

    start: int
    value: Span
    key: str | None = None
    key_end: int = 0
    is_explicit: bool = False

    @property
    def end(self) -> int:
        return max(self.value.end, self.key_end)


def spans(text: str) -> Span:
    """The spans of the first document of `text`, which holds no byte order mark."""
    events = YAML(typ="safe", pure=True).parse(text)
    first = next(event for event in events if not isinstance(event, StreamStartEvent | DocumentStartEvent))
    return _Reader(text, events).value(first)


class Lines:
    """Where the lines of a text begin and end; without their line breaks."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._breaks = [found.span() for found in LINE_BREAK.finditer(text)]

    def start(self, index: int) -> int:
        """Of the line that `index` is on."""
        before = bisect(self._breaks, index, key=lambda found: found[1])
        return self._breaks[before - 1][1] if before else 0

    def end(self, index: int) -> int:
        found = self._after(index)
        return found[0] if found else len(self.text)

    def next(self, index: int) -> int:
        """Where the following line begins; the end of the text when there is none."""
        found = self._after(index)
        return found[1] if found else len(self.text)

    def _after(self, index: int) -> tuple[int, int] | None:
        before = bisect_left(self._breaks, index, key=lambda found: found[0])
        return self._breaks[before] if before < len(self._breaks) else None


class _Reader:
    def __init__(self, text: str, events: Iterator[Any]) -> None:
        self.text = text
        self.events = events
        self.lines = Lines(text)

    def value(self, event: Any) -> Span:
        start, end = event.start_mark.index, event.end_mark.index
        if isinstance(event, AliasEvent):
            return Span("alias", start, end)
        if isinstance(event, ScalarEvent):
            return self._scalar(event, start, end)
        is_mapping = isinstance(event, MappingStartEvent)
        span = Span("mapping" if is_mapping else "sequence", start, end, flow=bool(event.flow_style))
        while not isinstance(child := next(self.events), CollectionEndEvent):
            span.parts.append(self._entry(child, span) if is_mapping else self._item(child, span))
        if span.flow:
            span.end = child.end_mark.index
        elif span.parts:
            first = span.parts[0].start
            span.end, span.column = span.parts[-1].end, first - self.lines.start(first)
            span.keeps_breaks = span.parts[-1].value.keeps_breaks
        return span

    def _scalar(self, event: Any, start: int, end: int) -> Span:
        is_null = event.implicit[0] and scalar(event.value) is None
        span = Span("scalar", start, end, style=event.style or "", is_null=is_null)
        if event.style in ("|", ">"):
            written = self.text[start:end]
            span.keeps_breaks = "+" in LINE_BREAK.split(written, maxsplit=1)[0].partition("#")[0]
            # Without a "+", the line breaks after the text are not its own.
            span.end = start + len(_LAST_BREAK.sub("", written) if span.keeps_breaks else written.rstrip())
        return span

    def _entry(self, key: Any, owner: Span) -> Part:
        named = self.value(key)
        value = self.value(next(self.events))
        explicit = self.text[self.lines.start(named.start) : named.start].rstrip().endswith("?")
        colon = _end(_BLANKS, self.text, named.end)
        after = colon + 1 if self.text[colon : colon + 1] == ":" else None
        if value.is_empty:
            value.start = value.end = after or named.end
        value.after = None if owner.flow or explicit else after
        return Part(named.start, value, _name(key), named.end, explicit)

    def _item(self, event: Any, owner: Span) -> Part:
        value = self.value(event)
        if owner.flow:
            return Part(value.start, value)
        begin = owner.parts[-1].end if owner.parts else _end(_PROPERTIES, self.text, owner.start)
        dash = _end(_NOTHING, self.text, begin)
        value.after = dash + 1
        if value.is_empty:
            value.start = value.end = dash + 1
        return Part(dash, value)


def _end(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return match.end() if match else start


def _name(key: Any) -> str | None:
    if not isinstance(key, ScalarEvent) or (key.value == _MERGE and key.implicit[0]):
        return None
    return str(key.value)
