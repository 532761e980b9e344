"""What makes a url or a session's name acceptable, asked of a profile and again of what its references became. Pure."""

import re
from urllib.parse import urlsplit

from acp_launch.document.nodes import shorten

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
