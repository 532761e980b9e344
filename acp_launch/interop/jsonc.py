"""
JSON as editors write it, with comments and commas too many: text becomes values, with a line for what is wrong. Pure.

Comments are blanked out, so every offset and every line stays what it is. Text from a stranger costs linear time; what
is nested too deep for the decoder is a fault like any other.
"""

import json
import re
from typing import Any

from msgspec import Struct

from acp_launch.document.nodes import as_written

MAX_DEPTH = 64  # our formats need 7
# A string that is never closed ends with its line, so that no quote is looked at twice.
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"?|(?P<line>//[^\n]*)|(?P<block>/\*.*?(?:\*/|\Z))', re.DOTALL)
_COMMA = re.compile(r'"(?:[^"\\\n]|\\.)*"?|(?P<comma>,)(?=\s*[}\]])')
_VISIBLE = re.compile(r"[^\n\r]")


class BadJson(ValueError):  # noqa: N818 - it reads as what it is
    """Raised for text that is no JSON; the message quotes nothing of it. Line and column count from 1, 0: not known."""

    def __init__(self, message: str, *, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class Parsed(Struct, frozen=True):
    """`twice` are keys that appear more than once in one object; the last one counts, as for those who wrote it."""

    root: Any
    twice: tuple[str, ...]


def blanked(text: str) -> str:
    """As long as `text`, with every comment turned into spaces."""
    return _TOKEN.sub(lambda token: _VISIBLE.sub(" ", token[0]) if token.lastgroup else token[0], text)


def parse(text: str) -> Parsed:
    """
    Raises:
        BadJson: it is none, or is nested deeper than `MAX_DEPTH`.
    """
    bare = _COMMA.sub(lambda token: " " if token["comma"] else token[0], blanked(text.removeprefix("\ufeff")))
    twice: dict[str, None] = {}
    try:
        root = json.loads(bare, parse_float=_number, object_pairs_hook=lambda pairs: _once(pairs, twice))
    except json.JSONDecodeError as bad:
        reason = f"{bad.msg[:1].lower()}{bad.msg[1:]}"
        raise BadJson(f"not valid JSON: {reason}", line=bad.lineno, column=bad.colno) from None
    except (RecursionError, ValueError):  # the second: a number with thousands of digits
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
