"""The process of a host while its agent runs."""

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from acp_launch.app.context import context_of
from acp_launch.app.spec import RunSpec, silence
from acp_launch.app.start import Launched, agent_log
from acp_launch.console.stderr import DIM, tell
from acp_launch.document.scalars import Duration
from acp_launch.engine.context import LaunchContext, leave_login
from acp_launch.engine.run import Launch
from acp_launch.engine.surroundings import conversation
from acp_launch.errors import StateError, first
from acp_launch.plan.model import LaunchPlan
from acp_launch.plan.written import make_safe_environment
from acp_launch.process import detached
from acp_launch.served.connections import listen
from acp_launch.served.host import Host, HostNotices
from acp_launch.served.hostsession import HostPolicy, Unattended
from acp_launch.session.events import show_note
from acp_launch.session.hold import hold
from acp_launch.session.store import Registry
from acp_launch.settings.model import Settings

if TYPE_CHECKING:
    from acp_launch.app.reload import Reloading


POLL_SECONDS = 1.0  # between two looks at the processes; servers are looked at in the same moment
NOTIFY_SECONDS = 10.0  # from one run of `notify_command` to the next, at least
OnReady = Callable[[float, Host, Path], None]  # takes the seconds until it was up, and its socket


async def serve_fronts(
    started: Launched,
    context: LaunchContext,
    notices: HostNotices,
    policy: HostPolicy,
    ready: OnReady,
    *,
    make: Callable[[Launch, HostPolicy, asyncio.TaskGroup], Host] = Host,
    begun: Callable[[Launch], None] = lambda launch: None,
    may_change: bool = False,
) -> None:
    """Serve the fronts of a host until it ends. `begun` takes the launch, before its agent has answered.

    Raises:
        LaunchError: as `run`.
    """
    try:
        running = conversation(context, notices, started.spawned, every=POLL_SECONDS, may_change=may_change)
        async with running as launch, asyncio.TaskGroup() as tasks:
            sockets: list[Path] = []
            policy = replace(policy, ready=lambda seconds: ready(seconds, served, sockets[0]))
            served: Host = make(launch, policy, tasks)
            notices.of(served)
            begun(launch)
            async with listen(served.attach, started.settings.state) as socket:
                sockets.append(socket)
                try:
                    await served.run()
                finally:
                    served.close()
    except BaseExceptionGroup as failures:
        raise first(failures) from None


def serve_host(
    request: RunSpec, started: Launched, registry: Registry, reloading: "Reloading", pipe: int | None
) -> None:
    """Be a host, as `host_start.run_host` says."""
    asyncio.run(_host(request, started, registry, reloading, pipe))


async def _host(
    request: RunSpec, started: Launched, registry: Registry, reloading: "Reloading", pipe: int | None
) -> None:
    notices, loop = HostNotices(), asyncio.get_running_loop()

    def up(seconds: float, served: Host, socket: Path) -> None:
        reloading.announce(socket)
        if pipe is not None:
            loop.remove_reader(pipe)
        _tell_ready(request.profile, seconds, pipe)
        notices.is_silent = pipe is not None

    def begun(launch: Launch) -> None:
        if pipe is not None:
            loop.add_reader(pipe, launch.interrupts.interrupt)

    with _host_context(request, started, registry, notices, reloading) as (context, policy):
        await serve_fronts(started, context, notices, policy, up, begun=begun, may_change=True)


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
    started: Launched,
    registry: Registry,
    notices: "HostNotices",
    reload: "Reloading",
) -> Iterator[tuple[LaunchContext, HostPolicy]]:
    plan, settings = started.plan, started.settings
    word, _, length = plan.unattended.partition(" ")
    rest = Duration.parse(length) if length else 0.0
    unattended = Unattended(plan.unattended, rest, allows_reads=word == "allow-reads")
    note = partial(show_note, notices)
    with (
        closing(agent_log(settings, plan)) as log,
        context_of(started, note, log=log, log_in=leave_login, has_person=True) as made,
    ):
        log.begin()
        notices.log = log
        context, gate = made
        host = HostPolicy(
            registry=registry,
            gate=gate,
            hold=lambda name: hold(settings.state, (str(plan.project), plan.profile, name), verb="up"),
            unattended=unattended,
            reload=reload,
            waits=_notifier(settings, plan, note),
            keep=request.keep,
            outlives=request.outlives if settings.hangup is None else settings.hangup == "detach",
        )
        yield context, host


def _notifier(settings: Settings, plan: LaunchPlan, note: Callable[[str], None]) -> Callable[[str], None]:
    """Return what runs the user's `notify_command`, for a session by its name."""
    told = -NOTIFY_SECONDS

    def notify(session: str) -> None:
        nonlocal told
        now = time.monotonic()
        if not settings.notify_command or now - told < NOTIFY_SECONDS:
            return
        told = now
        program, *rest = settings.notify_command
        for mark, name in (("{profile}", plan.called), ("{session}", session)):
            rest = [argument.replace(mark, name) for argument in rest]
        env = make_safe_environment()
        found = shutil.which(program, path=env["PATH"])
        why = detached.start([os.path.abspath(found), *rest], env) if found else "command not found"  # noqa: PTH100
        if why:
            note(f"cannot run notify_command: {program}: {why}")

    return notify
