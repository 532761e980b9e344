"""
The `${…}` grammar: text in, literal pieces and references out. Pure: nothing is looked up here.

    ${env:NAME}   ${env:NAME:-default}   ${secret:NAME}   ${project} ${cwd} ${home} ${profile} ${python}

`$${` is a literal `${`; a `$` before anything else stands for itself, so shell snippets and prices need no care.
"""

import re

from msgspec import Struct

VARIABLES = {
    "project": "the directory the profile belongs to",
    "cwd": "the directory the command was typed in",
    "home": "your home directory",
    "profile": "the profile's name",
    "python": "the Python interpreter that runs acp-launch",
}
NAME = r"[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*"
_INSIDE = (
    rf"env:(?P<env>{NAME})(?::-(?P<default>[^}}]*))?|secret:(?P<secret>{NAME})|(?P<variable>{'|'.join(VARIABLES)})"
)
_REFERENCE = re.compile(rf"\$\{{(?:{_INSIDE})\}}")
_OPENING = re.compile(r"\$?\$\{")
# The whole grammar as one pattern, without named groups, for JSON Schema (ECMA 262 knows no `?P`).
PATTERN = (
    rf"^(?:\$\$\{{|\$\{{(?:env:{NAME}(?::-(?:(?!\$\{{)[^}}])*)?|secret:{NAME}|{'|'.join(VARIABLES)})\}}"
    r"|\$(?!\$?\{)|[^$])*$"
)


class EnvironmentReference(Struct, frozen=True):
    """`default` stands in when the variable is unset or empty, as in a shell."""

    name: str
    default: str | None = None

    def __str__(self) -> str:
        return f"${{env:{self.name}}}" if self.default is None else f"${{env:{self.name}:-{self.default}}}"


class SecretReference(Struct, frozen=True):
    name: str

    def __str__(self) -> str:
        return f"${{secret:{self.name}}}"


class VariableReference(Struct, frozen=True):
    """`name` is one of `VARIABLES`."""

    name: str

    def __str__(self) -> str:
        return f"${{{self.name}}}"


Part = str | EnvironmentReference | SecretReference | VariableReference


class BadReference(ValueError):  # noqa: N818 - it reads as what it is
    """Raised for a `${…}` outside the grammar; `offset` is where it begins, in characters."""

    def __init__(self, message: str, *, offset: int, fix: str) -> None:
        super().__init__(message)
        self.offset = offset
        self.fix = fix


def parse(text: str) -> tuple[Part, ...]:
    """Cut `text` into literal pieces and references; neighbouring literals are one piece.

    Raises:
        BadReference: a `${` that begins nothing we know.
    """
    parts: list[Part] = []
    literal, position = "", 0
    while opening := _OPENING.search(text, position):
        literal += text[position : opening.start()]
        if opening.group() == "$${":
            literal, position = literal + "${", opening.end()
            continue
        found = _REFERENCE.match(text, opening.start()) or _refuse(text, opening.start())
        parts += [literal, _reference(found)] if literal else [_reference(found)]
        literal, position = "", found.end()
    literal += text[position:]
    return (*parts, literal) if literal else tuple(parts)


def _reference(found: re.Match[str]) -> Part:
    if name := found["env"]:
        return EnvironmentReference(name, _default(found))
    if name := found["secret"]:
        return SecretReference(name)
    return VariableReference(found["variable"])


def _default(found: re.Match[str]) -> str | None:
    default: str | None = found["default"]
    if default and "${" in default:
        # Its first `}` would end the outer reference, and the rest would silently become text.
        raise BadReference(
            "a default cannot hold another reference", offset=found.start(), fix="write the default as plain text"
        )
    return default


def _refuse(text: str, offset: int) -> re.Match[str]:
    end = text.find("}", offset)
    if end < 0:
        raise BadReference(
            'this "${" has no closing "}"', offset=offset, fix='close it with "}", or write "$${" for a literal "${"'
        )
    written = text[offset : end + 1]
    if nearest := _nearest(written[2:-1]):
        raise BadReference(
            f"unknown reference {written}; did you mean {nearest}?", offset=offset, fix=f"write {nearest}"
        )
    known = "${env:NAME}, ${env:NAME:-default}, ${secret:NAME}, " + ", ".join(f"${{{name}}}" for name in VARIABLES)
    raise BadReference(
        f"unknown reference {written}", offset=offset, fix=f'use one of {known}, or "$${{" for a literal "${{"'
    )


def _nearest(inside: str) -> str:
    from difflib import get_close_matches

    inside = inside.strip()
    if close := get_close_matches(inside.lower(), VARIABLES, 1, 0.7):
        return f"${{{close[0]}}}"
    kind, _, rest = inside.replace(".", ":", 1).partition(":") if ":" not in inside else inside.partition(":")
    name = re.match(NAME, rest.strip())
    if name and (close := get_close_matches(kind.strip().lower(), ["env", "secret"], 1, 0.6)):
        return f"${{env:{_with_default(name, rest.strip())}}}" if close[0] == "env" else f"${{secret:{name[0]}}}"
    shell = re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]*)(:?-[^}$]*)?", inside)
    return f"${{env:{_with_default(shell, inside, group=1)}}}" if shell else ""


def _with_default(name: re.Match[str], text: str, *, group: int = 0) -> str:
    """Keep what looks like a default: `X:default`, `X:=default` and `X-default` all meant `X:-default`."""
    operator = re.match("[:=?-]+", text[name.end(group) :])
    default = text[name.end(group) + operator.end() :] if operator else ""
    return f"{name[group]}:-{default}" if default and "${" not in default else name[group]
