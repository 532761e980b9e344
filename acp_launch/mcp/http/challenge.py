"""
The challenges of a server that refuses a request: `WWW-Authenticate` (RFC 9110 11.6.1, RFC 6750 3, RFC 9728 5.1). Pure.
"""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from acp_launch.regex import regex

LONGEST = 8 * 1024  # characters of all challenges of an answer
EXCERPT = 200  # characters of a word of the server's
SCOPES = 100  # of a list
TOO_FEW = "insufficient_scope"  # the error if a token is good, and lacks a scope

_PART = regex(
    r"(?P<name>[!#$%&'*+\-.^_`|~0-9A-Za-z]++)"
    r'(?:[ \t]*+=[ \t]*+(?:"(?P<quoted>(?:[^"\\]|\\.)*+)"?|(?P<plain>[^\s,"]*+)))?+'
)
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


def read_challenges(headers: Iterable[str]) -> Challenge:
    """Read the `WWW-Authenticate` headers of an answer. What cannot be read is left out."""
    bearer: dict[str, str] = {}
    other: dict[str, str] = {}
    into, is_bearer = other, False
    text = ", ".join(headers)[:LONGEST]
    end = 0  # of the part before
    for part in _PART.finditer(text):
        name = part["name"].lower()
        if part["quoted"] is not None:
            into.setdefault(name, _ESCAPED.sub(r"\1", part["quoted"]))
        elif part["plain"] is not None:
            into.setdefault(name, part["plain"])
        elif name == "bearer" or "," in text[end : part.start()]:
            into = bearer if name == "bearer" else other
            is_bearer |= name == "bearer"
        end = part.end()
    return Challenge(
        is_bearer=is_bearer,
        resource_metadata=bearer.get("resource_metadata") or other.get("resource_metadata", ""),  # RFC 9728: any scheme
        scopes=scopes_in(bearer.get("scope", "")),
        error=bearer.get("error", "")[:EXCERPT],
    )


def scopes_in(text: str) -> tuple[str, ...]:
    """Return the scopes of a list that is separated by spaces, each once."""
    return first_scopes(text.split())


def first_scopes(scopes: Iterable[Any] | None) -> tuple[str, ...]:
    """Return the first scopes of a list, each once, without what cannot be one."""
    fitting = (each for each in scopes or () if _SCOPE.fullmatch(each))
    return tuple(dict.fromkeys(fitting))[:SCOPES]
