"""
What somebody accepts when they trust a profile: all it says, merged, one line a value. Pure.

The lines are sorted by their paths, so the order of keys, comments and how a value is written make no difference, and
nothing else is left out. Two different profiles never give the same lines: keys and texts are JSON, and what is empty
says so.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from acp_launch.document.nodes import Plain

PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def content(merged: Mapping[str, Plain]) -> tuple[str, ...]:
    """Every value of the merged profile, references unresolved."""
    return tuple(_lines("", dict(merged)))


def digest(project: str, lines: Sequence[str]) -> str:
    """Of these lines in this project: SHA-256 in hex."""
    from hashlib import sha256  # loads OpenSSL

    return sha256("\0".join([project, *lines]).encode(errors="surrogatepass")).hexdigest()


def changes(before: Sequence[str], now: Sequence[str]) -> Iterator[str]:
    """The lines that are gone with `- ` before them and the new ones with `+ `, in their order."""
    from difflib import SequenceMatcher

    for kind, first, last, start, stop in SequenceMatcher(None, before, now, autojunk=False).get_opcodes():
        if kind != "equal":
            yield from (f"- {line}" for line in before[first:last])
            yield from (f"+ {line}" for line in now[start:stop])


def _lines(path: str, value: Plain) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key in sorted(value):
            name = key if PLAIN.fullmatch(key) else json.dumps(key)
            yield from _lines(f"{path}.{name}" if path else name, value[key])
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _lines(f"{path}[{index}]", item)
    else:
        yield f"{path}: {json.dumps(value)}"
