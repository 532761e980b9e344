"""
Patterns an agent gives for a form, in bounded time (C-76).

JSON Schema wants ECMA-262. A pattern is checked here only where it is written with what the `regex` package reads in
the same way. The agent judges all others, so that a right answer is not refused.

`re` cannot be stopped; `regex` can. Its clock bounds the time but not the memory: `(a?){9999999}` wants gigabytes at
once. So the size of a pattern is bounded as well.
"""

import re
from functools import lru_cache
from math import prod
from typing import Any

LONGEST = 1000  # characters of a pattern; the longest published one for e-mail addresses has 426
WIDEST = 20_000  # atoms, each as often as it must be repeated, at most; costs 26 MiB
TIME = 0.25  # seconds for one match: a thousand times what a sensible pattern needs for a sensible text

_ESCAPE = r"\\(?:[dDwWsStnrfv]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[^\w\s])"
_ATOM = rf"[^\\\[\](){{}}*+?|^$]|\)|{_ESCAPE}|\[(?:\^|(?!\^))(?:[^\\\[\]]|{_ESCAPE})+\]"
_COUNT = r"(?:[*+?]|\{[0-9]{1,9}(?:,[0-9]{0,9})?\})\??"
_SAME = re.compile(rf"(?:(?:{_ATOM})(?:{_COUNT})?|\((?:\?<?[=!]|\?:)?|[|^$]|\\[bB])*")
_LEAST = re.compile(r"(\)?)\{([0-9]+)")  # how often a group, or else one atom, must come


class TooSlow(Exception):  # noqa: N818 - it reads as what happened
    """Raised by `matches`: not decided within `TIME`."""


def is_readable(pattern: str) -> bool:
    """Whether we can match it at all."""
    return _compiled(pattern) is not None


def matches(pattern: str, text: str) -> bool:
    """Whether it is found anywhere in `text`; one that is not readable matches everything.

    Raises:
        TooSlow: that could not be told in time.
    """
    compiled = _compiled(pattern)
    try:
        return compiled is None or compiled.search(text, timeout=TIME) is not None
    except (TimeoutError, MemoryError) as error:
        raise TooSlow(pattern) from error


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> Any:  # a regex.Pattern; importing that for its name would cost what it costs
    if len(pattern) > LONGEST or not _SAME.fullmatch(pattern) or _width(pattern) > WIDEST:
        return None
    import regex

    try:
        return regex.compile(pattern, regex.V0 | regex.ASCII)  # \d and \w are ASCII in ECMA-262
    except (regex.error, RecursionError, OverflowError, ValueError):
        return None


def _width(pattern: str) -> int:
    """At least as many atoms as `regex` makes of it: it writes counts out, those of groups within groups multiplied."""
    found = _LEAST.findall(pattern)
    atoms = sum(int(least) for group, least in found if not group)
    return (len(pattern) + atoms) * prod(max(1, int(least)) for group, least in found if group)
