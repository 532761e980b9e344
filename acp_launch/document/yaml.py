"""
A `Document`: the plain values of a YAML text, each with its line and column. `parse` makes one.

Pure: no file is read here. `parse` never raises: everything that is wrong with a text becomes a Problem, as many at
once as can be found. Untrusted text costs bounded time and memory, because its size, its depth and the number of
nodes after alias expansion are limited.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingStartEvent,
    ScalarEvent,
    StreamEndEvent,
    StreamStartEvent,
)

from acp_launch.document.nodes import (
    MAX_SIZE,
    PROFILE,
    Kind,
    Node,
    Place,
    Plain,
    Positions,
    Table,
    change_at,
    found,
    scalar,
    too_large,
)
from acp_launch.problem import KeyPath, Problem
from acp_launch.regex import regex

# Our sentences for ruamel.yaml's errors: (part of its context, part of its problem, sentence, fix). The first match
# counts.
_SENTENCES = (
    ("", "'\\t' that cannot start", "a tab is not allowed here", "indent with spaces"),
    ("", "mapping values are not allowed", 'a second ": " on this line, or wrong indentation',
     "quote the text, or line the key up with its neighbours"),
    ("quoted scalar", "unexpected", "this quoted text is not closed", "add the closing quote"),
    ("quoted scalar", "unknown escape", "unknown escape after a backslash in double quotes",
     "double the backslash, or use single quotes"),
    ("flow sequence", "", 'this "[" list is not closed, or a comma is missing', 'close it with "]"'),
    ("flow mapping", "", 'this "{" mapping is not closed, or a comma is missing', 'close it with "}"'),
    ("block collection", "", "this list item does not line up with the others", "give every item the same indentation"),
    ("block mapping", "", "this line does not line up with the keys around it",
     "give every key of one mapping the same indentation"),
    ("simple key", "", 'expected a ":" after this key', 'write "key: value"'),
    ("anchor", "", '"&" begins an anchor, and no name follows', 'quote text that begins with "&"'),
    ("alias", "", '"*" begins an alias, and no name follows', 'quote text that begins with "*"'),
    ("", "<document start>", "this does not belong to the mapping above it", "indent it like the keys around it"),
    ("", "expected the node content", "a value is missing here",
     "write the value, or quote text with special characters"),
    ("", "sequence entries are not allowed", 'a "- " item is not allowed on this line',
     "begin the list on its own line"),
    ("", "that cannot start any token", "this character cannot begin a value", "quote the text"),
)  # fmt: skip


def syntax_problem(fault: Exception, file: str, text: str = "") -> Problem:
    """Describe a parser error at its place; errors without a place (an escape beyond Unicode) name the file alone."""
    if bare := _bare_reference(fault, file, text):
        return bare
    context, problem = (getattr(fault, name, None) or "" for name in ("context", "problem"))
    # Point at the opening of an unclosed bracket or quote, not at the end of the text.
    opened = any(word in context for word in ("flow", "quoted")) and "escape" not in problem
    mark = (getattr(fault, "context_mark", None) if opened else None) or getattr(fault, "problem_mark", None)
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    for where, what, sentence, fix in _SENTENCES:
        if where in context and what in problem:
            return Problem(file, line, column, "", f"not valid YAML: {sentence}", fix)
    said = problem or "a character or escape outside Unicode"
    return Problem(file, line, column, "", f"not valid YAML: {said}")


def _bare_reference(fault: Exception, file: str, text: str) -> Problem | None:
    """Return the problem of a `${...}` without quotes between brackets, whose "{" YAML takes for a mapping."""
    context, mark = getattr(fault, "context", None) or "", getattr(fault, "problem_mark", None)
    if not mark or "flow" not in context or text[mark.index - 1 : mark.index + 1] != "${":
        return None
    at = mark.index
    what = 'not valid YAML: a value with "${" must be quoted within {...} and [...]'
    end = text.find("}", at) + 1
    reference = text[at - 1 : end] if end and "\n" not in text[at:end] else "${...}"
    return Problem(file, mark.line + 1, mark.column, "", what, f'quote the whole value, as in "{reference}"')


# Keys and values after alias expansion. Each costs about 50 µs to read; a profile of a hundred servers has 4,000.
MAX_NODES = 10_000
MAX_DEPTH = 64  # our formats need 5 and 3
# Characters that YAML forbids. One set of them all would take ten times as long to compile.
_UNREADABLE = regex("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]|[\ud800-\udfff]|\ufffe|\uffff")
_UNFIT = regex("\0|[\ud800-\udfff]")  # which an escape may make
_TYPED = {f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool", "null")}
_TEXT = {"!", "tag:yaml.org,2002:str"}
_COLLECTIONS = {"!", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map"}


class Document(Struct, frozen=True, dict=True):
    """One YAML mapping; `root` holds dicts, lists and scalars. If several files were merged, `file` is the file that
    was requested."""

    file: str
    tree: Node

    @property
    def root(self) -> dict[str, Plain]:
        root: dict[str, Plain] = self.tree.value
        return root

    def where(self, path: KeyPath, *, key: bool = False, offset: int = 0) -> Place:
        """See `Positions.where`."""
        return self.positions.where(path, key=key, offset=offset)

    @cached_property
    def positions(self) -> Positions:
        found: Table = {}
        waiting: list[tuple[KeyPath, Place, Node]] = [((), self.tree.place, self.tree)]
        while waiting:
            path, owner, node = waiting.pop()
            at = node.place
            found[path] = (at.file, owner.line, owner.column, at.line, at.column, node.lead)
            waiting += [((*path, key), place, entry) for key, (place, entry) in node.entries.items()]
            waiting += [((*path, index), item.place, item) for index, item in enumerate(node.items)]
        return Positions(found)


def parse(text: str, file: str, kind: Kind = PROFILE) -> tuple[Document | None, list[Problem]]:
    """
    Parse YAML text into a document and its problems.

    There is no document if the text is not a YAML mapping; a document with problems if only parts are wrong. Empty
    text gives neither, if a file of this kind may be empty.
    """
    text = text.removeprefix("\ufeff")
    if len(text) > MAX_SIZE:
        return None, [too_large(file, kind)]
    if bad := _UNREADABLE.search(text):
        line, column = text.count("\n", 0, bad.start()) + 1, bad.start() - text.rfind("\n", 0, bad.start())
        what = f"the character U+{ord(bad.group()):04X} is not allowed in YAML"
        return None, [Problem(file, line, column, "", what, "remove it; this may not be a text file")]
    builder = _Builder(text, file, kind)
    try:
        tree = builder.document()
    except _Refused as refused:
        return None, [*builder.problems, refused.problem]
    except (YAMLError, ValueError, OverflowError) as fault:  # the last two for escapes beyond U+10FFFF
        return None, [*builder.problems, syntax_problem(fault, file, text)]
    if tree is None:
        return None, builder.problems
    for path, change in kind.short_forms:
        change_at(tree, path, change)
    return Document(file, tree), builder.problems


class _Refused(Exception):  # noqa: N818
    """Raised to give up on the text at once."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class _Builder:
    """Turns parser events into nodes. ruamel's own composer does not expand aliases, has no limits, and resolves
    scalars by YAML 1.1 if the text says so."""

    def __init__(self, text: str, file: str, kind: Kind) -> None:
        self.text = text
        self.file = file
        self.kind = kind
        self.problems: list[Problem] = []
        self.anchors: dict[str, Node | None] = {}  # None while the anchored node is still being read
        self.nodes = 0
        self.is_aliased = False
        self.events: Iterator[Any] = YAML(typ="safe", pure=True).parse(text)

    def document(self) -> Node | None:
        event = self._next(StreamStartEvent, DocumentStartEvent)
        if isinstance(event, StreamEndEvent):
            self._empty()
            return None
        root = self._node(event, 1)
        further = self._next(DocumentEndEvent)
        if isinstance(further, DocumentStartEvent):
            what = f"{self.kind.noun} is one YAML document; a second one begins here"
            self._problem(further, what, 'remove the "---"')
        if root.value is None:
            self._empty()
            return None
        if not isinstance(root.value, dict):
            what = f"{self.kind.noun} is a mapping of keys to values, found {found(root.value)}"
            self._problem(event, what, f"begin with: {self.kind.begin}")
            return None
        return root

    def _empty(self) -> None:
        if not self.kind.may_be_empty:
            fix = f"begin with: {self.kind.begin}"
            self.problems.append(Problem(self.file, 1, 1, "", "this file is empty", fix))

    def _next(self, *skip: type) -> Any:
        return next(event for event in self.events if not isinstance(event, skip))

    def _problem(self, event: Any, message: str, fix: str) -> None:
        self.problems.append(self._refuse(event, message, fix).problem)

    def _refuse(self, event: Any, message: str, fix: str) -> _Refused:
        return _Refused(self._place(event).problem("", message, fix))

    def _node(self, event: Any, depth: int) -> Node:
        node = self._alias(event) if isinstance(event, AliasEvent) else self._fresh(event, depth)
        self.nodes += node.size if isinstance(event, AliasEvent) else 1
        if self.nodes > MAX_NODES:
            raise self._too_many(event)
        if depth + node.height > MAX_DEPTH:
            raise self._too_deep(event)
        return node

    def _too_many(self, event: Any) -> _Refused:
        fix = "use fewer aliases" if self.is_aliased else f"check that this is {self.kind.noun}"
        return self._refuse(event, f"more than {MAX_NODES:,} keys and values, aliases expanded", fix)

    def _too_deep(self, event: Any) -> _Refused:
        return self._refuse(event, f"nested deeper than {MAX_DEPTH} levels", "use fewer levels")

    def _alias(self, event: Any) -> Node:
        self.is_aliased = True
        if event.anchor not in self.anchors:
            raise self._refuse(
                event, f'no anchor "&{event.anchor}" before this alias', 'quote text that begins with "*"'
            )
        node = self.anchors[event.anchor]
        if node is None:
            raise self._refuse(event, f'"*{event.anchor}" contains itself', "remove this alias")
        return node

    def _fresh(self, event: Any, depth: int) -> Node:
        if event.anchor:
            self.anchors[event.anchor] = None
        if depth >= MAX_DEPTH:
            raise self._too_deep(event)
        if isinstance(event, ScalarEvent):
            node = self._scalar(event)
        elif isinstance(event, MappingStartEvent):
            node = self._build_mapping(event, depth)
        else:
            node = self._sequence(event, depth)
        if event.anchor:
            self.anchors[event.anchor] = node
        return node

    def _scalar(self, event: Any) -> Node:
        self._check_tag(event, _TYPED | _TEXT)
        plain, text = event.implicit[0] or event.tag in _TYPED, event.value
        if bad := _UNFIT.search(text):
            self._problem(event, f"no program can receive the character U+{ord(bad.group()):04X}", "remove the escape")
            text = _UNFIT.sub("\ufffd", text)  # so that what looks for further problems can use it
        value = scalar(text) if plain else text
        start = event.start_mark
        lead = self.text.find(event.value, start.index, event.end_mark.index) - start.index
        same_line = lead >= 0 and "\n" not in self.text[start.index : start.index + lead]
        return Node(self._place(event), value, lead=lead if same_line else None)

    def _check_tag(self, event: Any, known: set[str]) -> None:
        if event.tag and event.tag not in known:
            self._problem(event, f'unknown tag "{event.tag}"', 'remove it, or quote text that begins with "!"')

    def _sequence(self, event: Any, depth: int) -> Node:
        self._check_tag(event, _COLLECTIONS)
        node = Node(self._place(event), [])
        while not isinstance(item := next(self.events), CollectionEndEvent):
            node.append(self._node(item, depth + 1))
        return node

    def _build_mapping(self, event: Any, depth: int) -> Node:
        self._check_tag(event, _COLLECTIONS)
        node = Node(self._place(event), {})
        merged: list[Node] = []
        while not isinstance(key := next(self.events), CollectionEndEvent):
            is_merge = isinstance(key, ScalarEvent) and key.value == "<<" and key.implicit[0]
            name = None if is_merge else self._key(key, depth)
            value = next(self.events)
            child = self._node(value, depth + 1)
            if is_merge:
                merged += self._merge_sources(value, child)
            elif name is not None:
                self._put(node, name, key, child)
        for source in merged:
            for name, (place, child) in source.entries.items():
                if name not in node.entries:
                    node.put(name, place, child)
                    self.nodes += child.size
        if self.nodes > MAX_NODES:
            raise self._too_many(event)
        return node

    def _key(self, event: Any, depth: int) -> str | None:
        """Return the key's text; None for a list or mapping in a key's place."""
        key = self._node(event, depth + 1)
        if isinstance(key.value, str):
            return key.value
        text = getattr(event, "value", None)
        fix = f'quote it: "{text}"' if text else "write a name before the colon"
        self._problem(event, f"keys must be text, found {found(key.value)}", fix)
        return text

    def _put(self, node: Node, name: str, event: Any, child: Node) -> None:
        if name in node.entries:
            first = node.entries[name][0].line
            self._problem(event, f'the key "{name}" appears twice; the first is on line {first}', "keep one of them")
            return
        node.put(name, self._place(event), child)

    def _merge_sources(self, event: Any, child: Node) -> Sequence[Node]:
        sources = child.items if isinstance(child.value, list) else [child]
        if all(isinstance(source.value, dict) for source in sources):
            return sources
        self._problem(event, '"<<" merges mappings, but this is not a mapping', "write an alias of a mapping")
        return []

    def _place(self, event: Any) -> Place:
        # ruamel counts from 0; editors from 1.
        return Place(event.start_mark.line + 1, event.start_mark.column + 1, self.file)
