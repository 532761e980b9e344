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
    LaunchError,
    ProtocolError,
    WaitExpired,
)
from acp_launch.plan.model import InContainer, OverSsh
from acp_launch.problem import ours
from acp_launch.process.child import GRACE_SECONDS, HASTY_GRACE_SECONDS, Child, attach
from acp_launch.process.program import stop
from acp_launch.process.spawn import Spawned
from acp_launch.rpc import connected
from acp_launch.session.connection import Budget
from acp_launch.session.events import Observer, TurnEnd
from acp_launch.session.login import point_to_trace, refer_to_log


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
                return await interrupts.watch(converse(context, transport, observer, story, interrupts))
            except BaseException as error:
                failure = error
                if isinstance(error, WaitExpired | AgentError | ProtocolError):
                    _explain(error, context, child)
                    grace = HASTY_GRACE_SECONDS if isinstance(error, WaitExpired) else grace
                raise
            finally:
                interrupts.stopping()
                ending(failure)
                await stop(child, grace=grace, hurry=interrupts.hurry)


def _explain(error: LaunchError, context: LaunchContext, child: Child) -> None:
    """Add where more is to be read: the agent's last words, its log, the trace."""
    if isinstance(error, ProtocolError):
        point_to_trace(error, file_of(context.trace))
        return
    if isinstance(error, AgentError) and not isinstance(error, AgentRefused):
        if context.plan.place is not None and any(line.startswith("bwrap: ") for line in error.detail):
            error.fix = (
                f"bubblewrap could not make the agent's place; to try that: {ours('doctor', context.plan.called)}"
            )
        elif context.plan.place is not None and (there := context.plan.place.elsewhere) is not None:
            status = child.exit.status if child.exit else None
            explain_elsewhere(error, there, str(context.plan.place.program), status, context.plan.called)
        return
    last_words = child.stderr_tail()
    error.detail = (*error.detail, *last_words)
    refer_to_log(error, context.plan.called, file_of(context.trace), has_log=bool(last_words))


SSH_FAILED, ENGINE_FAILED, CANNOT_RUN, NOT_FOUND = 255, 125, 126, 127  # exit statuses
_WORDS_OF_HALF = "acp-launch: "


def explain_elsewhere(
    error: AgentError, there: InContainer | OverSsh, program: str, status: int | None, called: str
) -> None:
    """Say what failed on the way to an agent elsewhere: `program`, the engine or ssh, or what is to run there."""
    trial = f"to try each part: {ours('doctor', called)}"
    said = next((line for line in reversed(error.detail) if line.startswith(_WORDS_OF_HALF)), "")
    if isinstance(there, OverSsh) and status == SSH_FAILED:
        error.message = f"there is no connection to {there.host}, or it was lost ({error.message})"
        error.fix = f"see whether `ssh {there.host} true` works without a question; {trial}"
    elif isinstance(there, InContainer) and status == ENGINE_FAILED:
        error.message = f"{program} could not start the container of {there.image}"
        is_missing = any(
            word in " ".join(error.detail).lower() for word in ("not known", "no such image", "unable to find")
        )
        error.fix = f"fetch the image: {program} pull {there.image}; or write pull: missing" if is_missing else trial
    elif status in (CANNOT_RUN, NOT_FOUND) and said:
        error.message = said.removeprefix(_WORDS_OF_HALF)
        error.detail = tuple(line for line in error.detail if line != said)
        error.fix = f"install it there, or correct the profile; {trial}"
    else:
        error.message = f"{error.message} ({there.words})"


async def run_prompt(context: LaunchContext, prompt: Prompt, spawned: Spawned, observer: Observer) -> TurnEnd:
    """Run one turn with the agent that was started, and end the agent; its servers run on.

    Raises:
        LaunchError: see the tree in `errors`; `Stopped` after a signal.
        ServerError: a required server has failed, or does not answer; then the agent has not got the prompt.
    """
    async with conversation(context, observer, spawned, budget=Budget(prompt.timeout)) as launch:
        return await run_once(launch, partial(open_and_prompt, launch, prompt))
