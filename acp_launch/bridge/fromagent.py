"""What an agent says, and what of it goes to the server now. Sans-IO; one half of exchange.py."""

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from acp_launch.bridge import era, refusal, roots
from acp_launch.bridge.ids import NULL, key
from acp_launch.bridge.ledger import Asked
from acp_launch.bridge.replay import INITIALIZE, INITIALIZED, REMEMBERED
from acp_launch.bridge.rewrite import each, with_id, with_roots
from acp_launch.bridge.talk import CANCELLED, PING, PROGRESS, Talk
from acp_launch.bridge.waiting import Waiting
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.jsonrpc import Envelope

PARSE_ERROR = -32700
SPLIT = "a message with a carriage return in it may be read as two, and this server's tools are restricted"


class Cancelled(Struct):
    request_id: Raw = field(name="requestId")


class _Meta(Struct):
    token: Raw | UnsetType = field(default=UNSET, name="progressToken")


class _Params(Struct):
    meta: _Meta = field(default_factory=_Meta, name="_meta")


_cancelled = msgspec.json.Decoder(Cancelled)
_params = msgspec.json.Decoder(_Params)


class FromAgent:
    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._settled: Raw | None = None  # the server's question that the message in hand answers, by its own id

    def __call__(self, line: bytes) -> None:
        """One line, without its newline."""
        if (rest := each(line, self._message, self._broke)) is not None:
            self._talk.around.to_server(rest)

    def _broke(self, line: bytes, error: Exception) -> None:
        """A message that we failed to handle gets no further; whoever waits for what comes of it is told."""
        talk = self._talk
        talk.mishaps.add("the agent", error)
        message = jsonrpc.decode(line)
        if message is None or message.id is UNSET:
            return
        if message.method is UNSET:
            if self._settled is not None:
                talk.around.to_server(refusal.error(self._settled, jsonrpc.INTERNAL_ERROR, refusal.BROKEN))
            return
        talk.around.to_agent(refusal.error(message.id, jsonrpc.INTERNAL_ERROR, refusal.BROKEN))
        talk.queue.withdraw(message.id)
        talk.ledger.settle(message.id)

    def _message(self, line: bytes) -> bytes | None:
        self._settled = None
        message = jsonrpc.decode(line)
        if message is None or (message.method is UNSET and message.id is UNSET):
            self._unreadable(line)
            return None
        if self._talk.policy and (why := self._ambiguous(line) or self._talk.policy.refusal(line)):
            self._forbidden(message, why)
            return None
        if message.method is UNSET:
            return self._answers(message, line)
        if message.id is UNSET:
            return self._notifies(message, line)
        return self._asks(message, line)

    def _ambiguous(self, line: bytes) -> str:
        """Python servers take a bare carriage return for the end of a line, and would read on after it."""
        return SPLIT if b"\r" in line.rstrip(b"\r") else ""

    def _unreadable(self, line: bytes) -> None:
        if line.strip():
            said = "this line is no JSON-RPC message, and was not passed on"
            self._talk.around.to_agent(refusal.error(Raw(NULL), PARSE_ERROR, said))

    def _forbidden(self, message: Envelope, why: str) -> None:
        if message.id is not UNSET and message.method is not UNSET:
            self._talk.around.to_agent(refusal.error(message.id, jsonrpc.INVALID_PARAMS, why))

    def _answers(self, message: Envelope, line: bytes) -> bytes | None:
        assert message.id is not UNSET
        own = self._settled = self._talk.questions.settle(message.id)
        if own is None:
            return None  # the question died with its server, or there was none
        return line if key(own) == key(message.id) else with_id(line, own)

    def _notifies(self, message: Envelope, line: bytes) -> bytes | None:
        talk = self._talk
        if message.method == CANCELLED and self._cancels_waiting(message.params):
            return None
        if message.method == INITIALIZED:
            talk.memory.initialized = line
        if talk.phase == "open":
            return line
        if message.method not in (CANCELLED, PROGRESS, INITIALIZED):  # about what is gone, or replayed anyway
            talk.queue.put(Waiting(line, None, talk.around.now()))
        return None

    def _cancels_waiting(self, params: Raw) -> bool:
        """Whether the request that is cancelled never got to the server."""
        cancelled = jsonrpc.read(_cancelled, params)
        if cancelled is None:
            return False
        if self._talk.queue.withdraw(cancelled.request_id):
            return True
        self._talk.ledger.cancel(cancelled.request_id)
        return False

    def _asks(self, message: Envelope, line: bytes) -> bytes | None:
        asked = self._asked(message)
        if not self._talk.has_asked:
            self._opens(asked, message.params, line)
        if asked.method == PING and (self._talk.phase != "open" or self._talk.ledger.wanted()):
            self._talk.pong(asked)  # a busy server need not answer, and an absent one cannot
            return None
        if asked.method == INITIALIZE and self._talk.phase != "final":
            return self._introduces(asked, message, line)
        return self._talk.forward(asked, line)

    def _opens(self, asked: Asked, params: Raw, line: bytes) -> None:
        talk = self._talk
        talk.has_asked, talk.is_modern = True, era.is_modern(params)
        if talk.is_modern:
            talk.opening = Waiting(line, asked, talk.around.now())

    def _asked(self, message: Envelope) -> Asked:
        """What will be needed of it: the line itself is not kept."""
        assert message.id is not UNSET
        method = str(message.method)
        return Asked(
            id=message.id.copy(),
            method=method,
            params=message.params.copy() if method in REMEMBERED else Raw(b""),
            silent_since=0.0,
            token=self._token(message.params),
        )

    def _token(self, params: Raw) -> bytes | None:
        if self._talk.call is None:
            return None
        found = jsonrpc.read(_params, params)
        return None if found is None or found.meta.token is UNSET else key(found.meta.token)

    def _introduces(self, asked: Asked, message: Envelope, line: bytes) -> bytes | None:
        """Its own handshake; while there is no process it is asked as soon as there is one. While an older one is being
        replayed this one takes its place, and the answer to that is nobody's."""
        talk = self._talk
        if talk.gives_roots:
            line = with_roots(line)
        talk.memory.initialize, talk.handshake = line, key(asked.id)
        talk.is_modern, talk.opening = False, None
        talk.agent_has_roots = not talk.gives_roots and roots.are_declared(message.params)
        asked.silent_since = talk.around.now()
        talk.ledger.ask(asked)
        return line if talk.phase in ("open", "replaying") else None
