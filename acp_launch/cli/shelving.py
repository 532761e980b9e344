"""The credentials of an import go to the store: under names that are free there, or that hold the same already."""

from collections.abc import Iterable, Sequence
from functools import partial

from acp_launch.cli.stores import Vault
from acp_launch.errors import SecretError
from acp_launch.interop.drafts import DraftSet
from acp_launch.secret.value import Outcome, Secret
from acp_launch.settings.model import Settings

MOST = 50  # how often a name may be taken before we give up


class Shelving:
    """The store is opened by who needs it first; an import without credentials never does."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._opened: Vault | None = None
        self._states: dict[str, Outcome] = {}

    @property
    def label(self) -> str:
        return self._vault.store.label

    def names(self, incoming: DraftSet, needed: Iterable[int], taken: Iterable[str]) -> list[str]:
        """One for each token; those of the `needed` ones do not hold another value.

        Raises:
            SecretError: the store cannot be asked.
        """
        used = set(taken)
        valued = [index for index in needed if incoming.tokens[index].secret is not None]
        for _ in range(MOST):
            names = incoming.names(used)
            self._look(names[index] for index in valued)
            strange = {
                names[index] for index in valued if self._is_another(names[index], incoming.tokens[index].secret)
            }
            if not strange:
                return names
            used |= strange
        raise SecretError("the secrets' names are all taken", fix="acp-launch secret list")

    def keep(self, secrets: Sequence[tuple[str, Secret]]) -> None:
        """
        Raises:
            SecretError: the store cannot keep one.
        """
        for name, secret in secrets:
            if self._states[name].state == "found":  # the same value
                continue
            failed = f'the secret "{name}" cannot be kept'
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
            self._opened = Vault(self._settings)
        return self._opened
