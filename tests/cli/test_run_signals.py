"""Ctrl-C, SIGTERM, SIGHUP and a closed stdout at every moment: the exit code shells know, and nothing left behind."""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGKILL, SIGTERM

import pytest

from acp_launch.session.client import GRACE_SECONDS
from acp_launch.waits import seconds
from tests.cli.launcher import Launcher, Running, alive
from tests.patience import PATIENCE

SIGNALS = pytest.mark.parametrize("number", [SIGINT, SIGTERM, SIGHUP])

CANCELLING = f"acp-launch: cancelling the turn (timeout {seconds(GRACE_SECONDS)}); Ctrl-C stops at once\n"
OUTLIVES_ITS_INPUT = """
import signal
from pathlib import Path

signal.signal(signal.SIGTERM, lambda *_: Path({termed!r}).touch())
script.serve()
Path({ended!r}).write_text("eof")
while True:
    signal.pause()
"""
UNTIL_CANCELLED = """
def prompt(request):
    script.expect("session/cancel")
    script.end(request, "cancelled")

script.serve({"session/prompt": prompt})
"""

DIES_OF_IT = """
def prompt(request):
    script.expect("session/cancel")
    raise SystemExit(7)

script.serve({"session/prompt": prompt})
"""


def until_working(running: Running) -> None:
    """The turn of `cancellable --output json` has begun and shows."""
    running.hears("session/prompt")
    for text in ("initialized", "session", "tool_call", "working"):
        running.shows(text)


@pytest.mark.sample(0, 3)
@SIGNALS
@pytest.mark.parametrize("moment", ["initialize", "session/new"])
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


@pytest.mark.parametrize("output", ["text", "quiet"])
def test_a_person_is_told_that_ctrl_c_cancels_and_once_that_it_did(launch: Launcher, output: str) -> None:
    launch.scripted(UNTIL_CANCELLED)
    with launch.start("run", "p", "hi", "--output", output) as running:
        running.hears("session/prompt")
        running.kill(SIGINT)
        done = running.end()
    assert (done.code, done.out, done.err) == (130, b"", f"{CANCELLING}acp-launch: cancelled\n")


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


def test_an_agent_that_dies_of_a_cancel_was_cancelled(launch: Launcher) -> None:
    launch.scripted(DIES_OF_IT)
    with launch.start("run", "p", "hi", "--output", "json") as running:
        running.hears("session/prompt")
        running.kill(SIGINT)
        done = running.end()
    said = "cancelled; the agent exited with status 7 before it answered session/prompt"
    assert (done.code, done.err) == (130, f"acp-launch: {said}\n{launch.started()}")
    assert (done.event("error")["exitCode"], done.event("cancelled")["limit"]) == (130, GRACE_SECONDS)


@pytest.mark.sample(0, 2)
@SIGNALS
def test_a_signal_while_the_agent_is_being_stopped_kills_it_at_once(
    launch: Launcher, tmp_path: Path, number: int
) -> None:
    """At once: before the rung of the ladder that would have sent it a TERM."""
    os.mkfifo(ended := tmp_path / "ended")
    termed = tmp_path / "termed"
    launch.scripted(OUTLIVES_ITS_INPUT.format(ended=str(ended), termed=str(termed)))
    with launch.start("run", "p", "hi", "--output", "quiet") as running:
        assert ended.read_bytes() == b"eof"
        running.kill(number)
        done = running.end()
    assert (done.code, done.err) == (128 + number, "acp-launch: stopped\n")
    assert not termed.exists()


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


def test_wrappers_and_their_daemons_are_gone_when_the_run_is(launch: Launcher, tmp_path: Path) -> None:
    """C-13: behind `sh -c`, in a session of its own, with a double-forked daemon that ignores everything."""
    launch.profile("wrapper", "polite", name="well")
    launch.profile("wrapper", "crasher", "prompt", name="ill")
    with ThreadPoolExecutor(2) as pool:
        well, ill = pool.map(
            lambda name: launch("run", name, "hi", ACP_TEST_PIDS=str(tmp_path / name)), ["well", "ill"]
        )
    assert (well.code, well.out, well.err) == (0, b"You said: hi\n", "")
    words = f"{launch.started('ill')}    crasher: going down at prompt\n    crasher: last words\n"
    died = "acp-launch: the agent exited with status 3 before it answered session/prompt\n"
    assert (ill.code, ill.err) == (4, died + words)
    assert_gone(tmp_path / "well")
    assert_gone(tmp_path / "ill")


def assert_gone(pids: Path) -> None:
    noted = pids.read_text().split()
    assert len(noted) == 3
    assert [pid for pid in noted if Path(f"/proc/{pid}").exists()] == []


def test_a_killed_launcher_frees_its_session_at_once(launch: Launcher) -> None:
    launch.profile("silent_turn")
    with launch.start("run", "p", "hi", "--session", "s") as running:
        running.hears("session/prompt")
        second = launch("run", "p", "hi", "--session", "s")
        held = rf"acp-launch: session \"s\" is in use by process {running.process.pid} \(acp-launch run p --session s\)"
        assert second.code == 3
        assert re.match(held + r", since \d\d:\d\d:\d\d\n    fix: wait for it, end it, or use another", second.err)
        running.kill(SIGKILL)
        running.process.wait(PATIENCE)
        launch.profile("replayer")
        third = launch("run", "p", "hi", "--session", "s", "--new")
        assert (third.code, third.out) == (0, b"live 1\n")


def test_a_reader_who_stopped_reading_does_not_make_ctrl_c_deaf(launch: Launcher) -> None:
    launch.profile("flood", "20000", "1000")  # 20 MB: the agent is not read either once the pipes are full
    with launch.start("run", "p", "hi", "--output", "json", ACP_LAUNCH_TEST_PATIENCE="1") as running:
        running.shows("initialized")
        running.hears("session/prompt")
        running.gets_stuck()
        running.kill(SIGINT)
        assert running.process.wait(PATIENCE) == 130
        assert alive(running.mark) == []
