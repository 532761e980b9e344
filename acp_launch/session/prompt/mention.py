"""
`@path` in a prompt: where a person names a file, and how a path is written so that it is read back as one.

`@src/app.py` runs to the next white space, without the punctuation a sentence puts after it; `@"my file.txt"` takes
everything up to the closing quote. An `@` inside a word, as in an e-mail address, names nothing.
"""

import re
from typing import NamedTuple

_MENTION = re.compile(r'(?<![\w.+\-/@%:])@(?:"([^"\n]+)"|([^\s"@]+))')
_PLAIN = re.compile(r'[^\s"@]+')
_AFTER = ".,;:!?'`>*_"  # what a sentence, or Markdown around it, puts after a path
_PAIRS = {")": "(", "]": "[", "}": "{"}


class Mention(NamedTuple):
    """`text[start:end]` is the mention, its `@` and quotes included; `path` as it was written."""

    start: int
    end: int
    path: str


def mentions(text: str) -> list[Mention]:
    """Every mention, in order; whether there is such a file is another question."""
    return [each for match in _MENTION.finditer(text) if (each := _mention(match)) is not None]


def spelled(path: str) -> str:
    """The mention of this path: quoted where it has to be. A path with a quote or a line break has none: empty."""
    if not path or '"' in path or "\n" in path:
        return ""
    is_plain = _PLAIN.fullmatch(path) and _trimmed(path) == path and not _is_left_open(path)
    return f"@{path}" if is_plain else f'@"{path}"'


def _mention(match: "re.Match[str]") -> Mention | None:
    if match[1] is not None:
        return Mention(match.start(), match.end(), match[1])
    path = _trimmed(match[2])
    return Mention(match.start(), match.start() + 1 + len(path), path) if path else None


def _trimmed(path: str) -> str:
    while path and (path[-1] in _AFTER or _closes_nothing(path)):
        path = path[:-1]
    return path


def _is_left_open(path: str) -> bool:
    """`@a(` before a closing bracket of the sentence would take it in."""
    return any(path.count(opening) > path.count(closing) for closing, opening in _PAIRS.items())


def _closes_nothing(path: str) -> bool:
    """`(see @notes.md)` closes a bracket that was opened before the mention; `@page(1)` its own."""
    last = path[-1]
    return last in _PAIRS and path.count(last) > path.count(_PAIRS[last])
