"""
The parsing of layers: each file as YAML, all of them merged and checked, and the credentials in them.

This module imports YAML and pydantic. A profile that comes from the cache does not need it.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from acp_launch.document.faults import Fault, placed
from acp_launch.document.nodes import OVERLAY, PROFILE, Node
from acp_launch.document.yaml import Document, parse
from acp_launch.problem import Problem, dotted
from acp_launch.profile import layers
from acp_launch.profile.check import check, version
from acp_launch.profile.layers import Extends, Layer, LayerSet, ParsedLayer, merge
from acp_launch.profile.model import Profile

ADD = "add: "  # begins the fix for every missing key, which another file may have


class MergedProfile(Struct, frozen=True):
    """The result of merging. `document` is the merged layers without `extends`; None if the profile has no content."""

    document: Document | None
    profile: Profile | None
    problems: tuple[Problem, ...]


def parse_layer(layer: Layer) -> ParsedLayer:
    """Parse one layer on its own: its YAML, its version, and what it extends."""
    document, problems = parse(layer.text, layer.label, OVERLAY if layer.role == "overlay" else PROFILE)
    if document is None:
        return ParsedLayer(layer, problems=tuple(problems))
    wrong = list(_extends(document, layer))
    faults = [*version(document.root), *wrong]
    follow = () if wrong else tuple(_entries(document))
    return ParsedLayer(layer, follow, document, (*problems, *placed(document, faults)))


def _extends(document: Document, layer: Layer) -> Iterator[Fault]:
    if layers.KEY not in document.root:
        return
    if layer.role == "overlay":
        what = "an overlay extends nothing; it lies over the profile and all that this one extends"
        yield Fault((layers.KEY,), what, "move it to the profile", at_key=True)
    else:
        yield from layers.faults(document.root[layers.KEY])


def _entries(document: Document) -> Iterator[Extends]:
    for path, entry in layers.entries(document.root.get(layers.KEY)):
        line, column = document.locate(path)
        yield Extends(entry, line, column, layers.KEY)


def merge_layers(gathered: LayerSet) -> MergedProfile:
    """Merge and check the layers. If a layer is missing, missing keys are not reported, since it may have them."""
    problems = [*gathered.problems, *(problem for part in gathered.parts for problem in part.problems)]
    own = next((part.document for part in gathered.parts if part.layer.role == "profile"), None)
    if own is None:
        return MergedProfile(None, None, tuple(problems))
    document, idle = _merge(own, [part.document for part in gathered.parts if part.document])
    checked = check(document)
    if _is_whole(gathered):
        return MergedProfile(document, checked.profile, tuple(dict.fromkeys((*problems, *idle, *checked.problems))))
    known = (problem for problem in checked.problems if not problem.fix.startswith(ADD))
    return MergedProfile(document, None, tuple(dict.fromkeys((*problems, *known))))


def _is_whole(gathered: LayerSet) -> bool:
    """Whether every file of the profile was read, and is a mapping (or an empty overlay)."""
    missing = (part for part in gathered.parts if part.document is None and part.problems)
    cut_off = (
        part for part in gathered.parts if part.document and layers.KEY in part.document.root and not part.extends
    )
    return not gathered.problems and not any((*missing, *cut_off))


def _merge(own: Document, documents: Sequence[Document]) -> tuple[Document, tuple[Problem, ...]]:
    if len(documents) == 1 and layers.KEY not in own.root:
        return own, ()
    tree, idle = merge([_without_extends(document.tree) for document in documents])
    tree.place = own.tree.place  # missing keys are reported for the profile itself
    return Document(own.file, tree), idle


def _without_extends(tree: Node) -> Node:
    rest = Node(tree.place, {})
    for key, (place, child) in tree.entries.items():
        if key != layers.KEY:
            rest.put(key, place, child)
    return rest


def exposed(parts: Iterable[ParsedLayer]) -> tuple[Problem, ...]:
    """Return the credentials in each layer as problems, also those that another layer replaces (see `leaks`)."""
    return tuple(problem for part in parts for problem in (*_leaks(part), *_in_comments(part)))


def _leaks(part: ParsedLayer) -> Iterator[Problem]:
    if part.document is None:
        return
    from acp_launch.profile.leaks import leaks
    from acp_launch.secret.detect import masked

    for leak in leaks(part.document.root):
        line, column = part.document.locate(leak.path, offset=leak.offset)
        where = masked(dotted(leak.path))
        yield Problem(part.layer.label, line, column, where, leak.message, leak.fix, leak.severity)


def _in_comments(part: ParsedLayer) -> Iterator[Problem]:
    from acp_launch.profile.leaks import in_comments

    text = part.layer.text.removeprefix("\ufeff")  # as `parse` counts
    for (line, column), stray in in_comments(text, _reported_literals(part)):
        yield Problem(part.layer.label, line, column, "", stray.message, stray.fix, stray.severity)


def _reported_literals(part: ParsedLayer) -> Iterator[tuple[tuple[int, int], int, str]]:
    """Yield the literals that `_leaks` reports."""
    if part.document is None:
        return
    from acp_launch.profile.leaks import literals

    for path, offset, literal in literals(part.document.root):
        yield part.document.locate(path, offset=offset), offset, literal
