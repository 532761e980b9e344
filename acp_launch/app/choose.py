"""
The profile and the session of a run that does not name them: the only one there is, or the user's choice from a list.

Without a terminal the list is printed with the command to type, and the exit code is 2.
"""

import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from acp_launch.app.planning import loaded_profile
from acp_launch.app.sessions import session_label
from acp_launch.app.spec import RunSpec, usable_profiles
from acp_launch.console import profiles, sessions
from acp_launch.console.sessions import tilde
from acp_launch.console.stderr import DIM, tell
from acp_launch.errors import LaunchError, SessionError, Stopped, UsageError
from acp_launch.interactive.terminal import can_draw
from acp_launch.plan.resolve import ADHOC
from acp_launch.problem import ours
from acp_launch.profile.discover import here, project_of
from acp_launch.profile.load import inspect_all
from acp_launch.served.connect import read_status
from acp_launch.served.registry import HostNote, hosts
from acp_launch.served.wire import SessionStatus
from acp_launch.session.store import Record, hint_at_move, open_registry
from acp_launch.settings.model import Settings

if TYPE_CHECKING:
    from acp_launch.interactive.picker import PickList


def session_of_host(settings: Settings, session: str | None, profile: str | None) -> tuple[HostNote, str]:
    """Return the host that has the session, and its name; without a name, the session that is open alone."""
    notes = [note for note in hosts(settings.state) if note.socket and profile in (None, note.called, note.profile)]
    if not notes:
        raise SessionError("no profile is up" if profile is None else f"{profile} is not up", fix=ours("up", "PROFILE"))
    found = [(note, each) for note in notes for each in read_status(note).sessions if session in (None, each.name)]
    found.sort(key=lambda one: one[1].state != "asks")
    if found[1:] and can_pick():
        found = [found[_pick(_list_open(found))]]
    if len(found) == 1:
        return found[0][0], found[0][1].name
    names = ", ".join(f"{each.name} ({note.called}, {each.state})" for note, each in found)
    if found:
        raise SessionError(f"several sessions are open: {names}", fix=ours("attach", "SESSION"))
    which = "no session is open" if session is None else f'no session "{session}" is open'
    fix = f"to open one: {ours('run', notes[0].called, *(('--session', session) if session else ()))}"
    raise SessionError(f"{which} in a host", fix=fix)


def _list_open(found: Sequence[tuple[HostNote, SessionStatus]]) -> "PickList":
    from acp_launch.interactive.picker import PickList

    home = str(Path.home())
    rows = [(each.name, each.title, each.state, note.called, tilde(note.cwd, home)) for note, each in found]
    headings = ("SESSION", "TITLE", "STATE", "PROFILE", "DIRECTORY")
    return PickList(title="Sessions of hosts", headings=headings, rows=rows, ends=[1], starts=[4])


def complete(spec: RunSpec, settings: Settings) -> RunSpec:
    """Return what runs without a profile, or with `latest`, with the profile and the session that it is about."""
    if spec.latest:
        return _resume(spec, settings)
    records = _resumable(settings) if spec.session else ()
    if len(named := [record for record in records if record.name == spec.session]) == 1:
        return resume_record(named[0], spec)
    return replace(spec, profile=_profile(settings))


def resume_record(record: Record, spec: RunSpec | None = None) -> RunSpec:
    """Return the run that resumes a session, in its directory unless another one is given.

    Raises:
        SessionError: it was made with --agent, and only the user knows the command.
    """
    if record.profile.startswith(ADHOC):
        fix = ours("run", "--agent", "COMMAND ARGS", "--session", record.name)
        raise SessionError(
            f'the session "{session_label(record)}" was made with --agent', fix=f"with that command: {fix}"
        )
    spec = spec or RunSpec()
    cwd = spec.cwd or record.directory
    return replace(spec, profile=spec.profile or record.profile, session=record.name, latest=False, cwd=cwd)


def pick_session(records: Sequence[Record], project: Path) -> Record:
    """Let the user choose one of several sessions, the latest first."""
    from acp_launch.interactive.picker import PickList

    now = time.time()
    rows = [sessions.choice_row(record, now=now) for record in records]
    title = f"Sessions in {sessions.tilde(str(project), str(Path.home()))}"
    number = _pick(PickList(title=title, headings=sessions.CHOICE, rows=rows, ends=[0]))
    return records[number]


def can_pick() -> bool:
    """Return whether a list can be drawn for the user."""
    return can_draw()


def _resume(spec: RunSpec, settings: Settings) -> RunSpec:
    """Choose the session of `--continue`: the latest one, of the profile or of all in this project, that is on the
    machine where its agent is now."""
    if spec.profile:
        return spec
    records = _resumable(settings)
    if not records:
        project = str(project_of(here()))
        with open_registry(settings.state) as registry:
            fix = hint_at_move(registry, project) or f"start one: {ours('run')}"
        raise SessionError(f"there is no session in {project} to continue", fix=fix)
    latest = next((each for each in records if _has_its_agent(each, settings)), records[0])
    which = "the latest" if records[1:] else "the only"
    tell(f'resuming {which} session of this project, "{session_label(latest)}" of profile {latest.profile}', style=DIM)
    return resume_record(latest, spec)


def _has_its_agent(record: Record, settings: Settings) -> bool:
    """Tell whether a session works on the machine that its profile names now; a broken profile is told of later."""
    try:
        ssh = loaded_profile(record.profile, settings).profile.runtime.ssh
    except LaunchError:
        return True
    return record.host == (ssh.host if ssh else "")


def _resumable(settings: Settings) -> Sequence[Record]:
    """Return the sessions of this project, the latest first."""
    with open_registry(settings.state) as registry:
        listed = registry.list(str(project_of(here())))
    return [each for each in listed if not each.profile.startswith(ADHOC)]


def _profile(settings: Settings) -> str:
    found = usable_profiles(settings)
    of_project = [each for each in found if each.origin == "project"]
    if len(of_project) == 1:
        tell(f"running {of_project[0].name}, the only profile of this project", style=DIM)
        return of_project[0].name
    others = ("user",) if of_project else ("user", "built-in")
    offered = [*of_project, *(each for each in found if each.origin in others)]
    entries = inspect_all(offered, cache=settings.cache)
    if not can_pick():
        profiles.show_list(entries, as_json=False)
        raise UsageError("no profile is given", fix=f"name one: {ours('run', offered[0].name, 'PROMPT')}")
    from acp_launch.interactive.picker import PickList

    rows = list(profiles.rows(entries))
    number = _pick(PickList(title="Profiles", headings=("NAME", "FROM", "DESCRIPTION"), rows=rows, ends=[2]))
    return offered[number].name


def _pick(choices: "PickList") -> int:
    from acp_launch.interactive.picker import pick_now

    number = pick_now(choices)
    if number is None:
        raise Stopped("nothing was chosen", signal_number=signal.SIGINT)
    return number
