"""
The files of a profile as `Layer`s, and their merge into one tree. Pure.

`gather` finds and reads the files. `merge` combines them: mappings merge by key, everything else replaces, and `null`
removes (docs/profiles.md). Permission rules are the exception: those below stay behind those above, as a file that
extends another must not lose its `deny` rules without saying so.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from acp_launch.document.nodes import Node, Place, Plain, shorten
from acp_launch.private import hash_content
from acp_launch.problem import KeyPath, Problem, dotted, likeliest
from acp_launch.profile.discover import Origin
from acp_launch.profile.keys import nullable

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
        return hash_content(self.text.encode())

    def __repr__(self) -> str:  # without the text, which may hold a credential
        return f"Layer({str(self.file)!r}, origin={self.origin!r}, role={self.role!r})"


class Extends(Struct, frozen=True):
    """One entry under `extends`, with its place."""

    entry: str
    place: Place = Place(0, 0)


class ParsedLayer(Struct, frozen=True):
    """A layer and its parsed text. `document` is None if the text is empty, not a mapping, or from the cache.

    `real` is the real path of its file, empty if the profile has no other; `parents` are those of the files that it
    goes over.
    """

    layer: Layer
    extends: tuple[Extends, ...] = ()
    document: "Document | None" = None
    problems: tuple[Problem, ...] = ()
    real: str = ""
    parents: tuple[str, ...] = ()


class LayerSet(Struct, frozen=True):
    """The files of a profile in merge order. `problems` come from finding the files; with one, files are missing.

    A file at one of the `absent_paths` would belong to the profile too.
    """

    parsed_layers: tuple[ParsedLayer, ...]
    problems: tuple[Problem, ...]
    absent_paths: tuple[Path, ...] = ()

    @property
    def layers(self) -> tuple[Layer, ...]:
        return tuple(part.layer for part in self.parsed_layers)


def ordered(problems: Iterable[Problem], layers: Iterable[Layer]) -> tuple[Problem, ...]:
    """Sort problems by line: first the profile's own (and those without a layer), then other layers'.

    A problem that was found twice is told once.
    """
    rank = {layer.label: index for index, layer in enumerate(layers, 1) if layer.role != "profile"}
    return tuple(
        sorted(dict.fromkeys(problems), key=lambda each: (rank.get(each.file, 0), each.file, each.line, each.column))
    )


# Merging keeps the place of every node. A mapping in several layers has the place of the last one. A list is one value:
# a `null` in it is an item, and its items do not merge.
MAX_IDLE = 100  # warnings; more would not help the user
RULES = "rules"
PLACES = ("confined", "container", "ssh")  # for an agent, the keys of `runtime`
EXTENDS = "extends"


def rule_sources(parts: Sequence[ParsedLayer]) -> set[str]:
    """Return the real paths of the files whose permission rules hold.

    A file's rules do, unless each way to it from the profile leads through one that says `inherit: false`.
    """
    files = {part.real: part for part in parts}
    tops = [part for part in parts if part.layer.role == "overlay"] or [parts[-1]]
    waiting, found = [part.real for part in tops], set[str]()
    while waiting:
        if (real := waiting.pop()) not in found:
            found.add(real)
            part = files.get(real)
            waiting += part.parents if part is not None and _switch(part) is None else ()
    return found


def _switch(part: ParsedLayer) -> Place | None:
    """Return the place of `permissions.inherit: false` in a layer."""
    tree = part.document.tree if part.document else None
    permissions = tree.entries.get("permissions") if tree else None
    switch = permissions[1].entries.get("inherit") if permissions else None
    return switch[0] if switch and switch[1].value is False else None


def dropped_rules(parts: Iterable[ParsedLayer]) -> Iterator[Problem]:
    """Yield a warning for each layer that drops the permission rules of those below it."""
    for part in parts:
        if part.parents and (place := _switch(part)) is not None:
            what = "the permission rules of what this file extends do not apply, so what they deny may be allowed"
            yield place.problem("permissions.inherit", what, "remove this line to keep them", "warning")


def relaxed_confinement(parts: Iterable[ParsedLayer]) -> Iterator[Problem]:
    """Yield a warning for each layer that takes from the confinement which one below it asks for, or moves the agent
    out of the container or the machine that one names."""
    kept = dict[str, dict[str, Plain]]()  # the layers' word for each place that counts
    for part in parts:
        tree = part.document.tree if part.document else None
        runtime = tree.entries.get("runtime") if tree else None
        if runtime is None:
            continue
        is_emptied = not isinstance(runtime[1].value, dict)
        for kind in PLACES:
            found = runtime if is_emptied else runtime[1].entries.get(kind)
            if found is None:
                continue
            place, node = found
            before = kept.get(kind)
            if node.value in (None, False):
                if before is not None:
                    what, fix = _REMOVED[kind]
                    yield place.problem(f"runtime.{kind}", what, fix, "warning")
                kept.pop(kind, None)
                continue
            own = node.value if isinstance(node.value, dict) else {}
            now = kept[kind] = {**(before or {}), **own} if isinstance(node.value, dict) else {}
            for gained in _list_gained(kind, before, now) if before is not None else ():
                yield place.problem(f"runtime.{kind}", *gained, "warning")


_REMOVED = {
    "confined": ("the agent is not confined, as what this file extends asks", "remove this line to confine it"),
    "container": ("the agent is not in the container that what this file extends asks for", "remove this line"),
    "ssh": ("the agent is not on the machine that what this file extends names", "remove this line"),
}
_NETWORKS = ("none", "default", "shared", "host")  # each reaches more than the one before it


def _list_gained(kind: str, before: Mapping[str, Plain], now: Mapping[str, Plain]) -> Iterator[tuple[str, str]]:
    """Say what an agent has by a layer that those below it do not give it, with the fix."""
    usual = "default" if kind == "container" else "shared"
    was, is_now = (
        _NETWORKS.index(str(each.get("network", usual))) if each.get("network", usual) in _NETWORKS else 0
        for each in (before, now)
    )
    if is_now > was and before.get("network", usual) != usual:
        what = "the agent has the network, which what this file extends takes from it"
        yield what, "write network: none here, too"
    elif is_now > was and kind == "container":
        what = "the agent has this machine's network, which what this file extends does not give it"
        yield what, "remove network"
    for key, what in _OTHER[kind].items():
        if now.get(key) != before.get(key):
            yield f"the agent has {what} than what this file extends gives it", f"remove {key} to keep that"


_OTHER: Mapping[str, Mapping[str, str]] = {
    "confined": {},
    "container": {"image": "another image", "mounts": "other mounts", "user": "another user", "pull": "another pull"},
    "ssh": {"host": "another machine"},
}


def without_rules(tree: Node) -> Node:
    """Return a layer without its permission rules."""
    place, own = tree.entries.get("permissions", (tree.place, Node(tree.place, {})))
    if RULES not in own.entries:
        return tree
    return _with(tree, "permissions", place, _with(own, RULES, own.entries[RULES][0], Node(own.place, [])))


def merge(layers: Sequence[Node]) -> tuple[Node, tuple[Problem, ...]]:
    """Merge layers in order, with a warning for each `null` that removes nothing.

    Nulls in the first layer stay, because there is nothing that they could remove.
    """
    tree, idle = layers[0], list[Problem]()
    for above in layers[1:]:
        tree = _over(tree, _keeping_rules(tree, above, idle), (), idle)
    return tree, tuple(idle)


def _keeping_rules(tree: Node, above: Node, warnings: list[Problem]) -> Node:
    """Return a layer with the permission rules of those below it behind its own."""
    below = tree.entries.get("permissions")
    kept = below[1].entries.get(RULES) if below else None
    if below is None or kept is None or not kept[1].items or not isinstance(above.value, dict):
        return above
    place, own = above.entries.get("permissions", (below[0], Node(below[0], {})))
    if not isinstance(own.value, dict | None):
        return above  # a mistake, which is said to be one
    return _with(above, "permissions", place, _with_rules(own, *kept, warnings))


def _with_rules(own: Node, where: Place, kept: Node, warnings: list[Problem]) -> Node:
    """Return permissions with the rules below them."""
    where, mine = own.entries.get(RULES, (where, Node(kept.place, [])))
    if not isinstance(mine.value, list | None):
        return own
    if mine.value is None or own.value is None:
        place = where if mine.value is None else own.place
        what = "null does not remove the permission rules of what this file extends"
        fix = "write permissions.inherit: false to drop them"
        warnings.append(place.problem("permissions.rules", what, fix, "warning"))
    rules = Node(mine.place if mine.items else kept.place, [])
    for item in (*mine.items, *kept.items):
        rules.append(item)
    return _with(own, RULES, where, rules)


def _with(node: Node, key: str, place: Place, value: Node) -> Node:
    """Return a copy of a mapping with another value; of `null`, a mapping with this value alone."""
    copy = without(node, key)
    copy.put(key, place, value)
    return copy


def without(node: Node, key: str) -> Node:
    """Return a copy of a mapping without a key."""
    copy = Node(node.place, {})
    for name, (where, each) in node.entries.items():
        if name != key:
            copy.put(name, where, each)
    return copy


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
    for key in [key for key in above.entries if key not in under]:
        place, new = above.entries[key]
        where = (*path, key)
        pattern = (*where[:1], "*", *where[2:]) if where[0] == "mcp_servers" else where
        if new.value is not None or pattern in nullable():
            node.put(key, place, _over(None, new, where, idle))
        elif len(idle) < MAX_IDLE:
            idle.append(_unused_null(where, place, list(under)))
    return node


def _unused_null(path: KeyPath, place: Place, known: Sequence[str]) -> Problem:
    key = str(path[-1])
    nearest = likeliest(key, known)
    hint, fix = (f'; did you mean "{nearest}"?', f"write {nearest}: null") if nearest else ("", "remove this line")
    what = f'null removes nothing here: no layer below has the key "{shorten(key)}"{hint}'
    return place.problem(dotted(path), what, fix, "warning")
