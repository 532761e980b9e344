"""
A launch: its processes, from their start to their end whatever happens to acp-launch; and the context of its sessions.

`launch_agent` starts the agent before the modules that talk to it are imported, so that both overlap.
"""

import codecs
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from acp_launch.app.planning import login_program
from acp_launch.app.screen import elicitor
from acp_launch.app.spec import RunSpec
from acp_launch.console.stderr import YELLOW, harmless, put, share, strip_colours, tell
from acp_launch.errors import LaunchError, ProblemsError
from acp_launch.leave import deferred
from acp_launch.plan.model import OURS, LaunchPlan, StdioPlan
from acp_launch.private import directory
from acp_launch.process.guard import Guard
from acp_launch.process.logs import LogFile, ServerLogs, launch_in
from acp_launch.process.prepare import require_descriptors
from acp_launch.process.records import LaunchRecord, files
from acp_launch.process.spawn import Spawned, spawn
from acp_launch.process.tree import end_now
from acp_launch.settings.model import Settings

if TYPE_CHECKING:
    from acp_launch.app.planning import Ready
    from acp_launch.bridge.servers import ShareServer
    from acp_launch.console.ask.terminal import AgentStderr
    from acp_launch.errors import AuthRequired
    from acp_launch.launch.context import Elicit, LaunchContext, LogIn
    from acp_launch.process.program import LocalProgram, Program
    from acp_launch.process.tree import Exit
    from acp_launch.session.connection import Connection
    from acp_launch.session.login import InFront, LoginContext
    from acp_launch.session.observer import Ask, Holds, Person, Way
    from acp_launch.session.permission.gate import Decision, Gate
    from acp_launch.session.permission.policy import Approve, Policy, Remembered
    from acp_launch.session.permission.remembered import AnswerStore
    from acp_launch.session.store import Record, Registry
    from acp_launch.trace import Trace

TOLD = 5  # names of files in a message


@contextmanager
def guard(
    settings: Settings, plan: LaunchPlan, verb: str, trace: Path | None
) -> "Iterator[tuple[Guard, Trace | None]]":
    """Record a launch and guard it. Enter before the first child starts, and leave after the last has ended.

    Use `launch.loop.supervised` within it while an event loop runs. `verb` is the name in `ps`. Processes left behind
    by earlier launches are ended first. A trace of the launch is written to the file `trace`, if it is given.

    Raises:
        Exhausted: the launch needs more open files than the limit allows.
        UsageError: the file cannot be written.
    """
    share()
    require_descriptors(1 + sum(isinstance(server, StdioPlan) and server.required for server in plan.servers))
    if files(settings.state):
        from acp_launch.process.leftovers import clear

        if ended := clear(settings.state):
            from acp_launch.console.processes import sentence

            for each in ended:
                report(sentence(each))
    with record_and_guard(settings, verb, plan.profile, plan.cwd) as made:
        if trace is None:
            yield made, None
            return
        from acp_launch.trace import tracing

        with tracing(trace, verb, plan.profile, report) as written:
            yield made, written


@contextmanager
def record_and_guard(settings: Settings, verb: str, profile: str, cwd: Path) -> Iterator[Guard]:
    """Record a launch that works in `cwd`, and guard it; as `guard`."""
    record = LaunchRecord(settings.state, report)
    made = Guard(record, report)
    try:
        with deferred():  # a signal within `start` would lose what it has just started
            record.begin(verb, profile)
            record.works_in(cwd)
            made.start()
        yield made
    finally:
        with deferred():
            made.dismiss()
            record.remove()


def report(text: str) -> None:
    """Tell the user something of a launch."""
    tell(text, style=YELLOW)


@contextmanager
def with_workdirs(settings: Settings, plan: LaunchPlan, *, may_share: bool = True) -> Iterator[LaunchPlan]:
    """Give each server of the plan without a directory an empty one, which is removed when the block is left.

    One that launches share has a directory of the server host, if it `may_share`.

    Raises:
        StateError: the directories cannot be made.
    """
    local = (each for each in plan.servers if isinstance(each, StdioPlan) and each.cwd is None)
    lacking = [each.name for each in local if not (may_share and each.share == "user")]
    if not lacking:
        yield plan
        return
    from acp_launch.process.workdir import workdirs

    with workdirs(settings.state, lacking, _report_files) as made:
        given = (replace(each, cwd=made[each.name]) if each.name in made else each for each in plan.servers)
        yield replace(plan, servers=tuple(given))


@contextmanager
def with_workdir(settings: Settings, plan: LaunchPlan) -> Iterator[LaunchPlan]:
    """Do the same for a plan whose `agent` is the process of its only server."""
    with with_workdirs(settings, plan, may_share=False) as given:
        (server,) = given.servers
        if isinstance(server, StdioPlan) and server.cwd is not None:
            given = replace(given, agent=replace(given.agent, cwd=server.cwd))
        yield given


def _report_files(server: str, names: Sequence[str]) -> None:
    shown = ", ".join([*names[:TOLD], *(["…"] if len(names) > TOLD else [])])
    what = f"mcp server {server} wrote into its own directory, which is removed now: {shown}"
    report(f"{what}; to keep such files, give it a cwd")


@contextmanager
def agent_process(planned: "Ready") -> Iterator[Spawned]:
    """Start the agent's process; leaving kills what is left of its tree."""
    spawned = None
    try:
        with deferred():  # a signal within `spawn` would lose the process it has just started
            spawned = spawn_agent(planned)
        yield spawned
    except ProblemsError as error:
        error.outcome = "all started processes were stopped"
        raise
    finally:
        if spawned is not None:
            with deferred():
                end_now(spawned)


def spawn_agent(planned: "Ready") -> Spawned:
    """Start the agent's process, in its place if it has one; the caller must end it.

    Raises:
        AgentError: it cannot be started.
        StateError: its state cannot be made, or its repository's objects cannot be protected.
    """
    agent, where, secrets = planned.plan.agent, planned.plan.place, planned.secrets
    if where is not None:
        from acp_launch.plan.confinement import prepare_place
        from acp_launch.plan.place import place
        from acp_launch.plan.repository import list_shared_objects

        prepare_place(where)
        if shared := list_shared_objects(where):
            from acp_launch.process.git import pack_loose_objects

            for objects in shared:
                pack_loose_objects(objects)
        agent = place(agent, where)
    argv = [str(agent.command), *(arg.reveal(secrets) for arg in agent.args)]
    env = {name: value.reveal(secrets) for name, value in agent.env.items()}
    return spawn(argv, env=env, cwd=agent.cwd, name=agent.name, is_boxed=where is not None)


@contextmanager
def with_seat(planned: "Ready", settings: Settings) -> "Iterator[Ready]":
    """Make the directory for the launch's sockets before its agent starts, if the agent must be shown it."""
    where = planned.plan.place
    if where is None:
        yield planned
        return
    from acp_launch.plan.place import add_seat

    with directory(settings.state) as made:
        yield planned._replace(plan=replace(planned.plan, place=add_seat(where, made)))


def open_env(plan: LaunchPlan) -> dict[str, str]:
    """Return the agent's environment without secrets and without the variables that acp-launch itself sets."""
    return {
        name: value.reveal({}) for name, value in plan.agent.env.items() if not value.secrets and value.origin != OURS
    }


def agent_log(settings: Settings, plan: LaunchPlan) -> LogFile:
    """Return the log of the agent's stderr."""
    return LogFile(settings.state / "log", plan.profile, launch=launch_in(plan.project))


def server_logs(settings: Settings, plan: LaunchPlan) -> ServerLogs:
    """Return the logs of the servers' stderr; the caller closes them."""
    return ServerLogs(settings.state / "log", plan.profile, launch=launch_in(plan.project))


def both(first: Callable[[bytes], None], second: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """Return what gives data to two receivers."""

    def take(data: bytes) -> None:
        first(data)
        second(data)

    return take


@contextmanager
def stderr_log(settings: Settings, plan: LaunchPlan, *, echo: bool) -> Iterator[Callable[[bytes], None]]:
    """Log the agent's stderr in the state directory; with `echo` also show it, without control sequences."""
    log = agent_log(settings, plan)
    log.begin()
    if echo:
        share(at_once=True)

    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")  # a chunk may end within a character

    def show(data: bytes, *, is_last: bool = False) -> None:
        put(harmless(strip_colours(decoder.decode(data, is_last))))

    try:
        yield both(show, log) if echo else log
    finally:
        if echo:
            show(b"", is_last=True)
        log.close()


class Launched(Struct, frozen=True):
    """What was started: the process of the agent of a plan, whose servers have directories."""

    settings: Settings
    ready: "Ready"
    guard: Guard
    spawned: Spawned
    trace: "Trace | None"
    verb: str

    @property
    def plan(self) -> LaunchPlan:
        return self.ready.plan


class ChosenSession(NamedTuple):
    """The session of a run; `record` is that of a session to resume."""

    registry: "Registry"
    name: str
    record: "Record | None"


@contextmanager
def launch_agent(
    settings: Settings, ready: "Ready", trace: Path | None = None, verb: str = "run"
) -> Iterator[Launched]:
    """Start the agent of a plan before the modules that talk to it are imported; leaving kills what is left.

    `verb` is the name in `ps`.
    """
    with (
        guard(settings, ready.plan, verb, trace) as (watching, tracing),
        with_seat(ready, settings) as ready,
        with_workdirs(settings, ready.plan) as given,
        agent_process(ready) as spawned,
    ):
        if tracing is not None:
            tracing.started(spawned.pid)
        yield Launched(settings, ready._replace(plan=given), watching, spawned, tracing, verb)


@contextmanager
def run_context(
    request: RunSpec,
    started: Launched,
    person: "Person | None",
    note: Callable[[str], None],
    in_front: "InFront | None" = None,
) -> "Iterator[LaunchContext]":
    """Provide the context of a run; logs are open while the block runs. `note` shows a line to the user.

    `in_front` runs a program on the terminal if the screen must be left first.
    """
    from acp_launch.console.ask.terminal import AgentStderr

    plan = started.plan
    with stderr_log(started.settings, plan, echo=request.is_verbose) as log_file:
        aloud = AgentStderr(log_file, sys.stderr)
        with context_of(
            started,
            note,
            log=log_file if request.is_verbose else aloud,
            log_in=logging_in(started.ready, person, None if request.is_verbose else aloud, in_front),
            approve=request.approve,
            ask=request.asker(person, plan) if person else None,
            elicit=elicitor(person) if person else None,
            has_person=person is not None,
        ) as (context, _):
            offer = partial(_offer_login, request, started, person, in_front) if person else None
            yield replace(context, offer_login=offer)


async def _offer_login(
    request: RunSpec, started: Launched, person: "Person", in_front: "InFront | None", server: str
) -> bool:
    """Ask the user to log in to an MCP server that wants it, and do it; return whether it worked."""
    from acp_launch.process.foreground import available
    from acp_launch.session.observer import Choice

    proof = started.ready.credentials.get(server)
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
    approve: "Approve | None" = None,
    ask: "Ask | None" = None,
) -> "Iterator[Callable[[], Gate]]":
    """Provide what makes the gate of a session; all of them write one record."""
    from acp_launch.session.permission.gate import Gate

    with closing(PermissionRecord(plan, settings, note)) as record:
        yield lambda: Gate(rules_of(plan, settings, approve), ask, record)


@contextmanager
def context_of(
    started: Launched,
    note: Callable[[str], None],
    *,
    log: Callable[[bytes], None],
    log_in: "LogIn",
    approve: "Approve | None" = None,
    ask: "Ask | None" = None,
    elicit: "Elicit | None" = None,
    has_person: bool,
) -> "Iterator[tuple[LaunchContext, Callable[[], Gate]]]":
    """Provide the context of sessions, and what makes the gate of another session; `log` takes the agent's stderr."""
    from acp_launch.launch.context import LaunchContext, offers

    settings, (plan, secrets, credentials) = started.settings, started.ready
    if started.trace is not None:
        started.trace.note = note
    for each in credentials.values():
        each.note = note
    with (
        closing(server_logs(settings, plan)) as logs,
        gates(plan, settings, note, approve=approve, ask=ask) as gate,
    ):
        context = LaunchContext(
            plan=plan,
            guard=started.guard,
            secrets=secrets,
            max_line=settings.max_line,
            log=log,
            offers=offers(plan, has_person=has_person),
            gate=gate(),
            env=open_env(plan),
            elicit=elicit,
            log_in=log_in,
            respawn=lambda: spawn_agent(started.ready),
            server_logs=logs,
            cache=settings.cache,
            state=settings.state,
            credentials=credentials,
            trace=started.trace,
            share=sharing(settings, plan, started.verb),
        )
        yield context, gate


def sharing(settings: Settings, plan: LaunchPlan, verb: str) -> "ShareServer":
    """Return what makes the programs of servers that launches share; `verb` is the name in `ps`."""

    def share(*given: Any) -> "Program":
        from acp_launch.host.shared import share_server  # few launches need it

        return share_server(settings.state, f"{verb} {plan.called or plan.profile}", settings.max_line, *given)

    return share


def logging_in(
    planned: "Ready",
    person: "Person | None",
    aloud: "AgentStderr | None" = None,
    in_front: "InFront | None" = None,
) -> "LogIn":
    """Return what logs in when the agent wants it: it asks `person`, or without one names the command for a login.

    `aloud` shows the agent's stderr meanwhile. `in_front` runs a program on the terminal if the screen must be left
    first; by default `person` releases the terminal.
    """

    async def log_in_once(connection: "Connection", wanted: "AuthRequired", *, is_second: bool) -> None:
        from acp_launch.launch.run import RestartAgent
        from acp_launch.session.login import log_in

        context = login_context(planned, person, aloud, in_front)
        if is_second:
            context = replace(context, adviser=None)
        if await log_in(connection, context, wanted) == "reconnect":
            raise RestartAgent

    return log_in_once


def login_context(
    planned: "Ready", person: "Person | None", aloud: "AgentStderr | None", in_front: "InFront | None" = None
) -> "LoginContext":
    """Return what a login to the agent needs."""
    from acp_launch.console.ask.logins import LoginQuestions
    from acp_launch.process.foreground import available
    from acp_launch.process.program import LocalProgram
    from acp_launch.session.login import LoginContext

    return LoginContext(
        program=LocalProgram.of(planned.plan.agent, planned.plan.agent.name, planned.secrets),
        profile=planned.plan.called,
        is_built_in=planned.plan.is_built_in,
        place=planned.plan.place,
        adviser=LoginQuestions(person, aloud) if person else None,
        in_front=(in_front or _in_front(person)) if available() else None,
    )


def _in_front(person: "Person | None") -> "InFront":
    from acp_launch.process.foreground import foreground

    async def run(program: "LocalProgram") -> "Exit":
        async with person.floor() if person else nullcontext():
            return await foreground(program)

    return run


def rules_of(plan: "LaunchPlan", settings: "Settings", approve: "Approve | None") -> "Policy":
    """Return the rules about tool calls of a plan, with the answers that were kept until now."""
    from acp_launch.session.permission.policy import policy
    from acp_launch.session.permission.remembered import load

    return policy(plan, approve=approve, remembered=load(shelf_of(plan, settings)), home=os.environ.get("HOME", ""))


def shelf_of(plan: "LaunchPlan", settings: "Settings") -> "AnswerStore":
    from acp_launch.session.permission.remembered import AnswerStore

    return AnswerStore(settings.state, str(plan.project), plan.profile, plan.called)


class PermissionRecord:
    """Records the permission decisions of one launch; implements `session.permission.gate.DecisionLog`."""

    def __init__(self, plan: LaunchPlan, settings: Settings, note: Callable[[str], None]) -> None:
        """`note` receives a message when an answer or a record cannot be saved."""
        from acp_launch.session.permission.audit import Audit

        self._cwd, self._note = str(plan.cwd), note
        self._shelf = shelf_of(plan, settings)
        self._audit = Audit(settings.state, plan.profile, project=str(plan.project), note=note)

    def keep(self, answer: "Remembered | None", *, holds: "Holds", session: str) -> "Remembered | None":
        from acp_launch.session.permission.remembered import keep

        if answer is None:
            self._note("this answer applies only once: the call does not say enough to be recognized again")
            return None
        here = replace(answer, session=session)
        if holds != "always":
            return here
        try:
            keep(self._shelf, answer)
        except LaunchError as error:
            self._note(f"the answer applies only to this session and could not be saved: {error.message}")
            return here
        return answer

    def record(self, how: "Way", call: dict[str, Any], options: list[Any], decision: "Decision", session: str) -> None:
        self._audit.record(
            how,
            call,
            options,
            allowed=decision.allowed,
            by=decision.by,
            option_id=decision.option_id,
            session=session,
            cwd=self._cwd,
        )

    def close(self) -> None:
        self._audit.close()
