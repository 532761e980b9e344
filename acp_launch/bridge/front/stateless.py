"""
The requests of agents that speak HTTP and MCP 2026-07-28, which has neither handshake nor session. Sans-IO.

All requests for one server share one conversation with it. So each gets an id of ours, and a progress token of ours if
it has one, which are changed back in what the server sends. A subscription is named by the id of its request.

The headers of a request repeat parts of its body, and are checked, so that nothing between decides on false ones
("streamable HTTP", "custom headers"). For a call of a tool this needs the list of tools, which is learned from the
agent's own requests for it, or asked for. When the client closes the connection, its request is cancelled.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from acp_launch.bridge.front.gate import Head
from acp_launch.bridge.front.replies import ALIVE, ENDED, INVALID_REQUEST, PARSE_ERROR, Reply, event, refuse
from acp_launch.bridge.front.session import CALLS, CANCELLED, LOG, NO_MESSAGE, PROGRESS, Ports
from acp_launch.mcp.http.headers import NAMED, ToolHeaders, request_headers, unwritten
from acp_launch.mcp.message import answer_to, renumbered
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.acp import decoded, mapping
from acp_launch.protocol.edits import replaced
from acp_launch.protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, Envelope
from acp_launch.regex import regex

VERSION_HEADER = "mcp-protocol-version"
LISTEN, TOOLS, CALL, DISCOVER = "subscriptions/listen", "tools/list", "tools/call", "server/discover"
REMOVED = ("initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")
PARAM = "mcp-param-"
HEADER_MISMATCH = -32020
STATUS = {  # of an answer that is an error, by its code; any other is sent with 200
    **dict.fromkeys((PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, HEADER_MISMATCH, -32021, -32022), 400),
    METHOD_NOT_FOUND: 404,
}
PAGES = 100  # of a list of tools
REQUEST = "io.modelcontextprotocol/"
VERSION, CAPABILITIES = f"{REQUEST}protocolVersion", f"{REQUEST}clientCapabilities"
LEVEL, SUBSCRIPTION, TOKEN = f"{REQUEST}logLevel", f"{REQUEST}subscriptionId", "progressToken"
NO_QUESTIONS = "a server of this protocol version may not send requests"
_WHOLE = regex(r"-?[0-9]++(?:\.0++)?")


class Asked(Struct, kw_only=True, eq=False):
    """A request of the agent that has no answer yet."""

    id: Raw
    method: str
    reply: Reply
    token: Raw | None
    has_logs: bool


class Stateless:
    """The conversation that requests without a session share."""

    def __init__(self, ports: Ports) -> None:
        self.is_probe = True  # nothing was asked but what the server is
        self._ports = ports
        self._asked: dict[int, Asked] = {}
        self._own: dict[int, Callable[[Envelope, bytes], None]] = {}  # requests of ours
        self._number = 0
        self._headers = ToolHeaders()
        self._has_tools = False  # the list of tools has been seen to its end
        self._listing: list[Callable[[], None]] = []  # what waits for the list of tools

    @property
    def replies(self) -> list[Reply]:
        return [asked.reply for asked in self._asked.values()]

    @property
    def is_waiting(self) -> bool:
        return bool(self._asked or self._own)

    # The client.

    def posts(self, head: Head, line: bytes, reply: Reply) -> None:
        """Take the body of a POST."""
        message = None if jsonrpc.batch(line) is not None else jsonrpc.decode(line)
        if message is None or message.method is UNSET:
            code, why = (
                (PARSE_ERROR, NO_MESSAGE) if message is None else (INVALID_REQUEST, "a response is not expected")
            )
            refuse(reply, 400, code, why)
            return
        if message.id is UNSET:
            if message.method not in (CANCELLED, PROGRESS):  # the ids in them are not the server's
                self._ports.send(line)
            reply.answer(202)
            return
        if fault := _fault(head, message):
            code, why = fault
            refuse(reply, STATUS.get(code, 400), code, why, id=message.id)
            return
        if message.method == LISTEN and not reply.takes_events:
            reply.answer(406)
            return
        if message.method == CALL and self._is_checked(head, message):
            self._check(head, message, line, reply)
            return
        self._forward(message, line, reply)

    def gone(self, reply: Reply) -> None:
        """Cancel the request whose connection the client has closed."""
        for number, asked in list(self._asked.items()):
            if asked.reply is reply:
                del self._asked[number]
                params = {"requestId": number, "reason": "the client has closed the connection"}
                self._ports.send(jsonrpc.notification(CANCELLED, params))

    def beat(self) -> None:
        """Show every client that its connection is alive; called now and then."""
        for reply in self.replies:
            if reply.takes_events and not reply.is_full:
                self._stream(reply, ALIVE)

    def _forward(self, message: Envelope, line: bytes, reply: Reply) -> None:
        assert message.id is not UNSET
        meta = _meta(message.params)
        self.is_probe = self.is_probe and message.method == DISCOVER
        self._number += 1
        line, token = renumbered(line, self._number)
        self._asked[self._number] = Asked(
            id=message.id.copy(), method=str(message.method), reply=reply, token=token, has_logs=LEVEL in meta
        )
        self._ports.send(line)

    # Headers with arguments of tools.

    def _is_checked(self, head: Head, message: Envelope) -> bool:
        arguments = mapping(mapping(decoded(message.params)).get("arguments"))
        return bool(arguments) or any(name.startswith(PARAM) for name, _ in head.headers)

    def _check(self, head: Head, message: Envelope, line: bytes, reply: Reply) -> None:
        """Forward a call if its headers fit what is known of the tool, else ask for the tools first."""
        if self._has_tools and not self._misfits(head, message):
            self._forward(message, line, reply)
            return
        kept = Envelope(id=message.id, method=message.method, params=message.params)

        def listed() -> None:
            if reply.is_gone:
                return
            if why := self._misfits(head, kept):
                assert kept.id is not UNSET
                refuse(reply, 400, HEADER_MISMATCH, why, id=kept.id)
            else:
                self._forward(kept, line, reply)

        self._listing.append(listed)
        if len(self._listing) == 1:
            self._headers = ToolHeaders()
            meta = {name: value for name, value in _meta(message.params).items() if name not in (TOKEN, LEVEL)}
            self._list(meta, None, 1)

    def _misfits(self, head: Head, message: Envelope) -> str:
        """Return what is wrong with the headers that repeat arguments; empty if nothing is."""
        name = mapping(decoded(message.params)).get("name")
        wanted = self._headers.wanted.get(name, {}) if isinstance(name, str) else {}
        if not wanted:
            return ""
        expected = request_headers(CALL, message.params, self._headers.wanted)
        for token in wanted.values():
            header = f"Mcp-Param-{token}"
            given, value = head.all(header.lower()), expected.get(header)
            if len(given) > 1:
                return f"{header} is sent more than once"
            if bool(given) != (value is not None):
                return f"{header} is {'sent' if given else 'missing'}, unlike its argument"
            if given and value is not None and not _is_same(unwritten(given[0]), unwritten(value)):
                return f"{header} differs from its argument"
        return ""

    def _list(self, meta: Mapping[str, Any], cursor: str | None, page: int) -> None:
        self._number += 1
        params = {"_meta": meta} if cursor is None else {"_meta": meta, "cursor": cursor}

        def take(message: Envelope, line: bytes) -> None:
            following = self._learn(message, line)
            if following is not None and page < PAGES:
                self._list(meta, following, page + 1)
                return
            waiting, self._listing = self._listing, []
            for listed in waiting:
                listed()

        self._own[self._number] = take
        self._ports.send(jsonrpc.request(self._number, TOOLS, params))

    def _learn(self, message: Envelope, line: bytes) -> str | None:
        """Learn from a page of tools; return the cursor of the next one."""
        if message.result is UNSET:
            return None
        self._headers.shown(line)
        cursor = mapping(decoded(message.result)).get("nextCursor")
        self._has_tools = self._has_tools or not isinstance(cursor, str)
        return cursor if isinstance(cursor, str) else None

    # The server.

    def says(self, line: bytes) -> None:
        """Take a line of the server."""
        parts = jsonrpc.batch(line)
        for part in [line] if parts is None else parts:
            message = jsonrpc.decode(part)
            if message is None:
                continue
            if message.method is UNSET:
                self._answers(message, part)
            elif message.id is not UNSET:
                self._ports.send(jsonrpc.error(message.id, METHOD_NOT_FOUND, NO_QUESTIONS))
            else:
                self._notifies(message, part)

    def _answers(self, message: Envelope, line: bytes) -> None:
        number = _number(message.id)
        if (take := self._own.pop(number, None)) is not None:
            take(message, line)
            return
        asked = self._asked.pop(number, None)
        if asked is None:
            return
        if asked.method == TOOLS:
            self._learn(message, line)
        line = answer_to(line, asked.id, number)
        reply = asked.reply
        if reply.is_open or not reply.takes_json:
            self._stream(reply, event(line))
            reply.end()
        else:
            status = 200 if message.error is UNSET else STATUS.get(jsonrpc.fault(message.error).code, 200)
            reply.answer(status, line)

    def _notifies(self, message: Envelope, line: bytes) -> None:
        found = self._owner(message)
        if found is None:
            return
        asked, where, own = found
        if where:
            line = replaced(line, ("params", *where), bytes(own))
        if asked.reply.takes_events:
            self._stream(asked.reply, event(line))

    def _owner(self, message: Envelope) -> tuple[Asked, tuple[str, ...], Raw] | None:
        """Return the request that a notification belongs to, where that is named, and the client's name for it."""
        params = mapping(decoded(message.params))
        if message.method == PROGRESS:
            asked = self._asked.get(_integer(params.get(TOKEN)))
            return (asked, (TOKEN,), asked.token) if asked is not None and asked.token is not None else None
        meta = mapping(params.get("_meta"))
        if SUBSCRIPTION in meta:
            asked = self._asked.get(_integer(meta[SUBSCRIPTION]))
            return None if asked is None else (asked, ("_meta", SUBSCRIPTION), asked.id)
        able = [asked for asked in self._asked.values() if asked.method != LISTEN and asked.reply.takes_events]
        if message.method == LOG:
            able = [asked for asked in able if asked.has_logs]
        calls = [asked for asked in able if asked.method in CALLS]
        return next(((asked, (), asked.id) for asked in reversed(calls or able)), None)

    def _stream(self, reply: Reply, text: bytes) -> None:
        if not reply.is_open:
            reply.open()
        reply.write(text)

    def end(self, why: str) -> None:
        """Answer every open request with an error."""
        self._own.clear()
        waiting, self._listing = self._listing, []
        for listed in waiting:
            listed()
        for number in list(self._asked):
            self._answers(Envelope(id=Raw(str(number).encode())), jsonrpc.error(Raw(str(number).encode()), ENDED, why))


def _fault(head: Head, message: Envelope) -> tuple[int, str] | None:
    """Return the code and the text of what is wrong with a request; None if nothing is."""
    for header in (VERSION_HEADER, "mcp-method", "mcp-name"):
        if len(head.all(header)) > 1:
            return HEADER_MISMATCH, f"{header} is sent more than once"
    meta, params = _meta(message.params), mapping(decoded(message.params))
    if missing := [name for name in (VERSION, CAPABILITIES) if name not in meta]:
        return INVALID_PARAMS, f"params._meta has no {' and no '.join(missing)}"
    if head.get(VERSION_HEADER) != meta[VERSION]:
        return HEADER_MISMATCH, "the header MCP-Protocol-Version is not the version in params._meta"
    if head.get("mcp-method") != message.method:
        return HEADER_MISMATCH, "the header Mcp-Method is not the method of the request"
    name = params.get(NAMED.get(str(message.method), ""))
    if isinstance(name, str) and unwritten(head.get("mcp-name") or "") != name:
        return HEADER_MISMATCH, f"the header Mcp-Name is not the {NAMED[str(message.method)]} of the request"
    if message.method in REMOVED:
        return METHOD_NOT_FOUND, f"this protocol version has no {message.method}"
    return None


def _meta(params: Raw) -> Mapping[str, Any]:
    return mapping(mapping(decoded(params)).get("_meta"))


def _is_same(given: str | None, value: str | None) -> bool:
    """Compare two values; whole numbers by what they mean."""
    if given is None or value is None:
        return False
    if _WHOLE.fullmatch(given) and _WHOLE.fullmatch(value):
        return given.partition(".")[0] == value.partition(".")[0]
    return given == value


def _number(id: Raw | msgspec.UnsetType) -> int:
    return _integer(decoded(id)) if id is not UNSET else 0


def _integer(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
