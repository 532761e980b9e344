"""A name, or a command line, becomes a plan; warnings are shown on the way, problems raised."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from acp_launch.errors import MachineError, NotTrusted, UsageError
from acp_launch.settings.model import Settings

if TYPE_CHECKING:
    from acp_launch.problem import KeyPath
    from acp_launch.profile.load import Loaded

if TYPE_CHECKING:
    from acp_launch.plan.model import LaunchPlan
    from acp_launch.plan.resolve import Resolved
    from acp_launch.problem import Problem
    from acp_launch.profile.load import Loaded
    from acp_launch.secret.lookup import Waiting
    from acp_launch.secret.value import Secret

    Planned = tuple[LaunchPlan, Mapping[str, Secret]]


def agent_plan(name: str, settings: Settings, *, cwd: Path | None, trust: bool) -> "Planned":
    """The plan of a profile for who only needs its agent: no secret of a server is looked up.

    Raises:
        LaunchError: as `trusted_profile` and `planned`.
    """
    from msgspec.structs import replace

    resolved = trusted_profile(name, settings, cwd=cwd, trust=trust)
    needs = tuple(need for need in resolved.needs if need.origin.path.startswith("agent."))
    return planned(replace(resolved, needs=needs), settings)


def planned(resolved: "Resolved", settings: Settings, *, waiting: "Waiting | None" = None) -> "Planned":
    """The plan and the secrets it needs, all at once. `waiting` is told of a store that takes its time.

    Raises:
        MachineError: this machine cannot: a command, directory, variable or secret is missing.
    """
    if not resolved.needs:
        return _plan(resolved), {}
    from acp_launch.cli.stores import outcomes
    from acp_launch.plan.resolve import unfit, unmet
    from acp_launch.process.guard import start_guards
    from acp_launch.secret.lookup import secrets

    start_guards()
    answers = outcomes((need.name for need in resolved.needs), settings, waiting)
    values = secrets(answers)
    return _plan(resolved, (*unmet(resolved.needs, answers), *unfit(resolved.plan, values))), values


def trusted_profile(
    name: str, settings: Settings, *, cwd: Path | None, session: str | None = None, trust: bool
) -> "Resolved":
    """The same for who is about to start something of it; `trust` is `--trust`.

    Raises:
        NotTrusted: it comes from a project, and was not accepted as it is.
        UsageError, ProfileError: as `resolved_profile`.
    """

    loaded = loaded_profile(name, settings)
    resolved = resolved_from(loaded, cwd=cwd, session=session)
    require(loaded, resolved.found, settings, is_waved=trust)
    return resolved


def resolved_profile(name: str, settings: Settings, *, cwd: Path | None, session: str | None = None) -> "Resolved":
    """A profile on this machine, before anybody asks for its secrets; its plan is None where this machine cannot.

    Raises:
        UsageError: there is no such profile.
        ProfileError: the file is wrong.
    """
    return resolved_from(loaded_profile(name, settings), cwd=cwd, session=session)


def loaded_profile(name: str, settings: Settings) -> "Loaded":
    """A profile by its name or path, checked.

    Raises:
        UsageError: there is no such profile.
        ProfileError: the file is wrong.
    """
    from acp_launch.profile.discover import find
    from acp_launch.profile.load import load

    return load(find(name, start=here(), settings=settings), cache=settings.cache)


def resolved_from(loaded: "Loaded", *, cwd: Path | None, session: str | None = None) -> "Resolved":
    """`loaded` on this machine."""
    from acp_launch.plan.resolve import resolve

    named = checked_name(session)
    return resolve(loaded, cwd=here(), environ=os.environ, cwd_override=at_home(cwd), session_override=named)


def adhoc_plan(command_line: str, *, cwd: Path | None, session: str | None) -> "Planned":
    """The plan of `--agent 'COMMAND ARGS…'`: no profile, no servers, no secrets.

    Raises:
        UsageError: the command line is none.
        MachineError: this machine cannot run it.
    """
    from acp_launch.plan.adhoc import adhoc

    named = checked_name(session)
    cwd = at_home(cwd)
    return _plan(adhoc(command_line, cwd=here(), environ=os.environ, cwd_override=cwd, session_override=named)), {}


def checked_name(session: str | None) -> str | None:
    """A session's name as the command line gives it.

    Raises:
        UsageError: it cannot be one.
    """
    from acp_launch.profile.values import SESSION_NAME_FIX, session_name_fault

    if session is not None and (fault := session_name_fault(session)):
        raise UsageError(fault, fix=SESSION_NAME_FIX)
    return session


def at_home(directory: Path | None) -> Path | None:
    """`--cwd=~/x` reaches us as it is written: shells expand `~` only at the beginning of a word."""
    try:
        return directory.expanduser() if directory else None
    except RuntimeError:
        raise UsageError(f"--cwd: no home directory is known for {directory}", fix="give an absolute path") from None


def here() -> Path:
    """Where the command was typed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UsageError("the directory you are in no longer exists", fix="cd somewhere else") from None


def _plan(resolved: "Resolved", missing: "tuple[Problem, ...]" = ()) -> "LaunchPlan":
    if resolved.plan is None or missing:
        raise MachineError(sorted((*resolved.problems, *missing), key=lambda each: (each.file, each.line, each.column)))
    if resolved.problems:
        from acp_launch.console import problems

        problems.show(resolved.problems, as_json=False)
    return resolved.plan


# Nothing of a project runs before it was accepted: asked wherever something is about to start.


WHY = {
    "new": "this profile comes from a project, and you have not trusted it yet",
    "changed": "this profile has changed since you trusted it",
    "doubtful": "this profile cannot be trusted",
}


def require(loaded: "Loaded", found: "Mapping[KeyPath, Path]", settings: Settings, *, is_waved: bool) -> None:
    """Refuse a profile of a project that was not accepted as it is; a person at a terminal may accept it at once.

    `found` are its programs and directories that are there; `is_waved` is `--trust`, which is for this once.

    Raises:
        NotTrusted: with all that it would run.
    """
    from acp_launch.profile.trust import accept, trust_state

    how = trust_state(loaded, settings)
    if how.is_trusted or (is_waved and how.how != "doubtful"):
        return
    from acp_launch.console.stderr import say
    from acp_launch.console.trust import heading, report

    say(heading(how))
    for line in report(loaded.profile, found, how):  # here, and not as details of the error: a diff has its colours
        say(line)
    if how.how != "doubtful" and agrees("Trust it, and go on?"):
        accept(loaded, settings)
        return
    raise NotTrusted(f"{WHY[how.how]}: {loaded.label}", fix=_fix(loaded, how.how))


def agrees(question: str) -> bool:
    """Whether a person at a terminal says yes; without one nobody does."""
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    from acp_launch.console.ask.terminal import forget_typed
    from acp_launch.console.stderr import ask

    forget_typed()  # nobody accepts anything by typing on, or by pasting more lines than one
    ask(f"{question} [y/N]: ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _fix(loaded: "Loaded", how: str) -> str:
    import shlex

    if how == "doubtful":
        return "make the file your own, and writable by nobody else, inside the project"
    name = shlex.quote(loaded.found.called)
    return f"if you want all of this: acp-launch trust {name}; for this once: --trust"
