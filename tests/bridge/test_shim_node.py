"""shim.js, the shim where there is only node, by the tests of the copying shim that apply to it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bridge import test_shim
from tests.bridge.test_shim import (
    SHIM,
    Bench,
    growth,
    hang_up,
    pair,
)

# With this `bench`.
for _name in (
    "a_seat_that_hangs_up_without_a_word_has_refused_it",
    "a_seat_whose_process_is_killed_ends_it",
    "a_shim_that_is_killed_ends_both_its_sides",
    "a_socket_without_a_listener_is_reported",
    "an_agent_that_ends_its_input_does_not_keep_it_alive",
    "an_agent_that_ends_its_input_still_hears_the_answers",
    "an_agent_that_leaves_before_a_word_was_said_was_not_refused",
    "files_do_for_stdin_and_stdout",
    "it_greets_and_copies_both_ways_until_the_seat_ends",
    "one_that_finds_the_door_crowded_waits_for_its_turn",
    "sockets_do_for_stdin_and_stdout",
    "started_by_hand_it_says_what_to_start_instead",
    "what_the_seat_said_before_it_hung_up_on_us_arrives",
    "what_the_seat_said_last_still_arrives",
    "without_a_socket_it_says_so",
):
    globals()[f"test_{_name}"] = getattr(test_shim, f"test_{_name}")

pytestmark = [pytest.mark.whole, pytest.mark.skipif(not shutil.which("node"), reason="there is no node")]


class NodeBench(Bench):
    copying = ("node", str(Path(SHIM).with_name("shim.js")))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = NodeBench(tmp_path)
    yield made
    made.close()


def test_50_mb_each_way_at_once_arrive_whole_and_few_are_held(bench: Bench) -> None:
    assert growth(bench) < 200_000


def test_a_seat_that_has_gone_ends_it_though_its_stdout_is_not_read(bench: Bench) -> None:
    started, seat = pair(bench)
    seat.sendall(b"x" * 1_000_000)
    hang_up(seat, started)
