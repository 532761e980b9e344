"""
A profile's text with the places of its values: what `edit` cuts, joins and writes between. Pure.

It does what is likely to be right; `edit` compares what came out with what was meant.
"""

from collections.abc import Mapping, Sequence

from acp_launch.document.keypath import KeyPath, dotted
from acp_launch.document.nodes import Plain
from acp_launch.profile.spans import LINE_BREAK, Lines, Part, Span, spans
from acp_launch.profile.yamltext import STEP, below, inline, is_inline, lines

HEAD = ("version", "description", "extends", "agent", "workspace", "session", "permissions", "client")
ORDER = (*HEAD, "mcp_servers")  # of a profile's sections, as people write them


class CannotEdit(Exception):  # noqa: N818 - it reads as what happened
    """Raised when a text stays as it is; `path` is where, `fix` what a person can do."""

    def __init__(self, path: KeyPath, message: str, fix: str) -> None:
        super().__init__(message)
        self.path, self.message, self.fix = path, message, fix


def by_hand(path: KeyPath) -> CannotEdit:
    what = "this cannot be changed alone: an alias, a merge or an unusual notation is in the way"
    return CannotEdit(path, what, "edit the file by hand")


class Page:
    def __init__(self, text: str) -> None:
        """`text` is one that `document.tree.parse` takes, without a byte order mark."""
        self.text = text
        self.root = spans(text)
        self.lines = Lines(text)

    def put(self, path: KeyPath, value: Plain, comments: Sequence[str]) -> str:
        node = self.root
        for depth, step in enumerate(path):
            part = node.part(step)
            if part is None:
                return self._added(node, path, depth, value, comments)
            if depth == len(path) - 1 or _is_vacant(part.value, path[depth + 1]):
                return self._replaced(node, part, _nested(path, depth + 1, value), level=depth + 1)
            node = self._inner(part.value, path[: depth + 1])
        raise CannotEdit((), "a profile is changed key by key", "name a key: agent.command")

    def remove(self, path: KeyPath) -> str:
        node, owner, part = self.root, self.root, self.root.part(path[0]) if path else None
        for depth, step in enumerate(path[1:], 1):
            if part is not None:
                owner, owning, node = node, part, self._inner(part.value, path[:depth])
                part = node.part(step)
        if part is None:
            raise CannotEdit(path, "this is not written in the file", "")
        if len(node.parts) > 1:
            return self._cut_flow(node, part) if node.flow else self._cut_block(node, part)
        if node is self.root:
            raise CannotEdit(path, "nothing would be left of the profile", "delete the file")
        return self._replaced(owner, owning, {} if node.kind == "mapping" else [], level=0)

    def _inner(self, span: Span, path: KeyPath) -> Span:
        if span.kind == "alias":
            fix = "write out what the alias stands for, then change that"
            raise CannotEdit(path, f"{dotted(path)} is an alias: {self.text[span.start : span.end]}", fix)
        if span.kind == "scalar":
            raise CannotEdit(path, f"{dotted(path)} is a single value, with nothing below it", "set it as a whole")
        return span

    def _added(self, node: Span, path: KeyPath, depth: int, value: Plain, comments: Sequence[str]) -> str:
        step, place = path[depth], dotted(path[:depth]) or "a profile"
        if node.kind == "mapping" and isinstance(step, int):
            raise CannotEdit(path, f"{place} is a mapping, whose entries have names", "give a name instead of a number")
        if node.kind == "sequence" and step != len(node.parts):
            what = f"{place} is a list of {len(node.parts)}"
            raise CannotEdit(path, what, f"{dotted((*path[:depth], len(node.parts)))} appends to it")
        nested = _nested(path, depth + 1, value)
        if node.flow:
            return self._joined(node, step, nested)
        if isinstance(step, int):
            return self._below(node.parts[-1], [f"{' ' * node.column}- {inline(nested)}"])
        return self._listed(node, step, nested, depth + 1, comments)

    def _joined(self, node: Span, step: str | int, value: Plain) -> str:
        """One more entry between brackets."""
        entry = inline(value, in_flow=True) if isinstance(step, int) else inline({step: value})[1:-1]
        if node.parts:
            last = node.parts[-1]
            gap = " " if last.value.is_empty else ""
            return self._with(last.end, last.end, f"{gap}, {entry}")
        begin = self.text.index("[" if node.kind == "sequence" else "{", node.start) + 1
        is_blank = not self.text[begin : node.end - 1].strip()
        return self._with(begin, node.end - 1 if is_blank else begin, entry)

    def _listed(self, node: Span, key: str, value: Plain, level: int, comments: Sequence[str]) -> str:
        """One more entry on lines of its own."""
        written = [f"{' ' * node.column}# {_one_line(comment)}".rstrip() for comment in comments]
        written += lines(key, value, column=node.column, level=level, step=self._step)
        if level > 1:
            return self._below(node.parts[-1], written)
        earlier = ORDER[: ORDER.index(key)] if key in ORDER else ()
        place = next((part for part in reversed(node.parts) if part.key in earlier), node.parts[-1])
        return self._below(place, self._spaced(place, written))

    def _spaced(self, place: Part, written: list[str]) -> list[str]:
        """A section stands between blank lines."""
        if len(written) == 1 or place.value.keeps_breaks:
            return written
        begin = self.lines.next(place.end)
        following = self.text[begin : self.lines.end(begin)]
        return ["", *written, *([""] if following.strip() and not following.startswith("...") else [])]

    def _below(self, place: Part, written: Sequence[str]) -> str:
        end = self.lines.end(place.end)
        return self._with(end, end, "".join(self._break + line for line in written))

    def _replaced(self, owner: Span, part: Part, value: Plain, *, level: int) -> str:
        old = part.value
        if old.after is None:
            return self._with(old.start, old.end, self._in_place(part, value))
        stands_below = self.lines.end(old.after) < old.start
        if part.key is not None and isinstance(value, Mapping) and not is_inline(value, level=level):
            written = list(below(value, column=owner.column + self._step, level=level + 1, step=self._step))
            return self._replaced_by_lines(old, old.after, written, stands_below)
        new = inline(value, quote=old.style)
        if stands_below:
            return self._raised(old, old.after, new)
        return self._with(old.start, old.end, f" {new}" if old.start == old.after else new)

    def _in_place(self, part: Part, value: Plain) -> str:
        """Between brackets, where a key may stand alone."""
        new = inline(value, in_flow=True, quote=part.value.style)
        if not part.value.is_empty:
            return new
        return f" {new}" if self.text[part.value.start - 1] == ":" else f": {new}"

    def _raised(self, old: Span, after: int, new: str) -> str:
        """`new` beside its key, instead of lines below; comments between the two stay."""
        begin, end = self.lines.start(old.start), self.lines.end(old.end)
        kept, rest = self.text[after:begin], self.text[self.lines.next(end) :]
        if self.lines.next(end) == end:  # the text ends without a line break, and goes on doing so
            kept = self.text[after : self.lines.end(self.lines.start(begin - 1))] if begin > after else ""
        return f"{self.text[:after]} {new}{kept}{rest}"

    def _replaced_by_lines(self, old: Span, after: int, written: Sequence[str], stands_below: bool) -> str:
        end = self.lines.end(old.end)
        if stands_below:
            return self._with(self.lines.start(old.start), end, self._break.join(written))
        block = "".join(self._break + line for line in written)
        return self.text[:after] + self.text[old.end : end] + block + self.text[end:]

    def _cut_block(self, node: Span, part: Part) -> str:
        begin, end = self.lines.start(part.start), self.lines.end(part.end)
        if not self.text[begin : part.start].strip():
            return self._with(begin, self.lines.next(end), "")
        if part.is_explicit:
            raise by_hand(())
        follower = node.parts[node.parts.index(part) + 1].start  # beside a dash stands the first of several
        is_next = self.lines.next(end) == self.lines.start(follower)
        return self._with(part.start, follower if is_next else end, "")

    def _cut_flow(self, node: Span, part: Part) -> str:
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
        """How far this text indents."""
        blocks = (part.value for part in self.root.parts if part.value.kind == "mapping" and not part.value.flow)
        return next((block.column for block in blocks if block.column), STEP)

    def _with(self, begin: int, end: int, new: str) -> str:
        return self.text[:begin] + new + self.text[end:]


def _is_vacant(span: Span, step: str | int) -> bool:
    """Whether something with a part called `step` may stand in its place."""
    return span.is_null or (span.kind == "mapping" and not span.parts and isinstance(step, str))


def _one_line(comment: str) -> str:
    """A line break in a comment would begin something that is none."""
    return "".join(mark if mark.isprintable() else " " for mark in comment)


def _nested(path: KeyPath, depth: int, value: Plain) -> Plain:
    """`value` below the steps of `path` from `depth` on, where nothing is yet."""
    for step in reversed(path[depth:]):
        if isinstance(step, int) and step:
            raise CannotEdit(path, "this list has no items yet", "the first is [0]")
        value = [value] if isinstance(step, int) else {step: value}
    return value
