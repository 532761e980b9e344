"""
Values of a profile: numbers, lists, templates, addresses, headers, session names. Pure.

The types and annotations of `model` are at the top; `document.shape` tells their requirements. The functions below
check addresses, headers and names, once in the profile and again after references were filled in. pydantic is imported
only when it asks for a schema.
"""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv6Address
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct, ValidationError, convert
from msgspec.structs import replace

from acp_launch.document.nodes import shorten
from acp_launch.document.scalars import Refused
from acp_launch.problem import KeyPath
from acp_launch.regex import regex
from acp_launch.secret.value import PATTERN, parse

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

PORTS = (1024, 65535)  # those that every user may listen on
THIS_MACHINE = (0, 127)  # the first part of its IPv4 addresses
MAX_FACTOR = 100  # a larger number is most likely a mistake


class Scalar(Struct, frozen=True):
    """
    The words for one kind of value, as in `Annotated[bool, Scalar(bool, "true or false", "write true or false")]`.

    msgspec decides whether a value is of the `kind`, whose schema is the same for editors. `"5"` is text, and `1` is
    not a truth value. `unfold` says what a value stands for; it leaves others as they are.
    """

    kind: Any
    expected: str
    fix: str
    unfold: Callable[[Any], Any] | None = None

    def from_plain(self, value: Any) -> Any:
        """Return what the value stands for; raise Refused if it is not of the kind."""
        try:
            found = convert(float(value) if isinstance(value, float) else value, self.kind)
        except ValidationError:
            raise Refused(self.expected, value, self.fix) from None
        return self.unfold(value) if self.unfold else found

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(self.from_plain)

    def __get_pydantic_json_schema__(self, schema: "CoreSchema", handler: "GetJsonSchemaHandler") -> dict[str, Any]:
        return msgspec.json.schema(self.kind)


_WHOLE = Annotated[int, Meta(ge=0)]
_PORT = Annotated[int, Meta(ge=PORTS[0], le=PORTS[1])]
_FACTOR = Annotated[float, Meta(ge=1, le=MAX_FACTOR)]
_UNATTENDED = Annotated[
    str,
    Meta(
        pattern=r"^(?:deny|allow-reads|wait (?=.*[1-9])[0-9]{1,6}(?:\.[0-9]{1,3})?(?:ms|s|m|h))$",
        examples=["wait 30m", "deny", "allow-reads"],
    ),
]
Inherit = Literal["all", "minimal"] | Sequence[str]
Share = Literal[False, "launch", "user"]
Truth = Annotated[bool, Scalar(bool, "true or false", "write true or false")]
Count = Annotated[_WHOLE, Scalar(_WHOLE, "a whole number from 0 up", "write a number such as 5, or 0 for none")]
Limit = Annotated[
    _WHOLE | None,
    Scalar(
        _WHOLE | None,
        "a whole number from 0 up, or null",
        "write a number such as 5, 0 for none, or null for no limit",
    ),
]
Port = Annotated[
    _PORT | None,
    Scalar(
        _PORT | None,
        f"a port from {PORTS[0]} to {PORTS[1]}",
        "write a number such as 8976, or remove it for any free port",
    ),
]
Factor = Annotated[
    _FACTOR, Scalar(_FACTOR, f"a number from 1 to {MAX_FACTOR}", "write a number such as 2, or 1 for equal pauses")
]
Setting = Annotated[str | bool, Scalar(str | bool, "text, true or false", "write text, true or false")]
INHERIT = Scalar(Inherit, "all, minimal or a list of names", "write all, minimal, or names: [PATH, LC_*]")
AGENT_INHERIT = replace(INHERIT, kind=Inherit | None)
Files = Annotated[
    bool | Literal["read"], Scalar(bool | Literal["read"], "true, false or read", "write true, false or read")
]
Shared = Annotated[
    Share,
    Scalar(
        Literal[False, "launch", "user", True],
        "false, launch or user",
        "write false, launch or user",
        lambda value: "launch" if value is True else value,
    ),
]
Unattended = Annotated[
    _UNATTENDED, Scalar(_UNATTENDED, "wait and a duration, deny or allow-reads", "write wait 30m, deny or allow-reads")
]


class _Shorthand:
    """An annotation for values that have a shorter notation, which `unfold` makes long; it may raise ValueError."""

    def unfold(self, value: Any) -> Any:
        raise NotImplementedError

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(self.unfold, handler(source))


class Listed(_Shorthand):
    """An annotation for lists in which one text stands for a list of one. An empty list is for `rules` to refuse."""

    def unfold(self, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    def __get_pydantic_json_schema__(self, schema: "CoreSchema", handler: "GetJsonSchemaHandler") -> dict[str, Any]:
        listed = handler(schema)
        return {"anyOf": [listed["items"], {**listed, "minItems": 1}]}


class Switched(_Shorthand):
    """An annotation for a mapping, or None, in which `true` stands for an empty mapping, and `false` for None."""

    def unfold(self, value: Any) -> Any:
        if value is None or isinstance(value, dict):
            return value
        if isinstance(value, bool):
            return {} if value else None
        raise Refused("true or a mapping", value, "write true")

    def __get_pydantic_json_schema__(self, schema: "CoreSchema", handler: "GetJsonSchemaHandler") -> dict[str, Any]:
        return {"anyOf": [{"type": "boolean"}, *handler(schema)["anyOf"]]}


LISTED, SWITCHED = Listed(), Switched()


class Template(str):
    """Text in which references are allowed. After validation its references are well formed."""

    __slots__ = ()

    @classmethod
    def from_plain(cls, value: object) -> Self:
        """Return a template; raise ValueError if it is not text, BadReference if a reference in it is wrong."""
        if not isinstance(value, str):
            raise ValueError(f"expected text, found {value!r}")
        parse(value)
        return cls(value)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(cls.from_plain, core_schema.str_schema(strict=True))

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: "CoreSchema", handler: "GetJsonSchemaHandler") -> dict[str, Any]:
        return {"type": "string", "pattern": PATTERN}


def templates(value: object, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Template]]:
    """Yield every text that may hold references, with its path, depth first in the order of the model.

    `value` is a Profile, or the part of one at `path`.
    """
    if isinstance(value, Template):
        yield path, value
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from templates(entry, (*path, key))
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from templates(item, (*path, index))
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            yield from templates(getattr(value, name), (*path, name))


AGENT_ID = r"[a-z][a-z0-9-]{0,63}"  # in the registry
AGENT_VERSION = r"[0-9A-Za-z][0-9A-Za-z.+-]{0,63}"  # also the name of a directory
_REGISTERED = rf"{AGENT_ID}(?:@{AGENT_VERSION})?"
_AGENT = Annotated[str, Meta(pattern=f"^{_REGISTERED}$")] | None
Registered = Annotated[
    _AGENT,
    Scalar(_AGENT, "an agent of the registry, as ID or ID@VERSION", "write an id that acp-launch agents search lists"),
]
MAX_SESSION_NAME = 200  # characters
CONTROL = regex(r"[\x00-\x08\x0a-\x1f\x7f]")  # forbidden in headers; a tab is allowed
SCOPE = regex(r"[\x21\x23-\x5b\x5d-\x7e]+")  # RFC 6749 "scope-token"
BEYOND = regex(r"[^\x00-\xff]")  # cannot be sent in headers, which are Latin-1
# Headers that belong to a connection or to its protocol, and cannot be configured.
HEADER_NAMES = frozenset({"connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "upgrade"})
HEADER_NAMES |= {"last-event-id", "proxy-connection", "transfer-encoding"}
HEADER_NAMES |= {"accept", "accept-encoding", "content-encoding", "content-type"}
HEADER_BEGINNING = "mcp-"  # Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Param-*
VARIABLE_HEADER = "X-Env-"  # begins the header in which a remote server gets a variable
HeaderSpelling = Literal["exact", "dashes", "off"]
HEADER_FIX = "write it on one line, in ASCII"
CLEAR = "{} would be sent unencrypted: the url is http, and its host is not this machine"  # names
CLEAR_FIX = "write https://, or reach it through a tunnel on localhost; insecure: true sends it anyway"
LITERAL = "a client secret is written in the profile"
LOGIN_CLEAR_FIX = "write https://, or reach it through a tunnel on localhost"
USER_FIX = 'remove it, and write headers: {Authorization: "Basic ${secret:NAME}"}'
URL_FIX = "write an address that begins with https:// or http://"
SESSION_NAME_FIX = f"choose a printable name of 1 to {MAX_SESSION_NAME} characters that begins with no dash"


def session_name_fault(name: str) -> str:
    """Return the fault of a session's name, empty if it is valid."""
    if not name.strip():
        return "the session's name is empty"
    if len(name) > MAX_SESSION_NAME:
        return f"the session's name has {len(name)} characters; at most {MAX_SESSION_NAME} are allowed"
    if name.startswith("-"):
        return f'the session\'s name "{shorten(name)}" begins with "-" like an option'
    return "" if name.isprintable() else "the session's name holds characters that cannot be printed"


def url_fault(url: str) -> str:
    """Return the fault of an address, empty if it is valid. References in it may still stand for anything."""
    if url.startswith("$") or not url.strip():
        return "" if url.strip() else "the url is empty"
    if re.search(r"[\s\x00-\x1f\x7f]", re.sub(r"\$\{[^}]*\}", "", url)):
        return "the url holds a space or a control character"
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.lower() not in {"http", "https"}:
        return f'expected an http or https url, found "{shorten(url)}"'
    return "" if rest and rest[0] not in "/?#:" else f'the url "{shorten(url)}" has no host'


def user_fault(url: str) -> str:
    """Return the fault of an address's user part, empty without one."""
    return "the url holds a user name or a password, which end up in logs" if "@" in host(url) else ""


def free_name(wanted: str, taken: Container[str], sign: str = "-") -> str:
    """Return the name, or the first of name-2, name-3 and so on that is not taken; `sign` stands before the number."""
    names = (f"{wanted}{sign}{number}" if number > 1 else wanted for number in count(1))
    return next(name for name in names if name not in taken)


def host(url: str) -> str:
    """Return the host of an address, with user, port and references."""
    return re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0]


def is_local(url: str) -> bool:
    """Whether the address names this machine, however it spells that. What DNS says of a name does not count."""
    name = (urlsplit(url).hostname or "").rstrip(".")
    return name == "localhost" or name.endswith(".localhost") or is_loopback(name)


def is_loopback(literal: str) -> bool:
    """Whether an IP address is one of this machine alone. A name is not."""
    import socket  # only needed for addresses without encryption

    try:
        if not re.search(r"\s", literal):  # what follows a space would be ignored
            return socket.inet_aton(literal)[0] in THIS_MACHINE  # also `127.1`, `0x7f000001`, `2130706433`
    except (OSError, ValueError):
        pass
    try:
        address = IPv6Address(literal.partition("%")[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped
    return address.is_loopback or address.is_unspecified or (mapped is not None and int(mapped) >> 24 in THIS_MACHINE)


def is_in_the_clear(url: str) -> bool:
    """Whether requests to it cross the network unencrypted; `url_fault` must have accepted `url`."""
    try:
        return url.lower().startswith("http://") and not is_local(url)
    except ValueError:  # brackets without an address; nothing can be sent
        return False


def scope_fault(scope: str) -> str:
    """Return the fault of a scope (RFC 6749, section 3.3), empty if it is valid."""
    if not scope:
        return "the scope is empty"
    return "" if SCOPE.fullmatch(scope) else f'"{shorten(scope)}" is not one scope'


def variable_headers(names: Iterable[str], spelling: Any) -> dict[str, str]:
    """Return the header in which a remote server gets each of these variables; none if they are not sent."""
    if spelling == "off":
        return {}
    return {name: VARIABLE_HEADER + (name.replace("_", "-") if spelling == "dashes" else name) for name in names}


def header_name_fault(name: str) -> str:
    """Return why a header of this name cannot be configured; empty if it can."""
    is_taken = name.lower() in HEADER_NAMES or name.lower().startswith(HEADER_BEGINNING)
    return f'the connection itself sets "{name}", for each request' if is_taken else ""


def header_fault(value: str) -> str:
    """Return the fault of a header's value, empty if it is valid."""
    unfit = CONTROL.search(value) or BEYOND.search(value)
    return f"a header cannot hold the character U+{ord(unfit.group()):04X}" if unfit else ""
