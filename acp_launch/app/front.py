"""A run in a host: its prompt or its terminal is here, everything else is the host's."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from acp_launch.app.screen import Screen, elicitor, exit_code
from acp_launch.app.spec import RunSpec
from acp_launch.console.stderr import DIM, share, tell
from acp_launch.engine.context import LaunchContext, LogIn
from acp_launch.engine.prepared import PreparedPlan
from acp_launch.engine.run import Prompt, open_and_prompt, run_once
from acp_launch.errors import AuthRequired
from acp_launch.plan.model import LaunchPlan
from acp_launch.problem import ours
from acp_launch.protocol.acp import Offers
from acp_launch.served.client import HostEntry, detach_prompt
from acp_launch.served.client import launch_in_host as launching
from acp_launch.served.registry import HostNote
from acp_launch.served.wire import AttachOptions
from acp_launch.session.connection import Budget, Connection
from acp_launch.session.events import Person, TurnEnd
from acp_launch.session.hold import fresh_name, is_fresh
from acp_launch.settings.model import Settings

if TYPE_CHECKING:
    from acp_launch.session.login import InFront
    from acp_launch.session.store import Record

    ReadPrompt = Callable[[], str]


def run_hosted(
    request: RunSpec,
    plan: "LaunchPlan",
    settings: Settings,
    screen: Screen,
    note: HostNote,
    read_prompt: "ReadPrompt | None",
) -> int | None:
    share()
    plan = replace(plan, timeouts=replace(plan.timeouts, **request.limits))

    if read_prompt is None:
        return asyncio.run(_attach_terminal(request, plan, settings, note))

    text = read_prompt()
    name, record = _session_of(request, plan, settings)
    screen.roots = (plan.cwd, *plan.additional_directories)
    prompt = request.prompt(plan, name, record, text)
    end = asyncio.run(_prompt_host(request, plan, settings, screen, note, prompt))
    if end is not None:
        return exit_code(end)
    wait = ours("session", "wait", name)
    tell(f"the turn runs in session {name}; to wait for its end: {wait}", style=DIM)
    return 0


async def _prompt_host(
    request: RunSpec,
    plan: "LaunchPlan",
    settings: Settings,
    screen: Screen,
    note: HostNote,
    prompt: Prompt,
) -> TurnEnd | None:
    """Return how the turn ended; None if it goes on in the host."""
    person = screen.person()
    # Without a driver, the questions of a turn wait for one.
    options = AttachOptions(
        name=prompt.request.name,
        can_ask=person is not None,
        approve=request.approve,
        read_only=request.detach,
        restart=request.is_new,
        own_turns_only=True,
        close_after_turn=not plan.session and is_fresh(prompt.request.name),
    )
    ask = request.asker(person, plan) if person else None
    entry = HostEntry(note=note, options=lambda name: options, ask=ask, stays=False)
    context = _front_context(request, plan, settings, person)
    async with launching(context, entry, screen.observer, budget=Budget(request.timeout)) as launch:
        if request.detach:
            await run_once(launch, partial(detach_prompt, launch, prompt))
            return None
        return await run_once(launch, partial(open_and_prompt, launch, prompt))


def _session_of(request: RunSpec, plan: "LaunchPlan", settings: Settings) -> "tuple[str, Record | None]":
    """Return the session's name, and its record if it is resumed. The host holds it, so it is not locked here."""
    if not request.latest and (request.is_new or not plan.session):
        return plan.session or fresh_name(), None
    from acp_launch.session import store

    with store.open_registry(settings.state) as registry:
        name = store.latest_name(registry, plan) if request.latest else plan.session or ""
        return name, store.continued(registry, plan, name, latest=request.latest)


async def _attach_terminal(request: RunSpec, plan: "LaunchPlan", settings: Settings, note: HostNote) -> int:
    """Run an interactive session in a host; its servers are the host's, not the plan's."""
    from acp_launch.app.interactive_run import SessionTerminal

    name, record = _session_of(request, plan, settings)
    terminal = SessionTerminal(request, plan, settings)
    anew = [name] if request.is_new else []  # once: after a loss of the agent it is loaded

    def options(session: str) -> AttachOptions:
        restart = bool(anew) and anew.pop() == session
        return AttachOptions(name=session, can_ask=True, approve=request.approve, restart=restart)

    context = _front_context(request, plan, settings, terminal.person, terminal.in_front)
    ask = request.asker(terminal.person, plan)
    entry = HostEntry(note=note, options=options, ask=ask, stays=True)
    return await terminal.run_in_host(
        name, record, lambda seen_by, interrupt: launching(context, entry, seen_by, on_interrupt=interrupt)
    )


def _front_context(
    request: RunSpec,
    plan: "LaunchPlan",
    settings: Settings,
    person: Person | None,
    in_front: "InFront | None" = None,
) -> "LaunchContext":
    """Return the context of a front: it serves nothing but questions, and the host has judged them."""
    has_person = person is not None
    return LaunchContext(
        prepared=PreparedPlan(plan),
        guard=None,
        max_line=settings.max_line,
        log=lambda data: None,
        offers=Offers(forms=has_person, urls=has_person, terminal_login=has_person),
        elicit=elicitor(person) if person else None,
        log_in=_logging_in(request, settings, person, in_front),
    )


def _logging_in(request: RunSpec, settings: Settings, person: Person | None, in_front: "InFront | None") -> LogIn:
    """Return what logs in when the agent wants it; only then the profile is read for how the agent is started."""

    async def logged_in(connection: Connection, wanted: AuthRequired, *, is_second: bool) -> None:
        from acp_launch.app.context import logging_in
        from acp_launch.app.planning import loaded_profile, resolved_for_front

        plan = resolved_for_front(loaded_profile(request.profile, settings), request.cwd, request.session)
        if plan is None:
            raise wanted
        await logging_in(PreparedPlan(plan), person, None, in_front)(connection, wanted, is_second=is_second)

    return logged_in
