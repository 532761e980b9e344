"""The arguments and options of `up`. They are read without typer, whose memory the host would keep."""

from pathlib import Path
from typing import Annotated, NamedTuple

from acp_launch.cli.run_request import seconds
from acp_launch.cli.verb import TRACE, Argument, Option
from acp_launch.document.scalars import Duration


def _keep(text: str) -> Duration:
    return seconds(text, "--keep")


class Up(NamedTuple):
    """Start agent and servers in the background; `run` uses them from then on, without waiting for a start."""

    profile: Annotated[str, Argument("PROFILE", "The profile's name or file.")]
    keep: Annotated[
        Duration | None, Option("--keep", "End after so long without fronts and turns.", "DURATION", _keep)
    ] = None
    foreground: Annotated[bool, Option("--foreground", "Stay on this terminal, as a service manager wants it.")] = False
    replace: Annotated[bool, Option("--replace", "End the host that is up, and start it again.")] = False
    trust: Annotated[bool, Option("--trust", "Run a project's profile once without trusting it.")] = False
    locked: Annotated[bool, Option("--locked", "Refuse packages that differ from the project's lock file.")] = False
    trace: Annotated[Path | None, TRACE] = None

    def carry_out(self) -> int:
        """Return the exit code; in the host, at its end."""
        from acp_launch.cli.hosting import UpRequest, start

        request = UpRequest(self.profile, keep=self.keep, trust=self.trust, trace=self.trace, locked=self.locked)
        if self.replace:
            from acp_launch.cli.up import replaced

            replaced(self.profile)
        if self.foreground:
            from acp_launch.cli.up import stay

            return stay(request)
        begun = start(request)
        if begun.pid and not begun.code:
            from acp_launch.cli.up import tell

            tell(self.profile, begun.pid, begun.took)
        return begun.code
