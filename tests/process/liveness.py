"""Knowing that processes are alive, and dead, from the kernel: no sleep, no polling."""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.patience import PATIENCE

CHILDREN = Path(__file__).parents[1] / "children"
# Trees of every temper: what starts one, and who of it says hello.
TREES = {
    "polite": (["polite"], ["polite"]),
    "deaf": (["deaf"], ["deaf"]),
    "stubborn": (["deaf", "stubborn"], ["stubborn"]),
    "frozen": (["deaf", "frozen"], ["frozen"]),
    "setsid": (["forker", "setsid"], ["forker", "loner"]),
    "daemon": (["forker", "daemon"], ["forker", "daemon"]),
    "respawn": (["forker", "respawn"], ["forker", "supervisor", "worker"]),
    "hold": (["forker", "hold"], ["forker", "daemon"]),
    "follow": (["forker", "follow"], ["forker", "follower"]),
}


def program(name: str, *args: str) -> list[str]:
    """The argv of one of tests/children."""
    return [sys.executable, "-I", "-S", str(CHILDREN / f"{name}.py"), *args]


class Liveness:
    """Children connect and say their name; when the kernel closes the connection the child is dead."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._lines: list[socket.socket] = []
        self.env = {"PATH": os.environ["PATH"], "LIVENESS": str(listener.getsockname()[1])}

    def hear(self, *names: str) -> None:
        """Wait until exactly these have said hello, in any order."""
        assert sorted(self.heard(len(names))) == sorted(names)

    def heard(self, count: int) -> list[str]:
        """What the next `count` say."""
        names = []
        for _ in range(count):
            line, _ = self._listener.accept()
            line.settimeout(PATIENCE)
            self._lines.append(line)
            names.append(line.makefile("r").readline().strip())
        return names

    def assert_all_dead(self) -> None:
        """Those heard, and those that came later (respawned ones)."""
        self._accept_the_rest()
        for line in self._lines:
            while line.recv(100):
                pass
            line.close()
        self._lines.clear()

    def _accept_the_rest(self) -> None:
        self._listener.setblocking(False)
        try:
            while True:
                line, _ = self._listener.accept()
                line.settimeout(PATIENCE)
                self._lines.append(line)
        except BlockingIOError:
            self._listener.settimeout(PATIENCE)


@contextmanager
def liveness() -> Iterator[Liveness]:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        listener.settimeout(PATIENCE)
        heard = Liveness(listener)
        try:
            yield heard
        finally:
            for line in heard._lines:
                line.close()
