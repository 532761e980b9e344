"""
A resolved secret, the interface of the stores, and the environment variables that hold secrets.

Everything that could show a value by accident shows `***` or refuses: repr, str, formats, pickles, JSON.
`Secret.expose` is the only access to the text, and `tests/test_architecture.py` lists the modules that may call it.

A store answers with one `Outcome` for each name, or raises one `StoreFault` for all. Both say what is wrong (`reason`,
a sentence without a full stop that never holds a value) and what to do (`fix`, a command or one edit; empty if the
caller knows a better one). The environment (`ACP_LAUNCH_SECRET_<NAME>`) comes before any store, for CI.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NoReturn, Protocol

from msgspec import Struct

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
    """Whether a secret's name is that of a login's tokens, which a profile, or a verb of `secret`, may not use.

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
