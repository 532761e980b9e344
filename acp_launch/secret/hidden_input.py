"""
A prompt for hidden input, on the terminal itself and never on stdin, which may be a pipe with a protocol.

Not `getpass`: it falls back to stdin, and it shows what is typed after Ctrl-Z and `fg`. A terminal in line mode also
silently drops everything after 4,095 bytes, and a pasted token may be longer. So keys are read one by one, and the few
editing keys are handled here (`LineBuffer`).

A signal that stops or ends us takes effect only after the terminal has its own modes again. When we continue, the shell
has changed the modes: they are set anew, the text typed before is dropped, and the prompt is shown again.
"""

import errno
import os
import select
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from acp_launch.errors import UsageError
from acp_launch.mark import marked
from acp_launch.regex import regex

ENTER, END, KILL, ERASE = b"\r\n", 0x04, 0x15, b"\x08\x7f"  # Enter, Ctrl-D, Ctrl-U, Backspace
ESCAPE, TAB, SPACE, BELL = 0x1B, 0x09, 0x20, b"\a"
PASTE = (b"\x1b[200~", b"\x1b[201~")  # what a terminal may put around a paste
# Keys that send several bytes: arrows, F1, Delete (ECMA-48 CSI and SS3; `ESC [ [ A` is F1 on the Linux console).
_BEGUN = regex(rb"\x1b(?:O|\[(?:\[|[0-?]{0,30}[ -/]{0,4}))?")
_WHOLE = regex(rb"\x1b(?:O[ -~]|\[\[[ -~]|\[[0-?]{0,30}[ -/]{0,4}[@-~])")
_CONTINUATION = range(0x80, 0xC0)  # the bytes of a UTF-8 character after its first


class LineBuffer:
    """A line typed key by key. Pure: bytes in, the line out; it does not use a terminal."""

    def __init__(self) -> None:
        self.typed = bytearray()
        self.is_over = False
        self.rest = b""  # the bytes after the end of the line
        self._refused = 0
        self._sequence = b""  # the bytes so far of a key that sends several

    def feed(self, keys: bytes) -> bool:
        """Add keys. Returns False if one of them has no effect, for example an arrow."""
        refused = self._refused
        for position, key in enumerate(keys):
            if self._continues(key):
                continue
            if key in ENTER or key == END:
                self.is_over = True
                self.rest = keys[position + 1 :]
                break
            self._take(key)
        return self._refused == refused

    def _continues(self, key: int) -> bool:
        """Whether the byte is part of a sequence. Esc alone is one too, and the text typed after it is not lost."""
        if not self._sequence and key != ESCAPE:
            return False
        sequence, self._sequence = self._sequence + bytes([key]), b""
        if _BEGUN.fullmatch(sequence):
            self._sequence = sequence
            return True
        self._refused += sequence not in PASTE
        return _WHOLE.fullmatch(sequence) is not None or self._continues(key)

    def _take(self, key: int) -> None:
        if key == KILL:
            self.typed.clear()
        elif key in ERASE:
            while self.typed and self.typed.pop() in _CONTINUATION:
                pass
        elif key < SPACE and key != TAB:
            self._refused += 1
        else:
            self.typed.append(key)


PIPE = "pipe it in: acp-launch secret set NAME < FILE"
_EXTENDED = "GHIKMOPQRS"  # after U+00E0 on a Windows console: Home, the arrows and the keys around them
_LOCAL, _CHARACTERS = 3, 6  # where tcgetattr stores the local flags and the special characters


def ask_hidden(prompt: str, *, fix: str = PIPE) -> str | None:
    """Ask the user for a line without echo. Returns None without a terminal, or in its background.

    Call this in the main thread only, because signals arrive there. The terminal and the signal handlers are restored
    whatever interrupts us. `fix` is shown to a user who pasted several lines.

    Raises:
        UsageError: several lines were pasted, or bytes that are not text.
    """
    if sys.platform == "win32":
        return _on_console(prompt)
    import termios

    try:
        with Path("/dev/tty").open("r+b", buffering=0) as terminal:
            answer = _Question(terminal.fileno(), prompt).answer() if _is_ours(terminal.fileno()) else None
    except (OSError, termios.error):  # there is no terminal, or it is closed
        return None
    return None if answer is None else _text(*answer, fix)


def _text(line: bytes, rest: bytes, fix: str) -> str:
    if _holds_text(rest):
        raise UsageError("several lines were pasted; expected one", fix=fix)
    try:
        return line.decode()
    except UnicodeDecodeError:
        pass  # this exception holds the input, and must not be the context of the next
    raise UsageError("the input is not UTF-8 text", fix="set your terminal to UTF-8")


def _holds_text(rest: bytes) -> bool:
    """Whether there is more than line ends and the bytes that a terminal puts after a paste."""
    while rest:
        line = LineBuffer()
        line.feed(rest)
        if line.typed.strip():
            return True
        rest = line.rest
    return False


class _Question:
    """A prompt on a terminal, without echo and key by key.

    Text typed before and after is dropped: the rest of a paste must not become commands of the shell.
    """

    def __init__(self, terminal: int, prompt: str) -> None:
        import termios

        self._terminal = terminal
        self._prompt = marked(prompt).encode(errors="replace")
        self._line = LineBuffer()
        self._before = termios.tcgetattr(terminal)
        self._silent = termios.tcgetattr(terminal)
        self._silent[_LOCAL] &= ~(termios.ECHO | termios.ICANON)
        special = self._silent[_CHARACTERS]
        special[termios.VMIN], special[termios.VTIME] = 1, 0  # wait for a key, however long

    def answer(self) -> tuple[bytes, bytes]:
        """Return the line, and the bytes after it."""
        with _Signals() as signals:
            try:
                self._begin(signals)
                while not self._line.is_over:
                    self._wait(signals)
                return bytes(self._line.typed), self._line.rest + _pending(self._terminal)
            finally:
                if self._give_back():
                    os.write(self._terminal, b"\n")  # Enter was not echoed

    def _begin(self, signals: "_Signals", numbers: Sequence[int] = ()) -> None:
        """Let the signals take effect. When we continue, ask for a whole line again, without echo."""
        is_silent = False
        while numbers or not is_silent:
            for number in numbers:
                if number != signal.SIGCONT:
                    self._give_back()
                    signals.obey(number)
            numbers = signals.arrived()  # a signal that ends us may have come while we were stopped
            is_silent = not numbers and _set(self._terminal, self._silent)
        self._line = LineBuffer()
        os.write(self._terminal, self._prompt)

    def _wait(self, signals: "_Signals") -> None:
        ready, _, _ = select.select([self._terminal, signals.descriptor], [], [])
        if signals.descriptor not in ready:
            if not self._line.feed(_keys(self._terminal)):
                os.write(self._terminal, BELL)
        elif numbers := signals.arrived():
            self._begin(signals, numbers)

    def _give_back(self) -> bool:
        """Restore the modes. Returns False in the background of the terminal, or if it is closed."""
        while _is_ours(self._terminal):
            if _set(self._terminal, self._before):
                return True
        return False


def _told(*_: object) -> None:
    """Handle a signal that `_Signals` reports."""


class _Signals:
    """Signals that stop or end us and have no handler: reported instead of obeyed. SIGCONT is reported too."""

    def __enter__(self) -> "_Signals":
        self._ours: list[int] = []
        self.descriptor, self._told = os.pipe()  # to wait for signals and for keys at once
        os.set_blocking(self.descriptor, False)
        os.set_blocking(self._told, False)
        self._told_before = signal.set_wakeup_fd(self._told, warn_on_full_buffer=False)
        for number in (signal.SIGTSTP, signal.SIGCONT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            if signal.getsignal(number) == signal.SIG_DFL:
                self._ours.append(number)
                signal.signal(number, _told)
        return self

    def __exit__(self, *_: object) -> None:
        for number in self._ours:
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(self._told_before)
        late = [number for number in self.arrived() if number != signal.SIGCONT]
        os.close(self.descriptor)
        os.close(self._told)
        for number in late:
            signal.raise_signal(number)

    def arrived(self) -> list[int]:
        """Return the signals that came since the last call, without waiting."""
        try:
            numbers = os.read(self.descriptor, 4096)
        except BlockingIOError:
            return []
        return [number for number in numbers if number in self._ours or number == signal.SIGCONT]

    def obey(self, number: int) -> None:
        """Do what the signal does by default. Returns when we continue."""
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
        signal.signal(number, _told)


def _is_ours(terminal: int) -> bool:
    """Whether we are in the foreground. A terminal that was hung up has no foreground."""
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False


def _set(terminal: int, modes: list[Any]) -> bool:
    """Set the modes. Returns False if a signal came first.

    In the background the kernel stops us here, until we are in the foreground again.
    """
    import termios

    try:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, modes)
        return True
    except termios.error as error:
        if error.args[0] != errno.EINTR:
            raise
        return False


def _keys(terminal: int) -> bytes:
    """Wait for keys."""
    if keys := os.read(terminal, 4096):
        return keys
    raise OSError("the terminal was closed")


def _pending(terminal: int) -> bytes:
    """Return the bytes that have arrived already, without waiting."""
    return _keys(terminal) if select.select([terminal], [], [], 0)[0] else b""


def _on_console(prompt: str) -> str | None:
    """Ask on a Windows console: `getwch` reads the console, whatever stdin is."""
    line = LineBuffer()
    if sys.platform == "win32":
        import msvcrt

        try:
            os.close(os.open("CONIN$", os.O_RDWR))
        except OSError:  # no console
            return None
        for character in marked(prompt):
            msvcrt.putwch(character)
        while not line.is_over:
            if not line.feed(_console_keys()):
                msvcrt.putwch("\a")
        msvcrt.putwch("\n")
    return _text(_joined(bytes(line.typed)), b"", PIPE)


def _console_keys() -> bytes:
    """Read one key. An arrow begins with the letter à there; the next unit tells them apart."""
    if sys.platform == "win32":
        import msvcrt

        unit = msvcrt.getwch()
        if unit != "\0" and not (unit == "\xe0" and msvcrt.kbhit()):
            return _key(unit)
        following = msvcrt.getwch()
        return b"\0" if unit == "\0" or following in _EXTENDED else _key(unit) + _key(following)
    return b""


def _key(unit: str) -> bytes:
    if unit == "\x03":  # Ctrl-C is an ordinary key there
        raise KeyboardInterrupt
    return unit.encode(errors="surrogatepass")


def _joined(typed: bytes) -> bytes:
    """Join the halves in which the console gives characters beyond U+FFFF."""
    halves = typed.decode(errors="surrogatepass").encode("utf-16", errors="surrogatepass")
    return halves.decode("utf-16", errors="replace").encode()
