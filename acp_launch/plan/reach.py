"""
The reach of a project: which of its files could run in the programs that a profile starts there.

Most programs search their working directory first for modules, packages and settings. A profile that came with the
project was accepted together with it. The user's own profile starts the same programs in any project, and the user has
not accepted the project. So its servers run in empty directories unless the profile says otherwise, and programs that
must run in the project, above all the agent, are protected from its files as far as possible.
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
    """Whether accepting the profile also accepted the session's directory: it belongs to the profile's project, or
    `is_named` by the profile or by `--cwd`."""
    if found.origin in OWN:
        return False
    project, session = real(found.project), real(session)
    if is_named or session == project:
        return True
    around = repository_of(project)
    return repository_of(session) == around and lies_in(session, [around or project])


def names_project(path: str, found: Found) -> bool:
    """Whether a path in the profile names a place in the project that the user works in.

    That is `${cwd}`, or, in a profile without its own project, `${project}` or a relative path.
    """
    is_own = found.origin in OWN
    first = next(iter(parse(path)), "/")
    if isinstance(first, VariableReference):
        return first.name == "cwd" or (is_own and first.name == "project")
    return is_own and isinstance(first, str) and not Path(first).is_absolute()


def is_of_session(argument: str, session: Path) -> bool:
    """Whether an argument, or the value it assigns, names a file relative to the session's directory."""
    path = argument.rpartition("=")[2]
    if path in (".", "..") or path.startswith(("./", "../")):
        return True
    is_path = ("/" in path or "." in path) and not Path(path).is_absolute()
    return is_path and os.path.lexists(session / path)


def kept_out(program: Path, args: Sequence[Value]) -> Mapping[str, Value]:
    """Return the variables that keep a program from running files of the project, as far as there are any."""
    from acp_launch.plan.executable import imports_from_here

    return _SAFE if imports_from_here(words(program, args)) else {}


def words(program: Path, args: Sequence[Value]) -> list[str]:
    """Return the command line in words; secrets stay references."""
    return [str(program), *("".join(map(str, argument.parts)) for argument in args)]
