"""
The engine of this machine: a process of `batch item` for each attempt, in a session of its own.

Ctrl-C at the terminal reaches the submitter alone, which decides what becomes of the items. Each process has a
lifeline: a pipe whose other end only the submitter holds. When the submitter ends, however it ends, they end too.
"""

import asyncio
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from acp_launch.batch.engine import COMMAND, EngineGone
from acp_launch.batch.store import BatchDirectory
from acp_launch.private import make_private

GRACE = 2.0  # seconds for processes to end at once, before they are killed
FAREWELL = 5.0  # seconds in which killed processes are gone


class Running(NamedTuple):
    process: subprocess.Popen[bytes]
    lifeline: int
    log: Path
    ended: "asyncio.Future[int]"


class LocalEngine:
    """Carries out attempts here (`Engine`)."""

    def __init__(self, directory: BatchDirectory, *, trust: bool = False) -> None:
        self._directory, self._trust = directory, trust
        self._running: dict[str, Running] = {}
        self._is_cancelled = False

    async def __aenter__(self) -> "LocalEngine":
        self._loop = asyncio.get_running_loop()
        self._loop.add_signal_handler(signal.SIGCHLD, self._look)
        return self

    async def __aexit__(self, *error: object) -> None:
        self.end_now()
        for limit in (GRACE, FAREWELL):  # the second time they are killed
            if self._running:
                await asyncio.wait([each.ended for each in self._running.values()], timeout=limit)
            self._kill()
        self._loop.remove_signal_handler(signal.SIGCHLD)

    async def submit(self, item: str, attempt: int, account: str | None) -> int:
        """Carry out an attempt of an item, as `Engine.submit`."""
        try:
            running = self._start(item, attempt)
        except OSError as error:
            raise EngineGone(f"cannot start `batch item {item}`: {error.strerror}") from None
        self._running[item] = running
        self._look()  # it may have ended before it was listed
        return await asyncio.shield(running.ended)

    def cancel(self) -> None:
        self._is_cancelled = True
        self._signal(signal.SIGINT)

    def end_now(self) -> None:
        """End every attempt that runs at once: for `batch item` the second signal means that."""
        if not self._is_cancelled:
            self.cancel()
        self._signal(signal.SIGTERM)  # not the same again: two of one kind may arrive as one
        self._loop.call_later(GRACE, self._kill)

    def _start(self, item: str, attempt: int) -> Running:
        log = self._directory.log_of(item, attempt)
        make_private(log.parent)
        rest = ("batch", "item", str(self._directory.path), item, "--attempt", str(attempt), *["--trust"] * self._trust)
        reading, writing = os.pipe()
        try:
            with open(log, "wb", opener=_open_private) as output:
                process = subprocess.Popen(
                    (*COMMAND, *rest, "--lifeline", str(reading)),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=(reading,),
                )
        except BaseException:
            os.close(writing)
            raise
        finally:
            os.close(reading)
        return Running(process, writing, log, self._loop.create_future())

    def _look(self) -> None:
        """Find the processes that have ended."""
        for item, each in list(self._running.items()):
            if (status := each.process.poll()) is None:
                continue
            del self._running[item]
            os.close(each.lifeline)
            with suppress(FileNotFoundError):
                if each.log.stat().st_size == 0:
                    each.log.unlink()
            if not each.ended.done():
                each.ended.set_result(status if status >= 0 else 128 - status)

    def _signal(self, number: int) -> None:
        for each in self._running.values():
            each.process.send_signal(number)

    def _kill(self) -> None:
        """Kill what still runs. The run of each has a lifeline to its `batch item`, so it ends too."""
        self._signal(signal.SIGKILL)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
