"""
Our side of the guard: the process that outlives us and ends what we leave behind (guardian.py is its program).

Started before the first child of a launch, taught every process that is started or seen, dismissed when all of them
are ended. It costs what an interpreter costs. Writing to it never blocks: what its pipe does not take is kept for the
next time. Free of asyncio; vigil.py keeps it alive and informed while the event loop runs.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from acp_launch.errors import LaunchError
from acp_launch.process import marker, prepare, spawn
from acp_launch.process.identity import Process, Table
from acp_launch.process.pidfd import LOOK_EVERY, block_until_gone
from acp_launch.process.records import LaunchRecord, launcher
from acp_launch.process.signalling import send
from acp_launch.process.spawn import Spawned, spawn_aside
from acp_launch.process.tree import descendants

PROGRAM = Path(__file__).with_name("guardian.py")
FAREWELL = 0.5  # seconds for it to end when it is told to; it takes less than one millisecond
SHORT_LIVED = 1.0  # seconds; a guard that dies sooner
TRIES = 5  # and so often in a row is not started again


class Guard:
    """The guard of this process's launch; a witness of what it spawns."""

    def __init__(self, record: LaunchRecord, note: Callable[[str], None]) -> None:
        """`note` is told, once, that there can be no guard."""
        self.spawned: Spawned | None = None  # its process, while there is one
        self._record = record
        self._note = note
        self._told: set[Process] = set()
        self._owed = b""
        self._lock = threading.RLock()
        self._started = 0.0
        self._short_lived = 0

    def start(self) -> None:
        """From here on whatever is spawned is known to it and to the record."""
        self._start()
        spawn.witnesses.extend((self._record, self))

    def replace(self) -> None:
        """It has died: start another, which knows everything."""
        with self._lock:
            self._bury()
            lived = time.monotonic() - self._started
            self._short_lived = self._short_lived + 1 if lived < SHORT_LIVED else 0
            if self._short_lived < TRIES:
                self._start()
            else:
                self._note(_without(f"it has died {TRIES} times in a row"))

    def began(self, spawned: Spawned) -> None:
        self._learn([spawned.process])

    def ended(self, spawned: Spawned) -> None:
        self._forget([spawned.process])

    def look(self) -> None:
        """List what our children have become, and tell what is new. Costs some 20 µs for each of them (Linux)."""
        table = prepare.table()
        self._wake(table)
        with self._lock:
            now = set(descendants(table))
            now |= {old for old in self._told - now if (seen := table.read(old.pid)) == old and not seen.is_dead}
            fresh = now - self._told
            self._forget(self._told - now)
            self._learn(fresh)
        for process in fresh:
            self._record.seen(process)

    def dismiss(self) -> None:
        """Everything is ended, so let it end too: within `FAREWELL` seconds, or it is killed."""
        for witness in (self._record, self):
            if witness in spawn.witnesses:
                spawn.witnesses.remove(witness)
        with self._lock:
            if self.spawned is None:
                return
            self._say("done\n")
            self.spawned.close("stdin")
            block_until_gone([self.spawned.process], within=FAREWELL)
            self._bury()

    def _start(self) -> None:
        try:
            self.spawned = spawn_aside([sys.executable, "-I", "-S", str(PROGRAM)], cwd=Path("/"))
        except LaunchError as error:
            self._note(_without(error.message))
            return
        self._started = time.monotonic()
        for stream in ("stdout", "stderr"):
            self.spawned.close(stream)  # it says nothing
        self._record.guard(self.spawned.process)
        self._teach()

    def _wake(self, table: Table) -> None:
        """While it is stopped, nobody would notice our death."""
        seen = table.read(self.spawned.pid) if self.spawned else None
        if seen is not None and seen.is_stopped:
            send(seen, signal.SIGCONT)

    def _teach(self) -> None:
        self._owed = b""
        self._say(f"launch {marker.launch_id()} {launcher().started}\n")
        if self._record.path is not None:
            self._say(f"record {os.fsencode(self._record.path).hex()}\n")
        self._say(_lines("+", self._told))

    def _learn(self, processes: Iterable[Process]) -> None:
        with self._lock:
            fresh = set(processes) - self._told
            self._told |= fresh
            self._say(_lines("+", fresh))

    def _forget(self, processes: Iterable[Process]) -> None:
        with self._lock:
            gone = set(processes) & self._told
            self._told -= gone
            self._say(_lines("-", gone))

    def _say(self, lines: str) -> None:
        if self.spawned is None or self.spawned.stdin < 0:
            return
        self._owed += lines.encode("ascii")
        try:
            while self._owed:
                self._owed = self._owed[os.write(self.spawned.stdin, self._owed) :]
        except BlockingIOError:
            return  # it is stopped, or starved
        except BrokenPipeError:
            self._owed = b""  # it is dead; who watches it will start another

    def _bury(self) -> None:
        """Take leave of its process, dead or not."""
        spawned, self.spawned = self.spawned, None
        if spawned is None:
            return
        if spawned.poll() is None:
            send(spawned.process, signal.SIGKILL)
            block_until_gone([spawned.process], within=FAREWELL)
            _await_status(spawned)
        spawned.mark_ended()
        spawned.close_all()


def _await_status(spawned: Spawned) -> None:
    """It is dead; where there are no pidfds, a thread is about to fetch its status."""
    deadline = time.monotonic() + FAREWELL
    while spawned.poll() is None and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY)


def _lines(sign: str, processes: Iterable[Process]) -> str:
    return "".join(f"{sign} {process.pid} {process.started}\n" for process in processes)


def _without(reason: str) -> str:
    return f"this run has no guard ({reason}), so what it starts would outlive a kill -9 of acp-launch"
