"""
Values of a profile: scalars, lists, templates, addresses, headers, names of sessions. Pure.

pydantic and the strict builder ask them what is accepted; a fault found here is said of a profile and again of what its
references became.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from msgspec import Struct

from acp_launch.document.nodes import shorten
from acp_launch.problem import KeyPath
from acp_launch.secret.reference import PATTERN, BadReference, parse

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

# Numbers and truth values of a profile, taken as they stand: YAML's `"5"` is text and `1` is no truth value. Pure.
#
# Used as `Annotated[int, COUNT]`; with `Annotated[tuple[str, ...], LISTED]` a text stands for a list of one. Importing
# this costs nothing; pydantic asks the note for its schema, and only then is it imported. It refuses with a
# `PydanticCustomError` that says what is expected and whose context carries `fix`.


MOST = 100  # of a factor: what is more was meant to be something else


class Scalar(Struct, frozen=True):
    """What one kind of value must be; `accepts` decides, `schema` is the same for editors."""

    expected: str
    fix: str
    accepts: Callable[[Any], bool]
    schema: Mapping[str, Any]

    def take(self, value: Any, build: Callable[[Any], Any]) -> Any:
        """Raises ValueError when it is not accepted."""
        if not self.accepts(value):
            raise ValueError(self.expected)
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(self._checked)

    def __get_pydantic_json_schema__(self, schema: "CoreSchema", handler: "GetJsonSchemaHandler") -> dict[str, Any]:
        return dict(self.schema)

    def _checked(self, value: Any) -> Any:
        from pydantic_core import PydanticCustomError

        if self.accepts(value):
            return value
        raise PydanticCustomError("bad_scalar", "{expected}", {"expected": self.expected, "fix": self.fix})


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_factor(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= MOST


TRUTH = Scalar("true or false", "write true or false", lambda value: isinstance(value, bool), {"type": "boolean"})
COUNT = Scalar(
    "a whole number from 0 up", "write a number such as 5, or 0 for none", _is_count, {"type": "integer", "minimum": 0}
)
FACTOR = Scalar(
    f"a number from 1 to {MOST}",
    "write a number such as 2, or 1 for equal pauses",
    _is_factor,
    {"type": "number", "minimum": 1, "maximum": MOST},
)
SETTING = Scalar(
    "text, true or false",
    "write text, true or false",
    lambda value: isinstance(value, str | bool),
    {"type": ["string", "boolean"]},
)
FILES = Scalar(
    "true, false or read",
    "write true, false or read",
    lambda value: isinstance(value, bool) or value == "read",
    {"enum": [True, False, "read"]},
)


class Listed:
    """One item may stand for a list of one; an empty list is refused by whoever knows what it would mean."""

    def take(self, value: Any, build: Callable[[Any], Any]) -> Any:
        """Raises ValueError when the list is declined."""
        return build(_listed(value))

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(_listed, handler(source))

    def __get_pydantic_json_schema__(self, schema: "CoreSchema", handler: "GetJsonSchemaHandler") -> dict[str, Any]:
        listed = handler(schema)
        return {"anyOf": [listed["items"], {**listed, "minItems": 1}]}


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


LISTED = Listed()


# A `Template`: text in which references are allowed. Pure.
#
# Importing this costs nothing; pydantic asks the class for its schema, and only then is it imported. It refuses with a
# `PydanticCustomError` whose context carries `message`, `fix` and `offset`.


class Template(str):
    """Text in which references are allowed; one that passed validation parses."""

    __slots__ = ()

    @classmethod
    def take(cls, value: object) -> Self:
        """Raises ValueError when it is not text, BadReference when a reference in it is wrong."""
        if not isinstance(value, str):
            raise ValueError(f"expected text, found {value!r}")
        parse(value)
        return cls(value)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(cls._checked, core_schema.str_schema(strict=True))

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: "CoreSchema", handler: "GetJsonSchemaHandler") -> dict[str, Any]:
        return {"type": "string", "pattern": PATTERN}

    @classmethod
    def _checked(cls, value: str) -> Self:
        from pydantic_core import PydanticCustomError

        try:
            return cls.take(value)
        except BadReference as bad:
            # The message must not be a format string: what the person wrote may hold braces.
            context = {"message": str(bad), "offset": bad.offset, "fix": bad.fix}
            raise PydanticCustomError("bad_reference", "reference", context) from None


# Every text of a checked profile that may hold references, with its path. Pure.


def templates(value: object, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Template]]:
    """Depth first, in the order of the model; `value` is a Profile or any part of one, which lies at `path`."""
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


# What makes a url or a session's name acceptable, asked of a profile and again of what its references became. Pure.


MAX_SESSION_NAME = 200  # characters
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")  # what a header may not hold; a tab it may
# Headers that belong to a connection or to its protocol, and not to whoever configures one.
HEADER_NAMES = frozenset({"connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "upgrade"})
HEADER_NAMES |= {"last-event-id", "proxy-connection", "transfer-encoding"}
HEADER_BEGINNING = "mcp-"  # Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Param-*
CLEAR = "{} would go over the network in the clear: this is http, and another host"  # names of headers
CLEAR_FIX = "write https://, or reach it through a tunnel on localhost"
URL_FIX = "write an address that begins with https:// or http://"
SESSION_NAME_FIX = f"choose a printable name of 1 to {MAX_SESSION_NAME} characters that begins with no dash"


def session_name_fault(name: str) -> str:
    """What is wrong with a session's name; empty when nothing is."""
    if not name.strip():
        return "the session's name is empty"
    if len(name) > MAX_SESSION_NAME:
        return f"the session's name has {len(name)} characters; at most {MAX_SESSION_NAME} are allowed"
    if name.startswith("-"):
        return f'the session\'s name "{shorten(name)}" begins with "-" like an option'
    return "" if name.isprintable() else "the session's name holds characters that cannot be printed"


def url_fault(url: str) -> str:
    """What is wrong with an address, as far as it is known: references in it may still stand for anything."""
    if url.startswith("$") or not url.strip():
        return "" if url.strip() else "the url is empty"
    if re.search(r"[\s\x00-\x1f\x7f]", re.sub(r"\$\{[^}]*\}", "", url)):
        return "the url holds a space or a control character"
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.lower() not in {"http", "https"}:
        return f'expected an http or https url, found "{shorten(url)}"'
    return "" if rest and rest[0] not in "/?#:" else f'the url "{shorten(url)}" has no host'


def host(url: str) -> str:
    """Who is spoken to, references, name and port included."""
    return re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0]


def is_local(url: str) -> bool:
    """Whether what is sent there stays on this machine."""
    name = (urlsplit(url).hostname or "").rstrip(".")
    is_loopback = re.fullmatch(r"127(\.\d+){3}", name) is not None
    return is_loopback or name in ("localhost", "::1") or name.endswith(".localhost")


def is_in_the_clear(url: str) -> bool:
    """Whether others can read on the way what is sent there; `url` is an address as `url_fault` wants it."""
    try:
        return url.lower().startswith("http://") and not is_local(url)
    except ValueError:  # brackets that hold no address; nothing will be sent
        return False


def header_name_fault(name: str) -> str:
    """What is wrong with the name of a header that is one; empty when nothing is."""
    is_taken = name.lower() in HEADER_NAMES or name.lower().startswith(HEADER_BEGINNING)
    return f'whoever connects sets "{name}" itself, for each request' if is_taken else ""


def header_fault(value: str) -> str:
    """What is wrong with a header's value; empty when nothing is."""
    control = CONTROL.search(value)
    return f"a header cannot hold the character U+{ord(control.group()):04X}" if control else ""
