"""
An agent with a handshake on a server of MCP 2026-07-28, which has none. Sans-IO: lines in, lines out.

An `EraAdapter` stands between a conversation and one process of such a server. The agent's `initialize` is answered
from `server/discover`, and each of its requests gets the `_meta` of the newer era. `input_required` becomes the
requests of a server that the agent knows, and its answers go back with another try of the same request.
Subscriptions are not translated: the server is not asked for any, and offers the agent none.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from acp_launch.mcp import message as mcp
from acp_launch.mcp.message import CLIENT_INFO, Discovered, ProtocolInfo, cancelled_id
from acp_launch.protocol import jsonrpc, splice
from acp_launch.protocol.acp import decoded, mapping, text
from acp_launch.protocol.jsonrpc import Envelope, key
from acp_launch.protocol.splice import written

OURS = "acp-launch/"  # prefix of the ids of the adapter's own requests; the exchange has another
NEWER = ("resultType", "ttlMs", "cacheScope")  # members of a result that a strict agent may refuse
UNKNOWN = (mcp.INITIALIZED, mcp.PROGRESS, mcp.ROOTS_CHANGED)  # notifications that a stateless server does not know
INPUTS = {mcp.SAMPLING: "sampling", mcp.ELICITATION: "elicitation", mcp.ROOTS: ""}  # and what an agent declares for it
ROUNDS = 10  # of input for one request, as in the published SDKs

Take = Callable[[Envelope], None]


class _Initialize(Struct):
    version: str = field(default="", name="protocolVersion")
    client: Raw | UnsetType = field(default=UNSET, name="clientInfo")
    capabilities: Raw | UnsetType = UNSET


class _Result(Struct):
    """The members of a result that only the newer era has."""

    type: str = field(default="complete", name="resultType")
    requests: dict[str, Raw] | None = field(default=None, name="inputRequests")
    state: Raw | UnsetType = field(default=UNSET, name="requestState")


class _Wanted(Struct):
    method: str = ""
    params: Raw = Raw(b"{}")


_initialize, _result = msgspec.json.Decoder(_Initialize), msgspec.json.Decoder(_Result)
_wanted = msgspec.json.Decoder(_Wanted)


class AdapterPorts(Protocol):
    """The two sides of an adapter. They must not call it."""

    def to_agent(self, line: bytes) -> None:
        """Pass on a message as if the server had sent it."""

    def to_server(self, line: bytes) -> None: ...


class OpenCall(Struct, eq=False):
    """A request of the agent that may need input; `server_id` is the latest try's.

    It is at the server unless `questions` to the agent are open.
    """

    id: Raw
    line: bytes  # as the agent wrote it
    server_id: Raw
    rounds: int = 0
    state: Raw | UnsetType = UNSET
    questions: dict[bytes, str] = field(default_factory=dict)  # id → key of `inputRequests`
    answers: dict[str, Raw] = field(default_factory=dict)


class EraAdapter:
    """Stands between a conversation and one process of the server `name`, as long as it `is_needed`."""

    def __init__(self, name: str, ports: AdapterPorts, knowledge: ProtocolInfo) -> None:
        self.name, self.is_needed = name, True
        self._ports, self._knowledge = ports, knowledge
        self._is_open = False  # the handshake was answered
        self._id, self._hello = Raw(b"null"), b""  # the agent's handshake
        self._version, self._client, self._capabilities = "", Raw(written(CLIENT_INFO)), Raw(b"{}")  # from it
        self._refusal = b""  # the server's answer to it, when it was sent as it is
        self._level = ""
        self._calls: dict[bytes, OpenCall] = {}  # requests that may need input, by the agent's id
        self._numbers = 0
        self._own: dict[bytes, Take] = {}  # our open requests

    def introduce(self, hello: bytes, refusal: bytes) -> None:
        """Find another answer to the agent's `initialize`, which the server has refused."""
        message = jsonrpc.decode(hello)
        assert message is not None
        self._begin(message, hello, refusal)

    def from_agent(self, line: bytes) -> None:
        for part in jsonrpc.batch(line) or (line,):
            self._handle_agent(part)

    def from_server(self, line: bytes) -> None:
        if line[:1] not in jsonrpc.STARTS:  # quick, as a program that is not a server may write millions of lines
            self._ports.to_agent(line)
            return
        for part in jsonrpc.batch(line) or (line,):
            self._handle_server(part)

    def end(self, unsent: Iterable[bytes] = ()) -> list[bytes]:
        """Note the end of the process; return the agent's own messages for the lines that never reached the server."""
        self._own.clear()
        originals = []
        for line in unsent:
            message = jsonrpc.decode(line)
            if message is None or message.id is UNSET or message.method is UNSET:
                continue
            if (call := self._at_server(message.id)) is not None:
                originals.append(call.line)
            elif not bytes(message.id).startswith(f'"{OURS}'.encode()):
                originals.append(splice.without(line, ("params", "_meta"), mcp.OF_REQUESTS))
        return originals

    def _fresh(self) -> Raw:
        self._numbers += 1
        return Raw(f'"{OURS}{self._numbers}"'.encode())

    def _meta(self) -> bytes:
        return mcp.stateless_meta(self._knowledge.version, self._client, self._capabilities, self._level)

    # From the agent.

    def _handle_agent(self, line: bytes) -> None:
        message = jsonrpc.decode(line)
        if message is None or not self.is_needed:
            self._ports.to_server(line)
        elif message.id is not UNSET and message.method is not UNSET:
            self._handle_request(message, message.id, line)
        elif message.id is not UNSET:
            if not self._take_answer(message, message.id) and not self._is_open:
                self._ports.to_server(line)
        elif message.method == mcp.CANCELLED:
            id = cancelled_id(message.params)
            if id is None or not self._is_open:
                return
            call = self._calls.get(key(id))
            if call is None or not call.questions:
                server_id = id if call is None else call.server_id
                self._ports.to_server(splice.replaced(line, ("params", "requestId"), bytes(server_id)))
            if call is not None:
                self._drop(call, "the request was cancelled")
        elif message.method not in UNKNOWN:
            self._ports.to_server(line)

    def _handle_request(self, message: Envelope, id: Raw, line: bytes) -> None:
        if message.method == mcp.INITIALIZE:
            self._begin(message, line)
        elif message.method == mcp.PING:
            own = id.copy()  # the server knows no ping, but any answer of it will do
            self._ask_discover(lambda message: self._ports.to_agent(jsonrpc.result(own, {})))
        elif not self._is_open:
            self.is_needed = not mcp.is_stateless(message.params)  # an agent that does without a handshake, too
            self._ports.to_server(line)
        elif message.method == mcp.SET_LEVEL:
            self._level = text(mapping(decoded(message.params)).get("level"))
            self._ports.to_agent(jsonrpc.result(id, {}))
        elif message.method in (mcp.SUBSCRIBE, mcp.UNSUBSCRIBE):
            said = f'MCP server "{self.name}" speaks MCP {self._knowledge.version}: {message.method} is not translated'
            self._ports.to_agent(jsonrpc.error(id, jsonrpc.METHOD_NOT_FOUND, said))
        else:
            if message.method in mcp.NAMED:  # it may need input
                self._calls[key(id)] = OpenCall(id.copy(), line, id.copy())
            self._ports.to_server(splice.with_members(line, ("params", "_meta"), self._meta()))

    def _ask_discover(self, take: Take) -> None:
        id = self._fresh()
        self._own[bytes(id)] = take
        self._ports.to_server(jsonrpc.request(id, mcp.DISCOVER, {"_meta": Raw(b"{" + self._meta() + b"}")}))

    # The handshake.

    def _begin(self, message: Envelope, hello: bytes, refusal: bytes = b"") -> None:
        assert message.id is not UNSET
        self._id, self._hello, self._refusal, self._is_open = message.id.copy(), hello, refusal, False
        about = jsonrpc.read(_initialize, message.params) or _Initialize()
        self._version = about.version
        self._client = _object(about.client, Raw(written(CLIENT_INFO)))
        self._capabilities = _object(about.capabilities, Raw(b"{}"))
        self._ask_discover(self._set_era)

    def _set_era(self, message: Envelope) -> None:
        found = mcp.read_discovered(message)
        if found is not None and any(version in mcp.MODERN_VERSIONS for version in found.versions):
            self._open(found)
        elif self._refusal:
            self._give_up(jsonrpc.with_id(self._refusal, self._id))
        elif (versions := _foreign(message, found)) is not None:
            self._give_up(self._mismatch(versions, f"speaks only MCP {', '.join(versions)}, which acp-launch does not"))
        elif self._knowledge.is_pinned:
            how = f"does not speak MCP {self._knowledge.version}, as `protocol` asks for"
            self._give_up(self._mismatch([], how))
        else:  # this process is of the older era, other than the one before (M-12)
            self._knowledge.learn(None)
            self.is_needed = False
            self._ports.to_server(self._hello)

    def _mismatch(self, versions: list[str], how: str) -> bytes:
        data = {"supported": versions, "requested": self._knowledge.version}
        return jsonrpc.error(self._id, mcp.UNSUPPORTED, f'MCP server "{self.name}" {how}', data)

    def _give_up(self, line: bytes) -> None:
        """Answer the handshake with an error; the agent may try again."""
        self._ports.to_agent(line)
        self.is_needed = self._knowledge.server == "modern"

    def _open(self, found: Discovered) -> None:
        """Answer the handshake from what the server has said of itself."""
        self._is_open = True
        self._knowledge.learn("modern")
        about = jsonrpc.members(found.meta) or {}
        unnamed = Raw(written({"name": self.name, "version": ""}))
        result = {
            "protocolVersion": self._version if self._version in mcp.LEGACY_VERSIONS else mcp.LEGACY_VERSIONS[0],
            "capabilities": dict(_without_subscriptions(found.capabilities)),
            "serverInfo": _object(about.get(mcp.SERVER, found.server), unnamed),
        }
        if found.instructions is not UNSET and bytes(found.instructions) != b"null":
            result["instructions"] = found.instructions
        self._ports.to_agent(jsonrpc.result(self._id, result))

    # From the server.

    def _handle_server(self, line: bytes) -> None:
        message = jsonrpc.decode(line)
        if message is None or not self.is_needed:
            self._ports.to_agent(line)
            return
        if message.method is UNSET and message.id is not UNSET:
            own = self._own.pop(key(message.id), None)
            own(message) if own is not None else self._finish(message, message.id, line)
        elif message.id is UNSET or not self._is_open:  # a stateless server makes no requests
            self._ports.to_agent(line)

    def _finish(self, message: Envelope, id: Raw, line: bytes) -> None:
        """Pass on the answer to a request, or ask the agent for what it needs first."""
        found = None if message.result is UNSET else jsonrpc.read(_result, message.result)
        if found is not None and self._is_open:
            if found.type == "input_required":
                self._require(id, found)
                return
            if found.type != "complete":
                self._fail(id, f'a result of the type "{found.type}", which this agent does not know')
                return
            if any(f'"{name}"'.encode() in line for name in NEWER):
                line = splice.without(line, ("result",), NEWER)
        call = self._at_server(id)
        if call is not None:
            self._drop(call, "")
            line = line if key(call.id) == key(id) else jsonrpc.with_id(line, call.id)
        self._ports.to_agent(line)

    def _at_server(self, id: Raw) -> OpenCall | None:
        """Return the request that the server knows by this id now."""
        calls = (call for call in self._calls.values() if not call.questions and key(call.server_id) == key(id))
        return next(calls, None)

    # Input.

    def _fail(self, server_id: Raw, what: str) -> None:
        """Answer a request with an error, because the server wants what cannot be given."""
        call = self._at_server(server_id)
        if call is not None:
            self._drop(call, "")
        id = server_id if call is None else call.id
        self._ports.to_agent(jsonrpc.error(id, jsonrpc.INTERNAL_ERROR, f'MCP server "{self.name}" wants {what}'))

    def _require(self, id: Raw, result: _Result) -> None:
        """Ask the agent for the input that a request needs."""
        call, able = self._at_server(id), jsonrpc.members(self._capabilities) or {}
        wanted = {name: jsonrpc.read(_wanted, raw) or _Wanted() for name, raw in (result.requests or {}).items()}
        lacking = [one.method for one in wanted.values() if INPUTS.get(one.method) not in (*able, "")]
        if call is None or lacking:
            self._fail(id, f"{' and '.join(lacking) or 'input'}, which this agent does not offer")
        elif call.rounds == ROUNDS:
            self._fail(id, f"input more than {ROUNDS} times for one request")
        else:
            call.rounds += 1
            call.state = result.state.copy() if result.state is not UNSET else UNSET
            call.answers = {}
            for name, one in wanted.items():
                self._ask_agent(call, name, one)
            if not wanted:
                self._try_again(call)

    def _ask_agent(self, call: OpenCall, name: str, wanted: _Wanted) -> None:
        id = self._fresh()
        call.questions[bytes(id)] = name
        line = jsonrpc.request(id, wanted.method, wanted.params)
        if wanted.method == mcp.ELICITATION and mapping(decoded(wanted.params)).get("mode") == "url":
            needed = b'"elicitationId":' + bytes(id)  # until 2025-11-25, gone since
            line = splice.with_members(line, ("params",), needed)
        self._ports.to_agent(line)

    def _take_answer(self, message: Envelope, id: Raw) -> bool:
        """Take the agent's answer to one of our questions; return whether it was."""
        call = next((call for call in self._calls.values() if key(id) in call.questions), None)
        if call is None:
            return False
        name = call.questions.pop(key(id))
        if message.result is UNSET:
            self._drop(call, "another question of the same request was refused")
            error = message.error if message.error is not UNSET else Raw(written({"code": jsonrpc.INTERNAL_ERROR}))
            self._ports.to_agent(written({"jsonrpc": "2.0", "id": call.id, "error": error}))
            return True
        call.answers[name] = message.result.copy()
        if not call.questions:
            self._try_again(call)
        return True

    def _try_again(self, call: OpenCall) -> None:
        """Send a request again, with the input and the exact state of the server (M-13)."""
        call.server_id = self._fresh()
        line = splice.with_members(jsonrpc.with_id(call.line, call.server_id), ("params", "_meta"), self._meta())
        if call.answers:
            line = splice.with_members(line, ("params",), written({"inputResponses": call.answers})[1:-1])
        if call.state is not UNSET:
            line = splice.with_members(line, ("params",), b'"requestState":' + bytes(call.state))
        self._ports.to_server(line)

    def _drop(self, call: OpenCall, why: str) -> None:
        """Forget a request, and withdraw its questions to the agent."""
        self._calls.pop(key(call.id), None)
        for id in call.questions:
            self._ports.to_agent(jsonrpc.notification(mcp.CANCELLED, {"requestId": Raw(id), "reason": why}))


def _object(raw: Raw | UnsetType, default: Raw) -> Raw:
    return raw.copy() if raw is not UNSET and bytes(raw).lstrip()[:1] == b"{" else default


def _foreign(message: Envelope, found: Discovered | None) -> list[str] | None:
    """Return the versions that a server names, if we speak none of them."""
    if found is not None:
        return None if any(version in mcp.LEGACY_VERSIONS for version in found.versions) else found.versions
    return None if message.error is UNSET else mcp.supported_versions(message.error)


def _without_subscriptions(capabilities: Raw) -> Iterator[tuple[str, object]]:
    """Yield a server's capabilities without those that need a subscription."""
    for name, value in (jsonrpc.members(capabilities) or {}).items():
        members = jsonrpc.members(value)
        offered = {key: each for key, each in (members or {}).items() if key not in ("subscribe", "listChanged")}
        yield name, value if members is None else offered
