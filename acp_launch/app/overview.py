"""
`acp-launch` alone: the project, its profiles, hosts that are up, missing secrets, the latest sessions, and the commands
to type next.

It reads files and asks the hosts: no store of secrets is asked and no agent is started. Whether a secret is set is
therefore told from the variables and from the index of the names that acp-launch has stored.
"""

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from acp_launch.app.spec import load_settings, usable_profiles
from acp_launch.console import stdout
from acp_launch.console.profiles import description
from acp_launch.console.sessions import choice_row, tilde
from acp_launch.console.stderr import harmless
from acp_launch.errors import LaunchError
from acp_launch.plan.model import needs
from acp_launch.private import Unfit
from acp_launch.problem import Problem, count, errors, ours
from acp_launch.profile.discover import Found, here, project_of
from acp_launch.profile.load import Loaded, inspect_all
from acp_launch.profile.trust import trust_state
from acp_launch.secret.lookup import stored_names
from acp_launch.secret.stores import chosen_kind
from acp_launch.secret.value import variable
from acp_launch.served.registry import HostNote, any_host, hosts
from acp_launch.session.store import Record, open_registry, store_file
from acp_launch.settings.model import Settings

MAX_PROFILES = 8  # that are shown
LATEST = 3  # sessions that are shown
NEXT = 3  # commands that are suggested, besides --help
TRUST = {
    "own": "",
    "accepted": "trusted",
    "new": "not trusted yet",
    "changed": "changed since you trusted it",
    "doubtful": "cannot be trusted",
}
UNTRUSTED = (TRUST["new"], TRUST["changed"], TRUST["doubtful"])
LABELLED = 2  # texts of a row that is not in columns
Row = tuple[str, ...]


class ProfileRow(NamedTuple):
    """A profile of the project or of the user; `loaded` is None if it has problems."""

    found: Found
    loaded: Loaded | None
    state: str


def show() -> int:
    settings, project = load_settings(), project_of(here())
    own = [each for each in usable_profiles(settings) if each.origin != "built-in"]
    profiles = [_examine(*each, settings) for each in inspect_all(own[:MAX_PROFILES], cache=settings.cache)]
    missing, sessions = _find_missing(profiles, settings), _latest(project, settings)
    rows: list[Row] = [("project", tilde(str(project), str(Path.home())))]
    rows += _group("profiles", _profile_rows(profiles, len(own) - MAX_PROFILES))
    notes = hosts(settings.state) if any_host(settings.state) else ()
    rows += _group("hosts", [(_describe_host(note, project),) for note in notes if note.socket])
    rows += _group("secrets", [(name, "not set", f"needed by {profile}") for name, profile in missing])
    rows += _group("sessions", _session_rows(sessions))
    width = stdout.terminal_width()
    table = iter(stdout.columns([row for row in rows if len(row) > LABELLED] or [("",)], width=width, ends=[1, 3]))
    for row in rows:  # those with one text take no part in the columns
        line = next(table) if len(row) > LABELLED else f"{row[0]:8}  {stdout.plain(row[1])}"
        stdout.line(harmless(line, keep=""))
    stdout.line("")
    commands = [*_commands(profiles, missing, sessions)][:NEXT]
    commands.append(("acp-launch --help", "all commands; acp-launch help is the manual"))
    for line in stdout.columns(list(_group("next", commands)), width=width, ends=[2]):
        stdout.line(harmless(line, keep=""))
    return 0


def _group(label: str, rows: Sequence[Row]) -> Iterator[Row]:
    """Yield the rows, the first with the label before it."""
    for number, row in enumerate(rows):
        yield ("" if number else label, *row)


def _examine(found: Found, loaded: Loaded | None, problems: Sequence[Problem], settings: Settings) -> ProfileRow:
    if loaded is None:
        return ProfileRow(found, None, count(len(errors(problems)), "problem"))
    return ProfileRow(found, loaded, TRUST[trust_state(loaded, settings).how])


def _find_missing(profiles: Sequence[ProfileRow], settings: Settings) -> list[tuple[str, str]]:
    """Return the secrets without a value; none if the store only reads, as it alone knows what it has."""
    needed: dict[str, str] = {}
    for profile in profiles:
        for need in needs(profile.loaded) if profile.loaded else ():
            needed.setdefault(need.name, profile.found.name)
    if not needed or chosen_kind(settings.secrets).is_read_only:
        return []
    try:
        stored = {name for name, _ in stored_names(settings.state)}
    except (ValueError, Unfit):  # the index is damaged; `secret check` asks the store
        return []
    return [each for each in needed.items() if each[0] not in stored and not os.environ.get(variable(each[0]))]


def _latest(project: Path, settings: Settings) -> Sequence[Record] | None:
    """Return the latest sessions; None if the store cannot be read."""
    if not store_file(settings.state).exists():
        return ()
    try:
        with open_registry(settings.state) as registry:
            return registry.list(str(project), limit=LATEST)
    except LaunchError:  # `session list` tells the store's fault
        return None


def _profile_rows(profiles: Sequence[ProfileRow], more: int) -> list[Row]:
    rows: list[Row] = []
    for each in profiles:
        name = each.found.name if each.found.origin == "project" else f"{each.found.name} (yours)"
        rows.append((name, each.state, description(each.loaded)))
    if more > 0:
        rows.append((f"{more} more: acp-launch list",))
    return rows or [("none yet; acp-launch list shows the built-in ones",)]


def _describe_host(note: HostNote, project: Path) -> str:
    from acp_launch.served.connect import read_status

    place = "" if note.project == str(project) else f" in {tilde(note.cwd, str(Path.home()))}"
    try:
        sessions = read_status(note).sessions
    except LaunchError as error:
        return f"{error.message}; {error.fix}"
    if asks := [each.name for each in sessions if each.state == "asks"]:
        waits = "waits" if len(asks) == 1 else "wait"
        return f"{note.called} is up{place}; {', '.join(asks)} {waits} for you: {ours('attach', *asks[:1])}"
    opened = f"; {count(len(sessions), 'session')}: {ours('attach')}" if sessions else ""
    return f"{note.called} is up{place}{opened}"


def _session_rows(sessions: Sequence[Record] | None) -> list[Row]:
    if sessions is None:
        return [(f"cannot be read: {ours('session', 'list')}",)]
    rows = [choice_row(record, now=time.time()) for record in sessions]
    return [(row[0], row[1], row[3]) for row in rows] or [("none yet",)]


def _commands(
    profiles: Sequence[ProfileRow], missing: Sequence[tuple[str, str]], sessions: Sequence[Record] | None
) -> Iterator[tuple[str, str]]:
    """Yield the next commands, the most useful first, each with its purpose."""
    if not profiles:
        yield ours("run", "demo"), "try it: an agent that needs no account"
        yield ours("init"), "create a profile for this project"
        yield ours("import"), "import agents and MCP servers from other tools"
    for each in [each for each in profiles if each.loaded is None][:1]:
        yield ours("validate", each.found.name), "show its problems"
    for name, _ in missing[:1]:
        yield ours("secret", "set", name), "store the secret"
    usable = sorted((each for each in profiles if each.loaded), key=lambda each: each.state in UNTRUSTED)
    for each in usable[:1]:
        asks = "start a session; shows first what it would run, and asks"
        yield ours("run", each.found.name), asks if each.state in UNTRUSTED else "start a session"
    if sessions:
        yield ours("session"), "resume a session"
