"""
The rules of a profile on this machine: references filled in, paths absolute.

A directory's name is no glob, so what stands for `${project}` is quoted. Whoever judges a tool call later asks no
file system; so where the fixed part of a path leads through a link, the place it leads to is a glob of its own.
"""

import glob
import os
from collections.abc import Iterator

from msgspec.structs import replace

from acp_launch.document.keypath import KeyPath
from acp_launch.plan.model import RulePlan
from acp_launch.plan.substitute import Substitution
from acp_launch.profile.model import Approval, Match, Rule

_WILD = frozenset("*?[")


def rules(substitution: Substitution) -> tuple[RulePlan, ...]:
    """In their order; what is unresolved is noted."""
    quoted = {name: glob.escape(value) for name, value in substitution.variables.items()}
    quoting = Substitution(substitution.loaded, substitution.environ, quoted, substitution.problems)
    written = substitution.loaded.profile.permissions.rules
    return tuple(_rule(quoting, ("permissions", "rules", index), rule) for index, rule in enumerate(written))


def _rule(substitution: Substitution, path: KeyPath, rule: Rule) -> RulePlan:
    answer, match = _answer(rule)
    commands = _texts(substitution, (*path, answer, "command"), match.command)
    paths = _texts(substitution, (*path, answer, "path"), match.path)
    project = glob.escape(str(substitution.loaded.found.project))
    absolute = dict.fromkeys(each for text in paths for each in _absolute(project, text))
    resolved = replace(match, command=tuple(commands), path=tuple(absolute))  # no templates now
    return RulePlan(answer, resolved, substitution.origin(path))


def _answer(rule: Rule) -> tuple[Approval, Match]:
    """The one that is written."""
    found: tuple[tuple[Approval, Match], ...] = (("allow", rule.allow), ("deny", rule.deny), ("ask", rule.ask))
    return next((answer, match) for answer, match in found if match != Match())


def _texts(substitution: Substitution, path: KeyPath, written: tuple[str, ...]) -> list[str]:
    locate = substitution.loaded.positions.locate
    is_list = bool(written) and locate((*path, 0)) != locate(path, key=True)  # a text stands for a list of one
    places = ((*path, index) if is_list else path for index in range(len(written)))
    texts = map(substitution.text, places, written)
    return [text for text in texts if text is not None]


def _absolute(project: str, written: str) -> Iterator[str]:
    """`written` below the project, and where its fixed part really is; a directory (`src/`) means all in it."""
    path = os.path.normpath(os.path.join(project, written))  # noqa: PTH118 - a glob is no path
    path = f"{path}/**" if written.endswith("/") else path
    yield path
    parts = path.split("/")
    fixed = next((index for index, part in enumerate(parts) if _WILD & set(part)), len(parts))
    here = "/".join(parts[:fixed])
    if (real := os.path.realpath(here or "/")) != (here or "/"):
        yield "/".join([glob.escape(real), *parts[fixed:]])
