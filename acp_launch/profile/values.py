"""
Values of a profile: numbers, lists, templates, addresses, headers, session names. Pure.

`Scalar`, `Listed`, `Switched` and `Template` are types and annotations of `model`; pydantic and `document.shape` ask
them which values fit. The functions below check addresses, headers and names, once in the profile and again after
references were filled in. pydantic is imported only when it asks for a schema.
"""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from ipaddress import IPv6Address
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from acp_launch.document.nodes import shorten
from acp_launch.document.scalars import Refused
from acp_launch.problem import KeyPath
from acp_launch.regex import regex
from acp_launch.secret.reference import PATTERN, parse

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

PORTS = (1024, 65535)  # those that every user may listen on
THIS_MACHINE = (0, 127)  # the first part of its IPv4 addresses
MAX_FACTOR = 100  # a larger number is most likely a mistake


class Scalar(Struct, frozen=True):
    """An annotation for one kind of value, as in `Annotated[int, COUNT]`.

    `accepts` decides, `schema` is the same for editors. `"5"` is text, and `1` is not a truth value. `read` says what a
    value stands for.
    """

    expected: str
    fix: str
    accepts: Callable[[Any], bool]
    schema: Mapping[str, Any]
    read: Callable[[Any], Any] = lambda value: value

    def take(self, value: Any, build: Callable[[Any], Any]) -> Any:
        """Return what the value stands for; raise Refused if it is not accepted."""
        if self.accepts(value):
            return self.read(value)
        raise Refused(self.expected, value, self.fix)

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(lambda value: self.take(value, handler))

    def __get_pydantic_json_schema__(self, schema: "CoreSchema", handler: "GetJsonSchemaHandler") -> dict[str, Any]:
        return dict(self.schema)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


TRUTH = Scalar("true or false", "write true or false", lambda value: isinstance(value, bool), {"type": "boolean"})
COUNT = Scalar(
    "a whole number from 0 up", "write a number such as 5, or 0 for none", _is_count, {"type": "integer", "minimum": 0}
)
LIMIT = Scalar(
    "a whole number from 0 up, or null",
    "write a number such as 5, 0 for none, or null for no limit",
    lambda value: value is None or _is_count(value),
    {"type": ["integer", "null"], "minimum": 0},
)
PORT = Scalar(
    f"a port from {PORTS[0]} to {PORTS[1]}",
    "write a number such as 8976, or remove it for any free port",
    lambda value: value is None or (_is_count(value) and PORTS[0] <= value <= PORTS[1]),
    {"type": ["integer", "null"], "minimum": PORTS[0], "maximum": PORTS[1]},
)
FACTOR = Scalar(
    f"a number from 1 to {MAX_FACTOR}",
    "write a number such as 2, or 1 for equal pauses",
    lambda value: isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= MAX_FACTOR,
    {"type": "number", "minimum": 1, "maximum": MAX_FACTOR},
)
SETTING = Scalar(
    "text, true or false",
    "write text, true or false",
    lambda value: isinstance(value, str | bool),
    {"type": ["string", "boolean"]},
)
INHERIT = Scalar(
    "all, minimal or a list of names",
    "write all, minimal, or names: [PATH, LC_*]",
    lambda value: (
        value in ("all", "minimal") or (isinstance(value, list) and all(isinstance(item, str) for item in value))
    ),
    {"anyOf": [{"enum": ["all", "minimal"], "type": "string"}, {"items": {"type": "string"}, "type": "array"}]},
)
AGENT_INHERIT = replace(
    INHERIT,
    accepts=lambda value: value is None or INHERIT.accepts(value),
    schema={"anyOf": [*INHERIT.schema["anyOf"], {"type": "null"}]},
)
FILES = Scalar(
    "true, false or read",
    "write true, false or read",
    lambda value: isinstance(value, bool) or value == "read",
    {"enum": [True, False, "read"]},
)
SHARED = Scalar(
    "false, launch or user",
    "write false, launch or user",
    lambda value: isinstance(value, bool) or value in ("launch", "user"),
    {"enum": [False, "launch", "user", True]},
    lambda value: "launch" if value is True else value,
)


_UNATTENDED = r"deny|allow-reads|wait (?=.*[1-9])[0-9]{1,6}(?:\.[0-9]{1,3})?(?:ms|s|m|h)"
UNATTENDED = Scalar(
    "wait and a duration, deny or allow-reads",
    "write wait 30m, deny or allow-reads",
    lambda value: isinstance(value, str) and re.fullmatch(_UNATTENDED, value) is not None,
    {"type": "string", "pattern": f"^(?:{_UNATTENDED})$", "examples": ["wait 30m", "deny", "allow-reads"]},
)


class _Shorthand:
    """An annotation for values that have a shorter notation, which `unfold` makes long."""

    def unfold(self, value: Any) -> Any:
        raise NotImplementedError

    def take(self, value: Any, build: Callable[[Any], Any]) -> Any:
        """Build the value; raise ValueError if it does not fit."""
        return build(self.unfold(value))

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
    def take(cls, value: object) -> Self:
        """Return a template; raise ValueError if it is not text, BadReference if a reference in it is wrong."""
        if not isinstance(value, str):
            raise ValueError(f"expected text, found {value!r}")
        parse(value)
        return cls(value)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(cls.take, core_schema.str_schema(strict=True))

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
_IS_REGISTERED = regex(_REGISTERED)
REGISTERED = Scalar(
    "an agent of the registry, as ID or ID@VERSION",
    "write an id that acp-launch agents search lists",
    lambda value: isinstance(value, str) and bool(_IS_REGISTERED.fullmatch(value)),
    {"type": "string", "pattern": f"^{_REGISTERED}$"},
)
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
    """Return what is wrong with a session's name; empty if nothing is."""
    if not name.strip():
        return "the session's name is empty"
    if len(name) > MAX_SESSION_NAME:
        return f"the session's name has {len(name)} characters; at most {MAX_SESSION_NAME} are allowed"
    if name.startswith("-"):
        return f'the session\'s name "{shorten(name)}" begins with "-" like an option'
    return "" if name.isprintable() else "the session's name holds characters that cannot be printed"


def url_fault(url: str) -> str:
    """Return what is wrong with an address; empty if nothing is. References in it may still stand for anything."""
    if url.startswith("$") or not url.strip():
        return "" if url.strip() else "the url is empty"
    if re.search(r"[\s\x00-\x1f\x7f]", re.sub(r"\$\{[^}]*\}", "", url)):
        return "the url holds a space or a control character"
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.lower() not in {"http", "https"}:
        return f'expected an http or https url, found "{shorten(url)}"'
    return "" if rest and rest[0] not in "/?#:" else f'the url "{shorten(url)}" has no host'


def user_fault(url: str) -> str:
    """Return what is wrong with the user part of an address; empty if it has none."""
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
    """Return what is wrong with a scope (RFC 6749, section 3.3); empty if nothing is."""
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
    """Return what is wrong with a header's value; empty if nothing is."""
    unfit = CONTROL.search(value) or BEYOND.search(value)
    return f"a header cannot hold the character U+{ord(unfit.group()):04X}" if unfit else ""
