"""
How a rule's globs match: names and titles, paths, and commands. Pure.

All match as `fnmatchcase` does, with two differences. In a path `*` stays within one directory and `**` crosses them
(also none: `src/**` is `src` too). In a command that is to be *allowed*, no wildcard stands for a character by which a
shell begins another command, redirects or substitutes: `git *` is no `git status; rm -rf /`, and `git log | *` is a
pipe of two commands and not of three. Whoever means an operator writes it out.

To *deny*, or ask, a glob need only match one command among several (`commandparts`).
"""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase, translate
from functools import cache, lru_cache
from itertools import chain

from acp_launch.session.permission.commandparts import parts

OPERATORS = ";&|<>`$()\n\r\0"
_PLAIN = f"[^{re.escape(OPERATORS)}]"
_END = re.compile(r"\\[zZ]$")
_TOKEN = re.compile(r"\*+|\?|\[!?\]?[^]]*\]|.", re.DOTALL)
_SHELL = re.compile(r"(?:(?:/usr)?(?:/local)?/bin/)?(?:ba|da|z|k)?sh")
_SCRIPT = re.compile(r"-[a-z]*c")


def in_text(globs: Sequence[str], text: str) -> bool:
    return any(fnmatchcase(text, glob) for glob in globs)


def in_path(globs: Sequence[str], path: str) -> bool:
    """All are absolute and without `.` and `..`; the empty path, of which nothing is known, never matches."""
    steps = path.split("/")
    return bool(path) and any(_walks(glob.split("/"), steps) for glob in globs)


def is_allowed(globs: Sequence[str], readings: Sequence[str]) -> bool:
    """`readings` are the ways to write one and the same command: as it stands, and its script where a shell runs it."""
    return any(_strict(glob).fullmatch(reading) for glob in globs for reading in readings)


def is_caught(globs: Sequence[str], readings: Sequence[str]) -> bool:
    """Whether any of the commands in a command matches."""
    return any(in_text(globs, part) for reading in readings for part in _each(reading))


def script(argv: Sequence[str]) -> str | None:
    """What `bash -lc SCRIPT` runs; None for any other command."""
    is_shell = len(argv) == 3 and _SHELL.fullmatch(argv[0]) and _SCRIPT.fullmatch(argv[1])
    return argv[2].strip() if is_shell else None


def _walks(glob: Sequence[str], steps: Sequence[str]) -> bool:
    """Greedy, and back to the latest `**` where it fails: never more than the product of both lengths."""
    at, place, star, seen = 0, 0, -1, 0
    while place < len(steps):
        if at < len(glob) and glob[at] == "**":
            star, seen, at = at, place, at + 1
        elif at < len(glob) and fnmatchcase(steps[place], glob[at]):
            at, place = at + 1, place + 1
        elif star >= 0:
            seen += 1
            at, place = star + 1, seen
        else:
            return False
    return all(step == "**" for step in glob[at:])


@cache
def _strict(glob: str) -> re.Pattern[str]:
    """Each inner piece is taken where it first fits, as `fnmatch` does: no command makes this slow."""
    pieces = [""]
    for token in _TOKEN.findall(glob.strip()):
        if token.startswith("*"):
            pieces.append("")
        else:
            pieces[-1] += _one(token)
    if len(pieces) == 1:
        return re.compile(pieces[0])
    first, *inner, last = pieces
    return re.compile(first + "".join(f"(?>{_PLAIN}*?{piece})" for piece in inner) + f"{_PLAIN}*{last}")


def _one(token: str) -> str:
    if token == "?":
        return _PLAIN
    if len(token) > 2 and token.endswith("]"):
        return f"(?={_PLAIN}){_END.sub('', translate(token))}"
    return re.escape(token)


@lru_cache(maxsize=4)
def _each(text: str) -> tuple[str, ...]:
    """The parts once each, cut once for all the rules that are asked about one call."""
    return tuple(dict.fromkeys(chain([text], parts(text))))
