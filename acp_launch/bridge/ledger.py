"""
Open requests of one conversation between an agent and a server. Pure.

`Ledger` holds the agent's requests to the server, `Questions` the server's requests to the agent, `Queue` the agent's
messages for a server that is not running. Each request is answered once; an answer that no request waits for is not
passed on. `make_ids` gives ids of our own; with `NumberedRequests` each request has one, as its own may be used twice.
`Health` judges a server that is silent.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Literal, NamedTuple

from msgspec import UNSET, Raw, Struct

from acp_launch.mcp.message import (
    CANCELLED,
    ELICITATION,
    INITIALIZE,
    SAMPLING,
    answer_to,
    cancelled_id,
    renumber,
    reported_token,
)
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.acp import decoded
from acp_launch.protocol.jsonrpc import Envelope, key, with_id
from acp_launch.protocol.splice import replaced
from acp_launch.waits import FIRST_NOTICE, stretch

NULL = b"null"


def make_ids() -> Iterator[bytes]:
    """Make ids that are unique in this conversation."""
    return (f'"acp-launch:{number}"'.encode() for number in count(1))


FORGOTTEN = 1000  # withdrawn questions that are remembered; they need not be answered (MCP "cancellation")


class OpenRequest(Struct, gc=False):
    """One request of the agent to the server. `silent_since` is on the caller's clock; `token` is its progressToken."""

    id: Raw
    method: str
    params: Raw
    silent_since: float
    token: bytes | None = None
    unsent_since: float | None = None  # when it was first queued again, because it had not reached the server
    word: float = FIRST_NOTICE  # seconds of silence after which the user is told of the wait


class Ledger:
    """The agent's requests by id. A repeated id replaces the older request, as an answer could not tell them apart."""

    def __init__(self) -> None:
        self.open: dict[bytes, OpenRequest] = {}

    def ask(self, asked: OpenRequest) -> None:
        self.open[key(asked.id)] = asked

    def settle(self, id: Raw) -> OpenRequest | None:
        """Remove and return the request that this id answers; None if there is none."""
        return self.open.pop(key(id), None)

    def cancel(self, id: Raw) -> None:
        """Forget a request that the agent cancels, as its answer is not waited for. A handshake cannot be cancelled."""
        asked = self.open.get(number := key(id))
        if asked is not None and asked.method != INITIALIZE:
            del self.open[number]

    def progress(self, token: bytes, now: float) -> None:
        """Note progress of the request with this token."""
        for asked in self.open.values():
            if asked.token == token:
                asked.silent_since = now

    def waiting(self) -> list[OpenRequest]:
        return list(self.open.values())


MOST_BYTES = 16 * 1024 * 1024  # bytes of messages that wait
QUESTIONS = 1000  # requests of a server that may wait for the agent at once


class Question(NamedTuple):
    """A request of the server, by the id that the agent does not see; `line` is kept if it may be asked again.

    One `for_user` may take as long as a user takes.
    """

    id: Raw
    line: bytes
    for_user: bool


class Questions:
    """
    The server's requests to the agent, by the id that the agent sees.

    The agent may still answer a question of a server process that has ended, or one that was asked again. If the server
    uses the same id, the agent gets its question under our id, and `settle` returns the server's own id.
    """

    def __init__(self) -> None:
        self.keeps_lines = False
        self.open: dict[bytes, Question] = {}
        self._stale: dict[bytes, None] = {}
        self._ids = make_ids()

    @property
    def is_full(self) -> bool:
        """Whether so many wait for the agent that the server's next one must be refused."""
        return len(self.open) >= QUESTIONS or sum(len(each.line) for each in self.open.values()) >= MOST_BYTES

    def ask(self, id: Raw, method: str, line: bytes) -> bytes:
        """Note a question; return it for the agent."""
        kept = Question(id.copy(), line if self.keeps_lines else b"", method in (ELICITATION, SAMPLING))
        if key(id) not in self._stale:
            self.open[key(id)] = kept
            return line
        return self._rename(kept, line)

    def ask_again(self) -> list[bytes]:
        """Return all questions, under other ids, for an agent that may have heard of them before."""
        open = list(self.open.values())
        for number in list(self.open):
            self._let_go(number)
        return [self._rename(question, question.line) for question in open]

    def settle(self, id: Raw) -> Raw | None:
        """Remove the question that the agent answers; return the server's id, or None if the server does not wait."""
        number = key(id)
        self._stale.pop(number, None)
        question = self.open.pop(number, None)
        return None if question is None else question.id

    def withdraw(self, id: Raw) -> Raw | None:
        """Remove a question that the server cancels; return the id that the agent sees, or None if it is unknown."""
        for number, question in self.open.items():
            if key(question.id) == key(id):
                self._let_go(number)
                return Raw(number)
        return None

    def die(self) -> Iterator[Raw]:
        """Remove all questions of a server that is gone; return the ids to cancel at the agent."""
        died = list(self.open)
        for number in died:
            self._let_go(number)
        return map(Raw, died)

    def _rename(self, question: Question, line: bytes) -> bytes:
        number = next(self._ids)
        self.open[number] = question
        return with_id(line, Raw(number))

    def _let_go(self, number: bytes) -> None:
        """Remove a question; remember its id, because the agent may still answer it."""
        del self.open[number]
        self._stale[number] = None
        if len(self._stale) > FORGOTTEN:
            del self._stale[next(iter(self._stale))]


class NumberedRequest(Struct):
    """A request with a number for its id. `id` and `token` are its own.

    `about` is what other owners rely on, too, after it: a resource or a level. Then it is not cancelled.
    """

    method: str
    id: Raw
    owner: int
    token: Raw | None = None
    about: str = ""


class NumberedRequests:
    """Open requests of several owners, or of connections that were lost, to one server: each has a number of its own.

    A message about a request that is not open is not passed on.
    """

    def __init__(self, numbers: Iterator[int] | None = None) -> None:
        self.open: dict[int, NumberedRequest] = {}
        self._numbers = numbers or count(1)

    def forward(self, line: bytes, message: Envelope, *, owner: int = 0, about: str = "") -> bytes:
        """Note a request; return it for the server."""
        assert message.id is not UNSET
        number = next(self._numbers)
        line, token = renumber(line, number)
        self.open[number] = NumberedRequest(str(message.method), message.id.copy(), owner, token, about)
        return line

    def make(self, method: str, params: object, *, about: str = "") -> bytes:
        """Make a request of our own."""
        number = next(self._numbers)
        self.open[number] = NumberedRequest(method, Raw(NULL), 0, about=about)
        return jsonrpc.request(number, method, params)

    def settle(self, id: Raw, line: bytes) -> tuple[NumberedRequest, bytes] | None:
        """Remove the request that is answered; return it with the answer under its own id."""
        number = decoded(id)
        asked = self.open.pop(number, None) if isinstance(number, int) else None
        return None if asked is None else (asked, answer_to(line, asked.id, number))

    def progress(self, params: Raw, line: bytes) -> tuple[NumberedRequest, bytes] | None:
        """Return the request that a message of progress is about, and the message with its own token."""
        token = reported_token(params)
        number = None if token is None else decoded(token)
        asked = self.open.get(number) if isinstance(number, int) else None
        if asked is None or asked.token is None:
            return None
        return asked, replaced(line, ("params", "progressToken"), bytes(asked.token))

    def cancel(self, params: Raw, line: bytes, *, owner: int = 0) -> bytes | None:
        """Forget the request that is cancelled, which need not be answered; return the cancellation for the server.

        None if it is not open, or must not be cancelled, as a handshake (MCP "cancellation").
        """
        cancelled = cancelled_id(params)
        for number, asked in self.open.items():
            if cancelled is not None and asked.owner == owner and key(asked.id) == key(cancelled):
                if asked.method == INITIALIZE or asked.about:
                    return None
                del self.open[number]
                return replaced(line, ("params", "requestId"), b"%d" % number)
        return None

    def leave(self, owner: int) -> list[bytes]:
        """Forget the requests of an owner that has left, if they can be cancelled; return their cancellations."""
        its = [(number, asked) for number, asked in self.open.items() if asked.owner == owner]
        left = [number for number, asked in its if asked.method != INITIALIZE and not asked.about]
        for number in left:
            del self.open[number]
        params = [{"requestId": number, "reason": "the session has ended"} for number in left]
        return [jsonrpc.notification(CANCELLED, each) for each in params]


MAX_QUEUED = 1000  # messages


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
        if len(self._waiting) >= MAX_QUEUED or self._bytes + len(waiting.line) > MOST_BYTES:
            return False
        self._waiting.append(waiting)
        self._bytes += len(waiting.line)
        return True

    def put_back(self, before: Sequence[Waiting]) -> list[Waiting]:
        """Put messages before all others, in their order; return those for which there is no room."""
        after = list(self.take_all())
        return [waiting for waiting in (*before, *after) if not self.put(waiting)]

    def take_all(self) -> Iterator[Waiting]:
        """Remove and yield all messages in order, also those that are put until the end."""
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


IDLE_SECONDS = 30.0
MISSES = 3
MIN_PING_TIMEOUT = stretch(5.0)


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

    def __init__(self) -> None:
        self.knows_ping = False  # it has answered a ping, possibly with an error
        self.heard: float | None = None  # when it last said something, if it has since the last look
        self._heard = 0.0
        self._asked: float | None = None
        self._misses = 0
        self._patience: float | None = None  # seconds for the ping after a time-out; set while it is suspected

    def begin(self, now: float) -> None:
        """Start anew for a new process of the server."""
        self._heard, self._asked, self._misses, self._patience, self.heard = now, None, 0, None, None

    def _look(self) -> None:
        """Begin to count anew if it has said something."""
        if self.heard is not None:
            self.begin(self.heard)

    def suspect(self, now: float, limit: float) -> bool:
        """Suspect the server because a call took longer than `limit`; return whether to ping now."""
        self._look()
        if self._patience is not None or not self.knows_ping:
            return False
        self._asked, self._patience = now, max(limit, MIN_PING_TIMEOUT)
        return True

    def tick(self, now: float, *, busy: bool) -> Literal["ping", "wedged", "fine"]:
        self._look()
        if self._patience is not None:
            return "wedged" if now - (self._asked or now) > self._patience else "fine"
        if busy:
            self._heard, self._asked, self._misses = now, None, 0
            return "fine"
        return self._while_idle(now)

    def _while_idle(self, now: float) -> Literal["ping", "wedged", "fine"]:
        if not self.knows_ping or now - (self._asked or self._heard) <= IDLE_SECONDS:
            return "fine"
        self._misses += self._asked is not None
        if self._misses >= MISSES:
            return "wedged"
        self._asked = now
        return "ping"
