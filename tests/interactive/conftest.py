"""A terminal with a story that does what it is told (drivers/story.py), and a clock that is set by hand."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clock import Clock
from tests.interactive.screen import STATUS, Terminal, driver


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def history(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "history")


@pytest.fixture
def terminal(history: str) -> Iterator[Terminal]:
    with driver("story", history) as terminal:
        terminal.until(STATUS)
        yield terminal
