"""The check of an item: real commands, and what is left of them."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from acp_launch.batch import checking
from acp_launch.batch.checking import find_absence, run_check
from acp_launch.batch.model import CheckCommand, CheckResult
from acp_launch.document.scalars import Duration
from acp_launch.errors import StateError, Stopped
from acp_launch.plan.model import OverSsh, Place
from tests.patience import PATIENCE

# Holds a lock from a session of its own, whose parent has ended: it is free once that process has.
DAEMON = """
import fcntl, os, sys
if not os.fork():
    os.setsid()
    if not os.fork():
        held = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
        fcntl.flock(held, fcntl.LOCK_EX)
        open(sys.argv[1] + ".held", "w").close()
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            signal.pause()
    os._exit(0)
os.wait()
"""


def made(command: Sequence[str], timeout: float = PATIENCE) -> CheckCommand:
    return CheckCommand(command=tuple(command), timeout=Duration(timeout))


@pytest.fixture
def check(tmp_path: Path) -> Callable[..., tuple[CheckResult, str]]:
    def run(*command: str, timeout: float = PATIENCE) -> tuple[CheckResult, str]:
        return run_check(made(command, timeout), tmp_path, None, lambda: False)

    return run


Check = Callable[..., tuple[CheckResult, str]]


def test_a_check_gives_its_exit_code_and_what_it_printed(check: Check, tmp_path: Path) -> None:
    words = "sh", "-c", "pwd; echo failed >&2; exit 3"
    result, text = check(*words)
    assert (result.command, result.exit_code) == (words, 3)
    assert text == f"{tmp_path}\nfailed\n"


def test_a_check_that_a_signal_killed_has_the_exit_code_of_a_shell(check: Check) -> None:
    assert check("sh", "-c", "kill -9 $$")[0].exit_code == 137


def test_a_check_gets_no_secret_and_nothing_to_read(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACP_LAUNCH_SECRET_GITHUB", "planted")
    monkeypatch.setenv("OTHER", "passed on")
    result, text = check("sh", "-c", "cat; env")
    assert "OTHER=passed on" in text
    assert "planted" not in text
    assert result.exit_code == 0


def test_a_check_is_not_read_by_a_shell(check: Check) -> None:
    assert check("echo", "$HOME", "; exit 1")[1] == "$HOME ; exit 1\n"


def test_the_end_of_a_long_output_is_kept(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "MAX_OUTPUT_BYTES", 2**20)
    result, text = check("sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' a; echo; echo 1 failed")
    assert result.exit_code == 0
    assert text.startswith("acp-launch: only the last 1 MiB follow\naaa")
    assert text.endswith("a\n1 failed\n")
    assert len(text) < 2**20 + 100


def test_a_program_of_the_tree_is_found_from_its_directory(check: Check, tmp_path: Path) -> None:
    (tmp_path / "t.sh").write_text("#!/bin/sh\necho mine\n")
    (tmp_path / "t.sh").chmod(0o700)
    assert check("./t.sh")[1] == "mine\n"


def test_a_check_that_the_agent_removed_has_failed(check: Check, tmp_path: Path) -> None:
    result, text = check("./gone")
    assert result.exit_code == 127
    assert text == f'acp-launch: the program "{tmp_path}/gone" does not exist\n'


def test_a_check_that_is_not_a_program_has_failed(check: Check, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("\0\1")
    (tmp_path / "text").chmod(0o700)
    result, text = check("./text")
    assert result.exit_code == 127
    assert "it is not a program for this machine" in text


def test_a_program_that_is_not_on_path_is_a_matter_of_the_machine(check: Check) -> None:
    with pytest.raises(StateError, match=r'the check cannot run: "nopey" is not on PATH') as failure:
        check("nopey")
    assert failure.value.fix.startswith("install it")


def test_a_check_that_takes_too_long_has_no_exit_code(check: Check) -> None:
    result, text = check("sh", "-c", "echo begun; exec sleep 1000", timeout=0.5)
    assert result.exit_code is None
    assert text == "begun\n\nacp-launch: the check did not end within 0.5 s\n"


@pytest.mark.parametrize("then", ["", "; exec sleep 1000"])
def test_what_a_check_leaves_behind_ends_with_it(check: Check, tmp_path: Path, then: str) -> None:
    """Also what is in a session of its own, ignores SIGTERM, and has lost its parents."""
    (tmp_path / "daemon.py").write_text(DAEMON)
    (tmp_path / "lock").touch()
    start = f"{shlex.quote(sys.executable)} daemon.py lock; while ! test -e lock.held; do sleep 0.01; done{then}"
    check("sh", "-c", start, timeout=PATIENCE if not then else 1.5)
    assert is_free(tmp_path / "lock")


def is_free(lock: Path) -> bool:
    import fcntl

    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_a_check_that_is_cancelled_ends(tmp_path: Path) -> None:
    (tmp_path / "daemon.py").write_text(DAEMON)
    check = made(("sh", "-c", f"{shlex.quote(sys.executable)} daemon.py lock; exec sleep 1000"))
    with pytest.raises(Stopped) as stopped:
        run_check(check, tmp_path, None, (tmp_path / "lock.held").exists)
    assert stopped.value.exit_code == 130
    assert is_free(tmp_path / "lock")
    assert not (tmp_path / "check.txt").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_check_ends_with_the_process_that_runs_it(tmp_path: Path, number: signal.Signals, code: int) -> None:
    (tmp_path / "daemon.py").write_text(DAEMON)
    program = (
        "import os, sys; from pathlib import Path\n"
        "from acp_launch import shutdown; from acp_launch.batch.checking import run_check\n"
        "from acp_launch.batch.model import CheckCommand; from acp_launch.errors import Stopped\n"
        "shutdown.listen()\n"
        "check = CheckCommand(command=tuple(sys.argv[1:]))\n"
        "try: run_check(check, Path.cwd(), None, lambda: False)\n"
        "except Stopped as stopped: shutdown.finish(stopped.exit_code)\n"
    )
    words = (
        f"{shlex.quote(sys.executable)} daemon.py lock; while ! test -e lock.held; do sleep 0.01; done; exec cat pipe"
    )
    os.mkfifo(tmp_path / "pipe")
    runner = subprocess.Popen([sys.executable, "-c", program, "sh", "-c", words], cwd=tmp_path)
    with (tmp_path / "pipe").open("w"):  # the check is at its last command
        runner.send_signal(number)
        assert runner.wait(PATIENCE) == code
    from acp_launch.private import locked

    with locked(tmp_path / "lock", PATIENCE):  # raises TimeoutError if the daemon lives on
        pass


def test_a_check_cannot_run_where_an_agent_on_another_machine_does(tmp_path: Path) -> None:
    there = Place(program=Path("/usr/bin/ssh"), mounts=(), elsewhere=OverSsh("build1", Path("/srv"), "python3"))
    fault = find_absence(CheckCommand(command=("pytest",)), there, tmp_path)
    assert fault is not None and "on build1" in fault[0] and "outside: true" in fault[1]
