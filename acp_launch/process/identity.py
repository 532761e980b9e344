"""A process as it was seen at one moment: the value everything that signals works on."""

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Process:
    """One living process. Two are the same when pid *and* start time are: a pid alone is recycled.

    `started` is what the platform counts in (clock ticks since boot on Linux, seconds since 1970 elsewhere) and
    is only ever compared. The rest describes the moment it was looked at.
    """

    pid: int
    started: float
    parent: int = field(compare=False)
    group: int = field(compare=False)
    session: int = field(compare=False)
    is_stopped: bool = field(default=False, compare=False)
    is_dead: bool = field(default=False, compare=False)  # a zombie: only its parent's wait is missing


class Table(Protocol):
    """The machine's processes, as far as we ask: made fresh for every listing."""

    def read(self, pid: int) -> Process | None:
        """None when there is no such process (any more)."""

    def children(self, pid: int) -> list[int]:
        """The pids whose parent is `pid` now, zombies included."""

    def all(self) -> dict[int, Process]:
        """Every process that can be seen, by its pid."""
