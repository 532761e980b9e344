"""
The context of an agent's sessions: permission, logins, questions to the user; and the one prompt of a run.

Imported once the agent starts.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from acp_launch.app.screen import Screen, elicitor, exit_code
from acp_launch.app.spec import RunSpec
from acp_launch.app.start import (
    ChosenSession,
    Launched,
    login_program,
    server_logs,
    spawn_agent,
    stderr_log,
    visible_env,
)
from acp_launch.console.ask.logins import LoginQuestions
from acp_launch.console.stderr import AgentStderr
from acp_launch.engine.context import Elicit, LaunchContext, LogIn, offers
from acp_launch.engine.prepared import PreparedPlan
from acp_launch.engine.run import RestartAgent
from acp_launch.engine.surroundings import run_prompt
from acp_launch.errors import AuthRequired
from acp_launch.plan.model import LaunchPlan
from acp_launch.process.foreground import available, foreground
from acp_launch.process.program import LocalProgram, Program
from acp_launch.process.tree import Exit
from acp_launch.session.connection import Connection
from acp_launch.session.events import Ask, Choice, Person, show_note
from acp_launch.session.login import InFront, LoginContext, log_in
from acp_launch.session.permission.audit import PermissionRecord, rules_of
from acp_launch.session.permission.gate import Gate
from acp_launch.session.permission.policy import Approve
from acp_launch.session.store import SessionKeeper
from acp_launch.settings.model import Settings

if TYPE_CHECKING:
    from acp_launch.bridge.servers import ShareServer


@contextmanager
def run_context(
    request: RunSpec,
    started: Launched,
    person: Person | None,
    note: Callable[[str], None],
    in_front: InFront | None = None,
) -> "Iterator[LaunchContext]":
    """Provide the context of a run; logs are open while the block runs. `note` shows a line to the user.

    `in_front` runs a program on the terminal if the screen must be left first.
    """
    plan = started.plan
    with stderr_log(started.settings, plan, echo=request.is_verbose) as log_file:
        aloud = AgentStderr(log_file, sys.stderr)
        with context_of(
            started,
            note,
            log=log_file if request.is_verbose else aloud,
            log_in=logging_in(started.prepared, person, None if request.is_verbose else aloud, in_front),
            approve=request.approve,
            ask=request.asker(person, plan) if person else None,
            elicit=elicitor(person) if person else None,
            has_person=person is not None,
        ) as (context, _):
            offer = partial(_offer_login, request, started, person, in_front) if person else None
            yield replace(context, offer_login=offer)


async def _offer_login(
    request: RunSpec, started: Launched, person: Person, in_front: InFront | None, server: str
) -> bool:
    """Ask the user to log in to an MCP server that wants it, and do it; return whether it worked."""
    proof = started.prepared.credentials.get(server)
    if proof is None or not proof.is_login or not available():
        return False
    async with person.floor():
        answer = await person.choose(f"{server} wants a login. Log in now?", [Choice("y", "Yes"), Choice("n", "No")])
    if answer != "y":
        return False
    ended = await (in_front or _in_front(person))(login_program(started.plan.called, server, trust=request.trust))
    return ended.status == 0


@contextmanager
def gates(
    plan: LaunchPlan,
    settings: Settings,
    note: Callable[[str], None],
    *,
    approve: Approve | None = None,
    ask: Ask | None = None,
) -> "Iterator[Callable[[], Gate]]":
    """Provide what makes the gate of a session; all of them write one record."""
    with closing(PermissionRecord(plan, settings, note)) as record:
        yield lambda: Gate(rules_of(plan, settings, approve), ask, record)


@contextmanager
def context_of(
    started: Launched,
    note: Callable[[str], None],
    *,
    log: Callable[[bytes], None],
    log_in: LogIn,
    approve: Approve | None = None,
    ask: Ask | None = None,
    elicit: Elicit | None = None,
    has_person: bool,
) -> "Iterator[tuple[LaunchContext, Callable[[], Gate]]]":
    """Provide the context of sessions, and what makes the gate of another session; `log` takes the agent's stderr."""
    settings, plan = started.settings, started.plan
    if started.trace is not None:
        started.trace.note = note
    for each in started.prepared.credentials.values():
        each.note = note
    with (
        closing(server_logs(settings, plan)) as logs,
        gates(plan, settings, note, approve=approve, ask=ask) as gate,
    ):
        context = LaunchContext(
            prepared=started.prepared,
            guard=started.guard,
            max_line=settings.max_line,
            log=log,
            offers=offers(plan, has_person=has_person),
            gate=gate(),
            env=visible_env(plan),
            elicit=elicit,
            log_in=log_in,
            respawn=lambda: spawn_agent(started.prepared),
            server_logs=logs,
            cache=settings.cache,
            state=settings.state,
            trace=started.trace,
            share=sharing(settings, plan, started.verb),
        )
        yield context, gate


def sharing(settings: Settings, plan: LaunchPlan, verb: str) -> "ShareServer":
    """Return what makes the programs of servers that launches share; `verb` is the name in `ps`."""

    def share(*given: Any) -> Program:
        from acp_launch.served.shared import share_server  # few launches need it

        return share_server(settings.state, f"{verb} {plan.called or plan.profile}", settings.max_line, *given)

    return share


def logging_in(
    planned: PreparedPlan,
    person: Person | None,
    aloud: "AgentStderr | None" = None,
    in_front: InFront | None = None,
) -> LogIn:
    """Return what logs in when the agent wants it: it asks `person`, or without one names the command for a login.

    `aloud` shows the agent's stderr. `in_front` runs a program on the terminal if the screen must be left
    first; by default `person` releases the terminal.
    """

    async def log_in_once(connection: Connection, wanted: AuthRequired, *, is_second: bool) -> None:
        context = login_context(planned, person, aloud, in_front)
        if is_second:
            context = replace(context, adviser=None)
        if await log_in(connection, context, wanted) == "reconnect":
            raise RestartAgent

    return log_in_once


def login_context(
    planned: PreparedPlan, person: Person | None, aloud: "AgentStderr | None", in_front: InFront | None = None
) -> "LoginContext":
    """Return what a login to the agent needs."""
    return LoginContext(
        program=LocalProgram.of(planned.plan.agent, planned.plan.agent.name, planned.secrets),
        profile=planned.plan.called,
        is_built_in=planned.plan.is_built_in,
        place=planned.plan.place,
        adviser=LoginQuestions(person, aloud) if person else None,
        in_front=(in_front or _in_front(person)) if available() else None,
    )


def _in_front(person: Person | None) -> InFront:
    async def run(program: "LocalProgram") -> Exit:
        async with person.floor() if person else nullcontext():
            return await foreground(program)

    return run


def run_turn(spec: RunSpec, started: "Launched", chosen: ChosenSession, text: str, screen: Screen) -> int:
    plan, (registry, name, record) = started.plan, chosen
    screen.roots = (plan.cwd, *plan.additional_directories)
    keeper = SessionKeeper(registry, plan, record, text)
    prompt = spec.prompt(plan, name, record, text)
    prompt = replace(
        prompt,
        request=replace(prompt.request, opened=keeper.opened),
        over=partial(keeper.store_turn, text),
        broken=partial(keeper.store_broken_turn, text),
    )
    with run_context(spec, started, screen.person(), lambda text: show_note(screen.observer, text)) as context:
        return exit_code(asyncio.run(run_prompt(context, prompt, started.spawned, screen.observer)))
