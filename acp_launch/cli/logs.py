"""The verb `logs`: shows the stderr of an agent and its MCP servers."""

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from acp_launch.errors import UsageError
from acp_launch.problem import did_you_mean, ours

if TYPE_CHECKING:
    from acp_launch.console.logs import LogWatch
    from acp_launch.settings.model import Settings

LOOK = 0.25  # seconds between two checks for new lines

Profile = Annotated[
    str | None,
    typer.Argument(metavar="[PROFILE]", help="The profile; by default this project's latest launch."),
]
Server = Annotated[str | None, typer.Argument(metavar="[SERVER]", help="Only the log of this server; or agent.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new lines, of newer launches too.")]
Last = Annotated[
    int | None, typer.Option("--lines", "-n", min=0, metavar="LINES", help="Only the last lines of each log.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per line on stdout.")]


def logs(
    profile: Profile = None, server: Server = None, follow: Follow = False, lines: Last = None, as_json: Json = False
) -> None:
    """Show the stderr of the agent and the MCP servers of the latest launch."""
    from acp_launch import leave
    from acp_launch.console.logs import LogPrinter, LogWatch
    from acp_launch.profile.discover import here, project_of
    from acp_launch.settings.load import load

    settings = load()
    directory = settings.state / "log"
    name = None if profile is None else _profile(profile, directory, settings)
    of = None if server is None else _server(server, name, directory)
    shown = LogPrinter(as_json=as_json)
    project = project_of(here()) if profile is None else None
    watch = LogWatch(directory, shown, profile=name, project=project, server=of, follow=follow, is_enough=leave.is_due)
    with leave.deferred():  # a signal takes effect only between lines
        watch.look(lines)
    if watch.has_logs and not (watch.has_lines or follow or lines == 0):
        shown.note("nothing was written to stderr in this launch")
    elif not watch.has_logs:
        shown.note(_nothing(watch, directory, name, of) + ("; waiting for one" if follow else ""))
    try:
        gc.enable()  # following may go on for days
        while follow:
            _pause()
            with leave.deferred():
                watch.look()
    finally:
        watch.end()


def _profile(given: str, directory: Path, settings: "Settings") -> str:
    """Return the profile's name as its logs write it.

    Raises:
        UsageError: there are no logs and no profile of this name.
    """
    from acp_launch.process.logs import logs, shortened
    from acp_launch.profile.discover import SUFFIXES, discover, here

    is_path = "/" in given or given.endswith(SUFFIXES)
    name = shortened(Path(given).stem if is_path else given)
    logged = {each.profile for each in logs(directory).values()}
    if name in logged or (is_path and Path(given).expanduser().is_file()):
        return name
    there = {found.name for found in discover(start=here(), settings=settings)}
    if name in there:
        return name
    fix = f"profiles with logs: {', '.join(sorted(logged))}" if logged else "acp-launch list shows the profiles"
    raise UsageError(f'no profile named "{given}"{did_you_mean(name, sorted(logged | there))}', fix=fix)


def _server(given: str, profile: str | None, directory: Path) -> str:
    """Return the server's name as its logs write it.

    Raises:
        UsageError: no launch of the profile has a log of this server.
    """
    from acp_launch.console.logs import AGENT, label
    from acp_launch.process.logs import logs, shortened

    of = [each for each in logs(directory).values() if each.profile == profile]
    there = {AGENT, *map(label, of), *(label(each).partition("#")[0] for each in of)}
    if not of or shortened(given) in there:
        return shortened(given)
    fix = f"there is {', '.join(sorted(there))}"
    raise UsageError(f'no log of "{given}" in any launch of "{profile}"{did_you_mean(given, sorted(there))}', fix=fix)


def _nothing(watch: "LogWatch", directory: Path, profile: str | None, server: str | None) -> str:
    from acp_launch.process.logs import logs

    if watch.has_launch:
        return f'"{server}" wrote nothing in the latest launch of "{profile}"'
    if profile is None and any(logs(directory)):
        return f"no logs of this project yet; {ours('logs', 'PROFILE')} shows those of a profile elsewhere"
    of = f' of "{profile}"' if profile else ""
    return f"no logs{of} yet; they are kept in {directory}"


def _pause() -> None:
    """Wait until the next check.

    Raises:
        BrokenPipeError: the reader of our stdout is gone; without a new line nothing else would tell.
    """
    import os
    import select
    import stat
    import time

    if not hasattr(select, "poll") or not stat.S_ISFIFO(os.fstat(1).st_mode):
        time.sleep(LOOK)
        return
    reader = select.poll()
    reader.register(1, 0)
    if reader.poll(LOOK * 1000):
        raise BrokenPipeError
