"""A clock for the time an agent takes. It stands still while the user answers a question."""

import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from acp_launch.session.person import Choice, Person, Tone


class StillClock:
    """Counts seconds from an arbitrary start; `clock` is the clock that never stands still."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._questions = 0  # open ones
        self._since = 0.0  # when the first of them was asked
        self._left_out = 0.0

    def __call__(self) -> float:
        return (self._since if self._questions else self._clock()) - self._left_out

    @contextmanager
    def still(self) -> Iterator[None]:
        """Stop the clock while the block runs; such blocks may overlap."""
        if not self._questions:
            self._since = self._clock()
        self._questions += 1
        try:
            yield
        finally:
            self._questions -= 1
            if not self._questions:
                self._left_out += self._clock() - self._since


class UntimedPerson:
    """A `Person` that stops `clock` from the moment a question is due until it is answered."""

    def __init__(self, person: Person, clock: StillClock) -> None:
        self._person, self._clock = person, clock

    @asynccontextmanager
    async def floor(self) -> AsyncIterator[None]:
        with self._clock.still():
            async with self._person.floor():
                yield

    def room(self, prompt: str, choices: Sequence[Choice]) -> tuple[int, int]:
        return self._person.room(prompt, choices)

    def say(self, text: str, tone: Tone = "plain") -> None:
        self._person.say(text, tone)

    async def choose(self, prompt: str, choices: Sequence[Choice]) -> str | None:
        return await self._person.choose(prompt, choices)

    async def line(self, prompt: str, *, default: str = "") -> str | None:
        return await self._person.line(prompt, default=default)
