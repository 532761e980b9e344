"""
A resolved secret. Everything that shows a value by accident shows `***` or refuses: repr, str, formats, pickles, JSON.

`expose` is the one way to the text, and `tests/test_architecture.py` knows who may call it.
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
        """The text itself: for a child's environment, an HTTP header, a store or the redactor, and nothing else."""
        return self.__text

    def __repr__(self) -> str:
        return MASK

    def __str__(self) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self.__text == other.__text

    __hash__ = None  # type: ignore[assignment]  # a hash in a set or a cache would tell something of the text

    def __format__(self, spec: str) -> NoReturn:
        raise TypeError("a secret cannot be formatted")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a secret cannot be pickled or copied")


# What a store answers: one outcome for each name it was asked for, or one `StoreFault` for all of them.
#
# A fault says what is wrong (`reason`, a sentence without a full stop that never holds a value) and what to do (`fix`,
# a command or one edit; empty when the caller knows better).


State = Literal["found", "missing", "locked", "unavailable", "denied", "too large"]
MAX_VALUE = 64 * 1024  # bytes of UTF-8; Linux takes 128 KiB in one variable of an environment, its name included


def size(text: str) -> int | None:
    """Bytes of UTF-8; None for what came from bytes that are not text. Never raises: that exception holds the value."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return None


class Outcome(Struct, frozen=True):
    """What became of one name; `secret` is there exactly when it was found."""

    state: State
    source: str  # where it was looked for, for a person: `keyring (Secret Service)`, `ACP_LAUNCH_SECRET_GITHUB`
    secret: Secret | None = None
    reason: str = ""
    fix: str = ""


class StoreFault(Exception):  # noqa: N818 - it reads as what it is
    """Raised when a store cannot do what it was asked; nothing was changed."""

    def __init__(self, state: State, reason: str, *, fix: str = "", detail: Sequence[str] = ()) -> None:
        super().__init__(reason)
        self.state = state
        self.reason = reason
        self.fix = fix
        self.detail = tuple(detail)


class Store(Protocol):
    """
    One place where secrets are kept. Made without looking at anything; every method may raise StoreFault.

    `prepare` runs in the main thread and may ask a person (never on stdin); all others run in a thread that is given
    up after a time-out, and never ask anybody, except through the desktop's own dialog.
    """

    @property
    def label(self) -> str:
        """For a person: `keyring (Secret Service)`, `sealed file (/home/me/…)`, `command (op)`."""

    def prepare(self, *, writing: bool = False) -> None:
        """Get what `read` and the others need, a passphrase for instance.

        `writing`: something is about to be written, and may be the first; a store that only reads refuses now.
        """

    def read(self, names: Sequence[str]) -> Mapping[str, Outcome]:
        """One outcome for each name, in one pass."""

    def write(self, name: str, secret: Secret) -> None:
        """Set or replace; when it returns, the value is there for the next `read`."""

    def remove(self, name: str) -> bool:
        """False when there was none."""

    def names(self) -> Mapping[str, float | None] | None:
        """Every name with the Unix time it was set (None: not known); None when the store cannot tell.

        Never shows a dialog, never unlocks anything.
        """


# `ACP_LAUNCH_SECRET_<NAME>` in the environment of acp-launch: comes before any store, for CI.
#
# No variable of ours that holds a secret ever reaches a child (`plan.environment` removes them); only the value does,
# where a plan says so.


PREFIX = "ACP_LAUNCH_SECRET_"
PASSPHRASE = "ACP_LAUNCH_PASSPHRASE"  # opens the sealed file


def variable(name: str) -> str:
    """The environment variable that holds the secret: `team/git-hub` → `ACP_LAUNCH_SECRET_TEAM_GIT_HUB`."""
    return PREFIX + re.sub("[^A-Z0-9]", "_", name.upper())


def is_private(variable: str) -> bool:
    """Whether a variable is for acp-launch alone; names compare as on Windows, so that none slips through."""
    return variable.upper().startswith(PREFIX) or variable.upper() == PASSPHRASE


def look(names: Iterable[str], environ: Mapping[str, str]) -> dict[str, Outcome]:
    """Those of `names` that have a variable; an empty one counts as none. One that cannot be used is no reason to look
    elsewhere: who set it means it."""
    return {name: _judged(variable(name), environ[variable(name)]) for name in names if environ.get(variable(name))}


def _judged(variable: str, text: str) -> Outcome:
    if (bytes_held := size(text)) is None:
        return Outcome("unavailable", variable, None, f"{variable} does not hold UTF-8 text", f"export {variable}=...")
    if bytes_held > MAX_VALUE:
        return Outcome("too large", variable, None, f"{variable} holds more than {MAX_VALUE // 1024} KiB")
    return Outcome("found", variable, Secret(text))
