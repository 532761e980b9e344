"""
A change of a profile's own file, judged before it is written: what it would break that was right before.

The change is judged with all layers the profile has, so that a key may be missing that a parent has. Nothing is
written here.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from msgspec import Struct, structs

from acp_launch.errors import ProfileError
from acp_launch.problem import Problem, errors
from acp_launch.profile.discover import PARENT, Found
from acp_launch.profile.layers import Gathered, Layer, Part
from acp_launch.profile.load import read, shown


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
    from acp_launch.profile.understand import understand

    def pretended(layer: Layer) -> Part:
        return understand(structs.replace(layer, text=text) if layer.role == "profile" else layer)

    return _said(found, gather(found, pretended))


def _alone(found: Found, text: str) -> tuple[Problem, ...]:
    """Without the layers it will have, so what is missing is none of its faults where it extends others."""
    from acp_launch.profile.understand import ADD, understand

    part = understand(Layer(file=found.file, origin=found.origin, role="profile", label=shown(found.file), text=text))
    said = _said(found, Gathered((part,), ()))
    return tuple(problem for problem in said if not (part.extends and problem.fix.startswith(ADD)))


def _said(found: Found, gathered: Gathered) -> tuple[Problem, ...]:
    from acp_launch.profile.exposed import exposed
    from acp_launch.profile.understand import ADD, together

    made = (*together(gathered).problems, *exposed(gathered.parts))
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
    from acp_launch.secret.credential import masked

    line, column = (0, 0) if problem.file == shown(found.file) else (problem.line, problem.column)
    path, message, fix = map(masked, (problem.path, problem.message, problem.fix))
    return problem._replace(line=line, column=column, path=path, message=message, fix=fix)
