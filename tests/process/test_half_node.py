"""half.js, the program in place of half.py where there is only node, by the tests of half.py that apply to it.

Its end ends a container, so daemons are not its affair, nor are login shells and seats, which are ssh's.
"""

import os
import shutil
import signal
from collections.abc import Iterator

import pytest

from tests.process import liveness as children
from tests.process import test_half
from tests.process.liveness import Liveness
from tests.process.test_half import (
    BRIDGE,
    GRACE,
    PIPE_BYTES,
    Start,
    lines,
    much,
)

# With this `start`.
for _name in (
    "a_deaf_agent_is_ended_after_the_grace",
    "a_line_that_ends_before_the_agent_is_named_starts_nothing",
    "a_missing_directory_is_named",
    "a_program_is_found_in_the_agents_own_path",
    "an_agent_that_leaves_at_the_end_of_its_input_is_not_signalled",
    "an_agent_whose_half_is_killed_hears_the_end_of_its_input",
    "input_for_an_agent_that_has_closed_its_stdin_is_dropped",
    "it_reads_what_comes_byte_by_byte",
    "its_status_is_the_agents",
    "what_follows_the_header_is_the_agents_to_the_byte",
    "what_the_agent_said_last_arrives",
):
    globals()[f"test_{_name}"] = getattr(test_half, f"test_{_name}")

pytestmark = pytest.mark.skipif(not shutil.which("node"), reason="there is no node")


@pytest.fixture
def start() -> Iterator[Start]:
    with lines(["node", str(BRIDGE / "half.js")]) as begin:
        yield begin


def test_50_mb_arrive_whole_and_few_are_held(start: Start) -> None:
    assert much(start) < 200_000  # of which node itself takes a quarter


def test_input_that_a_deaf_agent_never_reads_is_seen_to_end(start: Start, alive: Liveness) -> None:
    line = start(children.program("deaf"), alive.env, grace=GRACE)
    alive.hear("deaf")
    line.write(b"x" * 50 * PIPE_BYTES)
    assert line.end()[0] == 128 + signal.SIGTERM
    alive.assert_all_dead()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_the_agent_without_the_grace(start: Start, alive: Liveness, number: signal.Signals) -> None:
    line = start(children.program("deaf", "stubborn"), alive.env)
    alive.hear("stubborn")
    line.half.send_signal(number)
    assert line.ending()[0] == 128 + signal.SIGKILL
    alive.assert_all_dead()


@pytest.mark.parametrize(
    ("argv", "status", "why"),
    [
        (["no-such-agent"], 127, f'"no-such-agent" is not on PATH ({os.environ["PATH"]}) on build1'),
        (["/no/such/agent"], 127, 'there is no "/no/such/agent" on build1'),
        (["/etc/passwd"], 126, '"/etc/passwd" cannot be run: EACCES, on build1'),
    ],
)
def test_a_program_that_cannot_be_run_is_named(start: Start, argv: list[str], status: int, why: str) -> None:
    assert start(argv).ending() == (status, b"", f"acp-launch: {why}\n".encode())
