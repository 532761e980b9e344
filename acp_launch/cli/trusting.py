"""Nothing of a project runs before it was accepted: asked wherever something is about to start."""

import sys
from typing import TYPE_CHECKING

from acp_launch.errors import NotTrusted
from acp_launch.settings.model import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from acp_launch.problem import KeyPath
    from acp_launch.profile.load import Loaded

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
    from acp_launch.profile.trust import accept, standing

    how = standing(loaded, settings)
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
