"""The engine of this machine."""

import asyncio
import signal
from asyncio.subprocess import Process
from typing import Self

from acp_launch.batch.engine import EngineGone, send_signal, start_item, wait_for_end
from acp_launch.batch.store import BatchDirectory

GRACE_SECONDS = 2.0  # for processes to end at once, before they are killed
KILL_TIMEOUT = 5.0  # until killed processes are gone


class LocalEngine:
    """Carries out attempts here (`Engine`)."""

    def __init__(self, directory: BatchDirectory, *, trust: bool = False) -> None:
        self._directory, self._options = directory, ("--trust",) * trust
        self._running: set[Process] = set()
        self._is_cancelled = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        self.end_now()
        for limit in (GRACE_SECONDS, KILL_TIMEOUT):  # the second time they are killed
            if self._running:
                await asyncio.wait([asyncio.create_task(each.wait()) for each in self._running], timeout=limit)
            self._kill()

    async def submit(self, item: str, attempt: int, account: str | None) -> int:
        """See `Engine.submit`. One that is cancelled leaves its process to the end of this engine."""
        try:
            async with start_item(self._directory.path, item, attempt, self._options) as child:
                self._running.add(child)
                code = await wait_for_end(child)
                self._running.discard(child)
        except OSError as error:
            raise EngineGone(f"cannot start `batch item {item}`: {error.strerror}") from None
        return code

    def cancel(self) -> None:
        self._is_cancelled = True
        self._signal(signal.SIGINT)

    def end_now(self) -> None:
        """See `Engine.end_now`. For `batch item` the second signal means that."""
        if not self._is_cancelled:
            self.cancel()
        self._signal(signal.SIGTERM)  # not the same again: two of one kind may arrive as one
        asyncio.get_running_loop().call_later(GRACE_SECONDS, self._kill)

    def _signal(self, number: int) -> None:
        for each in self._running:
            send_signal(each, number)

    def _kill(self) -> None:
        """Kill what still runs. The run of each has a lifeline to its `batch item`, so it ends too."""
        self._signal(signal.SIGKILL)
