"""Who hears of the processes of a supervised server; supervisor.py says when."""

from typing import Protocol

from acp_launch.process.change import Change
from acp_launch.process.child import Child


class Watcher(Protocol):
    """Whoever talks with the processes, one after another. It must neither block nor raise."""

    def started(self, child: Child) -> None:
        """There is a new process. Its pipes may be used until `lost`."""

    def ending(self) -> None:
        """Its pipes are about to be closed, so they are not to be used any more. Not told of one that has died."""

    def lost(self, change: Change) -> None:
        """There is none any more; `change.state` tells whether another will come: resting, or failed or stopped.

        What it wrote can still be read from its pipe, now and not later. Told once more, and resting, of one that had
        none and will come all the same.
        """
