"""
The `keyring` store: the desktop's own keyring, service `acp-launch`, one item for each secret.

Importing this module imports no keyring library, and creating a store reads nothing.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

from acp_launch.secret.backend import SECRET_SERVICE, choose
from acp_launch.secret.value import Outcome, Secret, Store, StoreFault
from acp_launch.settings.model import KeyringSettings


def open_keyring(settings: KeyringSettings, environ: Mapping[str, str], *, interactive: bool) -> Store:
    """Return the store. `interactive`: a user can answer a dialog of the desktop."""
    return Keyring(settings, environ, interactive=interactive)


class Keyring:
    """The chosen keyring. It is chosen at the first call, because the choice may have to read a file."""

    def __init__(self, settings: KeyringSettings, environ: Mapping[str, str], *, interactive: bool) -> None:
        self._settings = settings
        self._environ = environ
        self._interactive = interactive

    @property
    def label(self) -> str:
        try:
            return self._chosen.label
        except StoreFault:  # the next read or write reports it
            return "keyring"

    def prepare(self, *, writing: bool = False) -> None:
        self._chosen.prepare(writing=writing)

    def read(self, names: Sequence[str]) -> Mapping[str, Outcome]:
        return self._chosen.read(names)

    def write(self, name: str, secret: Secret) -> None:
        self._chosen.write(name, secret)

    def remove(self, name: str) -> bool:
        return self._chosen.remove(name)

    def names(self) -> Mapping[str, float | None] | None:
        return self._chosen.names()

    @cached_property
    def _chosen(self) -> Store:
        choice = choose(self._settings, self._environ)
        if choice.name == SECRET_SERVICE:
            from acp_launch.secret.secretservice import SecretService

            return SecretService(self._environ, interactive=self._interactive)
        from acp_launch.secret.library import LibraryKeyring

        return LibraryKeyring(choice)
