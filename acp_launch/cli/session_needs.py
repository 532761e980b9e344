"""The needs of a session that the command line provides: policy, permission record, user, login and logs."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from acp_launch.cli.planning import Planned
    from acp_launch.cli.run_request import RunRequest
    from acp_launch.cli.start import RunContext
    from acp_launch.console.ask.terminal import AgentStderr
    from acp_launch.errors import AuthRequired
    from acp_launch.launch.context import LaunchContext, LogIn
    from acp_launch.launch.run import SessionRequest
    from acp_launch.launch.services import Elicit
    from acp_launch.plan.model import LaunchPlan
    from acp_launch.problem import KeyPath
    from acp_launch.process.guard import Guard
    from acp_launch.protocol.acp import Capabilities
    from acp_launch.session.connection import Connection
    from acp_launch.session.elicitation.request import Elicitation
    from acp_launch.session.login import InFront
    from acp_launch.session.observer import TurnEnd
    from acp_launch.session.opening import Setting
    from acp_launch.session.permission.gate import Gate
    from acp_launch.session.permission.policy import Approve
    from acp_launch.session.person import Answer, Ask, Person, ToolQuestion
    from acp_launch.session.store import SessionKeeper
    from acp_launch.settings.model import Settings
    from acp_launch.trace import Trace

ENDED_WELL, ENDED_SHORT, DENIED = 0, 9, 10  # docs/scripting.md


@contextmanager
def run_context(
    request: "RunRequest",
    plan: "LaunchPlan",
    kept: "RunContext",
    guard: "Guard",
    person: "Person | None",
    note: Callable[[str], None],
    in_front: "InFront | None" = None,
    *,
    trace: "Trace | None" = None,
) -> "Iterator[LaunchContext]":
    """Provide the context of a run; logs are open while the block runs. `note` shows a line to the user.

    `in_front` runs a program on the terminal if the screen must be left first.
    """
    from acp_launch.cli.start import stderr_log
    from acp_launch.console.ask.terminal import AgentStderr

    with stderr_log(kept.settings, plan, echo=request.verbose) as log_file:
        aloud = AgentStderr(log_file, sys.stderr)
        with context_of(
            plan,
            kept,
            guard,
            note,
            log=log_file if request.verbose else aloud,
            log_in=logging_in((plan, kept.secrets), person, None if request.verbose else aloud, in_front),
            approve=request.approve,
            ask=asking(person, request, plan) if person else None,
            elicit=eliciting(person) if person else None,
            has_person=person is not None,
            trace=trace,
        ) as (context, _):
            yield context


@contextmanager
def gates(
    plan: "LaunchPlan",
    settings: "Settings",
    note: Callable[[str], None],
    *,
    approve: "Approve | None" = None,
    ask: "Ask | None" = None,
) -> "Iterator[Callable[[], Gate]]":
    """Provide what makes the gate of a session; all of them write one record."""
    from acp_launch.cli.permission_record import PermissionRecord
    from acp_launch.session.permission.gate import Gate
    from acp_launch.session.permission.policy import policy
    from acp_launch.session.permission.remembered import AnswerStore, load

    shelf = AnswerStore(settings.state, str(plan.project), plan.profile, plan.called)
    home = os.environ.get("HOME", "")
    with closing(PermissionRecord(plan, shelf, home, note)) as record:
        yield lambda: Gate(policy(plan, approve=approve, remembered=load(shelf), home=home), ask, record)


@contextmanager
def context_of(
    plan: "LaunchPlan",
    kept: "RunContext",
    guard: "Guard",
    note: Callable[[str], None],
    *,
    log: Callable[[bytes], None],
    log_in: "LogIn",
    approve: "Approve | None" = None,
    ask: "Ask | None" = None,
    elicit: "Elicit | None" = None,
    has_person: bool,
    trace: "Trace | None",
) -> "Iterator[tuple[LaunchContext, Callable[[], Gate]]]":
    """Provide the context of sessions, and what makes the gate of another session; `log` takes the agent's stderr."""
    from acp_launch.cli.start import open_env, server_logs, spawn_agent
    from acp_launch.launch.context import LaunchContext
    from acp_launch.launch.services import ServicePolicy, offers

    if trace is not None:
        trace.note = note
    for each in kept.credentials.values():
        each.note = note
    with (
        closing(server_logs(kept.settings, plan)) as logs,
        gates(plan, kept.settings, note, approve=approve, ask=ask) as gate,
    ):
        offered = offers(plan, has_person=has_person)
        context = LaunchContext(
            plan=plan,
            guard=guard,
            secrets=kept.secrets,
            max_line=kept.settings.max_line,
            log=log,
            offers=offered,
            services=ServicePolicy(offers=offered, gate=gate(), env=open_env(plan), elicit=elicit),
            log_in=log_in,
            respawn=lambda: spawn_agent(plan, kept.secrets),
            server_logs=logs,
            cache=kept.settings.cache,
            credentials=kept.credentials,
            trace=trace,
        )
        yield context, gate


def _listing(request: "RunRequest", plan: "LaunchPlan") -> str:
    """Return the command that lists the remembered answers, as the user can type it here."""
    import shlex

    from acp_launch.cli.planning import here
    from acp_launch.profile.discover import project_of

    words = ["acp-launch", "permission", "list"]
    if request.agent is None:
        return shlex.join([*words, request.words[0]])
    listing = shlex.join([*words, "--", plan.profile])
    return listing if plan.project == project_of(here()) else f"cd {shlex.quote(str(plan.project))}; {listing}"


def asking(person: "Person", request: "RunRequest", plan: "LaunchPlan") -> "Ask":
    """Return what asks the user about a tool call."""
    where = _listing(request, plan)

    async def ask(question: "ToolQuestion") -> "Answer":
        from acp_launch.console.ask.permission import permitting  # most runs ask nothing

        return await permitting(person, where)(question)

    return ask


def eliciting(person: "Person") -> "Elicit":
    """Return what makes the forms and links of an agent."""

    def made(agent: str, note: Callable[[str], None]) -> "Elicitation":
        from acp_launch.console.ask.forms import Forms
        from acp_launch.console.ask.links import Links
        from acp_launch.session.elicitation.request import Elicitation

        fill, visit = Forms(person, agent).fill, Links(person, agent).visit
        return Elicitation(agent, fill=fill, visit=visit, forms=True, urls=True, note=note)

    return made


def logging_in(
    planned: "Planned", person: "Person | None", aloud: "AgentStderr | None", in_front: "InFront | None"
) -> "LogIn":
    """Return what logs in when the agent wants it."""

    async def logged_in(connection: "Connection", wanted: "AuthRequired", *, is_second: bool) -> None:
        from acp_launch.cli import login  # most runs need no login

        await login.logging_in(planned, person, aloud, in_front)(connection, wanted, is_second=is_second)

    return logged_in


def session_request(
    request: "RunRequest", plan: "LaunchPlan", kept: "RunContext", keeper: "SessionKeeper"
) -> "SessionRequest":
    """Build the request for the first session."""
    from acp_launch.launch.run import SessionRequest

    return SessionRequest(
        name=kept.name,
        continued=kept.record,
        replay=request.replay,
        wishes=wished(plan, request.sets),
        opened=keeper.opened,
    )


def wished(plan: "LaunchPlan", sets: Sequence[str] = ()) -> "list[Setting]":
    """Collect the mode and options of the profile and of `--set`."""
    from acp_launch.session.opening import wishes

    def place(path: "KeyPath") -> str:
        origin = plan.origins[path]
        return f"{origin} {origin.path}"

    return wishes(plan.mode, plan.config, sets, place=place)


def blocks(request: "RunRequest", plan: "LaunchPlan", text: str) -> "Callable[[Capabilities], list[dict[str, Any]]]":
    """Return a function that makes the prompt's blocks, one for each `--attach`, in a form that the agent supports."""

    def made(able: "Capabilities") -> "list[dict[str, Any]]":
        said: dict[str, Any] = {"type": "text", "text": text}
        if not request.attach:
            return [said]
        from acp_launch.session.attachments import attach

        roots = (plan.cwd, *plan.additional_directories)
        return [said, *(attach(path, able, roots=roots) for path in request.attach)]

    return made


def exit_code(end: "TurnEnd") -> int:
    """Return the exit code for a turn's end."""
    if end.denied:
        return DENIED
    return ENDED_WELL if end.stop_reason == "end_turn" else ENDED_SHORT
