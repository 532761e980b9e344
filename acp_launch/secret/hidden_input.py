"""
A prompt for hidden input, on the terminal itself and never on stdin, which may be a pipe with a protocol.

prompt_toolkit tells the keys; nothing is drawn. `getpass` falls back to stdin, shows typed text after Ctrl-Z and
`fg`, and loses everything after 4,095 bytes.

A signal that stops or ends us takes effect only after the terminal has its own modes again. When we continue, the shell
has changed the modes: they are set anew, the text typed before is dropped, and the prompt is shown again.
"""

import asyncio
import os
import selectors
import signal
import termios
from typing import TextIO

from acp_launch import shutdown
from acp_launch.errors import UsageError
from acp_launch.problem import marked
from acp_launch.secret.value import size

PIPE = "pipe it in: acp-launch secret set NAME < FILE"
ENTER, END, KILL, ERASE, TAB, PASTE = ("c-m", "c-j"), "c-d", "c-u", "c-h", "c-i", "<bracketed-paste>"
BELL = b"\a"
_LOCAL, _CHARACTERS = 3, 6  # where tcgetattr stores the local flags and the special characters


def ask_hidden(prompt: str, *, fix: str = PIPE) -> str | None:
    """Ask the user for a line without echo. Returns None without a terminal, or in its background.

    Call this in the main thread only, because signals arrive there. The terminal and the signal handlers are restored
    whatever interrupts us. `fix` is shown to a user who pasted several lines.

    Raises:
        UsageError: several lines were pasted, or bytes that are not text.
    """
    try:
        descriptor = os.open("/dev/tty", os.O_RDWR)
    except OSError:  # there is no terminal
        return None
    with os.fdopen(descriptor, encoding="utf-8") as terminal:
        if not _is_ours(descriptor) or (answer := _Question(terminal, prompt).answer()) is None:
            return None
    text = answer.rstrip("\r\n")
    if "\n" in text or "\r" in text:
        raise UsageError("several lines were pasted; expected one", fix=fix)
    if size(text) is None:
        raise UsageError("the input is not UTF-8 text", fix="set your terminal to UTF-8")
    return text


class _Question:
    """A prompt on a terminal, without echo and key by key.

    Text typed before and after is dropped: the rest of a paste must not become commands of the shell.
    """

    def __init__(self, terminal: TextIO, prompt: str) -> None:
        from prompt_toolkit.input.vt100 import Vt100Input

        self._terminal = terminal.fileno()
        self._prompt = marked(prompt).encode(errors="replace")
        self._before = termios.tcgetattr(terminal)
        self._silent = termios.tcgetattr(terminal)
        self._silent[_LOCAL] &= ~(termios.ECHO | termios.ICANON)
        special = self._silent[_CHARACTERS]
        special[termios.VMIN], special[termios.VTIME] = 1, 0  # wait for a key, however long
        self._keys = Vt100Input(terminal)
        self._line = self._behind = ""
        self._is_over = asyncio.Event()

    def answer(self) -> str | None:
        """Return the line, and what was pasted behind it on further lines; None if the terminal is closed."""
        forget = shutdown.at_exit(self._give_back)
        try:
            with asyncio.Runner(loop_factory=_loop) as runner:
                runner.run(self._ask_line())
            self._read()
            return f"{self._line}\n{self._behind}"
        except OSError:
            return None
        finally:
            if self._give_back():
                os.write(self._terminal, b"\n")  # Enter was not echoed
            forget()

    async def _ask_line(self) -> None:
        loop = asyncio.get_running_loop()  # which gives the signals back when it is closed
        for number in (signal.SIGTSTP, signal.SIGQUIT):
            loop.add_signal_handler(number, self._obey, number)
        loop.add_signal_handler(signal.SIGCONT, self._continue)
        self._begin()
        loop.add_reader(self._terminal, self._read)
        await self._is_over.wait()
        if not os.isatty(self._terminal):
            raise OSError("the terminal was closed")

    def _begin(self) -> None:
        """Ask for a whole line, without echo. In the background the kernel stops us here."""
        termios.tcsetattr(self._terminal, termios.TCSAFLUSH, self._silent)
        self._line = ""
        os.write(self._terminal, self._prompt)

    def _read(self) -> None:
        """Take the keys that have come. There are none if the terminal is closed."""
        keys = self._keys.read_keys()
        for key in keys:
            if self._is_over.is_set():
                self._behind += key.data
            else:
                self._take(key.key, key.data)
        if not keys and not os.isatty(self._terminal):
            self._is_over.set()

    def _take(self, key: str, text: str) -> None:
        if key in ENTER or key == END:
            self._is_over.set()
        elif key == KILL:
            self._line = ""
        elif key == ERASE:
            self._line = self._line[:-1]
        elif key == text or key in (TAB, PASTE):
            self._line += text
        else:
            os.write(self._terminal, BELL)

    def _obey(self, number: int) -> None:
        """Do what the signal does by default. Goes on when we continue."""
        loop = asyncio.get_running_loop()
        self._give_back()
        loop.remove_signal_handler(number)
        signal.raise_signal(number)
        loop.add_signal_handler(number, self._obey, number)
        self._begin()

    def _continue(self) -> None:
        """Begin again after a stop that could not be caught."""
        if termios.tcgetattr(self._terminal)[_LOCAL] & termios.ECHO:
            self._begin()

    def _give_back(self) -> bool:
        """Restore the modes. Returns False in the background of the terminal, or if it is closed."""
        if is_ours := _is_ours(self._terminal):
            termios.tcsetattr(self._terminal, termios.TCSAFLUSH, self._before)
        return is_ours


def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(selectors.SelectSelector())  # other selectors of macOS take no /dev/tty


def _is_ours(terminal: int) -> bool:
    """Whether we are in the foreground. A terminal that was hung up has no foreground."""
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
