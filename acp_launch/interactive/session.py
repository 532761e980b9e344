"""
The order of an interactive session: agent after agent, session after session, turn by turn.

The agent is restarted when it died or when a login requires it, and its session is resumed with its history hidden.
Its servers are restarted with it, because a server process has one conversation, which ended with the agent
(`bridge.servers`). Unanswered prompts are offered for editing, and never sent automatically.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import asdict

from acp_launch.console.ask.terminal import StillClock
from acp_launch.console.stderr import DIM
from acp_launch.engine.run import Launch, RestartAgent, after_login
from acp_launch.errors import AgentRefused, AuthRequired, LaunchError, Stopped, WaitExpired, first
from acp_launch.interactive import commands
from acp_launch.interactive.application import Application
from acp_launch.interactive.lines import LineFront
from acp_launch.interactive.state import (
    ActiveSession,
    FrontUpdates,
    InteractiveState,
    Leave,
    LockedSession,
    Outcome,
    SessionSetup,
    is_first_time,
    is_the_end,
)
from acp_launch.interactive.terminal import (
    Began,
    Cancelled,
    Event,
    Front,
    HungUp,
    Interrupted,
    Left,
    Pressed,
    Redirected,
    Submitted,
    Unqueued,
    can_draw,
)
from acp_launch.protocol import acp
from acp_launch.protocol.acp import Capabilities
from acp_launch.session.attachments import describe
from acp_launch.session.client import Turn
from acp_launch.session.connection import Connection
from acp_launch.session.events import Choice, Observer, Person, TurnEnd, show_note
from acp_launch.session.opening import Setting
from acp_launch.settings.model import AttentionSettings
from acp_launch.waits import stretch

# The routing of keyboard events. There is always a handler, so Ctrl-C always works.


EventHandler = Callable[[Event], None]
T = TypeVar("T")


class GivenUp(Exception):  # noqa: N818 - not an error: the user interrupted
    """Raised when the user interrupts a wait; `leaves` if the user ends the session."""

    def __init__(self, *, leaves: bool) -> None:
        super().__init__()
        self.leaves = leaves


class KeyboardFocus:
    """Routes keyboard events to one handler at a time."""

    def __init__(self, front: Front, otherwise: EventHandler) -> None:
        """`otherwise` handles events that no other handler takes."""
        self._front = front
        self._handler = self._otherwise = otherwise

    async def pump(self) -> None:
        """Pass on every event, until cancelled."""
        while True:
            event = await self._front.events.get()
            self._handler(event)  # the handler may have changed while waiting

    @contextmanager
    def of(self, handler: EventHandler) -> Iterator[None]:
        """Route events to `handler` while the block runs."""
        before, self._handler = self._handler, handler
        try:
            yield
        finally:
            self._handler = before

    async def while_waiting(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`; text entered until then is queued.

        Raises:
            GivenUp: after Escape, Ctrl-C or the end of input.
        """
        running = asyncio.ensure_future(work)
        given_up: list[GivenUp] = []

        def on_event(event: Event) -> None:
            match event:
                case Cancelled() | Interrupted() | Left():
                    given_up.append(GivenUp(leaves=isinstance(event, Left)))
                    running.cancel()
                case _:
                    self._otherwise(event)

        with self.of(on_event):
            try:
                return await running
            except asyncio.CancelledError:
                if not given_up or not running.cancelled():
                    raise
                raise given_up[0] from None


# A turn of an interactive session, and the keyboard events during it.


HANGUP = 129
TITLE = 80  # characters of the first prompt used as a title


class InteractiveTurn:
    """Sends prompts and handles events during a turn."""

    def __init__(self, interactive: InteractiveState, showing: FrontUpdates, focus: KeyboardFocus) -> None:
        self._interactive, self._showing, self._focus = interactive, showing, focus
        self.queue: list[str] = []
        self._unanswered = ""  # the prompt that is sent and not answered yet
        self._turn: Turn | None = None
        self._running: asyncio.Task[None] | None = None
        self._outcome: Leave | None = None
        self._is_cancelled = self._is_redirected = False

    def enter(self, text: str) -> None:
        """Queue a prompt that was entered during other work."""
        self.queue.append(text)
        self._interactive.front.queued(self.queue)

    def dequeue(self) -> str:
        text = self.queue.pop(0)
        self._interactive.front.queued(self.queue)
        return text

    def take_back(self) -> None:
        """Put the last queued prompt back on the line, if it is not sent yet."""
        if self.queue:
            text = self.queue.pop()
            self._interactive.front.queued(self.queue)
            self._interactive.front.take_back(text)

    def give_back(self) -> str:
        """Return the unanswered prompt and all queued ones: none of them is sent automatically."""
        parts = [self._unanswered, *self.queue]
        self._unanswered = ""
        self.queue.clear()
        self._interactive.front.queued(self.queue)
        return "\n".join(filter(None, parts))

    async def run(self, current: ActiveSession, text: str) -> Leave | None:
        """Send a prompt and wait for the end of its turn. Return how the session is left, if it is.

        Raises:
            AgentError, WaitExpired: the agent died, or hung.
        """
        interactive = self._interactive
        try:
            blocks = interactive.blocks(text, current.connection.agent.capabilities)
        except LaunchError as error:
            interactive.show_error(error)
            interactive.front.offer(text)
            return None
        self._unanswered = text
        current.first_prompt = current.first_prompt or " ".join(text.split())[:TITLE]
        interactive.show_prompt(text)
        if blocks[1:]:
            current.attached.append(describe(blocks[1:]))
            interactive.say(f"attached: {current.attached[-1]}", DIM)
        current.held_session.is_used = True
        await self._await_turn(current, blocks)
        self._unanswered = ""
        is_offered = self._is_cancelled and not self._is_redirected
        if is_offered and self.queue:  # the queued text may refer to the cancelled answer
            interactive.front.offer(self.give_back())
        self._showing.phase = "idle"
        return self._outcome

    async def join(self, current: ActiveSession, text: str) -> Leave | None:
        """Show a turn to its end that another front of the host has begun with the prompt `text`."""
        self._interactive.show_prompt(text)
        await self._await_turn(current, None)
        self._showing.phase = "idle"
        return self._outcome

    async def _await_turn(self, current: ActiveSession, blocks: Sequence[object] | None) -> None:
        self._outcome, self._is_cancelled, self._is_redirected = None, False, False
        self._showing.phase = "working"
        try:
            await self._run_beside_commands(current, blocks)
        except (AgentRefused, AuthRequired) as error:
            self._interactive.show_error(error)
            if self._unanswered:
                self._interactive.front.offer(self.give_back())
        except WaitExpired:
            if self._outcome is None:  # else the user leaves, and the agent is not needed
                raise

    async def _run_beside_commands(self, current: ActiveSession, blocks: Sequence[object] | None) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                running = tasks.create_task(self._run(current, blocks))
                beside: set[asyncio.Task[None]] = set()  # commands entered in a turn

                def on_event(event: Event) -> None:
                    if work := self._handle(event, running, current):
                        task = tasks.create_task(work)
                        beside.add(task)
                        task.add_done_callback(beside.discard)

                self._running = running
                with self._focus.of(on_event):
                    await asyncio.wait({running})
                for task in beside:
                    task.cancel()
        except BaseExceptionGroup as failures:
            raise first(failures) from None

    async def _run(self, current: ActiveSession, blocks: Sequence[object] | None) -> None:
        interactive, prompt = self._interactive, acp.prompt_text(blocks or ())
        broken = partial(current.held_session.keeper.store_broken_turn, prompt)

        async def send() -> TurnEnd:
            self._turn = interactive.launch.turn(current.session, is_first=current.turns == 0, broken=broken)
            return await self._turn.run(blocks)

        current.last = await after_login(send, current.connection, interactive.launch.context.log_in)
        current.turns += 1
        current.held_session.keeper.store_turn(prompt, current.last, current.first_prompt)
        await interactive.observer.drain()

    def _handle(
        self, event: Event, running: "asyncio.Task[None]", current: ActiveSession
    ) -> Coroutine[Any, Any, None] | None:
        """Return work to do during the turn, if any."""
        match event:
            case Submitted(text) if commands.is_for_us(text, current) and commands.works_in_turn(text):
                return self._carried_out(text, current)
            case Submitted(text):
                self.enter(text)
            case Unqueued():
                self.take_back()
            case Redirected():
                while self.queue:
                    self.take_back()
                self._is_redirected = True
                self._cancel(running)
            case Pressed(key):
                return commands.press(self._interactive, current, key)
            case HungUp() if self._interactive.launch.outlives_terminal:
                self._outcome = Leave(HANGUP)  # the host knows whether the turn goes on
                running.cancel()
            case Cancelled() | Interrupted() | Left():
                self._end(event, running)
        return None

    def _end(self, event: Event, running: "asyncio.Task[None]") -> None:
        """Cancel the turn, and leave the session if the key says so."""
        if isinstance(event, Interrupted) and self._is_cancelled:
            self._outcome = Leave(INTERRUPTED)
            self._interactive.launch.interrupts.hurry.set()
            running.cancel()
            return
        if isinstance(event, Left):
            self._outcome = Leave(0)
        if not (isinstance(event, Cancelled) and self._is_cancelled):
            self._cancel(running)

    async def _carried_out(self, text: str, current: ActiveSession) -> None:
        outcome = await commands.run(self._interactive, current, text)
        if isinstance(outcome, Leave):  # without an end of the turn
            self._outcome = outcome
            if self._running is not None:
                self._running.cancel()

    def _cancel(self, running: "asyncio.Task[None]") -> None:
        """Cancel the turn, or the login before it is tried again."""
        self._is_cancelled = True
        self._showing.phase = "cancelling"
        if self._turn is not None and self._turn.is_running:
            self._turn.cancel()
        else:
            running.cancel()


# Asking whether to restart an agent that died or hung during a session.


LEAVE = Choice("n", "Leave")
RESTART_CHOICES = (Choice("y", "Restart it and resume this session"), LEAVE)
ANEW = (Choice("y", "Restart it with a new session; it cannot resume this one"), LEAVE)


def can_go_on(able: Capabilities) -> bool:
    """Return whether such an agent can resume a session."""
    return able.load or able.resume


async def ask_to_restart(able: Capabilities, person: Person, focus: KeyboardFocus) -> bool:
    """Ask the user. `able` are the agent's capabilities.

    Raises:
        Stopped: after a SIGINT.
    """

    async def choose() -> str | None:
        async with person.floor():
            return await person.choose("The agent has ended.", RESTART_CHOICES if can_go_on(able) else ANEW)

    try:
        return await focus.while_waiting(choose()) == "y"
    except GivenUp as given_up:
        if given_up.leaves:
            return False
        raise Stopped("stopped", signal_number=signal.SIGINT) from None


TWICE = stretch(2.0)  # seconds within which a second Ctrl-C leaves
INTERRUPTED = 130


# Provides the launch: takes the observer, and what a SIGINT calls.
Launching = Callable[[Observer, Callable[[], None]], AbstractAsyncContextManager[Launch]]


def choose_front(
    history: Path, attention: AttentionSettings | None = None, *, profile: str = "", clock: StillClock | None = None
) -> Front:
    """Return the front for this terminal; call it within the event loop. `history` is the file with this project's
    prompts; the rest is as `Application` says."""
    if can_draw():
        return Application(history, attention=attention, profile=profile, clock=clock)

    return LineFront(clock)


async def run_session(launching: Launching, setup: SessionSetup) -> int:
    """Run until the user leaves; return the exit code.

    Raises:
        LaunchError: as the tree in `errors` says; `Stopped` after a signal.
    """
    front = setup.front
    try:
        async with launching(setup.observer, front.interrupt) as launch, asyncio.TaskGroup() as tasks:
            tasks.create_task(_show(front, setup.shown), name="front")
            story = _InteractiveSession(InteractiveState(launch=launch, **asdict(setup)))
            keyboard = tasks.create_task(story.focus.pump(), name="keyboard")
            try:
                return await story.run()
            finally:
                keyboard.cancel()
                front.close()
                setup.shown.set()
    except BaseExceptionGroup as failures:
        raise first(failures) from None


async def _show(front: Front, shown: asyncio.Event) -> None:
    await shown.wait()
    await front.run()


class _InteractiveSession:
    def __init__(self, interactive: InteractiveState) -> None:
        self._interactive = interactive
        self._showing = FrontUpdates(interactive, commands.words())
        self.focus = KeyboardFocus(interactive.front, self._while_starting)
        self._turning = InteractiveTurn(interactive, self._showing, self.focus)
        self._inbox: asyncio.Queue[Event] = asyncio.Queue()  # events while nothing runs
        interactive.launch.began = lambda text: self._inbox.put_nowait(Began(text))
        interactive.launch.asked = self._note_question
        self._can_resume = False
        self._interrupted = 0.0  # loop time of the last Ctrl-C without an effect
        interactive.output.changed = self._showing.refresh_soon

    def _note_question(self, is_asked: bool) -> None:
        self._interactive.output.tracker.is_asked_elsewhere = is_asked  # where it is asked here, the front says so
        self._showing.refresh_soon()

    async def run(self) -> int:
        interactive, launch = self._interactive, self._interactive.launch

        def note_end(error: BaseException | None) -> None:
            if error is None:  # the user leaves, so no server is started again for the next connection of the agent
                launch.servers.stopping(is_orderly=True)

        try:
            return await launch.run(self._talk, self._again, note_end)
        finally:
            self._showing.close()
            held_session = interactive.held_session
            if self._can_resume and held_session.is_used:
                interactive.say(f"resume: {interactive.resume(held_session.name)}")
            held_session.leave()

    def _while_starting(self, event: Event) -> None:
        """Handle events before a session is open, and between two agents: Ctrl-C ends, as in a run with one prompt."""
        match event:
            case Submitted(text):
                self._turning.enter(text)
            case Unqueued():
                self._turning.take_back()
            case Interrupted() | Left():
                self._interactive.launch.interrupts.interrupt()

    async def _again(self, error: Exception | None) -> bool:
        """Return whether the agent is to be restarted: for a login, or if the user wants it after its end."""
        interactive = self._interactive
        if isinstance(error, RestartAgent):
            interactive.say("restarting the agent, so that it uses the login")
            interactive.replay = False
            return True
        if not isinstance(error, LaunchError) or isinstance(error, AgentRefused) or interactive.current is None:
            return False
        interactive.replay = False
        return await interactive.launch.interrupts.watch(self._restart(error, interactive.current))

    async def _restart(self, error: LaunchError, current: ActiveSession) -> bool:
        """Ask whether to restart an agent that died or hung. One that never opened a session is not restarted."""
        interactive = self._interactive
        able = current.connection.agent.capabilities
        interactive.current = None
        interactive.show_error(error)
        self._showing.phase = "down"
        is_wanted = await ask_to_restart(able, interactive.front.person, self.focus)
        if is_wanted and not can_go_on(able):
            interactive.held_session.leave()
            interactive.held_session = interactive.held_sessions.fresh()
        if is_wanted and (unanswered := self._turning.give_back()):
            interactive.front.offer(unanswered)
            interactive.say("the unanswered prompt is back in the input; edit or send it again")
        return is_wanted

    async def _talk(self, connection: Connection) -> int:
        interactive, self._showing.phase = self._interactive, "starting"
        self._can_resume = can_go_on(connection.agent.capabilities)
        wanted_options = [*interactive.wanted_options, *interactive.chosen]
        current = await self._enter(connection, interactive.held_session, wanted_options)
        if is_first_time(interactive.seen):
            interactive.say(commands.FIRST, DIM)
        try:
            while True:
                interactive.current = current
                self._showing.phase = "idle"
                outcome = await self._converse(current)
                if isinstance(outcome, Leave):
                    return outcome.code
                current = await self._move(current, outcome.held_session)
        finally:
            await current.leaving.aclose()

    async def _enter(
        self, connection: Connection, held_session: LockedSession, wanted_options: Sequence[Setting]
    ) -> ActiveSession:
        interactive, leaving = self._interactive, AsyncExitStack()
        interactive.output.is_history_hidden = not interactive.replay
        request = interactive.launch.completed(held_session.request(wanted_options, replay=interactive.replay))
        opening = interactive.launch.session(connection, request, changed=self._showing.refresh_soon)
        try:
            session = await leaving.enter_async_context(opening)
            held_session.note_open()
            interactive.launch.log_in = interactive.launch.context.log_in  # for the next restart
            interactive.held_sessions.records()  # for completion
        except BaseException:
            await leaving.aclose()
            raise
        return ActiveSession(session, held_session, leaving)

    async def _move(self, current: ActiveSession, held_session: LockedSession) -> ActiveSession:
        """Switch to another session, or stay in this one if the other cannot be opened."""
        interactive, self._showing.phase = self._interactive, "starting"
        interactive.replay = True
        entering = self._enter(current.connection, held_session, ())
        try:
            entered = await self.focus.while_waiting(entering)
        except (LaunchError, RestartAgent, GivenUp) as error:
            held_session.leave()
            if isinstance(error, RestartAgent) or (isinstance(error, LaunchError) and is_the_end(error)):
                raise
            current.client.attend()
            self._tell_why(error)
            return current
        await self._leave_session(current)
        interactive.held_session, interactive.wanted_options = held_session, ()
        interactive.chosen.clear()
        return entered

    async def _leave_session(self, current: ActiveSession) -> None:
        """Leave a session, and let the agent free its resources."""
        await current.leaving.aclose()
        connection, limit = current.connection, self._interactive.launch.plan.timeouts.session
        if connection.agent.capabilities.close:
            call = connection.conversation.end("close", current.session.ready.session_id)
            try:
                await connection.call(call, what="answer to session/close from the agent", limit=limit)
            except AgentRefused as error:
                show_note(
                    self._interactive.observer,
                    f"the session {current.held_session.name} was left open: {error.message}",
                )
        current.held_session.leave()

    def _tell_why(self, error: LaunchError | GivenUp) -> None:
        if isinstance(error, LaunchError):
            self._interactive.show_error(error)
            return
        self._interactive.say("cancelled")
        if error.leaves:
            self._inbox.put_nowait(Left())

    async def _converse(self, current: ActiveSession) -> Outcome:
        while True:
            outcome: Outcome | None
            match await self._next(current):
                case Leave() as left:
                    return left
                case Pressed(key):
                    outcome = await self._carried_out(commands.press(self._interactive, current, key))
                case Submitted(text) if commands.is_for_us(text, current):
                    outcome = await self._carried_out(commands.run(self._interactive, current, text))
                case Submitted(text):
                    outcome = await self._turning.run(current, commands.prompt_of(text))
                case Began(text):
                    outcome = await self._turning.join(current, text)
            if outcome is not None:
                return outcome

    async def _carried_out(self, running: Coroutine[Any, Any, Outcome | None]) -> Outcome | None:
        try:
            return await self.focus.while_waiting(running)
        except GivenUp as error:
            self._tell_why(error)
            return None
        finally:
            self._showing.refresh()

    async def _next(self, current: ActiveSession) -> Submitted | Pressed | Began | Leave:
        """Return what the user wants next.

        Raises:
            AgentError: the agent ended.
        """
        if self._turning.queue:
            return Submitted(self._turning.dequeue())
        while True:
            with self.focus.of(self._inbox.put_nowait):
                event = await current.connection.race_with_close(self._inbox.get())
            match event:
                case Submitted() | Pressed() | Began():
                    self._interrupted = 0.0
                    return event
                case Left():
                    return Leave(0)
                case Interrupted():
                    now = asyncio.get_running_loop().time()
                    if now - self._interrupted < TWICE:
                        return Leave(INTERRUPTED)
                    self._interrupted = now
                    self._interactive.say("to end the session: Ctrl-C again, or Ctrl-D")
