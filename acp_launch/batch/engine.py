"""What carries out the attempts of a batch, each by `batch item` in a process of its own: here, or on a cluster."""

import sys
from typing import Protocol

COMMAND = (sys.executable, "-P", "-m", "acp_launch")  # -P: nothing in this directory replaces a module


class EngineGone(Exception):  # noqa: N818 - it reads as what happened
    """Raised when an engine can carry out nothing more, as its scheduler has died; the text says why."""


class Engine(Protocol):
    """Carries out attempts. A submitter opens it with `async with`; at its end nothing that it started is left."""

    async def submit(self, item: str, attempt: int, account: str | None) -> int:
        """Carry out an attempt of an item, at the earliest when the account has room on all hosts.

        Return the exit code of `batch item`. What happened is in the record, if there is one.

        Raises:
            EngineGone: as it says.
        """

    def cancel(self) -> None:
        """Cancel every attempt that runs, as by Ctrl-C; each `submit` returns soon."""

    def end_now(self) -> None:
        """End every attempt that runs at once."""
