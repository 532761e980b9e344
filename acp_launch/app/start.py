"""
A launch: its processes, from their start to their end whatever happens to acp-launch; and the context of its sessions.

`launch_agent` starts the agent before the modules that talk to it are imported, so that both overlap.
"""

import codecs
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from acp_launch.console.processes import container_sentences, sentence
from acp_launch.console.stderr import YELLOW, harmless, put, share, strip_colours, tell
from acp_launch.errors import ProblemsError
from acp_launch.plan.model import OURS, InContainer, LaunchPlan, OverSsh, Place, StdioPlan
from acp_launch.plan.written import make_safe_environment
from acp_launch.private import directory
from acp_launch.process.containers import ContainerEngine
from acp_launch.process.guard_client import Guard
from acp_launch.process.leftovers import clear
from acp_launch.process.logs import LogFile, ServerLogs, launch_in
from acp_launch.process.prepare import require_descriptors
from acp_launch.process.records import LaunchRecord, files
from acp_launch.process.spawn import Spawned, spawn
from acp_launch.process.tree import end_now
from acp_launch.process.workdir import workdirs
from acp_launch.profile.discover import here
from acp_launch.session import store
from acp_launch.session.hold import fresh_name, hold
from acp_launch.session.store import Record, Registry
from acp_launch.settings.model import Settings
from acp_launch.shutdown import critical_section

if TYPE_CHECKING:
    from acp_launch.app.spec import RunSpec
    from acp_launch.engine.prepared import PreparedPlan
    from acp_launch.process.program import LocalProgram
    from acp_launch.trace import Trace

TOLD = 5  # names of files in a message


@contextmanager
def guarded_launch(
    settings: Settings, plan: LaunchPlan, verb: str, trace: Path | None
) -> "Iterator[tuple[Guard, Trace | None]]":
    """Record a launch and guard it. Enter before the first child starts, and leave after the last has ended.

    Use `engine.loop.supervised` within it while an event loop runs. `verb` is the name in `ps`. Processes left behind
    by earlier launches are ended first. A trace of the launch is written to the file `trace`, if it is given.

    Raises:
        Exhausted: the launch needs more open files than the limit allows.
        UsageError: the file cannot be written.
    """
    share()
    require_descriptors(1 + sum(isinstance(server, StdioPlan) and server.required for server in plan.servers))
    if files(settings.state) and (ended := clear(settings.state)):
        for each in ended:
            for text in (*([sentence(each)] if each.processes else []), *container_sentences(each)):
                report(text)
    with record_and_guard(settings, verb, plan.profile, plan.cwd, plan.place) as made:
        if trace is None:
            yield made, None
            return
        from acp_launch.trace import tracing

        with tracing(trace, verb, plan.profile, report) as written:
            yield made, written


@contextmanager
def record_and_guard(
    settings: Settings, verb: str, profile: str, cwd: Path, place: Place | None = None
) -> Iterator[Guard]:
    """Record a launch that works in `cwd`, and guard it, with its containers if its `place` is one; as
    `guarded_launch`."""
    record = LaunchRecord(settings.state, report)
    made = Guard(record, report)
    try:
        with critical_section():  # a signal within `start` would lose what it has just started
            record.begin(verb, profile)
            record.works_in(cwd)
            made.start()
            if place is not None and isinstance(place.elsewhere, InContainer):
                made.use_engine(ContainerEngine(str(place.program), make_safe_environment()))
        yield made
    finally:
        with critical_section():
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
def agent_process(planned: "PreparedPlan") -> Iterator[Spawned]:
    """Start the agent's process; leaving kills its tree."""
    spawned = None
    try:
        with critical_section():  # a signal within `spawn` would lose the process it has just started
            spawned = spawn_agent(planned)
        yield spawned
    except ProblemsError as error:
        error.outcome = "all started processes were stopped"
        raise
    finally:
        if spawned is not None:
            with critical_section():
                end_now(spawned)


def spawn_agent(planned: "PreparedPlan") -> Spawned:
    """Start the agent's process, in its place if it has one; the caller must end it.

    Raises:
        AgentError: it cannot be started.
        StateError: its state cannot be made, or its repository's objects cannot be protected.
    """
    agent, where, secrets = planned.plan.agent, planned.plan.place, planned.secrets
    is_elsewhere = where is not None and where.elsewhere is not None
    if where is not None:
        from acp_launch.app.place import enter_place, start_elsewhere

        agent = agent if is_elsewhere else enter_place(agent, where)
    argv = [str(agent.command), *(arg.reveal(secrets) for arg in agent.args)]
    env = {name: value.reveal(secrets) for name, value in agent.env.items()}
    if where is not None and is_elsewhere:
        return start_elsewhere(planned.plan, where, argv, env, planned.asking)
    return spawn(argv, env=env, cwd=agent.cwd, name=agent.name, is_boxed=where is not None)


@contextmanager
def with_seat(planned: "PreparedPlan", settings: Settings, *, is_fixed: bool = False) -> "Iterator[PreparedPlan]":
    """Make the directory for the launch's sockets before its agent starts, if the agent must be shown it.

    `is_fixed`: there will be no other servers than the plan's; then ssh forwards no socket if none is bridged.
    """
    where = planned.plan.place
    is_without = is_fixed and not any(server.bridge for server in planned.plan.servers)
    if where is None or (is_without and isinstance(where.elsewhere, OverSsh)):
        yield planned
        return
    from acp_launch.app.place import show_seat

    with directory(settings.state) as made, show_seat(where, made, settings) as shown:
        yield planned._replace(plan=replace(planned.plan, place=shown))


def visible_env(plan: LaunchPlan) -> dict[str, str]:
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


def tee(first: Callable[[bytes], None], second: Callable[[bytes], None]) -> Callable[[bytes], None]:
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
        yield tee(show, log) if echo else log
    finally:
        if echo:
            show(b"", is_last=True)
        log.close()


class Launched(Struct, frozen=True):
    """What was started: the process of the agent of a plan, whose servers have directories."""

    settings: Settings
    prepared: "PreparedPlan"
    guard: Guard
    spawned: Spawned
    trace: "Trace | None"
    verb: str

    @property
    def plan(self) -> LaunchPlan:
        return self.prepared.plan


class ChosenSession(NamedTuple):
    """The session of a run; `record` is for a session to resume."""

    registry: Registry
    name: str
    record: Record | None


@contextmanager
def launch_agent(
    settings: Settings, ready: "PreparedPlan", trace: Path | None = None, verb: str = "run"
) -> Iterator[Launched]:
    """Start the agent of a plan before the modules that talk to it are imported; leaving kills its tree.

    `verb` is the name in `ps`.
    """
    with (
        guarded_launch(settings, ready.plan, verb, trace) as (watching, tracing),
        with_seat(ready, settings, is_fixed=verb == "run") as ready,
        with_workdirs(settings, ready.plan) as given,
        agent_process(ready) as spawned,
    ):
        if tracing is not None:
            tracing.started(spawned.pid)
        yield Launched(settings, ready._replace(plan=given, asking=None), watching, spawned, tracing, verb)


@contextmanager
def launch_session(
    spec: "RunSpec", settings: Settings, ready: "PreparedPlan"
) -> Iterator[tuple[Launched, ChosenSession, ExitStack]]:
    """Choose the session of a run, and start the agent; leaving ends all of it. The stack holds the session.

    `prepare_launch` comes before it.

    Raises:
        LaunchError: see the tree in `errors`.
    """
    plan = replace(ready.plan, timeouts=replace(ready.plan.timeouts, **spec.limits))
    with ExitStack() as stack:
        held = stack.enter_context(ExitStack())
        chosen = session_of(plan, settings, stack, held, latest=spec.latest, is_new=spec.is_new)
        yield stack.enter_context(launch_agent(settings, ready._replace(plan=plan), spec.trace)), chosen, held


def session_of(
    plan: LaunchPlan,
    settings: Settings,
    stack: ExitStack,
    held: ExitStack,
    *,
    latest: bool = False,
    is_new: bool = False,
) -> ChosenSession:
    """Choose the session, and hold it.

    `stack` keeps the store open, and `held` holds the session. The store is opened for a new session too, so that its
    faults are reported before anything starts.

    Raises:
        SessionError: cannot open the store, another process is in the session, or it is of another directory.
    """
    registry = stack.enter_context(store.open_registry(settings.state))
    name = store.latest_name(registry, plan) if latest else plan.session or fresh_name()
    held.enter_context(hold(settings.state, (str(plan.project), plan.profile, name)))
    if is_new or not (latest or plan.session):
        return ChosenSession(registry, name, None)
    return ChosenSession(registry, name, store.continued(registry, plan, name, latest=latest))


def login_program(called: str, server: str, *, trust: bool) -> "LocalProgram":
    """Return `mcp login` as a program for the terminal."""
    from acp_launch.process.program import LocalProgram

    words = ("mcp", "login", called, server, *(("--trust",) if trust else ()))
    argv = (sys.executable, "-P", "-m", "acp_launch", *words)  # -P: nothing in this directory replaces a module
    return LocalProgram("login", argv, dict(os.environ), here())
