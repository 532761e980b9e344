"""Asking on a terminal without showing, by a child that has one of its own: a pty."""

import json
import os
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_launch.secret.passphrase import Line, hidden
from tests.cli.terminal import PATIENCE, Terminal

# Takes the terminal as its own, asks on it, and reports on stdout; stdin is a pipe that must stay unread.
CHILD = """
import fcntl, json, os, signal, sys, termios
terminal, how = int(sys.argv[1]), sys.argv[2]
fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
os.close(terminal)
if how == "hang up":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
if how == "background" and (worker := os.fork()):
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]))
if how == "background":
    os.setpgid(0, 0)
from acp_launch.errors import UsageError
from acp_launch.secret.passphrase import hidden
try:
    answer = hidden("Wort für github: ")
except UsageError as error:
    answer = [error.message, error.fix]
except KeyboardInterrupt:
    answer = ["interrupted"]
print(json.dumps([answer, sys.stdin.read()]))
"""
PROMPT = "Wort für github: "


class Asked:
    """A child that asks, and the terminal a person types on."""

    def __init__(self, terminal: Terminal, ours: int) -> None:
        self.terminal = terminal
        self._ours = ours
        self._before = self.settings()

    def settings(self) -> list[object]:
        return termios.tcgetattr(self._ours)

    def types(self, keys: bytes) -> None:
        while keys:  # a pty takes 4 KiB at a time, or less
            keys = keys[os.write(self._ours, keys) :]

    def hang_up(self) -> None:
        os.close(self._ours)

    def answer(self) -> object:
        """What came of it; nothing of stdin was read, and the terminal is as it was."""
        out, _ = self.terminal.process.communicate(b"on stdin", PATIENCE)
        answer, stdin = json.loads(out)
        assert stdin == "on stdin"
        return answer

    def assert_restored(self) -> None:
        assert self.settings() == self._before


@contextmanager
def asked(how: str = "foreground") -> Iterator[Asked]:
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(theirs), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[theirs],
        start_new_session=True,
    )
    try:
        yield Asked(Terminal(ours, process), ours)
    finally:
        process.kill()
        process.communicate()
        os.close(theirs)
        if how != "hang up":
            os.close(ours)


def answer_to(keys: str | bytes) -> object:
    with asked() as person:
        person.terminal.until(PROMPT)
        person.types(keys.encode() if isinstance(keys, str) else keys)
        answer = person.answer()
        person.assert_restored()
        person.terminal.until("\n")
        assert person.terminal.text == PROMPT + "\n", "what was typed is seen"
        return answer


def test_what_is_typed_is_not_seen_and_stdin_is_not_touched() -> None:
    assert answer_to("hunter22 é😀\r") == "hunter22 é😀"


def test_a_token_longer_than_a_line_of_the_terminal_comes_whole() -> None:
    """The kernel's own line mode would drop what comes after 4,095 bytes, and say nothing."""
    token = "0123456789" * 1000
    assert answer_to(token + "\r") == token


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        ("\r", ""),
        ("\n", ""),
        ("\x04", ""),
        ("abc\x04", "abc"),
        ("wrong\x15right\n", "right"),
        ("aé😀\x7f\x7f\x08\x08b\n", "b"),
    ],
    ids=["Enter", "newline", "Ctrl-D", "Ctrl-D after text", "Ctrl-U", "Backspace"],
)
def test_the_keys_that_edit_do_so(keys: str, answer: str) -> None:
    assert answer_to(keys) == answer


def test_several_lines_are_refused_and_do_not_reach_the_shell() -> None:
    message = ["several lines were pasted where one was asked for", "pipe them in instead: ... < FILE"]
    assert answer_to("-----BEGIN-----\nrm -rf x\n-----END-----\n") == message


def test_a_line_end_more_is_no_second_line() -> None:
    assert answer_to("token\r\n\n") == "token"


def test_bytes_that_are_no_text_are_refused() -> None:
    assert answer_to(b"token\xff\n") == ["what was typed is not UTF-8 text", "set your terminal to UTF-8"]


def test_ctrl_c_leaves_the_terminal_as_it_was() -> None:
    assert answer_to("hunt\x03") == ["interrupted"]


def test_a_terminal_that_is_closed_is_nobody_to_ask() -> None:
    with asked("hang up") as person:
        person.terminal.until(PROMPT)
        person.hang_up()
        assert person.answer() is None


def test_in_the_background_nobody_is_asked_and_nothing_stops() -> None:
    with asked("background") as person:
        assert person.answer() is None


def test_without_a_terminal_nobody_is_asked() -> None:
    code = "from acp_launch.secret.passphrase import hidden; import sys; print(hidden('Word: '), sys.stdin.read())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        input="piped",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        start_new_session=True,
    )
    assert (done.stdout, done.stderr) == ("None piped\n", "")


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])), st.data())
def test_a_line_is_the_same_however_it_arrives(text: str, data: st.DataObject) -> None:
    keys = text.encode() + b"\n"
    line = Line()
    while keys and not line.is_over:
        cut = data.draw(st.integers(1, len(keys)))
        line.feed(keys[:cut])
        keys = keys[cut:]
    assert (line.typed.decode(), line.is_over, line.rest) == (text, True, b"")


class Msvcrt(ModuleType):
    """A console on which `keys` are typed, UTF-16 unit by unit, as `getwch` gives them."""

    def __init__(self, keys: str) -> None:
        super().__init__("msvcrt")
        units = keys.encode("utf-16-le", "surrogatepass")
        self._units = [units[i : i + 2].decode("utf-16-le", "surrogatepass") for i in range(0, len(units), 2)]
        self.shown = ""

    def getwch(self) -> str:
        return self._units.pop(0)

    def putwch(self, character: str) -> None:
        self.shown += character


def on_windows(monkeypatch: pytest.MonkeyPatch, keys: str, console: str = os.devnull) -> Msvcrt:
    fake = Msvcrt(keys)
    really = os.open
    monkeypatch.setattr(os, "open", lambda path, *rest: really(console if path == "CONIN$" else path, *rest))
    monkeypatch.setitem(sys.modules, "msvcrt", fake)
    monkeypatch.setattr(sys, "platform", "win32")
    return fake


def test_on_windows_the_console_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    console = on_windows(monkeypatch, "hunter22 é😀x\x08\r")
    assert hidden("Word: ") == "hunter22 é😀"
    assert console.shown == "Word: \n"


def test_on_windows_without_a_console_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    on_windows(monkeypatch, "x\r", console="/nowhere/at/all")
    assert hidden("Word: ") is None


def test_on_windows_ctrl_c_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    on_windows(monkeypatch, "x\x03")
    with pytest.raises(KeyboardInterrupt):
        hidden("Word: ")
