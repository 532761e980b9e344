"""Questions on a bare terminal: lines on stderr, answers from stdin; and the agent's stderr at a login."""

import asyncio
import codecs
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TextIO

from acp_launch import leave
from acp_launch.console.stderr import DIM, QUOTE, QUOTED, YELLOW, ask, harmless, headed, paint, put, share
from acp_launch.mark import COLUMNS, marked
from acp_launch.session.person import Choice, Tone

# The terminal's modes: its echo, and restoring it at exit.


SHOW, WRAP, NO_FRAME, NO_PASTES, PLAIN = b"\x1b[?25h", b"\x1b[?7h", b"\x1b[?2026l", b"\x1b[?2004l", b"\x1b[0m"


def given_back() -> Callable[[], None]:
    """Restore the terminal on stdin at an immediate exit, to its modes of now. Return a function that undoes this."""
    if not _owns_terminal():
        return lambda: None
    import termios

    before = termios.tcgetattr(0)

    def give_back() -> None:
        termios.tcsetattr(0, termios.TCSANOW, before)  # TCSADRAIN may wait forever for output
        leave.tell(1 if os.isatty(1) else 2, NO_FRAME + WRAP + NO_PASTES + PLAIN + SHOW + b"\r\n")

    return leave.at_exit(give_back)


class Echo:
    """Turns the echo of the terminal on stdin off and on; does nothing if stdin is not a terminal."""

    def __init__(self) -> None:
        self._before: list[object] | None = None

    def off(self) -> None:
        if self._before is not None or not _owns_terminal():
            return
        import termios

        self._before = termios.tcgetattr(0)
        now = termios.tcgetattr(0)
        now[3] &= ~termios.ECHO
        termios.tcsetattr(0, termios.TCSADRAIN, now)

    def on(self) -> None:
        if self._before is None:
            return
        import termios

        termios.tcsetattr(0, termios.TCSADRAIN, self._before)  # type: ignore[arg-type]
        self._before = None


def forget_typed() -> None:
    """Discard input typed before a question."""
    if _owns_terminal():
        import termios

        termios.tcflush(0, termios.TCIFLUSH)


def _owns_terminal() -> bool:
    """Return whether stdin is a terminal and we are its foreground job: a change from the background would stop us."""
    try:
        return sys.stdin is not None and sys.stdin.isatty() and os.tcgetpgrp(0) == os.getpgrp()
    except OSError:  # not our controlling terminal
        return False


STDIN = 0
STYLES: dict[Tone, str] = {"dim": DIM, "heading": "1", "warning": YELLOW, "quote": QUOTE, "faint": QUOTED}
WORDS = {"yes": "y", "no": "n"}
NOTHING = ("", "n", "no")  # an empty line and the end of input mean no
NO = " [no]: "


def possible() -> bool:
    """Return whether a user can be asked: stdin and stderr are both terminals."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def tell(text: str, tone: Tone = "plain") -> None:
    """Print a line of a question, or above one. Lines of ours are always marked."""
    style = STYLES.get(tone, "")
    put(f"{headed(paint(text, style), style)}\n")


class Questions:
    """A `Person` at a terminal on which nothing else draws during a question."""

    def __init__(self, pause: Callable[[], None]) -> None:
        """`pause` stops other drawing on the terminal."""
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
        """Choose by key or number; anything else is asked again. None for an empty line and at the end of input."""
        for line in _listed(choices):
            tell(line)
        forget_typed()  # text typed before the question is not an answer
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
    """Return the line with its end; "" at the end of input."""
    ask(prompt)
    line = ""
    try:
        line = await _line()
    finally:
        if not line.endswith("\n"):  # Ctrl-D, Ctrl-C or a time-out: further output begins on a new line
            put("\n")
    return line


async def _line() -> str:
    """Read one line from the terminal, "" at its end, without blocking the event loop."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(STDIN, ready.set)
    try:
        await ready.wait()
        return os.read(STDIN, 4096).decode(errors="replace")
    finally:
        loop.remove_reader(STDIN)


# The agent's stderr during a login.


class AgentStderr:
    """Shows the agent's stderr during a login, and passes every chunk to the log unchanged."""

    def __init__(self, log: Callable[[bytes], None], stream: TextIO) -> None:
        self._log = log
        self._stream = stream
        self._is_on = False
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")  # a chunk may end within a character

    @contextmanager
    def on(self) -> Iterator[None]:
        """Show it while the block runs."""
        self._is_on = True
        try:
            yield
        finally:
            self._is_on = False

    def __call__(self, chunk: bytes) -> None:
        text = self._decoder.decode(chunk)
        if self._is_on and text:
            share(at_once=True)
            self._stream.write(harmless(text))
            self._stream.flush()
        self._log(chunk)
