"""Messages of an agent that wait for a server to come (back), within bounds. Pure."""

from collections import deque
from collections.abc import Iterator

from msgspec import Raw, Struct

from acp_launch.bridge.ids import key
from acp_launch.bridge.ledger import Asked

MOST = 1000  # messages
MOST_BYTES = 16 * 1024 * 1024


class Waiting(Struct, frozen=True):
    """One message; `asked` is None for a notification."""

    line: bytes
    asked: Asked | None
    since: float


class Queue:
    def __init__(self) -> None:
        self._waiting: deque[Waiting] = deque()
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, waiting: Waiting) -> bool:
        """False when there is no room."""
        if len(self._waiting) >= MOST or self._bytes + len(waiting.line) > MOST_BYTES:
            return False
        self._waiting.append(waiting)
        self._bytes += len(waiting.line)
        return True

    def take_all(self) -> Iterator[Waiting]:
        """In their order; what is put meanwhile comes along."""
        while self._waiting:
            waiting = self._waiting.popleft()
            self._bytes -= len(waiting.line)
            yield waiting

    def withdraw(self, id: Raw) -> bool:
        """Take out the request with this id; whether there was one."""
        for waiting in self._waiting:
            if waiting.asked is not None and key(waiting.asked.id) == key(id):
                self._remove(waiting)
                return True
        return False

    def expired(self, before: float) -> list[Asked]:
        """Take out the requests that have waited since `before` or longer."""
        late = [waiting for waiting in self._waiting if waiting.since <= before and waiting.asked is not None]
        for waiting in late:
            self._remove(waiting)
        return [waiting.asked for waiting in late if waiting.asked is not None]

    def _remove(self, waiting: Waiting) -> None:
        self._waiting.remove(waiting)
        self._bytes -= len(waiting.line)
