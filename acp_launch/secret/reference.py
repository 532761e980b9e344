"""
The `${…}` grammar: text in, literal pieces and references out. Pure: it looks nothing up.

    ${env:NAME}   ${env:NAME:-default}   ${secret:NAME}
    ${project} ${cwd} ${workdir} ${home} ${profile} ${python}

`$${` is a literal `${`. A `$` before anything else stands for itself, so shell snippets and prices need no escape. A
profile cannot name the variables reserved for acp-launch: it could pass the user's passphrase to any program.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from acp_launch.regex import regex
from acp_launch.secret.value import PREFIX, is_login, is_private

VARIABLES = {
    "project": "the directory the profile belongs to",
    "cwd": "the directory the command was run in",
    "workdir": "the session's directory",
    "home": "your home directory",
    "profile": "the profile's name",
    "python": "the Python interpreter that runs acp-launch",
}
NAME = r"[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*"
_INSIDE = (
    rf"env:(?P<env>{NAME})(?::-(?P<default>[^}}]*))?|secret:(?P<secret>{NAME})|(?P<variable>{'|'.join(VARIABLES)})"
)
_REFERENCE = regex(rf"\$\{{(?:{_INSIDE})\}}")
_OPENING = regex(r"\$?\$\{")
_CLOSING = regex("}+")  # a reference inside a reference has several
# The whole grammar except reserved variables, as one pattern for JSON Schema. No named groups: ECMA 262 has no `?P`.
PATTERN = (
    rf"^(?:\$\$\{{|\$\{{(?:env:{NAME}(?::-(?:(?!\$\{{)[^}}])*)?|secret:{NAME}|{'|'.join(VARIABLES)})\}}"
    r"|\$(?!\$?\{)|[^$])*$"
)


class EnvironmentReference(Struct, frozen=True):
    """A reference to an environment variable. `default` is used if the variable is unset or empty, as in a shell."""

    name: str
    default: str | None = None

    def __str__(self) -> str:
        return f"${{env:{self.name}}}" if self.default is None else f"${{env:{self.name}:-{self.default}}}"


class SecretReference(Struct, frozen=True):
    name: str

    def __str__(self) -> str:
        return f"${{secret:{self.name}}}"


class VariableReference(Struct, frozen=True):
    """A reference to one of `VARIABLES`."""

    name: str

    def __str__(self) -> str:
        return f"${{{self.name}}}"


Part = str | EnvironmentReference | SecretReference | VariableReference


class BadReference(ValueError):  # noqa: N818 - the name states the fault
    """Raised for a `${…}` outside the grammar; `offset` is where it begins, in characters."""

    def __init__(self, message: str, *, offset: int, fix: str) -> None:
        super().__init__(message)
        self.offset = offset
        self.fix = fix


@lru_cache(4096)  # a run parses each text of its profile several times
def parse(text: str) -> tuple[Part, ...]:
    """Cut `text` into literal pieces and references. Adjacent literals are one piece.

    Raises:
        BadReference: a `${` that does not begin a known reference.
    """
    parts: list[Part] = []
    literal, position = "", 0
    while opening := _OPENING.search(text, position):
        literal += text[position : opening.start()]
        if opening.group() == "$${":
            literal, position = literal + "${", opening.end()
            continue
        found = _REFERENCE.match(text, opening.start())
        if found is None or not _is_allowed(found):
            raise _bad(text, opening.start(), found)
        parts += [literal, _reference(found)] if literal else [_reference(found)]
        literal, position = "", found.end()
    literal += text[position:]
    return (*parts, literal) if literal else tuple(parts)


def misspelt(text: str) -> Iterator[tuple[int, int]]:
    """Yield the slices that look like references but are invalid: up to the closing braces, or to the end of `text`."""
    position = 0
    while opening := _OPENING.search(text, position):
        position = opening.end()
        if opening.group() == "$${":
            continue
        found = _REFERENCE.match(text, opening.start())
        if found and _is_allowed(found):
            position = found.end()
        else:
            closing = _CLOSING.search(text, position)
            position = closing.end() if closing else len(text)
            yield opening.start(), position


def _is_allowed(found: re.Match[str]) -> bool:
    is_ours = is_private(found["env"] or "") or is_login(found["secret"] or "")
    return not is_ours and "${" not in (found["default"] or "")


def place(text: str, part: Part) -> int:
    """Return where a reference parsed from `text` begins, in characters. Escaped references do not match."""
    found = re.search(rf"(?<!\$){re.escape(str(part))}", text)
    return found.start() if found else 0


def _reference(found: re.Match[str]) -> Part:
    if name := found["env"]:
        return EnvironmentReference(name, found["default"])
    if name := found["secret"]:
        return SecretReference(name)
    return VariableReference(found["variable"])


def _bad(text: str, offset: int, found: re.Match[str] | None) -> BadReference:
    end = text.find("}", offset)
    if end < 0:
        fix = 'close it with "}", or write "$${" for a literal "${"'
        return BadReference('this "${" has no closing "}"', offset=offset, fix=fix)
    if found and found["default"] and not is_private(found["env"]):
        # The first `}` of the inner reference would end the outer one, and the rest would silently become text.
        fix = "write the default as plain text"
        return BadReference("a default cannot hold another reference", offset=offset, fix=fix)
    message, fix = _complaint(text[offset : end + 1])
    return BadReference(message, offset=offset, fix=fix)


def _complaint(written: str) -> tuple[str, str]:
    inside = written[2:-1].strip()
    kind, name, rest = _read(inside)
    if kind and not name and not rest:
        return f"the name is missing in {written}", f"write ${{{kind}:NAME}}"
    if kind == "secret" and name and re.match(":[-=?+]|[=?]", rest):
        return "a secret has no default", f"write ${{secret:{name}}}"
    if kind == "secret" and is_login(name):
        return f"{written} holds the tokens of a login; a profile cannot use it", "write oauth: true for the server"
    if kind != "secret" and is_private(name):
        shown = f"${{{kind}:{name}}}" if kind else f"${{{name}}}"
        return f"{shown} is reserved for acp-launch; a profile cannot use it", _instead(name)
    if nearest := _nearest(inside, kind, name, rest):
        return f"unknown reference {written}; did you mean {nearest}?", f"write {nearest}"
    known = "${env:NAME}, ${env:NAME:-default}, ${secret:NAME}, " + ", ".join(f"${{{name}}}" for name in VARIABLES)
    return f"unknown reference {written}", f'use one of {known}, or "$${{" for a literal "${{"'


def _read(inside: str) -> tuple[str, str, str]:
    """Return the kind that was probably meant (`env`, `secret` or empty), the name, and the text after it."""
    from difflib import get_close_matches

    if inside in ("env", "secret"):
        return inside, "", ""
    if shell := re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]*)(:?-[^}$]*)?", inside):
        return "", shell[1], shell[2] or ""
    kind, *after = re.split("[:.]", inside, maxsplit=1)
    close = get_close_matches(kind.strip().lower(), ["env", "secret"], 1, 0.6)
    if not after or not close:
        return "", "", inside
    rest = after[0].strip()
    name = re.match(NAME, rest)
    return close[0], name[0] if name else "", rest[name.end() :] if name else rest


def _nearest(inside: str, kind: str, name: str, rest: str) -> str:
    from difflib import get_close_matches

    if close := get_close_matches(inside.lower(), VARIABLES, 1, 0.7):
        return f"${{{close[0]}}}"
    if not name or (rest and not re.fullmatch(r":-[^${}]*", rest)):
        return ""
    return f"${{{kind or 'env'}:{name}{rest}}}"


def _instead(variable: str) -> str:
    """Return what to do about a variable reserved for acp-launch."""
    name = variable[len(PREFIX) :].lower().replace("_", "-").strip("-")
    is_secret = variable.upper().startswith(PREFIX) and re.fullmatch(NAME, name)
    return f"write ${{secret:{name}}}" if is_secret else "remove it"
