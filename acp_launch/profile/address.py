"""What makes a url or a session's name acceptable, asked of a profile and again of what its references became. Pure."""

import re

from acp_launch.document.nodes import shorten

MAX_SESSION_NAME = 200  # characters
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")  # what a header may not hold; a tab it may
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


def header_fault(value: str) -> str:
    """What is wrong with a header's value; empty when nothing is."""
    control = CONTROL.search(value)
    return f"a header cannot hold the character U+{ord(control.group()):04X}" if control else ""
