"""Every profile that can be named from here: those that are good in one line, each that is not in its own."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from acp_launch.checks.check import Check, ok, problem, warning
from acp_launch.errors import ProfileError
from acp_launch.problem import Problem, errors, ours
from acp_launch.profile.discover import Found
from acp_launch.profile.load import inspect


def profiles(everything: Iterable[Found], cache: Path) -> Iterator[Check]:
    """One that others shadow is only a warning: nobody can name it."""
    good: list[str] = []
    for found in everything:
        faults = errors(inspect(found, cache=cache)[1])
        if faults:
            yield _bad(found, faults)
        elif found.shadowed_by is None:
            good.append(found.name)
    yield ok("profiles", "", f"{', '.join(good) or 'none'}", names=good)


def _bad(found: Found, faults: Sequence[Problem]) -> Check:
    text = f"{len(faults)} problem{'s' if len(faults) != 1 else ''} ({found.origin})"
    fix = ours("validate", str(found.file))
    if found.shadowed_by is not None:
        return warning("profile", found.name, text, fix, problems=len(faults))
    return problem("profile", found.name, text, fix, ProfileError.exit_code, problems=len(faults))
