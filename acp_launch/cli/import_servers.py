"""Import of other tools' servers into a new profile, for `init`, and of their credentials into the secret store."""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from acp_launch.cli.stores import Vault
from acp_launch.cli.supply import sealed_file
from acp_launch.console import init, interop
from acp_launch.errors import SecretError
from acp_launch.interop import merge
from acp_launch.interop.drafts import DraftSet, Token, collect_drafts, holes
from acp_launch.interop.read import Finding
from acp_launch.profile.scaffold import NewServer
from acp_launch.secret.redact import redactor
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


class ImportedServers(Struct, frozen=True):
    """The imported servers. `to_store` are the secrets to store, by name; `missing` those the store will lack."""

    servers: tuple[NewServer, ...]
    to_store: tuple[tuple[str, Secret], ...] = ()
    missing: tuple[tuple[str, Token], ...] = ()


def import_servers(found: Sequence[Finding], project: Path, credentials: CredentialStore) -> ImportedServers:
    """Read the servers in these files, with a secret's name in place of each credential.

    Shows the servers, and asks whether to import them and whether to store the credentials.

    Raises:
        LaunchError: the store cannot be read.
        InputEnded: the user left without an answer.
    """
    incoming = collect_drafts([(one.tool, one.source.root) for one in found if one.source], str(project))
    redactor.register(*(token.secret for token in incoming.tokens if token.secret is not None))
    servers = [one for one in merge.chosen(incoming.drafts, (), wants_agent=False) if one.kind == "server"]
    drafts = merge.fitting(servers)
    needed = dict.fromkeys(index for one in drafts if not one.unfit for index in holes(one.shape))
    names = credentials.names(incoming, needed, ())
    steps = merge.steps({}, [one for one in drafts if not one.unfit], names)
    interop.tell_of_drafts(drafts, steps, forced=False)
    interop.tell_of_servers(steps)
    if steps and not init.agreed("Import them?"):
        return ImportedServers(())
    tokens = [(names[index], incoming.tokens[index]) for index in needed]
    entries = tuple(NewServer(step.name, step.entry, step.comments) for step in steps)
    valued = [(name, token) for name, token in tokens if token.secret is not None]
    if not valued or not _are_kept(valued, credentials):
        return ImportedServers(entries, (), tuple(tokens))
    missing = tuple((name, token) for name, token in tokens if token.secret is None)
    return ImportedServers(
        entries, tuple((name, token.secret) for name, token in valued if token.secret is not None), missing
    )


def store_credentials(servers: ImportedServers, found: Sequence[Finding], credentials: CredentialStore) -> None:
    """Store the credentials of the imported servers.

    Raises:
        SecretError: a secret cannot be stored.
    """
    if servers.to_store:
        credentials.store(servers.to_store)
        interop.tell_of_kept([name for name, _ in servers.to_store], credentials.label, [one.file for one in found])
    interop.tell_of_missing(servers.missing)


def _are_kept(tokens: Sequence[tuple[str, Token]], credentials: CredentialStore) -> bool:
    interop.tell_of_tokens(tokens)
    return init.agreed(f"Store them in the {credentials.label}?")
