"""Storage of imported credentials, under names that are free in the store or already hold the same value."""

from collections.abc import Iterable, Sequence
from functools import partial

from acp_launch.cli.stores import Vault
from acp_launch.cli.supply import sealed_file
from acp_launch.errors import SecretError
from acp_launch.interop.drafts import DraftSet
from acp_launch.secret.value import Outcome, Secret
from acp_launch.settings.model import Settings

MOST = 50  # attempts to find free names


class CredentialStore:
    """The store for imported credentials. It is opened at first use, and not by an import without credentials."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._opened: Vault | None = None
        self._states: dict[str, Outcome] = {}

    @property
    def label(self) -> str:
        return self._vault.store.label

    def require(self, incoming: DraftSet) -> None:
        """Check that the store can be read, if there are credentials to store.

        Raises:
            SecretError: it cannot be read.
        """
        self.names(incoming, range(len(incoming.tokens)), ())

    def names(self, incoming: DraftSet, needed: Iterable[int], taken: Iterable[str]) -> list[str]:
        """Choose a name for each token; the names of `needed` tokens do not hold another value in the store.

        Raises:
            SecretError: the store cannot be read.
        """
        used = set(taken)
        valued = [index for index in needed if incoming.tokens[index].secret is not None]
        for _ in range(MOST):
            names = incoming.names(used)
            self._look(names[index] for index in valued)
            occupied = {
                names[index] for index in valued if self._is_another(names[index], incoming.tokens[index].secret)
            }
            if not occupied:
                return names
            used |= occupied
        raise SecretError("all names for the secret are taken", fix="acp-launch secret list")

    def store(self, secrets: Sequence[tuple[str, Secret]]) -> None:
        """Store the secrets.

        Raises:
            SecretError: a secret cannot be stored.
        """
        for name, secret in secrets:
            if self._states[name].state == "found":  # the same value
                continue
            failed = f'cannot store secret "{name}"'
            self._vault.do(failed, partial(self._vault.store.write, name, secret), writing=name)
            self._vault.index.put(name)

    def _look(self, names: Iterable[str]) -> None:
        if unknown := [name for name in names if name not in self._states]:
            self._states |= self._vault.states(*unknown)

    def _is_another(self, name: str, secret: Secret | None) -> bool:
        outcome = self._states[name]
        return outcome.state != "missing" and outcome.secret != secret

    @property
    def _vault(self) -> Vault:
        if self._opened is None:
            self._opened = Vault(self._settings, instead=sealed_file)
        return self._opened
