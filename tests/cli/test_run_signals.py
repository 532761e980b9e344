"""Ctrl-C, SIGTERM, SIGHUP and a closed stdout at every moment: the exit code shells know, and nothing left behind."""

import os
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGTERM

import pytest

from acp_launch.session.client import GRACE_SECONDS
from acp_launch.waits import seconds
from tests.cli.launcher import Launcher, Running, alive
from tests.patience import PATIENCE

CANCELLING = f"acp-launch: cancelling the turn (timeout {seconds(GRACE_SECONDS)}); Ctrl-C stops at once\n"


def until_working(running: Running) -> None:
    """The turn of `cancellable --output json` has begun and shows."""
    running.hears("session/prompt")
    for text in ("initialized", "session", "tool_call", "working"):
        running.shows(text)


@pytest.mark.parametrize(("moment", "number"), [("initialize", SIGINT), ("session/new", SIGTERM)])
def test_a_signal_before_the_turn_ends_the_run(launch: Launcher, tmp_path: Path, number: int, moment: str) -> None:
    os.mkfifo(fifo := tmp_path / "go")
    launch.profile("slow_start", str(fifo), moment.removesuffix("/new"))
    with launch.start("run", "p", "hi") as running:
        running.hears(moment)
        running.kill(number)
        fifo.write_bytes(b"")  # the answer comes too late
        done = running.end()
    assert (done.code, done.out, done.err) == (128 + number, b"", "acp-launch: stopped\n")
    assert done.methods[-1] == moment


def test_ctrl_c_cancels_the_turn_and_shows_how_it_ends(launch: Launcher) -> None:
    """C-62."""
    launch.profile("cancellable")
    with launch.start("run", "p", "hi", "--output", "json") as running:
        until_working(running)
        running.kill(SIGINT)
        done = running.end()
    assert (done.code, done.err) == (130, "acp-launch: cancelled\n")
    assert done.methods == ["initialize", "session/new", "session/prompt", "session/cancel"]
    assert [event["type"] for event in done.events] == ["cancelled", "update", "update", "result", "error"]
    assert done.event("result")["stopReason"] == "cancelled"
    assert done.event("error")["exitCode"] == 130


def test_the_tool_calls_that_were_cancelled_are_named(launch: Launcher) -> None:
    """C-63."""
    launch.profile("cancellable", "quiet")
    with launch.start("run", "p", "hi") as running:
        running.complains("execute: Long work: in_progress\n")
        running.kill(SIGINT)
        done = running.end()
    assert (done.code, done.err) == (130, f"{CANCELLING}acp-launch: cancelled: Long work\nacp-launch: cancelled\n")


@pytest.mark.parametrize("number", [SIGTERM, SIGHUP])
def test_a_signal_that_ends_programs_ends_the_run_in_the_turn(launch: Launcher, number: int) -> None:
    launch.profile("cancellable")
    with launch.start("run", "p", "hi", "--output", "json") as running:
        until_working(running)
        running.kill(number)
        done = running.end()
    assert (done.code, done.err) == (128 + number, "acp-launch: stopped\n")
    assert [event["type"] for event in done.events] == ["error"]


@pytest.mark.promise("interrupt")
def test_a_second_ctrl_c_ends_an_agent_that_is_deaf_to_the_first(launch: Launcher) -> None:
    launch.profile("cancel_deaf", "never")
    with launch.start("run", "p", "hi") as running:
        assert running.process.stdout is not None
        assert os.read(running.process.stdout.fileno(), 100) == b"working"
        running.kill(SIGINT)
        running.hears("session/cancel")
        running.kill(SIGINT)
        done = running.end()
    assert (done.code, done.out, done.err) == (130, b"\n", f"{CANCELLING}acp-launch: stopped\n")


def test_what_nohup_ignores_stays_ignored(launch: Launcher, tmp_path: Path) -> None:
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    launch.profile("slow_start", str(fifo), "prompt")
    nohup = ("sh", "-c", 'trap "" HUP; exec "$@"', "sh")
    with launch.start("run", "p", "hi", prefix=nohup) as running:
        running.hears("session/prompt")
        running.kill(SIGHUP)
        fifo.write_bytes(b"go")
        done = running.end()
    assert (done.code, done.out, done.err) == (0, b"You said: hi\n", "")


@pytest.mark.parametrize("output", ["text", "json", "quiet"])
def test_a_reader_who_had_enough_ends_the_run_without_words(launch: Launcher, output: str) -> None:
    launch.profile("polite")
    with launch.start("run", "p", "hi", "--output", output) as running:
        assert running.process.stdout is not None
        running.process.stdout.close()
        done = running.end()
    assert (done.code, done.err) == (141, "")


@pytest.mark.parametrize("arguments", [["list"], ["secret", "list", "--json"], ["--help"], ["schema"]], ids=" ".join)
def test_a_reader_who_had_enough_ends_every_verb_the_same(launch: Launcher, arguments: list[str]) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        done = launch(*arguments, out=theirs)
    finally:
        os.close(theirs)
    assert done.code == 141
    assert "Traceback" not in done.err


def test_a_reader_who_stopped_reading_does_not_make_ctrl_c_deaf(launch: Launcher) -> None:
    launch.profile("flood", "20000", "1000")  # 20 MB: the agent is not read either once the pipes are full
    with launch.start("run", "p", "hi", "--output", "json", ACP_LAUNCH_TEST_PATIENCE="1") as running:
        running.shows("initialized")
        running.hears("session/prompt")
        running.gets_stuck()
        running.kill(SIGINT)
        assert running.process.wait(PATIENCE) == 130
        assert alive(running.mark) == []
