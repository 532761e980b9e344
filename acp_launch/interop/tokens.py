"""
Which slices of a text are credentials, and which words only hold the place of one. Pure.

What `credential` sees, and besides it every variable and header whose name says password, token, key or secret: here
a word too many is moved to the store, and a person is asked; in a profile that somebody wrote it would be a nuisance.
"""

import re
from collections.abc import Iterator, Sequence

from acp_launch.secret.credential import GONE, REFERENCE, Sighting, sightings
from acp_launch.secret.wording import is_placeholder, noun

LEAST_ELSEWHERE = 8  # characters; a shorter value is too likely to stand somewhere as a word of its own
_NOT_ONE = re.compile(
    r"(?i)true|false|yes|no|on|off|null|none|(?:~|\.{0,2})/.*|[a-z]:[\\/].*|[a-z][a-z0-9+.-]*://[^@]*"
)
_OPTION = re.compile(r"--?[A-Za-z][\w-]*")
_SCHEME = re.compile(r"\s*(?:(?:bearer|basic|token|apikey)\s+)?", re.IGNORECASE)


def seen(text: str, name: str, *, is_named: bool) -> tuple[Sighting, ...]:
    """From left to right. `is_named`: the text is a variable's or a header's, and `name` is what that is called."""
    found = sightings(text, name)
    if found or not is_named:
        return found
    return tuple(_by_name(text, name))


def _by_name(text: str, name: str) -> Iterator[Sighting]:
    what = noun(name)
    if what in ("", "a credential"):
        return
    opened = REFERENCE.sub(lambda reference: GONE * len(reference[0]), text)
    for piece in re.finditer(f"[^{GONE}]+", opened):
        scheme = _SCHEME.match(piece[0])
        begin = piece.start() + (scheme.end() if scheme else 0)
        literal = opened[begin : piece.end()].strip()
        if not literal or _NOT_ONE.fullmatch(literal):
            continue
        begin = opened.index(literal, begin)
        certainty = "placeholder" if is_placeholder(literal) else "likely"
        yield Sighting(begin, begin + len(literal), what, certainty)  # type: ignore[arg-type]


def option(arguments: Sequence[str], index: int) -> str:
    """`token` for an argument that follows `--token`, and is no option itself."""
    before = arguments[index - 1] if index else ""
    return before.lstrip("-") if _OPTION.fullmatch(before) and not arguments[index].startswith("-") else ""
