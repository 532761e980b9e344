"""The address of a page, as a person has to see it before they go there: whole, and nothing in it misleads."""

import re
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from acp_launch.console.stderr import harmless
from acp_launch.secret.redact import redactor

LONGEST = 8000  # characters; servers take no longer ones, and a person reads none of them
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\.?|\[[0-9a-f:.]+\]")
_LOCAL = re.compile(r"localhost|.*\.localhost|127\.[0-9.]+|\[::1\]")
_ODD = re.compile(r"[\s\\<>\"^`{|}]")  # what browsers repair, each in its own way


class Address(Struct, frozen=True):
    """`url` is what is shown and what is opened: the host in it is in ASCII. `warnings` are whole sentences."""

    url: str
    host: str
    warnings: tuple[str, ...] = ()


class Unfit(Struct, frozen=True):
    """Why an address is not opened, as the end of a sentence about the link."""

    reason: str


def read(url: str) -> Address | Unfit:
    """What an agent gave as a URL."""
    if problem := _at_sight(url):
        return Unfit(problem)
    try:
        parts = urlsplit(url)
        port = parts.port
        host = _ascii(parts.hostname or "")
    except ValueError:  # UnicodeError, of a host that cannot be written in ASCII, is one
        return Unfit("is no web address")
    if parts.scheme not in ("http", "https"):
        return Unfit(f'begins with "{parts.scheme}:", and only http and https are opened')
    if not _HOST.fullmatch(host):
        return Unfit("names no host")
    user, at, _ = parts.netloc.rpartition("@")
    netloc = f"{user}{at}{host}{'' if port is None else f':{port}'}"
    return Address(parts._replace(netloc=netloc).geturl(), host, tuple(_warnings(parts, host)))


def _at_sight(url: str) -> str:
    if len(url) > LONGEST:
        return f"is {len(url):,} characters long"
    if redactor.text(url) != url:
        return "holds a secret of this launch"
    if not url.isprintable() or harmless(url) != url or _ODD.search(url):
        return "holds characters that belong in no web address"
    return "" if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", url) else "is no web address"


def _ascii(host: str) -> str:
    """As it is asked for in DNS; an IPv6 address in brackets."""
    if ":" in host:
        return f"[{host}]"
    return host if host.isascii() else host.encode("idna").decode("ascii")


def _warnings(parts: SplitResult, host: str) -> list[str]:
    said = []
    if not (parts.hostname or "").isascii() or "xn--" in host:
        said.append("The host's name has letters that are not plain a to z: it may only look like one you know.")
    if "@" in parts.netloc:
        said.append("What stands before the @ is not the host.")
    if parts.scheme == "http" and not _LOCAL.fullmatch(host):
        said.append("It is not encrypted: others on the way can read and change it.")
    return said
