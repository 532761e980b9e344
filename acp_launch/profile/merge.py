"""
Layers become one tree: maps merge by key, everything else replaces, `null` removes (DESIGN §4 "extends"). Pure.

Every node keeps the place it was written at, through any number of layers; a map that several of them write is where
the last one writes it. A list is one value: a `null` in it is an item, and it is not looked into.
"""

from collections.abc import Iterator, Sequence

from acp_launch.document.faults import likeliest
from acp_launch.document.keypath import KeyPath, dotted
from acp_launch.document.nodes import Node, Place, shorten
from acp_launch.problem import Problem

MAX_IDLE = 100  # warnings; who reads so many is not helped by more
# Where `null` is a value: it says what saying nothing says. "*" is a server's name.
NULLABLE = frozenset(
    {
        ("workspace", "cwd"),
        ("session", "name"),
        ("session", "mode"),
        ("mcp_servers", "*", "cwd"),
        ("mcp_servers", "*", "timeouts", "call"),
    }
)


def merge(layers: Sequence[Node]) -> tuple[Node, tuple[Problem, ...]]:
    """The first layer, with each further one over what is there by then; a warning for each `null` that removes
    nothing. In the first there is nothing to remove, so its nulls are left as they are."""
    tree, idle = layers[0], list[Problem]()
    for above in layers[1:]:
        tree = _over(tree, above, (), idle)
    return tree, tuple(idle)


def _over(below: Node | None, above: Node, path: KeyPath, idle: list[Problem]) -> Node:
    if not isinstance(above.value, dict):
        return above
    under = below.entries if below else {}
    node = Node(above.place, {})
    for key, (place, kept) in under.items():
        if key not in above.entries:
            node.put(key, place, kept)
            continue
        place, new = above.entries[key]
        if new.value is not None:
            node.put(key, place, _over(kept, new, (*path, key), idle))
    for key, place, new in _fresh(under, above):
        if new.value is not None or _is_value((*path, key)):
            node.put(key, place, _over(None, new, (*path, key), idle))
        elif len(idle) < MAX_IDLE:
            idle.append(_idle((*path, key), place, list(under)))
    return node


def _fresh(under: dict[str, tuple[Place, Node]], above: Node) -> Iterator[tuple[str, Place, Node]]:
    return ((key, place, new) for key, (place, new) in above.entries.items() if key not in under)


def _is_value(path: KeyPath) -> bool:
    return (*path[:1], "*", *path[2:]) in NULLABLE if path[0] == "mcp_servers" else path in NULLABLE


def _idle(path: KeyPath, place: Place, known: Sequence[str]) -> Problem:
    key = str(path[-1])
    nearest = likeliest(key, known)
    hint, fix = (f'; did you mean "{nearest}"?', f"write {nearest}: null") if nearest else ("", "remove this line")
    what = f'null removes nothing here: no layer below has the key "{shorten(key)}"{hint}'
    return Problem(place.file, place.line, place.column, dotted(path), what, fix, "warning")
