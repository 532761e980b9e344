"""
What a store answers: one outcome for each name it was asked for, or one `StoreFault` for all of them.

A fault says what is wrong (`reason`, a sentence without a full stop that never holds a value) and what to do (`fix`, a
command or one edit; empty when the caller knows better).
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from acp_launch.secret.value import Secret

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
