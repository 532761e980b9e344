"""
The verbs `up`, `reload` and `down`.

They are read without typer, whose memory the host would keep.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from acp_launch.app.lookup import find_profile, load_settings
from acp_launch.app.spec import RunSpec
from acp_launch.app.up import end, run_host, start
from acp_launch.cli.verb import Argument, Locked, Option, TraceFile, Trust, read_keep
from acp_launch.console.stderr import DIM, YELLOW, harmless, say, tell
from acp_launch.document.scalars import Duration
from acp_launch.errors import SessionError, StateError, UsageError
from acp_launch.host.place import content_of, find, hosts, server_host_state
from acp_launch.problem import ours

if TYPE_CHECKING:
    from acp_launch.host.place import HostNote
    from acp_launch.process.lifecycle import Standing
    from acp_launch.settings.model import Settings

RELOADING = 900.0  # seconds for servers to end, and for required ones to be downloaded and to answer
ProfileOfHost = Annotated[str | None, Argument("[PROFILE]", "The profile's name or file.")]


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
        return run_host(request)
    begun = start(request)
    if begun.pid and not begun.code:
        note = _present(settings, profile)
        if note is None or note.pid != begun.pid:
            what = f"{profile} was up after {begun.took:.1f} s, and has ended since"
            raise StateError(what, fix=ours("logs", profile))
        _tell_host(note, f"is up after {begun.took:.1f} s")
    return begun.code


def down(
    profile: ProfileOfHost = None,
    everything: Annotated[bool, Option("--all -a", "End all hosts.")] = False,
    servers: Annotated[bool, Option("--servers", "End the servers that launches share, if none uses them.")] = False,
    force: Annotated[bool, Option("--force", "With --servers: also if launches use them.")] = False,
) -> None:
    """End what `up` has started: the agent, its servers, and running turns; sessions can be resumed later."""
    settings = load_settings()
    if everything and profile:
        raise UsageError("--all cannot be combined with a profile")
    if servers:
        if everything or profile:
            raise UsageError("--servers cannot be combined with a profile or --all")
        _end_shared(settings, force=force)
        return
    if force:
        raise UsageError("--force goes with --servers")
    for note in hosts(settings.state) if everything else [_find_host(settings, profile, otherwise=", or --all")]:
        end(note, settings.state)
        tell(f"{note.called} is down", style=DIM)


def _end_shared(settings: "Settings", *, force: bool) -> None:
    from acp_launch.host.door import read_shared

    state = server_host_state(settings.state)
    if not (notes := hosts(state)):
        raise SessionError("launches share no servers at the moment")
    for note in notes:
        users = {} if force else {use.pid: use.label for each in read_shared(note) for use in each.uses}
        if users:
            named = ", ".join(f"{label} ({pid})" for pid, label in sorted(users.items()))
            fix = f"end these first; or {ours('down', '--servers', '--force')}, and their next calls start them again"
            raise StateError(harmless(f"the shared servers are in use: {named}", keep=""), fix=fix)
        end(note, state)
    tell("the shared servers are down", style=DIM)


def reload(profile: ProfileOfHost = None) -> None:
    """Restart the MCP servers of a host that have changed in its profile; the agent and its sessions stay."""
    from acp_launch.app.planning import loaded_profile, ready, resolve_trusted
    from acp_launch.app.reload import sentences
    from acp_launch.console.stream.text import stands
    from acp_launch.host.door import call, read_status
    from acp_launch.host.wire import RELOAD, Reloaded
    from acp_launch.profile.trust import changes

    settings = load_settings()
    note = _find_host(settings, profile)
    if profile is None:
        os.chdir(note.here)  # where the profile has the name that `up` was given
    loaded = loaded_profile(profile or note.called, settings)
    content = content_of(loaded)
    if content.digest == note.digest:
        if not _renew_old(note, read_status(note).servers):
            tell(f"{note.called} has not changed since it was started, nor has what its servers run", style=DIM)
        return
    if content.others != note.others:
        what = f"more than the servers of {note.called} has changed since it was started"
        lines = list(changes(note.lines, content.lines))
        raise StateError(what, fix=ours("up", note.called, "--replace"), detail=lines)
    ready(resolve_trusted(loaded, settings, cwd=Path(note.cwd), trust=False), settings)
    answer = call(note, RELOAD, {"digest": content.digest}, within=RELOADING)
    done = msgspec.json.decode(answer, type=Reloaded)
    tell(f"{note.called} is reloaded; its agent and sessions stay")
    for line in sentences(done):
        say(harmless(f"  {line}", keep=""))
    for server in done.servers:
        if server.server in (*done.added, *done.changed):
            say(f"  mcp server: {stands(server)}")
    _renew_old(note, done.servers)


def _renew_old(note: "HostNote", servers: "Sequence[Standing]") -> bool:
    """Restart the servers whose files have changed since their start; return whether there are any."""
    from acp_launch.host.door import call
    from acp_launch.host.wire import RESTART

    old = [each.server for each in servers if each.old_code]
    for name in old:
        call(note, RESTART, {"server": name})
        say(harmless(f"  mcp server {name} has old code, as its files have changed since its start; it is restarted"))
    return bool(old)


def _require_same(note: "HostNote", profile: str, settings: "Settings") -> None:
    """Refuse a host that runs what the profile was, or works in another directory.

    Raises:
        UsageError: with what has changed.
    """
    from acp_launch.app.planning import loaded_profile, resolved_from
    from acp_launch.profile.trust import changes

    loaded, fix = loaded_profile(profile, settings), f"to start it again: {ours('up', profile, '--replace')}"
    content, plan = content_of(loaded), resolved_from(loaded).plan
    if content.digest != note.digest:
        if content.others == note.others:
            fix += f"; to restart just its servers: {ours('reload', profile)}"
        lines = list(changes(note.lines, content.lines))
        raise UsageError(f"{profile} is up (pid {note.pid}), and has changed since", fix=fix, detail=lines)
    if plan is not None and note.cwd != str(plan.cwd):
        raise UsageError(f"{profile} is up (pid {note.pid}), and works in {note.cwd}", fix=fix)


def _tell_host(note: "HostNote", what: str) -> None:
    from acp_launch.console.stream.text import stands
    from acp_launch.host.door import read_status

    status = read_status(note)
    tell(f"{note.called} {what} (pid {note.pid})")
    say(harmless(f"  agent: {status.agent}", keep=""))
    for server in status.servers:
        say(f"  mcp server: {stands(server)}")


def _find_host(settings: "Settings", profile: str | None, otherwise: str = "") -> "HostNote":
    """Return the host of a profile; without one, the only host. `otherwise` is what else can be done with several."""
    if profile is not None:
        found = _present(settings, profile)
        if found is None:
            raise SessionError(f"{profile} is not up", fix=ours("ps"))
        return found
    notes = hosts(settings.state)
    if len(notes) > 1:
        names = ", ".join(note.called for note in notes)
        raise UsageError(f"several profiles are up: {names}", fix=f"name one{otherwise}")
    if not notes:
        raise SessionError("no profile is up")
    return notes[0]


def _present(settings: "Settings", profile: str) -> "HostNote | None":
    """Return the host of a profile as it is called here."""
    found = find_profile(profile, settings)
    return find(settings.state, str(found.project), found.name)
