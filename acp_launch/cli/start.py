"""Start a plan's agent before anything that talks to it is imported, and be sure it ends, whatever becomes of us."""

import codecs
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from acp_launch.console.stderr import YELLOW, harmless, put, say, share, uncoloured
from acp_launch.errors import ProblemsError
from acp_launch.leave import deferred
from acp_launch.plan.model import OURS, LaunchPlan, StdioPlan
from acp_launch.process.guard import Guard
from acp_launch.process.logs import LogFile
from acp_launch.process.prepare import require_descriptors
from acp_launch.process.records import LaunchRecord, files
from acp_launch.process.spawn import Spawned, spawn
from acp_launch.process.tree import end_now
from acp_launch.secret.value import Secret
from acp_launch.settings.model import Settings

TOLD = 5  # names of files


@contextmanager
def guarded(settings: Settings, plan: LaunchPlan, verb: str) -> Iterator[Guard]:
    """A launch on record, with a guard: to be entered before its first child is started, and left after its last has
    ended. While an event loop runs, `process.vigil.keep` belongs into it.

    `verb` is what `ps` calls it. Whatever earlier launches left behind is ended first.

    Raises:
        Exhausted: it needs more open files than there can be.
    """
    share()
    require_descriptors(1 + sum(isinstance(server, StdioPlan) and server.required for server in plan.servers))
    _clear(settings)
    record = LaunchRecord(settings.state, _note)
    guard = Guard(record, _note)
    try:
        with deferred():  # a signal within `start` would lose what it has just started
            record.begin(verb, plan.profile)
            guard.start()
        yield guard
    finally:
        with deferred():
            guard.dismiss()
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
def housed(settings: Settings, plan: LaunchPlan) -> Iterator[LaunchPlan]:
    """The plan with a directory for each server that has none: an empty one, removed when the block is left.

    Raises:
        StateError: there is no place for them.
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
def housed_alone(settings: Settings, plan: LaunchPlan) -> Iterator[LaunchPlan]:
    """The same where `plan.agent` is the process of its only server."""
    with housed(settings, plan) as given:
        (server,) = given.servers
        assert isinstance(server, StdioPlan) and server.cwd is not None
        yield replace(given, agent=replace(given.agent, cwd=server.cwd))


def _left(server: str, names: Sequence[str]) -> None:
    shown = ", ".join([*names[:TOLD], *(["…"] if len(names) > TOLD else [])])
    what = f"mcp server {server} wrote into its own directory, which is removed now: {shown}"
    _note(harmless(f"{what}; to keep such files, give it a cwd", keep=""))


@contextmanager
def started(plan: LaunchPlan, secrets: Mapping[str, Secret]) -> Iterator[Spawned]:
    """The agent's process; leaving kills whatever of its tree is left."""
    spawned = None
    try:
        with deferred():  # a signal within `spawn` would lose the process it has just started
            spawned = spawn_agent(plan, secrets)
        yield spawned
    except ProblemsError as error:
        error.outcome = "what was started has been stopped"
        raise
    finally:
        if spawned is not None:
            with deferred():
                end_now(spawned)


def spawn_agent(plan: LaunchPlan, secrets: Mapping[str, Secret]) -> Spawned:
    """Raises AgentError when it cannot be started. Whoever calls this sees to its end."""
    agent = plan.agent
    argv = [str(agent.command), *(arg.reveal(secrets) for arg in agent.args)]
    env = {name: value.reveal(secrets) for name, value in agent.env.items()}
    return spawn(argv, env=env, cwd=agent.cwd, name=agent.name)


def open_env(plan: LaunchPlan) -> dict[str, str]:
    """The agent's environment without what holds a secret, and without what keeps the agent from the project."""
    return {
        name: value.reveal({}) for name, value in plan.agent.env.items() if not value.secrets and value.origin != OURS
    }


@contextmanager
def stderr_log(settings: Settings, plan: LaunchPlan, *, echo: bool) -> Iterator[Callable[[bytes], None]]:
    """Takes the agent's stderr into a file of the state directory; `echo` shows it too, and lets
    it do nothing to the terminal."""
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
