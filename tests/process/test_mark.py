"""The mark: whose an orphan is after its parents are gone and it has left every group and session."""

import os
import subprocess
import sys
from pathlib import Path

from acp_launch.process import prepare
from acp_launch.process.spawn import spawn
from acp_launch.process.tree import adopted, end_now

from .liveness import Liveness, program


def test_a_daemon_is_ended_with_the_tree_whose_mark_it_carries_while_others_live(alive: Liveness) -> None:
    """It was not seen before its parents died, and it is in an unknown session."""
    first = spawn(program("forker", "daemon"), env=alive.env, cwd=Path("/"))
    second = spawn(program("forker", "daemon"), env=alive.env, cwd=Path("/"))
    alive.hear("forker", "daemon", "forker", "daemon")
    orphans = adopted(prepare.table())
    assert {prepare.mark_of(orphan.pid) for orphan in orphans} == {first.mark, second.mark}
    end_now(first)
    assert [prepare.mark_of(orphan.pid) for orphan in adopted(prepare.table())] == [second.mark]
    assert second.poll() is None
    end_now(second)
    alive.assert_all_dead()


def test_a_daemon_without_a_mark_is_left_to_the_last_tree(alive: Liveness) -> None:
    first = spawn(program("scrubber"), env=alive.env, cwd=Path("/"))
    second = spawn(program("polite"), env=alive.env, cwd=Path("/"))
    alive.hear("scrubber", "scrubbed", "polite")
    (orphan,) = adopted(prepare.table())
    assert prepare.mark_of(orphan.pid) is None
    end_now(first)
    assert adopted(prepare.table()) == [orphan]
    end_now(second)
    alive.assert_all_dead()


def test_every_process_gets_a_mark_of_its_own_over_one_that_was_inherited(alive: Liveness) -> None:
    env = {**alive.env, "ACP_LAUNCH_ID": "another.7"}
    one, two = (spawn(program("polite"), env=env, cwd=Path("/")) for _ in range(2))
    alive.hear("polite", "polite")
    assert [prepare.mark_of(child.pid) for child in (one, two)] == [one.mark, two.mark]
    assert one.mark != two.mark
    assert one.mark.partition(".")[0] == two.mark.partition(".")[0] == prepare.launch_id()
    for child in (one, two):
        end_now(child)


def test_who_has_no_mark_or_is_gone_has_none() -> None:
    assert prepare.mark_of(os.getpid()) is None
    assert prepare.mark_of(2**22 + 1) is None


def test_the_id_of_a_launch_is_its_own() -> None:
    code = "from acp_launch.process import prepare; print(prepare.fresh_mark(), prepare.fresh_mark())"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True) for _ in range(2)]
    (one, two), (other, _) = (run.stdout.split() for run in runs)
    assert one.partition(".")[0] == two.partition(".")[0] != other.partition(".")[0] != prepare.launch_id()
    assert (one.partition(".")[2], two.partition(".")[2]) == ("1", "2")
