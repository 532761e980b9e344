"""One turn of an interactive session, and what comes from the keyboard meanwhile."""

import asyncio
from collections.abc import Callable, Sequence

from acp_launch.errors import AgentRefused, AuthRequired, LaunchError, first
from acp_launch.interactive import commands
from acp_launch.interactive.desk import Current, Desk, Leave
from acp_launch.interactive.front import Event, Interrupted, Left, Submitted
from acp_launch.interactive.showing import Showing
from acp_launch.opened import after_login
from acp_launch.protocol.acp import Capabilities
from acp_launch.session.observer import TurnEnd
from acp_launch.session.turn import Turn

INTERRUPTED = 130
TITLE = 80  # characters of the first prompt that stand in for a title


class Turning:
    def __init__(self, desk: Desk, showing: Showing, blocks: Callable[[str, Capabilities], Sequence[object]]) -> None:
        self._desk, self._showing, self._blocks = desk, showing, blocks
        self.queue: list[str] = []
        self.unanswered = ""  # the prompt that was sent and not answered
        self._turn: Turn | None = None
        self._outcome: Leave | None = None
        self._is_cancelled = False

    def dequeued(self) -> str:
        """The first of what was entered during a turn."""
        text = self.queue.pop(0)
        self._desk.front.queued(self.queue)
        return text

    async def take(self, current: Current, text: str) -> Leave | None:
        """Send a prompt and see its turn through; gives how the session is to be left, if it is.

        Raises:
            AgentError, WaitExpired: the agent died, or hung.
        """
        desk = self._desk
        try:
            blocks = self._blocks(text, current.connection.agent.capabilities)
        except LaunchError as error:
            desk.failed(error)
            desk.front.offer(text)
            return None
        self.unanswered, self._outcome, self._is_cancelled = text, None, False
        current.first_prompt = current.first_prompt or " ".join(text.split())[:TITLE]
        desk.prompted(text)
        self._showing.mood = "working"
        try:
            await self._seen_through(current, blocks)
        except (AgentRefused, AuthRequired) as error:
            desk.failed(error)
            desk.front.offer(text)
        self.unanswered = ""
        self._give_back()
        self._showing.mood = "idle"
        return self._outcome

    async def _seen_through(self, current: Current, blocks: Sequence[object]) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                running = tasks.create_task(self._run(current, blocks))
                listening = tasks.create_task(self._listen(current, running))
                running.add_done_callback(lambda done: listening.cancel())
        except BaseExceptionGroup as failures:
            raise first(failures) from None

    async def _run(self, current: Current, blocks: Sequence[object]) -> None:
        desk = self._desk

        async def prompted() -> TurnEnd:
            self._turn = Turn(
                current.connection,
                current.client,
                current.ready.session_id,
                silence=desk.plan.timeouts.silence,
                over=desk.servers.first_turn_over if current.turns == 0 else lambda: None,
            )
            return await self._turn.run(blocks)

        current.last = await after_login(prompted, current.connection, desk.needs.log_in)
        current.turns += 1
        current.room.used(current.last.title or current.first_prompt)
        await desk.observer.drain()

    async def _listen(self, current: Current, running: "asyncio.Task[None]") -> None:
        while True:
            await self._meanwhile(await self._desk.front.events.get(), current, running)

    async def _meanwhile(self, event: Event, current: Current, running: "asyncio.Task[None]") -> None:
        match event:
            case Submitted(text):
                await self._entered(text, current)
            case Interrupted() if self._is_cancelled:
                self._outcome = Leave(INTERRUPTED)
                self._desk.interrupts.hurry.set()
                running.cancel()
            case Interrupted():
                self._cancel(running)
            case Left():
                self._outcome = Leave(0)
                self._cancel(running)

    async def _entered(self, text: str, current: Current) -> None:
        """A command is carried out at once where that is possible; a prompt waits for the end of the turn."""
        if commands.is_ours(text) and commands.works_in_turn(text):
            outcome = await commands.run(self._desk, current, text)
            assert outcome is None, "what works in a turn does not end it"
            return
        self.queue.append(text)
        self._desk.front.queued(self.queue)

    def _cancel(self, running: "asyncio.Task[None]") -> None:
        """The turn, or what comes before it can be tried again: a login."""
        self._is_cancelled = True
        self._showing.mood = "cancelling"
        if self._turn is not None and self._turn.is_running:
            self._turn.cancel()
        else:
            running.cancel()

    def _give_back(self) -> None:
        """What was waiting for a turn that was cancelled is edited again: it may have been meant for its answer."""
        if self._is_cancelled and self.queue:
            self._desk.front.offer("\n".join(self.queue))
            self.queue.clear()
            self._desk.front.queued(self.queue)
