"""The verbs that look at this machine and the launches on it: `doctor`, `ps`, `reap`, `logs` and `trace`."""

import gc
import os
import select
import stat
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from acp_launch import shutdown
from acp_launch.app.sessions import hosted_sessions
from acp_launch.app.spec import load_settings
from acp_launch.cli.verb import Argument, Directory, Json, Option, TraceFile, Trust
from acp_launch.console.logs import AGENT, LogPrinter, LogWatch, label
from acp_launch.console.processes import SessionRow, Sessions, SharedRow, show_ended, show_families
from acp_launch.console.stderr import DIM, YELLOW, tell
from acp_launch.console.trace import TraceView, read
from acp_launch.errors import MachineError, UsageError
from acp_launch.problem import did_you_mean, ours
from acp_launch.process import logs as log_files
from acp_launch.process.leftovers import LaunchTree, clear, launch_tree
from acp_launch.process.records import read_all
from acp_launch.process.workdir import sweep
from acp_launch.profile.discover import SUFFIXES, discover, here, project_of
from acp_launch.session.hold import list_held
from acp_launch.session.store import open_registry
from acp_launch.settings.model import Settings

EARLIER = 2.0  # seconds by which two clocks of the system may differ: an older note is of another process
POLL_SECONDS = 0.25
MAX_TRACE_LINE_BYTES = 16 * 1024 * 1024  # ours have at most half of that
TRACE_FIX = "write one: acp-launch run PROFILE PROMPT --trace FILE"

Name = Annotated[str | None, Argument("[PROFILE]", "A profile's name or path; by default only the machine.")]
Session = Annotated[bool, Option("--session/--no-session", "Also open a session with the agent, as a run does.")]
Logged = Annotated[str | None, Argument("[PROFILE]", "The profile; by default this project's latest launch.")]
Server = Annotated[str | None, Argument("[SERVER]", "Only the log of this server; or agent.")]
Follow = Annotated[bool, Option("--follow -f", "Keep printing new lines, of newer launches too.")]
Last = Annotated[
    int | None, typer.Option("--lines", "-n", min=0, metavar="LINES", help="Only the last lines of each log.")
]


def doctor(
    name: Name = None,
    as_json: Json = False,
    cwd: Directory = None,
    session: Session = True,
    trust: Trust = False,
    trace: TraceFile = None,
) -> int:
    """Check this machine and a profile: its agent, servers and secrets. You can paste the output into a bug report."""
    from acp_launch.app.checkup import Checkup

    checkup = Checkup(name=name, cwd=cwd, opens_session=session, allow_once=trust, trace=trace)
    return checkup.show(as_json=as_json)


def ps(as_json: Json = False) -> None:
    """Show your running launches: sessions, directory, processes."""
    state = load_settings().state
    families = [found for launch in read_all(state) if (found := launch_tree(launch))]
    families.sort(key=lambda each: each.root.age if each.root else 0.0, reverse=True)
    show_families(families, _sessions(families, state), _list_shared(state), home=str(Path.home()), as_json=as_json)


def _list_shared(state: "Path") -> Sequence[SharedRow]:
    """Return the processes that launches share."""
    from acp_launch.served.connect import shared_servers

    return [SharedRow(each.name, each.pid, {use.pid: use.label for use in each.uses}) for each in shared_servers(state)]


def _sessions(families: Sequence[LaunchTree], state: "Path") -> Sessions:
    """Return the sessions that the launches hold, and their states in a host."""
    now = time.time()
    since = {family.root.pid: now - family.root.age for family in families if family.root}
    used = [each for each in list_held(state) if each.pid in since and each.since >= since[each.pid] - EARLIER]
    if not used:
        return {}
    with open_registry(state) as registry:
        titles = [record.title if (record := registry.find(*each.key)) else "" for each in used]
    hosted = hosted_sessions(state)
    found: dict[int, list[SessionRow]] = {}
    for each, title in zip(used, titles, strict=True):
        shown = SessionRow(each.key[2], title)
        if (status := hosted.get(each.key)) is not None:
            shown = shown._replace(
                title=title or status.title,
                state=status.state,
                age=max(0.0, now - status.since),
                fronts=status.fronts,
                queued=status.queued,
            )
        found.setdefault(each.pid, []).append(shown)
    return found


def reap(as_json: Json = False) -> int:
    """Stop processes left behind by launches that crashed."""
    state = load_settings().state
    ended = clear(state)
    sweep(state)
    show_ended(ended, as_json=as_json)
    return 0 if all(each.is_over for each in ended) else MachineError.exit_code


def logs(
    profile: Logged = None, server: Server = None, follow: Follow = False, lines: Last = None, as_json: Json = False
) -> None:
    """Show the stderr of the agent and the MCP servers of the latest launch."""
    settings = load_settings()
    directory = settings.state / "log"
    name = None if profile is None else _logged_name(profile, directory, settings)
    shown = None if server is None else _label(server, name, directory)
    printer = LogPrinter(as_json=as_json)
    watch = LogWatch(
        directory,
        printer,
        profile=name,
        project=project_of(here()) if profile is None else None,
        server=shown,
        follow=follow,
        is_enough=shutdown.is_due,
    )
    with shutdown.critical_section():  # a signal takes effect only between lines
        watch.look(lines)
    if watch.trails and not (watch.has_lines or follow or lines == 0):
        printer.note("nothing was written to stderr in this launch")
    elif not watch.trails:
        printer.note(_why_empty(watch, directory, name, shown) + ("; waiting for one" if follow else ""))
    try:
        gc.enable()  # following may go on for days
        while follow:
            _pause()
            with shutdown.critical_section():
                watch.look()
    finally:
        watch.end()


def _logged_name(given: str, directory: Path, settings: Settings) -> str:
    """Return the profile's name as its logs write it.

    Raises:
        UsageError: there are no logs and no profile of this name.
    """
    is_path = "/" in given or given.endswith(SUFFIXES)
    name = log_files.shortened(Path(given).stem if is_path else given)
    known = {each.profile for each in log_files.logs(directory).values()}
    known |= {found.name for found in discover(start=here(), settings=settings)}
    if name in known or (is_path and os.path.isfile(os.path.expanduser(given))):  # noqa: PTH111, PTH113 - Path raises
        return name
    hint = did_you_mean(name, sorted(known))
    raise UsageError(f'no profile named "{given}"{hint}', fix="acp-launch list shows the profiles")


def _label(given: str, profile: str | None, directory: Path) -> str:
    """Return the server's name as its logs write it.

    Raises:
        UsageError: no launch of the profile has a log of this server.
    """
    of = [each for each in log_files.logs(directory).values() if each.profile == profile]
    there = {AGENT, *map(label, of), *(label(each).partition("#")[0] for each in of)}
    if not of or log_files.shortened(given) in there:
        return log_files.shortened(given)
    fix = f"there is {', '.join(sorted(there))}"
    raise UsageError(f'no log of "{given}" in any launch of "{profile}"{did_you_mean(given, sorted(there))}', fix=fix)


def _why_empty(watch: "LogWatch", directory: Path, profile: str | None, server: str | None) -> str:
    if watch.since:
        return f'"{server}" wrote nothing in the latest launch of "{profile}"'
    of = f'of "{profile}"' if profile else "of this project"
    other = "" if profile else f"; {ours('logs', 'PROFILE')} shows those of a profile in any project"
    return f"no logs {of} yet{other}; they are kept in {directory}"


def _pause() -> None:
    """Wait until the next check.

    Raises:
        BrokenPipeError: the reader of our stdout is gone; without a new line nothing else would tell.
    """
    if not stat.S_ISFIFO(os.fstat(1).st_mode):
        time.sleep(POLL_SECONDS)
        return
    reader = select.poll()
    reader.register(1, 0)
    if reader.poll(POLL_SECONDS * 1000):
        raise BrokenPipeError


def trace(
    file: Annotated[Path, Argument("FILE", "A file that --trace has written; - is stdin.")],
) -> None:
    """Show a trace as a sequence: who asked what, and how long the answer took."""
    try:
        source = sys.stdin.buffer if str(file) == "-" else file.open("rb")
    except OSError as error:
        raise UsageError(f"cannot read {file}: {str(error.strerror).lower()}", fix=TRACE_FIX) from None
    with source:
        _show_trace(source, file)


def _show_trace(source: BinaryIO, file: Path) -> None:
    from acp_launch.trace import VERSION

    header = read(source.readline(MAX_TRACE_LINE_BYTES))
    if header is None or header.type != "trace":
        raise UsageError(f"{file} is not a trace", fix=TRACE_FIX)
    if header.version > VERSION:
        raise UsageError(f"{file} is a trace of a newer acp-launch", fix="show it with that version")
    said = f"{header.verb} of {header.profile}" if header.profile else header.verb
    tell(f"{said}, {header.time}", style=DIM)
    view, torn = TraceView(), 0
    while line := source.readline(MAX_TRACE_LINE_BYTES):
        if entry := read(line):
            view.add(entry)
        else:
            torn += 1
    view.finish()
    if torn:
        what = f"{torn:,} lines" if torn > 1 else "a line"
        tell(f"skipped {what} of {file} that cannot be read", style=YELLOW)
    if not view.has_ended:
        tell("the trace is incomplete: its run was killed, is still running, or could not write it", style=YELLOW)
