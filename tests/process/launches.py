"""Launches of their own process, with their guards, to be killed."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from acp_launch.process import prepare
from acp_launch.process.table import block_until_gone
from acp_launch.process.tree import adopted
from tests.patience import PATIENCE

from .liveness import CHILDREN, Liveness


class Running:
    """tests/children/launch.py."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process, self._unread = process, b""
        said = self.hears()
        self.pid: int = said["pid"]
        self.lower, self.upper = said["guards"]
        self.cgroup = Path(said["cgroup"])
        self.children: list[int] = said["children"]

    def hears(self) -> Any:
        """What it says next."""
        assert self.process.stdout is not None
        while b"\n" not in self._unread:
            ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
            assert ready, "it said nothing"
            chunk = os.read(self.process.stdout.fileno(), 65536)
            assert chunk, "it has ended"
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return json.loads(line)

    def look(self) -> list[str]:
        """What is noted until it has looked."""
        self.tell("look")
        return list(iter(self.hears, "looked"))

    def guards(self) -> list[int]:
        """The living guards, the lower one first."""
        self.tell("guards")
        while isinstance(said := self.hears(), str):
            pass  # it was noted before
        return list(said)

    def start(self, argv: list[str]) -> int:
        """The pid of another child."""
        self.tell(f"spawn {json.dumps(argv)}")
        pid: int = self.hears()
        return pid

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def kill_with_guards(self) -> None:
        """None of the three sees another die."""
        lower, upper = self.guards()
        with gone(upper), gone(lower):
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in (upper, lower, self.process.pid):
                    os.kill(pid, number)
            self.process.wait(PATIENCE)


@contextmanager
def launched(
    state: Path,
    alive: Liveness,
    *argvs: list[str],
    wrapper: Sequence[str] = (),
    cgroup: bool = False,
    env: Mapping[str, str] = {},
) -> Iterator[Running]:
    """Leaving kills it; its guards, and with them its children, are waited for, and buried here: orphans come to us.

    Without a control group, unless `cgroup` asks for one.
    """
    with subprocess.Popen(
        [*wrapper, sys.executable, str(CHILDREN / "launch.py"), str(state), *map(json.dumps, argvs)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        start_new_session=True,  # the guards are in its session, and in ours no orphan would be taken for one
        env={**os.environ, **alive.env, **({} if cgroup else {"NO_CGROUP": "1"}), **env},
    ) as process:
        running = Running(process)
        try:
            yield running
        finally:
            process.kill()
            process.wait(PATIENCE)
            bury()


@contextmanager
def gone(pid: int) -> Iterator[None]:
    """The process is dead by the end of the block, or a moment later."""
    descriptor = os.pidfd_open(pid)
    try:
        yield
        ready, _, _ = select.select([descriptor], [], [], PATIENCE)
        assert ready, f"{pid} lives"
    finally:
        os.close(descriptor)


def bury() -> None:
    """Reap the orphans that came to us, once they are dead."""
    while orphans := adopted(prepare.table()):
        block_until_gone(orphans, within=PATIENCE)
        for orphan in orphans:
            assert os.waitpid(orphan.pid, os.WNOHANG)[0], f"{orphan} lives"
