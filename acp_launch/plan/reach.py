"""
What of a project reaches the programs of a profile, by the directory they are started in.

Most programs look there first for what they run: modules, packages, settings. A profile that came with the project was
accepted together with it. One of the user's own means the same programs wherever it is used, and nobody has accepted
the project: so its servers get a directory of their own unless it says otherwise, and what does run in the project
(the agent above all) is kept from what can be kept from it.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from acp_launch.plan.model import OURS, Value
from acp_launch.private import real
from acp_launch.profile.discover import Found, repository_of
from acp_launch.secret.reference import VariableReference, parse
from acp_launch.settings.load import lies_in

OWN = ("user", "built-in")  # origins of profiles that are used in any project
_SAFE = {"PYTHONSAFEPATH": Value(("1",), OURS)}


def speaks_for(found: Found, session: Path, *, is_named: bool) -> bool:
    """Whether who accepted the profile accepted the session's directory with it: it is of the project that the profile
    came with, or `is_named`, by the profile or by `--cwd`."""
    if found.origin in OWN:
        return False
    project, session = real(found.project), real(session)
    if is_named or session == project:
        return True
    around = repository_of(project)
    return repository_of(session) == around and lies_in(session, [around or project])


def names_project(path: str, found: Found) -> bool:
    """Whether a path in the profile is written as one of the project that the user works in: as `${cwd}`, or, in a
    profile that has no project of its own, as `${project}` or relative to that."""
    is_own = found.origin in OWN
    first = next(iter(parse(path)), "/")
    if isinstance(first, VariableReference):
        return first.name == "cwd" or (is_own and first.name == "project")
    return is_own and isinstance(first, str) and not Path(first).is_absolute()


def is_of_session(argument: str, session: Path) -> bool:
    """Whether an argument, or what it assigns, names a file by its place in the session's directory."""
    path = argument.rpartition("=")[2]
    if path in (".", "..") or path.startswith(("./", "../")):
        return True
    is_path = ("/" in path or "." in path) and not Path(path).is_absolute()
    return is_path and os.path.lexists(session / path)


def kept_out(program: Path, args: Sequence[Value]) -> Mapping[str, Value]:
    """The variables that keep a program in a project from running what lies there, as far as any do."""
    from acp_launch.plan.executable import imports_from_here

    return _SAFE if imports_from_here(words(program, args)) else {}


def words(program: Path, args: Sequence[Value]) -> list[str]:
    """The command line; secrets stay references."""
    return [str(program), *("".join(map(str, argument.parts)) for argument in args)]
