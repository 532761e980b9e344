"""One program run to its end from any thread: what is heard of it, when it is over, and that nothing survives."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.pretty import pretty_repr

from acp_launch.errors import AgentError, LaunchError
from acp_launch.process.capture import MAX_STDOUT_BYTES, CaptureResult, capture, captured
from acp_launch.process.tree import Exit
from acp_launch.secret.value import MAX_VALUE
from tests.looped import looped
from tests.patience import PATIENCE

from .liveness import Liveness, program

ENV = {"PATH": os.environ["PATH"]}
BRIEF = 0.2  # seconds, where the deadline is what is tested


def in_loop(argv: list[str], limit: float, *, env: dict[str, str], cwd: Path) -> CaptureResult:
    return asyncio.run(captured(argv, limit, env=env, cwd=cwd))


WAYS = pytest.mark.parametrize("way", [capture, in_loop])
Way = Callable[..., CaptureResult]


def shell(script: str, limit: float = PATIENCE, way: Way = capture) -> CaptureResult:
    return way(["sh", "-c", script], limit, env=ENV, cwd=Path("/"))


@WAYS
def test_what_a_program_prints_and_how_it_ends(way: Way) -> None:
    heard = shell("printf out; echo one >&2; echo two >&2; cat; exit 3", way=way)
    assert (heard.out, heard.err, heard.ending, heard.timed_out) == (b"out", ("one", "two"), Exit(3, None), False)


def test_a_killed_program_has_no_status() -> None:
    assert str(shell("kill -9 $$").ending) == "was killed by SIGKILL"


def test_a_program_gets_its_directory_exactly_its_environment_and_nothing_on_stdin(tmp_path: Path) -> None:
    seen = json.loads(capture(program("report"), PATIENCE, env={"ONLY": "this"}, cwd=tmp_path).out)
    del seen["env"]["LC_CTYPE"]  # Python's own doing (PEP 538)
    assert seen["env"].pop("ACP_LAUNCH_ID")
    assert (seen["cwd"], seen["env"], seen["is_leader"]) == (str(tmp_path), {"ONLY": "this"}, True)
    assert shell("cat; echo end").out == b"end\n"


def test_the_program_is_looked_up_on_the_path_it_will_have(tmp_path: Path) -> None:
    tool = tmp_path / "op"
    tool.write_text("#!/bin/sh\necho $0\n")
    tool.chmod(0o755)
    assert capture(["op"], PATIENCE, env={"PATH": str(tmp_path)}, cwd=Path("/")).out == f"{tool}\n".encode()
    with pytest.raises(LaunchError) as raised:
        capture(["op"], PATIENCE, env=ENV, cwd=Path("/"))
    assert raised.value.message.startswith('"op" is not on PATH (looked in ')


def test_a_program_that_cannot_start_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(AgentError) as raised:
        capture(["true"], PATIENCE, env=ENV, cwd=tmp_path / "gone")
    assert "could not be started in" in raised.value.message


@WAYS
def test_at_the_deadline_it_is_killed_and_what_it_said_is_kept(way: Way) -> None:
    heard = shell("trap '' TERM; echo out; echo err >&2; while :; do sleep 1000; done", 5 * BRIEF, way)
    assert (heard.out, heard.err, heard.timed_out) == (b"out\n", ("err",), True)
    assert str(heard.ending) == "was killed by SIGKILL"


@WAYS
def test_pipes_that_are_closed_do_not_mean_the_end(way: Way) -> None:
    assert shell("exec >&- 2>&-; sleep 1000", BRIEF, way).timed_out
    assert shell("exec >&- 2>&-; exit 5", way=way).ending == Exit(5, None)


@WAYS
@pytest.mark.parametrize("temper", ["daemon", "respawn", "hold"])
def test_nothing_that_it_started_survives(temper: str, way: Way, alive: Liveness) -> None:
    heard = way(program("forker", temper), PATIENCE, env=alive.env, cwd=Path("/"))
    assert (heard.ending, heard.timed_out) == (Exit(0, None), False)
    assert heard.out == (b"last words\n" if temper == "hold" else b"")
    alive.hear("forker")
    alive.assert_all_dead()


def test_a_program_that_has_stopped_itself_is_killed_too() -> None:
    assert shell("kill -STOP $$", BRIEF).timed_out


def test_a_program_that_prints_too_much_is_stopped_there() -> None:
    heard = shell("exec yes")
    assert (len(heard.out), heard.timed_out) == (MAX_STDOUT_BYTES, False)
    assert (
        len(capture(program("chatty", str(MAX_STDOUT_BYTES - 1)), PATIENCE, env=ENV, cwd=Path("/")).out)
        == MAX_STDOUT_BYTES - 1
    )


def test_the_largest_secret_and_its_line_end_are_heard_whole() -> None:
    assert MAX_STDOUT_BYTES == MAX_VALUE + 3
    heard = shell(f"head -c {MAX_VALUE} /dev/zero; printf '\\r\\n'")
    assert len(heard.out) == MAX_VALUE + 2


def test_a_megabyte_on_stderr_does_not_block_and_its_end_is_kept() -> None:
    heard = capture(program("chatty"), PATIENCE, env=ENV, cwd=Path("/"))
    assert (heard.out, len(heard.err), set(heard.err)) == (b"", 50, {"x" * 99})


def test_who_floods_stderr_for_ever_ends_at_the_deadline() -> None:
    heard = shell("yes >&2", BRIEF)
    assert heard.timed_out and set(heard.err) <= {"y"}


def test_a_grandchild_that_floods_is_not_waited_for() -> None:
    heard = shell("yes >&2 & exit 4")
    assert (heard.ending, heard.timed_out) == (Exit(4, None), False)


GIVEN_UP = """
import os, sys, threading
from pathlib import Path
from acp_launch import shutdown
from acp_launch.process.capture import capture

def work():
    capture(sys.argv[1:], 1000.0, env=dict(os.environ), cwd=Path("/"))

threading.Thread(target=work, daemon=True).start()
sys.stdin.readline()
shutdown.finish(0)
"""


IMPATIENT = """
import os, signal
from acp_launch import shutdown
from acp_launch.process import capture as module

end_now = module.end_now

def interrupted(spawned):
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGTERM)
    return end_now(spawned)

module.end_now = interrupted
shutdown.listen()
"""


@pytest.mark.parametrize("beginning", ["", IMPATIENT], ids=["given up", "a second ctrl-c"])
def test_what_a_thread_that_was_given_up_runs_dies_with_us(alive: Liveness, beginning: str) -> None:
    """The deadline is far away, and the thread is not awaited. timeout(1) signals the group and its child."""
    with subprocess.Popen(
        [sys.executable, "-c", beginning + GIVEN_UP, *program("deaf", "stubborn")],
        env=ENV | alive.env,
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as launcher:
        alive.hear("stubborn")
        _, said = launcher.communicate(b"end\n", PATIENCE)
    assert (launcher.returncode, said) == (0, b"")
    alive.assert_all_dead()


def test_what_was_printed_does_not_show_in_a_repr() -> None:
    heard = shell("printf hunter22")
    assert repr(heard) == "CaptureResult(exited with status 0)"
    assert pretty_repr(heard) == "CaptureResult(ending='exited with status 0')"


# In an event loop.


def test_in_an_event_loop_the_same_is_heard() -> None:
    assert shell("sleep 1000 & printf out", way=in_loop).out == b"out"
    assert len(shell("exec yes", way=in_loop).out) == MAX_STDOUT_BYTES
    with pytest.raises(LaunchError):
        in_loop(["/no/such/program"], PATIENCE, env=ENV, cwd=Path("/"))


@looped
async def test_who_stops_waiting_in_an_event_loop_ends_the_program(alive: Liveness) -> None:
    task = asyncio.create_task(captured(program("deaf", "stubborn"), 1000.0, env=alive.env, cwd=Path("/")))
    await asyncio.to_thread(alive.hear, "stubborn")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    alive.assert_all_dead()
