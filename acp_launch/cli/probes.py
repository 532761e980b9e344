"""
The live checks of `doctor`: starts a profile's agent and servers at once, does the handshake with each, and ends them.

They run independently: the agent gets no server, and each server has acp-launch as its client. A failure of one does
not end the checks of the others. Everything is imported before anything starts, so that measured times are their own.

The checks use the code of a run for comparing servers with the agent's capabilities, for opening and setting up a
session, and for the advice about logins (`launch.run`, `cli.login`), so that both judge alike.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from acp_launch.bridge import offer
from acp_launch.bridge.toolpolicy import ToolPolicy
from acp_launch.checks import answers
from acp_launch.checks.check import MACHINE, Check, of_problem
from acp_launch.checks.profile import ProfilePart
from acp_launch.cli.operation import StartedProgram, VerbProcesses, verb_processes
from acp_launch.cli.run_request import settings_of
from acp_launch.cli.start import logging_in, server_logs
from acp_launch.console.servers import ServerMessages, say_downloading
from acp_launch.console.stream.redacted import RedactedOutput
from acp_launch.console.stream.text import Notices
from acp_launch.errors import AgentError, AgentRefused, LaunchError, ServerError, StateError, WaitExpired
from acp_launch.launch.loop import Interrupts
from acp_launch.launch.run import SessionRequest, explained, open_requested, unable, untakeable
from acp_launch.launch.servers import LaunchServers
from acp_launch.mcp.client import PING, ROOTS, Survey, shake_hands, survey
from acp_launch.mcp.client import Client as ServerClient
from acp_launch.mcp.client import Connection as ServerConnection
from acp_launch.mcp.client import connect as connect_server
from acp_launch.mcp.http.wire import Credentials
from acp_launch.mcp.message import ServerInfo
from acp_launch.plan.model import LaunchPlan, ServerPlan
from acp_launch.problem import Problem
from acp_launch.process.child import Child, attach, stop
from acp_launch.process.foreground import available
from acp_launch.process.program import Running
from acp_launch.process.spawn import Spawned
from acp_launch.protocol.acp import Capabilities, Negotiated, Offers
from acp_launch.rpc import Transport, connected
from acp_launch.secret.value import Secret
from acp_launch.session.client import Client
from acp_launch.session.connection import Budget, Connection, connect, negotiate
from acp_launch.session.login import pointed, referred
from acp_launch.session.opening import how_to_continue
from acp_launch.session.permission.gate import Gate
from acp_launch.session.permission.policy import policy
from acp_launch.session.store import Record
from acp_launch.settings.model import Settings

T = TypeVar("T")


class ProbeNeeds(Struct, frozen=True, kw_only=True):
    """The inputs of the checks. `profile` is its name in commands. `heard` receives each result as soon as it is known.

    `remotes` are the servers that the agent connects to itself; `continued` is the session that a run would resume.
    """

    profile: str
    settings: Settings
    secrets: Mapping[str, Secret]
    credentials: Mapping[str, Credentials]  # of servers that need a login, by their names
    heard: Callable[[ProfilePart, Check], None]
    remotes: Sequence[ProfilePart]
    servers: Sequence[ServerPlan]  # all of the profile that can be planned
    continued: Record | None
    opens_session: bool
    trace: Path | None = None  # the file of `--trace`


class _Begun(Struct, frozen=True):
    """A part with its process and start time."""

    part: ProfilePart
    plan: LaunchPlan
    spawned: Spawned
    at: float  # time.monotonic


def probe_all(parts: Sequence[ProfilePart], needs: ProbeNeeds) -> None:
    """Check the parts that have a plan.

    Raises:
        Stopped: a signal came; earlier results have been passed to `heard`.
    """
    plans = {part.label: part.plan for part in parts if part.plan is not None}
    if not plans:
        return
    first = next(iter(plans.values()))
    with verb_processes(needs.settings, first, "doctor", needs.trace) as processes:
        agents = [one for part in parts if not part.server and (one := _begin(part, needs, processes))]
        servers = [part for part in parts if part.server and part.plan is not None]

        async def all_of_them(interrupts: Interrupts) -> None:
            await interrupts.watch(_together(agents, servers, needs, interrupts, processes))

        processes.run(all_of_them)


def _begin(part: ProfilePart, needs: ProbeNeeds, processes: VerbProcesses) -> _Begun | None:
    assert part.plan is not None
    try:
        spawned = processes.agent(part.plan, needs.secrets)
    except (AgentError, StateError) as error:
        needs.heard(part, answers.failed(part, error, needs.profile, has_log=False))
        return None
    return _Begun(part, part.plan, spawned, time.monotonic())


async def _together(
    agents: Sequence[_Begun],
    servers: Sequence[ProfilePart],
    needs: ProbeNeeds,
    interrupts: Interrupts,
    processes: VerbProcesses,
) -> None:
    async with asyncio.TaskGroup() as tasks:
        for one in agents:
            tasks.create_task(_agent(one, needs, interrupts, processes))
        for part in servers:
            tasks.create_task(_server(part, needs, interrupts, processes))


async def _agent(one: _Begun, needs: ProbeNeeds, interrupts: Interrupts, processes: VerbProcesses) -> None:
    """Check the agent and stop its process; the result is reported before the stop, which may take long."""
    async with attach(one.spawned, log=processes.log) as child:
        with connected(child, processes.trace) as transport:
            try:
                await _met(one, child, transport, needs)
            except LaunchError as error:
                _report(one.part, error, child, needs)
            finally:
                await stop(child, hurry=interrupts.hurry)


async def _server(part: ProfilePart, needs: ProbeNeeds, interrupts: Interrupts, processes: VerbProcesses) -> None:
    """Do the same for a server."""
    assert part.plan is not None
    try:
        async with processes.server(
            part.plan, needs.secrets, interrupts.hurry, credentials=needs.credentials
        ) as program:
            try:
                await _greeted(part, program, needs)
            except LaunchError as error:
                _report(part, program.explained(error), program.running, needs)
    except (ServerError, StateError) as error:
        needs.heard(part, answers.failed(part, error, needs.profile, has_log=False))


def _report(part: ProfilePart, error: LaunchError, running: Running, needs: ProbeNeeds) -> None:
    has_log = bool(running.stderr_tail())
    error.detail = (*error.detail, *_last_words(error, running))
    _advise(error, running, needs)
    needs.heard(part, answers.failed(part, error, needs.profile, has_log=has_log))


def _advise(error: LaunchError, child: Running, needs: ProbeNeeds) -> None:
    trace = str(needs.trace or "")
    pointed(error, trace)
    referred(error, needs.profile, trace, has_log=bool(child.stderr_tail()))


def _last_words(error: LaunchError, child: Running) -> list[str]:
    """Return the last stderr lines for an error that does not hold them yet."""
    tells = isinstance(error, AgentError) and not isinstance(error, AgentRefused)
    return [] if tells or child.pid is None else child.stderr_tail()


async def _met(one: _Begun, child: Child, transport: Transport, needs: ProbeNeeds) -> None:
    limit, command = one.plan.timeouts.initialize, one.plan.agent.display
    max_line = needs.settings.max_line
    async with connect(transport, RedactedOutput(Notices()), max_line=max_line, command=command) as connection:
        connection.explain = partial(explained, one.plan, trace=str(needs.trace or ""))
        negotiated = await negotiate(connection, limit=limit, offers=Offers(terminal_login=available()))
        shaken = answers.Handshake(negotiated, time.monotonic() - one.at, limit, _over(one.plan, needs, negotiated))
        needs.heard(one.part, answers.agent(shaken))
        for problem in unable(one.plan, needs.servers, negotiated):
            needs.heard(one.part, of_problem("agent", "", problem, MACHINE))
        for part, problem in _untakeable(one.plan, needs.remotes, negotiated):
            needs.heard(part, of_problem("server", part.server, problem, MACHINE))
        check = await _session(one, connection, child, needs) if needs.opens_session else None
        needs.heard(one.part, check or answers.session_skipped(needs.profile))


def _over(plan: LaunchPlan, needs: ProbeNeeds, agent: Negotiated) -> str:
    return offer.transport(plan, agent.capabilities) if any(map(offer.is_bridged, needs.servers)) else ""


def _untakeable(
    plan: LaunchPlan, remotes: Sequence[ProfilePart], agent: Negotiated
) -> Iterator[tuple[ProfilePart, Problem]]:
    for part in remotes:
        assert part.remote is not None
        for problem in untakeable([part.remote], agent, plan.agent.name):
            yield part, problem


async def _session(one: _Begun, connection: Connection, child: Child, needs: ProbeNeeds) -> Check:
    """Check that a session can be opened and set up as the profile says; delete or close it if the agent can."""
    plan, able, moments = one.plan, connection.agent.capabilities, [time.monotonic()]
    request = SessionRequest(
        name="doctor",
        continued=None,
        replay=False,
        wishes=settings_of(plan),
        opened=lambda ready, agent: moments.append(time.monotonic()),
    )
    client = Client(connection, name=request.name, gate=Gate(policy(plan, approve="none")))
    log_in = logging_in((plan, needs.secrets), None)
    try:
        if needs.continued is not None:
            how_to_continue(able, replay=True, name=needs.continued.name)
        none = LaunchServers(plan, connection.observer, Budget(), server_logs(needs.settings, plan))
        opened = await open_requested(plan, needs.secrets, request, connection, client, none, log_in)
        await _give_back(connection, opened.ready.session_id, able, plan.timeouts.session)
    except LaunchError as error:
        _advise(error, child, needs)
        return answers.no_session(error, needs.profile, has_log=bool(child.stderr_tail()))
    return answers.session(moments[-1] - moments[0])


async def _give_back(connection: Connection, session_id: str, able: Capabilities, limit: float) -> None:
    if able.delete:
        call = connection.conversation.end("delete", session_id)
    elif able.close:
        call = connection.conversation.end("close", session_id)
    else:
        return
    try:
        await connection.call(call, what="answer about the end of a session from the agent", limit=limit)
    except AgentRefused:
        return  # the check is about opening, which has worked


async def _greeted(part: ProfilePart, program: StartedProgram, needs: ProbeNeeds) -> None:
    server, plan = part.planned, part.plan
    assert server is not None and plan is not None
    roots, limit = (plan.cwd, *plan.additional_directories), server.timeouts.start
    client = ServerClient(roots, declares_roots=server.roots == "session")
    telling = ServerMessages(server.name, verbose=False)
    download = program.download(server, partial(say_downloading, server.name))
    async with connect_server(
        server.name,
        program.transport,
        client,
        telling,
        Notices().waiting,
        max_line=needs.settings.max_line,
        is_remote=part.remote is not None,
    ) as connection:
        with download:
            said = await shake_hands(connection, limit=limit, since=download.since)
        after = time.monotonic() - program.begun
        found = await _surveyed(connection, said, limit)
        policy = ToolPolicy(server.name, server.tools)
        hidden = sum(not policy.allows(name) for name in found.tool_names)
        has_log = bool(program.running.stderr_tail())
        fetched = download.was_seen
        told = answers.server(part, found, needs.profile, hidden=hidden, after=after, fetched=fetched, has_log=has_log)
        needs.heard(part, answers.with_connection(told, program.remote))


async def _surveyed(connection: ServerConnection, server: ServerInfo, limit: float) -> Survey:
    """Survey a server within `limit` seconds for all lists, beyond those for a ping and for roots."""
    try:
        async with asyncio.timeout(limit + PING + ROOTS):
            return await survey(connection, server, limit=limit)
    except TimeoutError:
        raise WaitExpired(f"{connection.label} did not come to the end of its lists within {limit:g} s") from None
