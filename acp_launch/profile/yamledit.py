"""
A `YamlText`: the text of a profile with the spans of its values, in which values are put or removed. Pure.

`spans` finds where each value begins and ends; `lines` and `below` write values as YAML in the usual style of profiles.
The result is only likely to be right; `edit` compares it with the intended content.
"""

import re
from bisect import bisect, bisect_left
from collections.abc import Iterator, Mapping, Sequence
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

from acp_launch.document.flow import inline, name
from acp_launch.document.nodes import Plain, scalar
from acp_launch.problem import KeyPath, dotted
from acp_launch.regex import regex

# Spans are for text that `document.yaml.parse` accepts, which limits its size, its depth and its aliases.
LINE_BREAK = regex("\r\n|[\n\r\x85\u2028\u2029]")  # YAML's
_NOTHING = regex(r"(?:\s|(?<!\S)#[^\n\r]*)*")  # blanks, line breaks and comments
_BLANKS = regex(r"[ \t]*")
_MERGE = "<<"


@dataclass(slots=True)
class Span:
    """
    The text from `start` to `end`, anchor and tag included, without comments around it.

    `after` is the end of the ":" or "-" before it; None where nothing can be inserted. `column` is the column of the
    keys, or the dashes, of a block. `style` is a scalar's quote, `|` or `>`.
    """

    kind: Literal["scalar", "mapping", "sequence", "alias"]
    start: int
    end: int
    after: int | None = None
    flow: bool = False
    column: int = 0
    style: str = ""
    is_null: bool = False
    parts: list["SpanPart"] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether it has no text, as in `key:`."""
        return self.start == self.end

    def part(self, step: str | int) -> "SpanPart | None":
        """Return the entry with that key, or the item with that index; None if there is none."""
        if isinstance(step, int):
            is_item = self.kind == "sequence" and step < len(self.parts)
            return self.parts[step] if is_item else None
        return next((part for part in self.parts if self.kind == "mapping" and part.key == step), None)


@dataclass(slots=True)
class SpanPart:
    """An entry of a mapping, from its key on, or an item of a sequence, from its dash on. `key` is None for an item,
    for `<<`, and for a key that is not text."""

    start: int
    value: Span
    key: str | None = None
    key_end: int = 0

    @property
    def end(self) -> int:
        return max(self.value.end, self.key_end)


def spans(text: str) -> Span:
    """Find the spans of the first document of `text`, which has no byte order mark."""
    events = YAML(typ="safe", pure=True).parse(text)
    first = next(event for event in events if not isinstance(event, StreamStartEvent | DocumentStartEvent))
    return _Reader(text, events).value(first)


class Lines:
    """The starts and ends of the lines of a text, without line breaks."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._breaks = [found.span() for found in LINE_BREAK.finditer(text)]

    def start(self, index: int) -> int:
        """Return the start of the line that contains `index`."""
        before = bisect(self._breaks, index, key=lambda found: found[1])
        return self._breaks[before - 1][1] if before else 0

    def end(self, index: int) -> int:
        found = self._after(index)
        return found[0] if found else len(self.text)

    def next(self, index: int) -> int:
        """Return the start of the following line; the end of the text if there is none."""
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
        return span

    def _scalar(self, event: Any, start: int, end: int) -> Span:
        is_null = event.implicit[0] and scalar(event.value) is None
        span = Span("scalar", start, end, style=event.style or "", is_null=is_null)
        if event.style in ("|", ">"):
            span.end = start + len(self.text[start:end].rstrip())  # with a "+" an edit behind it may be refused
        return span

    def _entry(self, key: Any, owner: Span) -> SpanPart:
        named = self.value(key)
        value = self.value(next(self.events))
        colon = _end(_BLANKS, self.text, named.end)
        after = colon + 1 if self.text[colon : colon + 1] == ":" else None
        if value.is_empty:
            value.start = value.end = after or named.end
        value.after = None if owner.flow else after
        return SpanPart(named.start, value, _name(key), named.end)

    def _item(self, event: Any, owner: Span) -> SpanPart:
        value = self.value(event)
        if owner.flow:
            return SpanPart(value.start, value)
        begin = owner.parts[-1].end if owner.parts else owner.start
        dash = _end(_NOTHING, self.text, begin)
        value.after = dash + 1
        if value.is_empty:
            value.start = value.end = dash + 1
        return SpanPart(dash, value)


def _end(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return match.end() if match else start


def _name(key: Any) -> str | None:
    if not isinstance(key, ScalarEvent) or (key.value == _MERGE and key.implicit[0]):
        return None
    return str(key.value)


# Values are written in the usual style of profiles: without quotes where possible, short lists on one line.
WIDTH = 100  # columns; a longer list or small mapping gets several lines
STEP = 2  # columns of indentation


def lines(key: str, value: Plain, *, column: int, level: int, step: int = STEP) -> Iterator[str]:
    """Write an entry of a mapping whose keys stand at `column`, `level` levels deep in its profile (from 1)."""
    head = f"{' ' * column}{name(key)}:"
    short = f"{head} {inline(value)}"
    if is_inline(value, level=level) and (len(short) <= WIDTH or not isinstance(value, Mapping | list | tuple)):
        yield short
        return
    yield head
    yield from below(value, column=column + step, level=level + 1, step=step)


def below(value: Plain, *, column: int, level: int, step: int = STEP) -> Iterator[str]:
    """Write the entries of a mapping, or the items of a list, each on its own lines."""
    if isinstance(value, Mapping):
        for key, entry in value.items():
            yield from lines(key, entry, column=column, level=level, step=step)
    else:
        yield from (f"{' ' * column}- {inline(item)}" for item in value)


def is_inline(value: Plain, *, level: int) -> bool:
    """Whether a value is usually written on one line, if it fits."""
    if not value or not isinstance(value, Mapping):
        return True
    is_section = level == 1 or not value.keys().isdisjoint(("command", "url"))  # of a profile; or a program
    return not is_section and not any(isinstance(entry, Mapping | list | tuple) for entry in value.values())


HEAD = ("version", "description", "extends", "agent", "workspace", "session", "permissions", "client")
ORDER = (*HEAD, "mcp_servers")  # the usual order of a profile's sections


class CannotEdit(Exception):  # noqa: N818 - it reads as what happened
    """Raised when a text cannot be edited; `path` is the place, `fix` the user's next step."""

    def __init__(self, path: KeyPath, message: str, fix: str) -> None:
        super().__init__(message)
        self.path, self.message, self.fix = path, message, fix


def by_hand(path: KeyPath) -> CannotEdit:
    """Build the error for an edit that would change other values too."""
    what = "cannot change this value alone: an alias, a merge or an unusual notation is in the way"
    return CannotEdit(path, what, "edit the file by hand")


class YamlText:
    """The text of a profile and its spans; `put` and `remove` return a new text."""

    def __init__(self, text: str) -> None:
        """`text` is accepted by `document.yaml.parse` and has no byte order mark."""
        self.text = text
        self.root = spans(text)
        self.lines = Lines(text)

    def put(self, path: KeyPath, value: Plain, comments: Sequence[str]) -> str:
        node = self.root
        for depth, step in enumerate(path):
            part = node.part(step)
            if part is None:
                return self._add(node, path, depth, value, comments)
            if depth == len(path) - 1 or _is_vacant(part.value, path[depth + 1]):
                return self._replace(node, part, _nest(path, depth + 1, value), level=depth + 1)
            node = self._inner(part.value, path[: depth + 1])
        raise CannotEdit((), "a profile is changed key by key", "name a key: agent.command")

    def remove(self, path: KeyPath) -> str:
        node, owner, part = self.root, self.root, self.root.part(path[0]) if path else None
        for depth, step in enumerate(path[1:], 1):
            if part is not None:
                owner, owning, node = node, part, self._inner(part.value, path[:depth])
                part = node.part(step)
        if part is None:
            raise CannotEdit(path, "this is not set in the file", "")
        if len(node.parts) > 1:
            return self._cut_flow(node, part) if node.flow else self._cut_block(node, part)
        if node is self.root:
            raise CannotEdit(path, "the profile would be empty", "delete the file")
        return self._replace(owner, owning, {} if node.kind == "mapping" else [], level=0)

    def _inner(self, span: Span, path: KeyPath) -> Span:
        if span.kind == "alias":
            fix = "write out what the alias stands for, then change that"
            raise CannotEdit(path, f"{dotted(path)} is an alias: {self.text[span.start : span.end]}", fix)
        if span.kind == "scalar":
            raise CannotEdit(path, f"{dotted(path)} is a single value, with nothing below it", "set it as a whole")
        return span

    def _add(self, node: Span, path: KeyPath, depth: int, value: Plain, comments: Sequence[str]) -> str:
        step, place = path[depth], dotted(path[:depth]) or "a profile"
        if node.kind == "mapping" and isinstance(step, int):
            raise CannotEdit(path, f"{place} is a mapping, whose entries have names", "give a name instead of a number")
        if node.kind == "sequence" and step != len(node.parts):
            what = f"{place} is a list of {len(node.parts)}"
            raise CannotEdit(path, what, f"{dotted((*path[:depth], len(node.parts)))} appends to it")
        nested = _nest(path, depth + 1, value)
        if node.flow:
            return self._add_in_flow(node, step, nested)
        if isinstance(step, int):
            return self._below(node.parts[-1], [f"{' ' * node.column}- {inline(nested)}"])
        return self._add_lines(node, step, nested, depth + 1, comments)

    def _add_in_flow(self, node: Span, step: str | int, value: Plain) -> str:
        entry = inline(value, in_flow=True) if isinstance(step, int) else inline({step: value})[1:-1]
        if node.parts:
            last = node.parts[-1]
            gap = " " if last.value.is_empty else ""
            return self._with(last.end, last.end, f"{gap}, {entry}")
        begin = self.text.index("[" if node.kind == "sequence" else "{", node.start) + 1
        is_blank = not self.text[begin : node.end - 1].strip()
        return self._with(begin, node.end - 1 if is_blank else begin, entry)

    def _add_lines(self, node: Span, key: str, value: Plain, level: int, comments: Sequence[str]) -> str:
        single = ("".join(mark if mark.isprintable() else " " for mark in comment) for comment in comments)
        written = [f"{' ' * node.column}# {comment}".rstrip() for comment in single]
        written += lines(key, value, column=node.column, level=level, step=self._step)
        if level > 1:
            return self._below(node.parts[-1], written)
        earlier = ORDER[: ORDER.index(key)] if key in ORDER else ()
        place = next((part for part in reversed(node.parts) if part.key in earlier), node.parts[-1])
        return self._below(place, self._with_blank_lines(place, written))

    def _with_blank_lines(self, place: SpanPart, written: list[str]) -> list[str]:
        if len(written) == 1:
            return written
        begin = self.lines.next(place.end)
        following = self.text[begin : self.lines.end(begin)]
        return ["", *written, *([""] if following.strip() and not following.startswith("...") else [])]

    def _below(self, place: SpanPart, written: Sequence[str]) -> str:
        end = self.lines.end(place.end)
        return self._with(end, end, "".join(self._break + line for line in written))

    def _replace(self, owner: Span, part: SpanPart, value: Plain, *, level: int) -> str:
        old = part.value
        if old.after is None:
            return self._with(old.start, old.end, self._in_place(part, value))
        stands_below = self.lines.end(old.after) < old.start
        if part.key is not None and isinstance(value, Mapping) and not is_inline(value, level=level):
            written = list(below(value, column=owner.column + self._step, level=level + 1, step=self._step))
            return self._replaced_by_lines(old, old.after, written, stands_below)
        new = inline(value, quote=old.style)
        if stands_below:
            return self._put_beside_key(old, old.after, new)
        return self._with(old.start, old.end, f" {new}" if old.start == old.after else new)

    def _in_place(self, part: SpanPart, value: Plain) -> str:
        """Write a value between brackets, where a key may have no value."""
        new = inline(value, in_flow=True, quote=part.value.style)
        if not part.value.is_empty:
            return new
        return f" {new}" if self.text[part.value.start - 1] == ":" else f": {new}"

    def _put_beside_key(self, old: Span, after: int, new: str) -> str:
        """Write `new` next to its key instead of on lines below it; comments between the two stay."""
        begin, end = self.lines.start(old.start), self.lines.end(old.end)
        kept, rest = self.text[after:begin], self.text[self.lines.next(end) :]
        if self.lines.next(end) == end:  # the text ends without a line break, and must stay so
            kept = self.text[after : self.lines.end(self.lines.start(begin - 1))] if begin > after else ""
        return f"{self.text[:after]} {new}{kept}{rest}"

    def _replaced_by_lines(self, old: Span, after: int, written: Sequence[str], stands_below: bool) -> str:
        end = self.lines.end(old.end)
        if stands_below:
            return self._with(self.lines.start(old.start), end, self._break.join(written))
        block = "".join(self._break + line for line in written)
        return self.text[:after] + self.text[old.end : end] + block + self.text[end:]

    def _cut_block(self, node: Span, part: SpanPart) -> str:
        begin, end = self.lines.start(part.start), self.lines.end(part.end)
        if not self.text[begin : part.start].strip():
            return self._with(begin, self.lines.next(end), "")
        follower = node.parts[node.parts.index(part) + 1].start  # the part next to a dash is the first of several
        is_next = self.lines.next(end) == self.lines.start(follower)
        return self._with(part.start, follower if is_next else end, "")

    def _cut_flow(self, node: Span, part: SpanPart) -> str:
        begin, end = part.start, self._past_blanks(part.end)
        if self.text[end : end + 1] == ",":
            end = self._past_blanks(end + 1)
            first = self.lines.start(begin)
            if not self.text[first:begin].strip() and end == self.lines.end(end):
                return self._with(first, self.lines.next(end), "")
            return self._with(begin, end, "")
        before = self.text[:begin].rstrip(" \t")
        return self._with(len(before) - 1 if before.endswith(",") else begin, part.end, "")

    def _past_blanks(self, index: int) -> int:
        return index + len(self.text[index:]) - len(self.text[index:].lstrip(" \t"))

    @property
    def _break(self) -> str:
        found = LINE_BREAK.search(self.text)
        return found.group() if found else "\n"

    @property
    def _step(self) -> int:
        blocks = (part.value for part in self.root.parts if part.value.kind == "mapping" and not part.value.flow)
        return next((block.column for block in blocks if block.column), STEP)

    def _with(self, begin: int, end: int, new: str) -> str:
        return self.text[:begin] + new + self.text[end:]


def _is_vacant(span: Span, step: str | int) -> bool:
    """Whether a value is empty, so that one with a part called `step` may replace it."""
    return span.is_null or (span.kind == "mapping" and not span.parts and isinstance(step, str))


def _nest(path: KeyPath, depth: int, value: Plain) -> Plain:
    """Wrap `value` in new mappings and lists for the steps of `path` from `depth` on."""
    for step in reversed(path[depth:]):
        if isinstance(step, int) and step:
            raise CannotEdit(path, "this list has no items yet", "the first item is [0]")
        value = [value] if isinstance(step, int) else {step: value}
    return value
