"""The verbs `down` and `reload`, for hosts that are up."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from acp_launch.app.planning import loaded_profile, prepare_plan, resolve_trusted
from acp_launch.app.reload import sentences
from acp_launch.app.spec import load_settings
from acp_launch.app.up import end
from acp_launch.cli.up import _present
from acp_launch.cli.verb import Argument, Option
from acp_launch.console.stderr import DIM, harmless, say, tell
from acp_launch.console.stream.text import stands
from acp_launch.errors import SessionError, StateError, UsageError
from acp_launch.problem import ours
from acp_launch.process.lifecycle import Standing
from acp_launch.profile.trust import changes
from acp_launch.served.connect import call, read_shared, read_status
from acp_launch.served.registry import HostNote, content_of, hosts, server_host_state
from acp_launch.served.wire import RELOAD, RESTART, Reloaded
from acp_launch.settings.model import Settings

RELOADING = 900.0  # seconds for servers to end, and for required ones to be downloaded and to answer


ProfileOfHost = Annotated[str | None, Argument("[PROFILE]", "The profile's name or file.")]


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


def _end_shared(settings: Settings, *, force: bool) -> None:
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
    prepare_plan(resolve_trusted(loaded, settings, cwd=Path(note.cwd), trust=False), settings)
    answer = call(note, RELOAD, {"digest": content.digest}, within=RELOADING)
    done = msgspec.json.decode(answer, type=Reloaded)
    tell(f"{note.called} is reloaded; its agent and sessions stay")
    for line in sentences(done):
        say(harmless(f"  {line}", keep=""))
    for server in done.servers:
        if server.server in (*done.added, *done.changed):
            say(f"  mcp server: {stands(server)}")
    _renew_old(note, done.servers)


def _renew_old(note: HostNote, servers: Sequence[Standing]) -> bool:
    """Restart the servers whose files have changed since their start; return whether there are any."""
    old = [each.server for each in servers if each.old_code]
    for name in old:
        call(note, RESTART, {"server": name})
        say(harmless(f"  mcp server {name} has old code, as its files have changed since its start; it is restarted"))
    return bool(old)


def _find_host(settings: Settings, profile: str | None, otherwise: str = "") -> HostNote:
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
