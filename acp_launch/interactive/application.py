"""
The front of an interactive session on a terminal: a prompt, a status line, questions, and the canvas above them.

prompt_toolkit reads keys and draws. It runs in our event loop and handles only the signals of the terminal (a new size,
a stop and its end). It never asks the terminal for the cursor position, because the answer would mix with the keys.
Whichever way `run` ends, by `close`, by an exception or by a cancellation, the terminal is restored; after `kill -9` it
is not, and `reset` or `stty sane` repairs it.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from time import monotonic

from msgspec.structs import replace
from prompt_toolkit import Application as Toolkit
from prompt_toolkit.application import get_app, in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions, has_focus, is_searching
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyPressEvent
from prompt_toolkit.keys import Keys as AnyKey
from prompt_toolkit.search import stop_search
from rich.console import Console
from rich.text import Text

from acp_launch.console.ask.terminal import StillClock, owns_terminal, restore_at_exit
from acp_launch.console.stderr import harmless_line
from acp_launch.errors import LaunchError
from acp_launch.interactive.attention import Attention, can_retitle
from acp_launch.interactive.completion import Completing
from acp_launch.interactive.editor import edit_text
from acp_launch.interactive.history import PromptHistory
from acp_launch.interactive.layout import FINE, PHASES, POOR, Windows, room_above, statusline
from acp_launch.interactive.questions import Question, ScreenQuestions
from acp_launch.interactive.screen import (
    ESCAPE,
    SEQUENCE,
    Drawing,
    Keyboard,
    Keys,
    SessionCanvas,
    Tty,
    Unwritten,
    redirect_streams,
    vt100_output,
)
from acp_launch.interactive.terminal import (
    Activity,
    Cancelled,
    Event,
    HungUp,
    Interrupted,
    Left,
    Pressed,
    Redirected,
    Status,
    Submitted,
    Unqueued,
    Vocabulary,
    is_ours,
)
from acp_launch.problem import marked
from acp_launch.secret.redact import redactor
from acp_launch.session.events import BACK, Person
from acp_launch.settings.model import AttentionSettings
from acp_launch.waits import stretch

# The keys of an interactive session that not every Emacs-like line editor has.
#
# Enter              send; take a chosen completion; answer a question for a line
# Alt-Enter, Ctrl-J  begin a new line
# Tab, Shift-Tab     complete
# Ctrl-C             clear the typed text; if there is none, or during a turn, interrupt
# Ctrl-D             leave, if nothing is typed; dismiss a question for a line
# Ctrl-L             begin at the top of the screen; its content scrolls away
# Ctrl-Z             stop, until `fg`
# Escape             close the menu or the search; dismiss a question; interrupt the turn; twice: edit the last prompt
# Shift-Tab          the agent's next mode, unless a menu is open
# Up                 the history; on an empty line the prompt that was queued last
# Ctrl-G             type the prompt in the user's editor
# Ctrl-O             show folded pieces
# ?                  on an empty line: what the keys do


def bind_prompt(keys: Keys, prompt: Buffer, submit: Callable[[], None], leave: Callable[[], None]) -> None:
    """Add the keys for typing a prompt."""
    here = has_focus(prompt)
    is_chosen = Condition(
        lambda: prompt.complete_state is not None and prompt.complete_state.complete_index is not None
    )
    keys.bind("enter", submit, here & ~is_chosen)
    keys.bind("enter", lambda: _take(prompt, submit), here & is_chosen)
    for new_line in ("escape enter", "c-j"):
        keys.bind(new_line, lambda: prompt.newline(copy_margin=False), here)
    keys.bind("c-d", leave, here & Condition(lambda: not prompt.text))
    keys.bind("tab", lambda: _complete(prompt), here)
    keys.bind("s-tab", prompt.complete_previous, here & has_completions)


def bind_session(keys: Keys, front: "Application", prompt: Buffer) -> None:
    """Add the keys for the session, which work where a prompt is typed. A key that begins with Escape is not one."""
    here = has_focus(prompt)
    is_empty = Condition(lambda: not prompt.text)
    is_alone = Condition(lambda: not get_app().key_processor.input_queue)  # else it was pasted, or is Alt with a key
    is_urgent = is_alone & Condition(lambda: front.escapes is not None)
    keys.bind("escape", front.escape, here | is_searching, eager=is_urgent)
    keys.bind("c-g", front.edit, here)
    for key, condition, event in (
        ("up", here & Condition(front.can_take_back), Unqueued()),
        ("c-o", True, Pressed("unfold")),
        ("s-tab", here & ~has_completions, Pressed("modes")),
        ("?", here & is_empty & is_alone, Pressed("keys")),
    ):
        keys.bind(key, partial(front.events.put_nowait, event), condition)


def bind_answer(keys: Keys, answer: Buffer, asking: ScreenQuestions) -> None:
    """Add the keys for a line of an answer. Ctrl-D ends a form, as on a bare terminal."""
    here = has_focus(answer)

    def enter() -> None:
        if asking.open:  # between two lines of a form Enter does nothing
            text = answer.text.replace("\n", " ") or asking.open.default
            answer.reset()
            asking.answer(text)

    for key in ("enter", "c-j"):
        keys.bind(key, enter, here)
    keys.bind("escape", lambda: asking.answer(BACK), here)
    keys.bind("c-d", lambda: asking.answer(None), here & Condition(lambda: not answer.text))


def of_choice(asking: ScreenQuestions, prompt: Buffer, leave: Callable[[], None]) -> Keys:
    """Return the keys for a question. Several keys in one piece were pasted, or typed while we were busy: not an
    answer.
    """
    keys = Keys()

    @keys.add(AnyKey.Any)
    def _(event: KeyPressEvent) -> None:
        answers = {choice.key for choice in asking.open.choices} if asking.open else set()
        key = event.data if event.data in answers else event.data.lower()
        if event.app.key_processor.input_queue:
            _insert_typed(event, asking, prompt)
        elif key in answers:
            asking.answer(key)
        elif key in ENTER:
            asking.explain_keys()

    keys.add(AnyKey.BracketedPaste)(lambda event: _insert_typed(event, asking, prompt))
    keys.bind("escape", lambda: asking.answer(None), eager=True)
    keys.bind("c-d", leave)
    return keys


def _insert_typed(event: KeyPressEvent, asking: ScreenQuestions, prompt: Buffer) -> None:
    if event.data.replace("\n", "").isprintable():
        prompt.insert_text(event.data)
    asking.shut()


def _take(prompt: Buffer, submit: Callable[[], None]) -> None:
    """Take the chosen completion; a complete `:` command is run at once."""
    prompt.complete_state = None
    if prompt.text.startswith(":"):
        submit()


def _complete(prompt: Buffer) -> None:
    if state := prompt.complete_state:
        prompt.complete_next()
        if len(state.completions) == 1:  # it is taken now; another Tab would restore the typed text
            prompt.complete_state = None
    else:
        prompt.start_completion(insert_common_part=True)


ENTER = ("\r", "\n")
RESUME_SECONDS = stretch(0.5)  # after our own stop in which SIGCONT belongs to it
SECOND_ESCAPE_SECONDS = stretch(0.8)  # in which one counts with the first
SPINNER_SECONDS = 0.4  # between two steps
SECOND = 1.0  # between two looks at the clock while the user is asked
CALM = 30.0  # between two of them without animation, as for a screen reader, which reads aloud what changes
BUSY = ("working", "asking", "cancelling")
RESTS = ("idle", "down")  # nothing is being done


class _Sized(Toolkit[None]):
    def _on_resize(self) -> None:
        """Draw a usual frame: `Drawing` notices the new size."""
        self.invalidate()


class Application:
    """A `Front` on a terminal. The session is drawn on `canvas`."""

    def __init__(
        self,
        history: Path,
        *,
        attention: AttentionSettings | None = None,
        profile: str = "",
        clock: StillClock | None = None,
    ) -> None:
        """`history` is the file with this project's prompts. `attention` is how the user is called, and by which
        `profile`; `clock` stands still while the user is asked.
        """
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self._status, self._queued, self._offered = Status(), tuple[str, ...](), ""
        self._taken_back = ""  # text on the line that was queued
        self._escaped = float("-inf")  # loop time of the last Escape without an effect
        self._closed = asyncio.Event()
        self._is_away, self._back = False, float("-inf")
        console = Console(file=Unwritten(sys.stdout), highlight=False)
        tty = Tty(sys.stdout.fileno(), sys.stdout.encoding or "utf-8", self._lose)
        output = vt100_output(tty, console)
        self._is_calm = console.no_color
        self._attention = Attention(
            attention or AttentionSettings(), profile, redactor.text, monotonic, has_title=can_retitle(os.environ)
        )
        self._signs = FINE if _is_fine(tty.encoding) else POOR
        self._activity: Callable[[], Activity | None] = lambda: None
        self._beat: asyncio.TimerHandle | None = None  # of the next step of the spinner
        self.canvas = SessionCanvas(console, output.get_size, lambda: self._app.invalidate())
        self._asking = ScreenQuestions(self.canvas, self._refocus, self._room, clock or StillClock())
        self._asking.can_redirect = lambda: self._status.phase == "working"
        self._asking.redirect = lambda: self.events.put_nowait(Redirected())
        self.person: Person = self._asking
        self._completing = Completing()
        self._past = PromptHistory(history, redactor, lambda text: self.canvas.print(Text(text, "dim")))
        self._prompt = Buffer(
            completer=self._completing, complete_while_typing=True, history=self._past, multiline=True
        )
        self._answer = Buffer(multiline=False)
        self._screen = Windows(
            rows=self.canvas.rows,
            prompt=self._prompt,
            answer=self._answer,
            asking=self._asking,
            hint=self._completing.hint,
            queued=lambda: self._queued,
            status=self._statusline,
            choose_keys=of_choice(self._asking, self._prompt, self._leave),
            signs=self._signs,
        )
        self._app = _Sized(
            self._screen.layout,
            key_bindings=self._keys(),
            input=Keyboard(sys.stdin),
            output=output,
            erase_when_done=True,
            terminal_size_polling_interval=None,
        )
        self._app.ttimeoutlen, self._app.timeoutlen = ESCAPE, SEQUENCE
        self._app.key_processor.before_key_press += lambda sender: self._asking.note_key()
        self._drawing = Drawing(self._app, tty, self.canvas, self._asking.note_frame, self._attention.take)

    async def run(self) -> None:
        if self._closed.is_set():
            return
        undo = restore_at_exit()
        with redirect_streams(self.canvas.write), self._signals():
            try:
                self._attention.enter()
                with suppress(EOFError):
                    await self._app.run_async(handle_sigint=False, set_exception_handler=False)
            finally:
                self._write(self._attention.leave())
                self._rest()
                self.canvas.stop()
                undo()
        self._drawing.finish()
        if not self._closed.is_set():  # the terminal is gone; the session may still have to end its turn
            self.events.put_nowait(HungUp())
            await self._closed.wait()

    def close(self) -> None:
        self._closed.set()
        self._lose()

    def status(self, status: Status) -> None:
        self._status = status
        self._call()
        self.canvas.touch()
        self._live()

    def watch(self, activity: Callable[[], Activity | None]) -> None:
        self._activity = activity

    def vocabulary(self, vocabulary: Vocabulary) -> None:
        self._completing.vocabulary = vocabulary

    def queued(self, prompts: Sequence[str]) -> None:
        self._queued = tuple(map(_clean, prompts))
        self.canvas.touch()

    def offer(self, text: str) -> None:
        """Put text into an empty prompt; while the user types, it waits."""
        self._offered = text
        self._put_offered()

    def take_back(self, text: str) -> None:
        typed = self._prompt.text
        self._taken_back = f"{text}\n{typed}" if typed else text
        self._prompt.set_document(Document(self._taken_back, len(text)))
        self.canvas.touch()

    def interrupt(self) -> None:
        self.events.put_nowait(Interrupted())

    @property
    def escapes(self) -> Callable[[], object] | None:
        """Return what Escape ends at once, without waiting for a second key: the menu, the search, the question, or the
        turn; None if there is nothing of these.
        """
        if self._prompt.complete_state is not None:
            return self._prompt.cancel_completion
        if self._screen.layout.is_searching:
            return stop_search
        if self._asking.question is not None:
            return lambda: self._asking.answer(None)
        return None if self._status.phase in RESTS else lambda: self.events.put_nowait(Cancelled())

    def escape(self) -> None:
        """End one thing. With nothing to end, twice puts the previous prompt on the empty line."""
        (self.escapes or self._escape_again)()

    def _escape_again(self) -> None:
        now, before = asyncio.get_running_loop().time(), self._escaped
        self._escaped = now
        prompts = (text for text in reversed(self._past.get_strings()) if not is_ours(text))
        if now - before < SECOND_ESCAPE_SECONDS and not self._prompt.text and (previous := next(prompts, "")):
            self._prompt.set_document(Document(previous))
            self._escaped = float("-inf")

    def edit(self) -> None:
        """Let the user type the prompt in an editor. The session goes on, and shows what it has to show afterwards."""
        if not self._is_away:
            self._app.create_background_task(self._edit_prompt())

    async def _edit_prompt(self) -> None:
        try:
            async with self.suspended():
                text = await edit_text(self._prompt.text)
        except LaunchError as error:
            self.canvas.print(Text(marked(harmless_line(f"{error.message}; {error.fix}")), "yellow"))
            return
        if text != self._prompt.text:
            self._prompt.set_document(Document(text))
        self._app.invalidate()

    def can_take_back(self) -> bool:
        """Return whether Up means the queue: the line is empty, or holds what was taken from the queue."""
        is_untouched = self._prompt.text == self._taken_back and self._prompt.document.on_first_line
        return bool(self._queued) and (not self._prompt.text or is_untouched)

    @asynccontextmanager
    async def suspended(self) -> AsyncIterator[None]:
        """Give the terminal to another program. Prints and questions wait."""
        async with in_terminal():
            self._drawing.finish()
            self._is_away = True
            try:
                with self._give_back_title():
                    yield
            finally:
                self._is_away = False

    @property
    def _current_status(self) -> Status:
        is_asked = self._asking.question is not None and self._status.phase in ("starting", "idle", "working")
        return replace(self._status, phase="asking") if is_asked else self._status

    @property
    def _happens(self) -> Activity | None:
        question = self._asking.question
        if question is None:
            return self._activity()
        since = asyncio.get_running_loop().time() - question.since
        return Activity(PHASES["asking"][0], since) if self._status.phase != "down" else None

    def _statusline(self, width: int) -> StyleAndTextTuples:
        activity = self._happens
        if self._is_calm and activity is not None and activity.seconds is not None:
            activity = replace(activity, seconds=activity.seconds // CALM * CALM)
        is_busy = self._status.phase not in RESTS or activity is not None
        steps = self._signs.still if self._is_still else self._signs.steps
        sign = steps[int(monotonic() / SPINNER_SECONDS) % len(steps)] if is_busy else ""
        return statusline(self._current_status, width, activity, sign=sign, signs=self._signs)

    @property
    def _is_still(self) -> bool:
        """Whether the spinner stands still: neither agent nor server works, or the user wants none."""
        return self._is_calm or self._asking.question is not None

    def _live(self) -> None:
        """Draw again and again while something lasts, a few times a second at most; an idle session never wakes."""
        if self._beat is None and self._happens is not None:
            period = CALM if self._is_calm else SECOND if self._is_still else SPINNER_SECONDS
            self._beat = asyncio.get_running_loop().call_later(period, self._beats)

    def _beats(self) -> None:
        self._beat = None
        self.canvas.touch()
        self._live()

    def _call(self) -> None:
        self._attention.show(self._current_status, is_asked=self._asking.question is not None)

    @contextmanager
    def _give_back_title(self) -> Iterator[None]:
        self._write(self._attention.leave())
        try:
            yield
        finally:
            self._attention.enter()

    def _write(self, sequences: str) -> None:
        self._app.output.write_raw(sequences)
        self._app.output.flush()

    def _rest(self) -> None:
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None

    def _keys(self) -> Keys:
        keys = Keys()
        keys.bind("c-c", self._interrupt_or_clear)
        keys.bind("c-z", self._stop)
        keys.bind("c-l", lambda: self._drawing.clear())
        bind_prompt(keys, self._prompt, self._submit, self._leave)
        bind_session(keys, self, self._prompt)
        bind_answer(keys, self._answer, self._asking)
        return keys

    def _room(self, question: Question) -> tuple[int, int]:
        return room_above(question, self._prompt.text, self._queued, self._app.output.get_size())

    def _leave(self) -> None:
        self.events.put_nowait(Left())

    def _submit(self) -> None:
        text = _clean(self._prompt.text)
        self._prompt.reset()
        self._asking.note_enter()
        if text.strip():
            self._past.keep(text)
            self.events.put_nowait(Submitted(text))
        self._put_offered()

    def _interrupt_or_clear(self) -> None:
        is_busy = self._status.phase in BUSY
        typed = self._answer if self._asking.wants_line else self._prompt
        if typed.text and (typed is self._answer or not is_busy):
            typed.reset()
            self._put_offered()
        elif self._asking.question and not is_busy:
            self._asking.answer(None)
        else:
            self.interrupt()

    def _put_offered(self) -> None:
        if self._offered and not self._prompt.text:
            self._prompt.set_document(Document(self._offered))
            self._offered = ""
            self.canvas.touch()

    def _refocus(self) -> None:
        if not self._asking.wants_line:
            self._answer.reset()
        self._screen.refocus()
        self._app.invalidate()
        self._call()
        self._rest()  # the time next to a question goes by seconds
        self._live()

    def _lose(self) -> None:
        if self._app.is_running and not self._app.is_done:
            self._app.exit()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTSTP, self._stop)
        loop.add_signal_handler(signal.SIGCONT, self._take_terminal_again)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGTSTP)
            loop.remove_signal_handler(signal.SIGCONT)

    def _stop(self) -> None:
        self._app.create_background_task(self._stop_job())

    async def _stop_job(self) -> None:
        """Restore the terminal for the shell, stop, and take the terminal again afterwards."""
        loop = asyncio.get_running_loop()
        async with in_terminal():
            self._drawing.finish()
            with self._give_back_title():
                loop.remove_signal_handler(signal.SIGTSTP)
                os.kill(0, signal.SIGTSTP)  # the whole job, as Ctrl-Z in the terminal would
                loop.add_signal_handler(signal.SIGTSTP, self._stop)
            self._back = loop.time()
        self._asking.repeat()

    def _take_terminal_again(self) -> None:
        """Take the terminal again after a SIGSTOP, which is not announced: the shell had the terminal."""
        is_ours = asyncio.get_running_loop().time() - self._back < RESUME_SECONDS
        if is_ours or self._is_away or not owns_terminal():  # a background job must not touch it
            return
        self._app.input.raw_mode().__enter__()  # undone at the end of the application
        self._app.renderer.reset()
        self._attention.forget_title()
        self._asking.repeat()
        self._app.invalidate()


def _is_fine(encoding: str) -> bool:
    """Return whether the terminal shows more than ASCII well; the fonts of the Linux console lack some of our signs."""
    return encoding.casefold().replace("-", "") == "utf8" and os.environ.get("TERM") != "linux"


def _clean(text: str) -> str:
    """Replace bytes that are not text, which come as half surrogate pairs and cannot be written."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
