"""The verbs `up` and `down`: a launch that outlives its terminal."""

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from acp_launch.console.stderr import DIM, harmless, say
from acp_launch.errors import SessionError, StateError, UsageError
from acp_launch.problem import ours
from acp_launch.waits import stretch

if TYPE_CHECKING:
    from acp_launch.cli.hosting import UpRequest
    from acp_launch.host.place import HostNote
    from acp_launch.settings.model import Settings

ENDING = stretch(15.0)  # seconds for a host to end its agent and servers
RELOADING = 900.0  # seconds for servers to end, and for required ones to be downloaded and to answer


def stay(request: "UpRequest") -> int:
    """Be a host on this terminal."""
    from acp_launch.cli.hosting import run_host

    def ready(took: float, note: "HostNote") -> None:
        say(harmless(f"acp-launch: {request.profile} is up after {took:.1f} s (pid {note.pid})", keep=""), style=DIM)

    return run_host(request, lambda: None, ready)


def tell(profile: str, pid: int, took: float) -> None:
    """Say what has come up."""
    from acp_launch.cli.fronting import asked
    from acp_launch.console.stream.text import stands

    _, note = _present(profile)
    if note is None or note.pid != pid:
        raise StateError(f"{profile} was up after {took:.1f} s, and has ended since", fix=ours("logs", profile))
    status = asked(note)
    say(harmless(f"acp-launch: {note.called} is up after {took:.1f} s (pid {note.pid})", keep=""))
    say(harmless(f"  agent: {status.agent}", keep=""))
    for server in status.servers:
        say(f"  mcp server: {stands(server)}")


def replaced(profile: str) -> None:
    """End the host that is up."""
    settings, note = _present(profile)
    if note is not None:
        end(note, settings)


def down(
    profile: Annotated[str | None, typer.Argument(metavar="[PROFILE]", help="The profile's name or file.")] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="End all hosts.")] = False,
) -> None:
    """End what `up` has started: the agent, its servers, and running turns; sessions can be resumed later."""
    from acp_launch.host.place import hosts
    from acp_launch.settings.load import load

    settings = load()
    if everything and profile:
        raise UsageError("--all cannot be combined with a profile")
    for note in hosts(settings.state) if everything else [_chosen(settings, profile, otherwise=", or --all")]:
        end(note, settings)
        say(harmless(f"acp-launch: {note.called} is down", keep=""), style=DIM)


def reload(
    profile: Annotated[str | None, typer.Argument(metavar="[PROFILE]", help="The profile's name or file.")] = None,
) -> None:
    """Restart the MCP servers of a host that have changed in its profile; the agent and its sessions stay."""
    import msgspec

    from acp_launch.cli.fronting import requested
    from acp_launch.cli.planning import loaded_profile, ready, trusted
    from acp_launch.cli.reload import content_of, sentences
    from acp_launch.console.stream.text import stands
    from acp_launch.host.wire import RELOAD, Reloaded
    from acp_launch.profile.trust import changes
    from acp_launch.settings.load import load

    settings = load()
    note = _chosen(settings, profile)
    if profile is None:
        os.chdir(note.here)  # where the profile has the name that `up` was given
    loaded = loaded_profile(profile or note.called, settings)
    content = content_of(loaded)
    if content.digest == note.digest:
        say(harmless(f"acp-launch: {note.called} has not changed since it is up", keep=""), style=DIM)
        return
    if content.others != note.others:
        what = f"more than the servers of {note.called} has changed since it is up"
        lines = list(changes(note.lines, content.lines))
        raise StateError(what, fix=ours("up", note.called, "--replace"), detail=lines)
    ready(trusted(loaded, settings, cwd=Path(note.cwd), session=None, trust=False), settings)
    answer = requested(note, RELOAD, {"digest": content.digest}, within=RELOADING)
    done = msgspec.json.decode(answer, type=Reloaded)
    say(harmless(f"acp-launch: {note.called} is reloaded; its agent and sessions stay", keep=""))
    for line in sentences(done):
        say(harmless(f"  {line}", keep=""))
    for server in done.servers:
        if server.server in (*done.added, *done.changed):
            say(f"  mcp server: {stands(server)}")


def attach(
    session: Annotated[
        str | None, typer.Argument(metavar="[SESSION]", help="A session that is open in a host.")
    ] = None,
    profile: Annotated[str | None, typer.Option("--profile", "-p", help="Its profile, if several have one.")] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Use no colours, no animation and no links.")] = False,
) -> None:
    """Attach this terminal to a session of a host, also in the middle of a turn."""
    from acp_launch.cli.job import carry_out
    from acp_launch.cli.run_request import RunRequest, is_left_open
    from acp_launch.settings.load import load

    if not is_left_open((), None):
        raise UsageError("attach needs a terminal", fix=f"without one: {ours('run', 'PROFILE', 'PROMPT')}")
    note, name = _session_of_host(load(), session, profile)
    os.chdir(note.here)  # where the profile has the name that `up` was given
    raise typer.Exit(carry_out(RunRequest(words=(note.called,), session=name, cwd=Path(note.cwd), plain=plain)))


def _session_of_host(settings: "Settings", session: str | None, profile: str | None) -> "tuple[HostNote, str]":
    """Return the host that has the session, and its name; without a name, the session that is open alone.

    Raises:
        SessionError: no host has it, or several.
    """
    from acp_launch.cli.fronting import asked
    from acp_launch.host.place import hosts

    notes = [note for note in hosts(settings.state) if note.socket and profile in (None, note.called, note.profile)]
    if not notes:
        raise SessionError("no profile is up" if profile is None else f"{profile} is not up", fix=ours("up", "PROFILE"))
    found = [(note, each) for note in notes for each in asked(note).sessions if session in (None, each.name)]
    if len(found) == 1:
        return found[0][0], found[0][1].name
    names = ", ".join(f"{each.name} ({note.called}, {each.state})" for note, each in found)
    if found:
        raise SessionError(f"several sessions are open: {names}", fix=ours("attach", "SESSION"))
    which = "no session is open" if session is None else f'no session "{session}" is open'
    fix = f"to open one: {ours('run', notes[0].called, *(('--session', session) if session else ()))}"
    raise SessionError(f"{which} in a host", fix=fix)


def end(note: "HostNote", settings: "Settings") -> None:
    """End a host, and wait until it has ended; one that does not is killed, and its guards end the rest."""
    from acp_launch.host.place import find
    from acp_launch.process import prepare
    from acp_launch.process.pidfd import block_until_gone
    from acp_launch.process.tree import send

    host = prepare.table().read(note.pid)
    present = find(settings.state, note.project, note.profile)
    if host is None or present is None or present.pid != note.pid:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        send(host, number)
        send(host, signal.SIGCONT)  # a stopped process cannot act on it
        block_until_gone([host], within=ENDING)
        left = prepare.table().read(note.pid)
        if left is None or left != host or left.is_dead:  # where init does not fetch its status it stays in the table
            return
    raise StateError(f"the host of {note.called} (pid {note.pid}) does not end")


def _chosen(settings: "Settings", profile: str | None, otherwise: str = "") -> "HostNote":
    """Return the host of a profile; without one, the only host. `otherwise` is what else can be done with several.

    Raises:
        SessionError: it is not up.
        UsageError: several are up.
    """
    from acp_launch.host.place import hosts

    if profile is not None:
        _, found = _present(profile)
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


def _present(profile: str) -> "tuple[Settings, HostNote | None]":
    """Return the host of a profile as it is called here."""
    from acp_launch.cli.planning import here
    from acp_launch.host.place import find
    from acp_launch.profile.discover import find as find_profile
    from acp_launch.settings.load import load

    settings = load()
    found = find_profile(profile, start=here(), settings=settings)
    return settings, find(settings.state, str(found.project), found.name)
