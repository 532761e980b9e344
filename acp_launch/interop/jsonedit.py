"""
One member of a JSON text is set, or one item added, and every other byte stays: comments, order, indentation. Pure.

The text must have been parsed before (`jsonc.parse`): here nothing is checked again but what lies on the way.
"""

import json
import re
from typing import Any

from msgspec import Struct

from acp_launch.interop.jsonc import blanked
from acp_launch.protocol.written import visible

_SPACE = re.compile(r"\s*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_SCALAR = re.compile(r"[^\s,\]}]+")


class Misfit(ValueError):  # noqa: N818 - it reads as what it is
    """Raised where something that is no object, or no list, is in the way."""


class _Part(Struct, frozen=True):
    """A member of an object or an item of a list; `start` is where its key begins, an item's value."""

    key: str
    start: int
    value: int
    end: int


def put(text: str, path: tuple[str, ...], value: Any) -> str:
    """`value` at `path`; objects that are missing on the way are made.

    Raises:
        Misfit: something else is in the way.
    """
    bare = blanked(text)
    at = _space(bare, 1 if bare.startswith("\ufeff") else 0)
    for depth, key in enumerate(path):
        parts, close = _parts(bare, at, "{")
        found = next((part for part in reversed(parts) if part.key == key), None)
        if found is None:
            for missing in reversed(path[depth + 1 :]):
                value = {missing: value}
            return _inserted(text, bare, at, parts, close, f"{_quoted(key)}: ", value)
        at = found.value
        end = found.end
    return text[:at] + _written(value, _margin(text, at), _unit(text), _line_end(text)) + text[end:]


def add(text: str, path: tuple[str, ...], value: Any, *, instead: int | None = None) -> str:
    """`value` as the last item of the list at `path`, which is made when there is none; or instead of one of them.

    Raises:
        Misfit: something else is in the way.
    """
    bare = blanked(text)
    at = _space(bare, 1 if bare.startswith("\ufeff") else 0)
    for key in path:
        parts, _ = _parts(bare, at, "{")
        found = next((part for part in reversed(parts) if part.key == key), None)
        if found is None:
            return put(text, path, [value])
        at = found.value
    parts, close = _parts(bare, at, "[")
    if instead is None:
        return _inserted(text, bare, at, parts, close, "", value)
    old = parts[instead]
    return text[: old.value] + _written(value, _margin(text, old.value), _unit(text), _line_end(text)) + text[old.end :]


def _parts(bare: str, at: int, opening: str) -> tuple[list[_Part], int]:
    """The parts of the object or list that begins at `at`, and where it closes."""
    if bare[at : at + 1] != opening:
        raise Misfit("an object" if opening == "{" else "a list")
    parts: list[_Part] = []
    position = _space(bare, at + 1)
    while bare[position] not in "}]":
        if bare[position] == ",":
            position = _space(bare, position + 1)
            continue
        start, key = position, ""
        if opening == "{":
            key, position = _key(bare, position)
        end = _end(bare, position)
        parts.append(_Part(key, start, position, end))
        position = _space(bare, end)
    return parts, position


def _key(bare: str, position: int) -> tuple[str, int]:
    """A member's key, and where its value begins."""
    quoted = _STRING.match(bare, position)
    assert quoted, "the text was parsed before"
    return json.loads(quoted[0]), _space(bare, _space(bare, quoted.end()) + 1)


def _end(bare: str, position: int) -> int:
    """Where the value that begins at `position` ends."""
    if bare[position] not in "{[":
        found = (_STRING if bare[position] == '"' else _SCALAR).match(bare, position)
        assert found, "the text was parsed before"
        return found.end()
    depth = 0
    for bracket in _BRACKET.finditer(bare, position):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(bracket[0], 0)
        if depth == 0:
            return bracket.end()
    raise AssertionError("the text was parsed before")


def _inserted(text: str, bare: str, at: int, parts: list[_Part], close: int, key: str, value: Any) -> str:
    """A part more, last, on a line of its own; a comment behind the one that was last stays behind it."""
    line_end, unit = _line_end(text), _unit(text)
    margin = _margin(text, parts[-1].start if parts else at) + ("" if _begins_line(text, parts) else unit)
    new = line_end + margin + key + _written(value, margin, unit, line_end)
    last = len(text[:close].rstrip())
    tail = text[last:close] if "\n" in text[last:close] else line_end + _margin(text, at)
    if not parts:
        return text[:last] + new + tail + text[close:]
    end = parts[-1].end
    comma = "" if "," in bare[end:close] else ","
    return text[:end] + comma + text[end:last] + new + tail + text[close:]


def _begins_line(text: str, parts: list[_Part]) -> bool:
    if not parts:
        return False
    start = parts[-1].start
    return not text[text.rfind("\n", 0, start) + 1 : start].strip()


def _written(value: Any, margin: str, unit: str, line_end: str) -> str:
    return visible(json.dumps(value, indent=unit, ensure_ascii=False)).replace("\n", line_end + margin)


def _quoted(key: str) -> str:
    return visible(json.dumps(key, ensure_ascii=False))


def _margin(text: str, position: int) -> str:
    """The blanks at the beginning of its line."""
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    """How deep this text indents."""
    found = re.search(r"\n([ \t]+)[^\s]", text)
    return found[1] if found else "  "


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _space(bare: str, position: int) -> int:
    found = _SPACE.match(bare, position)
    return found.end() if found else position
