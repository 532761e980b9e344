"""A process as it was seen at one moment: the value everything that signals works on."""

from typing import Protocol

from msgspec import Struct


class Process(Struct, frozen=True, eq=False):
    """One living process. Two are the same when pid *and* start time are: a pid alone is recycled.

    `started` is what the platform counts in (clock ticks since boot on Linux, seconds since 1970 elsewhere) and
    is only ever compared. The rest describes the moment it was looked at.
    """

    pid: int
    started: float
    parent: int
    group: int
    session: int
    is_stopped: bool = False
    is_dead: bool = False  # a zombie: only its parent's wait is missing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Process) and (self.pid, self.started) == (other.pid, other.started)

    def __ne__(self, other: object) -> bool:
        return not self == other  # a Struct has one of its own, which goes by identity

    def __hash__(self) -> int:
        return hash((self.pid, self.started))


class Table(Protocol):
    """The machine's processes, as far as we ask: made fresh for every listing."""

    def read(self, pid: int) -> Process | None:
        """None when there is no such process (any more)."""

    def children(self, pid: int) -> list[int]:
        """The pids whose parent is `pid` now, zombies included."""

    def all(self) -> dict[int, Process]:
        """Every process that can be seen, by its pid."""
