"""Questions on a bare terminal: lines on stderr, answers from stdin; and the agent's stderr at a login."""

import asyncio
import os
import signal
import sys
import termios
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from acp_launch import shutdown
from acp_launch.console.ask.viewport import break_lines, is_roomy, screen
from acp_launch.console.stderr import DIM, GREEN, RED, YELLOW, ask, paint, put
from acp_launch.console.stdout import cells
from acp_launch.problem import COLUMNS, MARK
from acp_launch.session.events import Choice, Tone

# The terminal's modes: its echo, and restoring it at exit.


SHOW, WRAP, NO_FRAME, NO_PASTES, PLAIN = b"\x1b[?25h", b"\x1b[?7h", b"\x1b[?2026l", b"\x1b[?2004l", b"\x1b[0m"


def restore_at_exit() -> Callable[[], None]:
    """Restore the terminal on stdin at an immediate exit, to its modes of now. Return a function that undoes this."""
    before = _modes()
    if before is None:
        return lambda: None

    def restore() -> None:
        _restore(before)
        shutdown.tell(1 if os.isatty(1) else 2, NO_FRAME + WRAP + NO_PASTES + PLAIN + SHOW + b"\r\n")

    return shutdown.at_exit(restore)


@contextmanager
def without_modes(*names: str) -> Iterator[None]:
    """Turn these modes of the terminal on stdin off while the block runs; do nothing if it is not our terminal.

    Without ECHO and ICANON it gives each key at once and without echo; Ctrl-C stays a signal.
    """
    before = _modes()
    if before is None:
        yield
        return
    forget = shutdown.at_exit(lambda: _restore(before))
    _clear(*names)
    try:
        yield
    finally:
        forget()
        _restore(before)


def forget_typed() -> None:
    """Discard input typed before a question."""
    if owns_terminal():
        termios.tcflush(0, termios.TCIFLUSH)


Modes = list[Any]  # as `termios` has them


def _modes() -> Modes | None:
    """Return the modes of the terminal on stdin; None if it is not ours."""
    if not owns_terminal():
        return None

    return termios.tcgetattr(0)


def _clear(*names: str) -> None:
    now = termios.tcgetattr(0)
    for name in names:
        now[3] &= ~getattr(termios, name)
    now[6][termios.VMIN], now[6][termios.VTIME] = 1, 0
    termios.tcsetattr(0, termios.TCSADRAIN, now)


def _restore(before: Modes) -> None:
    with suppress(termios.error):  # it hung up
        termios.tcsetattr(0, termios.TCSANOW, before)  # TCSADRAIN may wait forever for output


def owns_terminal() -> bool:
    """Return whether stdin is a terminal and we are its foreground job: a change from the background would stop us."""
    try:
        return sys.stdin is not None and sys.stdin.isatty() and os.tcgetpgrp(0) == os.getpgrp()
    except OSError:  # not our controlling terminal
        return False


STDIN = 0
STYLES: dict[Tone, str] = {
    "dim": DIM,
    "heading": f"1;{YELLOW}",
    "warning": YELLOW,
    "faint": DIM,
    "added": GREEN,
    "removed": RED,
}
WORDS = {"yes": "y", "no": "n"}
END, ESCAPED = "\x04", "\x1b"  # Ctrl-D, Escape
ERASE, ERASE_ALL = "\x7f\x08", "\x15"  # Backspace, Ctrl-U
MAX_PASTE_CHARS = 64 * 1024
ESCAPE_TIMEOUT = 0.1  # for the rest of a key that begins with Escape, also over a slow connection
QUIET_SECONDS = 0.3  # no user reads and answers a question faster
PAUSE_SECONDS = 1.0  # without a key, after which the user is no longer typing
BETWEEN = "  "  # between two answers
KEY = "1;36"  # the style of a key


def tell(text: str, tone: Tone = "plain", keys: Sequence[str] = ()) -> None:
    """Print lines of a question, or above one. Our mark is the bar on their left, also of quoted text.

    `keys` are of answers in it, which are coloured.
    """
    bar, style = paint(MARK, YELLOW), STYLES.get(tone, "")
    for row in break_lines(text, screen()[0] - COLUMNS):
        for key in keys:
            row = row.replace(f"[{key}] ", f"{paint(f'[{key}]', KEY)} ", 1)
        put(f"{bar} {paint(row, style)}".rstrip() + "\n")


class StillClock:
    """A clock for the time an agent takes: it stands still while the user answers a question."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock  # never stands still; its start is arbitrary
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


class TerminalQuestions:
    """A `Person` at a terminal on which nothing else draws during a question."""

    def __init__(self, pause: Callable[[], None], clock: StillClock | None = None) -> None:
        """`pause` stops other drawing on the terminal; `clock` stands still while the user is asked."""
        self._pause, self._clock = pause, clock or StillClock()
        self._turn = asyncio.Lock()
        self._said: list[tuple[str, Tone]] = []  # above the question

    @asynccontextmanager
    async def floor(self) -> AsyncIterator[None]:
        with self._clock.still():
            async with self._turn:
                self._pause()
                self._said = []
                if is_roomy():
                    put("\n")
                yield

    def room(self, prompt: str, choices: Sequence[Choice]) -> tuple[int, int]:
        columns, rows = screen()
        shown = (prompt, prompt, *answers(choices, columns))  # once more with the answer
        taken = sum(len(break_lines(line, columns - COLUMNS)) for line in shown)
        return columns - COLUMNS, rows - is_roomy() - taken

    def say(self, text: str, tone: Tone = "plain") -> None:
        self._said.append((text, tone))
        tell(text, tone)

    async def choose(self, prompt: str, choices: Sequence[Choice]) -> str | None:
        """Choose by one key, as in an interactive session. None for Escape, Ctrl-D and the end of input."""
        tone: Tone = "plain" if self._said else "heading"

        def draw_again() -> None:
            """Draw the question below what the shell has shown since Ctrl-Z, in our modes again."""
            if owns_terminal():
                _clear("ECHO", "ICANON")
                for text, each in (*self._said, (prompt, tone)):
                    tell(text, each)
                tell_answers(choices)

        with without_modes("ECHO", "ICANON"), _on_continue(draw_again):
            key = await ask_for_key(prompt, choices, self.read_keys, tone=tone)
        if key is not None:
            tell(f"{prompt} {next(choice.label for choice in choices if choice.key == key)}", "dim")
        return key

    async def line(self, prompt: str, *, default: str = "") -> str | None:
        forget_typed()
        typed = await self.read_line(f"{prompt} [{default}]: " if default else f"{prompt}: ")
        return typed.rstrip("\r\n") or default if typed else None

    async def read_keys(self) -> str:
        """Return the next keys as they came, or a line; empty at the end of input."""
        return await _read()

    async def read_line(self, prompt: str) -> str:
        """Return a line with its end; empty at the end of input."""
        return await _ask_line(prompt)


async def ask_for_paste(prompt: str) -> str | None:
    """Ask for a text that is not shown, and may be longer than a line that the terminal edits (4,095 bytes).

    None for Ctrl-D and the end of input.
    """
    text = ""
    try:
        with without_modes("ECHO", "ICANON"):  # before the prompt: what answers it is not shown, however soon it comes
            forget_typed()
            ask(prompt)
            while not text.endswith("\n"):
                keys = await _read()
                if not keys or END in keys:
                    return None
                for key in keys:
                    text = text[:-1] if key in ERASE else "" if key == ERASE_ALL else text + key
                if len(text) > MAX_PASTE_CHARS:
                    return text
    finally:
        put("\n")
    return text.strip()


def ask_yes_or_no(prompt: str, yes: str = "Yes", no: str = "No") -> bool | None:
    """Ask a yes-or-no question while no event loop runs. None, which also means no, if it is dismissed."""
    return asyncio.run(choose_yes_or_no(prompt, yes, no))


async def choose_yes_or_no(prompt: str, yes: str = "Yes", no: str = "No") -> bool | None:
    """Ask the same in an event loop."""
    questions = TerminalQuestions(lambda: None)
    async with questions.floor():
        key = await questions.choose(prompt, [Choice("y", yes), Choice("n", no)])
    return None if key is None else key == "y"


def ask_line(prompt: str) -> str:
    """Ask for a line while no event loop runs. Return it with its end; "" at the end of input.

    Python's own `readline` would miss a Ctrl-C that comes just before it waits.
    """
    return asyncio.run(_ask_line(prompt))


def answers(choices: Sequence[Choice], columns: int) -> list[str]:
    """Return the rows of the answers with their keys: as many in a row as fit."""
    rows: list[str] = []
    for answer in (f"[{choice.key}] {choice.label}" for choice in choices):
        if rows and cells(rows[-1] + BETWEEN + answer) <= columns - COLUMNS:
            rows[-1] += BETWEEN + answer
        else:
            rows.append(answer)
    return rows


def tell_answers(choices: Sequence[Choice]) -> None:
    for row in answers(choices, screen()[0]):
        tell(row, keys=[choice.key for choice in choices])


@contextmanager
def _on_continue(act: Callable[[], None]) -> Iterator[None]:
    """Act whenever this process goes on after a stop, while the block runs."""
    loop, before = asyncio.get_running_loop(), signal.getsignal(signal.SIGCONT)
    loop.add_signal_handler(signal.SIGCONT, act)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGCONT)
        signal.signal(signal.SIGCONT, before or signal.SIG_DFL)


def keys_of(choices: Sequence[Choice]) -> str:
    """Return the keys that answer, and the one that dismisses."""
    return f"{', '.join(choice.key for choice in choices)}, or Escape to dismiss the question"


async def ask_for_key(
    prompt: str, choices: Sequence[Choice], read: Callable[[], Awaitable[str]], *, tone: Tone = "plain"
) -> str | None:
    """Show a question on a bare terminal, and return the key of the answer; None if it is dismissed.

    `read` returns the next keys as they came, or a line; empty at the end of input. Keys do not count before the user
    could read the question, while the user is typing, or when several come at once.
    """
    tell(prompt, tone)
    forget_typed()
    is_shown, due = False, _now() + QUIET_SECONDS
    while True:
        typed = await _before(due, read) if due > _now() else None
        if typed is None:
            if not is_shown:
                tell_answers(choices)
            is_shown, typed = True, await read()
            key = _key(typed, choices)
            if key is not None:
                return key
            if typed == "\n":
                tell(f"Enter does not answer; press {keys_of(choices)}", "dim")
        if typed in ("", END) or (typed == ESCAPED and await _before(_now() + ESCAPE_TIMEOUT, read) is None):
            return None
        if len(typed) > 1 or not is_shown:
            due = _now() + PAUSE_SECONDS


async def _before(due: float, read: Callable[[], Awaitable[str]]) -> str | None:
    """Return the text typed before `due`, None without any."""
    try:
        async with asyncio.timeout_at(due):
            return await read()
    except TimeoutError:
        return None


def _now() -> float:
    return asyncio.get_running_loop().time()


def _key(typed: str, choices: Sequence[Choice]) -> str | None:
    """Return the answer that a key stands for. A line with its end may also be a word."""
    word = typed.strip().lower()
    key = WORDS.get(word, word) if typed.endswith("\n") else word
    return key if key in {choice.key for choice in choices} else None


async def _ask_line(prompt: str) -> str:
    """Return the line with its end; "" at the end of input."""
    ask(prompt)
    line = ""
    try:
        line = await _read()
    finally:
        if not line.endswith("\n"):  # Ctrl-D, Ctrl-C or a time-out: further output begins on a new line
            put("\n")
    return line


async def _read() -> str:
    """Read one line from the terminal, "" at its end, without blocking the event loop."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(STDIN, ready.set)
    try:
        await ready.wait()
        return os.read(STDIN, 4096).decode(errors="replace")
    finally:
        loop.remove_reader(STDIN)
