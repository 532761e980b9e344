"""The store the user chose together with its index, for the verbs that are about the store itself."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from acp_launch.cli.stores import done, keep_to_ourselves, open_store
from acp_launch.console.secrets import choices
from acp_launch.errors import SecretError
from acp_launch.problem import did_you_mean
from acp_launch.secret.lookup import Index, Names
from acp_launch.secret.value import Outcome, Secret, Store, StoreFault
from acp_launch.settings.model import Settings

T = TypeVar("T")


class Vault:
    """Every method may raise SecretError."""

    def __init__(self, settings: Settings) -> None:
        keep_to_ourselves()
        self.settings = settings
        self.store = _opened(settings)
        self.index = Index(settings.state, _identity(settings, self.store.label))

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
