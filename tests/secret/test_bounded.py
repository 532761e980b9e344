"""Work that may never end (a keyring that shows a dialog without a user must not hang us)."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from acp_launch.secret.isolate import Late, bounded
from tests.patience import PATIENCE
from tests.secret.backends import acp_launch

BUFFERING = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


def test_the_result_comes_back() -> None:
    assert bounded(lambda: 42, limit=5, waiting=lambda _: None) == 42


@pytest.mark.parametrize("error", [ValueError("no"), RuntimeError("no"), KeyboardInterrupt()])
def test_what_the_work_raises_is_raised_here(error: BaseException) -> None:
    def work() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        bounded(work, limit=5, waiting=lambda _: None)
    assert caught.value is error


@pytest.mark.parametrize("error", [SystemExit(0), GeneratorExit()])
def test_work_ends_only_itself(error: BaseException) -> None:
    def work() -> None:
        raise error

    with pytest.raises(RuntimeError, match=f"^work that must not end anything raised {type(error).__name__}$"):
        bounded(work, limit=5, waiting=lambda _: None)


def test_work_that_hangs_is_given_up() -> None:
    never = threading.Event()
    try:
        with pytest.raises(Late):
            bounded(never.wait, limit=0.05, waiting=lambda _: None)
    finally:
        never.set()


def test_words_come_while_it_hangs_until_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_launch.waits.FIRST_NOTICE", 0.01)
    never, words = threading.Event(), list[float]()
    try:
        with pytest.raises(Late):
            bounded(never.wait, limit=0.2, waiting=words.append)
    finally:
        never.set()
    assert words == pytest.approx([0.01, 0.03, 0.09])


def test_hung_work_does_not_keep_the_interpreter_from_ending() -> None:
    code = (
        "import threading\nfrom acp_launch.secret.isolate import Late, bounded\n"
        "try: bounded(threading.Event().wait, limit=0.05, waiting=print)\nexcept Late: print('late')"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert ended.stdout == "late\n"


@pytest.mark.sample(1)
@pytest.mark.parametrize("backend", ["Pooling", "Delegating"])
def test_a_backend_that_hangs_neither_holds_us_up_nor_leaves_a_program(backend: str, tmp_path: Path) -> None:
    """The program would hold our stderr open; `subprocess.run` reads to its end."""
    done = acp_launch(
        "secret", "set", "github", backend=f"backends.{backend}", cwd=tmp_path, stdin=b"hunter2!", limit="1s"
    )
    assert (done.returncode, done.stdout) == (3, b"")
    assert f"the keyring (tests.secret.backends.{backend}) did not answer within 1 s" in done.stderr.decode()


CRASHING = """
import sys, threading
from acp_launch import __main__
from acp_launch.cli import main
from acp_launch.secret.isolate import Late, bounded

def run(arguments):
    threading.Thread(target=threading.Event().wait).start()
    try:
        bounded(threading.Event().wait, limit=0.05, waiting=print)
    except Late:
        print("late")
        raise ValueError("a bug of ours") from None

main.run = run
__main__.main()
"""


def test_even_a_bug_of_ours_does_not_wait_for_what_was_given_up() -> None:
    command = [sys.executable, "-c", CRASHING]
    ended = subprocess.run(command, env=BUFFERING, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (ended.returncode, ended.stdout) == (1, "late\n")
    assert ended.stderr.startswith("Traceback") and ended.stderr.endswith("ValueError: a bug of ours\n")


INHERITED = """
import os, threading
from acp_launch.secret.isolate import Late, bounded, end_children

def work():
    os.posix_spawnp("sleep", ["sleep", "50"], os.environ)
    started.set()
    threading.Event().wait()

before = os.posix_spawnp("sleep", ["sleep", "50"], os.environ)
started = threading.Event()
try:
    bounded(work, limit=0.2, waiting=print)
except Late:
    started.wait()
    end_children()
killed, status = os.wait()
os.kill(before, 15)
print(killed != before, status, os.waitpid(before, 0)[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists our children")
def test_only_what_was_started_meanwhile_is_ended() -> None:
    """A shell that became acp-launch with exec leaves it its background jobs."""
    command = [sys.executable, "-c", INHERITED]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert ended.stdout == "True 9 15\n"


SPEAKING = """
import os, sys, threading
from acp_launch import waits
from acp_launch.secret import isolate as module
from acp_launch.secret.isolate import without_prompts

waits.FIRST_NOTICE = 0.2
working, heard = threading.Event(), threading.Event()

def work():
    with without_prompts():
        print("noise 1")
        os.write(1, b"noise 2\\n")
        os.system("echo noise 3")
        working.set()
        heard.wait()
        if sys.argv[1] == "late":
            threading.Event().wait()

def waiting(seconds):
    working.wait()
    os.write(1, b"word\\n")
    heard.set()

print("before")
try:
    module.bounded(work, limit=0.4, waiting=waiting)
except module.Late:
    print("late")
os.write(1, b"after\\n")
print(sys.stdin.read())
"""


@pytest.mark.parametrize("end", ["in time", "late"])
def test_only_our_words_come_out_on_stdout(end: str) -> None:
    """In `--output json` they are events; so is the error when it is given up."""
    command = [sys.executable, "-c", SPEAKING, end]
    ended = subprocess.run(
        command, env=BUFFERING, input="stdin", capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert ended.stdout.split() == ["before", "word", "after", *(["late"] if end == "late" else []), "stdin"]
    assert sorted(ended.stderr.splitlines()) == ["noise 1", "noise 2", "noise 3"]
