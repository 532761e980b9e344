"""
Edits of a profile's text: one value is set or removed, and all other bytes stay the same. Pure.

`put` and `remove` keep comments, order, quotes and line ends. They refuse an edit that would touch anything else: the
new text always means the old one with exactly that change. `revised` and `judged` say which new problems an edit would
cause; nothing is written here. `parse_key` reads a path that the user typed, `meant` a value.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct, structs

from acp_launch.document.nodes import Plain, scalar
from acp_launch.document.yaml import parse
from acp_launch.errors import ProfileError, UsageError
from acp_launch.problem import KeyPath, Problem, errors
from acp_launch.profile.check import ADD, exposed, merge_layers, parse_layer
from acp_launch.profile.discover import PARENT, Found
from acp_launch.profile.layers import Layer, LayerSet, ParsedLayer
from acp_launch.profile.load import gather, make_discreet, read, shown
from acp_launch.profile.yamledit import CannotEdit, YamlText, by_hand
from acp_launch.regex import regex

__all__ = ["CannotEdit", "put", "remove"]

_BOM = "\ufeff"


def put(text: str, path: KeyPath, value: Plain, *, comments: Sequence[str] = ()) -> str:
    """
    Set `value` at `path` and return the new text; missing parents are added.

    `comments` are written above a new entry. A number one past the end of a list appends to it.

    Raises:
        CannotEdit: the text is not a YAML mapping, or other text would have to change too.
    """
    return _edit(text, path, lambda root: _put(root, path, value), lambda yaml: yaml.put(path, value, comments))


def remove(text: str, path: KeyPath) -> str:
    """
    Remove the entry or the item at `path` and return the new text; comments on their own lines above it stay.

    Raises:
        CannotEdit: as `put`; or the value is not in this text.
    """
    return _edit(text, path, lambda root: _remove(root, path), lambda yaml: yaml.remove(path))


def _edit(text: str, path: KeyPath, model: Callable[[Plain], None], change: Callable[[YamlText], str]) -> str:
    bare = text.removeprefix(_BOM)
    document, problems = parse(bare, "")
    if document is None:
        raise CannotEdit((), problems[-1].message, problems[-1].fix)
    made = change(YamlText(bare))
    wanted = _plain(document.root)  # a deep copy, since aliases share their values
    model(wanted)
    result, faults = parse(made, "")
    if result is None or len(faults) > len(problems) or not _same(result.root, wanted):
        raise by_hand(path)
    return text[: len(text) - len(bare)] + made


def _same(one: Plain, other: Plain) -> bool:
    """Whether both are equal and of the same types: 1 is neither true nor 1.0."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return _type(one) is _type(other) and bool(one == other)


def _type(value: Plain) -> type:
    """Return the type of a value; a number's notation makes no difference."""
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


def _remove(root: Plain, path: KeyPath) -> None:
    for step in path[:-1]:
        root = root[step]
    del root[path[-1]]


class Revision(Struct, frozen=True):
    """
    A change of a profile's own file, not written yet.

    It was checked with all layers of the profile, so a key may be missing that a parent has. `warnings` are new;
    `remaining` counts the errors that the profile had before and still has.
    """

    found: Found
    before: str
    after: str
    warnings: tuple[Problem, ...] = ()
    remaining: int = 0


def revised(found: Found, change: Callable[[str], str]) -> Revision:
    """
    Apply `change` to the file's text and check the result.

    Raises:
        ProfileError: the file cannot be read; or the change adds errors, which are listed.
    """
    before, unreadable = read(found.file)
    if before is None:
        raise ProfileError(unreadable)
    after = change(before)
    return judged(found, before, after)


def judged(found: Found, before: str | None, after: str) -> Revision:
    """
    Check a change from `before` to `after`; `before` is None for a new file.

    Raises:
        ProfileError: as `revised`.
    """
    old = () if before is None else problems(found, before)
    new = _alone(found, after) if before is None else problems(found, after)
    fresh = _fresh(old, new)
    if errors(fresh):
        raise ProfileError([_without_line(found, problem) for problem in errors(fresh)])
    return Revision(found, before or "", after, tuple(fresh), len(errors(new)))


def problems(found: Found, text: str) -> tuple[Problem, ...]:
    """Return the problems of the profile if its file held `text`, including credentials written in it."""

    def parse_new(layer: Layer) -> ParsedLayer:
        return parse_layer(structs.replace(layer, text=text) if layer.role == "profile" else layer)

    return _problems_of(found, gather(found, parse_new))


def _alone(found: Found, text: str) -> tuple[Problem, ...]:
    """Check a new file without its other layers; if it extends others, a missing key is not a problem."""
    part = parse_layer(Layer(file=found.file, origin=found.origin, role="profile", label=shown(found.file), text=text))
    said = _problems_of(found, LayerSet((part,), ()))
    return tuple(problem for problem in said if not (part.extends and problem.fix.startswith(ADD)))


def _problems_of(found: Found, gathered: LayerSet) -> tuple[Problem, ...]:
    made = (*merge_layers(gathered)[2], *exposed(gathered.parsed_layers))
    is_parent = found.file.name.startswith(PARENT)
    return tuple(problem for problem in made if not (is_parent and problem.fix.startswith(ADD)))


def _fresh(old: Iterable[Problem], new: Iterable[Problem]) -> list[Problem]:
    """Return the problems of `new` that `old` did not have; their lines do not matter."""
    known = Counter((problem.file, problem.path, problem.message) for problem in old)
    fresh = []
    for problem in new:
        what = problem.file, problem.path, problem.message
        if known[what]:
            known[what] -= 1
        else:
            fresh.append(problem)
    return fresh


def _without_line(found: Found, problem: Problem) -> Problem:
    """Drop the line, because the text is not in the file yet, and mask credentials that the problem may quote."""
    line, column = (0, 0) if problem.file == shown(found.file) else (problem.line, problem.column)
    return make_discreet(problem)._replace(line=line, column=column)


# Keys as the user types them: `mcp_servers."my.server".args[0]`. `problem.dotted` writes them.
MAX_KEY_CHARS = 1_000
DEEPEST = 16  # steps; a profile has 5
_STEP = regex(
    r"""(?:^|\.)(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<name>[^."'\[\]\s][^."\[\]]*))|\[(?P<index>[0-9]{1,6})\]"""
)
_ESCAPED = regex(r"\\(.)")


def meant(value: str) -> Plain:
    """Read a value from the command line: YAML if it begins with a bracket, brace or quote, else one scalar.

    Raises:
        UsageError: the value is not valid YAML.
    """
    if not value or value[0] not in "[{\"'":
        return scalar(value) if value else ""
    document, problems = parse(f"value: {value}", "")
    if document is None or problems or document.root.keys() != {"value"}:
        what = f": {problems[0].message}" if problems else ""
        raise UsageError(f"cannot read VALUE{what}", fix="""quote text that begins like this: '"[a"'""")
    return document.root["value"]


class NoKey(ValueError):  # noqa: N818 - it reads as what it is
    """Raised for text that is not a key."""


def parse_key(text: str) -> KeyPath:
    """
    Parse a key into a path.

    Raises:
        NoKey: it is not a key.
    """
    steps: list[str | int] = []
    end = 0
    while end < len(text):
        match = _STEP.match(text, end)
        if match is None or (end == 0 and text[0] in ".[") or len(text) > MAX_KEY_CHARS or len(steps) == DEEPEST:
            raise NoKey(text)
        steps.append(int(match["index"]) if match["index"] else match["name"] or _ESCAPED.sub(r"\1", match["quoted"]))
        end = match.end()
    if not steps:
        raise NoKey(text)
    return tuple(steps)
