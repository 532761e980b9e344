"""Questions on a bare terminal: lines on stderr, one line of an answer from stdin."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager

from acp_launch.console.ask.echo import forget_typed
from acp_launch.console.stderr import DIM, QUOTE, QUOTED, YELLOW, ask, headed, paint, put
from acp_launch.mark import COLUMNS, marked
from acp_launch.session.person import Choice, Tone

STDIN = 0
STYLES: dict[Tone, str] = {"dim": DIM, "heading": "1", "warning": YELLOW, "quote": QUOTE, "faint": QUOTED}
WORDS = {"yes": "y", "no": "n"}
NOTHING = ("", "n", "no")  # an empty line is a no, and so is the end of input
NO = " [no]: "


def possible() -> bool:
    """Whether there is somebody to ask: stdin to read from and stderr to ask on are both terminals."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def tell(text: str, tone: Tone = "plain") -> None:
    """A line of a question, or above one; marked whoever else writes."""
    style = STYLES.get(tone, "")
    put(f"{headed(paint(text, style), style)}\n")


class Questions:
    """A `Person` at a terminal that nothing else draws on while a question stands."""

    def __init__(self, pause: Callable[[], None]) -> None:
        """`pause` frees the terminal of whatever else draws on it."""
        self._pause = pause
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def floor(self) -> AsyncIterator[None]:
        async with self._turn:
            self._pause()
            yield

    def room(self, prompt: str, choices: Sequence[Choice]) -> tuple[int, int]:
        from acp_launch.console.ask.room import needed, screen

        columns, rows = screen()
        lines = (*_listed(choices), f"{prompt}{NO}")
        return columns - COLUMNS, rows - sum(needed(marked(line), columns) for line in lines)

    def say(self, text: str, tone: Tone = "plain") -> None:
        tell(text, tone)

    async def choose(self, prompt: str, choices: Sequence[Choice]) -> str | None:
        """By key or by number; anything unclear is asked again. None for an empty line, and for the end of input."""
        for line in _listed(choices):
            tell(line)
        forget_typed()  # an answer typed before the question is none
        keys = [choice.key for choice in choices if choice.key.isalpha()]
        while True:
            answer = (await _asked(f"{prompt}{NO}")).strip().lower()
            if answer.isdecimal() and 0 < int(answer) <= len(choices):
                return choices[int(answer) - 1].key
            if (key := WORDS.get(answer, answer)) in keys:
                return key
            if answer in NOTHING:
                return None

    async def line(self, prompt: str, *, default: str = "") -> str | None:
        forget_typed()
        shown = f"{prompt} [{default}]: " if default else f"{prompt}: "
        typed = await _asked(shown)
        return typed.rstrip("\r\n") or default if typed else None


def _listed(choices: Sequence[Choice]) -> Iterator[str]:
    for number, choice in enumerate(choices, 1):
        yield f"  {number}. {choice.label}{f' ({choice.key})' if choice.key.isalpha() else ''}"


async def _asked(prompt: str) -> str:
    """The line, with its end; "" at the end of input."""
    ask(prompt)
    line = ""
    try:
        line = await _line()
    finally:
        if not line.endswith("\n"):  # Ctrl-D, Ctrl-C or a time-out: the next words begin on a line of their own
            put("\n")
    return line


async def _line() -> str:
    """One line from the terminal, "" at its end; the event loop goes on meanwhile."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(STDIN, ready.set)
    try:
        await ready.wait()
        return os.read(STDIN, 4096).decode(errors="replace")
    finally:
        loop.remove_reader(STDIN)
