"""
References in a profile (`${…}`), the secrets that they become, the interface of the stores, and the environment
variables that hold secrets.

    ${env:NAME}   ${env:NAME:-default}   ${secret:NAME}
    ${project} ${cwd} ${workdir} ${home} ${profile} ${python}

`$${` is a literal `${`. A `$` before anything else stands for itself, so shell snippets and prices need no escape. A
profile cannot name the variables reserved for acp-launch: it could pass the user's passphrase to any program. A text is
parsed into literal pieces and references; nothing is looked up here.

Everything that could show a value by accident shows `***` or refuses: repr, str, formats, pickles, JSON.
`Secret.expose` is the only access to the text, and `tests/test_architecture.py` lists the modules that may call it.

A store answers with one `Outcome` for each name, or raises one `StoreFault` for all. Both tell the fault (`reason`,
a sentence without a full stop that never holds a value) and what to do (`fix`, a command or one edit; empty if the
caller knows a better one). The environment (`ACP_LAUNCH_SECRET_<NAME>`) comes before any store, for CI.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NoReturn, Protocol

from msgspec import Struct

from acp_launch.problem import likeliest
from acp_launch.regex import regex

MASK = "***"


class Secret:
    __slots__ = ("__text",)

    def __init__(self, text: str) -> None:
        self.__text = text

    def expose(self) -> str:
        """Return the text, for a child's environment, an HTTP header, a store or the redactor, and for nothing else."""
        return self.__text

    def __repr__(self) -> str:
        return MASK

    def __str__(self) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self.__text == other.__text

    __hash__ = None  # type: ignore[assignment]  # a hash in a set or a cache would reveal something about the text

    def __format__(self, spec: str) -> NoReturn:
        raise TypeError("a secret cannot be formatted")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a secret cannot be pickled or copied")


State = Literal["found", "missing", "locked", "unavailable", "denied", "too large"]
PROGRAMS_AT_ONCE = 8  # of a store that runs one for each secret: each may load a runtime of a hundred megabytes
MAX_VALUE = 64 * 1024  # bytes of UTF-8; Linux allows 128 KiB for one environment variable, including its name


def size(text: str) -> int | None:
    """Return the bytes of UTF-8, or None if `text` came from bytes that are not UTF-8.

    Never raises: the exception would hold the value.
    """
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return None


class Outcome(Struct, frozen=True):
    """The result for one name; `secret` is set only if the state is `found`."""

    state: State
    source: str  # the store or variable, as shown to the user: `keyring (Secret Service)`, `ACP_LAUNCH_SECRET_GITHUB`
    secret: Secret | None = None
    reason: str = ""
    fix: str = ""
    is_absent: bool = False  # there is no such store on this machine


class StoreFault(Exception):  # noqa: N818 - the name states the fault
    """Raised when a store cannot do what was requested; it has changed nothing."""

    def __init__(self, state: State, reason: str, *, fix: str = "", is_absent: bool = False) -> None:
        """`is_absent`: there is no such store on this machine, so that nothing can be lost by choosing another."""
        super().__init__(reason)
        self.state = state
        self.reason = reason
        self.fix = fix
        self.is_absent = is_absent


class Store(Protocol):
    """One place that stores secrets. Creating a store reads nothing; every method may raise StoreFault.

    `prepare` runs in the main thread and may ask the user (never on stdin). All other methods run in a thread that is
    abandoned after a timeout. They never ask the user, except through the desktop's own dialog.
    """

    @property
    def label(self) -> str:
        """Return the name shown to the user: `keyring (Secret Service)`, `sealed file (/home/me/…)`, `command (op)`."""

    def prepare(self, *, writing: bool = False) -> None:
        """Get what the other methods need, for example a passphrase.

        `writing`: a value will be written, perhaps the first one. A store that only reads refuses now.
        """

    def read(self, names: Sequence[str]) -> Mapping[str, Outcome]:
        """Return one outcome for each name, in one pass."""

    def write(self, name: str, secret: Secret) -> None:
        """Set or replace a value. When this returns, the next `read` finds it."""

    def remove(self, name: str) -> bool:
        """Remove a value. Returns False if it was not there."""

    def names(self) -> Mapping[str, float | None] | None:
        """Return every name with the Unix time it was set (None: not known), or None if the store cannot list names.

        Never shows a dialog, never unlocks anything.
        """


# Variables that hold secrets. They never reach a child (`plan.environment` removes them); only the value does, where a
# plan says so.


PREFIX = "ACP_LAUNCH_SECRET_"
LOGINS = "oauth/"  # begins the names of the tokens of logins to MCP servers
PASSPHRASE = "ACP_LAUNCH_PASSPHRASE"  # opens the sealed file


def variable(name: str) -> str:
    """Return the environment variable that holds the secret: `team/git-hub` → `ACP_LAUNCH_SECRET_TEAM_GIT_HUB`."""
    return PREFIX + re.sub("[^A-Z0-9]", "_", name.upper())


def is_login(name: str) -> bool:
    """Whether a secret's name is for a login's tokens, which a profile, or a verb of `secret`, may not use.

    Names compare without case, so none slips through.
    """
    return name.lower().startswith(LOGINS)


def is_private(variable: str) -> bool:
    """Whether a variable is reserved for acp-launch.

    Names compare without case, so none slips through.
    """
    return variable.upper().startswith(PREFIX) or variable.upper() == PASSPHRASE


def read_environment(names: Iterable[str], environ: Mapping[str, str]) -> dict[str, Outcome]:
    """Read the secrets that have a variable; an empty variable counts as unset.

    A variable that cannot be used is reported and the store is not asked: the user set it on purpose.
    """
    return {name: _judged(variable(name), environ[variable(name)]) for name in names if environ.get(variable(name))}


def _judged(variable: str, text: str) -> Outcome:
    if (bytes_held := size(text)) is None:
        return Outcome("unavailable", variable, None, f"{variable} does not hold UTF-8 text", f"export {variable}=...")
    if bytes_held > MAX_VALUE:
        return Outcome("too large", variable, None, f"{variable} holds more than {MAX_VALUE // 1024} KiB")
    return Outcome("found", variable, Secret(text))


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
    if inside in ("env", "secret"):
        return inside, "", ""
    if shell := re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]*)(:?-[^}$]*)?", inside):
        return "", shell[1], shell[2] or ""
    kind, *after = re.split("[:.]", inside, maxsplit=1)
    close = likeliest(kind.strip().lower(), ["env", "secret"])
    if not after or not close:
        return "", "", inside
    rest = after[0].strip()
    name = re.match(NAME, rest)
    return close, name[0] if name else "", rest[name.end() :] if name else rest


def _nearest(inside: str, kind: str, name: str, rest: str) -> str:
    if close := likeliest(inside.lower(), VARIABLES, cutoff=0.7):
        return f"${{{close}}}"
    if not name or (rest and not re.fullmatch(r":-[^${}]*", rest)):
        return ""
    return f"${{{kind or 'env'}:{name}{rest}}}"


def _instead(variable: str) -> str:
    """Return what to do about a variable reserved for acp-launch."""
    name = variable[len(PREFIX) :].lower().replace("_", "-").strip("-")
    is_secret = variable.upper().startswith(PREFIX) and re.fullmatch(NAME, name)
    return f"write ${{secret:{name}}}" if is_secret else "remove it"
