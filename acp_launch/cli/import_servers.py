"""Import of other tools' servers into a new profile, for `init`."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from acp_launch.cli.credentials import CredentialStore
from acp_launch.console import init, interop
from acp_launch.interop import merge
from acp_launch.interop.drafts import Token, collect_drafts, holes
from acp_launch.interop.read import Finding
from acp_launch.profile.scaffold import NewServer
from acp_launch.secret.redact import redactor
from acp_launch.secret.value import Secret


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
