"""An observer of servers that keeps silent; tests say what they want to hear."""

import asyncio
import sys
from collections.abc import Callable

from acp_launch.process.lifecycle import Change


class Silent:
    """Implements ServerObserver."""

    def changed(self, change: Change) -> None: ...

    def listed(self) -> None: ...

    def note(self, text: str) -> None: ...

    def waiting(self, what: str, seconds: float, limit: float) -> None: ...

    def log(self, server: str) -> Callable[[bytes], None]:
        return lambda chunk: None

    def log_end(self, server: str) -> None: ...

    async def tell(self) -> None:
        await asyncio.Event().wait()


class Complaining(Silent):
    def note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)
