"""Edits of a TOML text: `put` adds or replaces one table; comments and everything else stay. Pure."""

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import dropwhile
from typing import TYPE_CHECKING, Any

from acp_launch.interop.formats import Misfit
from acp_launch.protocol.written import visible_long

if TYPE_CHECKING:
    from tomlkit.items import InlineTable, Item, Table


def put(text: str, holder: str, name: str, value: Mapping[str, Any]) -> str:
    """Put `value` as the table `[holder.name]`.

    Raises:
        Misfit: other text would have to change too.
    """
    wanted = tomllib.loads(text)
    above = wanted.setdefault(holder, {})
    if not isinstance(above, dict):
        raise Misfit("a table")
    above[name] = dict(value)
    from tomlkit.exceptions import TOMLKitError  # takes 80 ms to import, and is seldom needed

    with suppress(TOMLKitError):
        for written in _attempts(text, holder, name, value):
            if _reads_as(written, wanted):
                return written
    raise Misfit("a table of its own")


def _attempts(text: str, holder: str, name: str, value: Mapping[str, Any]) -> Iterator[str]:
    """Yield candidates: the table at the end, then in its present place. The caller checks them; some are wrong."""
    import tomlkit

    line_end = "\r\n" if "\r\n" in text else "\n"
    lines = tomlkit.dumps({holder: {name: value}}).removesuffix("\n").split("\n")
    new = "".join(visible_long(line) + line_end for line in lines)
    yield text + (line_end * (1 if text.endswith("\n") else 2) if text else "") + new
    for is_inline in (False, True):
        document = tomlkit.parse(text)
        _replace(document[holder], name, tomlkit.parse(new)[holder][name], is_inline)
        yield document.as_string()


def _replace(above: Any, name: str, new: "Table", is_inline: bool) -> None:
    """Replace a table. Comments behind the old one belong to the next, though the library attaches them to the old."""
    from tomlkit.items import InlineTable, Table

    old = above.get(name)
    behind = _behind(old) if isinstance(old, Table) else []
    if (
        isinstance(above, InlineTable)
        or isinstance(old, InlineTable)
        or (is_inline and isinstance(old, Table) and not behind)
    ):
        above[name] = _inline(new)
    elif isinstance(old, Table):
        above[name] = new
        for item in behind:
            _last(new).append(None, item)
    else:
        raise Misfit("a table of its own")


def _behind(old: "Table") -> "list[Item]":
    from tomlkit.items import Comment, Whitespace

    items = [item for _, item in _last(old).value.body]
    kept = list(dropwhile(lambda item: isinstance(item, Comment | Whitespace), reversed(items)))
    return items[len(kept) :]


def _last(table: "Table") -> "Table":
    """Return the innermost table that ends where this one ends."""
    from tomlkit.items import Table

    items = [item for _, item in table.value.body]
    return _last(items[-1]) if items and isinstance(items[-1], Table) else table


def _inline(table: Mapping[str, Any]) -> "InlineTable":
    import tomlkit

    made = tomlkit.inline_table()
    for key, item in table.items():
        made[key] = _inline(item) if isinstance(item, Mapping) else item
    return made


def _reads_as(written: str, wanted: dict[str, Any]) -> bool:
    try:
        return tomllib.loads(written) == wanted
    except tomllib.TOMLDecodeError:
        return False
