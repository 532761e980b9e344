"""
One side of a JSON-RPC connection, sans-IO: who asked what, and what is still unanswered.

There are two id spaces (C-6): the numbers of our requests, and the ids of theirs, which are kept as the bytes they
came in. Each request of theirs is answered exactly once; an answer to nothing we asked is junk, not an error (C-3).
"""

from msgspec import UNSET, Raw, Struct

from acp_launch.errors import LocalProtocolError
from acp_launch.protocol import jsonrpc

NULL = Raw(b"null")
DIGITS = 18  # no request of ours has a number that is longer
BROKEN = "this request was not handled, by a bug in acp-launch"


class Called(Struct, frozen=True):
    """They ask us; answer with `respond` or `refuse`."""

    id: Raw
    method: str
    params: Raw


class Notified(Struct, frozen=True):
    method: str
    params: Raw


class Answered(Struct, frozen=True):
    """They answered our request `number`: `result`, or `fault` when they refused."""

    number: int
    method: str
    result: Raw
    fault: jsonrpc.Fault | None


class Junk(Struct, frozen=True):
    """Not a message, or an answer to nothing; `reason` never quotes parameters (C-3)."""

    reason: str


Incoming = Called | Notified | Answered | Junk


class Call(Struct, frozen=True):
    """A request of ours, ready to be written."""

    number: int
    method: str
    line: bytes


class Peer:
    def __init__(self) -> None:
        self._next = 0
        self._asked: dict[bytes, tuple[int, str]] = {}
        self._owed: dict[bytes, str] = {}
        self._settled = b""  # the request that was answered last, since the last message

    def call(self, method: str, params: object) -> Call:
        number = self._next
        self._next += 1
        self._asked[str(number).encode()] = (number, method)
        return Call(number, method, jsonrpc.request(number, method, params))

    def receive(self, line: bytes) -> Incoming:
        self._settled = b""
        message = jsonrpc.decode(line)
        if message is None:
            return Junk("a line that is no JSON-RPC message" if line.strip() else "a blank line")
        if message.method is UNSET:
            return self._answer(message)
        method = str(message.method)
        if message.id is UNSET:
            return Notified(method, message.params)
        return self._called(message.id, method, message.params)

    def respond(self, id: Raw, value: object) -> bytes:
        """The answer to their request `id`.

        Raises:
            LocalProtocolError: it was answered already, or never asked.
        """
        self._settle(id)
        return jsonrpc.result(id, value)

    def refuse(self, id: Raw, code: int, message: str, data: object = None) -> bytes:
        self._settle(id)
        return jsonrpc.error(id, code, message, data)

    def spoilt(self, line: bytes) -> tuple[int | None, bytes]:
        """What a message is still due whose handling failed: the number of the request of ours that it answers, and the
        line that answers a request of theirs."""
        message = jsonrpc.decode(line)
        if message is None or message.id is UNSET:
            return None, b""
        if message.method is UNSET:
            id = bytes(message.id)
            self._asked.pop(id, None)
            return (int(id) if id.isdigit() and len(id) <= DIGITS else None), b""
        if bytes(message.id) == self._settled:
            return None, b""
        self._owed.pop(bytes(message.id), None)
        return None, jsonrpc.error(message.id, jsonrpc.INTERNAL_ERROR, BROKEN)

    def owes(self, id: Raw) -> bool:
        """Whether their request `id` still waits for our answer."""
        return bytes(id) in self._owed

    def _called(self, id: Raw, method: str, params: Raw) -> Incoming:
        if bytes(id) in self._owed:
            return Junk(f"a second {method} request with an id that is still open")
        # Raw may be a view into the chunk it came in; the id outlives it.
        kept = id.copy()
        self._owed[bytes(kept)] = method
        return Called(kept, method, params)

    def _answer(self, message: jsonrpc.Envelope) -> Incoming:
        if message.id is UNSET:
            return Junk("a JSON object that is no JSON-RPC message")
        asked = self._asked.pop(bytes(message.id), None)
        if asked is None:
            return Junk("an answer to a request that was never made")
        number, method = asked
        if message.error is not UNSET and bytes(message.error) != b"null":
            return Answered(number, method, NULL, jsonrpc.fault(message.error))
        return Answered(number, method, NULL if message.result is UNSET else message.result, None)

    def _settle(self, id: Raw) -> None:
        if self._owed.pop(bytes(id), None) is None:
            raise LocalProtocolError("a request of the agent was answered twice")
        self._settled = bytes(id)
