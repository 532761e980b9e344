"""The surroundings of a launch's own agent: guards, signals, servers, its process, and the end of all of them."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from acp_launch.engine.context import LaunchContext
from acp_launch.engine.loop import EVERY, Interrupts, supervise
from acp_launch.engine.run import Ending, Launch, Prompt, Story, T, converse, file_of, open_and_prompt, run_once
from acp_launch.engine.servers import LaunchServers, launch_servers
from acp_launch.errors import (
    AgentError,
    AgentRefused,
    ContainerFailed,
    LaunchError,
    ProtocolError,
    WaitExpired,
)
from acp_launch.plan.model import InContainer, OverSsh, Place
from acp_launch.problem import ours
from acp_launch.process.child import GRACE_SECONDS, HASTY_GRACE_SECONDS, Child, attach
from acp_launch.process.program import stop
from acp_launch.process.spawn import Spawned
from acp_launch.rpc import connected
from acp_launch.session.connection import Budget
from acp_launch.session.events import Observer, TurnEnd
from acp_launch.session.login import point_to_trace, refer_to_log
from acp_launch.waits import is_asking


class AgentLaunch(Launch):
    """A launch with an agent of its own. Made by `conversation`."""

    def __init__(
        self,
        context: LaunchContext,
        observer: Observer,
        interrupts: Interrupts,
        servers: LaunchServers,
        spawned: Spawned | None = None,
    ) -> None:
        """`spawned` is the first agent; without it the first is started when it is wanted."""
        super().__init__(context, observer, interrupts, servers)
        self._spawned = spawned

    async def meet(self, story: Story[T], ending: Ending) -> T:
        spawned, self._spawned = self._spawned, None
        if spawned is None:
            assert self.context.respawn is not None, "its agent may be restarted"
            spawned = self.context.respawn()
        self.agent_process = spawned.process
        return await with_agent(self.context, spawned, self.observer, story, self.interrupts, ending)


@asynccontextmanager
async def conversation(
    context: LaunchContext,
    observer: Observer,
    spawned: Spawned,
    *,
    on_interrupt: Callable[[], None] | None = None,
    budget: Budget | None = None,
    every: float = EVERY,
    may_change: bool = False,
) -> AsyncIterator[Launch]:
    """Run the surroundings of an agent: guards, signals and servers. SIGINT calls `on_interrupt`, if given.

    `spawned` is the agent, which was started already.

    The guards hear of processes `every` so many seconds. `Launch.reload` is for servers that `may_change`.

    Raises:
        LaunchError: see the tree in `errors`; `Stopped` after a signal.
    """
    assert context.guard is not None, "servers are about to start"
    async with (
        supervise(context.guard, on_interrupt, budget=budget, every=every) as interrupts,
        launch_servers(context, observer, interrupts, may_change=may_change) as servers,
    ):
        is_orderly = False
        try:
            yield AgentLaunch(context, observer, interrupts, servers, spawned)
            is_orderly = True
        finally:
            servers.stopping(is_orderly=is_orderly)
        interrupts.check()


async def with_agent(
    context: LaunchContext,
    spawned: Spawned,
    observer: Observer,
    story: Story[T],
    interrupts: Interrupts,
    ending: Ending = lambda error: None,
) -> T:
    """Do the handshake with a started agent, run `story`, and stop the agent however the story ends.

    `ending` is called before the agent is stopped, with the story's error, or None after an orderly end.

    Raises:
        LaunchError: see the tree in `errors`; `Stopped` after a signal.
    """
    failure: BaseException | None = None
    grace = GRACE_SECONDS if context.grace is None else context.grace
    async with attach(spawned, log=context.log) as child:
        with connected(child, context.trace) as transport:
            try:
                stalled = partial(_find_wait, context.plan.place, spawned)
                return await interrupts.watch(converse(context, transport, observer, story, interrupts, stalled))
            except BaseException as error:
                failure = error
                if isinstance(error, WaitExpired | AgentError | ProtocolError):
                    failure = _explain(error, context, child)
                    grace = HASTY_GRACE_SECONDS if isinstance(error, WaitExpired) else grace
                if failure is not error:
                    raise failure from None
                raise
            finally:
                grace = HASTY_GRACE_SECONDS if spawned.awaits_container() else grace
                interrupts.stopping()
                ending(failure)
                await stop(child, grace=grace, hurry=interrupts.hurry)


def _find_wait(where: Place | None, spawned: Spawned) -> LaunchError | None:
    """Find that an agent is silent because the engine of its container is still at work, or ssh waits for the user."""
    there = where.elsewhere if where else None
    if isinstance(there, OverSsh) and is_asking():
        return AgentError(f"ssh waits for an answer, to reach {there.host}", fix="answer in time, or ssh-add the key")
    if where is None or not isinstance(there, InContainer) or spawned.poll() is not None:
        return None
    if not spawned.awaits_container():
        return None
    what = f"{there.engine} has not made the container of {there.image} yet"
    return AgentError(what, fix=f"see whether it answers: {where.program} info")


def _explain(error: LaunchError, context: LaunchContext, child: Child) -> LaunchError:
    """Add where more is to be read: the agent's last words, its log, the trace."""
    if isinstance(error, ProtocolError):
        point_to_trace(error, file_of(context.trace))
        return error
    if isinstance(error, AgentError) and not isinstance(error, AgentRefused):
        status = child.exit.status if child.exit else None
        if context.plan.place is not None:
            explain_place(error, context.plan.place, child, context.plan.called)
        if status == ENGINE_FAILED and child.spawned.awaits_container():
            return ContainerFailed(error.message, fix=error.fix, detail=error.detail)
        return error
    if context.plan.machine:
        error.message = f"{error.message} ({context.plan.machine})"
    last_words = child.stderr_tail()
    error.detail = (*error.detail, *last_words)
    refer_to_log(error, context.plan.called, file_of(context.trace), has_log=bool(last_words))
    return error


SSH_FAILED, ENGINE_FAILED, CANNOT_RUN, NOT_FOUND = 255, 125, 126, 127  # exit statuses
_WORDS_OF_HALF = "acp-launch: "
_WAS_KILLED = "program was killed"  # said by the other one of the two there (`bridge.half`)
_SILENT = "the line to {host} was silent for too long"
_LINE_FIX = "see whether the network and {host} are up; a machine that sleeps is silent, too"
_WORDS_OF_NO_ENGINE = ("connect to", "during connect")  # of podman and docker, in all versions
# What ssh says when it fails with 255, what that means for the host, and what mends it.
_SSH_WORDS = (
    (
        "port forwarding failed",
        "{host} does not let ssh forward a socket, over which the agent reaches its MCP servers",
        "set AllowStreamLocalForwarding yes in sshd_config there; or sort out why /tmp there cannot be written",
    ),
    (
        "has changed and you",
        "the host key of {host} is not the one known here",
        "find out why, and remove the old one by ssh-keygen -R",
    ),
    (
        "Host key verification failed",
        "the host key of {host} is not known and was not accepted; ssh asks about it on a terminal only",
        "log in once on a terminal, and compare the key: ssh {host}",
    ),
    (
        "Permission denied",
        "{host} accepts no key that ssh can use without a question, and got no right answer",
        "load the key into your ssh agent: ssh-add; or answer on a terminal, with OpenSSH 8.4 or newer",
    ),
    ("Could not resolve hostname", "ssh knows no host {host}", "name it in ~/.ssh/config, or correct runtime.ssh.host"),
    ("not responding", _SILENT, _LINE_FIX),
    ("the line was silent", _SILENT, _LINE_FIX),
    (_WAS_KILLED, "the program on {host} that the agent runs below was killed", "see why: was memory short there?"),
    ("Killed by signal", "ssh, which leads to the agent on {host}, was ended by a signal", ""),
)
# What the program on another machine says when it cannot start the agent, and what mends it.
_SSH_CURES = (
    ("runtime.ssh.python", "install Python 3.8 or later there, or name it: runtime.ssh.python"),
    ("the directory ", "make it there, or correct runtime.ssh.directory"),
    ("the seat ", "sort out why it cannot be made in /tmp there"),
)
_CURE = "install it there, or correct the profile"


def explain_place(error: AgentError, where: Place, child: Child, called: str = "") -> None:
    """Say what failed on the way to an agent that is not simply here. `called` is for advice to run `doctor`."""
    status = child.exit.status if child.exit else None
    trial = f"to try each part: {ours('doctor', called)}" if called else ""
    said = next((line for line in reversed(error.detail) if line.startswith(_WORDS_OF_HALF)), "")
    there = where.elsewhere
    if there is None:
        if called and any(line.startswith("bwrap: ") for line in error.detail):
            error.fix = f"bubblewrap could not make the agent's place; to try that: {ours('doctor', called)}"
    elif child.spawned.is_killed:
        client = f"{where.program.name}, which leads to the agent {there.words},"
        error.message = error.message.replace("the agent", client, 1)
    elif isinstance(there, OverSsh) and (status == SSH_FAILED or _WAS_KILLED in said):
        _explain_ssh(error, there, trial)
    elif isinstance(there, InContainer) and status == ENGINE_FAILED:
        error.message = f"{where.program} could not start the container of {there.image}"
        told = " ".join(error.detail).lower()
        down = next((line for line in error.detail if any(word in line for word in _WORDS_OF_NO_ENGINE)), "")
        if down:
            error.message = f"{there.engine} does not answer: {down}"
            trial = "start its daemon, or choose another one: runtime.container.engine"
        elif any(word in told for word in ("not known", "no such image", "unable to find")):
            trial = f"fetch the image: {where.program} pull {there.image}; or write pull: missing"
        elif any(word in told for word in ("reference format", "lowercase")):
            trial = "correct runtime.container.image"
        error.fix = trial
    elif said and status in (CANNOT_RUN, NOT_FOUND):
        message = said.removeprefix(_WORDS_OF_HALF)
        error.message = message if message.endswith(there.words) else f"{message} {there.words}"
        error.detail = tuple(line for line in error.detail if line != said)
        cures = _SSH_CURES if isinstance(there, OverSsh) else ()
        cure = next((cure for words, cure in cures if words in message), _CURE)
        error.fix = "; ".join(filter(None, (cure, trial)))
    else:
        error.message = f"{error.message} ({there.words})"


def _explain_ssh(error: AgentError, there: OverSsh, trial: str) -> None:
    """Explain a failure of ssh by its words, or by those of the program there."""
    said = " ".join(error.detail)
    message = f"there is no connection to {there.host}, or it was lost"
    fix = f"see whether this works without a question: ssh -o BatchMode=yes {there.host} true"
    for words, means, mends in _SSH_WORDS:
        if words in said:
            message, fix = means.format(host=there.host), mends.format(host=there.host)
            break
    error.message = f"{message} ({error.message})"
    error.fix = "; ".join(filter(None, (fix, trial)))


async def run_prompt(context: LaunchContext, prompt: Prompt, spawned: Spawned, observer: Observer) -> TurnEnd:
    """Run one turn with the agent that was started, and end the agent; its servers run on.

    Raises:
        LaunchError: see the tree in `errors`; `Stopped` after a signal.
        ServerError: a required server has failed, or does not answer; then the agent has not got the prompt.
    """
    async with conversation(context, observer, spawned, budget=Budget(prompt.timeout)) as launch:
        return await run_once(launch, partial(open_and_prompt, launch, prompt))
