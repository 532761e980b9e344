"""The ways in which tests run the command line: what each of them is, and what it would notice."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli import forkserver, inprocess
from tests.cli.launcher import ROOT, Launcher
from tests.patience import PATIENCE

# An agent that tells in its answer what it was started with.
TELLING = """
import json, os
def prompt(request):
    told = {name: os.environ.get(name) for name in ("SAID", "ACP_LAUNCH_PASSPHRASE")}
    script.say(script.session_of(request), json.dumps([os.getcwd(), told]))
    script.end(request)
script.serve({"session/prompt": prompt})
"""


def test_within_is_the_same_command_line_in_this_process(launch: Launcher) -> None:
    launch.profile("polite")
    for arguments in (["list"], ["validate", "p"], ["show", "nosuch"], ["--version"], ["session", "--help"], ["lst"]):
        within, apart = launch.within(*arguments), launch.apart(*arguments)
        assert (within.code, within.out, within.err) == (apart.code, apart.out, apart.err)


def test_what_is_piped_in_is_read_to_its_end_however_long_it_is(launch: Launcher) -> None:
    """It is more than a pipe holds, and refused before all of it is read."""
    for content in (b"{" * 200_000, b""):
        done = launch.within("permission", "test", "demo", "-", stdin=content)
        assert (done.code, done.out, bool(done.err)) == (2, b"", True)


def test_a_command_that_starts_a_program_is_none_for_this_process(launch: Launcher) -> None:
    launch.profile("polite")
    with pytest.raises(AssertionError, match=r"acp-launch run --trust p hi starts a program"):
        launch.within("run", "p", "hi")


HARMS: dict[str, Callable[[], object]] = {
    "descriptor": lambda: os.open(os.devnull, os.O_RDONLY),
    "thread": lambda: threading.Thread(target=threading.Event().wait, args=(20,), daemon=True).start(),
    "umask": lambda: os.umask(0o123),
    "environment": lambda: os.environ.update(LEFT="behind"),
    "directory": lambda: os.chdir("/"),
}


@pytest.mark.parametrize("harm", HARMS)
def test_what_a_command_leaves_in_this_process_fails_the_test(
    launch: Launcher, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    monkeypatch.setattr("acp_launch.cli.main.run", lambda arguments: HARMS[harm]() and 0)
    monkeypatch.setattr(inprocess, "AT_ITS_END", 0)
    umask, home, environment = os.umask(0o022), Path.cwd(), dict(os.environ)
    before = {*os.listdir("/proc/self/fd")}  # noqa: PTH208
    try:
        with pytest.raises(AssertionError):
            launch.within("list")
    finally:
        for descriptor in {*os.listdir("/proc/self/fd")} - before:  # noqa: PTH208
            if os.path.exists(f"/proc/self/fd/{descriptor}"):  # noqa: PTH110
                os.close(int(descriptor))
        os.umask(umask)
    assert (Path.cwd(), dict(os.environ)) == (home, environment)


def test_what_our_modules_remember_is_forgotten(launch: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    from acp_launch import shutdown
    from acp_launch.console import stderr
    from acp_launch.process import prepare

    seen: list[str] = []

    def run(arguments: list[str]) -> int:
        seen.append(prepare.launch_id())
        stderr.share(at_once=True)
        shutdown.at_exit(list)
        return 0

    monkeypatch.setattr("acp_launch.cli.main.run", run)
    waiting = len(shutdown._state.callbacks)
    for _ in range(2):
        launch.within("list")
    assert len({*seen}) == 2, "two processes are two launches"
    assert (stderr.is_marking(), len(shutdown._state.callbacks)) == (False, waiting)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux")
class TestForked:
    def test_it_has_a_pid_a_directory_and_an_environment_of_its_own(self, launch: Launcher) -> None:
        launch.scripted(TELLING)
        done = launch("run", "p", "hi", SAID="hello")
        assert json.loads(done.out) == [str(launch.project), {"SAID": "hello", "ACP_LAUNCH_PASSPHRASE": None}]
        assert "SAID" not in os.environ

    def test_an_interpreter_that_would_be_another_is_started(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert forkserver.suits({**os.environ, "HOME": "/x", "PYTHON_KEYRING_BACKEND": "x"})
        assert not forkserver.suits({**os.environ, "PYTHONPATH": "."})
        monkeypatch.setenv("LC_ALL", "tlh")
        assert not forkserver.suits(os.environ)

    def test_a_process_that_is_left_is_found_and_ended(self) -> None:
        """Without our mark too, which no look at environments finds. Acp-launch cannot be made to leave one."""
        code = (
            "import subprocess\n"
            "from tests.cli.forkserver import orphans, take_orphans\n"
            "take_orphans()\n"
            "subprocess.run(['sh', '-c', 'env -i sleep 50 & exit'])\n"
            "print(len(orphans({})), orphans({}))\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, cwd=ROOT)
        assert (done.stdout, done.stderr) == ("1 []\n", "")
