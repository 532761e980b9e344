"""
The process of a host, from its checks on the terminal to its end.

Its command is read without typer, whose memory the host would keep.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from acp_launch.app.lookup import load_settings, silence
from acp_launch.app.spec import RunSpec
from acp_launch.console.stderr import DIM, tell
from acp_launch.document.scalars import Duration
from acp_launch.errors import StateError, UsageError, first
from acp_launch.host.place import find, hold_place
from acp_launch.problem import ours
from acp_launch.waits import stretch

if TYPE_CHECKING:
    from acp_launch.app.reload import Reloading
    from acp_launch.app.start import Launched
    from acp_launch.host.hub import HostNotices
    from acp_launch.host.place import HostNote
    from acp_launch.host.sessions import HostPolicy
    from acp_launch.launch.context import LaunchContext
    from acp_launch.plan.model import LaunchPlan
    from acp_launch.session.store import Registry
    from acp_launch.settings.model import Settings

ENDING = stretch(15.0)  # seconds for a host to end its agent and servers
BEAT = 1.0  # seconds between two looks at the processes; servers are looked at in the same moment
NOTIFIES = 10.0  # seconds from one run of `notify_command` to the next, at least


def run_host(request: RunSpec, pipe: int | None = None) -> int:
    """Be the host until it ends; return the exit code. Without a `pipe` it stays on its terminal.

    `pipe` leads to the command that waits until the agent has answered and the required servers are up. It gets the
    seconds that took; if that command ends before, so does the host.

    Raises:
        LaunchError: as `run`.
    """
    from acp_launch.app.planning import loaded_profile, prepare_launch, ready, resolve_trusted

    prepare_launch()
    from acp_launch.app.start import launch_agent
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

            from acp_launch.app.reload import Reloading

            reloading = Reloading(request.profile, request.cwd, started, loaded, write, later, here)
            asyncio.run(_host(request, started, registry, reloading, pipe))
    return 0


async def _host(
    request: RunSpec, started: "Launched", registry: "Registry", reloading: "Reloading", pipe: int | None
) -> None:
    import asyncio

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
    request: RunSpec,
    started: "Launched",
    registry: "Registry",
    notices: "HostNotices",
    up: Callable[[float], None],
    reload: "Reloading",
) -> "Iterator[tuple[LaunchContext, HostPolicy]]":
    from acp_launch.app.start import agent_log, context_of
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


def start(request: RunSpec) -> Begun:
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


def end(note: "HostNote", state: Path) -> None:
    """End a host, and wait until it has ended; one that does not is killed, and its guards end the rest. `state` has
    its place."""
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
