"""
What a profile says at first sight: enough for a suggestion, without YAML (-60 ms).

Not a reading: `profile.load` decides what a file means. Something missed here is typed by hand; something there that
is none is refused when it is used. Pure, and linear in the text.
"""

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

MAX_ENTRIES = 63  # parents of one profile, as in profile.extends
_KEY = re.compile(r"""( *)(?:"([^"\\\n]*)"|'([^'\n]*)'|([^\s"'#&*!|>%@`{}\[\],:?-][^\s:#{}\[\],]*)) *:(?: +(.*))?$""")
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_REMARK = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
_BLOCK = re.compile(r"[|>][-+0-9]*$")
_SECRET = re.compile(r"\$\{secret:([A-Za-z0-9_./-]{1,200})\}")
# In { … }: a bracket, a quoted text, or a plain one up to what ends it.
_FLOW = re.compile(r"""[{}\[\],]|:(?=[\s"'{\[]|$)|"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|(?:[^\s{}\[\],:"']|:(?=\S))+""")
_NULL = {"null", "~", ""}


class Glance(NamedTuple):
    """`servers` says of each whether it is there: `null` takes away what a parent has."""

    description: str
    extends: tuple[str, ...]
    servers: dict[str, bool]
    secrets: frozenset[str]


def glance(text: str) -> Glance:
    """Whatever the text is."""
    text = text.removeprefix("\ufeff")
    values = _json(text) if text.lstrip().startswith("{") else None
    found = _of_json(values) if values is not None else _of_yaml(text)
    return found._replace(secrets=frozenset(_SECRET.findall(_REMARK.sub("", text))))


def _json(text: str) -> dict[str, object] | None:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def _of_json(values: dict[str, object]) -> Glance:
    description, extends, servers = (values.get(key) for key in ("description", "extends", "mcp_servers"))
    parents = extends if isinstance(extends, list) else [extends]
    return Glance(
        description if isinstance(description, str) else "",
        tuple(parent for parent in parents[:MAX_ENTRIES] if isinstance(parent, str)),
        {name: value is not None for name, value in servers.items()} if isinstance(servers, dict) else {},
        frozenset(),
    )


def _of_yaml(text: str) -> Glance:
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if (key := _KEY.match(line)) and not key[1]:
            lines = sections.setdefault(_name(key), [key[5] or ""])
        elif line.strip() and not line.lstrip().startswith("#"):
            lines.append(line)
    return Glance(
        _text(sections.get("description", [])),
        tuple(islice(_list(sections.get("extends", [])), MAX_ENTRIES)),
        dict(_servers(sections.get("mcp_servers", []))),
        frozenset(),
    )


def _name(key: re.Match[str]) -> str:
    return key[2] or key[3] or key[4] or ""


def _text(lines: list[str]) -> str:
    """One line of it will do."""
    first, *more = lines or [""]
    if _BLOCK.match(first.strip()):
        return next((line.strip() for line in more if line.strip()), "")
    return _scalar(first)


def _scalar(text: str) -> str:
    text = text.strip()
    if quoted := re.match(r"""(["'])(.*?)\1\s*(?:#.*)?$""", text):
        return quoted[2]
    return _COMMENT.sub("", text).strip()


def _list(lines: list[str]) -> Iterator[str]:
    """`one`, `[one, two]`, or one below the other."""
    first, *more = lines or [""]
    first = _COMMENT.sub("", first).strip()
    if first.startswith("["):
        yield from (_scalar(item) for item in "\n".join([first, *more]).strip("[] \n").split(","))
    elif first:
        yield _scalar(first)
    else:
        yield from (_scalar(line.strip()[1:]) for line in more if line.strip().startswith("- "))


def _servers(lines: list[str]) -> Iterator[tuple[str, bool]]:
    first, *more = lines or [""]
    if first.strip().startswith("{"):
        yield from _flow("\n".join([first, *more]))
        return
    width = len(more[0]) - len(more[0].lstrip(" ")) if more else 0
    for line in more:
        if (key := _KEY.match(line)) and len(key[1]) == width:
            value = _scalar(key[5] or "")
            yield _name(key), not (value in _NULL and value)


def _flow(text: str) -> Iterator[tuple[str, bool]]:
    """The keys of the outermost braces."""
    depth, before, key = 0, "", ""
    for token in _FLOW.findall(text):
        if key and depth == 1 and token != ":":
            yield key, token not in _NULL
            key = ""
        if token in "{[":
            depth += 1
        elif token in "}]":
            depth -= 1
        elif token == ":" and depth == 1:
            key = before.strip("\"'")
        if not depth:
            return
        before = token
