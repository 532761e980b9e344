"""Somebody at a terminal who knows beforehand what to answer."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from acp_launch.session.events import Choice, Tone


class Scripted:
    """Answers line by line; None dismisses. What was shown and asked is in `told`, in order.

    A key that is not among the choices, a question too many and one outside `floor` are failures.
    """

    def __init__(self, *answers: str | None, screen: tuple[int, int] = (500, 10_000)) -> None:
        """`screen` is what a question leaves of it: columns and rows."""
        self.answers = list(answers)
        self.screen = screen
        self.told: list[str] = []
        self.tones: list[tuple[str, Tone]] = []
        self._has_floor = False

    @asynccontextmanager
    async def floor(self) -> AsyncIterator[None]:
        assert not self._has_floor
        self._has_floor = True
        try:
            yield
        finally:
            self._has_floor = False

    def room(self, prompt: str, choices: Sequence[Choice]) -> tuple[int, int]:
        return self.screen

    def say(self, text: str, tone: Tone = "plain") -> None:
        assert self._has_floor
        self.told.append(text)
        self.tones.append((text, tone))

    async def choose(self, prompt: str, choices: Sequence[Choice]) -> str | None:
        assert self._has_floor
        self.told.append(f"{prompt} {' / '.join(f'{choice.key} {choice.label}' for choice in choices)}")
        answer = self.answers.pop(0)
        assert answer is None or answer in [choice.key for choice in choices], answer
        return answer

    async def line(self, prompt: str, *, default: str = "") -> str | None:
        assert self._has_floor
        self.told.append(f"{prompt} [{default}]" if default else prompt)
        answer = self.answers.pop(0)
        return default if answer == "" else answer

    def of_tone(self, tone: Tone) -> list[str]:
        return [text for text, said in self.tones if said == tone]
