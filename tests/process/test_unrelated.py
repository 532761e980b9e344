"""Processes that were there before us: neither a run's end nor its guard touches their orphans."""

import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from acp_launch.process import prepare
from tests.patience import PATIENCE

from .launches import Running, gone, launched
from .liveness import CHILDREN, Liveness, liveness, program

# One of ours that has nothing of ours left, once its parent is dead: no mark, and no session we know.
SCRUBBED = f"setsid env -i LIVENESS=$LIVENESS {shlex.join(program('deaf', 'stubborn'))} </dev/null & read _"


class Unrelated:
    """A nurse and its worker, children of a launcher before it was one (tests/children/wrapper.py)."""

    def __init__(self, alive: Liveness) -> None:
        self._alive = alive
        self.wrapper = [sys.executable, str(CHILDREN / "wrapper.py"), alive.env["LIVENESS"]]

    @contextmanager
    def launched(self, state: Path, alive: Liveness, *argv: str) -> Iterator[Running]:
        """Start a launcher of ours; nurse and worker live until the end of the block."""
        with launched(state, alive, [*argv], wrapper=self.wrapper) as running:
            heard = dict(name.split() for name in self._alive.heard(2))
            self.nurse, self.worker = int(heard["nurse"]), int(heard["worker"])
            try:
                yield running
            finally:
                for pid in (self.nurse, self.worker):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                self._alive.assert_all_dead()

    def orphaned(self) -> None:
        """From here on the worker is a child of the launcher."""
        with gone(self.nurse):
            os.kill(self.nurse, signal.SIGTERM)

    def assert_worker_lives(self) -> None:
        seen = prepare.table().read(self.worker)
        assert seen is not None
        assert not seen.is_dead


@pytest.fixture
def unrelated() -> Iterator[Unrelated]:
    with liveness() as alive:
        yield Unrelated(alive)


def parent_dies(running: Running) -> None:
    """What our only child has started is seen, then comes to the launcher."""
    running.look()
    with gone(running.children[0]):
        os.kill(running.children[0], signal.SIGKILL)


@pytest.mark.parametrize("is_killed", [False, True])
def test_an_orphan_of_a_child_that_was_there_before_us_outlives_an_orderly_end_and_a_launcher_that_is_killed(
    unrelated: Unrelated, alive: Liveness, tmp_path: Path, is_killed: bool
) -> None:
    with unrelated.launched(tmp_path, alive, "/bin/sh", "-c", SCRUBBED) as running:
        alive.hear("stubborn")
        unrelated.orphaned()
        parent_dies(running)
        if is_killed:
            running.look()
        with gone(running.upper):
            if is_killed:
                running.kill()
            else:
                running.tell("end")
                assert running.process.wait(PATIENCE) == 0
        alive.assert_all_dead()
        unrelated.assert_worker_lives()


def test_our_own_daemon_is_known_by_its_mark_among_unrelated_ones(
    unrelated: Unrelated, alive: Liveness, tmp_path: Path
) -> None:
    with unrelated.launched(tmp_path, alive, *program("forker", "daemon")) as running:
        alive.hear("forker", "daemon")
        running.tell("end")
        assert running.process.wait(PATIENCE) == 0
        alive.assert_all_dead()
        unrelated.assert_worker_lives()
