"""
An agent of MCP 2026-07-28, which does no handshake, on a server that needs one. Sans-IO.

The handshake is ours, with what the agent says of itself in `_meta`; `server/discover` is answered from it. Requests
lose the `_meta` of the newer era and results get its members. A request of the server becomes `input_required` of the
agent's call in flight: the call goes on at the server, and the agent's next try of it takes it over (`Calls`). The
agent's `subscriptions/listen` are served here (`Listeners`).
"""

from collections.abc import Iterable

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from acp_launch.mcp import era
from acp_launch.mcp.era import Crossing
from acp_launch.mcp.message import cancelled_id
from acp_launch.mcp.translation import envelope
from acp_launch.mcp.translation.calls import HARMLESS, LEVELS, Calls
from acp_launch.mcp.translation.listeners import Listeners, wanted
from acp_launch.protocol import edits, jsonrpc
from acp_launch.protocol.ids import key
from acp_launch.protocol.jsonrpc import Envelope

GONE = frozenset({"notifications/elicitation/complete", "notifications/tasks/status"})  # of the older era only


class _Level(Struct):
    level: str = ""


class _Server(Struct):
    """The answer to `initialize`."""

    capabilities: Raw = Raw(b"{}")
    server: Raw | UnsetType = field(default=UNSET, name="serverInfo")
    instructions: Raw | UnsetType = UNSET


class _Shown(Struct):
    """Only a result of the newer era has one of these."""

    type: Raw | UnsetType = field(default=UNSET, name="resultType")
    versions: list[str] | UnsetType = field(default=UNSET, name="supportedVersions")


_level = msgspec.json.Decoder(_Level)
_server, _shown = msgspec.json.Decoder(_Server), msgspec.json.Decoder(_Shown)


class ModernAgent:
    """The translator for an agent whose first request carried its version."""

    def __init__(self, adapter: Crossing) -> None:
        self._adapter = adapter
        self._phase = "asked"  # "asked": the first request was sent as it is; "shaking": our handshake is; "open"
        self._id, self._line, self._method = Raw(b"null"), b"", ""  # of the first request
        self._meta = envelope.Meta()
        self._is_open_request = False  # the first request is at the server as it is, unanswered
        self._refusal = b""  # the server's answer to it
        self._was_refused = False  # the handshake was
        self._is_given_back = False  # the conversation sends the first request again, to another process
        self._server = _Server()
        self._level = ""  # of the server's log messages
        self._calls = Calls(adapter)
        self._listeners = Listeners(adapter)

    def begin(self, message: Envelope, line: bytes) -> None:
        assert message.id is not UNSET
        self._id, self._line, self._method = message.id.copy(), line, str(message.method)
        self._meta = envelope.copied(envelope.params(message.params).meta)
        if self._adapter.knowledge.server == "legacy":
            self._shake()
        else:
            self._try()

    def from_agent(self, message: Envelope, line: bytes) -> None:
        is_request = message.method is not UNSET and message.id is not UNSET
        if is_request and message.method == era.INITIALIZE and not era.is_modern(message.params):
            if self._phase != "open":
                self._adapter.up(jsonrpc.error(self._id, jsonrpc.METHOD_NOT_FOUND, "the server needs a handshake"))
            self._adapter.turn(line)
        elif is_request and message.method == era.PING:
            self._adapter.down(line)
        elif self._phase != "open":
            self._adapter.hold(message, line)
        elif message.method is UNSET:
            self._adapter.down(line)  # an answer to what the conversation asks: its roots
        elif message.id is UNSET:
            self._notifies(message, line)
        else:
            self._asks(message, line)

    def from_server(self, message: Envelope, line: bytes) -> None:
        if self._phase != "open":
            self._shows(message, line)
        elif message.method is UNSET:
            self._answers(message, line)
        elif message.id is UNSET:
            self._tells(message, line)
        else:
            self._asked_by_server(message, line)

    def unsent(self, lines: Iterable[bytes]) -> list[bytes]:
        if self._is_given_back:
            return []
        if self._phase != "open":
            is_again = not self._is_open_request or self._method in HARMLESS
            if self._phase == "asked" and self._adapter.is_stdio:
                self._doubt()
            return [self._line] if is_again else []
        return list(filter(None, (self._calls.original(line) for line in lines)))

    def _doubt(self) -> None:
        """Take a process for one of the older era, because it has ended on an unknown method."""
        knowledge = self._adapter.knowledge
        knowledge.learn("legacy")
        self._adapter.was_provoked = self._method in HARMLESS and not knowledge.has_ended_early
        knowledge.has_ended_early = True

    # The opening.

    def _try(self) -> None:
        """Send the first request as it is."""
        self._phase, self._is_open_request = "asked", True
        self._adapter.down(self._line)
        if self._method != era.DISCOVER:
            self._adapter.after(era.DOUBT, self._probe)
        if self._adapter.is_stdio:
            self._adapter.after(era.SILENCE, self._shake)

    def _shows(self, message: Envelope, line: bytes) -> None:
        """Learn the server's era from what it sends first."""
        if message.method is UNSET and message.id is not UNSET and key(message.id) == key(self._id):
            if self._is_open_request:
                self._is_open_request = False
                self._judge(message, line)
        elif message.method == era.ACKNOWLEDGED:
            self._adapter.up(line)
            self._adapter.leave("modern")
        else:
            self._adapter.up(line)

    def _judge(self, message: Envelope, line: bytes) -> None:
        """Judge the answer to the first request."""
        if message.error is UNSET:
            shown = jsonrpc.read(_shown, message.result) if message.result is not UNSET else None
            if self._method == era.DISCOVER and not _is_newer(shown):
                self._shake()
                return
            self._adapter.up(line)  # an older server that answers without a handshake needs none
            self._adapter.leave("modern" if _is_newer(shown) or self._method == era.DISCOVER else None)
            return
        code, versions = jsonrpc.fault(message.error).code, era.supported(message.error)
        is_older = versions is not None and versions and all(version in era.LEGACY for version in versions)
        if code == era.INVALID_REQUEST and self._adapter.was_pinged:
            # Our ping made it choose the older era. The conversation gives this request to a new process.
            self._is_given_back = True
            self._adapter.up(line)
            self._adapter.after(era.DOUBT, self._adapter.reset)
        elif code in era.RESERVED and not is_older:
            self._adapter.up(line)
            self._adapter.leave("modern")
        elif self._method == era.DISCOVER or is_older:
            self._refusal = line
            self._shake()
        else:  # any server may refuse a call
            self._refusal = line
            if self._phase == "asked":
                self._probe()

    def _probe(self) -> None:
        """Ask a server for its era that has not shown it in another way."""
        if self._phase == "asked":
            client, able = envelope.about(self._meta)
            members = era.meta(self._adapter.version(), client, able)
            self._adapter.ask(era.DISCOVER, {"_meta": Raw(b"{" + members + b"}")}, self._probed)

    def _probed(self, message: Envelope, line: bytes) -> None:
        found = era.discovered(message)
        code = 0 if message.error is UNSET else jsonrpc.fault(message.error).code
        if (found is not None and any(version not in era.LEGACY for version in found.versions)) or code in era.RESERVED:
            if self._refusal:
                self._adapter.up(self._refusal)
            self._adapter.leave("modern")
        elif self._phase == "asked":
            self._shake()

    def _shake(self) -> None:
        """Do a handshake as the agent."""
        if self._phase != "asked":
            return
        self._phase = "shaking"
        client, able = envelope.about(self._meta)
        capabilities = envelope.members(able) or {}
        if self._adapter.gives_roots:
            capabilities["roots"] = Raw(b'{"listChanged":true}')
        version = self._adapter.knowledge.version
        params = {
            "protocolVersion": version if version in era.LEGACY else era.LEGACY[0],
            "capabilities": capabilities,
            "clientInfo": client,
        }
        self._adapter.ask(era.INITIALIZE, params, self._shaken)

    def _shaken(self, message: Envelope, line: bytes) -> None:
        if message.result is not UNSET:
            self._open(message.result)
            return
        if self._is_open_request:  # it was silent because it is busy, or slow to start
            self._adapter.leave("modern")
        elif not self._refusal and not self._was_refused:  # other than the process before (M-12)
            self._was_refused = True
            self._adapter.knowledge.learn(None)
            self._try()
        else:
            self._adapter.up(self._refusal or edits.with_id(line, self._id))
            self._adapter.reset()

    def _open(self, result: Raw) -> None:
        """Answer the agent's requests from now on."""
        self._phase = "open"
        if self._is_open_request:
            self._calls.late = key(self._id)
        self._is_open_request = False
        self._adapter.knowledge.learn("legacy")
        self._server = jsonrpc.read(_server, Raw(bytes(result))) or _Server()
        if not era.is_object(self._server.capabilities):
            self._server.capabilities = Raw(b"{}")
        self._listeners.offered(self._server.capabilities)
        self._adapter.down(jsonrpc.notification(era.INITIALIZED))
        self._adapter.from_agent(self._line)
        self._adapter.release()

    # From the agent, once open.

    def _notifies(self, message: Envelope, line: bytes) -> None:
        if message.method != era.CANCELLED:
            self._adapter.down(line)
            return
        cancelled = cancelled_id(message.params)
        if cancelled is None or self._listeners.close(cancelled):
            return
        current = self._calls.cancel(cancelled)
        if current is not None:
            self._adapter.down(edits.replaced(line, ("params", "requestId"), bytes(current)))

    def _asks(self, message: Envelope, line: bytes) -> None:
        assert message.id is not UNSET
        id = message.id.copy()
        params = envelope.params(message.params)
        if params.meta.version not in era.MODERN:
            said = f"unsupported protocol version: {params.meta.version or 'none given'}"
            data = {"supported": list(era.MODERN), "requested": params.meta.version}
            self._adapter.up(jsonrpc.error(id, era.UNSUPPORTED, said, data))
        elif message.method == era.DISCOVER:
            self._adapter.up(jsonrpc.result(id, self._discovered()))
        elif message.method == era.LISTEN:
            notifications = wanted(message.params)
            if notifications is None:
                self._adapter.up(jsonrpc.error(id, jsonrpc.INVALID_PARAMS, "subscriptions/listen needs notifications"))
            else:
                self._listeners.open(id, notifications)
        elif message.method in era.ASKING and params.state:
            self._calls.resume(id, params.state, params.responses or {}, envelope.token(params))
        else:
            self._raise_level(params.meta.level)
            self._calls.ask(id, message, line, envelope.copied(params.meta))

    def _discovered(self) -> dict[str, object]:
        server = self._server.server
        about = server if era.is_object(server) else {"name": self._adapter.name, "version": ""}
        members = envelope.members(self._server.capabilities) or {}
        result: dict[str, object] = {
            "resultType": "complete",
            "supportedVersions": list(era.MODERN),
            "capabilities": {name: value for name, value in members.items() if name != "tasks"},
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {era.SERVER: about},
        }
        if self._server.instructions is not UNSET and bytes(self._server.instructions) != b"null":
            result["instructions"] = self._server.instructions
        return result

    def _raise_level(self, level: str) -> None:
        """Let the server send what this request or another one wants to hear."""
        if level not in LEVELS or "logging" not in (envelope.members(self._server.capabilities) or {}):
            return
        wanted = min([level, *self._calls.levels()], key=LEVELS.index)
        if wanted != self._level:
            self._level = wanted
            self._adapter.ask(era.SET_LEVEL, {"level": wanted}, lambda message, line: None)

    # From the server, once open.

    def _answers(self, message: Envelope, line: bytes) -> None:
        if message.id is UNSET:
            self._adapter.up(line)
        else:
            self._calls.answered(message, line)

    def _tells(self, message: Envelope, line: bytes) -> None:
        method = str(message.method)
        if method in self._listeners.methods:
            self._listeners.tell(method, message.params, line)
        elif method == era.PROGRESS:
            self._calls.progressed(message.params, line)
        elif method == era.CANCELLED:
            self._calls.withdraw(message.params)
        elif method == era.SAID:
            self._says(message.params, line)
        elif method not in GONE:
            self._adapter.up(line)

    def _says(self, params: Raw, line: bytes) -> None:
        """Pass a log message on if an open request wants it."""
        said = (jsonrpc.read(_level, params) or _Level()).level
        rank = LEVELS.index(said) if said in LEVELS else len(LEVELS)
        if any(rank >= LEVELS.index(wanted) for wanted in self._calls.levels()):
            self._adapter.up(line)

    def _asked_by_server(self, message: Envelope, line: bytes) -> None:
        assert message.id is not UNSET
        if message.method == era.PING:
            self._adapter.down(jsonrpc.result(message.id, {}))
        elif message.method == era.ROOTS and (self._adapter.gives_roots or not self._declares_roots()):
            self._adapter.up(line)  # the conversation answers with the session's
        else:
            self._calls.question(message)

    def _declares_roots(self) -> bool:
        return envelope.abilities(envelope.about(self._meta)[1]).roots is not UNSET


def _is_newer(shown: _Shown | None) -> bool:
    if shown is None:
        return False
    if shown.versions is not UNSET:
        return any(version not in era.LEGACY for version in shown.versions)
    return shown.type is not UNSET
