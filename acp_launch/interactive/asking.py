"""
Questions in an interactive session: one at a time, answered by one key or by a line.

What is typed before a question could be read is no answer to it. A question opens, and shows what can be pressed, only
`QUIET` seconds after it was drawn and `PAUSE` seconds after the last key of whatever was being typed; until then keys
go where they went before, into the prompt. Several keys that arrive in one piece are a paste or were typed while we
were busy: they go there too. So somebody in the middle of a sentence, who pauses less than a second between two keys,
never says "always allow" by it. In a form, where a line follows a line, the next opens at once, and what is typed
between the two belongs to it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from rich.text import Text

from acp_launch.console.ask.terminal import STYLES
from acp_launch.console.stderr import headed
from acp_launch.interactive.screen import Board
from acp_launch.session.person import Choice, Tone

QUIET = 0.3  # seconds; nobody reads and answers faster
PAUSE = 1.0  # seconds without a key: a longer thought is a pause, a shorter one is typing
TONES: dict[Tone, str] = {"dim": "dim", "heading": "bold", "warning": "yellow", "faint": "dim"}


@dataclass(eq=False)
class Question:
    prompt: str
    choices: Sequence[Choice] = ()  # none: a line is asked for
    default: str = ""
    drawn: float | None = None  # when it was first seen, by the loop's clock
    is_open: bool = False
    answer: "asyncio.Future[str | None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Asking:
    """A `Person`."""

    def __init__(
        self, board: Board, changed: Callable[[], None], room: Callable[["Question"], tuple[int, int]]
    ) -> None:
        """`changed` is called when a question comes, opens and goes; `room` is what one leaves of the screen."""
        self.question: Question | None = None
        self._board = board
        self._changed = changed
        self._room = room
        self._turn = asyncio.Lock()
        self._typed = float("-inf")
        self._after_line = False
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def floor(self) -> AsyncIterator[None]:
        async with self._turn:
            self._board.hold()
            try:
                yield
            finally:
                self._after_line = False
                self._changed()
                self._board.release()

    def room(self, prompt: str, choices: Sequence[Choice]) -> tuple[int, int]:
        return self._room(Question(prompt, choices, is_open=True))

    def say(self, text: str, tone: Tone = "plain") -> None:
        self._board.say(Text(headed(text, STYLES.get(tone, "")), TONES.get(tone, "")))

    async def choose(self, prompt: str, choices: Sequence[Choice]) -> str | None:
        self._after_line = False
        key = await self._asked(Question(prompt, choices))
        if key is not None:
            label = next(choice.label for choice in choices if choice.key == key)
            self.say(f"{prompt} {label}", "dim")
        return key

    async def line(self, prompt: str, *, default: str = "") -> str | None:
        text = await self._asked(Question(prompt, default=default, is_open=self._after_line))
        if text is not None:
            self.say(f"{prompt} {text}", "dim")
        return text

    @property
    def open(self) -> Question | None:
        """The question that can be answered now; not once it was, though it stands until the asker goes on."""
        question = self.question
        return question if question and question.is_open and not question.answer.done() else None

    @property
    def wants_line(self) -> bool:
        """Whether what is typed now is an answer, or the beginning of the next."""
        return self._after_line if self.question is None else self.question.is_open and not self.question.choices

    def answer(self, text: str | None) -> None:
        """Answers the open question; None dismisses it, also before it is open."""
        if self.question and not self.question.answer.done():
            self._after_line = text is not None and not self.question.choices
            self.question.answer.set_result(text)

    def drawn(self) -> None:
        """A frame is on the screen."""
        question = self.question
        if question and question.drawn is None:
            question.drawn = asyncio.get_running_loop().time()
            self._wait(question)

    def typed(self) -> None:
        """A key was pressed that is no answer."""
        self._typed = asyncio.get_running_loop().time()
        if self.question and not self.question.is_open:
            self._wait(self.question)

    def entered(self) -> None:
        """What was typed is complete: nobody is in the middle of it."""
        self._typed = float("-inf")

    def shut(self) -> None:
        """It was being typed after all: the question opens again after a pause."""
        if self.question:
            self.question.is_open = False
            self.typed()
            self._changed()

    async def _asked(self, question: Question) -> str | None:
        self.question = question
        self._changed()
        try:
            return await question.answer
        except asyncio.CancelledError:
            self._after_line = False
            self.say(f"{question.prompt} (no longer asked)", "dim")
            raise
        finally:
            self.question = None
            self._stop_waiting()
            self._changed()

    def _wait(self, question: Question) -> None:
        """Open it when it is time; with every key that comes before, later."""
        self._stop_waiting()
        if question.drawn is None or question.is_open:
            return
        due = max(question.drawn + QUIET, self._typed + PAUSE)
        self._timer = asyncio.get_running_loop().call_at(due, self._open, question)

    def _open(self, question: Question) -> None:
        self._timer = None
        question.is_open = True
        self._changed()

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
