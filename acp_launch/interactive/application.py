"""
The front of an interactive session on a terminal: a prompt, a status line, questions, and the canvas above them.

prompt_toolkit reads keys and draws. It runs in our event loop and handles only the signals of the terminal (a new size,
a stop and its end). It never asks the terminal for the cursor position, because the answer would mix with the keys.
Whichever way `run` ends, by `close`, by an exception or by a cancellation, the terminal is restored; after `kill -9` it
is not, and `reset` or `stty sane` repairs it.
"""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, cast

from msgspec.structs import replace
from prompt_toolkit import Application as Toolkit
from prompt_toolkit.application import in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions, has_focus
from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.vt100 import Vt100Input, cooked_mode, raw_mode
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent, merge_key_bindings
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from rich.console import Console
from rich.text import Text

from acp_launch.console.ask.terminal import given_back
from acp_launch.interactive.completion import Completing
from acp_launch.interactive.front import Event, Interrupted, Left, Status, Submitted, Vocabulary
from acp_launch.interactive.history import PromptHistory
from acp_launch.interactive.layout import Screen, room_above, statusline
from acp_launch.interactive.questions import Question, ScreenQuestions
from acp_launch.interactive.screen import Drawing, SessionCanvas, Tty, redirect_streams, terminal_size
from acp_launch.secret.redact import Redactor, redactor
from acp_launch.session.person import Person

# The keys of an interactive session, besides those of every Emacs-like line editor.
#
# Enter              send; take a chosen completion; answer a question for a line
# Alt-Enter, Ctrl-J  begin a new line
# Tab, Shift-Tab     complete
# Ctrl-C             clear the typed text; if there is none, or during a turn, interrupt
# Ctrl-D             leave, if nothing is typed; dismiss a question for a line
# Ctrl-L             begin at the top of the screen; its content scrolls away
# Ctrl-Z             stop, until `fg`
# Escape             close the menu; dismiss a question


def everywhere(interrupt: Callable[[], None], stop: Callable[[], None], clear: Callable[[], None]) -> KeyBindings:
    """Return the keys that work everywhere."""
    keys = KeyBindings()
    for key, action in (("c-c", interrupt), ("c-z", stop), ("c-l", clear)):
        keys.add(key)(_calling(action))
    return keys


def of_prompt(prompt: Buffer, submit: Callable[[], None], leave: Callable[[], None]) -> KeyBindings:
    """Return the keys for typing a prompt."""
    keys = KeyBindings()
    here = has_focus(prompt)
    is_chosen = Condition(
        lambda: prompt.complete_state is not None and prompt.complete_state.complete_index is not None
    )
    keys.add("enter", filter=here & ~is_chosen)(_calling(submit))
    keys.add("enter", filter=here & is_chosen)(lambda event: _take(prompt, submit))
    for new_line in (("escape", "enter"), ("c-j",)):
        keys.add(*new_line, filter=here)(lambda event: prompt.newline(copy_margin=False))
    keys.add("c-d", filter=here & Condition(lambda: not prompt.text))(_calling(leave))
    keys.add("tab", filter=here)(lambda event: _complete(prompt))
    keys.add("s-tab", filter=here)(lambda event: prompt.complete_previous())
    keys.add("escape", filter=here & has_completions)(lambda event: prompt.cancel_completion())
    return keys


def of_answer(answer: Buffer, asking: ScreenQuestions, default: Callable[[], str]) -> KeyBindings:
    """Return the keys for a line of an answer. Ctrl-D ends a form, as on a bare terminal."""
    keys = KeyBindings()
    here = has_focus(answer)
    is_open = Condition(lambda: asking.open is not None)  # between two lines of a form Enter does nothing

    def enter() -> None:
        text = answer.text.replace("\n", " ") or default()
        answer.reset()
        asking.answer(text)

    for key in ("enter", "c-j"):
        keys.add(key, filter=here & is_open)(_calling(enter))
        keys.add(key, filter=here & ~is_open)(lambda event: None)
    keys.add("escape", filter=here)(lambda event: asking.answer(None))
    keys.add("c-d", filter=here & Condition(lambda: not answer.text))(lambda event: asking.answer(None))
    return keys


def of_choice(asking: ScreenQuestions, prompt: Buffer, leave: Callable[[], None]) -> KeyBindings:
    """Return the keys for a question. Several keys in one piece were pasted, or typed while we were busy: not an
    answer.
    """
    keys = KeyBindings()

    @keys.add(Keys.Any)
    def _(event: KeyPressEvent) -> None:
        if event.app.key_processor.input_queue:
            _typed(event, asking, prompt)
        elif asking.open and event.data.lower() in {choice.key for choice in asking.open.choices}:
            asking.answer(event.data.lower())

    keys.add(Keys.BracketedPaste)(lambda event: _typed(event, asking, prompt))
    keys.add("escape", eager=True)(lambda event: asking.answer(None))
    keys.add("c-d")(_calling(leave))
    return keys


def _typed(event: KeyPressEvent, asking: ScreenQuestions, prompt: Buffer) -> None:
    if event.data.replace("\n", "").isprintable():
        prompt.insert_text(event.data)
    asking.shut()


def _calling(action: Callable[[], None]) -> Callable[[KeyPressEvent], None]:
    return lambda event: action()


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


# The keys of the terminal as prompt_toolkit reads them, and text typed before it does.
#
# Until we take the terminal it is in its usual mode, in which Enter is a line feed, like Ctrl-J in ours. Text typed
# before that (while the session starts, or while another program has the terminal) becomes one prompt per line, except
# for marked pastes.


_PASTE = re.compile("(\x1b\\[200~.*?(?:\x1b\\[201~|\\Z))", re.DOTALL)


class Keyboard(Vt100Input):
    """Notices that the terminal is gone; prompt_toolkit would continue to read it."""

    def __init__(self, stdin: TextIO) -> None:
        super().__init__(stdin)
        self.stdin_reader: _Reader = _Reader(self.fileno(), encoding=stdin.encoding)

    def read_keys(self) -> list[Any]:
        found = super().read_keys()
        if not found and not os.isatty(self.fileno()):
            self.stdin_reader.closed = True
        return found

    def raw_mode(self) -> raw_mode:
        return _Raw(self.stdin_reader)

    def cooked_mode(self) -> cooked_mode:
        return _Cooked(self.stdin_reader)


class _Reader(PosixStdinReader):
    ahead = 0  # unread bytes that were typed in the terminal's usual mode

    def read(self, count: int = 1024) -> str:
        if not self.ahead:
            return super().read(count)
        ahead, self.ahead = self.ahead, 0
        return entered(super().read(ahead))

    def taken(self) -> None:
        """Remember that the terminal has just become ours."""
        self.ahead = _unread(self.stdin_fd)


class _Raw(raw_mode):
    def __init__(self, reader: _Reader) -> None:
        super().__init__(reader.stdin_fd)
        self._reader = reader

    def __enter__(self) -> None:
        super().__enter__()
        self._reader.taken()


class _Cooked(cooked_mode):
    def __init__(self, reader: _Reader) -> None:
        super().__init__(reader.stdin_fd)
        self._reader = reader

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        self._reader.taken()


def entered(text: str) -> str:
    """Convert text typed in the usual mode, so that Enter is Enter. That mode turns Ctrl-D into a NUL."""
    parts = _PASTE.split(text)  # every other one is a paste
    typed = str.maketrans({"\n": "\r", "\0": ""})
    return "".join(part if number % 2 else part.translate(typed) for number, part in enumerate(parts))


def _unread(descriptor: int) -> int:
    import array
    import fcntl
    import termios

    waiting = array.array("i", [0])
    try:
        fcntl.ioctl(descriptor, termios.FIONREAD, waiting)
    except OSError:  # the terminal is gone
        return 0
    return waiting[0]


ESCAPE = 0.1  # seconds for the rest of an escape sequence, also over a slow connection
SEQUENCE = 0.3  # seconds in which Escape and another key count as Alt
SOON = 0.5  # seconds after our own stop in which SIGCONT belongs to it
BUSY = ("working", "asking", "cancelling")
DEPTHS = {
    None: ColorDepth.DEPTH_1_BIT,
    "standard": ColorDepth.DEPTH_4_BIT,
    "256": ColorDepth.DEPTH_8_BIT,
    "truecolor": ColorDepth.DEPTH_24_BIT,
}


class _Sized(Toolkit[None]):
    def _on_resize(self) -> None:
        """Draw a usual frame: `Drawing` notices the new size."""
        self.invalidate()


class Application:
    """A `Front` on a terminal. The session is drawn on `canvas`."""

    def __init__(self, history: Path, source: Redactor = redactor) -> None:
        """`history` is the file with this project's prompts; text for it passes `source`."""
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self._status, self._queued, self._offered = Status(), tuple[str, ...](), ""
        self._closed = asyncio.Event()
        self._is_away, self._back = False, float("-inf")
        console = Console(file=sys.stdout, highlight=False)
        tty = Tty(sys.stdout.fileno(), sys.stdout.encoding or "utf-8", self._lose)
        output = Vt100_Output(
            cast(TextIO, tty),
            lambda: terminal_size(tty.fileno()),
            term=os.environ.get("TERM"),
            default_color_depth=DEPTHS[None if console.no_color else console.color_system],
            enable_bell=False,
            enable_cpr=False,
        )
        self.canvas = SessionCanvas(console, output.get_size, self._frame)
        self._asking = ScreenQuestions(self.canvas, self._refocus, self._room)
        self.person: Person = self._asking
        self._completing = Completing()
        self._past = PromptHistory(history, source, lambda text: self.canvas.print(Text(text, "dim")))
        self._prompt = Buffer(
            completer=self._completing, complete_while_typing=True, history=self._past, multiline=True
        )
        self._answer = Buffer(multiline=False)
        self._screen = self._windows()
        self._app = _Sized(
            self._screen.layout,
            key_bindings=self._keys(),
            input=Keyboard(sys.stdin),
            output=output,
            erase_when_done=True,
            terminal_size_polling_interval=None,
        )
        self._app.ttimeoutlen, self._app.timeoutlen = ESCAPE, SEQUENCE
        self._app.key_processor.before_key_press += self._pressed
        self._drawing = Drawing(self._app, tty, self.canvas, self._asking.drawn)

    async def run(self) -> None:
        if self._closed.is_set():
            return
        taken_back = given_back()
        with redirect_streams(self.canvas.write), self._signals():
            try:
                with suppress(EOFError):
                    await self._app.run_async(handle_sigint=False, set_exception_handler=False)
            finally:
                self.canvas.stop()
                taken_back()
        self._drawing.finish()
        if not self._closed.is_set():  # the terminal is gone; the session may still have to end its turn
            self.events.put_nowait(Left())
            await self._closed.wait()

    def close(self) -> None:
        self._closed.set()
        self._lose()

    def status(self, status: Status) -> None:
        self._status = status
        self.canvas.touch()

    def vocabulary(self, vocabulary: Vocabulary) -> None:
        self._completing.vocabulary = vocabulary

    def queued(self, prompts: Sequence[str]) -> None:
        self._queued = tuple(map(_clean, prompts))
        self.canvas.touch()

    def offer(self, text: str) -> None:
        """Put text into an empty prompt; while the user types, it waits."""
        self._offered = text
        self._put_offered()

    def interrupt(self) -> None:
        """Handle a SIGINT like Ctrl-C."""
        self.events.put_nowait(Interrupted())

    @asynccontextmanager
    async def suspended(self) -> AsyncIterator[None]:
        """Give the terminal to another program. Prints and questions wait meanwhile."""
        async with in_terminal():
            self._drawing.finish()
            self._is_away = True
            try:
                yield
            finally:
                self._is_away = False

    @property
    def _shown(self) -> Status:
        is_asked = self._asking.question is not None and self._status.mood == "working"
        return replace(self._status, mood="asking") if is_asked else self._status

    def _windows(self) -> Screen:
        return Screen(
            rows=self.canvas.rows,
            prompt=self._prompt,
            answer=self._answer,
            asking=self._asking,
            hint=self._completing.hint,
            queued=lambda: self._queued,
            status=lambda width: statusline(self._shown, width),
            choose_keys=of_choice(self._asking, self._prompt, self._leave),
        )

    def _keys(self) -> Any:
        return merge_key_bindings(
            [
                everywhere(self._interrupted, self._stop, lambda: self._drawing.clear()),
                of_prompt(self._prompt, self._submit, self._leave),
                of_answer(self._answer, self._asking, self._default),
            ]
        )

    def _room(self, question: Question) -> tuple[int, int]:
        return room_above(question, self._prompt.text, self._queued, self._app.output.get_size())

    def _leave(self) -> None:
        self.events.put_nowait(Left())

    def _submit(self) -> None:
        text = _clean(self._prompt.text)
        self._prompt.reset()
        self._asking.entered()
        if text.strip():
            self._past.keep(text)
            self.events.put_nowait(Submitted(text))
        self._put_offered()

    def _interrupted(self) -> None:
        is_busy = self._status.mood in BUSY
        typed = self._answer if self._asking.wants_line else self._prompt
        if typed.text and (typed is self._answer or not is_busy):
            typed.reset()
            self._put_offered()
        elif self._asking.question and not is_busy:
            self._asking.answer(None)
        else:
            self.interrupt()

    def _default(self) -> str:
        return self._asking.open.default if self._asking.open else ""

    def _put_offered(self) -> None:
        if self._offered and not self._prompt.text:
            self._prompt.set_document(Document(self._offered))
            self._offered = ""
            self.canvas.touch()

    def _pressed(self, sender: object) -> None:
        if self._asking.open is None and not self._asking.wants_line:
            self._asking.typed()

    def _refocus(self) -> None:
        if not self._asking.wants_line:
            self._answer.reset()
        self._screen.refocus()
        self._frame()

    def _frame(self) -> None:
        self._app.invalidate()

    def _lose(self) -> None:
        if self._app.is_running and not self._app.is_done:
            self._app.exit()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTSTP, self._stop)
        loop.add_signal_handler(signal.SIGCONT, self._continued)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGTSTP)
            loop.remove_signal_handler(signal.SIGCONT)

    def _stop(self) -> None:
        self._app.create_background_task(self._stopped())

    async def _stopped(self) -> None:
        """Restore the terminal for the shell, stop, and take the terminal again afterwards."""
        loop = asyncio.get_running_loop()
        async with in_terminal():
            self._drawing.finish()
            loop.remove_signal_handler(signal.SIGTSTP)
            os.kill(0, signal.SIGTSTP)  # the whole job, as Ctrl-Z in the terminal would
            loop.add_signal_handler(signal.SIGTSTP, self._stop)
            self._back = loop.time()

    def _continued(self) -> None:
        """Take the terminal again after a SIGSTOP, which is not announced: the shell had the terminal meanwhile."""
        is_ours = asyncio.get_running_loop().time() - self._back < SOON
        if is_ours or self._is_away or not _is_in_front():
            return
        self._app.input.raw_mode().__enter__()  # undone at the end of the application
        self._app.renderer.reset()
        self._frame()


def _is_in_front() -> bool:
    """Return whether we are the foreground job; a background job must not touch the terminal."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except OSError:  # the terminal is gone
        return False


def _clean(text: str) -> str:
    """Replace bytes that are not text, which come as half surrogate pairs and cannot be written."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
