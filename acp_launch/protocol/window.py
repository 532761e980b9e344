"""
The window of events that a reader may have missed: numbered, bounded by count, bytes and age. Pure.

A reader that lost its connection gives the id of the last event it has, and gets those after it. Of events that
supersede each other, such as updates of one resource, it gets the last, under that event's own id; so it may ask again
from any id it has ever had, and gets nothing twice.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from math import inf

MAX_LINES = 1000
MAX_BYTES = 4 * 1024 * 1024  # of lines
AGE = 600.0  # seconds
PIECES = 4  # that are kept for readers at one place

Missed = list[tuple[int, bytes]]  # id and line of each event, by ids


class Window:
    """The latest events, on the caller's clock, which must not go backwards.

    What exceeds a limit leaves from the old end; so an event that is larger than the window takes all others with it.
    """

    def __init__(self, *, count: int = MAX_LINES, size: int = MAX_BYTES, age: float = AGE) -> None:
        """`size` is in bytes, `age` in seconds."""
        self.newest = 0  # the id of the latest event; 0 before the first
        self.lost = 0  # the newest event that left by a limit
        self.appended = 0  # bytes, of all events
        self.spare: Callable[[], float] = lambda: inf  # returns after which event none may leave
        self._count, self._size, self._age = count, size, age
        self._kept = OrderedDict[int, tuple[bytes, Hashable, float]]()  # line, key and time, by id
        self._by_key: dict[Hashable, int] = {}  # the ids of kept events that have a key
        self._bytes = 0
        self._joined: dict[int, tuple[int, bytes]] = {}  # pieces, by the id before them
        self._due = inf  # not later than when the oldest becomes too old

    def append(self, line: bytes, *, key: Hashable | None, now: float) -> int:
        """Add an event, and return its id: 1, 2, 3 ...

        It supersedes the kept event of the same `key`; None is not a key. A reader must be able to do without an event
        that is superseded.
        """
        kept = self._kept
        if key is not None:
            older = self._by_key.get(key)
            if older is not None:
                self._bytes -= len(kept.pop(older)[0])
        if not kept:
            self._due = now + self._age
        self.newest = id = self.newest + 1
        kept[id] = line, key, now
        if key is not None:
            self._by_key[key] = id
        self._bytes += len(line)
        self.appended += len(line)
        if self._bytes > self._size or len(kept) > self._count or now >= self._due:
            self._trim(now)
        return id

    def since(self, last: int | None, now: float) -> Missed | None:
        """Return the events after the one with id `last`; 0 is before the first.

        None if some of them may be lost: `last` is None, was never given to an event, or too much came since then.
        """
        self._trim(now)
        if last is None or not self.lost <= last <= self.newest:
            return None
        missed = []
        for id in reversed(self._kept):
            if id <= last:
                break
            missed.append((id, self._kept[id][0]))
        missed.reverse()
        return missed

    def joined(self, last: int, size: int, now: float) -> tuple[int, bytes] | None:
        """Return the lines of the events after the one with id `last` in one piece, and the id of the last of them.

        There are so many that they have `size` bytes, if there are as many. Readers at one place share a piece, so
        this is for events without keys. None as `since`.
        """
        self._trim(now)
        if not self.lost <= last <= self.newest:
            return None
        known = self._joined.get(last)
        if known is not None and (known[0] == self.newest or len(known[1]) >= size):
            return known
        parts, length, end = [], 0, last
        for end in range(last + 1, self.newest + 1):
            parts.append(line := self._kept[end][0])
            length += len(line)
            if length >= size:
                break
        self._joined.pop(last, None)
        while len(self._joined) >= PIECES:
            del self._joined[next(iter(self._joined))]
        self._joined[last] = piece = end, b"".join(parts)
        return piece

    def between(self, last: int, end: int) -> Missed:
        """Return the events after `last` and up to `end` one by one, as `joined` has them."""
        return [(id, self._kept[id][0]) for id in range(last + 1, end + 1)]

    def unjoin(self) -> None:
        """Forget the pieces."""
        self._joined.clear()

    def _trim(self, now: float) -> None:
        """Remove what exceeds the limits, the oldest first."""
        kept = self._kept
        while kept and (self._bytes > self._size or len(kept) > self._count or self._has_aged(now)):
            if next(iter(kept)) > self.spare():
                break
            self.lost, (line, key, _) = kept.popitem(last=False)
            if key is not None:
                del self._by_key[key]
            self._bytes -= len(line)

    def _has_aged(self, now: float) -> bool:
        if now >= self._due:
            self._due = next(iter(self._kept.values()))[2] + self._age
        return now >= self._due
