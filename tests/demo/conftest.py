"""A fresh demo agent and demo server, each with a home of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.demo.client import FULL, Client, command

Start = Callable[[], Client]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Starts an agent; all of a test's agents share a home."""
    return lambda: Client(FULL, home=tmp_path / "home")


@pytest.fixture
def agent(start: Start) -> Iterator[Client]:
    with start() as client:
        yield client


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Client]:
    with Client(command("acp_launch.demo.server"), home=tmp_path / "home", judge=False) as client:
        yield client
