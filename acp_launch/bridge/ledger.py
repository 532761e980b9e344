"""
Who owes whom an answer in one conversation, as a pure value: requests of the agent that the server has, requests of
the server that the agent has. Each is answered once; an answer that is not waited for (any more) is not passed on.
"""

from collections import deque
from collections.abc import Container, Iterator

import msgspec
from msgspec import Raw, Struct

from acp_launch.protocol.acp import decoded
from acp_launch.protocol.written import written
from acp_launch.waits import FIRST_WORD

# JSON-RPC ids as dictionary keys, and ids of our own (MCP "base protocol").
#
# An id is kept as the bytes it came in: `1` and `"1"` are two, and so are `1` and `1.0`. Only a string may come back
# written differently (`"\u0061"` for `"a"`), so strings are keyed by what they say.


OURS = "acp-launch:"  # begins the ids of what we ask a server, or an agent, ourselves
NULL = b"null"


def key(id: Raw) -> bytes:
    """What two ways of writing the same id have in common. Never fails: an id may hold half a surrogate pair."""
    text = bytes(id)
    if not text.startswith(b'"') or (b"\\" not in text and text.isascii()):
        return text
    try:
        return msgspec.json.encode(msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = decoded(text)  # as `protocol.jsonrpc` lets it pass
        return text if said is None else written(said)


class Numbers:
    """Gives ids that are not used in this conversation; `taken` are those the other side has open."""

    def __init__(self) -> None:
        self._next = 0

    def fresh(self, taken: Container[bytes]) -> bytes:
        while True:
            self._next += 1
            candidate = f'"{OURS}{self._next}"'.encode()
            if candidate not in taken:
                return candidate


FORGOTTEN = 1000  # of what was cancelled, and need not be answered (MCP "cancellation"), so many are remembered


class Asked(Struct, kw_only=True):
    """One request of the agent at the server. `silent_since` is on the caller's clock; `token` is its progressToken."""

    id: Raw
    method: str
    params: Raw
    silent_since: float
    token: bytes | None = None
    word: float = FIRST_WORD  # seconds of silence after which a person should hear of it
    is_cancelled: bool = False


class Ledger:
    """The agent's requests, by id. A repeated id replaces the older request, which no answer can be told from."""

    def __init__(self) -> None:
        self.open: dict[bytes, Asked] = {}
        self._cancelled: dict[bytes, None] = {}

    def ask(self, asked: Asked) -> None:
        self.open[key(asked.id)] = asked

    def settle(self, id: Raw) -> Asked | None:
        """The request this answers; None if it is not waited for."""
        number = key(id)
        self._cancelled.pop(number, None)
        return self.open.pop(number, None)

    def cancel(self, id: Raw) -> None:
        """The agent no longer wants it. An answer that comes all the same is passed on, silence is not missed."""
        asked = self.open.get(number := key(id))
        if asked is None:
            return
        asked.is_cancelled = True
        self._cancelled[number] = None
        if len(self._cancelled) > FORGOTTEN:
            self.open.pop(oldest := next(iter(self._cancelled)), None)
            del self._cancelled[oldest]

    def progress(self, token: bytes, now: float) -> None:
        """A sign of life of whichever request has this token."""
        for asked in self.open.values():
            if asked.token == token:
                asked.silent_since = now

    def wanted(self) -> list[Asked]:
        """Those whose answer is still waited for."""
        return [asked for asked in self.open.values() if not asked.is_cancelled]

    def close(self) -> list[Asked]:
        """Forget all of them; returns those still waited for."""
        left = self.wanted()
        self.open.clear()
        self._cancelled.clear()
        return left


class Questions:
    """
    The server's requests at the agent, by the id the agent knows them under.

    A question that died with its server may still be answered. When the next process asks under the same id, the
    agent gets that one under an id of ours; `settle` gives the server's own back.
    """

    def __init__(self) -> None:
        self.open: dict[bytes, Raw] = {}  # the agent's id → the server's
        self._stale: dict[bytes, None] = {}

    def is_ambiguous(self, id: Raw) -> bool:
        """Whether the agent may still answer an older question with this id."""
        return key(id) in self._stale

    def ask(self, id: Raw, *, known_as: Raw) -> None:
        self.open[key(known_as)] = id

    def settle(self, id: Raw) -> Raw | None:
        """The server's own id for what the agent answers; None when the server does not wait for it."""
        number = key(id)
        self._stale.pop(number, None)
        return self.open.pop(number, None)

    def withdraw(self, id: Raw) -> Raw | None:
        """The server cancels its question: the id the agent knows it under."""
        for number, own in self.open.items():
            if key(own) == key(id):
                self._let_go(number)
                return Raw(number)
        return None

    def die(self) -> Iterator[Raw]:
        """Their server is gone: the ids the agent should be told to forget."""
        died = list(self.open)
        for number in died:
            self._let_go(number)
        return map(Raw, died)

    def _let_go(self, number: bytes) -> None:
        """Its answer is not waited for any more, and may come all the same."""
        del self.open[number]
        self._stale[number] = None
        if len(self._stale) > FORGOTTEN:
            del self._stale[next(iter(self._stale))]


# Messages of an agent that wait for a server to come (back), within bounds. Pure.


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
