"""A signal at any moment, from our first instruction to our last: its exit code, no traceback, nothing left behind."""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGTERM

import pytest

from tests.cli.launcher import ROOT, Ended, Launcher, alive, command, kill_all, left_by_guards, processor, state
from tests.cli.terminal import on_terminal
from tests.patience import AS_USERS_WAIT, PATIENCE

DRIVER = str(Path(__file__).with_name("interrupted.py"))
MOMENTS = int(os.environ.get("ACP_TEST_MOMENTS", "3"))  # of a run, for each way of interrupting it
AWFUL = re.compile(r"Traceback|Exception ignored|Error:|lost sys|never awaited|never retrieved")


def meddled(launch: Launcher, signals: str, *arguments: str) -> Ended:
    """The command line, interrupted as `signals` says."""
    mark = os.urandom(16).hex()
    env = {**launch.env, "ACP_TEST_MARK": mark, "PYTHONPATH": str(ROOT)}
    try:
        done = subprocess.run(
            [sys.executable, "-P", DRIVER, signals, *command(*arguments)[3:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=launch.project,
            env=env,
            timeout=PATIENCE,
            check=False,
        )
        assert left_by_guards(mark, DRIVER) == []
    finally:
        kill_all(mark)
    return Ended(done.returncode, done.stdout, done.stderr.decode(), [])


def calls(launch: Launcher, *arguments: str) -> int:
    """How many there are in all, signals apart; not the same number each time, since much depends on who is first."""
    for _ in range(2):  # the second time what can be cached is
        done = meddled(launch, "0,0", *arguments)
    return int(done.err.splitlines()[-1])


WAYS = ("{number},{call}", "{number},{call},300", "{number},{call}" + ",40" * 30)  # once, twice, held down
VERBS = {
    "run": ("run", "p", "hi", "--output", "json"),
    "run with a server": ("run", "demo", "add 2 3"),
    "validate": ("validate", "nosuch"),
    "list": ("list",),
    "doctor": ("doctor", "demo"),
}


@pytest.mark.sample(0, 2)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.timeout(300)
def test_a_signal_at_any_moment_ends_us_with_its_code(launch: Launcher, verb: str) -> None:
    """Each way of interrupting has moments of its own."""
    launch.profile("polite")
    launch("trust", "p", "--yes")
    whole = calls(launch, *VERBS[verb])
    count = MOMENTS * len(WAYS)

    def one(moment: int, number: int, way: str) -> str:
        call = 1 + whole * moment // count
        signals = way.format(number=number, call=call)
        done = meddled(launch, signals, *VERBS[verb])
        well = {128 + number} if call < whole * 0.9 else {128 + number, 0, 2}  # it may have been over by then
        if done.code in well and not AWFUL.search(done.err):
            return ""
        return f"{signals} of {whole}: {done.code}\n{done.out.decode()}\n{done.err}"

    with ThreadPoolExecutor(2) as pool:
        numbers, ways = cycle((SIGINT, SIGTERM, SIGINT, SIGHUP)), cycle(WAYS)
        failed = list(filter(None, pool.map(one, range(count), numbers, ways)))
    assert failed == []


FRAGILE = """
import os, signal, sys
import msgspec
from acp_launch import shutdown

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    return int

class Told(msgspec.Struct):
    number: "interrupt()"

shutdown.listen()
try:
    with shutdown.raise_interrupts():
        {0}
        while True:
            pass
except KeyboardInterrupt:
    print({1})
"""


@pytest.mark.parametrize(
    ("does", "then"),
    [("msgspec.json.Decoder(Told)", "'whole'"), ("import interrupting", "sys.modules['interrupting'].state")],
)
def test_what_an_interrupt_would_tear_apart_is_finished_first(does: str, then: str, tmp_path: Path) -> None:
    (tmp_path / "interrupting.py").write_text("import __main__\n__main__.interrupt()\nstate = 'whole'\n")
    script = tmp_path / "script.py"
    script.write_text(FRAGILE.format(does, then))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "whole\n", "")


# While stderr does not drain


def full_pipe() -> tuple[int, int]:
    """One that takes not one byte more."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while os.write(writer, b"x"):
            pass
    except BlockingIOError:
        os.set_blocking(writer, True)
    return reader, writer


def gets_stuck(pid: int) -> None:
    """Return once it sleeps, having used no processor between three looks."""
    spent: list[int] = []
    while len(spent) < 3 or len({*spent[-3:]}) > 1 or state(pid) != "S":
        spent.append(processor(pid))
        subprocess.run([sys.executable, "-I", "-S", "-c", ""], check=True)  # some 10 ms of other work


class Blocked:
    """acp-launch whose stderr takes nothing."""

    def __init__(self, launch: Launcher, *arguments: str) -> None:
        self.mark = os.urandom(16).hex()
        self._reader, writer = full_pipe()
        self.process = subprocess.Popen(
            command(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=writer,
            cwd=launch.project,
            env={**launch.env, **AS_USERS_WAIT, "ACP_TEST_MARK": self.mark, "ACP_TEST_TRANSCRIPT": ""},
        )
        os.close(writer)

    def shows(self, *texts: bytes) -> None:
        assert self.process.stdout is not None
        for text in texts:
            assert text in self.process.stdout.readline()

    def ends(self) -> int:
        try:
            code = self.process.wait(PATIENCE)
            assert alive(self.mark) == []
            return code
        finally:
            self.process.kill()
            kill_all(self.mark)
            os.close(self._reader)
            assert self.process.stdout is not None
            self.process.stdout.close()


@pytest.mark.sample(0, 3)
@pytest.mark.parametrize("number", [SIGINT, SIGTERM, SIGHUP])
@pytest.mark.parametrize(
    "arguments", [["validate", "nosuch"], ["run", "--agent", "false", "hi"], ["run", "p", "hi"]], ids=" ".join
)
def test_one_signal_while_stderr_is_blocked_ends_us(launch: Launcher, arguments: list[str], number: int) -> None:
    """On the last words of a mistake, of an agent that died, and on a note in the midst of a turn."""
    launch.scripted('sys.stderr.write("x\\n"); script.notify("session/update", {}); script.serve()')
    blocked = Blocked(launch, *arguments)
    gets_stuck(blocked.process.pid)
    blocked.process.send_signal(number)
    assert blocked.ends() == 128 + number


def test_a_second_ctrl_c_while_stderr_is_blocked_ends_us(launch: Launcher) -> None:
    """On the word that the turn is being cancelled."""
    launch.scripted(
        "def prompt(request):\n"
        "    script.say(script.session_of(request), 'working\\n')\n"
        "    script.expect('session/cancel')\n"
        "    script.end(request, 'cancelled')\n"
        "script.serve({'session/prompt': prompt})\n"
    )
    blocked = Blocked(launch, "run", "p", "hi")
    blocked.shows(b"working")
    blocked.process.send_signal(SIGINT)
    gets_stuck(blocked.process.pid)
    blocked.process.send_signal(SIGINT)
    assert blocked.ends() == 130


def test_any_number_of_signals_in_a_turn_ends_us_although_nothing_can_be_said(launch: Launcher) -> None:
    launch.profile("cancellable")
    blocked = Blocked(launch, "run", "p", "hi", "--output", "json")
    blocked.shows(b"initialized", b"session", b"tool_call", b"working")
    for _ in range(200):
        blocked.process.send_signal(SIGINT)
    assert blocked.ends() == 130


@pytest.mark.parametrize(("prompt", "number"), [(["count 10000"], SIGTERM), ([], SIGHUP)])
def test_a_terminal_that_takes_nothing_more_does_not_keep_us_and_is_given_back(
    launch: Launcher, prompt: list[str], number: int
) -> None:
    """As after Ctrl-S, or on a line that has gone dead."""
    mark = os.urandom(16).hex()
    env = {**launch.env, "ACP_TEST_MARK": mark, "TERM": "xterm-256color"}
    with on_terminal("run", "demo", *prompt, cwd=launch.project, env=env) as terminal:
        modes = terminal.modes()
        if not prompt:
            terminal.until("demo")
            terminal.types("count 10000\r")
        terminal.until("1 2 3")
        gets_stuck(terminal.process.pid)
        assert terminal.modes() != modes
        terminal.process.send_signal(number)
        assert terminal.process.wait(PATIENCE) == 128 + number
        assert alive(mark) == []
        assert terminal.modes() == modes
