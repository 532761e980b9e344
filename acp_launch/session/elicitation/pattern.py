"""
Patterns that an agent gives for a form, matched in bounded time (C-76).

JSON Schema wants ECMA-262. A pattern is checked here only if the `regex` package reads it in the same way. The agent
judges all others, so that a valid answer is not refused.

`re` cannot be stopped; `regex` can. Its clock bounds the time but not the memory: `(a?){9999999}` needs gigabytes at
once. So the size of a pattern is bounded as well.
"""

from functools import lru_cache
from math import prod
from typing import Any

from acp_launch.regex import regex

LONGEST = 1000  # characters of a pattern; the longest published one for e-mail addresses has 426
WIDEST = 20_000  # atoms, each counted as often as it must be repeated; costs 26 MiB
TIME = 0.25  # seconds for one match: a thousand times what a sensible pattern needs for a sensible text

_ESCAPE = r"\\(?:[dDwWsStnrfv]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[^\w\s])"
_ATOM = rf"[^\\\[\](){{}}*+?|^$]|\)|{_ESCAPE}|\[(?:\^|(?!\^))(?:[^\\\[\]]|{_ESCAPE})+\]"
_COUNT = r"(?:[*+?]|\{[0-9]{1,9}(?:,[0-9]{0,9})?\})\??"
_SAME = regex(rf"(?:(?:{_ATOM})(?:{_COUNT})?|\((?:\?<?[=!]|\?:)?|[|^$]|\\[bB])*")
_LEAST = regex(r"(\)?)\{([0-9]+)")  # how often a group, or one atom, must come


class TooSlow(Exception):  # noqa: N818 - the name states the fault
    """Raised by `matches` if it did not finish within `TIME`."""


def is_readable(pattern: str) -> bool:
    """Whether we can match this pattern."""
    return _compiled(pattern) is not None


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern is found anywhere in `text`. A pattern that is not readable matches everything.

    Raises:
        TooSlow: it did not finish in time.
    """
    compiled = _compiled(pattern)
    try:
        return compiled is None or compiled.search(text, timeout=TIME) is not None
    except (TimeoutError, MemoryError) as error:
        raise TooSlow(pattern) from error


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> Any:  # a regex.Pattern; importing it for the annotation would cost as much as using it
    if len(pattern) > LONGEST or not _SAME.fullmatch(pattern) or _width(pattern) > WIDEST:
        return None
    import regex

    try:
        return regex.compile(pattern, regex.V0 | regex.ASCII)  # \d and \w are ASCII in ECMA-262
    except (regex.error, RecursionError, OverflowError, ValueError):
        return None


def _width(pattern: str) -> int:
    """Return an upper bound of the atoms that `regex` compiles: it expands counts, and multiplies nested ones."""
    found = _LEAST.findall(pattern)
    atoms = sum(int(least) for group, least in found if not group)
    return (len(pattern) + atoms) * prod(max(1, int(least)) for group, least in found if group)
