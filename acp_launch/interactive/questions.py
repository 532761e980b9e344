"""
Questions in an interactive session: one at a time, answered by one key or by a line.

Keys typed before the user could read a question do not answer it. A question opens, and shows its keys, only `QUIET`
seconds after it was drawn and `PAUSE` seconds after the last key; until then keys go into the prompt. Several keys in
one piece are a paste, or were typed while we were busy, and go into the prompt too. So a user who is typing, with
pauses below a second, cannot answer "always allow" by accident. In a form, whose lines follow each other, the next line
opens at once, and keys typed in between belong to it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from rich.text import Text

from acp_launch.console.ask.terminal import PAUSE_SECONDS, QUIET_SECONDS, StillClock, keys_of
from acp_launch.console.ask.viewport import break_lines
from acp_launch.interactive.screen import SessionCanvas
from acp_launch.problem import COLUMNS, MARK
from acp_launch.session.events import BACK, Choice, Tone

TONES: dict[Tone, str] = {
    "dim": "dim",
    "heading": "bold yellow",
    "warning": "yellow",
    "faint": "dim",
    "added": "green",
    "removed": "red",
}


YES, NO = "y", "n"
REDIRECT = Choice("N", "No, and type what to do instead")


@dataclass(eq=False)
class Question:
    """A question on the screen."""

    prompt: str
    choices: Sequence[Choice] = ()  # none for a question that wants a line
    default: str = ""
    since: float = field(default_factory=lambda: asyncio.get_running_loop().time())  # loop time
    drawn: float | None = None  # loop time of the first frame with it
    is_open: bool = False
    is_explained: bool = False  # the user was told which keys answer
    answer: "asyncio.Future[str | None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class ScreenQuestions:
    """The `Person` of an interactive session on a terminal."""

    def __init__(
        self,
        board: SessionCanvas,
        changed: Callable[[], None],
        room: Callable[["Question"], tuple[int, int]],
        clock: StillClock,
    ) -> None:
        """`changed` is called when a question comes, opens or goes; `room` returns the space above a question; `clock`
        stands still while the user is asked.
        """
        self._clock = clock
        self.question: Question | None = None
        self._board = board
        self._changed = changed
        self._room = room
        # Whether a no may end the turn for a prompt that the user types instead; what ends it.
        self.can_redirect: Callable[[], bool] = lambda: False
        self.redirect: Callable[[], None] = lambda: None
        self._turn = asyncio.Lock()
        self._said: list[tuple[str, Tone]] = []  # above the question
        self._typed = float("-inf")
        self._after_line = False
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def floor(self) -> AsyncIterator[None]:
        with self._clock.still():
            async with self._turn:
                self._board.hold()
                self._board.say(Text())
                self._said = []
                try:
                    yield
                finally:
                    self._after_line = False
                    self._changed()
                    self._board.release()

    def room(self, prompt: str, choices: Sequence[Choice]) -> tuple[int, int]:
        return self._room(Question(prompt, self._with_redirection(choices), is_open=True))

    def repeat(self) -> None:
        """Say again what stands above the open question, after the shell had the terminal."""
        for text, tone in list(self._said) if self.question else ():
            self._draw(text, tone)

    def say(self, text: str, tone: Tone = "plain") -> None:
        self._said.append((text, tone))
        self._draw(text, tone)

    def _draw(self, text: str, tone: Tone) -> None:
        for row in break_lines(text, self._board.width - COLUMNS):
            parts = (MARK, "yellow"), " " if row else "", (row, TONES.get(tone, ""))
            self._board.say(Text.assemble(*parts, no_wrap=True, overflow="crop"))

    async def choose(self, prompt: str, choices: Sequence[Choice]) -> str | None:
        self._after_line = False
        offered = self._with_redirection(choices)
        key = await self._ask(Question(prompt, offered))
        if key is not None:
            label = next(choice.label for choice in offered if choice.key == key)
            self.say(f"{prompt} {label}", "dim")
        if key == REDIRECT.key:
            self.redirect()
            return NO
        return key

    def _with_redirection(self, choices: Sequence[Choice]) -> Sequence[Choice]:
        is_offered = self.can_redirect() and {YES, NO} <= {choice.key for choice in choices}
        return [*choices, REDIRECT] if is_offered else choices

    async def line(self, prompt: str, *, default: str = "") -> str | None:
        text = await self._ask(Question(prompt, default=default, is_open=self._after_line))
        if text not in (None, BACK):
            self.say(f"{prompt} {text}", "dim")
        return text

    @property
    def open(self) -> Question | None:
        """The question that can be answered now; None once it is answered, although it stays visible."""
        question = self.question
        return question if question and question.is_open and not question.answer.done() else None

    @property
    def wants_line(self) -> bool:
        """Whether typed text is a line of an answer, or the beginning of the next one."""
        return self._after_line if self.question is None else self.question.is_open and not self.question.choices

    def answer(self, text: str | None) -> None:
        """Answer the open question; None dismisses it, even before it opens."""
        if self.question and not self.question.answer.done():
            self._after_line = text is not None and not self.question.choices
            self.question.answer.set_result(text)

    def explain_keys(self) -> None:
        """Tell which keys answer the open question, once: Enter does not."""
        if self.open is not None and not self.open.is_explained:
            self.open.is_explained = True
            self.say(f"Enter does not answer; press {keys_of(self.open.choices)}", "dim")

    def note_frame(self) -> None:
        question = self.question
        if question and question.drawn is None:
            question.drawn = asyncio.get_running_loop().time()
            self._wait(question)

    def note_key(self) -> None:
        """Note a key, unless it is an answer."""
        if self.open is not None or self.wants_line:
            return
        self._typed = asyncio.get_running_loop().time()
        if self.question and not self.question.is_open:
            self._wait(self.question)

    def note_enter(self) -> None:
        """Note that the typed text is complete, so that no pause is needed."""
        self._typed = float("-inf")

    def shut(self) -> None:
        """Close the question, because the user was still typing; it opens again after a pause."""
        if self.question:
            self.question.is_open = False
            self.note_key()
            self._changed()

    async def _ask(self, question: Question) -> str | None:
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
        """Open the question when it is due; each key before that delays it."""
        self._stop_waiting()
        if question.drawn is None or question.is_open:
            return
        due = max(question.drawn + QUIET_SECONDS, self._typed + PAUSE_SECONDS)
        self._timer = asyncio.get_running_loop().call_at(due, self._open, question)

    def _open(self, question: Question) -> None:
        self._timer = None
        question.is_open = True
        self._changed()

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
