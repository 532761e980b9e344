"""
The files of a profile as `Layer`s, the entries of `extends`, and the merge of layers into one tree. Pure.

`gather` finds and reads the files. `merge` combines them: mappings merge by key, everything else replaces, and `null`
removes (docs/profiles.md).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from acp_launch.document.faults import Fault
from acp_launch.document.nodes import Node, Place, Plain, found, number_text, shorten
from acp_launch.problem import KeyPath, Problem, dotted, likeliest
from acp_launch.profile.discover import Origin
from acp_launch.regex import regex

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


# The value of `extends`. An entry is a name, or a path that begins with ./ or ../ and is relative to the file. A path
# that is absolute or begins with ~ is refused, because a profile is shared, and the path differs on other machines.
KEY = "extends"
MAX_ENTRIES = 63
ENTRY = r"^(?:\.\.?/[^\\$]+|[^./\\$~][^/\\$]*)$"  # as far as a pattern can tell
_PATH = regex(r"\.\.?(?:/|$)")  # no name begins with a dot
_ABSOLUTE = regex(r"/|[A-Za-z]:[\\/]|\\\\")
_ELSEWHERE = "copy the file beside this one and write ./NAME.yaml, or put it among your own profiles and write its name"


def entries(written: Plain) -> list[tuple[KeyPath, str]]:
    """List each entry with its path in the document, including wrong ones."""
    if isinstance(written, str):
        return [((KEY,), written)]
    items = enumerate(written) if isinstance(written, list) else ()
    return [((KEY, index), item) for index, item in items if isinstance(item, str)]


def faults(written: Plain) -> Iterator[Fault]:
    """Yield everything that is wrong with the value of `extends`, without looking for the files."""
    if not isinstance(written, str | list):
        yield _wrong_type((KEY,), "a profile's name, a ./path or a list of them", written)
    elif not written:
        yield Fault((KEY,), "this does not name a profile", "name one, or remove the key")
    elif isinstance(written, list) and len(written) > MAX_ENTRIES:
        what = f"{len(written):,} profiles to extend; at most {MAX_ENTRIES} are allowed"
        yield Fault((KEY,), what, "merge some of them")
    else:
        for index, item in enumerate(written) if isinstance(written, list) else ():
            if not isinstance(item, str):
                yield _wrong_type((KEY, index), "a profile's name or a ./path", item)
        for path, entry in entries(written):
            if fault := _fault(entry):
                yield Fault(path, *fault)


def _wrong_type(path: KeyPath, expected: str, value: Plain) -> Fault:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    fix = f'quote it: "{number_text(value)}"' if number else "write the name of a profile, or remove the key"
    return Fault(path, f"expected {expected}, found {found(value)}", fix)


def _fault(entry: str) -> tuple[str, str] | None:
    """Return what is wrong with one entry, and the fix; None if nothing is."""
    quoted = f'"{shorten(entry)}"'
    if not entry.strip():
        return "this does not name a profile", "name one, or remove the key"
    if not entry.isprintable():
        return f"{quoted} holds characters that cannot be printed", "write a profile's name or a ./path"
    if "$" in entry:
        return f"{quoted}: references are not allowed here", "write a profile's name or a ./path"
    if entry.startswith("~"):
        return f"{quoted} means another place for every user", _ELSEWHERE
    if _ABSOLUTE.match(entry):
        return f"{quoted} is an absolute path, which other machines do not have", _ELSEWHERE
    return _misspelt(entry, quoted)


def _misspelt(entry: str, quoted: str) -> tuple[str, str] | None:
    if "\\" in entry:
        return f"{quoted} holds a backslash", f"write {entry.replace(chr(92), '/')}"
    stem = re.sub(r"\.ya?ml$", "", entry)
    if stem.endswith(".local"):
        return f"{quoted} is an overlay, which cannot be extended", "write the name of its profile"
    if _PATH.match(entry) or (stem == entry and "/" not in entry and not entry.startswith(".")):
        return None
    return f"{quoted} is neither a profile's name nor a ./path", f"write ./{entry}"


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
