"""The verb `serve`: a profile as an ACP agent on stdin and stdout, for an editor."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, NamedTuple

from acp_launch.app.serve import ServedLaunch, refuse, take_streams
from acp_launch.app.spec import RunSpec
from acp_launch.cli.verb import Argument, Locked, Option, TraceFile, Trust
from acp_launch.errors import LaunchError


class Serve(NamedTuple):
    """Serve a profile to an editor: an ACP agent on stdin and stdout."""

    profile: Annotated[str, Argument("PROFILE", "The profile's name or file.")]
    cwd: Annotated[Path | None, Option("--cwd", "The agent's directory; sessions have those of the editor.", "DIR")] = (
        None
    )
    trust: Trust = False
    locked: Locked = False
    login: Annotated[
        str | None, Option("--login", "Run a login of the agent on this terminal, for an editor.", "METHOD")
    ] = None
    trace: TraceFile = None
    verbose: Annotated[
        bool,
        Option("--verbose -v", "Also report on stderr what works: servers that are ready, calls that are allowed."),
    ] = False

    def carry_out(self) -> int:
        """Serve until the editor ends, and return the exit code."""
        if self.login is not None:
            from acp_launch.cli.login import login

            login(self.profile, self.login, trust=self.trust, trace=self.trace)
            return 0

        source, sink = take_streams()
        spec = RunSpec(
            profile=self.profile,
            cwd=self.cwd,
            trust=self.trust,
            locked=self.locked,
            trace=self.trace,
            is_verbose=self.verbose,
        )
        with ExitStack() as stack:
            try:
                launch = ServedLaunch(spec, stack)
            except LaunchError as error:
                return refuse(error, source, sink)
            from acp_launch.app.editor import HostedProfile, ServedProfile  # while the agent starts

            return (ServedProfile if launch.spawned else HostedProfile)(launch).run(source, sink)
