"""
Asking for something that must not be seen: on the terminal itself, never on stdin, which may be a pipe with a protocol.

Written by hand because `getpass` falls back to stdin, and because a terminal in its line mode silently drops what
comes after 4,095 bytes: a pasted token may be longer. So keys are read as they come, and the few that edit are obeyed.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from acp_launch.errors import UsageError

ENTER, END, KILL, ERASE = b"\r\n", 0x04, 0x15, b"\x08\x7f"  # Enter, Ctrl-D, Ctrl-U, Backspace
_LOCAL, _CHARACTERS = 3, 6  # where tcgetattr keeps the local flags, and the special characters
_CONTINUATION = range(0x80, 0xC0)  # the bytes of a character after its first, in UTF-8


class Line:
    """One line as it is typed: bytes in, the line out. Knows no terminal."""

    def __init__(self) -> None:
        self.typed = bytearray()
        self.is_over = False
        self.rest = b""  # what came after its end

    def feed(self, keys: bytes) -> None:
        for position, key in enumerate(keys):
            if key in ENTER or key == END:
                self.is_over = True
                self.rest = keys[position + 1 :]
                return
            self._take(key)

    def _take(self, key: int) -> None:
        if key == KILL:
            self.typed.clear()
        elif key in ERASE:
            while self.typed and self.typed.pop() in _CONTINUATION:
                pass
        else:
            self.typed.append(key)


def hidden(prompt: str) -> str | None:
    """What a person typed after `prompt`, unseen; None when there is no terminal, or we are in its background.

    The terminal is as it was afterwards, whatever interrupts us.

    Raises:
        UsageError: several lines were pasted, or bytes that are no text.
    """
    if sys.platform == "win32":
        return _on_console(prompt)
    import termios

    try:
        with _terminal() as terminal:
            return _typed(terminal, prompt) if os.tcgetpgrp(terminal) == os.getpgrp() else None
    except (OSError, termios.error):  # there is none, or not any more
        return None


@contextmanager
def _terminal() -> Iterator[int]:
    descriptor = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _typed(terminal: int, prompt: str) -> str | None:
    with _silent(terminal):
        os.write(terminal, prompt.encode(errors="replace"))
        line = Line()
        while not line.is_over:
            line.feed(_keys(terminal))
        rest = line.rest + _pending(terminal)
    return _text(bytes(line.typed), rest)


def _text(line: bytes, rest: bytes) -> str:
    if rest.strip():
        raise UsageError("several lines were pasted where one was asked for", fix="pipe them in instead: ... < FILE")
    try:
        return line.decode()
    except UnicodeDecodeError:
        pass  # this exception holds what was typed, and must not be the context of the next
    raise UsageError("what was typed is not UTF-8 text", fix="set your terminal to UTF-8")


@contextmanager
def _silent(terminal: int) -> Iterator[None]:
    """No echo, key by key; Ctrl-C and Ctrl-Z still work. What was typed ahead is dropped, before and after:
    the rest of a paste must not become commands of the shell."""
    import termios

    before = termios.tcgetattr(terminal)
    now = termios.tcgetattr(terminal)
    now[_LOCAL] &= ~(termios.ECHO | termios.ICANON)
    now[_CHARACTERS][termios.VMIN], now[_CHARACTERS][termios.VTIME] = 1, 0  # wait for a key, however long
    termios.tcsetattr(terminal, termios.TCSAFLUSH, now)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)
        os.write(terminal, b"\n")  # Enter was not echoed


def _keys(terminal: int) -> bytes:
    """Waits for some."""
    if keys := os.read(terminal, 4096):
        return keys
    raise OSError("nobody is at the terminal any more")


def _pending(terminal: int) -> bytes:
    """What has come already, without waiting."""
    import select

    return _keys(terminal) if select.select([terminal], [], [], 0)[0] else b""


def _on_console(prompt: str) -> str | None:
    """Windows: `getwch` reads the console, whatever stdin is."""
    line = Line()
    if sys.platform == "win32":
        import msvcrt

        try:
            os.close(os.open("CONIN$", os.O_RDWR))
        except OSError:  # no console
            return None
        for character in prompt:
            msvcrt.putwch(character)
        while not line.is_over:
            line.feed(_key(msvcrt.getwch()))
        msvcrt.putwch("\n")
    return _text(_joined(bytes(line.typed)), b"")


def _key(unit: str) -> bytes:
    if unit == "\x03":  # Ctrl-C is a key like any other there
        raise KeyboardInterrupt
    return unit.encode(errors="surrogatepass")


def _joined(typed: bytes) -> bytes:
    """The console gives characters beyond U+FFFF in two halves."""
    halves = typed.decode(errors="surrogatepass").encode("utf-16", errors="surrogatepass")
    return halves.decode("utf-16", errors="replace").encode()
