"""Permission questions: the option is chosen by its kind, whatever the order, and exit 10 says nobody was there."""

import signal
import sys

import psutil
import pytest

from tests.cli.launcher import Ended, Launcher
from tests.interactive.screen import DRIVERS, on_screen

ALL = "reject_always,allow_always,reject_once,allow_once"
QUESTION = "acp-launch: %s: Change a file (%s)\n"


def outcomes(done: Ended) -> list[str]:
    """What the agent was answered, in the order of its ids."""
    answers = sorted((message for message in done.heard if "result" in message), key=lambda message: message["id"])
    found = [message["result"]["outcome"] for message in answers]
    return [outcome.get("optionId", outcome["outcome"]) for outcome in found]


@pytest.mark.parametrize(
    ("approve", "options", "chosen"),
    [
        ("all", ALL, "allow_once-3"),
        ("all", "allow_always,reject_always", "allow_always-0"),
        ("none", ALL, "reject_once-2"),
        ("none", "allow_always,reject_always", "reject_always-1"),
    ],
)
def test_the_command_line_answers_by_kind(launch: Launcher, approve: str, options: str, chosen: str) -> None:
    """C-60, C-64."""
    launch.profile("asker", options, permissions={"default": "deny" if approve == "all" else "allow"})
    done = launch("run", "p", "hi", "--approve", approve)
    assert (done.code, outcomes(done)) == (0, [chosen])
    word = "allowed" if approve == "all" else "denied"
    assert QUESTION % (word, f"--approve {approve}") in done.err


@pytest.mark.promise("permission")
@pytest.mark.sample(1)
@pytest.mark.parametrize("stop", [[], ["refuse-stop"]])
def test_a_question_without_a_terminal_is_denied_and_ends_in_exit_10(launch: Launcher, stop: list[str]) -> None:
    launch.profile("asker", *stop)
    done = launch("run", "p", "hi")
    assert (done.code, done.out, outcomes(done)) == (10, b"outcomes: reject_once-3\n", ["reject_once-3"])
    assert "denied: Change a file (permissions.default: ask, and no terminal to ask on)\n" in done.err


@pytest.mark.parametrize("way", [("--approve", "all"), ()], ids=["approve", "default"])
def test_a_choice_without_a_refusal_is_left_to_a_user_and_cancelled_in_a_pipe(
    launch: Launcher, way: tuple[str, ...]
) -> None:
    launch.profile("asker", "allow_once,allow_once", permissions={"default": "allow"})
    done = launch("run", "p", "hi", *way)
    by = "--approve all" if way else "permissions.default: allow"
    assert (done.code, outcomes(done)) == (10, ["cancelled"])
    why = f"{by}, which does not say which of the agent's choices, and no terminal to ask on"
    assert QUESTION % ("cancelled", why) in done.err


@pytest.mark.parametrize("number", [signal.SIGTSTP, signal.SIGSTOP])
def test_an_open_question_is_drawn_again_when_the_run_goes_on(launch: Launcher, number: int) -> None:
    """One key still answers, although the shell has changed the modes of the terminal."""
    launch.profile("asker")
    argv = [sys.executable, str(DRIVERS / "shell.py"), "-m", "acp_launch", "run", "p", "--trust", "hi"]
    with on_screen(*argv, cwd=launch.project, env=launch.env) as terminal:
        terminal.until("[y]")
        asked = next(row for row in terminal.rows if "asks for permission" in row)
        (job,) = psutil.Process(terminal.process.pid).children()
        job.send_signal(number)
        terminal.until("stopped")
        terminal.types("fg\n")
        terminal.until_it(lambda: "[y]" in terminal.shown.partition("$ fg")[2], "its answers")
        assert asked in terminal.shown.partition("$ fg")[2]
        terminal.types("y", until="ended: 0")
