"""
The values of ACP v1 that this client reads, decoded leniently (schema `x-deserialize-*`, C-22), and those it sends.

A malformed optional member counts as omitted, a bad item of a list is dropped alone, and an omitted or null
capability is unsupported (C-19). Only required members of the agent's messages cause an error. Login methods come
first, then the answer to `initialize`, session updates, the client's own capabilities, and the protocol's fixed words.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from acp_launch import __version__
from acp_launch.errors import RemoteProtocolError
from acp_launch.protocol import splice
from acp_launch.regex import regex

# The ways to log in that an agent lists in `authMethods` (ACP v1 "Authentication"), read leniently (C-22).
#
# agent      `authenticate` with its id; the agent does the rest. Also for a missing or unknown type (C-28)
# terminal   the agent's own program, with further arguments, on the user's terminal; never `authenticate` (C-24)
#
# Agents still use two forms outside the protocol: `env_var`, which names the variables that the agent reads, and
# `_meta["terminal-auth"]`, a command line chosen by the agent, in a method without a type.


LEGACY = "terminal-auth"
OWN_COMMAND = "log in with the agent's own command, then run this again"  # the fix if no method is usable
_NAME = regex("[A-Za-z_][A-Za-z0-9_]*")


class Variable(Struct, frozen=True):
    """An environment variable from which the agent reads its credentials; `label` may be empty."""

    name: str
    label: str = ""
    secret: bool = True
    optional: bool = False


class AuthMethod(Struct, frozen=True):
    """A way to log in.

    `args` and `env` belong to `terminal`; `variables` and `link` to `env_var`; `command` and `command_env` are the
    agent's command line. A method with a command line is not for `authenticate`.
    """

    id: str
    name: str
    description: str = ""
    type: Literal["agent", "terminal"] = "agent"
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    variables: tuple[Variable, ...] = ()
    link: str = ""
    command: tuple[str, ...] = ()
    command_env: Mapping[str, str] = {}


def read(items: object) -> tuple[AuthMethod, ...]:
    """Read `authMethods`. A bad method is dropped alone, and so is a second one with the same id."""
    methods: dict[str, AuthMethod] = {}
    for item in sequence(items):
        method = _method(item)
        if method is not None:
            methods.setdefault(method.id, method)
    return tuple(methods.values())


def _method(item: object) -> AuthMethod | None:
    said = mapping(item)
    id, name = said.get("id"), said.get("name")
    if not isinstance(id, str) or not isinstance(name, str):
        return None
    about = text(said.get("description"))
    match said.get("type"):
        case "terminal":
            return _terminal(said, id, name, about)
        case "agent":
            return AuthMethod(id, name, about)
        case "env_var":
            return AuthMethod(id, name, about, variables=_variables(said.get("vars")), link=text(said.get("link")))
    command, env = _command(mapping(said.get("_meta")).get(LEGACY))
    return AuthMethod(id, name, about, command=command, command_env=env)


def _terminal(said: dict[str, Any], id: str, name: str, about: str) -> AuthMethod | None:
    """Return None if its arguments are not strings: without them the program would start as an agent (the schema has
    a default only for null)."""
    args, env = _strings(said.get("args")), _texts(said.get("env"))
    if args is None or env is None:
        return None
    return AuthMethod(id, name, about, "terminal", args, env)


def _command(said: object) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """Return the command line and its variables, empty if malformed: a malformed `_meta` counts as omitted."""
    form = mapping(said)
    command, args, env = _strings([form.get("command")]), _strings(form.get("args")), _texts(form.get("env"))
    if not command or not command[0] or args is None or env is None:
        return (), {}
    return (*command, *args), env


def _variables(items: object) -> tuple[Variable, ...]:
    """Return those with a name that a shell, or a profile, could set."""
    return tuple(
        Variable(said["name"], text(said.get("label")), said.get("secret") is not False, said.get("optional") is True)
        for said in map(mapping, sequence(items))
        if _NAME.fullmatch(text(said.get("name")))
    )


def _strings(value: object) -> tuple[str, ...] | None:
    """Return an empty tuple for an omitted or null value, None if it is not a list of strings fit for a process."""
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) and "\0" not in item for item in value):
        return None
    return tuple(value)


def _texts(value: object) -> Mapping[str, str] | None:
    """Return an empty mapping for an omitted or null value, None if these are not variables fit for a process."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        return None
    fit = all(name and not set("=\0") & set(name) and "\0" not in text for name, text in value.items())
    return value if fit else None


PROTOCOL_VERSION = 1
CLIENT_INFO = {"name": "acp-launch", "title": "acp-launch", "version": __version__}


class Capabilities(Struct, frozen=True):
    """The agent's capabilities; those it does not mention are False."""

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
    name: str  # of the agent, for the session store; may be empty
    title: str  # of the agent, for users
    agent_version: str
    auth_methods: tuple[AuthMethod, ...]
    raw: Raw


def read_negotiated(result: Raw) -> Negotiated:
    """Read the answer to `initialize`.

    Raises:
        RemoteProtocolError: it has no protocol version, or one that we do not speak (C-17).
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
        auth_methods=read(answer.get("authMethods")),
        raw=result.copy(),
    )


def _capabilities(said: dict[str, Any]) -> Capabilities:
    session, mcp, prompt = (mapping(said.get(f"{each}Capabilities")) for each in ("session", "mcp", "prompt"))
    return Capabilities(
        load=said.get("loadSession") is True,
        **{name: isinstance(session.get(name), dict) for name in ("resume", "list", "close", "delete")},
        additional_directories=isinstance(session.get("additionalDirectories"), dict),
        **{name: mcp.get(name) is True for name in ("http", "sse")},
        **{name: prompt.get(name) is True for name in ("image", "audio")},
        embedded_context=prompt.get("embeddedContext") is True,
        logout=isinstance(mapping(said.get("auth")).get("logout"), dict),
    )


def read_session_id(result: Raw) -> str:
    """Return the id in the answer to `session/new`.

    Raises:
        RemoteProtocolError: the id is missing.
    """
    session_id = mapping(decoded(result)).get("sessionId")
    if not isinstance(session_id, str) or not session_id:
        raise RemoteProtocolError("the agent opened a session without a sessionId")
    return session_id


_UPDATE_METHOD = b'"session/update"'


class SessionUpdate(msgspec.Struct, gc=False):
    """The parameters of `session/update`; the update itself stays bytes."""

    sessionId: str  # noqa: N815 - wire name
    update: Raw


class _UpdateLine(msgspec.Struct, gc=False):
    """A line with a `session/update`, which is a notification if it has no `id`."""

    method: Literal["session/update"]
    params: SessionUpdate
    id: Raw | msgspec.UnsetType = msgspec.UNSET


class UpdateKind(msgspec.Struct, gc=False):
    """The part of an update that decides how it is handled."""

    sessionUpdate: str  # noqa: N815


class _Text(msgspec.Struct, gc=False):
    type: str = ""
    text: str = ""


class Chunk(msgspec.Struct, gc=False):
    """A chunk of a message: `content.text` is empty if the content is not text."""

    content: _Text
    messageId: str | None = None  # noqa: N815


update_line = msgspec.json.Decoder(_UpdateLine)
update_kind = msgspec.json.Decoder(UpdateKind)
chunk = msgspec.json.Decoder(Chunk)


def read_update_line(line: bytes) -> tuple[str, str, Raw] | None:
    """Return session, kind and body of a line with a `session/update`; None if it is none, or written unusually."""
    if _UPDATE_METHOD not in line:
        return None
    try:
        if not line.isascii():
            line.decode()  # the decoder does not check Raw members
        said = update_line.decode(line)
        update = said.params.update
        found = said.params.sessionId, update_kind.decode(update).sessionUpdate, update
        return found if said.id is msgspec.UNSET else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def read_update(params: Raw) -> tuple[str, str, Raw] | None:
    """Return the same of the parameters of any `session/update`, also with half a surrogate pair (see `decoded`)."""
    said = mapping(decoded(params))
    session_id, kind = said.get("sessionId"), mapping(said.get("update")).get("sessionUpdate")
    if not isinstance(session_id, str) or not isinstance(kind, str):
        return None
    found = splice.at(whole := bytes(params), ("update",))
    return None if found is None else (session_id, kind, Raw(whole[found[0] : found[1]]))


def decoded(raw: Raw | bytes) -> Any:
    """Return plain Python values, for rare messages that are read leniently; None if it is not JSON.

    The standard library is the second try: it accepts half a surrogate pair, which a JavaScript agent sends when it
    cuts its text in the middle of an emoji (see `console.stream.outlet`).
    """
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            return json.loads(bytes(raw))
        except (ValueError, RecursionError):
            return None


def read_chunk(raw: Raw) -> tuple[str, str]:
    """Return the text of a message chunk, empty if it is not text, and its message id, empty if missing."""
    try:
        piece = chunk.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        body = mapping(decoded(raw))
        return text(mapping(body.get("content")).get("text")), text(body.get("messageId"))
    return piece.content.text, piece.messageId or ""


def mapping(value: object) -> dict[str, Any]:
    """Return `value` if it is an object, else an empty one: a malformed member counts as omitted."""
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def prompt_text(blocks: Sequence[object]) -> str:
    return "\n".join(filter(None, (text(mapping(block).get("text")) for block in blocks)))


# The client capabilities that we offer an agent, and therefore serve completely (ACP v1 "Client capabilities", C-20).


class Offers(Struct, frozen=True, kw_only=True):
    """The offered capabilities. Everything is off unless a caller serves it."""

    read_files: bool = False
    write_files: bool = False
    terminals: bool = False
    forms: bool = False
    urls: bool = False
    terminal_login: bool = False  # there is a terminal to run the agent's own login on (C-25)

    @property
    def methods(self) -> frozenset[str]:
        """The agent's requests that are served; any other is answered with "method not found" (C-68)."""
        verbs = ("create", "output", "release", "wait_for_exit", "kill") if self.terminals else ()
        served = {
            "fs/read_text_file": self.read_files,
            "fs/write_text_file": self.write_files,
            "elicitation/create": self.forms or self.urls,
        }
        return frozenset(name for name, is_served in served.items() if is_served) | {
            f"terminal/{verb}" for verb in verbs
        }

    def as_json(self) -> dict[str, Any]:
        """Return the `clientCapabilities` of `initialize`. An empty `elicitation` offers nothing, so it is left out."""
        said: dict[str, Any] = {
            "fs": {"readTextFile": self.read_files, "writeTextFile": self.write_files},
            "terminal": self.terminals,
            "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
        }
        if self.forms or self.urls:
            offered = (("form", self.forms), ("url", self.urls))
            said["elicitation"] = {name: {} for name, is_offered in offered if is_offered}
        if self.terminal_login:
            said["auth"] = {"terminal": True}
            said["_meta"] = {"terminal-auth": True}  # for agents older than `auth.terminal`
        return said


# The fixed words of ACP v1: its member names, its enumerated values, and the members that are numbers.
#
# They are the structure of a message, not text of a user or an agent, so the redactor must not change them. Taken from
# the schema, with the unstable members that agents send; the tests compare.


_NAMES = """
    _meta action additionalDirectories agentCapabilities agentInfo amount annotations args audience audio auth
    authMethods availableCommands availableModes blob boolean cachedReadTokens cachedWriteTokens category
    clientCapabilities clientInfo close code command compaction compactionId configId configOptions content cost
    currency currentModeId currentValue cursor cwd data default delete description elicitation elicitationId
    embeddedContext entries env error exitCode exitStatus form fs group headers hint http id image input inputTokens
    jsonrpc kind lastModified limit line list loadSession locations logout mcpCapabilities mcpServers message messageId
    method methodId mimeType mode modeId modes name newText nextCursor notices oldText optionId options outcome output
    outputByteLimit outputTokens params path plan planId priority prompt promptCapabilities protocolVersion rawInput
    rawOutput readTextFile requestId requestedSchema resource result resume session sessionCapabilities sessionId
    sessionUpdate sessions severity signal size sse status stopReason summary terminal terminalId text thoughtTokens
    title toolCall toolCallId totalTokens truncated type update updatedAt uri url usage used value version
    writeTextFile
    anyOf const enum format items maxItems maxLength maximum minItems minLength minimum oneOf pattern properties
    required
"""
NAMES = frozenset(_NAMES.split())

# Without those of JSON-RPC (id, code): inside other members their values may be any text.
_NUMBERS = """
    amount cachedReadTokens cachedWriteTokens exitCode inputTokens limit line outputByteLimit outputTokens
    protocolVersion size thoughtTokens totalTokens used
"""
NUMBERS = frozenset(_NUMBERS.split())

_VALUES = {
    "action": "accept cancel decline",
    "audience": "assistant user",
    "category": "mode model model_config thought_level",
    "jsonrpc": "2.0",
    "kind": "allow_always allow_once delete edit execute fetch move other read reject_always reject_once search"
    " switch_mode think",
    "mimeType": "application/json application/octet-stream application/pdf audio/mpeg audio/wav image/gif image/jpeg"
    " image/png image/svg+xml image/webp text/html text/markdown text/plain",
    "mode": "form url",
    "outcome": "cancelled selected",
    "priority": "high low medium",
    "role": "assistant user",
    "sessionUpdate": "agent_message_chunk agent_thought_chunk available_commands_update compaction_summary_chunk"
    " compaction_update config_option_update current_mode_update notice plan session_info_update tool_call"
    " tool_call_update usage_update user_message_chunk",
    "severity": "error info warning",
    "status": "cancelled completed failed in_progress pending",
    "stopReason": "cancelled end_turn max_tokens max_turn_requests refusal",
    "type": "agent array audio boolean content diff env_var http image integer number object resource resource_link"
    " select sse string terminal text",
}
VALUES = {name: frozenset(words.split()) for name, words in _VALUES.items()}


def is_structure(name: str, value: object) -> bool:
    """Return whether a member's value is structure: a word of the protocol, or a number where one belongs."""
    if isinstance(value, str):
        return value in VALUES.get(name, ())
    return name in NUMBERS
