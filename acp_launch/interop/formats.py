"""
JSON with comments and trailing commas, as editors write it: `parse` reads it, `put` and `add` change one value. Pure.

Comments are replaced by spaces, so offsets and lines stay the same. Untrusted text costs linear time, and too deep a
nesting is reported like any other error. An edit keeps comments, order and indentation of all other text.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import dropwhile
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from acp_launch.document.nodes import as_written
from acp_launch.protocol.written import visible, visible_long
from acp_launch.regex import regex

if TYPE_CHECKING:
    from tomlkit.items import InlineTable, Item, Table


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


class Parsed(Struct, frozen=True):
    """Parsed JSON. `twice` are keys that appear more than once in one object; the last one counts, as in the tools."""

    root: Any
    twice: tuple[str, ...]


def blanked(text: str) -> str:
    """Replace every comment by as many spaces."""
    return _TOKEN.sub(lambda token: _VISIBLE.sub(" ", token[0]) if token.lastgroup else token[0], text)


def parse(text: str) -> Parsed:
    """
    Parse a text.

    Raises:
        BadJson: it is not JSON, or is nested deeper than `MAX_DEPTH`.
    """
    bare = _COMMA.sub(lambda token: " " if token["comma"] else token[0], blanked(text.removeprefix("\ufeff")))
    twice: dict[str, None] = {}
    try:
        root = json.loads(bare, parse_float=_number, object_pairs_hook=lambda pairs: _once(pairs, twice))
    except json.JSONDecodeError as bad:
        reason = f"{bad.msg[:1].lower()}{bad.msg[1:]}"
        raise BadJson(f"not valid JSON: {reason}", line=bad.lineno, column=bad.colno) from None
    except (RecursionError, ValueError):  # ValueError for a number with thousands of digits
        raise BadJson("not valid JSON: nested too deep, or a number too long") from None
    if _is_deep(root):
        raise BadJson(f"nested deeper than {MAX_DEPTH} levels")
    return Parsed(root, tuple(twice))


def _number(text: str) -> float:
    return as_written(float(text), text)


def _once(pairs: list[tuple[str, Any]], twice: dict[str, None]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                twice[key] = None
            seen.add(key)
    return found


def _is_deep(root: Any) -> bool:
    level = [root]
    for _ in range(MAX_DEPTH):
        level = [child for value in level for child in _children(value)]
        if not level:
            return False
    return True


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


# Edits are for text that `parse` accepted; only the path to the changed value is checked again.
_SPACE = regex(r"\s*")
_STRING = regex(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKET = regex(r'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_SCALAR = regex(r"[^\s,\]}]+")


class Misfit(ValueError):  # noqa: N818 - it reads as what it is
    """Raised when a value of another type is in the way; the message names the expected type."""


class _Part(Struct, frozen=True):
    """A member of an object or an item of a list; `start` is the start of its key, or of an item's value."""

    key: str
    start: int
    value: int
    end: int


def put(text: str, path: tuple[str, ...], value: Any) -> str:
    """Set `value` at `path`; missing objects are created.

    Raises:
        Misfit: another value is in the way.
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
    """Append `value` to the list at `path`, which is created if missing; or replace the item number `instead`.

    Raises:
        Misfit: another value is in the way.
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
    """Return the parts of the object or list that begins at `at`, and the position of its end."""
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
    """Return a member's key, and the position of its value."""
    quoted = _STRING.match(bare, position)
    assert quoted, "the text was parsed before"
    return json.loads(quoted[0]), _space(bare, _space(bare, quoted.end()) + 1)


def _end(bare: str, position: int) -> int:
    """Return the end of the value that begins at `position`."""
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
    """Append a part on its own line; a comment behind the former last part stays behind that."""
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
    """Return the indentation of a line."""
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    """Return the unit of indentation of this text."""
    found = re.search(r"\n([ \t]+)[^\s]", text)
    return found[1] if found else "  "


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _space(bare: str, position: int) -> int:
    found = _SPACE.match(bare, position)
    return found.end() if found else position


# Edits of a TOML text: `put_table` adds or replaces one table; comments and everything else stay.


def put_table(text: str, holder: str, name: str, value: Mapping[str, Any]) -> str:
    """Put `value` as the table `[holder.name]`.

    Raises:
        Misfit: other text would have to change too.
    """
    wanted = tomllib.loads(text)
    above = wanted.setdefault(holder, {})
    if not isinstance(above, dict):
        raise Misfit("a table")
    above[name] = dict(value)
    from tomlkit.exceptions import TOMLKitError  # takes 80 ms to import, and is seldom needed

    with suppress(TOMLKitError):
        for written in _attempts(text, holder, name, value):
            if _reads_as(written, wanted):
                return written
    raise Misfit("a table of its own")


def _attempts(text: str, holder: str, name: str, value: Mapping[str, Any]) -> Iterator[str]:
    """Yield candidates: the table at the end, then in its present place. The caller checks them; some are wrong."""
    import tomlkit

    line_end = "\r\n" if "\r\n" in text else "\n"
    lines = tomlkit.dumps({holder: {name: value}}).removesuffix("\n").split("\n")
    new = "".join(visible_long(line) + line_end for line in lines)
    yield text + (line_end * (1 if text.endswith("\n") else 2) if text else "") + new
    for is_inline in (False, True):
        document = tomlkit.parse(text)
        _replace(document[holder], name, tomlkit.parse(new)[holder][name], is_inline)
        yield document.as_string()


def _replace(above: Any, name: str, new: "Table", is_inline: bool) -> None:
    """Replace a table. Comments behind the old one belong to the next, though the library attaches them to the old."""
    from tomlkit.items import InlineTable, Table

    old = above.get(name)
    behind = _behind(old) if isinstance(old, Table) else []
    if (
        isinstance(above, InlineTable)
        or isinstance(old, InlineTable)
        or (is_inline and isinstance(old, Table) and not behind)
    ):
        above[name] = _inline(new)
    elif isinstance(old, Table):
        above[name] = new
        for item in behind:
            _last(new).append(None, item)
    else:
        raise Misfit("a table of its own")


def _behind(old: "Table") -> "list[Item]":
    from tomlkit.items import Comment, Whitespace

    items = [item for _, item in _last(old).value.body]
    kept = list(dropwhile(lambda item: isinstance(item, Comment | Whitespace), reversed(items)))
    return items[len(kept) :]


def _last(table: "Table") -> "Table":
    """Return the innermost table that ends where this one ends."""
    from tomlkit.items import Table

    items = [item for _, item in table.value.body]
    return _last(items[-1]) if items and isinstance(items[-1], Table) else table


def _inline(table: Mapping[str, Any]) -> "InlineTable":
    import tomlkit

    made = tomlkit.inline_table()
    for key, item in table.items():
        made[key] = _inline(item) if isinstance(item, Mapping) else item
    return made


def _reads_as(written: str, wanted: dict[str, Any]) -> bool:
    try:
        return tomllib.loads(written) == wanted
    except tomllib.TOMLDecodeError:
        return False
