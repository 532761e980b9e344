"""The way from other tools' configuration to a profile, by questions: `import` without a source on a terminal."""

import typer

from acp_launch.cli.drafting import CANCELLED, CredentialStore, Options, chosen_sources, name_fault
from acp_launch.cli.importing import ImportRequest, import_source, list_, own_profiles
from acp_launch.cli.init import create
from acp_launch.cli.planning import here
from acp_launch.console import init
from acp_launch.console.interop import note
from acp_launch.console.stderr import say
from acp_launch.interop.drafts import collect_drafts
from acp_launch.interop.read import Finding, survey
from acp_launch.interop.tools import this_machine
from acp_launch.profile.discover import project_of
from acp_launch.profile.load import shown
from acp_launch.secret.redact import redactor
from acp_launch.settings.load import load


def imported_profile() -> str:
    """Ask which sources to import, and into which profile; return its name, or "" if nothing is imported.

    Raises:
        LaunchError: the source, the profile or the store is not usable.
        Exit: the user left without an answer.
    """
    found = [one for one in survey(this_machine(), project_of(here())) if one.servers]
    if not found:
        list_(as_json=False)
        return ""
    try:
        chosen = chosen_sources(found, otherwise="all")
        credentials = _credentials(chosen)
        goal = _goal() if chosen else ""
    except (init.InputEnded, KeyboardInterrupt):
        say("\nacp-launch: nothing was written")
        raise typer.Exit(CANCELLED) from None
    if not chosen:
        note("nothing was imported")
        return ""
    if goal in own_profiles():
        return _into_existing(chosen, goal, credentials)
    return create(_options(goal, chosen), credentials)


def _credentials(chosen: tuple[Finding, ...]) -> CredentialStore:
    """Open the store for the credentials in these files before more is asked, so that no answer is given in vain.

    Raises:
        SecretError: there are credentials, and the store cannot be read.
    """
    credentials = CredentialStore(load())
    incoming = collect_drafts([(one.tool, one.source.root) for one in chosen if one.source], str(project_of(here())))
    redactor.register(*(token.secret for token in incoming.tokens if token.secret is not None))
    credentials.require(incoming)
    return credentials


def _goal() -> str:
    """Ask for the profile: one of those that are there, or the name of a new one. Empty if there is none yet."""
    there = own_profiles()
    if not there:
        return ""
    say(f"Profiles here: {', '.join(there)}")
    return init.name(there[0], lambda name: "" if name in there else name_fault(name))


def _options(name: str, chosen: tuple[Finding, ...]) -> Options:
    return Options(name, "", "", (), is_users=False, force=False, sources=chosen)


def _into_existing(chosen: tuple[Finding, ...], name: str, credentials: CredentialStore) -> str:
    request = ImportRequest((), "", "", dry_run=False, yes=False, force=False)
    for one in chosen:
        import_source(shown(one.file), name, one.tool, request, credentials)
    return name
