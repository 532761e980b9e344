"""
Patterns an agent gives for a form: ECMA-262 regular expressions, as JSON Schema wants them, in bounded time (C-76).

`re` cannot be stopped, and a thread that runs it neither; the `regex` package can. It is not ECMA-262, so a pattern is
rewritten token by token: what the two read differently is spelled out, and what only `regex` knows is refused.

Its clock bounds the time, not the memory: for `(a?){9999999}` it asks for gigabytes at once. So what a pattern would be
with its least counts written out is bounded too.
"""

import re
from functools import lru_cache
from typing import Any

LONGEST = 1000  # characters of a pattern; the longest published one for e-mail addresses has 426
WIDEST = 10_000  # atoms, each as often as it must be repeated; costs 13 MiB
TIME = 0.25  # seconds for one match: a thousand times what a sensible pattern needs for a sensible text

_TOKEN = re.compile(
    r"(?P<code>\\u\{[0-9a-fA-F]{1,6}\}|\\c[A-Za-z])"
    r"|(?P<same>\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[pP]\{[\w=]+\}|[1-9][0-9]*|[DWsSvfrnt]))"
    r"|(?P<named>\\k<\w+>)"
    r"|(?P<escaped>\\.)"
    r"|(?P<any>\[\^\])|(?P<never>\[\])"
    r"|(?P<foreign>[*+?}]\+|\(\*|\(\?(?![:=!]|<[=!]|<[A-Za-z_]\w*>))"  # possessive, verbs, flags, recursion, …
    r"|(?P<count>\{(?P<least>[0-9]{1,9})(?:,[0-9]{0,9})?\})"
    r"|(?P<open>\[\^?)|(?P<close>\])"
    r"|(?P<brace>[{}])|(?P<end>\$)"
    r"|(?P<plain>.)",
    re.DOTALL,
)
_CLOSING = {"close", "any", "never"}  # within brackets, `[]` and `[^]` begin with characters
_CLASSES = {"d": "0-9", "w": "A-Za-z0-9_"}  # ASCII alone, in ECMA-262


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
    if compiled is None:
        return True
    try:
        return compiled.search(text, timeout=TIME) is not None
    except (TimeoutError, MemoryError) as error:
        raise TooSlow(pattern) from error


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> Any:  # a regex.Pattern; importing that for its name would cost what it costs
    if len(pattern) > LONGEST or _width(pattern) > WIDEST or (translated := _translated(pattern)) is None:
        return None
    import regex

    try:
        return regex.compile(translated, regex.V0)
    except (regex.error, RecursionError, OverflowError, ValueError):
        return None


def _translated(pattern: str) -> str | None:
    """For `regex`; None when ECMA-262 has no such pattern, or `regex` nothing like it."""
    written, in_class = [], False
    for token in _TOKEN.finditer(pattern):
        kind = token.lastgroup or ""
        if in_class:
            written.append(_in_class(kind, token[0]))
            in_class = kind not in _CLOSING
        elif kind == "foreign":
            return None
        else:
            written.append(_outside(kind, token[0]))
            in_class = kind == "open"
    return "".join(written)


def _width(pattern: str) -> int:
    """How many atoms it has when each is repeated as often as it must be."""
    sums, last = [0], 0  # one sum for each group that is open; the atom a count would belong to
    in_class = False
    for token in _TOKEN.finditer(pattern):
        kind = token.lastgroup
        if in_class:
            in_class = kind not in _CLOSING
            continue
        in_class = kind == "open"
        if token[0] in ("*", "+", "?"):
            continue
        if token[0] == "(":
            sums.append(0)
        elif kind == "count":
            more = last * (max(int(token["least"]), 1) - 1)
            last, sums[-1] = last + more, sums[-1] + more
        else:
            last = sums.pop() if token[0] == ")" and len(sums) > 1 else 1
            sums[-1] += last
    return sum(sums)


def _outside(kind: str, said: str) -> str:
    match kind:
        case "code":
            return _code(said)
        case "named":
            return f"(?P={said[3:-1]})"
        case "escaped":
            return _escaped(said[1])
        case "any":
            return r"[\s\S]"
        case "never":
            return "(?!)"
        case "brace" | "close":
            return f"\\{said}"
        case "end":
            return r"\Z"  # a `$` would also match before a last newline
    return said


def _in_class(kind: str, said: str) -> str:
    """Between brackets, where a bracket is a character: only what an escape means has to be told."""
    match kind:
        case "close" | "same":
            return said
        case "code":
            return _code(said)
        case "escaped":
            return {"b": r"\x08", **_CLASSES}.get(said[1]) or _literal(said[1])
        case "any" | "never":
            return f"\\{said[:-1]}]"
    return "".join("-" if mark == "-" else re.escape(mark) for mark in said.removeprefix("\\"))


def _escaped(mark: str) -> str:
    if mark in _CLASSES:
        return f"[{_CLASSES[mark]}]"
    return f"\\{mark}" if mark in "bB" else _literal(mark)


def _literal(mark: str) -> str:
    return r"\x00" if mark == "0" else re.escape(mark)


def _code(said: str) -> str:
    number = ord(said[2].upper()) - 64 if said[1] == "c" else int(said[3:-1], 16)
    return f"\\U{number:08x}"
