"""
JSON with comments and trailing commas, as editors write it: read, and one value changed. Pure.

Comments are replaced by spaces, so offsets and lines stay the same. Untrusted text costs linear time, and too deep a
nesting is reported like any other error. An edit keeps all other text, or is refused: the new text always means the old
one with exactly that change.
"""

import json
import re
from itertools import pairwise
from typing import Any

from msgspec import Struct

from acp_launch.document.nodes import as_written
from acp_launch.protocol.splice import visible
from acp_launch.regex import regex

MAX_DEPTH = 64  # our formats need 7
# An unclosed string ends with its line, so that each quote is read only once.
_TOKEN = regex(r'"(?:[^"\\\n]|\\.)*"?|(?P<line>//[^\n]*)|(?P<block>/\*.*?(?:\*/|\Z))', re.DOTALL)
_COMMA = regex(r'"(?:[^"\\\n]|\\.)*"?|(?P<comma>,)(?=\s*[}\]])')
_VISIBLE = regex(r"[^\n\r]")


class BadJson(ValueError):  # noqa: N818 - it reads as what it is
    """Raised for text that is not JSON; the message never quotes it. Line and column count from 1; 0 means unknown."""

    def __init__(self, message: str, *, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


def blank_comments(text: str) -> str:
    """Replace every comment by as many spaces."""
    return _TOKEN.sub(lambda token: _VISIBLE.sub(" ", token[0]) if token.lastgroup else token[0], text)


def parse(text: str) -> tuple[Any, tuple[str, ...]]:
    """Parse JSON; also return the keys that appear more than once in one object, the last of which counts, as in the
    tools.

    Raises:
        BadJson: it is not JSON, or is nested deeper than `MAX_DEPTH`.
    """
    bare = _COMMA.sub(lambda token: " " if token["comma"] else token[0], blank_comments(text.removeprefix("\ufeff")))
    twice: dict[str, None] = {}
    try:
        root = json.loads(bare, parse_float=number, object_pairs_hook=lambda pairs: _object(pairs, twice))
    except json.JSONDecodeError as bad:
        reason = f"{bad.msg[:1].lower()}{bad.msg[1:]}"
        raise BadJson(f"not valid JSON: {reason}", line=bad.lineno, column=bad.colno) from None
    except (RecursionError, ValueError):  # ValueError for a number with thousands of digits
        raise BadJson("not valid JSON: nested too deep, or a number too long") from None
    level = [root]
    for _ in range(MAX_DEPTH):
        level = [child for value in level for child in _children(value)]
    if level:
        raise BadJson(f"nested deeper than {MAX_DEPTH} levels")
    return root, tuple(twice)


def number(text: str) -> float:
    """Read a number that remembers how it is written: a version of 1.50 is not 1.5."""
    return as_written(float(text), text)


def _object(pairs: list[tuple[str, Any]], twice: dict[str, None]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            twice[key] = None
        found[key] = value
    return found


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


# An edit of text that `parse` accepted.
_SPACE = regex(r"\s*")
_STRING = regex(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKET = regex(r'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_SCALAR = regex(r"[^\s,\]}]+")
_INDENT = regex(r"\n([ \t]+)[^\s]")


class Misfit(ValueError):  # noqa: N818 - it reads as what it is
    """Raised when other text would have to change too; the message says what was expected there."""


class _Part(Struct, frozen=True):
    """A member of an object or an item of a list; `start` is the start of its key, or of an item's value."""

    key: str | int
    start: int
    value: int
    end: int


def put(text: str, path: tuple[str | int, ...], value: Any) -> str:
    """Set `value` at `path` of a JSON text; missing objects are created. A number one past a list's end appends to it.

    Raises:
        Misfit: another value is in the way, or a key on the way appears twice.
    """
    made = _put(text, path, value)
    wanted, _ = parse(text)
    above = wanted
    for step, further in pairwise(path):
        above = above.setdefault(step, [] if isinstance(further, int) else {})
    if isinstance(above, list) and path[-1] == len(above):
        above.append(None)
    above[path[-1]] = value
    if parse(made)[0] != wanted:
        raise Misfit("keys that appear once")
    return made


def _put(text: str, path: tuple[str | int, ...], value: Any) -> str:
    bare = blank_comments(text)
    at = end = _space(bare, 1 if bare.startswith("\ufeff") else 0)
    for depth, key in enumerate(path):
        parts, close = _parts(bare, at, "{" if isinstance(key, str) else "[")
        found = next((part for part in reversed(parts) if part.key == key), None)
        if found is None:
            for missing in reversed(path[depth + 1 :]):
                value = {missing: value} if isinstance(missing, str) else [value]
            name = f"{visible(json.dumps(key, ensure_ascii=False))}: " if isinstance(key, str) else ""
            return _insert(text, bare, at, parts, close, name, value)
        at, end = found.value, found.end
    return text[:at] + _json(value, text, _margin(text, at)) + text[end:]


def _parts(bare: str, at: int, opening: str) -> tuple[list[_Part], int]:
    """Return the parts of the object or list that begins at `at`, and the position of its end."""
    if bare[at : at + 1] != opening:
        raise Misfit("an object" if opening == "{" else "a list")
    parts: list[_Part] = []
    position = _space(bare, at + 1)
    while bare[position] not in "}]":
        if bare[position] == ",":
            position = _space(bare, position + 1)
            continue
        start, key = position, len(parts)
        if opening == "{":
            position = _value_end(bare, start)
            key = json.loads(bare[start:position])
            position = _space(bare, _space(bare, position) + 1)  # behind the colon
        end = _value_end(bare, position)
        parts.append(_Part(key, start, position, end))
        position = _space(bare, end)
    return parts, position


def _value_end(bare: str, position: int) -> int:
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


def _insert(text: str, bare: str, at: int, parts: list[_Part], close: int, name: str, value: Any) -> str:
    """Append a part on its own line; a comment behind the former last part stays behind that."""
    before = parts[-1].start if parts else at
    begins_line = bool(parts) and not text[text.rfind("\n", 0, before) + 1 : before].strip()
    margin = _margin(text, before) + ("" if begins_line else _unit(text))
    new = _line_end(text) + margin + name + _json(value, text, margin)
    last = len(text[:close].rstrip())
    tail = text[last:close] if "\n" in text[last:close] else _line_end(text) + _margin(text, at)
    if not parts:
        return text[:last] + new + tail + text[close:]
    end = parts[-1].end
    comma = "" if "," in bare[end:close] else ","
    return text[:end] + comma + text[end:last] + new + tail + text[close:]


def _json(value: Any, text: str, margin: str) -> str:
    written = visible(json.dumps(value, indent=_unit(text), ensure_ascii=False))
    return written.replace("\n", _line_end(text) + margin)


def _margin(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    found = _INDENT.search(text)
    return found[1] if found else "  "


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _space(bare: str, position: int) -> int:
    found = _SPACE.match(bare, position)
    return found.end() if found else position
