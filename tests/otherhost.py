"""Another machine for tests, reached by ssh, where this machine can have one for a while."""

import json
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
# It stands beside the checkout in some places.
SSH_ROOM = ROOT.resolve().parent / "shared" / "tools" / "elsewhere" / "sshroom.py"
ROOM_TIMEOUT = 60  # seconds: a package is fetched the first time


class OtherHost:
    """`there` is a directory that both machines have, and `lib` in it has agents."""

    def __init__(self, process: "subprocess.Popen[bytes]", said: dict[str, str]) -> None:
        self._process = process
        self.bin, self.there = said["bin"], Path(said["there"])
        self.lib = self.there / "lib"
        self.config = Path(self.bin).parent / "config"
        shutil.copytree(ROOT / "acp_launch" / "demo", self.lib / "acp_launch" / "demo")
        shutil.copytree(ROOT / "tests" / "agents", self.lib / "tests" / "agents")
        for name in ("acp_launch", "tests"):
            shutil.copy(ROOT / name / "__init__.py", self.lib / name)

    def ask(self, question: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{question}\n".encode())
        self._process.stdin.flush()
        return hear(self._process)

    def processes(self) -> dict[int, str]:
        """All that runs there for the user, by its pid here."""
        return dict(self.ask("processes"))

    def leftovers(self) -> list[str]:
        """What acp-launch has left in files."""
        return [each for each in self.ask("files") if "acp-launch" in each and not each.startswith(str(self.there))]


def hear(process: "subprocess.Popen[bytes]") -> Any:
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], ROOM_TIMEOUT)[0], "it says nothing"
    return json.loads(process.stdout.readline())


@contextmanager
def having() -> Iterator[OtherHost]:
    """Have it, or skip the test and say why."""
    if not SSH_ROOM.exists():
        pytest.skip(f"ssh: {SSH_ROOM.name} does not stand beside the checkout")
    with tempfile.TemporaryDirectory(prefix="sr") as directory:
        argv = [sys.executable, str(ROOT / "tests" / "children" / "otherhost.py"), str(SSH_ROOM), f"{directory}/r"]
        with subprocess.Popen([*argv, str(ROOT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            said = hear(process)
            if isinstance(said, str):
                pytest.skip(f"ssh: {said}")
            yield OtherHost(process, said)
            process.communicate(timeout=ROOM_TIMEOUT)
