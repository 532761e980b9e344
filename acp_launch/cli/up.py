"""
The verb `up`.

It is read without typer, whose memory the host would keep.
"""

from typing import Annotated

from acp_launch.app.spec import RunSpec, find_profile, load_settings
from acp_launch.app.up import be_host, end, start
from acp_launch.cli.verb import Argument, Locked, Option, TraceFile, Trust, read_keep
from acp_launch.console.stderr import YELLOW, harmless, say, tell
from acp_launch.document.scalars import Duration
from acp_launch.errors import StateError, UsageError
from acp_launch.problem import ours
from acp_launch.profile.trust import changes
from acp_launch.served.registry import HostNote, content_of, find
from acp_launch.settings.model import Settings


def up(
    profile: Annotated[str, Argument("PROFILE", "The profile's name or file.")],
    keep: Annotated[
        Duration | None, Option("--keep", "Stop after this long without use.", "DURATION", read_keep)
    ] = None,
    foreground: Annotated[bool, Option("--foreground", "Stay in the foreground, for a service manager.")] = False,
    replace: Annotated[bool, Option("--replace", "End the host that is up, and start it again.")] = False,
    trust: Trust = False,
    locked: Locked = False,
    trace: TraceFile = None,
) -> int:
    """Start agent and servers in the background; `run` uses them from then on, without waiting for a start."""
    settings = load_settings()
    note = _present(settings, profile)
    if note and replace:
        end(note, settings.state)
    elif note and note.socket and not (foreground or trace):
        _require_same(note, profile, settings)
        _tell_host(note, "is up")
        if keep:
            tell(f"--keep begins with the host: {ours('up', note.called, '--replace')}", style=YELLOW)
        return 0
    request = RunSpec(profile=profile, keep=keep, trust=trust, trace=trace, locked=locked)
    if foreground:
        return be_host(request)
    begun = start(request)
    if begun.pid and not begun.code:
        note = _present(settings, profile)
        if note is None or note.pid != begun.pid:
            what = f"{profile} was up after {begun.took:.1f} s, and has ended since"
            raise StateError(what, fix=ours("logs", profile))
        _tell_host(note, f"is up after {begun.took:.1f} s")
    return begun.code


def _require_same(note: HostNote, profile: str, settings: Settings) -> None:
    """Refuse a host that runs what the profile was, or works in another directory.

    Raises:
        UsageError: with what has changed.
    """
    from acp_launch.app.planning import loaded_profile, resolved_from

    loaded, fix = loaded_profile(profile, settings), f"to start it again: {ours('up', profile, '--replace')}"
    content, plan = content_of(loaded), resolved_from(loaded).plan
    if content.digest != note.digest:
        if content.others == note.others:
            fix += f"; to restart just its servers: {ours('reload', profile)}"
        lines = list(changes(note.lines, content.lines))
        raise UsageError(f"{profile} is up (pid {note.pid}), and has changed since", fix=fix, detail=lines)
    if plan is not None and note.cwd != str(plan.cwd):
        raise UsageError(f"{profile} is up (pid {note.pid}), and works in {note.cwd}", fix=fix)


def _tell_host(note: HostNote, what: str) -> None:
    from acp_launch.console.stream.text import stands
    from acp_launch.served.connect import read_status

    status = read_status(note)
    tell(f"{note.called} {what} (pid {note.pid})")
    say(harmless(f"  agent: {status.agent}", keep=""))
    for server in status.servers:
        say(f"  mcp server: {stands(server)}")


def _present(settings: Settings, profile: str) -> HostNote | None:
    """Return the host of a profile as it is called here."""
    found = find_profile(profile, settings)
    return find(settings.state, str(found.project), found.name)
