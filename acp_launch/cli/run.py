"""The verbs `run` and `attach`: one prompt, or an interactive session."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from acp_launch.cli.run_request import RunRequest, is_left_open
from acp_launch.cli.verb import Argument, Option
from acp_launch.errors import SessionError, UsageError
from acp_launch.problem import ours

if TYPE_CHECKING:
    from acp_launch.host.place import HostNote
    from acp_launch.settings.model import Settings


class Run(RunRequest):
    """Run a prompt, or start an interactive session.

    The prompt is the words after the profile, or --file, or stdin. Without one, on a terminal, the session is
    interactive.
    """

    __slots__ = ()

    def carry_out(self) -> int:
        """Run the request with `cli.job` and return its exit code."""
        from acp_launch.cli.job import carry_out

        return carry_out(self)


class Attach(NamedTuple):
    """Attach this terminal to a session of a host, also in the middle of a turn."""

    session: Annotated[str | None, Argument("[SESSION]", "A session that is open in a host.")] = None
    profile: Annotated[str | None, Option("--profile -p", "Its profile, if several have one.")] = None
    plain: Annotated[bool, Option("--plain", "Use no colours, no animation and no links.")] = False

    def carry_out(self) -> int:
        from acp_launch.cli.job import carry_out
        from acp_launch.settings.load import load

        if not is_left_open((), None):
            raise UsageError("attach needs a terminal", fix=f"without one: {ours('run', 'PROFILE', 'PROMPT')}")
        note, name = _session_of_host(load(), self.session, self.profile)
        os.chdir(note.here)  # where the profile has the name that `up` was given
        return carry_out(RunRequest(words=(note.called,), session=name, cwd=Path(note.cwd), plain=self.plain))


def _session_of_host(settings: "Settings", session: str | None, profile: str | None) -> "tuple[HostNote, str]":
    """Return the host that has the session, and its name; without a name, the session that is open alone.

    Raises:
        SessionError: no host has it, or several.
    """
    from acp_launch.host.door import read_status
    from acp_launch.host.place import hosts

    notes = [note for note in hosts(settings.state) if note.socket and profile in (None, note.called, note.profile)]
    if not notes:
        raise SessionError("no profile is up" if profile is None else f"{profile} is not up", fix=ours("up", "PROFILE"))
    found = [(note, each) for note in notes for each in read_status(note).sessions if session in (None, each.name)]
    if len(found) == 1:
        return found[0][0], found[0][1].name
    names = ", ".join(f"{each.name} ({note.called}, {each.state})" for note, each in found)
    if found:
        raise SessionError(f"several sessions are open: {names}", fix=ours("attach", "SESSION"))
    which = "no session is open" if session is None else f'no session "{session}" is open'
    fix = f"to open one: {ours('run', notes[0].called, *(('--session', session) if session else ()))}"
    raise SessionError(f"{which} in a host", fix=fix)
