"""
One value of a profile's text is set or removed, and every other byte stays: comments, order, quotes, line ends. Pure.

What cannot be done without touching anything else is refused: the text that comes out always means what went in with
exactly that one change, or there is none.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct, structs

from acp_launch.document.nodes import Plain
from acp_launch.document.yaml import parse
from acp_launch.errors import ProfileError
from acp_launch.problem import KeyPath, Problem, errors
from acp_launch.profile.discover import PARENT, Found
from acp_launch.profile.layers import Layer, LayerSet, ParsedLayer
from acp_launch.profile.load import read, shown
from acp_launch.profile.yamledit import CannotEdit, YamlText, by_hand

__all__ = ["CannotEdit", "put", "remove"]

_BOM = "\ufeff"


def put(text: str, path: KeyPath, value: Plain, *, comments: Sequence[str] = ()) -> str:
    """
    `text` with `value` at `path`; what is missing on the way is added.

    `comments` are written above an entry that is new. A number one past the end of a list appends to it.

    Raises:
        CannotEdit: the text is no YAML mapping, or this cannot be changed alone.
    """
    return _edited(text, path, lambda root: _put(root, path, value), lambda yaml: yaml.put(path, value, comments))


def remove(text: str, path: KeyPath) -> str:
    """
    `text` without the entry or the item at `path`; comments on lines of their own above it stay.

    Raises:
        CannotEdit: as `put`; or it is not written here.
    """
    return _edited(text, path, lambda root: _removed(root, path), lambda yaml: yaml.remove(path))


def _edited(text: str, path: KeyPath, model: Callable[[Plain], None], change: Callable[[YamlText], str]) -> str:
    bare = text.removeprefix(_BOM)
    document, problems = parse(bare, "")
    if document is None:
        raise CannotEdit((), problems[-1].message, problems[-1].fix)
    made = change(YamlText(bare))
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


# A change of a profile's own file, judged before it is written: what it would break that was right before.
#
# The change is judged with all layers the profile has, so that a key may be missing that a parent has. Nothing is
# written here.


class Revision(Struct, frozen=True):
    """`warnings` were not there before; `remaining` counts the errors that were, and still are."""

    found: Found
    before: str
    after: str
    warnings: tuple[Problem, ...] = ()
    remaining: int = 0


def revised(found: Found, change: Callable[[str], str]) -> Revision:
    """
    What `change` makes of the file's text.

    Raises:
        ProfileError: the file cannot be read; or with each problem the profile has only after the change.
    """
    before, unreadable = read(found.file)
    if before is None:
        raise ProfileError(unreadable)
    after = change(before)
    return judged(found, before, after)


def judged(found: Found, before: str | None, after: str) -> Revision:
    """
    `before` is None for a file that is not there yet.

    Raises:
        ProfileError: as `revised`.
    """
    old = () if before is None else problems(found, before)
    new = _alone(found, after) if before is None else problems(found, after)
    fresh = _fresh(old, new)
    if errors(fresh):
        raise ProfileError([_unplaced(found, problem) for problem in errors(fresh)])
    return Revision(found, before or "", after, tuple(fresh), len(errors(new)))


def problems(found: Found, text: str) -> tuple[Problem, ...]:
    """All that would be wrong with the profile if its file held `text`, credentials written down in it included."""
    from acp_launch.profile.gather import gather
    from acp_launch.profile.parse import parse_layer

    def pretended(layer: Layer) -> ParsedLayer:
        return parse_layer(structs.replace(layer, text=text) if layer.role == "profile" else layer)

    return _said(found, gather(found, pretended))


def _alone(found: Found, text: str) -> tuple[Problem, ...]:
    """Without the layers it will have, so what is missing is none of its faults where it extends others."""
    from acp_launch.profile.parse import ADD, parse_layer

    part = parse_layer(Layer(file=found.file, origin=found.origin, role="profile", label=shown(found.file), text=text))
    said = _said(found, LayerSet((part,), ()))
    return tuple(problem for problem in said if not (part.extends and problem.fix.startswith(ADD)))


def _said(found: Found, gathered: LayerSet) -> tuple[Problem, ...]:
    from acp_launch.profile.parse import ADD, exposed, merge_layers

    made = (*merge_layers(gathered).problems, *exposed(gathered.parts))
    is_parent = found.file.name.startswith(PARENT)
    return tuple(problem for problem in made if not (is_parent and problem.fix.startswith(ADD)))


def _fresh(old: Iterable[Problem], new: Iterable[Problem]) -> list[Problem]:
    """Those of `new` that are more than `old` had; on which line makes no difference."""
    known = Counter(_what(problem) for problem in old)
    fresh = []
    for problem in new:
        if known[_what(problem)]:
            known[_what(problem)] -= 1
        else:
            fresh.append(problem)
    return fresh


def _what(problem: Problem) -> tuple[str, str, str]:
    return problem.file, problem.path, problem.message


def _unplaced(found: Found, problem: Problem) -> Problem:
    """Without the line, which the file does not have; and without the credential that it may quote."""
    from acp_launch.secret.detect import masked

    line, column = (0, 0) if problem.file == shown(found.file) else (problem.line, problem.column)
    path, message, fix = map(masked, (problem.path, problem.message, problem.fix))
    return problem._replace(line=line, column=column, path=path, message=message, fix=fix)


# A key as it is typed, `mcp_servers."my.server".args[0]`, becomes a path; `document.keypath.dotted` goes back.


LONGEST = 1_000  # characters
DEEPEST = 16  # steps; a profile has 5
_STEP = re.compile(
    r"""(?:^|\.)(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<name>[^."'\[\]\s][^."\[\]]*))|\[(?P<index>[0-9]{1,6})\]"""
)


class NoKey(ValueError):  # noqa: N818 - it reads as what it is
    """Raised for text that is no key."""


def parse_key(text: str) -> KeyPath:
    """
    Raises:
        NoKey: it cannot be one.
    """
    steps: list[str | int] = []
    end = 0
    while end < len(text):
        match = _STEP.match(text, end)
        if match is None or (end == 0 and text[0] in ".[") or len(text) > LONGEST or len(steps) == DEEPEST:
            raise NoKey(text)
        steps.append(_step(match))
        end = match.end()
    if not steps:
        raise NoKey(text)
    return tuple(steps)


def _step(match: re.Match[str]) -> str | int:
    if match["index"]:
        return int(match["index"])
    return match["name"] or re.sub(r"\\(.)", r"\1", match["quoted"])
