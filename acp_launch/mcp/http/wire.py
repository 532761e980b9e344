"""
What the connection to a remote server and its driver say to each other, and the words and readings both need. Pure.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from acp_launch.process.lifecycle import Ended
from acp_launch.protocol.jsonrpc import Envelope
from acp_launch.regex import regex
from acp_launch.secret.value import Secret
from acp_launch.waits import stretch

Era = Literal["", "modern", "legacy", "sse"]

DELETE_TIMEOUT = stretch(2.0)  # for the end of a session
EXCERPT_CHARS = 160  # of a refusal
JITTER = 0.25
MAX_PAUSE = 3600.0


class Limits(Struct, frozen=True, kw_only=True):
    """Time limits of the requests to one server, in seconds, and the largest message in bytes."""

    connect: float = 10.0  # name, connection and TLS
    idle: float = 30.0  # silence in the middle of a body that is not an event stream
    silence: float = 30.0  # silence while a request is open, before a sign of life is asked for
    health_check: float = stretch(10.0)  # for a sign of life
    max_line: int = 64 * 1024 * 1024


class HttpRequest(Struct, frozen=True):
    """An HTTP request to make. `patience`: seconds until the answer must have begun; None: no limit."""

    stream: int
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes = b""
    patience: float | None = None

    def __repr__(self) -> str:
        return f"Request({self.stream}, {self.method})"  # headers are secret


class RemoteMemory(Struct):
    """What one connection to a server leaves to the next."""

    era: Era = ""  # empty: unknown
    is_proven: bool = False  # it has answered


class RemoteFacts(Struct, frozen=True):
    """What can be told of a connection to a remote server. `tls` is its version, empty without encryption."""

    type: str
    era: str
    has_session: bool
    tls: str

    @property
    def as_json(self) -> dict[str, Any]:
        return {"type": self.type, "era": self.era or None, "session": self.has_session, "tls": self.tls or None}


class Failure(Struct, frozen=True):
    """The reason why a request failed below HTTP. `how` completes "the server …"; `fix` says what to do.

    `was_sent`: the server may have seen it. `is_final`: every other attempt would fail the same way. `is_denied`: it
    had no effect because there is no token for it; later requests may have one.
    """

    how: str
    fix: str = ""
    was_sent: bool = True
    is_final: bool = False
    timed_out: bool = False
    is_denied: bool = False


# The challenges of a server that refuses a request: `WWW-Authenticate` (RFC 9110 11.6.1, RFC 6750 3, RFC 9728 5.1).

CHALLENGES = 8 * 1024  # characters of all challenges of an answer
SCOPES = 100  # of a list
TOO_FEW = "insufficient_scope"  # the error if a token is good, and lacks a scope

_PARAMETER = regex(
    r'([!#$%&\'*+\-.^_`|~0-9A-Za-z]++)[ \t]*+=[ \t]*+(?:"(?P<quoted>(?:[^"\\]|\\.)*+)"?|(?P<plain>[^\s,"]*+))'
)
_BEARER = regex(r"(?:^|,)[ \t]*+bearer\b", re.IGNORECASE)
_SCOPE = regex(r"[\x21\x23-\x5b\x5d-\x7e]{1,256}+")  # RFC 6749, section 3.3
_ESCAPED = regex(r"\\(.)")


class Challenge(Struct, frozen=True, kw_only=True):
    """What a server says when it refuses a request. `is_bearer`: it takes tokens, which a login may give."""

    is_bearer: bool = False
    resource_metadata: str = ""
    scopes: tuple[str, ...] = ()
    error: str = ""

    @property
    def wants_more(self) -> bool:
        """Whether the token is good, and lacks a scope."""
        return self.error == TOO_FEW


NONE = Challenge()


def read_challenges(header: str) -> Challenge:
    """Read the `WWW-Authenticate` of an answer. What cannot be read is left out."""
    text, said = header[:CHALLENGES], dict[str, str]()
    for found in _PARAMETER.finditer(text):
        value = found["plain"] if found["quoted"] is None else _ESCAPED.sub(r"\1", found["quoted"])
        said.setdefault(found[1].lower(), value)
    return Challenge(
        is_bearer=_BEARER.search(text) is not None,
        resource_metadata=said.get("resource_metadata", ""),  # RFC 9728: of any scheme
        scopes=first_scopes(said.get("scope", "").split()),
        error=said.get("error", "")[:200],
    )


def first_scopes(scopes: Iterable[Any] | None) -> tuple[str, ...]:
    """Return the first scopes of a list, each once, without what cannot be one."""
    fitting = (each for each in scopes or () if _SCOPE.fullmatch(each))
    return tuple(dict.fromkeys(fitting))[:SCOPES]


# Credentials.

Headers = Mapping[str, Secret]  # by their names, no two of which differ only in case


class NoToken(Exception):  # noqa: N818 - the name states the fault
    """Raised if there are no credentials for a request; `how`, `fix` and `is_final` are as in `Failure`."""

    def __init__(self, how: str, fix: str, *, is_final: bool = True) -> None:
        super().__init__(how)
        self.how, self.fix, self.is_final = how, fix, is_final


class Credentials(Protocol):
    """What proves to one server who its user is, and changes while the server is in use: a login, for instance.

    `note` shows a sentence to the user; a caller may set it. `is_login`: the user can log in anew.
    """

    note: Callable[[str], None]

    @property
    def is_login(self) -> bool: ...

    @property
    def has_news(self) -> bool:
        """Whether there are others than those that were used last, as the user has just logged in, for instance."""

    @property
    def refusal(self) -> Failure | None:
        """What it means if the server refuses renewed ones, too (401); None if there are none."""

    async def headers(self, refused: Headers | None = None) -> Headers:
        """Return the headers for a request, none if there is no login; `refused` are those that were just refused.

        They take the place of others of these names. It takes a bounded time, and the redactor knows all that is secret
        in them.

        Raises:
            NoToken: there are none, or they cannot be renewed now.
        """

    async def note_challenge(self, challenge: Challenge) -> str:
        """Note what the server wants that refused a request; return what the user can do then, empty if unknown.

        It takes a bounded time.
        """

    async def leave(self) -> None:
        """Wait for a renewal that is under way, if it would be lost with this process."""


class ConnectionPorts(Protocol):
    """What a connection wants done. They must not call it."""

    def receive(self, line: bytes, message: Envelope | None = None) -> None:
        """Pass a message of the server on, with what it says if that was read."""

    def request(self, request: HttpRequest) -> None: ...

    def drop(self, stream: int) -> None:
        """Drop the connection of a stream, and its timer; nothing more of it is told to the connection."""

    def timer(self, stream: int, after: float) -> None:
        """Call `ring` after so many seconds. A second timer of a stream replaces the first."""

    def note_end(self, ended: Ended) -> None:
        """Note that the connection has ended. Called once."""

    def note(self, text: str) -> None:
        """Write a sentence to the server's log."""

    def remember_era(self, era: Era) -> None:
        """Note which era the server turned out to be of."""

    def now(self) -> float: ...


def origin(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port of an address. Raises ValueError if it has none."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("it is not an http address")
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def shown_origin(url: str) -> str:
    """Return the part of an address that may be shown: no user, path or query, which may hold credentials."""
    try:
        scheme, host, port = origin(url)
    except ValueError:
        return "an address that cannot be read"
    bracketed = f"[{host}]" if ":" in host else host
    return f"{scheme}://{bracketed}" + ("" if port == (443 if scheme == "https" else 80) else f":{port}")


def phrase(status: int) -> str:
    """Return a status with its name: `404 Not Found`."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def printable(text: str) -> str:
    """Put a text on one line, without characters that drive a terminal."""
    return " ".join("".join(mark if mark.isprintable() else " " for mark in text).split())


def ended_by(failure: Failure) -> Ended:
    follows: Literal["judged", "never"] = "never" if failure.is_final else "judged"
    return Ended(failure.how, reason=failure.fix, follows=follows, jitter=JITTER)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks us to wait (RFC 9110 10.2.3)."""
    said = headers.get("retry-after", "").strip()
    return min(float(said), MAX_PAUSE) if said.isdecimal() and len(said) < 10 else None


def advice(server: str, reason: str) -> tuple[str, str]:
    """Split the reason of an end into what it explains and what to do, which names the keys of the profile."""
    why, _, fix = reason.rpartition(": ")
    for key in ("url", "headers", "type"):
        fix = fix.replace("its `", "`").replace(f"`{key}`", f"mcp_servers.{server}.{key}")
    return why, fix


def joined(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return headers by their names in lower case; one that is there twice has its values joined by commas."""
    found: dict[str, str] = {}
    for name, value in headers:
        key = name.lower()
        found[key] = f"{found[key]}, {value}" if key in found else value
    return found
