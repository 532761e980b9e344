"""
The verbs `up`, `reload` and `down`; and the process of a host, from its checks on the terminal to its end.

The verbs are read without typer, whose memory the host would keep.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from acp_launch.cli.verb import (
    Argument,
    Locked,
    Option,
    TraceFile,
    Trust,
    find_profile,
    load_settings,
    read_keep,
    silence,
)
from acp_launch.console.stderr import DIM, YELLOW, harmless, say, tell
from acp_launch.document.scalars import Duration
from acp_launch.errors import SessionError, StateError, UsageError
from acp_launch.problem import ours
from acp_launch.waits import stretch

if TYPE_CHECKING:
    from acp_launch.cli.reload import Reloading
    from acp_launch.cli.start import Launched
    from acp_launch.host.hub import HostNotices
    from acp_launch.host.place import HostNote
    from acp_launch.host.sessions import HostPolicy
    from acp_launch.launch.context import LaunchContext
    from acp_launch.plan.model import LaunchPlan
    from acp_launch.process.lifecycle import Standing
    from acp_launch.session.store import Registry
    from acp_launch.settings.model import Settings

ENDING = stretch(15.0)  # seconds for a host to end its agent and servers
RELOADING = 900.0  # seconds for servers to end, and for required ones to be downloaded and to answer
BEAT = 1.0  # seconds between two looks at the processes; servers are looked at in the same moment
NOTIFIES = 10.0  # seconds from one run of `notify_command` to the next, at least
ProfileOfHost = Annotated[str | None, Argument("[PROFILE]", "The profile's name or file.")]


class UpRequest(NamedTuple):
    """The arguments and options of `up`. `keep` is in seconds, None for ever."""

    profile: str
    cwd: Path | None = None
    keep: float | None = None
    trust: bool = False
    outlives: bool = True
    trace: Path | None = None
    locked: bool = False


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
    request = UpRequest(profile, keep=keep, trust=trust, trace=trace, locked=locked)
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
    from acp_launch.host.place import hosts

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
    from acp_launch.host.place import hosts, server_host_state

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
    import msgspec

    from acp_launch.cli.planning import loaded_profile, ready, resolve_trusted
    from acp_launch.cli.reload import sentences
    from acp_launch.console.stream.text import stands
    from acp_launch.host.door import call, read_status
    from acp_launch.host.place import content_of
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
    from acp_launch.cli.planning import loaded_profile, resolved_from
    from acp_launch.host.place import content_of
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


def end(note: "HostNote", state: Path) -> None:
    """End a host, and wait until it has ended; one that does not is killed, and its guards end the rest. `state` has
    its place."""
    from acp_launch.host.place import find
    from acp_launch.process import prepare
    from acp_launch.process.pidfd import block_until_gone
    from acp_launch.process.tree import send

    host = prepare.table().read(note.pid)
    present = find(state, note.project, note.profile)
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


def _find_host(settings: "Settings", profile: str | None, otherwise: str = "") -> "HostNote":
    """Return the host of a profile; without one, the only host. `otherwise` is what else can be done with several."""
    from acp_launch.host.place import hosts

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
    from acp_launch.host.place import find

    found = find_profile(profile, settings)
    return find(settings.state, str(found.project), found.name)


# The process of a host.


def run_host(request: UpRequest, pipe: int | None = None) -> int:
    """Be the host until it ends; return the exit code. Without a `pipe` it stays on its terminal.

    `pipe` leads to the command that waits until the agent has answered and the required servers are up. It gets the
    seconds that took; if that command ends before, so does the host.

    Raises:
        LaunchError: as `run`.
    """
    from acp_launch.cli.planning import loaded_profile, prepare_launch, ready, resolve_trusted

    prepare_launch()
    from acp_launch.cli.start import launch_agent
    from acp_launch.host.place import find, hold_place
    from acp_launch.session.store import open_registry

    settings, here = load_settings(), str(Path.cwd())
    loaded = loaded_profile(request.profile, settings)
    resolved = resolve_trusted(loaded, settings, cwd=request.cwd, trust=request.trust, locked=request.locked)
    found = ready(resolved, settings)
    plan = found.plan
    with hold_place(settings.state, str(plan.project), plan.profile) as write:
        if write is None:
            note = find(settings.state, str(plan.project), plan.profile)
            who = f" (pid {note.pid})" if note else ""
            again = ours("up", request.profile, "--replace")
            raise UsageError(f"{request.profile} is up{who}", fix=f"to start it again: {again}")
        if pipe is not None:  # everything that a user may be asked is answered, and nothing is started yet
            if os.getsid(0) != os.getpid():
                os.setsid()  # closing the terminal, and Ctrl-C on it, do not concern us any more
            silence(0)
        with (
            open_registry(settings.state) as registry,
            launch_agent(settings, found, request.trace, "up") as started,
            ExitStack() as later,
        ):
            import asyncio  # while the agent starts

            from acp_launch.cli.reload import Reloading

            reloading = Reloading(request.profile, request.cwd, started, loaded, write, later, here)
            asyncio.run(_host(request, started, registry, reloading, pipe))
    return 0


async def _host(
    request: UpRequest, started: "Launched", registry: "Registry", reloading: "Reloading", pipe: int | None
) -> None:
    import asyncio

    from acp_launch.errors import first
    from acp_launch.host.door import listen
    from acp_launch.host.hub import HostNotices, Hub
    from acp_launch.launch.run import conversation

    notices, loop = HostNotices(), asyncio.get_running_loop()
    sockets: list[Path] = []

    def up(seconds: float) -> None:
        reloading.announce(sockets[0])
        if pipe is not None:
            loop.remove_reader(pipe)
        _tell_ready(request.profile, seconds, pipe)
        notices.is_silent = pipe is not None

    with _host_context(request, started, registry, notices, up, reloading) as (context, host):
        try:
            running = conversation(context, notices, started.spawned, every=BEAT, may_change=True)
            async with running as launch, asyncio.TaskGroup() as tasks:
                hub = Hub(launch, host, tasks)
                notices.of(hub)
                if pipe is not None:
                    loop.add_reader(pipe, launch.interrupts.interrupt)
                async with listen(hub.attach, started.settings.state) as socket:
                    sockets.append(socket)
                    try:
                        await hub.run()
                    finally:
                        hub.close()
        except BaseExceptionGroup as failures:
            raise first(failures) from None


def _tell_ready(profile: str, took: float, pipe: int | None) -> None:
    """Tell the user, or the command that waits for it; then write nothing more to the terminal."""
    if pipe is None:
        tell(f"{profile} is up after {took:.1f} s (pid {os.getpid()})", style=DIM)
        return
    try:
        os.write(pipe, f"{took:.3f}\n".encode())
    except BrokenPipeError:
        raise StateError("the command that starts the host has ended") from None
    os.close(pipe)
    sys.stdout.flush()
    sys.stderr.flush()
    silence(1, 2)


@contextmanager
def _host_context(
    request: UpRequest,
    started: "Launched",
    registry: "Registry",
    notices: "HostNotices",
    up: Callable[[float], None],
    reload: "Reloading",
) -> "Iterator[tuple[LaunchContext, HostPolicy]]":
    from acp_launch.cli.start import agent_log, context_of
    from acp_launch.host.sessions import HostPolicy, Unattended
    from acp_launch.launch.context import leave_login
    from acp_launch.session.hold import hold

    plan, settings = started.plan, started.settings
    word, _, length = plan.unattended.partition(" ")
    rest = Duration.parse(length) if length else 0.0
    unattended = Unattended(plan.unattended, rest, allows_reads=word == "allow-reads")
    with (
        closing(agent_log(settings, plan)) as log,
        context_of(started, notices.note, log=log, log_in=leave_login, has_person=True) as made,
    ):
        log.begin()
        notices.log = log
        context, gate = made
        host = HostPolicy(
            registry=registry,
            gate=gate,
            hold=lambda name: hold(settings.state, (str(plan.project), plan.profile, name), verb="up"),
            ready=up,
            unattended=unattended,
            reload=reload,
            waits=_notifier(settings, plan, notices.note),
            keep=request.keep,
            outlives=request.outlives if settings.hangup is None else settings.hangup == "detach",
        )
        yield context, host


def _notifier(settings: "Settings", plan: "LaunchPlan", note: Callable[[str], None]) -> Callable[[str], None]:
    """Return what runs the user's `notify_command`, for a session by its name."""
    told = -NOTIFIES

    def notify(session: str) -> None:
        import shutil

        from acp_launch.plan.environment import inherited
        from acp_launch.plan.written import keep_path
        from acp_launch.process import detached

        nonlocal told
        now = time.monotonic()
        if not settings.notify_command or now - told < NOTIFIES:
            return
        told = now
        program, *rest = settings.notify_command
        for mark, name in (("{profile}", plan.called), ("{session}", session)):
            rest = [argument.replace(mark, name) for argument in rest]
        env = keep_path(inherited(os.environ, "all"))
        found = shutil.which(program, path=env["PATH"])
        why = detached.start([os.path.abspath(found), *rest], env) if found else "command not found"  # noqa: PTH100
        if why:
            note(f"cannot run notify_command: {program}: {why}")

    return notify


class Begun(NamedTuple):
    """What became of a host: its exit code if it has ended; its pid, 0 in the host itself; seconds until it was up."""

    code: int
    pid: int = 0
    took: float = 0.0


def start(request: UpRequest) -> Begun:
    """Start a host in the background, and return when it is up, or has failed. In the host, return at its end."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        os.close(writing)
        return _wait_until_up(child, reading)
    os.close(reading)
    return Begun(run_host(request, writing))


def _wait_until_up(child: int, reading: int) -> Begun:
    """Wait until the host is up, or has ended. Ctrl-C ends it."""
    said = b""
    try:
        while not said.endswith(b"\n") and (more := os.read(reading, 100)):
            said += more
    except KeyboardInterrupt:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
        raise
    finally:
        os.close(reading)
    if said.endswith(b"\n"):
        return Begun(0, child, float(said))
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return Begun(code if code >= 0 else 128 - code, child)
