"""The verbs of `agents`, for agents of the registry: `search`, `show`, `install`, `list` and `rm`."""

import time
from collections.abc import Sequence
from itertools import groupby
from typing import Annotated

from acp_launch.app.questions import require_agreement
from acp_launch.app.spec import load_settings, usable_profiles
from acp_launch.app.stores import saying_waiting
from acp_launch.cli.verb import Argument, Group, Json, Option, Yes
from acp_launch.console import agents, stdout
from acp_launch.console.agents import Installed
from acp_launch.console.sessions import ago
from acp_launch.console.stderr import YELLOW, say, tell
from acp_launch.console.stdout import answer
from acp_launch.errors import RegistryError, UsageError
from acp_launch.problem import did_you_mean
from acp_launch.profile.load import inspect_all
from acp_launch.registry.index import ADDRESS, FETCH_TIMEOUT, Copy, PublishedAgent, latest, read_copy
from acp_launch.registry.install import remove, this_platform
from acp_launch.registry.installed import Installation, Reference, home, installations, read, reference
from acp_launch.settings.model import Settings

app = Group("Agents of the registry: search, show, install, list, rm.")

Id = Annotated[str, Argument("ID", "The agent's id in the registry.")]


@app.verb()
def search(
    words: Annotated[tuple[str, ...], Argument("[WORD]...", "Words of its id or description.")] = (),
    as_json: Json = False,
) -> None:
    """List the agents of the registry that have all these words."""
    settings = load_settings()
    copy, fault = _latest(settings)
    entries = [each for each in copy.agents.values() if _has(each, words)]
    installed = _list_installed(settings)
    text = agents.search_table(entries, installed, width=stdout.terminal_width()) if entries else ""
    nothing = "no agent in the registry matches; acp-launch agents search lists all of them"
    answer(agents.search_json(entries, installed, copy, fault), text, nothing, as_json=as_json)


@app.verb()
def show(agent: Id, as_json: Json = False) -> None:
    """Show what the registry says about an agent, and the line of a profile that starts it."""
    settings = load_settings()
    copy, fault = _latest(settings)
    entry = _entry(copy, _reference(agent).id)
    installed = _list_installed(settings)
    text = agents.details(entry, installed.get(entry.id, ()), this_platform())
    answer(agents.details_json(entry, installed, copy, fault), text, as_json=as_json)


@app.verb()
def install(
    agent: Annotated[str, Argument("ID[@VERSION]", "The agent's id; its newest version.")],
    allow_unverified: Annotated[
        bool, Option("--allow-unverified", "Install an archive even if the registry has no sha256 for it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Install an agent's binary for profiles that name it: agent: {registry: ID}."""
    made, is_new = _install(load_settings(), _reference(agent), allow_unverified=allow_unverified)
    if as_json:
        stdout.put_json({**agents.installation_json(made), "is_new": is_new})
        return
    said = made.manifest
    what = "installed" if is_new else "already installed:"
    tell(f"{what} {said.id} {said.version} ({said.kind} {said.package})")
    say(f"    a profile starts it with agent: {{registry: {said.id}}}")


@app.verb("list")
def list_(as_json: Json = False) -> None:
    """List the installed agents of the registry, without contacting it."""
    settings = load_settings()
    found, copy = installations(settings.state), read_copy(settings.cache)
    copy = copy if copy is not None and copy.address == _address(settings) else None
    newest = {entry.id: entry.version for entry in copy.agents.values()} if copy else {}
    text = agents.table(found, newest, now=time.time(), width=stdout.terminal_width()) if found else ""
    nothing = "no agents of the registry are installed; acp-launch agents search lists those that can be"
    answer(agents.table_json(found, copy), text, nothing, as_json=as_json)


@app.verb()
def rm(
    agents: Annotated[tuple[str, ...], Argument("ID[@VERSION]...", "Agents; by default all versions.")],
    yes: Yes = False,
) -> None:
    """Remove installed agents. Asks if a profile here names one of them."""
    settings = load_settings()
    found = {each: _list_fitting(settings, each) for each in map(_reference, agents)}
    if absent := next((str(each) for each, those in found.items() if not those), ""):
        raise RegistryError(f"{absent} is not installed", fix="acp-launch agents list")
    going = list({made.directory: made for those in found.values() for made in those}.values())
    if not yes:
        _confirm_loss(settings, going)
    for made in going:
        remove(made, settings.state)
        tell(f"removed {made.reference}")


def _confirm_loss(settings: Settings, going: Sequence[Installation]) -> None:
    """Ask, if profiles here would have no installation left of the agent that they name.

    Raises:
        UsageError: the user does not agree, or cannot be asked.
    """
    for found, loaded, _ in inspect_all(usable_profiles(settings), cache=settings.cache):
        named = loaded.profile.agent.registry if loaded else None
        there = _list_fitting(settings, _reference(named)) if named else ()
        if there and all(made in going for made in there):
            tell(f"profile {found.name} starts {named}", style=YELLOW)
            require_agreement("Remove it?", "nothing was removed", "--yes removes it anyway")


def _list_fitting(settings: Settings, wanted: Reference) -> list[Installation]:
    return [made for made in installations(settings.state, wanted.id) if wanted.version in ("", made.manifest.version)]


def _reference(text: str) -> Reference:
    found = reference(text)
    if found is None:
        raise UsageError(f"{text!r} is not the id of an agent", fix="acp-launch agents search lists them")
    return found


def _address(settings: Settings) -> str:
    return settings.registry or ADDRESS


def _latest(settings: Settings) -> tuple[Copy, str]:
    """Return the index; if only its copy can be used, say so and how old that is."""
    address = _address(settings)
    with saying_waiting("the registry's index", FETCH_TIMEOUT):
        copy, fault = latest(address, settings.cache)
    if fault:
        when = ago(copy.fetched, now=time.time())
        tell(f"the registry's index {fault}; this is the copy of {when}")
    return copy, fault


def _entry(copy: Copy, agent: str) -> PublishedAgent:
    if found := copy.agents.get(agent):
        return found
    hint = did_you_mean(agent, copy.agents)
    raise RegistryError(f'the registry has no agent "{agent}"{hint}', fix="acp-launch agents search lists them")


def _list_installed(settings: Settings) -> Installed:
    return {id: list(those) for id, those in groupby(installations(settings.state), lambda each: each.manifest.id)}


def _has(entry: PublishedAgent, words: Sequence[str]) -> bool:
    text = f"{entry.id} {entry.name} {entry.description}".casefold()
    return all(word.casefold() in text for word in words)


def _install(settings: Settings, wanted: Reference, *, allow_unverified: bool) -> tuple[Installation, bool]:
    """Install a version. One that is there already is not asked for, so that a script may install what it needs."""
    from acp_launch.registry.install import DOWNLOAD_TIMEOUT, binary_of, install

    if wanted.version and (made := read(home(settings.state) / wanted.id / wanted.version)):
        return made, False
    entry = _entry(_latest(settings)[0], wanted.id)
    if made := read(home(settings.state) / entry.id / (wanted.version or entry.version)):
        return made, False
    binary = binary_of(entry, wanted.version or entry.version, allow_unverified=allow_unverified)
    with saying_waiting("the agent's archive", DOWNLOAD_TIMEOUT):
        return install(entry, binary, state=settings.state, registry=_address(settings))
