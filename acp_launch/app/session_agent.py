"""Requests to the agent, or the host, of a session in the store."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from acp_launch.app.context import logging_in
from acp_launch.app.operation import with_agent
from acp_launch.app.planning import agent_plan
from acp_launch.app.screen import Screen, exit_code
from acp_launch.console import sessions
from acp_launch.console.draw.sanitize import one_line
from acp_launch.console.stderr import DIM, share, tell
from acp_launch.console.stdout import answer
from acp_launch.engine.loop import Interrupts
from acp_launch.engine.prepared import PreparedPlan
from acp_launch.errors import AuthRequired, LaunchError, NotTrusted, RunExpired, SessionError, UsageError, WaitExpired
from acp_launch.plan.resolve import ADHOC
from acp_launch.problem import ours
from acp_launch.profile.agents import known
from acp_launch.served.client import Attached, watch_turn, with_host
from acp_launch.served.connect import read_status
from acp_launch.served.registry import HostNote, find
from acp_launch.served.wire import AttachOptions
from acp_launch.session.client import AcpSession
from acp_launch.session.connection import Budget, Connection
from acp_launch.session.events import TurnEnd
from acp_launch.session.opening import SessionParams, end_session, how_to_continue, list_sessions, open_session
from acp_launch.session.store import Record, require_place
from acp_launch.settings.model import Settings

T = TypeVar("T")


def require_known(record: Record, *, trust: bool, trace: Path | None) -> None:
    """Have the agent of this machine open the session.

    Raises:
        SessionError: it does not know it, as agents keep sessions in files of their own.
    """
    planned = _plan_of(record, trust=trust)
    plan = planned.plan

    async def story(connection: Connection) -> None:
        client = AcpSession(connection, name=record.name, gate=None)
        how = how_to_continue(connection.agent.capabilities, replay=False, name=record.name)
        limit, params = plan.timeouts.session, SessionParams(plan.directory, (), ())
        await open_session(connection, client, params, how=how, session_id=record.session_id, limit=limit)

    try:
        _with_agent(planned, story, trace)
    except SessionError as error:
        agent = known(plan.agent.command.name)
        files = f" ({', '.join(agent.state)})" if agent and agent.state else ""
        error.fix = f"copy the agent's own files{files} from the other machine first; they hold what it knows"
        raise


def wait_for_turn(record: Record, settings: Settings, *, output: str, timeout: float | None) -> int:
    """Show the turn as `run` does, and return its exit code. Ctrl-C ends the wait, not the turn."""
    note = find(settings.state, record.project, record.profile)
    status = read_status(note) if note is not None and note.socket else None
    states = {each.name: each.state for each in status.sessions} if status else {}
    if note is None or status is None or record.name not in {*states, *status.past}:
        loads = ours("run", record.profile, "--session", record.name)
        fix = f"{ours('attach', record.name)} shows a session that is open in a host; any other: {loads}"
        raise SessionError(f'no host has the session "{record.name}"', fix=fix)
    share()
    if states.get(record.name) == "asks":
        tell(f"{record.name} waits for an answer", style=DIM)
    screen = Screen(output)
    with screen.report_failures():
        return exit_code(asyncio.run(_show_turn(record, note, settings, screen, timeout)))


async def _show_turn(
    record: Record, note: HostNote, settings: Settings, screen: "Screen", timeout: float | None
) -> TurnEnd:
    observer = screen.observer

    async def story(attached: Attached) -> TurnEnd:
        client = AcpSession(attached.connection, name=record.name, title=record.title, gate=None, observer=observer)
        options = AttachOptions(name=record.name, can_ask=False, read_only=True, from_last_turn=True)
        end = await watch_turn(attached, client, record.session_id, options)
        await observer.drain()
        return end

    async with Interrupts(budget=Budget(timeout)) as interrupts:
        try:
            end = await with_host(note, observer, story, interrupts, max_line=settings.max_line)
        except RunExpired:
            raise WaitExpired(f"the turn was not over within {interrupts.budget}; it goes on") from None
        interrupts.check()
        return end


def agent_name(record: Record) -> str:
    return one_line(record.agent_name) or "the agent"


def _with_agent(
    planned: PreparedPlan,
    story: "Callable[[Connection], Awaitable[T]]",
    trace: Path | None = None,
) -> T:
    """Start the agent, run `story`, end the agent; if it wants a login first, the error names the command for that."""

    async def advised(connection: Connection) -> T:
        try:
            return await story(connection)
        except AuthRequired as wanted:
            await logging_in(planned, None)(connection, wanted, is_second=True)
            raise

    return with_agent(planned, "session", advised, trace=trace)


def end(how: Any, record: Record, *, trust: bool, trace: Path | None) -> bool:
    planned = _plan_of(record, trust=trust)

    async def story(connection: Connection) -> bool:
        limit = planned.plan.timeouts.session
        return await end_session(connection, how, record.session_id, limit=limit, name=record.name)

    return _with_agent(planned, story, trace)


def list_of_agent(profile: str | None, everything: bool, as_json: bool, *, trust: bool, trace: Path | None) -> None:
    if profile is None:
        raise UsageError("no profile is given", fix="acp-launch session list PROFILE --agent")
    planned = agent_plan(profile, trust=trust)
    plan = planned.plan

    async def story(connection: Connection) -> list[dict[str, Any]]:
        if not connection.agent.capabilities.list:
            raise SessionError(f"{connection.agent.title or 'the agent'} does not list its sessions")
        cwd = None if everything else str(plan.directory)
        return [found async for found in list_sessions(connection, cwd=cwd, limit=plan.timeouts.session)]

    found = _with_agent(planned, story, trace)
    text = sessions.agent_table(found, home=str(Path.home())) if found else ""
    nothing = "the agent has no sessions in this directory; --all lists those of all directories"
    answer({"sessions": found}, text, nothing, as_json=as_json)


def _plan_of(record: Record, *, trust: bool) -> PreparedPlan:
    """Plan a launch of a session's agent as it is configured now."""
    if record.profile.startswith(ADHOC):
        # The registry has only a digest of that command line, because an argument may be a secret.
        raise SessionError(
            f'the session "{record.name}" was made with --agent, so its agent cannot be started from here',
            fix=f"to delete it here: {ours('session', 'rm', record.name, '--local')}",
        )
    local = f"delete the session here: {ours('session', 'rm', record.name, '--local')}"
    try:
        planned = agent_plan(record.profile, cwd=record.directory, trust=trust)
    except NotTrusted:
        raise
    except LaunchError as error:
        raise SessionError(
            f'the agent of the session "{record.name}" cannot be started: its profile "{record.profile}" has problems',
            fix=f"fix the profile, or {local}",
            detail=str(error).splitlines(),
        ) from error
    require_place(record, planned.plan, local)
    return planned
