"""While a keyring backend works, nobody is asked and no stdin is read (issue "Secrets": never a prompt on stdin)."""

import getpass
import io
import sys
import threading
from collections.abc import Callable
from typing import TextIO

import pytest

from acp_launch.secret.quiet import nobody_to_ask


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> TextIO:
    """What the process was given: an answer for whoever asks, and then somebody's JSON."""
    given = io.StringIO('hunter2\n{"jsonrpc": "2.0"}\n')
    monkeypatch.setattr("sys.stdin", given)
    return given


READS: list[Callable[[], object]] = [
    lambda: sys.stdin.read(),
    lambda: sys.stdin.readline(),
    lambda: "".join(sys.stdin),
    lambda: sys.stdin.buffer.read().decode(),
]


@pytest.mark.parametrize("read", READS, ids=["read", "readline", "lines", "bytes"])
def test_stdin_is_at_its_end(stdin: TextIO, read: Callable[[], object]) -> None:
    with nobody_to_ask():
        assert read() == ""
    assert stdin.tell() == 0
    assert sys.stdin is stdin


def test_input_finds_nobody(stdin: TextIO) -> None:
    with nobody_to_ask(), pytest.raises(EOFError):
        input()
    assert stdin.tell() == 0


def test_getpass_asks_nobody_on_the_terminal_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getpass", lambda prompt="Password: ": pytest.fail("somebody was asked"))
    before = getpass.getpass
    with nobody_to_ask(), pytest.raises(EOFError, match="nobody may be asked for a password here"):
        getpass.getpass()
    assert getpass.getpass is before


def test_a_getpass_that_was_kept_asks_nobody_in_a_later_thread_and_works_outside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`from getpass import getpass` in a backend that is imported while it is replaced."""
    monkeypatch.setattr("getpass.getpass", lambda prompt="": f"answer to {prompt}")
    with nobody_to_ask():
        kept = getpass.getpass
    seen: list[str] = []

    def later() -> None:
        with nobody_to_ask():
            try:
                seen.append(kept("asked"))
            except EOFError:
                seen.append("nobody")

    thread = threading.Thread(target=later)
    thread.start()
    thread.join(5)
    assert seen == ["nobody"]
    assert kept("the question") == "answer to the question"


def test_other_threads_read_on_while_one_hangs(stdin: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getpass", lambda prompt="": "typed")
    inside, let_go = threading.Event(), threading.Event()

    def hanging() -> None:
        with nobody_to_ask():
            inside.set()
            let_go.wait(10)

    thread = threading.Thread(target=hanging)
    thread.start()
    assert inside.wait(5)
    assert sys.stdin.readline() == "hunter2\n"
    assert list(sys.stdin) == ['{"jsonrpc": "2.0"}\n']
    assert getpass.getpass() == "typed"
    let_go.set()
    thread.join(5)
    assert sys.stdin is stdin


def test_a_thread_that_ends_first_does_not_open_stdin_to_the_other(
    stdin: TextIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("getpass.getpass", lambda prompt="": "typed")
    entered, first_is_out = threading.Event(), threading.Event()
    heard: list[str] = []

    def other() -> None:
        with nobody_to_ask():
            entered.set()
            first_is_out.wait(5)
            heard.append(sys.stdin.read())
            with pytest.raises(EOFError):
                getpass.getpass()
            heard.append("nobody")

    thread = threading.Thread(target=other)
    with nobody_to_ask():
        thread.start()
        assert entered.wait(5)
    first_is_out.set()
    thread.join(5)
    assert heard == ["", "nobody"]
    assert (sys.stdin.readline(), getpass.getpass()) == ("hunter2\n", "typed")


def test_a_process_without_stdin_stays_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with nobody_to_ask():
        assert sys.stdin.read() == ""
    assert sys.stdin is None
