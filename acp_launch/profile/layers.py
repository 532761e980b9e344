"""
The files of a profile as `Layer`s, and their merge into one tree. Pure.

`gather` finds and reads the files. `merge` combines them: mappings merge by key, everything else replaces, and `null`
removes (docs/profiles.md).
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from acp_launch.document.nodes import Node, Place, shorten
from acp_launch.problem import KeyPath, Problem, dotted, likeliest
from acp_launch.profile.discover import Origin

if TYPE_CHECKING:
    from acp_launch.document.yaml import Document

Role = Literal["parent", "profile", "overlay"]


class Layer(Struct, frozen=True, kw_only=True):
    """One file as it was read. `origin` says where it belongs; `label` is its name in messages."""

    file: Path
    origin: Origin
    role: Role
    label: str
    text: str

    @property
    def digest(self) -> str:
        """SHA-256 of the text, in hex."""
        from hashlib import sha256

        return sha256(self.text.encode()).hexdigest()

    def __repr__(self) -> str:  # without the text, which may hold a credential
        return f"Layer({str(self.file)!r}, origin={self.origin!r}, role={self.role!r})"


class Extends(Struct, frozen=True):
    """One entry under `extends`, with its place."""

    entry: str
    line: int = 0
    column: int = 0
    path: str = ""


class ParsedLayer(Struct, frozen=True):
    """A layer and its parsed text. `document` is None if the text is empty, not a mapping, or from the cache."""

    layer: Layer
    extends: tuple[Extends, ...] = ()
    document: "Document | None" = None
    problems: tuple[Problem, ...] = ()


class LayerSet(Struct, frozen=True):
    """The files of a profile in merge order. `problems` are those of finding the files; with one, files are missing.

    A file at a path of `vacant` would belong to the profile too.
    """

    parts: tuple[ParsedLayer, ...]
    problems: tuple[Problem, ...]
    vacant: tuple[Path, ...] = ()

    @property
    def layers(self) -> tuple[Layer, ...]:
        return tuple(part.layer for part in self.parts)


def ordered(problems: Iterable[Problem], layers: Iterable[Layer]) -> tuple[Problem, ...]:
    """Sort problems by line, those of the profile itself (and without a layer) before those of other layers.

    A problem that was found twice is told once.
    """
    rank = {layer.label: index for index, layer in enumerate(layers, 1) if layer.role != "profile"}
    return tuple(
        sorted(dict.fromkeys(problems), key=lambda each: (rank.get(each.file, 0), each.file, each.line, each.column))
    )


# Merging keeps the place of every node. A mapping in several layers has the place of the last one. A list is one value:
# a `null` in it is an item, and its items do not merge.
MAX_IDLE = 100  # warnings; more would not help the user
# Keys for which `null` is a value, with the same meaning as a missing key. "*" is a server's name.
NULLABLE = frozenset(
    {
        ("agent", "command"),
        ("agent", "registry"),
        ("workspace", "cwd"),
        ("session", "name"),
        ("session", "mode"),
        ("mcp_servers", "*", "cwd"),
        ("mcp_servers", "*", "timeouts", "call"),
        ("mcp_servers", "*", "idle"),
        ("mcp_servers", "*", "restart", "max"),  # of a remote server
        ("mcp_servers", "*", "oauth"),
        *(
            ("mcp_servers", "*", "oauth", key)
            for key in ("client_id", "client_secret", "client_metadata_url", "callback_port")
        ),
    }
)


def merge(layers: Sequence[Node]) -> tuple[Node, tuple[Problem, ...]]:
    """Merge layers in order, with a warning for each `null` that removes nothing.

    Nulls in the first layer stay, because there is nothing that they could remove.
    """
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
