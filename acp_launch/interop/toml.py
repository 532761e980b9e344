"""Tables of a TOML text: one is added at its end, or takes the place of its namesake; every other byte stays. Pure."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from acp_launch.interop.formats import Misfit
from acp_launch.protocol.written import visible_long

_BARE = re.compile("[A-Za-z0-9_-]+")
_HEADER = re.compile(r"[ \t]*\[")


def put(text: str, holder: str, name: str, value: Mapping[str, Any]) -> str:
    """`value` as the table `[holder.name]`.

    Raises:
        Misfit: it cannot be done without touching anything else.
    """
    wanted = tomllib.loads(text)
    above = wanted.setdefault(holder, {})
    if not isinstance(above, dict):
        raise Misfit("a table")
    there = name in above
    above[name] = dict(value)
    lines = text.splitlines(keepends=True)
    line_end = "\r\n" if "\r\n" in text else "\n"
    begin, end = _place(lines, holder, name) if there else (len(lines), len(lines))
    new = [line + line_end for line in _table((holder, name), value)]
    if begin == len(lines):  # at the end: on a line of its own, after a blank one
        gap = [] if not lines else [line_end] if lines[-1].endswith("\n") else [line_end, line_end]
        new = [*gap, *new]
    written = "".join([*lines[:begin], *new, *lines[end:]])
    try:
        fits = tomllib.loads(written) == wanted
    except tomllib.TOMLDecodeError:
        fits = False
    if not fits:
        raise Misfit("a table of its own")
    return written


def _place(lines: list[str], holder: str, name: str) -> tuple[int, int]:
    """The lines of a table and of those within it; comments before the next one are not among them."""
    ours = [index for index, line in enumerate(lines) if _path(line)[:2] == [holder, name]]
    if not ours or ours != list(_headers(lines, ours[0], ours[-1])):
        raise Misfit("a table of its own")
    end = next((index for index in range(ours[-1] + 1, len(lines)) if _HEADER.match(lines[index])), len(lines))
    while end > ours[-1] + 1 and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    return ours[0], end


def _headers(lines: list[str], first: int, last: int) -> Iterator[int]:
    return (index for index in range(first, last + 1) if _HEADER.match(lines[index]))


def _path(line: str) -> list[str]:
    """The keys of `[a."b".c]`; nothing for any other line."""
    if not _HEADER.match(line):
        return []
    found: Any = None
    try:
        found = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return []
    path: list[str] = []
    while isinstance(found, dict) and found:
        key, found = next(iter(found.items()))
        path.append(key)
    return path


def _table(path: tuple[str, ...], value: Mapping[str, Any]) -> Iterator[str]:
    yield f"[{'.'.join(map(_key, path))}]"
    for key, member in value.items():
        if not isinstance(member, Mapping):
            yield f"{_key(key)} = {_value(member)}"
    for key, member in value.items():
        if isinstance(member, Mapping):
            yield ""
            yield from _table((*path, key), member)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value)


def _text(text: str) -> str:
    return visible_long(json.dumps(text, ensure_ascii=False))
