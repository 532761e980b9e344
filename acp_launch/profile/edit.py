"""
One value of a profile's text is set or removed, and every other byte stays: comments, order, quotes, line ends. Pure.

What cannot be done without touching anything else is refused: the text that comes out always means what went in with
exactly that one change, or there is none.
"""

from collections.abc import Callable, Mapping, Sequence

from acp_launch.document.keypath import KeyPath
from acp_launch.document.nodes import Plain
from acp_launch.document.tree import parse
from acp_launch.profile.page import CannotEdit, Page, by_hand

__all__ = ["CannotEdit", "put", "remove"]

_BOM = "\ufeff"


def put(text: str, path: KeyPath, value: Plain, *, comments: Sequence[str] = ()) -> str:
    """
    `text` with `value` at `path`; what is missing on the way is added.

    `comments` are written above an entry that is new. A number one past the end of a list appends to it.

    Raises:
        CannotEdit: the text is no YAML mapping, or this cannot be changed alone.
    """
    return _edited(text, path, lambda root: _put(root, path, value), lambda page: page.put(path, value, comments))


def remove(text: str, path: KeyPath) -> str:
    """
    `text` without the entry or the item at `path`; comments on lines of their own above it stay.

    Raises:
        CannotEdit: as `put`; or it is not written here.
    """
    return _edited(text, path, lambda root: _removed(root, path), lambda page: page.remove(path))


def _edited(text: str, path: KeyPath, model: Callable[[Plain], None], change: Callable[[Page], str]) -> str:
    bare = text.removeprefix(_BOM)
    document, problems = parse(bare, "")
    if document is None:
        raise CannotEdit((), problems[-1].message, problems[-1].fix)
    made = change(Page(bare))
    wanted = _plain(document.root)  # a copy, in which no alias shares what it stands for
    model(wanted)
    result, faults = parse(made, "")
    if result is None or len(faults) > len(problems) or not _same(result.root, wanted):
        raise by_hand(path)
    return text[: len(text) - len(bare)] + made


def _same(one: Plain, other: Plain) -> bool:
    """Equal, and of the same types: 1 is neither true nor 1.0."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return _type(one) is _type(other) and bool(one == other)


def _type(value: Plain) -> type:
    """However a number is written."""
    return next((kind for kind in (bool, int, float) if isinstance(value, kind)), type(value))


def _put(root: Plain, path: KeyPath, value: Plain) -> None:
    *above, last = path
    for step, further in zip(above, path[1:], strict=True):
        if isinstance(step, int) and step == len(root):
            root.append(None)
        if isinstance(step, str):
            root.setdefault(step, None)
        if root[step] is None:
            root[step] = [] if isinstance(further, int) else {}
        root = root[step]
    if isinstance(last, int) and last == len(root):
        root.append(None)
    root[last] = _plain(value)


def _plain(value: Plain) -> Plain:
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str.__str__(value) if isinstance(value, str) else value


def _removed(root: Plain, path: KeyPath) -> None:
    for step in path[:-1]:
        root = root[step]
    del root[path[-1]]
