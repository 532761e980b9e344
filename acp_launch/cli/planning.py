"""A name, or a command line, becomes a plan; warnings are shown on the way, problems raised."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from acp_launch.errors import MachineError, UsageError
from acp_launch.settings import Settings

if TYPE_CHECKING:
    from acp_launch.plan.model import LaunchPlan
    from acp_launch.plan.resolve import Resolved


def profile_plan(name: str, settings: Settings, *, cwd: Path | None, session: str | None) -> "LaunchPlan":
    """The plan of a profile; `cwd` and `session` are the command line's.

    Raises:
        UsageError: there is no such profile.
        ProfileError: the file is wrong.
        MachineError: it is right, and this machine cannot.
    """
    from acp_launch.plan.resolve import resolve
    from acp_launch.profile.discover import find
    from acp_launch.profile.load import load

    loaded = load(find(name, start=here(), settings=settings), cache=settings.cache)
    return _plan(resolve(loaded, cwd=here(), environ=os.environ, cwd_override=cwd, session_override=session))


def adhoc_plan(command_line: str, *, cwd: Path | None, session: str | None) -> "LaunchPlan":
    """The plan of `--agent 'COMMAND ARGS…'`: no profile, no servers."""
    from acp_launch.plan.adhoc import adhoc

    return _plan(adhoc(command_line, cwd=here(), environ=os.environ, cwd_override=cwd, session_override=session))


def here() -> Path:
    """Where the command was typed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UsageError("the directory you are in no longer exists", fix="cd somewhere else") from None


def _plan(resolved: "Resolved") -> "LaunchPlan":
    if resolved.plan is None:
        raise MachineError(resolved.problems)
    if resolved.problems:
        from acp_launch.console import problems

        problems.show(resolved.problems, as_json=False)
    return resolved.plan
