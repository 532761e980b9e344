"""Podman and docker for tests, where this machine can have them for a while."""

import json
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.patience import PATIENCE

# What a machine without an engine needs to have one for a while; it stands beside the checkout in some places.
ENGINE_ROOM = Path(__file__).resolve().parents[2] / "shared" / "tools" / "elsewhere" / "enginroom.py"
ROOM = Path(__file__).parent / "children" / "room.py"
ROOM_TIMEOUT = 60  # seconds: packages are fetched the first time
KINDS = ("podman", "docker")


class RealEngine(NamedTuple):
    program: str
    image: str

    @property
    def name(self) -> str:
        return Path(self.program).name

    def ask(self, *words: str) -> str:
        return subprocess.check_output([self.program, *words], timeout=PATIENCE, text=True)

    def list(self, launch: str = "") -> list[str]:
        """The ids of the containers of a launch, or of all, running or not."""
        chosen = ("--filter", f"label=acp-launch.launch={launch}") if launch else ()
        return self.ask("ps", "-a", "-q", *chosen).split()


@contextmanager
def having(kind: str) -> Iterator[RealEngine]:
    """Have an engine during the block; skip the test where there can be none."""
    if not ENGINE_ROOM.exists():
        pytest.skip(f"{kind}: {ENGINE_ROOM.name} does not stand beside the checkout")
    with tempfile.TemporaryDirectory(prefix="er") as directory:
        argv = [sys.executable, str(ROOM), str(ENGINE_ROOM), kind, f"{directory}/r"]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as room:
            assert room.stdout is not None
            select.select([room.stdout], [], [], ROOM_TIMEOUT)
            said = json.loads(room.stdout.readline())
            if isinstance(said, str):
                pytest.skip(said)
            yield RealEngine(*said)
            room.communicate(timeout=ROOM_TIMEOUT)
