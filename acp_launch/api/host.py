"""The private host while it has an agent: a host, without a place where other fronts find it."""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from msgspec import Raw
from msgspec.structs import asdict

from acp_launch import __version__
from acp_launch.api.order import Order
from acp_launch.api.words import UP, Up
from acp_launch.app.context import context_of, logging_in
from acp_launch.app.host_fronts import serve_fronts
from acp_launch.app.spec import settings_of
from acp_launch.app.start import Launched, agent_log
from acp_launch.engine.context import LogIn, leave_login
from acp_launch.engine.run import Launch
from acp_launch.errors import AuthRequired, LaunchError
from acp_launch.process.lifecycle import Change
from acp_launch.served.connections import ClientConnection
from acp_launch.served.host import Host, HostNotices
from acp_launch.served.hostsession import HostPolicy, Unattended
from acp_launch.served.registry import HostNote
from acp_launch.served.wire import Reloaded
from acp_launch.session.events import AnyEvent, NoteEvent, WaitingEvent, show_note
from acp_launch.session.hold import hold
from acp_launch.session.store import Registry

POLL_SECONDS = 1.0  # between two looks at the processes
Tell = Callable[[str, object], None]


class ProgramWords(Protocol):
    """What leads to the program."""

    def tell(self, name: str, value: object) -> None: ...

    def tell_event(self, event: AnyEvent) -> None: ...


class ProgramNotices(HostNotices):
    """The observer of what concerns no session. What a session tells its front is not told twice."""

    def __init__(self, line: ProgramWords) -> None:
        super().__init__()
        self.is_silent, self._program = True, line

    def show(self, event: AnyEvent) -> None:
        super().show(event)
        if isinstance(event, WaitingEvent) or (isinstance(event, NoteEvent | Change) and not self._sessions()):
            self._program.tell_event(event)

    async def drain(self) -> None:
        await super().drain()
        for session in self._sessions():
            await session.catch_up()


class HostOfProgram(Host):
    """A host whose fronts know neither profile nor agent: errors come to them with what can be done."""

    def __init__(self, launch: Launch, host: HostPolicy, tasks: asyncio.TaskGroup, log_in: LogIn) -> None:
        super().__init__(launch, host, tasks)
        self._log_in = log_in

    async def serve(self, front: ClientConnection, method: str, params: dict[str, Any], raw: Raw) -> object:
        try:
            return await super().serve(front, method, params, raw)
        except LaunchError as error:
            advised = await self._advise(error) if isinstance(error, AuthRequired) else error
            advised.cause, advised.reply = advised.cause or advised.reply, None
            raise advised from None

    async def _advise(self, wanted: AuthRequired) -> LaunchError:
        try:
            await self._log_in(await self.agent.connected(), wanted, is_second=False)
        except LaunchError as error:
            return error
        return wanted


async def serve(order: Order, started: Launched, registry: Registry, line: ProgramWords) -> None:
    """Serve the program until it ends.

    Raises:
        LaunchError: as `run`.
    """
    plan, settings = started.plan, started.settings
    settings_of(plan, order.options)  # options that are no options are told before anything else
    notices = ProgramNotices(line)
    note = partial(show_note, notices)

    def ready(seconds: float, host: Host, socket: Path) -> None:
        assert host.agent.negotiated is not None, "it is up"
        line.tell(UP, _up(order, started, host.agent.negotiated.raw, socket))

    with (
        closing(agent_log(settings, plan)) as log,
        context_of(started, note, log=log, log_in=leave_login, has_person=order.has_forms) as (context, gate),
    ):
        log.begin()
        notices.log = log
        policy = HostPolicy(
            registry=registry,
            gate=gate,
            hold=lambda name: hold(settings.state, (str(plan.project), plan.profile, name), verb="api"),
            unattended=Unattended(plan.unattended),
            reload=_refuse,
            waits=lambda session: None,
            outlives=False,
            delays=True,
        )
        make = partial(HostOfProgram, log_in=logging_in(started.prepared, None))
        await serve_fronts(started, context, notices, policy, ready, make=make)


async def _refuse(launch: Launch, digest: str) -> Reloaded:
    raise LaunchError("a private host reloads nothing")


def _up(order: Order, started: Launched, initialized: Raw, socket: Path) -> Up:
    plan = started.plan
    note = HostNote(
        pid=os.getpid(),
        since=time.time(),
        version=__version__,
        project=str(plan.project),
        profile=plan.profile,
        called=plan.called or plan.profile,
        cwd=str(plan.cwd),
        here=str(Path.cwd()),
        digest="",
        socket=str(socket),
    )
    return Up(
        note=note,
        initialized=initialized,
        max_line=int(started.settings.max_line),
        timeouts={wait: float(limit) for wait, limit in asdict(plan.timeouts).items()},
        session=plan.session,
        directories=(str(plan.cwd), *map(str, plan.additional_directories)),
        machine=plan.machine,
        settings=tuple((each.option, each.value, each.origin) for each in settings_of(plan, order.options)),
    )
