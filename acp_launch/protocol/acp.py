"""
The words of ACP v1 that this client reads, decoded leniently (facts: schema `x-deserialize-*`, C-22).

A malformed optional member counts as omitted, a bad item of a list is dropped alone, and an omitted or null
capability is unsupported (C-19). Only what the agent must send is insisted on.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from acp_launch import __version__
from acp_launch.errors import RemoteProtocolError
from acp_launch.protocol import authmethod

PROTOCOL_VERSION = 1
CLIENT_INFO = {"name": "acp-launch", "title": "acp-launch", "version": __version__}


class Capabilities(Struct, frozen=True):
    """What the agent says it can do; anything it does not say is False."""

    load: bool = False
    resume: bool = False
    list: bool = False
    close: bool = False
    delete: bool = False
    additional_directories: bool = False
    http: bool = False
    sse: bool = False
    image: bool = False
    audio: bool = False
    embedded_context: bool = False
    logout: bool = False


class Negotiated(Struct, frozen=True):
    """The agent's answer to `initialize`; `raw` is the whole of it, for scripts."""

    version: int
    capabilities: Capabilities
    name: str  # of the agent, for the session store; empty when it does not say
    title: str  # of the agent, for people
    agent_version: str
    auth_methods: tuple[authmethod.AuthMethod, ...]
    raw: Raw


def read_negotiated(result: Raw) -> Negotiated:
    """Read the answer to `initialize`.

    Raises:
        RemoteProtocolError: there is no protocol version in it, or one we do not speak (C-17).
    """
    answer = mapping(decoded(result))
    version = answer.get("protocolVersion")
    if not isinstance(version, int) or isinstance(version, bool):
        raise RemoteProtocolError("the agent's answer to initialize names no protocol version")
    if version != PROTOCOL_VERSION:
        raise RemoteProtocolError(
            f"the agent speaks ACP version {version}, acp-launch speaks version {PROTOCOL_VERSION}",
            fix="use a release of the agent that speaks version 1",
        )
    info = mapping(answer.get("agentInfo"))
    name = text(info.get("name"))
    return Negotiated(
        version=version,
        capabilities=_capabilities(mapping(answer.get("agentCapabilities"))),
        name=name,
        title=text(info.get("title")) or name,
        agent_version=text(info.get("version")),
        auth_methods=authmethod.read(answer.get("authMethods")),
        raw=result.copy(),
    )


def _capabilities(said: dict[str, Any]) -> Capabilities:
    session = mapping(said.get("sessionCapabilities"))
    mcp = mapping(said.get("mcpCapabilities"))
    prompt = mapping(said.get("promptCapabilities"))
    return Capabilities(
        load=said.get("loadSession") is True,
        resume=isinstance(session.get("resume"), dict),
        list=isinstance(session.get("list"), dict),
        close=isinstance(session.get("close"), dict),
        delete=isinstance(session.get("delete"), dict),
        additional_directories=isinstance(session.get("additionalDirectories"), dict),
        http=mcp.get("http") is True,
        sse=mcp.get("sse") is True,
        image=prompt.get("image") is True,
        audio=prompt.get("audio") is True,
        embedded_context=prompt.get("embeddedContext") is True,
        logout=isinstance(mapping(said.get("auth")).get("logout"), dict),
    )


def read_session_id(result: Raw) -> str:
    """The id in the answer to `session/new`.

    Raises:
        RemoteProtocolError: there is none.
    """
    session_id = mapping(decoded(result)).get("sessionId")
    if not isinstance(session_id, str) or not session_id:
        raise RemoteProtocolError("the agent opened a session without a sessionId")
    return session_id


class SessionUpdate(msgspec.Struct, gc=False):
    """The parameters of `session/update`; the update itself stays bytes."""

    sessionId: str  # noqa: N815 - wire name
    update: Raw


class UpdateKind(msgspec.Struct, gc=False):
    """As much of an update as decides what to do with it."""

    sessionUpdate: str  # noqa: N815


class _Text(msgspec.Struct, gc=False):
    type: str = ""
    text: str = ""


class Chunk(msgspec.Struct, gc=False):
    """A piece of a message: `content.text` is empty for anything that is not text."""

    content: _Text
    messageId: str | None = None  # noqa: N815


session_update = msgspec.json.Decoder(SessionUpdate)
update_kind = msgspec.json.Decoder(UpdateKind)
chunk = msgspec.json.Decoder(Chunk)


def read_update(params: Raw) -> tuple[str, str, Raw] | None:
    """Session, kind and body of a `session/update` that the decoders above refuse, although it is JSON: there is half a
    surrogate pair somewhere in it (see `decoded`). None for what is none."""
    from acp_launch.protocol import splice  # regular expressions: rarely needed, not for nothing

    said = mapping(decoded(params))
    session_id, kind = said.get("sessionId"), mapping(said.get("update")).get("sessionUpdate")
    if not isinstance(session_id, str) or not isinstance(kind, str):
        return None
    whole = bytes(params)
    try:
        body = [Raw(whole[each.start : each.end]) for each in splice.members(whole) if each.key == "update"][-1]
    except (splice.Malformed, RecursionError):
        return None
    return session_id, kind, body


def decoded(raw: Raw | bytes) -> Any:
    """Plain Python values, for messages that are rare and read leniently; None for what is no JSON inside.

    The standard library gets a second try: it reads half a surrogate pair, which is what a JavaScript agent sends
    when it cuts its text in the middle of an emoji (see `console.draw.halves`).
    """
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _second_try(bytes(raw))


def _second_try(raw: bytes) -> Any:
    import json

    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def read_chunk(raw: Raw) -> tuple[str, str]:
    """The text of a piece of a message, empty when it is something else, and its message id, empty without one."""
    try:
        piece = chunk.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        body = mapping(decoded(raw))
        return text(mapping(body.get("content")).get("text")), text(body.get("messageId"))
    return piece.content.text, piece.messageId or ""


def mapping(value: object) -> dict[str, Any]:
    """`value` if it is an object, else an empty one: a malformed member counts as omitted."""
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    return value if isinstance(value, str) else ""
