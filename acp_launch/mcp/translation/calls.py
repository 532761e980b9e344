"""
The requests of an agent of MCP 2026-07-28 at a server with a handshake, and the server's own requests during them.
Sans-IO.

A request of the server becomes `input_required` of the call in flight. The call goes on at the server, and the agent's
next try of it takes it over.
"""

import msgspec
from msgspec import UNSET, Raw, Struct, field

from acp_launch.mcp import era
from acp_launch.mcp.era import Crossing
from acp_launch.mcp.message import cancelled_id, reported_token
from acp_launch.mcp.translation import envelope
from acp_launch.protocol import edits, jsonrpc
from acp_launch.protocol.ids import key
from acp_launch.protocol.jsonrpc import Envelope
from acp_launch.protocol.written import written

LISTS = frozenset({"tools/list", "prompts/list", "resources/list", "resources/templates/list"})
CACHED = LISTS | {"resources/read"}  # results that must say how long they are valid
HARMLESS = LISTS | {era.DISCOVER}  # may be sent again after a process that ended on them
URL_NEEDED = -32042  # of 2025-11-25: a tool needs the user to open a page
NOT_FOUND = -32002  # of a resource, until 2025-11-25
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
SUSPENDED = 100  # calls that wait for the agent's next try
QUESTIONS = 100  # of the server that wait during one call
PATIENCE = 600.0  # seconds that each of them waits


class _Elicitations(Struct):
    elicitations: list[Raw]


class _UrlNeeded(Struct):
    data: _Elicitations


_url_needed = msgspec.json.Decoder(_UrlNeeded)


class Question(Struct, eq=False):
    """A request of the server."""

    id: Raw
    method: str
    params: Raw


class Call(Struct, kw_only=True, eq=False):
    """A request of the agent at the server. `id` is that of the agent's latest try, None while it is suspended."""

    id: Raw | None
    server_id: Raw
    method: str
    line: bytes = b""  # as the agent wrote it, if it may need input
    able: envelope.Abilities
    level: str = ""
    token: Raw | None = None  # that of the latest try
    server_token: Raw | None = None
    state: str = ""  # the `requestState` under which it was suspended
    questions: dict[str, Question] = field(default_factory=dict)  # by key of `inputRequests`
    answer: bytes = b""  # the server's, which came while it was suspended
    again: bytes = b""  # the request itself, if the server must get it again
    timer: int = 0


class Calls:
    """The agent's requests at the server, and the server's requests during them."""

    def __init__(self, adapter: Crossing) -> None:
        self.late = b""  # the id of a request that the server got before the handshake and may still answer
        self._adapter = adapter
        self._open: dict[bytes, Call] = {}  # by the server's id; in the order they began
        self._suspended: dict[str, Call] = {}  # by their state
        self._names = 0

    def levels(self) -> list[str]:
        """Return the log levels that the open requests want."""
        return [call.level for call in self._open.values() if call.level in LEVELS and call.id is not None]

    def ask(self, id: Raw, message: Envelope, line: bytes, meta: envelope.Meta) -> None:
        """Send a request of the agent to the server."""
        plain = edits.without(line, ("params", "_meta"), era.OF_REQUESTS)
        server_id = id
        if key(id) in self._open or key(id) == self.late:
            server_id = self._adapter.fresh()
            plain = edits.with_id(plain, server_id)
        token = meta.token if meta.token is not UNSET else None
        call = Call(
            id=id,
            server_id=server_id,
            method=str(message.method),
            line=line if message.method in era.ASKING or message.method in HARMLESS else b"",
            able=envelope.abilities(envelope.about(meta)[1]),
            level=meta.level,
            token=token,
            server_token=token,
        )
        self._open[key(server_id)] = call
        self._adapter.down(plain)

    def original(self, line: bytes) -> bytes:
        """Return the agent's line for one that never reached the server; empty if the agent did not ask."""
        message = jsonrpc.decode(line)
        if message is None or message.id is UNSET or message.method is UNSET:
            return b""
        call = self._open.get(key(message.id))
        return b"" if call is None or call.id is None or not call.line else edits.with_id(call.line, call.id)

    def cancel(self, id: Raw) -> Raw | None:
        """Forget a request that the agent cancels; return its id at the server, or None if the agent has its answer."""
        for number, call in self._open.items():
            if call.id is not None and key(call.id) == key(id):
                del self._open[number]
                self._refuse_questions(call, "the client has cancelled the request")
                return call.server_id
        return None

    def answered(self, message: Envelope, line: bytes) -> None:
        """Pass on the server's answer under the id of the agent's latest try, or keep it for the next one."""
        assert message.id is not UNSET
        call = self._open.pop(key(message.id), None)
        if call is None:
            if key(message.id) != self.late:
                self._adapter.up(line)
            return
        line = self._newer(call, message, line)
        if call.id is None:
            call.answer = line
        elif not self._needs_page(call, message):
            self._forget(call)
            self._adapter.up(_with_id(line, call.id, message.id))

    def progressed(self, params: Raw, line: bytes) -> None:
        """Pass on progress under the token of the latest try."""
        token = reported_token(params)
        for call in self._open.values():
            if token is not None and call.server_token is not None and key(token) == key(call.server_token):
                if call.id is None or call.token is None:
                    return
                if call.token is not call.server_token:
                    line = edits.replaced(line, ("params", "progressToken"), bytes(call.token))
                break
        self._adapter.up(line)

    def question(self, message: Envelope) -> None:
        """Take a request of the server: the agent's call in flight becomes `input_required`."""
        assert message.id is not UNSET
        method, id = str(message.method), message.id.copy()
        call = next((call for call in reversed(self._open.values()) if call.method in era.ASKING), None)
        if method not in (era.SAMPLING, era.ELICITATION, era.ROOTS):
            self._adapter.down(jsonrpc.error(id, jsonrpc.METHOD_NOT_FOUND, f"the client does not know {method}"))
        elif call is None:
            said = f"the client takes {method} only during a call of its own"
            self._adapter.down(jsonrpc.error(id, jsonrpc.METHOD_NOT_FOUND, said))
        elif not _offers(call.able, method):
            self._adapter.down(jsonrpc.error(id, jsonrpc.METHOD_NOT_FOUND, f"the client does not offer {method}"))
        elif len(call.questions) >= QUESTIONS:
            said = f"more than {QUESTIONS} questions wait for the client during one call"
            self._adapter.down(jsonrpc.error(id, jsonrpc.INTERNAL_ERROR, said))
        elif len(self._suspended) >= SUSPENDED and call.id is not None:
            said = f"more than {SUSPENDED} calls wait for the client already"
            self._adapter.down(jsonrpc.error(id, jsonrpc.INTERNAL_ERROR, said))
        else:
            self._names += 1
            call.questions[str(self._names)] = Question(id, method, message.params.copy())
            if call.id is not None:
                self._suspend(call)

    def withdraw(self, params: Raw) -> None:
        """Forget a question that the server has cancelled."""
        cancelled = cancelled_id(params)
        for call in self._open.values() if cancelled is not None else ():
            for name, question in list(call.questions.items()):
                if cancelled is not None and key(question.id) == key(cancelled):
                    del call.questions[name]

    def resume(self, id: Raw, state: str, responses: dict[str, Raw], token: Raw | None) -> None:
        """Take the agent's next try of a suspended call, with its answers."""
        call = self._suspended.pop(state, None)
        if call is None:
            said = f'unknown requestState: MCP server "{self._adapter.name}" was restarted, or the input came too late'
            self._adapter.up(jsonrpc.error(id, jsonrpc.INVALID_PARAMS, said))
            return
        self._adapter.stop(call.timer)
        call.id, call.token = id, token
        for name, response in responses.items():
            question = call.questions.pop(name, None)
            if question is not None and not call.again:
                self._adapter.down(jsonrpc.result(question.id, response))
        if call.answer:
            self._forget(call)
            self._adapter.up(edits.with_id(call.answer, id))
        elif call.questions:
            self._suspend(call)
        elif call.again:
            call.server_id, again = self._adapter.fresh(), call.again
            call.again = b""
            self._open[key(call.server_id)] = call
            self._adapter.down(edits.with_id(again, call.server_id))

    def _suspend(self, call: Call) -> None:
        """Answer the agent's try with what the server asks; the call itself goes on."""
        assert call.id is not None
        id, call.id = call.id, None
        self._names += 1
        call.state = f"{era.OURS}{self._names}"
        self._suspended[call.state] = call
        call.timer = self._adapter.after(PATIENCE, lambda: self._expire(call))
        asked = {name: {"method": each.method, "params": each.params} for name, each in call.questions.items()}
        result = {"resultType": "input_required", "inputRequests": asked, "requestState": call.state}
        self._adapter.up(jsonrpc.result(id, result))

    def _expire(self, call: Call) -> None:
        """Give up a call that the agent has not tried again."""
        self._suspended.pop(call.state, None)
        self._refuse_questions(call, "the client did not answer in time")
        if self._open.pop(key(call.server_id), None) is not None:
            params = {"requestId": call.server_id, "reason": "the client did not try again in time"}
            self._adapter.down(jsonrpc.notification(era.CANCELLED, params))

    def _refuse_questions(self, call: Call, why: str) -> None:
        for question in call.questions.values():
            self._adapter.down(jsonrpc.error(question.id, jsonrpc.INTERNAL_ERROR, why))
        call.questions.clear()

    def _forget(self, call: Call) -> None:
        self._suspended.pop(call.state, None)
        self._adapter.stop(call.timer)
        self._refuse_questions(call, "the call that this was asked for has ended")

    def _newer(self, call: Call, message: Envelope, line: bytes) -> bytes:
        """Give an answer the members and codes of the newer era."""
        if message.error is not UNSET:
            is_missing = jsonrpc.fault(message.error).code == NOT_FOUND and call.method == "resources/read"
            return edits.replaced(line, ("error", "code"), b"%d" % jsonrpc.INVALID_PARAMS) if is_missing else line
        found = envelope.members(message.result) if message.result is not UNSET else None
        if found is None:
            return line
        wanted: dict[str, object] = {"resultType": "complete"}
        if call.method in CACHED:
            wanted |= {"ttlMs": 0, "cacheScope": "private"}
        missing = {name: value for name, value in wanted.items() if name not in found}
        return edits.with_result(line, written(missing)[1:-1]) if missing else line

    def _needs_page(self, call: Call, message: Envelope) -> bool:
        """Suspend a call that the server has refused until the user has opened a page."""
        if message.error is UNSET or jsonrpc.fault(message.error).code != URL_NEEDED or not call.line:
            return False
        needed = jsonrpc.read(_url_needed, message.error)
        if needed is None or not needed.data.elicitations or not _offers(call.able, era.ELICITATION):
            return False
        for page in needed.data.elicitations:
            self._names += 1
            call.questions[str(self._names)] = Question(Raw(b"null"), era.ELICITATION, page.copy())
        call.again = edits.without(call.line, ("params", "_meta"), era.OF_REQUESTS)
        self._suspend(call)
        return True


def _offers(able: envelope.Abilities, method: str) -> bool:
    offered = {era.SAMPLING: able.sampling, era.ELICITATION: able.elicitation, era.ROOTS: able.roots}
    return offered[method] is not UNSET


def _with_id(line: bytes, id: Raw, old: Raw) -> bytes:
    return line if key(id) == key(old) else edits.with_id(line, id)
