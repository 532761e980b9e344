"""What a server says, and what of it goes to the agent. Sans-IO; the other half of exchange.py."""

import msgspec
from msgspec import UNSET, Raw, Struct, field

from acp_launch.bridge import era, refusal, roots
from acp_launch.bridge.fromagent import Cancelled
from acp_launch.bridge.ids import NULL, Numbers, key
from acp_launch.bridge.ledger import Asked
from acp_launch.bridge.replay import INITIALIZE, REMEMBERED
from acp_launch.bridge.reprise import Reprise
from acp_launch.bridge.rewrite import each, with_id
from acp_launch.bridge.talk import CANCELLED, PING, PROGRESS, Talk
from acp_launch.bridge.waiting import Waiting
from acp_launch.mcp.roots import listing
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.jsonrpc import Envelope

FLOOD = 1024 * 1024  # bytes on stdout without a message among them
STARTS = (b"{", b"[", b"\xef")  # of a message; the last one of a byte order mark
NOT_YET = -32600
TOOLS = "tools/list"


class _Progress(Struct):
    token: Raw = field(name="progressToken")


_cancelled = msgspec.json.Decoder(Cancelled)
_progress = msgspec.json.Decoder(_Progress)


class FromServer:
    def __init__(self, talk: Talk, reprise: Reprise) -> None:
        self._talk, self._reprise = talk, reprise
        self._numbers = Numbers()
        self._junk_bytes = 0  # since its last message
        self._has_noise = False
        self._settled: Asked | None = None  # what the message in hand answers

    def __call__(self, line: bytes) -> None:
        """One line, without its newline."""
        if (rest := each(line, self._message, self._broke)) is not None:
            self._talk.around.to_agent(rest)

    def _broke(self, line: bytes, error: Exception) -> None:
        """A message that we failed to handle gets no further; whoever waits for what comes of it is told."""
        talk = self._talk
        talk.mishaps.add(f"the MCP server {talk.server}", error)
        message = jsonrpc.decode(line)
        if message is None or message.id is UNSET:
            return
        if message.method is not UNSET:
            talk.around.to_server(refusal.error(message.id, jsonrpc.INTERNAL_ERROR, refusal.BROKEN))
            talk.questions.withdraw(message.id)
        elif asked := self._settled or talk.ledger.settle(message.id):
            talk.around.to_agent(refusal.error(asked.id, jsonrpc.INTERNAL_ERROR, refusal.BROKEN))

    def _message(self, line: bytes) -> bytes | None:
        self._settled = None
        if line[:64].lstrip()[:1] not in STARTS:
            self._noise(line)
            return None
        message = jsonrpc.decode(line)
        if message is None or (message.method is UNSET and message.id is UNSET):
            return self._unreadable(line)
        self._junk_bytes = 0
        self._talk.health.heard(self._talk.around.now())
        self._talk.around.alive()
        if message.method is UNSET:
            return self._answers(message, line)
        if message.id is UNSET:
            return self._notifies(message, line)
        return self._asks(message, line)

    def _unreadable(self, line: bytes) -> bytes | None:
        """An answer whose text is not UTF-8 is repaired: who asked would wait for ever."""
        repaired = line.decode(errors="replace").encode()
        if repaired != line and jsonrpc.decode(repaired) is not None:
            return self._message(repaired)
        self._noise(line)
        return None

    def _noise(self, line: bytes) -> None:
        """Banners, prints left in the code: skipped, and said once (checklist 20). A flood is not borne with: nobody
        else would be served."""
        self._junk_bytes += len(line) + 1
        if not self._has_noise and line.strip():
            self._has_noise = True
            self._talk.around.noise(line)
        if self._junk_bytes > FLOOD:
            self._junk_bytes = 0
            self._talk.around.wedged("floods its stdout with lines that are no messages")

    def _answers(self, message: Envelope, line: bytes) -> bytes | None:
        assert message.id is not UNSET
        if self._reprise.answered(message, line):
            return None
        asked = self._settled = self._talk.ledger.settle(message.id)
        if self._talk.phase == "replaying" and key(message.id) == self._talk.handshake:
            return self._replayed(message, line, is_owed=asked is not None)
        opening, self._talk.opening = self._talk.opening, None
        if opening is not None and self._is_wronged(opening, asked, message):
            return None
        if asked is None:  # nobody asked, or not any more; only an error about an unreadable line has the id null
            return line if bytes(message.id) == NULL else None
        if message.result is UNSET:
            return self._refused(asked, line)
        return self._done(asked, message, line)

    def _is_wronged(self, opening: Waiting, asked: Asked | None, message: Envelope) -> bool:
        """Whether our ping has spoilt this process for a modern agent; the next one gets its first request unspoilt."""
        talk = self._talk
        if opening.asked is not asked or asked is None or asked.is_cancelled:
            return False
        if not talk.was_pinged or message.error is UNSET:
            return False
        if jsonrpc.fault(message.error).code != era.WRONG_ERA or not talk.queue.put(opening):
            return False
        talk.around.wedged(era.WRONGED)
        return True

    def _done(self, asked: Asked, message: Envelope, line: bytes) -> bytes:
        talk = self._talk
        if asked.method == INITIALIZE or not talk.memory.initialize:  # since 2026-07-28 there is no handshake
            talk.become_ready()
        if asked.method == TOOLS and talk.policy:
            line, _ = talk.policy.filtered(line)
            message = jsonrpc.decode(line) or message
        if asked.method in REMEMBERED:
            assert message.result is not UNSET
            talk.memory.answered(asked.method, asked.params, message.result)
        if asked.method == TOOLS:
            talk.around.listed()
        return line

    def _refused(self, asked: Asked, line: bytes) -> bytes:
        if asked.method == INITIALIZE:
            self._talk.memory.initialize = b""  # nothing to replay; the agent may try again
        return line

    def _replayed(self, message: Envelope, line: bytes, *, is_owed: bool) -> bytes | None:
        """The answer to the agent's `initialize`, asked once more; the agent gets it only if it never got one."""
        talk = self._talk
        if message.result is not UNSET:
            if talk.memory.initialized:
                talk.around.to_server(talk.memory.initialized)
            self._reprise.begin()
            talk.open()
            talk.become_ready()
        elif is_owed:
            talk.memory.initialize = b""
            talk.open()
        else:
            said = jsonrpc.fault(message.error).message if message.error is not UNSET else "no result"
            talk.around.wedged(f"refused the agent's handshake after its restart: {said}")
        return line if is_owed else None

    def _notifies(self, message: Envelope, line: bytes) -> bytes | None:
        if message.method == PROGRESS and self._talk.call is not None:
            self._progressed(message.params)
        if message.method == CANCELLED:
            return self._withdraws(message.params, line)
        return line

    def _progressed(self, params: Raw) -> None:
        if (told := jsonrpc.read(_progress, params)) is not None:
            self._talk.ledger.progress(key(told.token), self._talk.around.now())

    def _withdraws(self, params: Raw, line: bytes) -> bytes | None:
        """A question the agent knows under another id is cancelled under that one."""
        cancelled = jsonrpc.read(_cancelled, params)
        if cancelled is None:
            return line
        known_as = self._talk.questions.withdraw(cancelled.request_id)
        if known_as is None or key(known_as) == key(cancelled.request_id):
            return line
        return refusal.notification(CANCELLED, {"requestId": known_as})

    def _asks(self, message: Envelope, line: bytes) -> bytes | None:
        assert message.id is not UNSET
        talk, id = self._talk, message.id
        if (own := self._own_answer(id, str(message.method))) is not None:
            talk.around.to_server(own)
            return None
        if not talk.questions.is_ambiguous(id):
            talk.questions.ask(id.copy(), known_as=id)
            return line
        known_as = Raw(self._numbers.fresh(talk.questions.open))
        talk.questions.ask(id.copy(), known_as=known_as)
        return with_id(line, known_as)

    def _own_answer(self, id: Raw, method: str) -> bytes | None:
        """What we answer in the agent's place: because it is not there yet, or has no roots to tell."""
        talk = self._talk
        if method == PING and not talk.memory.initialized:
            return refusal.result(id, {})
        if method == roots.METHOD and not talk.agent_has_roots:
            return refusal.result(id, listing(talk.directories))
        if not talk.memory.initialize:
            return refusal.error(id, NOT_YET, "no client has introduced itself yet")
        return None
