"""
The verbs `run` and `attach`: one prompt, or an interactive session. Nothing starts before all possible checks have
passed.

A run that does not name its profile or session takes the only one there is, or the user's choice from a list. Without a
terminal the list is printed with the command to type, and the exit code is 2.
"""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

from acp_launch.app.lookup import load_settings, usable_profiles
from acp_launch.app.screen import Screen
from acp_launch.cli.run_request import RunRequest
from acp_launch.cli.verb import Argument, Option, Plain
from acp_launch.console.stderr import DIM, tell
from acp_launch.errors import NotLoggedIn, SessionError, Stopped, UsageError
from acp_launch.host.place import any_host, hosts
from acp_launch.problem import ours
from acp_launch.profile.discover import here, project_of

if TYPE_CHECKING:
    from acp_launch.app.planning import Ready
    from acp_launch.console.sessions import States
    from acp_launch.host.place import HostNote
    from acp_launch.host.wire import SessionStatus
    from acp_launch.interactive.picker import PickList
    from acp_launch.session.store import Record
    from acp_launch.settings.model import Settings


class Run(RunRequest):
    """Run a prompt, or start an interactive session.

    The prompt is the words after the profile, or --file, or stdin. Without one, on a terminal, the session is
    interactive.
    """

    __slots__ = ()

    def carry_out(self) -> int:
        return carry_out(self)


def attach(
    session: Annotated[str | None, Argument("[SESSION]", "A session that is open in a host.")] = None,
    profile: Annotated[str | None, Option("--profile -p", "Its profile, if several have one.")] = None,
    plain: Plain = False,
) -> int:
    """Attach this terminal to a session of a host, also in the middle of a turn."""
    if not RunRequest().is_interactive:
        raise UsageError("attach needs a terminal", fix=f"without one: {ours('run', 'PROFILE', 'PROMPT')}")
    note, name = _session_of_host(load_settings(), session, profile)
    os.chdir(note.here)  # where the profile has the name that `up` was given
    return carry_out(RunRequest(words=(note.called,), session=name, cwd=Path(note.cwd), plain=plain))


def _session_of_host(settings: "Settings", session: str | None, profile: str | None) -> "tuple[HostNote, str]":
    """Return the host that has the session, and its name; without a name, the session that is open alone."""
    from acp_launch.host.door import read_status

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


def _list_open(found: "Sequence[tuple[HostNote, SessionStatus]]") -> "PickList":
    from acp_launch.console.sessions import tilde
    from acp_launch.interactive.picker import PickList

    home = str(Path.home())
    rows = [(each.name, each.title, each.state, note.called, tilde(note.cwd, home)) for note, each in found]
    headings = ("SESSION", "TITLE", "STATE", "PROFILE", "DIRECTORY")
    return PickList(title="Sessions of hosts", headings=headings, rows=rows, ends=[1], starts=[4])


def carry_out(request: RunRequest) -> int:
    """Carry out the request and return the exit code."""
    if request.plain:
        os.environ["NO_COLOR"] = "1"  # known to everything that draws, also in the programs we start
    screen = Screen(request.output, has_links=not request.plain)
    with screen.report_failures():
        return _carry_out(request, screen)


def _carry_out(request: RunRequest, screen: Screen) -> int:
    request.watch_lifeline()

    settings = load_settings()
    request.check()
    read_prompt = None if request.is_interactive else request.read_prompt
    if request.may_be_hosted and (request.wants_host or any_host(settings.state)):
        from acp_launch.app.attach import run_in_host

        if (code := run_in_host(request.spec, settings, screen, read_prompt)) is not None:
            return code
    from acp_launch.app.planning import prepare_launch
    from acp_launch.app.run import run_launch

    prepare_launch()
    if request.agent is None and (request.latest or not request.words):
        request = _complete(request, settings)
    return run_launch(request.spec, settings, screen, _plan(request, settings, screen), read_prompt)


def _plan(request: RunRequest, settings: "Settings", screen: Screen) -> "Ready":
    from acp_launch.app.planning import adhoc_plan, loaded_profile, log_in_now, ready, resolve_trusted

    if request.agent is not None:
        return adhoc_plan(request.agent, cwd=request.cwd, session=request.session, is_confined=request.confined)
    resolved = resolve_trusted(
        loaded_profile(request.words[0], settings),
        settings,
        cwd=request.cwd,
        session=request.session,
        trust=request.trust,
        locked=request.locked,
    )
    if resolved.plan is not None and request.output != "text":
        request.require_prompt()
    try:
        return ready(resolved, settings, waiting=screen.show_wait)
    except NotLoggedIn as error:
        if not log_in_now(error.servers, request.words[0], trust=request.trust):
            raise
    return ready(resolved, settings, waiting=screen.show_wait)


# The profile and the session of a run that does not name them.


def _complete(request: RunRequest, settings: "Settings") -> RunRequest:
    """Return a request without a profile, or with `--continue`, with the profile and the session that it is about."""
    if request.latest:
        return _resume(request, settings)
    records = _resumable(settings) if request.session else ()
    if len(named := [record for record in records if record.name == request.session]) == 1:
        return request_to_resume(named[0], request)
    return request._replace(words=(_profile(settings),))


def request_to_resume(record: "Record", request: RunRequest | None = None) -> RunRequest:
    """Return the request that resumes a session, in its directory unless another one is given.

    Raises:
        SessionError: it was made with --agent, and only the user knows the command.
    """
    from acp_launch.plan.resolve import ADHOC

    if record.profile.startswith(ADHOC):
        fix = ours("run", "--agent", "COMMAND ARGS", "--session", record.name)
        raise SessionError(
            f'the session "{session_label(record)}" was made with --agent', fix=f"with that command: {fix}"
        )
    request = request or RunRequest()
    words = request.words or (record.profile,)
    cwd = request.cwd or Path(record.cwd)
    return request._replace(words=words, session=record.name, latest=False, cwd=cwd)


def pick_session(records: "Sequence[Record]", project: Path) -> "Record":
    """Let the user choose one of several sessions, the latest first."""
    from acp_launch.console import sessions
    from acp_launch.interactive.picker import PickList

    now = time.time()
    rows = [sessions.choice_row(record, now=now) for record in records]
    title = f"Sessions in {sessions.tilde(str(project), str(Path.home()))}"
    number = _pick(PickList(title=title, headings=sessions.CHOICE, rows=rows, ends=[0]))
    return records[number]


def session_label(record: "Record") -> str:
    """Return what users call a session."""
    from acp_launch.console import sessions

    return sessions.display_name(record.name, record.title)


def can_pick() -> bool:
    """Return whether a list can be drawn for the user."""
    from acp_launch.interactive.front import can_draw

    return can_draw()


def list_sessions(records: "Sequence[Record]", states: "States | None" = None) -> None:
    """Print a table of sessions."""
    from acp_launch.console import sessions, stdout
    from acp_launch.console.stdout import terminal_width

    width, home = terminal_width(), str(Path.home())
    stdout.line(sessions.table(records, now=time.time(), home=home, width=width, states=states or {}))


def refuse_to_choose(records: "Sequence[Record]") -> NoReturn:
    """Print the sessions, and the command that resumes the latest."""
    list_sessions(records)
    latest = records[0]
    fix = f"name one: {ours('run', latest.profile, '--session', latest.name)}"
    raise UsageError(f"there are {len(records)} sessions, and no terminal to choose one on", fix=fix)


def _resume(request: RunRequest, settings: "Settings") -> RunRequest:
    """Choose the session of `--continue`: the latest one, of the profile or of all in this project."""
    if request.words:
        return request
    records = _resumable(settings)
    if not records:
        raise _nothing_to_continue(settings)
    latest, which = records[0], "the latest" if records[1:] else "the only"
    tell(f'resuming {which} session of this project, "{session_label(latest)}" of profile {latest.profile}', style=DIM)
    return request_to_resume(latest, request)


def _resumable(settings: "Settings") -> "Sequence[Record]":
    """Return the sessions of this project, the latest first."""
    from acp_launch.plan.resolve import ADHOC
    from acp_launch.session.store import open_registry

    with open_registry(settings.state) as registry:
        listed = registry.list(str(project_of(here())))
    return [each for each in listed if not each.profile.startswith(ADHOC)]


def _nothing_to_continue(settings: "Settings") -> SessionError:
    from acp_launch.session.store import hint_at_move, open_registry

    project = str(project_of(here()))
    with open_registry(settings.state) as registry:
        fix = hint_at_move(registry, project) or f"start one: {ours('run')}"
    return SessionError(f"there is no session in {project} to continue", fix=fix)


def _profile(settings: "Settings") -> str:
    from acp_launch.console import profiles
    from acp_launch.profile.load import inspect_all

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
