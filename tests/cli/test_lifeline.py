"""`--lifeline`: the end of file of a descriptor is as SIGTERM, so that a run does not outlive its parent."""

import json
import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO

import psutil
import pytest

from acp_launch.cli.verb import read_descriptor
from acp_launch.errors import UsageError
from acp_launch.shutdown import LIFELINE
from tests.cli.hosted import brought_up
from tests.cli.launcher import MARK, ROOT, Json, Launcher, command, kill_all, left_by_guards
from tests.patience import PATIENCE

FIX = f"    fix: {LIFELINE}\n"
SERVER = [sys.executable, "-I", "-S", str(ROOT / "tests" / "servers" / "polite.py")]
PARENT = str(ROOT / "tests" / "children" / "parent.py")


@contextmanager
def pipe() -> Iterator[tuple[int, BinaryIO]]:
    """A pipe: its reading end, and the file of its writing end."""
    ours, theirs = os.pipe()
    try:
        with os.fdopen(theirs, "wb") as end:
            yield ours, end
    finally:
        os.close(ours)


# The value and the descriptor


@pytest.mark.parametrize("text", ["", "x", "-1", "3.0", "٣", "²"])
def test_only_a_number_is_a_descriptor(text: str) -> None:
    with pytest.raises(UsageError, match=r"--lifeline: expected the number of a descriptor, found"):
        read_descriptor(text)
    assert read_descriptor("03") == 3


def test_a_descriptor_that_cannot_be_a_lifeline_is_refused(launch: Launcher) -> None:
    launch.profile("polite")
    with pipe() as (_, end):
        for words, said in (
            (["--lifeline", "9999"], "--lifeline: descriptor 9999 is not open"),
            (["--lifeline", "9" * 30], f"--lifeline: descriptor {'9' * 30} is not open"),
            (["--lifeline", "0"], "--lifeline: descriptor 0 is not a pipe or socket to read from"),  # /dev/null
            (
                ["--lifeline", str(end.fileno())],
                f"--lifeline: descriptor {end.fileno()} is not a pipe or socket to read from",
            ),
        ):
            done = launch.within("run", "p", "hi", *words)
            assert (done.code, done.out, done.err) == (2, b"", f"acp-launch: {said}\n{FIX}")
            done = launch.within("run", "p", "hi", *words, "-o", "json")
            assert (done.code, done.event("error")["message"], done.event("error")["exitCode"]) == (2, said, 2)


@pytest.mark.parametrize("words", [["p"], ["p", "hi", "--file", "-"], ["p", "--file", "-"]])
def test_stdin_is_not_both_the_prompt_and_the_lifeline(launch: Launcher, words: list[str]) -> None:
    launch.profile("polite")
    done = launch.within("run", *words, "--lifeline", "0", stdin=b"hi")
    said = "acp-launch: --lifeline 0 cannot be combined with a prompt on stdin\n"
    assert (done.code, done.out, done.err, done.heard) == (2, b"", said + FIX, [])


# The watch, in a process that does nothing else

WATCHING = """
import os, signal, sys
from acp_launch import shutdown

descriptor = int(sys.argv[1])
shutdown.listen()
{before}
shutdown.watch_lifeline(descriptor)
{after}
print("watching", flush=True)
try:
    with shutdown.raise_interrupts():
        os.read(0, 1)
except KeyboardInterrupt:
    shutdown.finish(1)
"""


def ending(
    descriptor: int, end: BinaryIO | socket.socket, *, before: str = "", after: str = ""
) -> tuple[int, list[str]]:
    """How a process ends that watches `descriptor`, whose other `end` is closed once it does; and what it said."""
    waiting, never = os.pipe()
    watching = subprocess.Popen(
        [sys.executable, "-c", WATCHING.format(before=before, after=after), str(descriptor)],
        pass_fds=[descriptor],
        stdin=waiting,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    )
    with watching:
        try:
            assert watching.stdout is not None
            said = []
            while "watching" not in said:
                said.append(watching.stdout.readline().strip())
            end.close()
            said += watching.communicate(timeout=PATIENCE)[0].split()
        finally:
            watching.kill()  # or the end of `with` would wait for it
    os.close(waiting)
    os.close(never)
    return watching.returncode, said


@pytest.mark.parametrize(
    "before", ["signal.signal(signal.SIGTERM, signal.SIG_IGN)", "os.set_blocking(descriptor, False)"]
)
def test_the_end_of_a_pipe_interrupts_what_the_process_waits_for(before: str) -> None:
    with pipe() as (ours, end):
        os.write(end.fileno(), b"what is written means nothing")
        assert ending(ours, end, before=before) == (143, ["watching"])


def test_a_signal_that_comes_just_before_a_call_is_sent_again() -> None:
    """Python has looked for signals, but the kernel does not wait yet: the call is not interrupted."""
    early = """
import _thread
send = signal.pthread_kill
def trip(thread, number):
    signal.pthread_kill = send
    _thread.interrupt_main(number)
signal.pthread_kill = trip
"""
    with pipe() as (ours, end):
        assert ending(ours, end, before=early) == (143, ["watching"])


def test_the_end_of_a_socket_does_too() -> None:
    ours, end = socket.socketpair()
    with closing(ours):
        assert ending(ours.fileno(), end) == (143, ["watching"])


def test_stdin_can_be_the_lifeline(launch: Launcher) -> None:
    launch.profile("cancellable")
    with pipe() as (ours, end), launch.start("run", "p", "hi", "-o", "json", "--lifeline", "0", stdin=ours) as running:
        for text in ("initialized", "session", "tool_call", "working"):
            running.shows(text)
        end.close()
        done = running.end()
    assert (done.code, done.event("error")["exitCode"], done.err) == (143, 143, "acp-launch: stopped\n")


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_process_that_is_forked_does_not_have_it_and_closes_nothing_else() -> None:
    forked = """
before = set(os.listdir("/proc/self/fd"))
if not os.fork():
    pipes = [os.readlink(f"/proc/self/fd/{each}") for each in range(3, 20) if os.path.lexists(f"/proc/self/fd/{each}")]
    print("pipes:", sum("pipe:" in each for each in pipes), flush=True)
    mine = os.pipe()
    if not os.fork():
        print("mine:", all(os.path.lexists(f"/proc/self/fd/{each}") for each in mine), flush=True)
        os._exit(0)
    os.wait()
    os._exit(0)
os.wait()
"""
    with pipe() as (ours, end):
        assert ending(ours, end, after=forked) == (143, ["pipes: 0", "mine: True", "watching"])


# A whole run


@contextmanager
def parent_of(launch: Launcher, *words: str) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """A parent that has started acp-launch with a lifeline, and the mark of all that; they share stdout and stderr."""
    mark = uuid.uuid4().hex
    parent = subprocess.Popen(
        [sys.executable, "-I", "-S", PARENT, *command(*words)],
        env={**launch.env, MARK: mark, "ACP_TEST_TRANSCRIPT": str(launch.project.parent / f"transcript-{mark}")},
        cwd=launch.project,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with parent:
        try:
            yield parent, mark
        finally:
            kill_all(mark)


def events(parent: "subprocess.Popen[bytes]", until: str = "") -> list[Json]:
    """The next events, up to one that holds `until`, or to the last one."""
    assert parent.stdout is not None
    found: list[Json] = []
    for line in parent.stdout:
        found.append(json.loads(line))
        if until and until.encode() in line:
            break
    return found


def pipes_of(pid: int) -> set[str]:
    """The pipes that a process has open beside its standard streams."""
    ends = (str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir() if int(each.name) > 2)
    return {end for end in ends if end.startswith("pipe:")}


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_run_and_its_tree_end_with_a_parent_that_is_killed(launch: Launcher) -> None:
    """The lifeline is the launcher's alone: agent, server and guards could hold it open, or read it."""
    launch.profile("cancellable", mcp_servers={"one": {"command": SERVER[0], "args": SERVER[1:]}})
    with parent_of(launch, "run", "p", "hi", "-o", "json") as (parent, mark):
        events(parent, until="working")
        launcher, *others = psutil.Process(parent.pid).children(recursive=True)
        lifeline = pipes_of(parent.pid)
        assert (len(lifeline), lifeline <= pipes_of(launcher.pid)) == (1, True)
        assert len(others) >= 4  # two guards, the agent, the server
        assert [each.cmdline() for each in others if lifeline & pipes_of(each.pid)] == []
        parent.kill()
        last = events(parent)[-1]
        assert (last["type"], last["exitCode"], last["message"]) == ("error", 143, "stopped")
        assert left_by_guards(mark) == []
        _, left = psutil.wait_procs(others, PATIENCE)
        assert left == []


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_host_that_a_run_brings_up_does_not_have_it(launch: Launcher) -> None:
    launch.profile("cancellable")
    with pipe() as (ours, end):
        lifeline = str(Path(f"/proc/self/fd/{ours}").readlink())
        words = ("run", "p", "hi", "-d", "--lifeline", "0")
        with brought_up(launch, *words, stdin=ours) as host:
            end.close()
            tree = [psutil.Process(host.pid), *psutil.Process(host.pid).children(recursive=True)]
            assert [each.cmdline() for each in tree if lifeline in pipes_of(each.pid)] == []
            assert host.status.sessions[0].state == "works"
