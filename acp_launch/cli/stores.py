"""The store the user chose, and what is in it. What a store needs is imported only when that store is opened."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from acp_launch.console.secrets import choices
from acp_launch.errors import SecretError
from acp_launch.problem import did_you_mean
from acp_launch.secret.lookup import NameIndex, Names, Waiting, look_up, within
from acp_launch.secret.value import Outcome, Secret, Store, StoreFault
from acp_launch.settings.model import Settings

if TYPE_CHECKING:
    from acp_launch.process.capture import Captured

AT_HAND = 120.0  # seconds for a person who was asked to store something and may have to unlock the keyring first
T = TypeVar("T")


def keep_to_ourselves() -> None:
    """Before the first secret: what is printed passes the redactor, and others cannot look in."""
    from acp_launch.process.spawn import hide
    from acp_launch.secret.redact import install

    hide()
    install()


def outcomes(names: Iterable[str], settings: Settings, waiting: Waiting | None = None) -> dict[str, Outcome]:
    """What became of each name, in one pass."""
    keep_to_ourselves()
    wanted = tuple(names)
    limit = _patience(settings, len(wanted))
    say_so = waiting or say_waiting
    return look_up(
        wanted,
        environ=os.environ,
        store=lambda: open_store(settings),
        limit=limit + _grace(settings),
        waiting=lambda what, waited, _: say_so(what, waited, limit) if waited < limit else None,
    )


def done(settings: Settings, store: Store, work: Callable[[], T], *, patient: bool = False) -> T:
    """One piece of work of a prepared store; `patient` when a person has just asked for it and may answer a dialog.

    Raises:
        StoreFault: as the store says, or it did not answer in time.
    """
    limit = max(AT_HAND, settings.secrets.timeout) if patient and interactive() else settings.secrets.timeout
    return within(store, work, limit=limit, waiting=say_waiting)


def open_store(settings: Settings) -> Store:
    """Nothing is looked at yet."""
    chosen = settings.secrets
    if chosen.store == "file":
        from functools import partial

        from acp_launch.secret.hidden_input import ask_hidden
        from acp_launch.secret.sealedfile import open_file

        ask = partial(ask_hidden, fix="type it, or export ACP_LAUNCH_PASSPHRASE=...")
        return open_file(chosen.file, settings.config, os.environ, ask)
    if chosen.store == "command":
        from acp_launch.secret.command import open_command

        return open_command(chosen.command, limit=chosen.timeout, run=_captured)
    from acp_launch.secret.keyring import open_keyring

    return open_keyring(chosen.keyring, os.environ, interactive=interactive())


def interactive() -> bool:
    """Whether a person is there to answer a dialog of the desktop."""
    return sys.stderr is not None and sys.stderr.isatty()


def _patience(settings: Settings, count: int) -> float:
    """Seconds; a command is called for each name, and its own limit is the one to be spoken of."""
    if settings.secrets.store != "command":
        return settings.secrets.timeout
    from acp_launch.secret.command import AT_ONCE

    return settings.secrets.timeout * -(-count // AT_ONCE)


def _grace(settings: Settings) -> float:
    """Seconds beyond that in which a command's own limit has been noticed, and the command ended."""
    return 2.0 if settings.secrets.store == "command" else 0.0


def say_waiting(what: str, waited: float, limit: float) -> None:
    """In the words of every wait; what they need is imported by who has been waiting for 3 s."""
    from acp_launch.console.stream.text import Notices

    Notices().waiting(what, waited, limit)


def _captured(argv: Sequence[str], limit: float) -> "Captured":
    """In the home directory: what the project holds cannot take the place of a program or its settings."""
    from acp_launch.plan.environment import inherited
    from acp_launch.process.capture import capture

    return capture(argv, limit, env=inherited(os.environ, "all"), cwd=Path.home())


# The store the user chose together with its index, for the verbs that are about the store itself.


class Vault:
    """Every method may raise SecretError."""

    def __init__(self, settings: Settings) -> None:
        keep_to_ourselves()
        self.settings = settings
        self.store = _opened(settings)
        self.index = NameIndex(settings.state, _identity(settings, self.store.label))

    def do(self, what: str, work: Callable[[], T], *, writing: str = "") -> T:
        """One piece of work a person has just asked for; `what` could not be done when it fails.

        `writing` is the name of a secret that is kept: when there is no keyring for it, the choices are explained.
        """
        try:
            self.store.prepare(writing=bool(writing))
            return done(self.settings, self.store, work, patient=True)
        except StoreFault as fault:
            detail = fault.detail
            if writing and self.settings.secrets.store == "keyring" and fault.state in ("unavailable", "locked"):
                detail = (*detail, *choices(writing, self.settings.config))
            raise SecretError(f"{what}: {fault.reason}", fix=fault.fix, detail=detail) from None

    def states(self, *names: str) -> Mapping[str, Outcome]:
        """What became of each."""
        return self.do("the store cannot be read", lambda: self.store.read(names))

    def require(self, *names: str) -> None:
        """One that is there and cannot be read, a damaged one for instance, will do.

        Raises:
            SecretError: some are missing.
        """
        if missing := [name for name, outcome in self.states(*names).items() if outcome.state == "missing"]:
            raise self._missing(missing)

    def read(self, name: str) -> Secret:
        """The secret of that name.

        Raises:
            SecretError: there is none, or it cannot be read.
        """
        outcome = self.states(name)[name]
        if outcome.state == "missing":
            raise self._missing([name])
        if outcome.secret is None:
            raise SecretError(f'the secret "{name}" cannot be had: {outcome.reason}', fix=outcome.fix)
        return outcome.secret

    def names(self) -> tuple[Names, str, bool]:
        """What the store holds, a word for the person if there is one, and whether the store could not be read."""
        try:
            actual = done(self.settings, self.store, self.store.names)
        except StoreFault as fault:
            known = self.index.names()
            return known, f"{fault.reason}; {'this is what was set from here' if known else fault.fix}", True
        before = self.index.names()
        if actual is None:
            return before, "the store cannot be listed; this is what was set from here", False
        gone = sorted(before.keys() - actual.keys())
        remark = f"no longer in the {self.store.label}: {', '.join(gone)}" if gone else ""
        return self.index.correct(actual), remark, False

    def _missing(self, names: Sequence[str]) -> SecretError:
        hint = did_you_mean(names[0], self.index.names())
        listed = ", ".join(f'"{name}"' for name in names)
        return SecretError(f"no secret named {listed} in the {self.store.label}{hint}", fix="acp-launch secret list")


def _opened(settings: Settings) -> Store:
    try:
        return open_store(settings)
    except StoreFault as fault:
        raise SecretError(f"the store cannot be used: {fault.reason}", fix=fault.fix) from None


def _identity(settings: Settings, label: str) -> str:
    """What tells this store from others of the same user."""
    store = settings.secrets.store
    backend = settings.secrets.keyring.backend or os.environ.get("PYTHON_KEYRING_BACKEND", "")
    return label if store == "file" else f"{store} {backend}".strip()
