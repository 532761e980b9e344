"""Import of other tools' servers into a new profile, for `init`."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from acp_launch.cli.shelving import Shelving
from acp_launch.console import init, interop
from acp_launch.interop import merge
from acp_launch.interop.drafts import Token, collect_drafts, holes
from acp_launch.interop.read import Finding
from acp_launch.profile.scaffold import NewServer
from acp_launch.secret.redact import redactor
from acp_launch.secret.value import Secret


class Adopted(Struct, frozen=True):
    """The imported servers. `keeping` are the secrets to store, by name; `missing` those the store will lack."""

    servers: tuple[NewServer, ...]
    keeping: tuple[tuple[str, Secret], ...] = ()
    missing: tuple[tuple[str, Token], ...] = ()


def adopted(found: Sequence[Finding], project: Path, shelving: Shelving) -> Adopted:
    """Read the servers in these files, with a secret's name in place of each credential.

    Shows the servers, and asks whether to import them and whether to store the credentials.

    Raises:
        LaunchError: the store cannot be read.
        Dismissed: the user left without an answer.
    """
    incoming = collect_drafts([(one.tool, one.source.root) for one in found if one.source], str(project))
    redactor.register(*(token.secret for token in incoming.tokens if token.secret is not None))
    servers = [one for one in merge.chosen(incoming.drafts, (), wants_agent=False) if one.kind == "server"]
    drafts = merge.fitting(servers)
    needed = dict.fromkeys(index for one in drafts if not one.unfit for index in holes(one.shape))
    names = shelving.names(incoming, needed, ())
    steps = merge.steps({}, [one for one in drafts if not one.unfit], names)
    interop.tell_of_drafts(drafts, steps, forced=False)
    interop.tell_of_servers(steps)
    if steps and init.choice("Import them", ("yes", "no")) == "no":
        return Adopted(())
    tokens = [(names[index], incoming.tokens[index]) for index in needed]
    entries = tuple(NewServer(step.name, step.entry, step.comments) for step in steps)
    valued = [(name, token) for name, token in tokens if token.secret is not None]
    if not valued or not _are_kept(valued, shelving):
        return Adopted(entries, (), tuple(tokens))
    missing = tuple((name, token) for name, token in tokens if token.secret is None)
    return Adopted(entries, tuple((name, token.secret) for name, token in valued if token.secret is not None), missing)


def keep(servers: Adopted, found: Sequence[Finding], shelving: Shelving) -> None:
    """Store the credentials of the imported servers.

    Raises:
        SecretError: a secret cannot be stored.
    """
    if servers.keeping:
        shelving.keep(servers.keeping)
        interop.tell_of_kept([name for name, _ in servers.keeping], shelving.label, [one.file for one in found])
    interop.tell_of_missing(servers.missing)


def _are_kept(tokens: Sequence[tuple[str, Token]], shelving: Shelving) -> bool:
    interop.tell_of_tokens(tokens)
    return init.choice(f"Store them in the {shelving.label}", ("yes", "no")) == "yes"
