"""
The addresses that `headers_command` is for: a server's origin, or a part of its paths. Pure.

They decide which servers the user's command serves, while projects choose the servers. So whatever is not exactly the
address that is meant is another one.
"""

from collections.abc import Iterable
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import Struct

from acp_launch.regex import regex

_HOST = regex(r"(?:[^\s\x00-\x20\x7f@:/?#\\%\[\]]+|\[[0-9a-fA-F:.]+\])(?::\d{1,5})?")
LOOPBACK = regex(r"127(?:\.\d+){3}|localhost|::1")
_PORTS = {"http": 80, "https": 443}


class Address(Struct, frozen=True):
    """An address without user, query and fragment. `path` are the parts of its path, which name it and all below it."""

    scheme: str
    host: str
    port: int
    path: tuple[str, ...] = ()

    @property
    def is_in_the_clear(self) -> bool:
        """Whether requests to it cross the network unencrypted."""
        return self.scheme == "http" and LOOPBACK.fullmatch(self.host) is None

    def covers(self, other: "Address") -> bool:
        """Whether `other` is this address, or below it."""
        is_there = (self.scheme, self.host, self.port) == (other.scheme, other.host, other.port)
        return is_there and other.path[: len(self.path)] == self.path


def read(text: str) -> Address:
    """Read an address that is to be covered.

    Raises:
        ValueError: it is not an http address, or not a plain one: with a user, a query, a fragment or dots as a part of
            its path. The message says so.
    """
    try:
        parts = urlsplit(text)
        origin = _origin(parts)
    except ValueError:  # brackets without an address
        origin = None
    if origin is None or text != text.strip():
        raise ValueError("expected an address that begins with https:// or http://")
    if parts.query or parts.fragment or text[-1] in "?#":
        raise ValueError("the address ends with a query or a fragment, which are never compared")
    path = _path(parts)
    if path is None:
        raise ValueError("the path of the address holds ., .. or an escaped slash")
    return Address(*origin, path)


def nearest(known: Iterable[str], url: str) -> str | None:
    """Return which of the addresses covers a server's, the longest if several do; None if none does."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if (origin := _origin(parts)) is None:
        return None
    here = Address(*origin, _path(parts) or ())
    covering = [text for text in known if read(text).covers(here)]
    return max(covering, key=lambda text: len(read(text).path), default=None)


def _origin(parts: SplitResult) -> tuple[str, str, int] | None:
    """Return scheme, host and port; None if they are not written as one expects."""
    if parts.scheme not in _PORTS or _HOST.fullmatch(parts.netloc) is None or not parts.hostname:
        return None
    try:
        return parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme]
    except ValueError:  # a port beyond 65535
        return None


def _path(parts: SplitResult) -> tuple[str, ...] | None:
    """Return the parts of the path; None if a server may read another path in it."""
    text = parts.path.removeprefix("/").removesuffix("/")
    path = tuple(text.split("/")) if text else ()
    meant = [unquote(part) for part in path]
    if any(part in ("", ".", "..") or "/" in part or "\\" in part for part in meant):
        return None
    return path
