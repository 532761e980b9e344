"""
An agent with a handshake on a server without one (MCP 2026-07-28). Sans-IO.

The agent's `initialize` is answered from `server/discover`, and each of its requests gets the `_meta` of the newer era.
`input_required` becomes the requests of a server that the agent knows, and its answers go back with another try of the
same request (`Inputs`). One `subscriptions/listen` stands for all subscriptions (`Listening`).
"""

from collections.abc import Callable, Iterable

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from acp_launch.mcp import era
from acp_launch.mcp.era import Crossing, Discovered
from acp_launch.mcp.message import CLIENT_INFO, cancelled_id
from acp_launch.protocol import edits, jsonrpc
from acp_launch.protocol.ids import key
from acp_launch.protocol.jsonrpc import Envelope
from acp_launch.protocol.written import written

REFUSALS = (jsonrpc.METHOD_NOT_FOUND, jsonrpc.INVALID_PARAMS, era.INVALID_REQUEST)  # of `initialize`, by modern servers
NEWER = ("resultType", "ttlMs", "cacheScope")  # members of a result that a strict client of the older era may refuse
ROUNDS = 10  # of input for one request, as in the published SDKs
PAUSE, LONGEST_PAUSE = 0.05, 0.25  # seconds before a request is tried again without input
AGAIN, LATEST = 1.0, 30.0  # seconds before an ended subscription is made again


class _Initialize(Struct):
    version: str = field(default="", name="protocolVersion")
    client: Raw | UnsetType = field(default=UNSET, name="clientInfo")
    capabilities: Raw | UnsetType = UNSET


class _Level(Struct):
    level: str


class _Uri(Struct):
    uri: str


class _Result(Struct):
    """The members of a result that only the newer era has."""

    type: str = field(default="complete", name="resultType")
    requests: dict[str, Raw] | None = field(default=None, name="inputRequests")
    state: Raw | UnsetType = field(default=UNSET, name="requestState")


class _Wanted(Struct):
    """One of the `inputRequests`."""

    method: str
    params: Raw | UnsetType = UNSET


class _Mode(Struct):
    mode: str = "form"


class _Capabilities(Struct):
    sampling: Raw | UnsetType = UNSET
    elicitation: dict[str, Raw] | None = None


class _Meta(Struct):
    subscription: Raw | UnsetType = field(default=UNSET, name=era.SUBSCRIPTION)


class _Params(Struct):
    meta: _Meta = field(default_factory=_Meta, name="_meta")
    uri: str = ""


class _Offer(Struct):
    changes: bool = field(default=False, name="listChanged")


_initialize, _level, _uri = msgspec.json.Decoder(_Initialize), msgspec.json.Decoder(_Level), msgspec.json.Decoder(_Uri)
_result = msgspec.json.Decoder(_Result)
_wanted, _mode = msgspec.json.Decoder(_Wanted), msgspec.json.Decoder(_Mode)
_capabilities, _params = msgspec.json.Decoder(_Capabilities), msgspec.json.Decoder(_Params)
_offers = msgspec.json.Decoder(dict[str, Raw])
_offer = msgspec.json.Decoder(_Offer)


class LegacyAgent:
    """The translator for an agent that has begun with `initialize`."""

    def __init__(self, adapter: Crossing) -> None:
        self._adapter = adapter
        self._phase: str = "asked"  # "asked": `initialize` was sent as it is; "discovering"; "open"
        self._id, self._line = Raw(b"null"), b""  # the agent's handshake
        self._version, self._client, self._capabilities = "", Raw(b"{}"), Raw(b"{}")  # from its parameters
        self._refusal = b""  # the server's answer to `initialize`
        self._level = ""
        self._inputs = Inputs(adapter, self._meta)
        self._listening = Listening(adapter, self._meta)

    def begin(self, message: Envelope, line: bytes) -> None:
        assert message.id is not UNSET
        self._id, self._line, self._refusal = message.id.copy(), line, b""
        about = jsonrpc.read(_initialize, message.params) or _Initialize()
        self._version = about.version
        self._client = _object(about.client, Raw(written(CLIENT_INFO)))
        self._capabilities = _object(about.capabilities, Raw(b"{}"))
        self._inputs.able = jsonrpc.read(_capabilities, self._capabilities) or _Capabilities()
        if self._adapter.knowledge.server == "modern":
            self._discover()
        else:
            self._phase = "asked"
            self._adapter.down(line)

    def from_agent(self, message: Envelope, line: bytes) -> None:
        if message.method is UNSET:
            if not self._inputs.answered(message) and self._phase != "open":
                self._adapter.down(line)
        elif message.method == era.INITIALIZE and message.id is not UNSET:
            self.begin(message, line)
        elif message.method == era.PING and message.id is not UNSET:
            self._adapter.down(line) if self._phase == "asked" else self._adapter.check(message, self._meta())
        elif self._phase != "open":
            self._adapter.hold(message, line)
        elif message.id is UNSET:
            self._notifies(message, line)
        else:
            self._asks(message, line)

    def from_server(self, message: Envelope, line: bytes) -> None:
        if message.method is UNSET and message.id is not UNSET:
            if self._phase == "asked" and key(message.id) == key(self._id):
                self._introduced(message, line)
            else:
                self._answers(message, line)
        elif self._phase != "open":
            self._adapter.up(line)
        elif message.id is UNSET:
            self._told(message, line)
        # A modern server makes no requests, and takes no answers.

    def unsent(self, lines: Iterable[bytes]) -> list[bytes]:
        again = []
        for line in lines:
            message = jsonrpc.decode(line)
            if message is None or message.id is UNSET or message.method is UNSET:
                continue
            original = self._inputs.original(message.id)
            if original:
                again.append(original)
            elif not bytes(message.id).startswith(f'"{era.OURS}'.encode()):
                again.append(
                    edits.without(line, ("params", "_meta"), (era.VERSION, era.CLIENT, era.CAPABILITIES, era.LEVEL))
                )
        return again

    # The opening.

    def _introduced(self, message: Envelope, line: bytes) -> None:
        """Take the answer to `initialize`, which was sent as it is."""
        if message.error is UNSET:
            self._adapter.up(line)
            self._adapter.leave("legacy")
            return
        self._refusal = line
        versions = era.supported(message.error)
        code = jsonrpc.fault(message.error).code
        is_newer = code in REFUSALS or code in era.RESERVED
        if is_newer and (versions is None or any(version in era.MODERN for version in versions)):
            self._discover()
        else:  # another error, or a list without a version that we know, which the user must see (M-16)
            self._give_up(line)

    def _discover(self) -> None:
        self._phase = "discovering"
        self._adapter.ask(era.DISCOVER, {"_meta": Raw(b"{" + self._meta() + b"}")}, self._discovered)

    def _discovered(self, message: Envelope, line: bytes) -> None:
        found = era.discovered(message)
        if found is not None and any(version in era.MODERN for version in found.versions):
            self._open(found)
        elif self._refusal:
            self._give_up(self._refusal)
        elif found is not None and not any(version in era.LEGACY for version in found.versions):
            self._give_up(self._too_new(found.versions))
        elif message.error is not UNSET and (versions := era.supported(message.error)) is not None:
            self._give_up(self._too_new(versions))
        elif self._adapter.knowledge.is_pinned:
            self._give_up(self._too_old(message))
        else:  # this process is of the older era, other than the one before (M-12)
            self._adapter.knowledge.learn(None)
            self._phase = "asked"
            self._adapter.down(self._line)

    def _too_new(self, versions: list[str]) -> bytes:
        said = f'MCP server "{self._adapter.name}" speaks only MCP {", ".join(versions)}, which acp-launch does not'
        data = {"supported": versions, "requested": self._adapter.version()}
        return jsonrpc.error(self._id, era.UNSUPPORTED, said, data)

    def _too_old(self, message: Envelope) -> bytes:
        said = f'MCP server "{self._adapter.name}" does not speak MCP {self._adapter.version()}, as `protocol` asks for'
        heard = "" if message.error is UNSET else f": {jsonrpc.fault(message.error).message}"
        return jsonrpc.error(self._id, era.INVALID_REQUEST, said + heard)

    def _give_up(self, line: bytes) -> None:
        """Answer the handshake with an error; the agent may try again."""
        self._adapter.up(edits.with_id(line, self._id))
        self._adapter.reset()

    def _open(self, found: Discovered) -> None:
        """Answer the handshake from what the server has said of itself."""
        self._phase = "open"
        self._adapter.knowledge.learn("modern")
        self._listening.offered(found.capabilities)
        about = jsonrpc.read(_offers, found.meta) or {}
        server = about.get(era.SERVER, found.server)
        version = self._version
        result = {
            "protocolVersion": version if version in era.LEGACY else era.LEGACY[0],
            "capabilities": found.capabilities if era.is_object(found.capabilities) else {},
            "serverInfo": server if era.is_object(server) else {"name": self._adapter.name, "version": ""},
        }
        if found.instructions is not UNSET and bytes(found.instructions) != b"null":
            result["instructions"] = found.instructions
        self._adapter.up(jsonrpc.result(self._id, result))
        self._adapter.release()

    def _meta(self) -> bytes:
        return era.meta(self._adapter.version(), self._client, self._capabilities, self._level)

    # From the agent, once open.

    def _notifies(self, message: Envelope, line: bytes) -> None:
        if message.method == era.INITIALIZED:
            self._listening.begin()
        elif message.method == era.CANCELLED:
            self._cancels(message, line)
        elif message.method not in (era.PROGRESS, "notifications/roots/list_changed"):  # gone in the newer era
            self._adapter.down(line)

    def _cancels(self, message: Envelope, line: bytes) -> None:
        """Cancel a request under the id by which the server knows it now (M-40)."""
        cancelled = cancelled_id(message.params)
        if cancelled is None:
            return
        current = self._inputs.cancel(cancelled)
        if current is not None:
            self._adapter.down(edits.replaced(line, ("params", "requestId"), bytes(current)))

    def _asks(self, message: Envelope, line: bytes) -> None:
        assert message.id is not UNSET
        id, method = message.id, message.method
        if method == era.SET_LEVEL:
            self._sets_level(id, message.params)
        elif method in (era.SUBSCRIBE, era.UNSUBSCRIBE):
            self._subscribes(id, message.params, is_on=method == era.SUBSCRIBE)
        else:
            self._inputs.asked(message, line)
            self._adapter.down(edits.with_meta(line, self._meta()))

    def _sets_level(self, id: Raw, params: Raw) -> None:
        wanted = jsonrpc.read(_level, params)
        if wanted is None:
            self._adapter.up(jsonrpc.error(id, jsonrpc.INVALID_PARAMS, "logging/setLevel needs a level"))
            return
        self._level = wanted.level
        self._adapter.up(jsonrpc.result(id, {}))

    def _subscribes(self, id: Raw, params: Raw, *, is_on: bool) -> None:
        resource = jsonrpc.read(_uri, params)
        if resource is None:
            self._adapter.up(jsonrpc.error(id, jsonrpc.INVALID_PARAMS, "a subscription needs a uri"))
            return
        self._listening.change(resource.uri, id.copy(), is_on=is_on)

    # From the server, once open.

    def _answers(self, message: Envelope, line: bytes) -> None:
        if self._phase != "open" or message.result is UNSET:
            self._inputs.refused(message, line)
            return
        found = jsonrpc.read(_result, message.result)
        if found is not None and found.type == "input_required":
            self._inputs.required(message, found)
            return
        if found is not None and found.type != "complete":
            self._inputs.fail(message, f'a result of the type "{found.type}", which this agent does not know')
            return
        if any(f'"{name}"'.encode() in line for name in NEWER):
            line = edits.without(line, ("result",), NEWER)
        self._inputs.complete(message, line)

    def _told(self, message: Envelope, line: bytes) -> None:
        params = jsonrpc.read(_params, message.params) or _Params()
        if message.method == era.ACKNOWLEDGED:
            self._listening.acknowledged(params.meta.subscription)
        elif message.method == era.CANCELLED:
            cancelled = cancelled_id(message.params)
            if cancelled is not None:
                self._listening.ended(cancelled)
        elif params.meta.subscription is UNSET:
            self._adapter.up(line)
        elif self._listening.is_current(params.meta.subscription):
            self._adapter.up(edits.without(line, ("params", "_meta"), (era.SUBSCRIPTION,)))


def _object(raw: Raw | UnsetType, default: Raw) -> Raw:
    return raw.copy() if raw is not UNSET and era.is_object(raw) else default


class Call(Struct, kw_only=True, eq=False):
    """A request of the agent that may need input; `server_id` is that of the latest try."""

    id: Raw
    line: bytes  # as the agent wrote it
    server_id: Raw
    rounds: int = 0
    pause: float = PAUSE
    timer: int = 0
    state: Raw | UnsetType = UNSET
    questions: dict[bytes, str] = field(default_factory=dict)  # open ones: id → key of `inputRequests`
    answers: dict[str, Raw] = field(default_factory=dict)


class Inputs:
    """The agent's requests that may need input, and the questions that they have become."""

    def __init__(self, adapter: Crossing, meta: Callable[[], bytes]) -> None:
        self.able = _Capabilities()
        self._adapter, self._meta = adapter, meta
        self._calls: dict[bytes, Call] = {}  # by the agent's id
        self._tries: dict[bytes, Call] = {}  # by the server's id
        self._questions: dict[bytes, Call] = {}

    def asked(self, message: Envelope, line: bytes) -> None:
        assert message.id is not UNSET
        if message.method in era.ASKING:
            id = message.id.copy()
            self._calls[key(id)] = self._tries[key(id)] = Call(id=id, line=line, server_id=id)

    def original(self, server_id: Raw) -> bytes:
        """Return the agent's line of a request that the server knows by this id; empty if it is not one of these."""
        call = self._tries.get(key(server_id))
        return b"" if call is None else call.line

    def cancel(self, id: Raw) -> Raw | None:
        """Forget a request; return the id by which the server knows it, or None if it waits for the agent."""
        call = self._calls.get(key(id))
        if call is None:
            return id
        is_at_server = key(call.server_id) in self._tries
        self._drop(call, "the request was cancelled")
        return call.server_id if is_at_server else None

    def complete(self, message: Envelope, line: bytes) -> None:
        """Pass on the final answer to a request."""
        self._pass(message, line)

    def refused(self, message: Envelope, line: bytes) -> None:
        self._pass(message, line)

    def fail(self, message: Envelope, what: str) -> None:
        """Answer a request with an error, because the server wants what cannot be given."""
        assert message.id is not UNSET
        call = self._tries.get(key(message.id))
        id = message.id if call is None else call.id
        if call is not None:
            self._drop(call, "another part of the same request failed")
        self._adapter.up(jsonrpc.error(id, jsonrpc.INTERNAL_ERROR, f'MCP server "{self._adapter.name}" wants {what}'))

    def required(self, message: Envelope, result: _Result) -> None:
        """Ask the agent for the input that a request needs."""
        assert message.id is not UNSET
        call = self._tries.get(key(message.id))
        if call is None:
            self.fail(message, "input for a request that cannot have any")
            return
        call.rounds += 1
        if call.rounds > ROUNDS:
            self.fail(message, f"input again and again, more than {ROUNDS} times for one request")
            return
        wanted = {name: jsonrpc.read(_wanted, raw) for name, raw in (result.requests or {}).items()}
        for one in wanted.values():
            if why := self._unable(one):
                self.fail(message, why)
                return
        del self._tries[key(message.id)]
        call.state = result.state.copy() if result.state is not UNSET else UNSET
        call.answers = {}
        if not wanted:
            call.timer = self._adapter.after(call.pause, lambda: self._try(call))
            call.pause = min(call.pause * 2, LONGEST_PAUSE)
            return
        call.pause = PAUSE
        for name, one in wanted.items():
            if one is not None:
                self._question(call, name, one)

    def answered(self, message: Envelope) -> bool:
        """Take the agent's answer to one of our questions; return whether it was."""
        assert message.id is not UNSET
        call = self._questions.pop(number := key(message.id), None)
        if call is None:
            return False
        name = call.questions.pop(number)
        if message.result is UNSET:
            self._drop(call, "another question of the same request was refused")
            error = message.error if message.error is not UNSET else Raw(written({"code": jsonrpc.INTERNAL_ERROR}))
            self._adapter.up(written({"jsonrpc": "2.0", "id": call.id, "error": error}))
            return True
        call.answers[name] = message.result.copy()
        if not call.questions:
            self._try(call)
        return True

    def _unable(self, wanted: _Wanted | None) -> str:
        """Tell what the agent cannot answer; empty if it can."""
        if wanted is None:
            return "input without a method"
        if wanted.method == era.SAMPLING and self.able.sampling is UNSET:
            return "sampling, which this agent does not offer"
        if wanted.method == era.ELICITATION:
            mode = (jsonrpc.read(_mode, _params_of(wanted)) or _Mode()).mode
            modes = self.able.elicitation
            if (
                modes is None
                or (mode != "form" and mode not in modes)
                or (mode == "form" and modes and mode not in modes)
            ):
                return f'elicitation (mode "{mode}"), which this agent does not offer'
        elif wanted.method not in (era.SAMPLING, era.ROOTS):
            return f"{wanted.method}, which no agent of MCP {era.LEGACY[0]} knows"
        return ""

    def _question(self, call: Call, name: str, wanted: _Wanted) -> None:
        id = self._adapter.fresh()
        call.questions[bytes(id)] = name
        self._questions[bytes(id)] = call
        line = jsonrpc.request(id, wanted.method, wanted.params if wanted.params is not UNSET else None)
        if wanted.method == era.ELICITATION and (jsonrpc.read(_mode, _params_of(wanted)) or _Mode()).mode == "url":
            line = edits.with_params(line, b'"elicitationId":' + bytes(id))  # required until 2025-11-25, gone since
        self._adapter.up(line)

    def _try(self, call: Call) -> None:
        """Send a request again, with the input and the exact state of the server (M-13)."""
        call.timer, call.server_id = 0, self._adapter.fresh()
        self._tries[bytes(call.server_id)] = call
        line = edits.with_meta(edits.with_id(call.line, call.server_id), self._meta())
        if call.answers:
            line = edits.with_params(line, written({"inputResponses": call.answers})[1:-1])
        if call.state is not UNSET:
            line = edits.with_params(line, b'"requestState":' + bytes(call.state))
        self._adapter.down(line)

    def _pass(self, message: Envelope, line: bytes) -> None:
        assert message.id is not UNSET
        call = self._tries.get(key(message.id))
        if call is None:
            self._adapter.up(line)
            return
        self._drop(call, "")
        self._adapter.up(line if key(call.id) == key(message.id) else edits.with_id(line, call.id))

    def _drop(self, call: Call, why: str) -> None:
        """Forget a request, and withdraw its questions to the agent."""
        if self._calls.get(key(call.id)) is call:
            del self._calls[key(call.id)]
        self._tries.pop(key(call.server_id), None)
        self._adapter.stop(call.timer)
        for id in call.questions:
            del self._questions[id]
            self._adapter.up(jsonrpc.notification(era.CANCELLED, {"requestId": Raw(id), "reason": why}))
        call.questions = {}


def _params_of(wanted: _Wanted) -> Raw:
    return wanted.params if wanted.params is not UNSET else Raw(b"{}")


class Listening:
    """The one `subscriptions/listen` that stands for the agent's subscriptions and for changes of the lists.

    A change of the subscriptions opens a new one; the old one counts until the server has acknowledged the new one.
    """

    def __init__(self, adapter: Crossing, meta: Callable[[], bytes]) -> None:
        self._adapter, self._meta = adapter, meta
        self._flags: dict[str, str] = {}  # of the filter → notification
        self._uris: dict[str, None] = {}
        self._agreed: list[str] = []  # resources of the active one
        self._active = self._pending = b""  # ids
        self._waiting: list[Raw] = []  # requests of the agent that the pending one answers
        self._next: list[Raw] = []  # and those for the one after it
        self._is_stale = False
        self._has_lost = False  # the stream ended by itself, so changes may have been missed
        self._pause = AGAIN

    def offered(self, capabilities: Raw) -> None:
        """Note what the server says changes of."""
        offers = jsonrpc.read(_offers, capabilities) or {}
        for method, (name, flag) in era.FLAGS.items():
            offer = jsonrpc.read(_offer, offers[name]) if name in offers else None
            if offer is not None and offer.changes:
                self._flags[flag] = method

    def begin(self) -> None:
        if self._flags or self._uris:
            self._refresh()

    def change(self, uri: str, id: Raw, *, is_on: bool) -> None:
        """Subscribe to a resource or unsubscribe from it; `id` is of the agent's request, answered once it is done."""
        if is_on:
            self._uris[uri] = None
        else:
            self._uris.pop(uri, None)
        self._next.append(id)
        self._refresh()

    def is_current(self, subscription: Raw) -> bool:
        return bool(self._active) and key(subscription) == self._active

    def acknowledged(self, subscription: Raw | UnsetType) -> None:
        if subscription is UNSET or key(subscription) != self._pending or not self._pending:
            return
        if self._active:
            self._adapter.down(jsonrpc.notification(era.CANCELLED, {"requestId": Raw(self._active)}))
        self._active, self._pending, self._pause = self._pending, b"", AGAIN
        self._agreed = list(self._uris)
        self._answer(self._waiting)
        if self._has_lost:
            self._has_lost = False
            for method in self._flags.values():
                self._adapter.up(jsonrpc.notification(method))
            for uri in self._uris:
                self._adapter.up(jsonrpc.notification(era.UPDATED, {"uri": uri}))
        if self._is_stale:
            self._refresh()

    def ended(self, id: Raw) -> None:
        """Open the subscription again after the server has ended it."""
        if key(id) not in (self._active, self._pending) or key(id) == b"":
            return
        if key(id) == self._active:
            self._active = b""
        else:
            self._pending = b""
        self._has_lost = True
        if not self._active and not self._pending:
            self._adapter.after(self._pause, self._reopen)
            self._pause = min(self._pause * 2, LATEST)

    def _reopen(self) -> None:
        if not self._active and not self._pending:
            self._refresh()

    def _refresh(self) -> None:
        if self._pending:
            self._is_stale = True
            return
        self._is_stale = False
        self._waiting, self._next = [*self._waiting, *self._next], []
        if not (self._flags or self._uris):
            if self._active:
                self._adapter.down(jsonrpc.notification(era.CANCELLED, {"requestId": Raw(self._active)}))
            self._active = b""
            self._answer(self._waiting)
            return
        filter: dict[str, object] = dict.fromkeys(self._flags, True)
        if self._uris:
            filter["resourceSubscriptions"] = list(self._uris)
        params = {"_meta": Raw(b"{" + self._meta() + b"}"), "notifications": filter}
        self._pending = bytes(self._adapter.ask(era.LISTEN, params, self._closed))

    def _closed(self, message: Envelope, line: bytes) -> None:
        """Take the answer to a subscription, which ends it: a result in the normal course, or an error."""
        assert message.id is not UNSET
        if message.error is UNSET or key(message.id) != self._pending:
            self.ended(message.id)
            return
        self._pending = b""
        waiting, self._waiting = self._waiting, []
        for id in waiting:
            self._adapter.up(written({"jsonrpc": "2.0", "id": id, "error": message.error}))
        if self._is_stale:
            self._refresh()
        else:
            self._uris = dict.fromkeys(self._agreed)

    def _answer(self, ids: list[Raw]) -> None:
        for id in ids:
            self._adapter.up(jsonrpc.result(id, {}))
        ids.clear()
