"""The verb `doctor`: checks this machine and one profile on it; every fault comes with its fix."""

from pathlib import Path
from typing import Annotated

import typer

from acp_launch.cli.trace import TraceFile

Name = Annotated[
    str | None, typer.Argument(metavar="[PROFILE]", help="A profile's name or path; by default only the machine.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
Directory = Annotated[Path | None, typer.Option("--cwd", metavar="DIR", help="The session's directory.")]
Session = Annotated[
    bool, typer.Option("--session/--no-session", help="Also open a session with the agent, as a run does.")
]
Trust = Annotated[bool, typer.Option("--trust", help="Trust the profile for this run only.")]


def doctor(
    name: Name = None,
    as_json: Json = False,
    cwd: Directory = None,
    session: Session = True,
    trust: Trust = False,
    trace: TraceFile = None,
) -> None:
    """Check this machine and a profile: its agent, servers and secrets. Fit for a bug report."""
    from acp_launch.checks.check import exit_code
    from acp_launch.cli.checkup import Checkup
    from acp_launch.cli.stores import protect_secrets
    from acp_launch.console import doctor as screen

    protect_secrets()
    checkup = Checkup(name, cwd, opens_session=session, is_waved=trust, trace=trace)
    code = checkup.run()
    screen.show(checkup.found, name, exit_code(checkup.found), as_json=as_json, is_cut_short=code > 0)
    raise typer.Exit(code or exit_code(checkup.found))
