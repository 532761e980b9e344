"""The stage of tests/seat, and several of them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from tests.cli.conftest import launch
from tests.cli.launcher import Launcher
from tests.seat.conftest import stage
from tests.seat.roll import roll
from tests.seat.stage import Stage

__all__ = ["launch", "stage"]  # fixtures


@pytest.fixture
def stages(launch: Launcher, tmp_path: Path) -> Iterator[Callable[[], Stage]]:
    """As many as are needed at the same time, each with a project, a state directory and a roll of its own."""
    numbers = count()
    with ExitStack() as stack:

        def build() -> Stage:
            scratch = tmp_path / str(next(numbers))
            (scratch / "project" / ".acp-launch").mkdir(parents=True)
            env = launch.env | {"ACP_LAUNCH_STATE_DIR": str(scratch / "state")}
            return Stage(Launcher(scratch / "project", env), stack.enter_context(roll()), scratch)

        yield build
