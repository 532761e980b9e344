"""
The interactive session on a terminal: a prompt, a status line, questions, and the canvas above them.

prompt_toolkit reads keys and draws; it runs in our event loop and handles no signal but those of the terminal itself
(a new size, a stop and its end). No cursor position is ever asked for: the answer would come in among the keys.
However `run` ends, by `close`, by an exception or by being cancelled, the terminal is as it was; after `kill -9` it is
not, and `reset` or `stty sane` mends it.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, cast

from msgspec.structs import replace
from prompt_toolkit import Application as Toolkit
from prompt_toolkit.application import in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.key_binding import merge_key_bindings
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from rich.console import Console
from rich.text import Text

from acp_launch.console.ask.echo import given_back
from acp_launch.interactive import keys
from acp_launch.interactive.above import streams_above
from acp_launch.interactive.asking import Asking, Question
from acp_launch.interactive.canvas import Board
from acp_launch.interactive.completion import Completing
from acp_launch.interactive.drawing import Drawing, terminal_size
from acp_launch.interactive.front import Event, Interrupted, Left, Status, Submitted, Vocabulary
from acp_launch.interactive.history import Past
from acp_launch.interactive.keyboard import Keyboard
from acp_launch.interactive.layout import Screen, room_above
from acp_launch.interactive.statusline import statusline
from acp_launch.interactive.tty import Tty
from acp_launch.secret.redact import Redactor, redactor
from acp_launch.session.person import Person

ESCAPE = 0.1  # seconds in which the rest of an escape sequence comes, also over a slow line
SEQUENCE = 0.3  # seconds in which Escape may become Alt with another key
SOON = 0.5  # seconds after our own stop in which its end is no news
BUSY = ("working", "asking", "cancelling")
DEPTHS = {
    None: ColorDepth.DEPTH_1_BIT,
    "standard": ColorDepth.DEPTH_4_BIT,
    "256": ColorDepth.DEPTH_8_BIT,
    "truecolor": ColorDepth.DEPTH_24_BIT,
}


class _Sized(Toolkit[None]):
    def _on_resize(self) -> None:
        """A frame like any other: `Drawing` sees that the size is another."""
        self.invalidate()


class Application:
    """A `Front`. `canvas` is where the session is drawn."""

    def __init__(self, history: Path, source: Redactor = redactor) -> None:
        """`history` is the file of this project's history; what goes there passes `source`."""
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
        self.canvas = Board(console, output.get_size, self._frame)
        self._asking = Asking(self.canvas, self._refocus, self._room)
        self.person: Person = self._asking
        self._completing = Completing()
        self._past = Past(history, source, lambda text: self.canvas.print(Text(text, "dim")))
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
        with streams_above(self.canvas.write), self._signals():
            try:
                with suppress(EOFError):
                    await self._app.run_async(handle_sigint=False, set_exception_handler=False)
            finally:
                self.canvas.stop()
                taken_back()
        self._drawing.finish()
        if not self._closed.is_set():  # the terminal is gone; the story may still have to end its turn
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
        """While somebody types, it waits until nothing is typed."""
        self._offered = text
        self._put_offered()

    def interrupt(self) -> None:
        """For a SIGINT that was sent to us: it means what the key means."""
        self.events.put_nowait(Interrupted())

    @asynccontextmanager
    async def suspended(self) -> AsyncIterator[None]:
        """What is printed meanwhile waits, and so does a question."""
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
            choose_keys=keys.of_choice(self._asking, self._prompt, self._leave),
        )

    def _keys(self) -> Any:
        return merge_key_bindings(
            [
                keys.everywhere(self._interrupted, self._stop, lambda: self._drawing.clear()),
                keys.of_prompt(self._prompt, self._submit, self._leave),
                keys.of_answer(self._answer, self._asking, self._default),
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
        """Hand the terminal to the shell as it was, stop, and take it again when we go on."""
        loop = asyncio.get_running_loop()
        async with in_terminal():
            self._drawing.finish()
            loop.remove_signal_handler(signal.SIGTSTP)
            os.kill(0, signal.SIGTSTP)  # the whole job, as the key would have done
            loop.add_signal_handler(signal.SIGTSTP, self._stop)
            self._back = loop.time()

    def _continued(self) -> None:
        """After a SIGSTOP, which nobody is told of: the shell has had the terminal meanwhile."""
        is_ours = asyncio.get_running_loop().time() - self._back < SOON
        if is_ours or self._is_away or not _is_in_front():
            return
        self._app.input.raw_mode().__enter__()  # left when the application is, with what was before it
        self._app.renderer.reset()
        self._frame()


def _is_in_front() -> bool:
    """Whether we are the job that has the terminal; touching it from the background would stop us."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except OSError:  # it is gone
        return False


def _clean(text: str) -> str:
    """Bytes that were no text come as halves of surrogate pairs, which nobody can write."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
