"""While a keyring backend works, it cannot ask the user or read stdin (issue "Secrets": never a prompt on stdin)."""

import getpass
import io
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import pytest

from acp_launch.secret import isolate
from acp_launch.secret.isolate import without_prompts
from tests.patience import PATIENCE


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> TextIO:
    """What the process was given: an answer for a prompt, and then JSON."""
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
    with without_prompts():
        assert read() == ""
    assert stdin.tell() == 0
    assert sys.stdin is stdin


def test_input_finds_no_user(stdin: TextIO) -> None:
    with without_prompts(), pytest.raises(EOFError):
        input()
    assert stdin.tell() == 0


def test_getpass_does_not_ask_on_the_terminal_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getpass", lambda prompt="Password: ": pytest.fail("the user was asked"))
    before = getpass.getpass
    with without_prompts(), pytest.raises(EOFError, match="acp-launch does not allow password prompts here"):
        getpass.getpass()
    assert getpass.getpass is before


def test_a_getpass_that_was_kept_does_not_ask_in_a_later_thread_and_works_outside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`from getpass import getpass` in a backend that is imported while it is replaced."""
    monkeypatch.setattr("getpass.getpass", lambda prompt="": f"answer to {prompt}")
    with without_prompts():
        kept = getpass.getpass
    seen: list[str] = []

    def later() -> None:
        with without_prompts():
            try:
                seen.append(kept("asked"))
            except EOFError:
                seen.append("no user")

    thread = threading.Thread(target=later)
    thread.start()
    thread.join(5)
    assert seen == ["no user"]
    assert kept("the question") == "answer to the question"


def test_other_threads_read_on_while_one_hangs(stdin: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getpass", lambda prompt="": "typed")
    inside, let_go = threading.Event(), threading.Event()

    def hanging() -> None:
        with without_prompts():
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
        with without_prompts():
            entered.set()
            first_is_out.wait(5)
            heard.append(sys.stdin.read())
            with pytest.raises(EOFError):
                getpass.getpass()
            heard.append("no user")

    thread = threading.Thread(target=other)
    with without_prompts():
        thread.start()
        assert entered.wait(5)
    first_is_out.set()
    thread.join(5)
    assert heard == ["", "no user"]
    assert (sys.stdin.readline(), getpass.getpass()) == ("hunter2\n", "typed")


def test_a_process_without_stdin_stays_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with without_prompts():
        assert sys.stdin.read() == ""
    assert sys.stdin is None


def heard(code: str) -> tuple[list[str], list[str]]:
    """The lines a fresh interpreter prints on stdout and stderr; its stdin is `{"jsonrpc": "2.0"}`."""
    program = (
        "import os, sys\n"
        "from acp_launch.secret.isolate import diverted, restore_descriptors, stdout_restored\n"
        "from acp_launch.secret.isolate import without_prompts\n"
        "def say(text): os.write(1, text.encode() + b'\\n')\n"
    )
    command = [sys.executable, "-c", program + code]
    given = '{"jsonrpc": "2.0"}\n'
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    ended = subprocess.run(command, env=env, input=given, capture_output=True, text=True, timeout=PATIENCE, check=True)
    return ended.stdout.splitlines(), ended.stderr.splitlines()


def test_programs_find_stdin_at_its_end_and_print_on_stderr() -> None:
    out, err = heard("with without_prompts(): os.system('cat; echo printed')\nos.system('cat')\n")
    assert (out, err) == (['{"jsonrpc": "2.0"}'], ["printed"])


def test_what_is_printed_goes_to_stderr_also_when_it_is_flushed_later() -> None:
    out, err = heard(
        "print('before')\n"
        "with without_prompts(): print('noise'); print('more', file=sys.__stdout__); say('raw')\n"
        "print('after')\n"
    )
    assert (out, err) == (["before", "after"], ["raw", "noise", "more"])


def test_a_word_in_between_comes_out_on_stdout() -> None:
    out, err = heard(
        "with without_prompts():\n"
        "    print('noise 1')\n"
        "    with stdout_restored(): print('word 1'); say('word 2')\n"
        "    print('noise 2'); say('noise 3')\n"
        "with stdout_restored(): say('word 3')\n"
        "say('word 4')\n"
    )
    assert out == ["word 2", "word 1", "word 3", "word 4"]
    assert sorted(err) == ["noise 1", "noise 2", "noise 3"]


def test_the_last_one_out_puts_everything_back() -> None:
    out, err = heard(
        "first, second = diverted(), diverted()\n"
        "first.__enter__(); second.__enter__(); say('noise 1')\n"
        "first.__exit__(None, None, None); say('noise 2')\n"
        "second.__exit__(None, None, None); say('word'); say(sys.stdin.readline())\n"
    )
    assert (out, err) == (["word", '{"jsonrpc": "2.0"}', ""], ["noise 1", "noise 2"])


def test_who_was_given_up_takes_nothing_back_from_who_came_later() -> None:
    out, err = heard(
        "late = diverted()\n"
        "late.__enter__(); restore_descriptors(); say('word'); say(sys.stdin.readline())\n"
        "with diverted(): say('noise 1')\n"
        "say('between')\n"
        "with diverted(): late.__exit__(None, None, None); say('noise 2')\n"
        "say('end')\n"
    )
    assert (out, err) == (["word", '{"jsonrpc": "2.0"}', "", "between", "end"], ["noise 1", "noise 2"])


def test_nothing_stays_open(stdin: TextIO) -> None:
    before = len(list(Path("/dev/fd").iterdir()))
    with without_prompts(), isolate.stdout_restored():
        pass
    assert len(list(Path("/dev/fd").iterdir())) == before


def test_beside_a_session_its_stdin_and_stdout_stay_where_they_are() -> None:
    """A session reads and writes there while a login is renewed in a thread."""
    out, err = heard(
        "from acp_launch.secret.isolate import beside_a_session\n"
        "with beside_a_session(), without_prompts():\n"
        "    print(repr(sys.stdin.read()), flush=True); say(os.read(0, 100).decode())\n"
        "with without_prompts(): say('noise')\n"
    )
    assert (out, err) == (["''", '{"jsonrpc": "2.0"}', ""], ["noise"])
