"""
Open requests of one conversation between an agent and a server. Pure.

`Ledger` holds the agent's requests to the server, `Questions` the server's requests to the agent, `Queue` the agent's
messages for a server that is not running. Each request is answered once; an answer that no request waits for is not
passed on. `Numbers` gives ids of our own. `Health` judges a server that is silent.
"""

from collections import deque
from collections.abc import Container, Iterator, Sequence
from typing import Literal

from msgspec import Raw, Struct

from acp_launch.protocol.jsonrpc import key
from acp_launch.waits import FIRST_WORD, stretch

OURS = "acp-launch:"  # prefix of the ids of our own requests to a server or an agent
NULL = b"null"


class Numbers:
    """Makes ids that are unique in this conversation; `taken` are the open ids of the other side."""

    def __init__(self) -> None:
        self._next = 0

    def fresh(self, taken: Container[bytes]) -> bytes:
        while True:
            self._next += 1
            candidate = f'"{OURS}{self._next}"'.encode()
            if candidate not in taken:
                return candidate


FORGOTTEN = 1000  # cancelled requests that are remembered; they need not be answered (MCP "cancellation")


class OpenRequest(Struct, gc=False):
    """One request of the agent to the server. `silent_since` is on the caller's clock; `token` is its progressToken."""

    id: Raw
    method: str
    params: Raw
    silent_since: float
    token: bytes | None = None
    unsent_since: float | None = None  # when it was first queued again, because it had not reached the server
    word: float = FIRST_WORD  # seconds of silence after which the user is told of the wait
    is_cancelled: bool = False


class Ledger:
    """The agent's requests by id. A repeated id replaces the older request, as an answer could not tell them apart."""

    def __init__(self) -> None:
        self.open: dict[bytes, OpenRequest] = {}
        self._cancelled: dict[bytes, None] = {}

    def ask(self, asked: OpenRequest) -> None:
        self.open[key(asked.id)] = asked

    def settle(self, id: Raw) -> OpenRequest | None:
        """Remove and return the request that this id answers; None if there is none."""
        return self.settle_key(key(id))

    def settle_key(self, number: bytes) -> OpenRequest | None:
        if self._cancelled:
            self._cancelled.pop(number, None)
        return self.open.pop(number, None)

    def cancel(self, id: Raw) -> None:
        """Mark a request as cancelled by the agent. An answer is still passed on, but no longer waited for."""
        asked = self.open.get(number := key(id))
        if asked is None:
            return
        asked.is_cancelled = True
        self._cancelled[number] = None
        if len(self._cancelled) > FORGOTTEN:
            self.open.pop(oldest := next(iter(self._cancelled)), None)
            del self._cancelled[oldest]

    def progress(self, token: bytes, now: float) -> None:
        """Note progress of the request with this token."""
        for asked in self.open.values():
            if asked.token == token:
                asked.silent_since = now

    def wanted(self) -> list[OpenRequest]:
        """List the requests that are not cancelled."""
        return [asked for asked in self.open.values() if not asked.is_cancelled]

    def close(self) -> list[OpenRequest]:
        """Remove all requests; return those that are not cancelled."""
        left = self.wanted()
        self.open.clear()
        self._cancelled.clear()
        return left


QUESTIONS = 1000  # requests of a server that may wait for the agent at once


class Questions:
    """
    The server's requests to the agent, by the id that the agent sees.

    The agent may still answer a question of a server process that has ended. If the next process uses the same id, the
    agent gets its question under an id of ours, and `settle` returns the server's own id.
    """

    def __init__(self) -> None:
        self.open: dict[bytes, Raw] = {}  # the agent's id → the server's
        self._stale: dict[bytes, None] = {}

    @property
    def is_full(self) -> bool:
        """Whether so many wait for the agent that the server's next one must be refused."""
        return len(self.open) >= QUESTIONS

    def is_ambiguous(self, id: Raw) -> bool:
        """Tell whether the agent may still answer an older question with this id."""
        return key(id) in self._stale

    def ask(self, id: Raw, *, known_as: Raw) -> None:
        self.open[key(known_as)] = id

    def settle(self, id: Raw) -> Raw | None:
        """Remove the question that the agent answers; return the server's id, or None if the server does not wait."""
        number = key(id)
        self._stale.pop(number, None)
        return self.open.pop(number, None)

    def withdraw(self, id: Raw) -> Raw | None:
        """Remove a question that the server cancels; return the id that the agent sees, or None if it is unknown."""
        for number, own in self.open.items():
            if key(own) == key(id):
                self._let_go(number)
                return Raw(number)
        return None

    def die(self) -> Iterator[Raw]:
        """Remove all questions of a server that is gone; return the ids to cancel at the agent."""
        died = list(self.open)
        for number in died:
            self._let_go(number)
        return map(Raw, died)

    def _let_go(self, number: bytes) -> None:
        """Remove a question; remember its id, because the agent may still answer it."""
        del self.open[number]
        self._stale[number] = None
        if len(self._stale) > FORGOTTEN:
            del self._stale[next(iter(self._stale))]


MOST = 1000  # messages in a queue
MOST_BYTES = 16 * 1024 * 1024


class Waiting(Struct, frozen=True):
    """One message; `asked` is None for a notification."""

    line: bytes
    asked: OpenRequest | None
    since: float


class Queue:
    """Messages of an agent that wait for a server to start, within bounds."""

    def __init__(self) -> None:
        self._waiting: deque[Waiting] = deque()
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, waiting: Waiting) -> bool:
        """Append a message; return False if there is no room."""
        if len(self._waiting) >= MOST or self._bytes + len(waiting.line) > MOST_BYTES:
            return False
        self._waiting.append(waiting)
        self._bytes += len(waiting.line)
        return True

    def put_back(self, before: Sequence[Waiting]) -> list[Waiting]:
        """Put messages before all others, in their order; return those for which there is no room."""
        after = list(self.take_all())
        return [waiting for waiting in (*before, *after) if not self.put(waiting)]

    def take_all(self) -> Iterator[Waiting]:
        """Remove and yield all messages in order, also those put meanwhile."""
        while self._waiting:
            waiting = self._waiting.popleft()
            self._bytes -= len(waiting.line)
            yield waiting

    def withdraw(self, id: Raw) -> bool:
        """Remove the request with this id; return whether there was one."""
        for waiting in self._waiting:
            if waiting.asked is not None and key(waiting.asked.id) == key(id):
                self._remove(waiting)
                return True
        return False

    def expired(self, before: float, method: str = "") -> list[OpenRequest]:
        """Remove and return the requests, of this method if one is given, that have waited since `before` or longer."""
        waiting = [each for each in self._waiting if each.since <= before]
        late = [each.asked for each in waiting if each.asked is not None and method in ("", each.asked.method)]
        for asked in late:
            self.withdraw(asked.id)
        return late

    def _remove(self, waiting: Waiting) -> None:
        self._waiting.remove(waiting)
        self._bytes -= len(waiting.line)


IDLE = 30.0  # seconds of silence
MISSES = 3
LEAST = stretch(5.0)  # seconds for the ping after a time-out


class Health:
    """The health of a silent server, judged by pings; the caller calls `tick` now and then.

    - An idle server that has answered a ping before gets another after 30 s of silence. Three unanswered pings in a row
      mean that it is wedged. A server that has never answered a ping is left alone. A server that does not know `ping`
      (MCP 2026-07-28 has none) answers with an error, which counts as an answer.
    - A server with an open request is busy, and a busy server need not answer.
    - After `timeouts.call` has expired on a request, one ping is sent at once, even to a busy server. An answer proves
      that the server lives and was only slow. The ping has as long as the call had, and at least 5 s.

    Any line from the server is a sign of life.
    """

    def __init__(self, *, idle: float = IDLE, least: float = LEAST) -> None:
        self.knows_ping = False  # it has answered a ping, possibly with an error
        self._idle, self._least = idle, least
        self._heard = 0.0
        self._asked: float | None = None
        self._misses = 0
        self._patience: float | None = None  # seconds for the ping after a time-out; set while it is suspected

    def begin(self, now: float) -> None:
        """Start anew for a new process of the server."""
        self._heard, self._asked, self._misses, self._patience = now, None, 0, None

    def heard(self, now: float) -> None:
        self._heard = now
        self._asked, self._misses, self._patience = None, 0, None

    def suspect(self, now: float, limit: float) -> bool:
        """Suspect the server because a call took longer than `limit`; return whether to ping now."""
        if self._patience is not None or not self.knows_ping:
            return False
        self._asked, self._patience = now, max(limit, self._least)
        return True

    @property
    def is_suspected(self) -> bool:
        return self._patience is not None

    def tick(self, now: float, *, busy: bool) -> Literal["ping", "wedged", "fine"]:
        if self._patience is not None:
            return "wedged" if now - (self._asked or now) > self._patience else "fine"
        if busy:
            self._heard, self._asked, self._misses = now, None, 0
            return "fine"
        return self._while_idle(now)

    def _while_idle(self, now: float) -> Literal["ping", "wedged", "fine"]:
        if not self.knows_ping or now - (self._asked or self._heard) <= self._idle:
            return "fine"
        self._misses += self._asked is not None
        if self._misses >= MISSES:
            return "wedged"
        self._asked = now
        return "ping"
