"""
The tree of a YAML document: each `Node` knows its place, its plain value and its size. Pure.

Scalars follow the YAML 1.2 core schema and nothing else: `yes`, `on`, `1_000` and `2026-01-31` are text. `decode`
turns the bytes of a file into text, or into a Problem.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, field

from acp_launch.problem import KeyPath, Problem, Severity, about
from acp_launch.regex import regex

Plain = Any  # a value of YAML: str, int, float, bool, None, or a list or dict of those

_INTEGER = regex(r"[-+]?[0-9]{1,300}|0o[0-7]{1,300}|0x[0-9a-fA-F]{1,300}")
_FLOAT = regex(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORDS = {
    "": None,
    **dict.fromkeys(("~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


class WrittenInt(int):
    """An integer whose notation differs from Python's: `007`, `0x1f`."""

    written: str


class WrittenFloat(float):
    """A float whose notation differs from Python's: `1.50`, `1e3`."""

    written: str


def as_written(value: "int | float", text: str) -> "int | float":
    """Return `value`, with its notation attached where `str` would give another."""
    if str(value) == text:
        return value
    kept = WrittenInt(value) if isinstance(value, int) else WrittenFloat(value)
    kept.written = text
    return kept


def number_text(value: "int | float") -> str:
    return value.written if isinstance(value, WrittenInt | WrittenFloat) else str(value)


class Place(Struct, frozen=True):
    """A position: line and column, from 1, and the file as messages name it."""

    line: int
    column: int
    file: str = ""

    def problem(self, path: str, message: str, fix: str = "", severity: Severity = "error") -> Problem:
        return Problem(self.file, self.line, self.column, path, message, fix, severity)


# path → file, line and column of the key, line and column of the value, `Node.lead`
Table = dict[KeyPath, tuple[str, int, int, int, int, int | None]]


class Positions(Struct, frozen=True):
    """The places of the values of a document."""

    table: Table

    def where(self, path: KeyPath, *, key: bool = False, offset: int = 0) -> Place:
        """Return the place of the value at `path` (or of its key); of the nearest parent if the value is missing.

        `offset` counts characters into a text; it is ignored where the text does not stand in the file literally.
        """
        known = path
        while known not in self.table:
            known = known[:-1]
        file, key_line, key_column, line, column, lead = self.table[known]
        if key or known != path:
            return Place(key_line, key_column, file)
        return Place(line, column + (0 if lead is None or not offset else lead + offset), file)


class Node(Struct):
    """
    A value of the document with its place.

    `size` and `height` count the node and all below it, aliases expanded. `lead` is the number of columns between the
    node's place and its first character; None when the text does not stand on that line literally.
    """

    place: Place
    value: Plain
    size: int = 1
    height: int = 1
    lead: int | None = None
    entries: dict[str, tuple[Place, "Node"]] = field(default_factory=dict)
    items: list["Node"] = field(default_factory=list)

    def append(self, item: "Node") -> None:
        self.items.append(item)
        self.value.append(item.value)
        self._carry(item)

    def put(self, key: str, place: Place, node: "Node") -> None:
        self.entries[key] = (place, node)
        self.value[key] = node.value
        self._carry(node)

    def _carry(self, child: "Node") -> None:
        self.size += child.size
        self.height = max(self.height, child.height + 1)


def wrap(node: Node, key: str, inner: Node) -> Node:
    """Return a mapping with one entry, in the place of `node`."""
    made = Node(node.place, {})
    made.put(key, node.place, inner)
    return made


def wrap_scalar(key: str) -> Callable[[Node], Node]:
    """Return the change that makes a scalar, but not null, the entry under `key` of a mapping."""
    return lambda node: node if isinstance(node.value, dict | list | None) else wrap(node, key, node)


def change_at(node: Node, path: Sequence[str], change: Callable[[Node], Node]) -> None:
    """Change the value at `path` in place, if there is one; `*` stands for every key."""
    step, *rest = path
    for key in [each for each in node.entries if step in (each, "*")]:
        place, inner = node.entries[key]
        if rest:
            change_at(inner, rest, change)
        else:
            node.entries[key] = place, change(inner)
            node.value[key] = node.entries[key][1].value


def scalar(text: str) -> Plain:
    """Convert plain (unquoted, untagged) text to its value."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return as_written(int(text, 0) if text[:2] in {"0o", "0x"} else int(text), text)
    if _FLOAT.fullmatch(text):
        return as_written(float(re.sub(r"\.(?=inf|nan)", "", text.lower())), text)
    return text


def section(owner: Plain, key: str) -> dict[str, Plain]:
    """Return the mapping under a key; an empty one if something else is there, or around it."""
    value = owner.get(key) if isinstance(owner, dict) else None
    return value if isinstance(value, dict) else {}


def found(value: Plain) -> str:
    """Name a value for a message: `the number 8080`, `a list`, `nothing`."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"the truth value {str(value).lower()}"
    if isinstance(value, int | float):
        return f"the number {shorten(number_text(value))}"
    if isinstance(value, str):
        return f'the text "{shorten(value)}"'
    return "a list" if isinstance(value, list | tuple) else "a mapping"


def shorten(text: str) -> str:
    """Cut a value to what a message needs to recognise it."""
    return text if len(text) <= 60 else text[:57] + "..."


MAX_SIZE = 256 * 1024  # bytes; a profile of a thousand servers is 200 KiB


class Kind(NamedTuple):
    """A kind of file: its noun and how one may begin, for messages; and at which paths what makes a short form long."""

    noun: str
    begin: str
    may_be_empty: bool = False
    short_forms: Sequence[tuple[Sequence[str], Callable[[Node], Node]]] = ()


def _switch_on(node: Node) -> Node:
    """Make a text the key of a mapping in which it is switched on."""
    return wrap(node, node.value, Node(node.place, True)) if isinstance(node.value, str) else node


_SHORT_FORMS = ((("runtime",), _switch_on), (("mcp_servers", "*", "restart"), wrap_scalar("policy")))
PROFILE = Kind("a profile", "version: 1", short_forms=_SHORT_FORMS)
OVERLAY = Kind("an overlay", "agent:", may_be_empty=True, short_forms=_SHORT_FORMS)
SETTINGS = Kind("a settings file", "max_line: 64MiB", may_be_empty=True)


def decode(content: bytes, file: str, kind: Kind = PROFILE) -> tuple[str | None, list[Problem]]:
    """Decode the content of a file; None and a Problem when it is not UTF-8 text. `parse` drops a byte order mark."""
    if len(content) > MAX_SIZE:
        return None, [too_large(file, kind)]
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return None, [Problem(file, 1, 1, "", "this file is UTF-16, not UTF-8", "save it as UTF-8")]
    try:
        return content.decode(), []
    except UnicodeDecodeError as bad:
        before = content[: bad.start].decode()
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        what = f"the byte 0x{content[bad.start]:02x} is not UTF-8 text"
        return None, [Problem(file, line, column, "", what, "save the file as UTF-8")]


def too_large(file: str, kind: Kind) -> Problem:
    return about(file, f"this file is larger than {MAX_SIZE // 1024} KiB", f"check that this is {kind.noun}")
