"""
The processes of a launch: their start, and their end whatever happens to acp-launch.

`launched` is for `run`: it starts the agent before the modules that talk to it are imported, so that both overlap.
`verb_processes` is for verbs that start an agent or a server for one operation, `with_agent` for one operation with an
agent.
"""

import codecs
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from msgspec.structs import replace

from acp_launch.console.stderr import YELLOW, harmless, put, say, share, uncoloured
from acp_launch.errors import ProblemsError
from acp_launch.leave import deferred
from acp_launch.plan.model import OURS, LaunchPlan, StdioPlan
from acp_launch.process.guard import Guard
from acp_launch.process.logs import LogFile, ServerLogs
from acp_launch.process.prepare import require_descriptors
from acp_launch.process.records import LaunchRecord, files
from acp_launch.process.spawn import Spawned, spawn
from acp_launch.process.tree import end_now
from acp_launch.secret.value import Secret
from acp_launch.settings.model import Settings

if TYPE_CHECKING:
    from acp_launch.launch.loop import Interrupts
    from acp_launch.launch.run import AgentNeeds
    from acp_launch.protocol.acp import Offers
    from acp_launch.session.connection import Connection

T = TypeVar("T")
TOLD = 5  # names of files in a message


@contextmanager
def guard(settings: Settings, plan: LaunchPlan, verb: str) -> Iterator[Guard]:
    """Record a launch and guard it. Enter before the first child starts, and leave after the last has ended.

    Use `launch.loop.supervised` within it while an event loop runs. `verb` is the name in `ps`. Processes left behind
    by earlier launches are ended first.

    Raises:
        Exhausted: the launch needs more open files than the limit allows.
    """
    share()
    require_descriptors(1 + sum(isinstance(server, StdioPlan) and server.required for server in plan.servers))
    _clear(settings)
    record = LaunchRecord(settings.state, _note)
    made = Guard(record, _note)
    try:
        with deferred():  # a signal within `start` would lose what it has just started
            record.begin(verb, plan.profile)
            made.start()
        yield made
    finally:
        with deferred():
            made.dismiss()
            record.remove()


def _clear(settings: Settings) -> None:
    if not files(settings.state):
        return
    from acp_launch.process.leftovers import clear

    if ended := clear(settings.state):
        from acp_launch.console.processes import sentence

        for each in ended:
            _note(sentence(each))


def _note(text: str) -> None:
    say(f"acp-launch: {text}", style=YELLOW)


@contextmanager
def with_workdirs(settings: Settings, plan: LaunchPlan) -> Iterator[LaunchPlan]:
    """Give each server of the plan without a directory an empty one, which is removed when the block is left.

    Raises:
        StateError: the directories cannot be made.
    """
    lacking = [server.name for server in plan.servers if isinstance(server, StdioPlan) and server.cwd is None]
    if not lacking:
        yield plan
        return
    from acp_launch.process.workdir import workdirs

    with workdirs(settings.state, lacking, _left) as made:
        given = (replace(each, cwd=made[each.name]) if each.name in made else each for each in plan.servers)
        yield replace(plan, servers=tuple(given))


@contextmanager
def with_workdir(settings: Settings, plan: LaunchPlan) -> Iterator[LaunchPlan]:
    """Do the same for a plan whose `agent` is the process of its only server."""
    with with_workdirs(settings, plan) as given:
        (server,) = given.servers
        assert isinstance(server, StdioPlan) and server.cwd is not None
        yield replace(given, agent=replace(given.agent, cwd=server.cwd))


def _left(server: str, names: Sequence[str]) -> None:
    shown = ", ".join([*names[:TOLD], *(["…"] if len(names) > TOLD else [])])
    what = f"mcp server {server} wrote into its own directory, which is removed now: {shown}"
    _note(harmless(f"{what}; to keep such files, give it a cwd", keep=""))


@contextmanager
def agent_process(plan: LaunchPlan, secrets: Mapping[str, Secret]) -> Iterator[Spawned]:
    """Start the agent's process; leaving kills what is left of its tree."""
    spawned = None
    try:
        with deferred():  # a signal within `spawn` would lose the process it has just started
            spawned = spawn_agent(plan, secrets)
        yield spawned
    except ProblemsError as error:
        error.outcome = "all started processes were stopped"
        raise
    finally:
        if spawned is not None:
            with deferred():
                end_now(spawned)


def spawn_agent(plan: LaunchPlan, secrets: Mapping[str, Secret]) -> Spawned:
    """Start the agent's process, which the caller must end; raise AgentError if it cannot be started."""
    agent = plan.agent
    argv = [str(agent.command), *(arg.reveal(secrets) for arg in agent.args)]
    env = {name: value.reveal(secrets) for name, value in agent.env.items()}
    return spawn(argv, env=env, cwd=agent.cwd, name=agent.name)


def open_env(plan: LaunchPlan) -> dict[str, str]:
    """Return the agent's environment without secrets and without the variables that acp-launch itself sets."""
    return {
        name: value.reveal({}) for name, value in plan.agent.env.items() if not value.secrets and value.origin != OURS
    }


@contextmanager
def stderr_log(settings: Settings, plan: LaunchPlan, *, echo: bool) -> Iterator[Callable[[bytes], None]]:
    """Log the agent's stderr in the state directory; with `echo` also show it, without control sequences."""
    log = LogFile(settings.state / "log", plan.profile)
    if echo:
        share(at_once=True)

    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")  # a chunk may end within a character

    def show(data: bytes, *, is_last: bool = False) -> None:
        put(harmless(uncoloured(decoder.decode(data, is_last))))

    def both(data: bytes) -> None:
        show(data)
        log(data)

    try:
        yield both if echo else log
    finally:
        if echo:
            show(b"", is_last=True)
        log.close()


class Launched(NamedTuple):
    """A plan whose servers have directories, with its guard and the process of its agent."""

    guard: Guard
    plan: LaunchPlan
    spawned: Spawned


@contextmanager
def launched(settings: Settings, plan: LaunchPlan, secrets: Mapping[str, Secret]) -> Iterator[Launched]:
    """Start the agent of a run before the modules that talk to it are imported; leaving kills what is left."""
    with (
        guard(settings, plan, "run") as watching,
        with_workdirs(settings, plan) as given,
        agent_process(given, secrets) as spawned,
    ):
        yield Launched(watching, given, spawned)


class VerbProcesses:
    """Starts processes for a verb. Made by `verb_processes`; they are ended with its block."""

    def __init__(
        self,
        settings: Settings,
        watching: Guard,
        log: Callable[[bytes], None],
        server_logs: ServerLogs,
        ending: ExitStack,
    ) -> None:
        """`log` takes an agent's stderr."""
        self.log, self.server_logs = log, server_logs
        self._settings, self._guard, self._ending = settings, watching, ending

    def agent(self, plan: LaunchPlan, secrets: Mapping[str, Secret]) -> Spawned:
        """Start the agent of a plan.

        Raises:
            AgentError: it cannot be started.
        """
        return self._ending.enter_context(agent_process(plan, secrets))

    def server(self, plan: LaunchPlan, secrets: Mapping[str, Secret]) -> tuple[LaunchPlan, Spawned]:
        """Start the server whose process is `plan.agent`, in a directory of its own if it has none.

        Returns the plan with that directory, and the process.

        Raises:
            AgentError: the server cannot be started.
            StateError: its directory cannot be made.
        """
        given = self._ending.enter_context(with_workdir(self._settings, plan))
        return given, self.agent(given, secrets)

    def needs(self, secrets: Mapping[str, Secret], offers: "Offers", log: Callable[[bytes], None]) -> "AgentNeeds":
        """Build what `launch.run.with_agent` needs besides the plan."""
        from acp_launch.launch.run import AgentNeeds

        return AgentNeeds(guard=self._guard, secrets=secrets, max_line=self._settings.max_line, log=log, offers=offers)

    def run(self, story: "Callable[[Interrupts], Coroutine[Any, Any, T]]") -> T:
        """Run an event loop that keeps the guard informed and handles signals.

        Raises:
            Stopped: a signal came.
        """
        import asyncio

        from acp_launch.launch.loop import watched

        return asyncio.run(watched(self._guard, story))


@contextmanager
def verb_processes(settings: Settings, plan: LaunchPlan, verb: str) -> Iterator[VerbProcesses]:
    """Provide a guard and logs to a verb that starts processes for one operation; leaving ends the processes.

    `verb` is the name in `ps`.
    """
    with (
        guard(settings, plan, verb) as watching,
        stderr_log(settings, plan, echo=False) as log,
        closing(ServerLogs(settings.state / "log", plan.profile)) as server_logs,
        ExitStack() as ending,
    ):
        yield VerbProcesses(settings, watching, log, server_logs, ending)


def with_agent(
    planned: "tuple[LaunchPlan, Mapping[str, Secret]]",
    settings: Settings,
    verb: str,
    story: "Callable[[Connection], Awaitable[T]]",
    offers: "Offers | None" = None,
) -> T:
    """Start the agent of a plan, do the handshake, run `story` and end the agent; `verb` is the name in `ps`.

    Raises:
        LaunchError: as for `run`.
    """
    from acp_launch.console.stream.redacted import RedactedOutput
    from acp_launch.console.stream.text import Notices
    from acp_launch.launch import run
    from acp_launch.process.spawn import require_platform
    from acp_launch.protocol.acp import Offers

    require_platform()
    plan, secrets = planned
    with verb_processes(settings, plan, verb) as processes:
        spawned = processes.agent(plan, secrets)
        needs = processes.needs(secrets, offers or Offers(), processes.log)
        return processes.run(partial(run.with_agent, plan, needs, spawned, RedactedOutput(Notices()), story))
