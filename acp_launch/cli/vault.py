"""The store the user chose together with its index, for the verbs that are about the store itself."""

import os
from collections.abc import Callable, Mapping
from typing import TypeVar

from acp_launch.cli.stores import done, open_store
from acp_launch.console.secrets import choices
from acp_launch.errors import SecretError
from acp_launch.secret.index import Index, Names
from acp_launch.secret.outcome import Outcome, StoreFault
from acp_launch.secret.streams import install
from acp_launch.settings.model import Settings

T = TypeVar("T")


class Vault:
    """Every method may raise SecretError."""

    def __init__(self, settings: Settings) -> None:
        install()  # from here on whatever is printed passes the redactor
        self.settings = settings
        self.store = open_store(settings)
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

    def read(self, *names: str) -> Mapping[str, Outcome]:
        """Found or missing; anything else is an error."""
        outcomes = self.do("the secret cannot be had", lambda: self.store.read(names))
        for name, outcome in outcomes.items():
            if outcome.state not in ("found", "missing"):
                raise SecretError(f'the secret "{name}" cannot be had: {outcome.reason}', fix=outcome.fix)
        return outcomes

    def names(self) -> tuple[Names, str]:
        """What the store holds; with a word for the person when only the index could tell."""
        try:
            actual = done(self.settings, self.store, self.store.names)
        except StoreFault as fault:
            return self.index.names(), f"{fault.reason}; this is what was set from here"
        return (self.index.names() if actual is None else self.index.correct(actual)), ""


def _identity(settings: Settings, label: str) -> str:
    """What tells this store from others of the same user."""
    store = settings.secrets.store
    return label if store == "file" else f"{store} {os.environ.get('PYTHON_KEYRING_BACKEND', '')}".strip()
