"""One turn of an interactive session, and what comes from the keyboard meanwhile."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from acp_launch.console.stderr import DIM
from acp_launch.errors import AgentRefused, AuthRequired, LaunchError, WaitExpired, first
from acp_launch.interactive import commands
from acp_launch.interactive.attention import Attention
from acp_launch.interactive.desk import Current, Desk, Leave
from acp_launch.interactive.front import Event, Interrupted, Left, Submitted
from acp_launch.interactive.showing import Showing
from acp_launch.opened import after_login
from acp_launch.protocol.acp import Capabilities
from acp_launch.session.observer import TurnEnd
from acp_launch.session.prompt.attachments import Block, told
from acp_launch.session.turn import Turn

INTERRUPTED = 130
TITLE = 80  # characters of the first prompt that stand in for a title


class Turning:
    def __init__(
        self,
        desk: Desk,
        showing: Showing,
        attention: Attention,
        blocks: Callable[[str, Capabilities], Sequence[Block]],
    ) -> None:
        self._desk, self._showing, self._attention, self._blocks = desk, showing, attention, blocks
        self.queue: list[str] = []
        self._unanswered = ""  # the prompt that was sent and not answered
        self._turn: Turn | None = None
        self._outcome: Leave | None = None
        self._is_cancelled = False

    def enter(self, text: str) -> None:
        """What was entered while something else goes on: its turn comes."""
        self.queue.append(text)
        self._desk.front.queued(self.queue)

    def dequeued(self) -> str:
        """The first of what was entered during a turn."""
        text = self.queue.pop(0)
        self._desk.front.queued(self.queue)
        return text

    def give_back(self) -> str:
        """What was not answered, with all that waited for its answer: nothing of it is sent by itself."""
        parts = [self._unanswered, *self.queue]
        self._unanswered = ""
        self.queue.clear()
        self._desk.front.queued(self.queue)
        return "\n".join(filter(None, parts))

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
        self._unanswered, self._outcome, self._is_cancelled = text, None, False
        current.first_prompt = current.first_prompt or " ".join(text.split())[:TITLE]
        desk.prompted(text)
        if blocks[1:]:
            desk.say(f"attached: {told(blocks[1:])}", DIM)
        self._showing.mood = "working"
        try:
            await self._seen_through(current, blocks)
        except (AgentRefused, AuthRequired) as error:
            desk.failed(error)
            desk.front.offer(self.give_back())
        except WaitExpired:
            if self._outcome is None:  # else nobody wants the agent back
                raise
        self._unanswered = ""
        if self._is_cancelled and self.queue:  # it may have been meant for the answer
            desk.front.offer(self.give_back())
        self._showing.mood = "idle"
        return self._outcome

    async def _seen_through(self, current: Current, blocks: Sequence[object]) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                running = tasks.create_task(self._run(current, blocks))
                beside: set[asyncio.Task[None]] = set()  # commands that were entered meanwhile

                def take(event: Event) -> None:
                    if work := self._taken(event, running, current):
                        task = tasks.create_task(work)
                        beside.add(task)
                        task.add_done_callback(beside.discard)

                with self._attention.of(take):
                    await asyncio.wait({running})
                for task in beside:
                    task.cancel()
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

    def _taken(self, event: Event, running: "asyncio.Task[None]", current: Current) -> Coroutine[Any, Any, None] | None:
        """What is to be done beside the turn, if anything."""
        match event:
            case Submitted(text) if commands.is_ours(text) and commands.works_in_turn(text):
                return self._carried_out(text, current)
            case Submitted(text):
                self.enter(text)
            case Interrupted() if self._is_cancelled:
                self._outcome = Leave(INTERRUPTED)
                self._desk.interrupts.hurry.set()
                running.cancel()
            case Interrupted():
                self._cancel(running)
            case Left():
                self._outcome = Leave(0)
                self._cancel(running)
        return None

    async def _carried_out(self, text: str, current: Current) -> None:
        outcome = await commands.run(self._desk, current, text)
        assert outcome is None, "what works in a turn does not end it"

    def _cancel(self, running: "asyncio.Task[None]") -> None:
        """The turn, or what comes before it can be tried again: a login."""
        self._is_cancelled = True
        self._showing.mood = "cancelling"
        if self._turn is not None and self._turn.is_running:
            self._turn.cancel()
        else:
            running.cancel()
