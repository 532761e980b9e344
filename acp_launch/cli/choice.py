"""
The profile and the session of a run that does not name them: the only one there is, or the user's choice from a list.

On a terminal the list can be filtered (`interactive.picker`). Elsewhere it is printed with the command to type, and the
exit code is 2.
"""

import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from acp_launch.cli.planning import here
from acp_launch.cli.run_request import RunRequest, is_left_open
from acp_launch.console.stderr import DIM, harmless, say
from acp_launch.errors import SessionError, Stopped, UsageError
from acp_launch.problem import ours

if TYPE_CHECKING:
    from acp_launch.console.sessions import States
    from acp_launch.interactive.picker import Choices
    from acp_launch.profile.discover import Found
    from acp_launch.session.store import Record
    from acp_launch.settings.model import Settings


def completed(request: RunRequest, settings: "Settings") -> RunRequest:
    """Return a request without a profile, or with `--continue`, with the profile and the session that it is about.

    Raises:
        UsageError: there are several, and the user cannot be asked.
        Stopped: the user chose none.
    """
    if request.latest and (request.session or request.new):
        return request
    if request.latest:
        return _resumed(request, settings)
    if request.session and (record := _named(request.session, settings)):
        return resuming(record, request)
    return request._replace(words=(_profile(settings),))


def resuming(record: "Record", request: RunRequest | None = None) -> RunRequest:
    """Return the request that resumes a session, in its directory unless another one is given.

    Raises:
        SessionError: it was made with --agent, and only the user knows the command.
    """
    from acp_launch.plan.resolve import ADHOC

    if record.profile.startswith(ADHOC):
        fix = ours("run", "--agent", "COMMAND ARGS", "--session", record.name)
        raise SessionError(f'the session "{called(record)}" was made with --agent', fix=f"with that command: {fix}")
    request = request or RunRequest()
    words = request.words or (record.profile,)
    cwd = request.cwd or Path(record.cwd)
    return request._replace(words=words, session=record.name, latest=False, cwd=cwd)


def pick_session(records: "Sequence[Record]", project: Path) -> "Record":
    """Let the user choose one of several sessions, the latest first."""
    from acp_launch.console import sessions
    from acp_launch.interactive.picker import Choices

    now = time.time()
    rows = [sessions.choice_row(record, now=now) for record in records]
    title = f"Sessions in {sessions.tilde(str(project), str(Path.home()))}"
    number = _picked(Choices(title=title, headings=sessions.CHOICE, rows=rows, ends=[0]))
    return records[number]


def called(record: "Record") -> str:
    """Return what users call a session."""
    from acp_launch.console import sessions

    return sessions.called(record.name, record.title)


def can_pick() -> bool:
    """Return whether a list can be drawn for the user."""
    from acp_launch.interactive.front import can_draw

    return can_draw()


def list_sessions(records: "Sequence[Record]", states: "States | None" = None) -> None:
    """Print a table of sessions."""
    from acp_launch.console import sessions, stdout
    from acp_launch.console.columns import terminal_width

    width, home = terminal_width(), str(Path.home())
    stdout.line(sessions.table(records, now=time.time(), home=home, width=width, states=states or {}))


def refuse_to_choose(records: "Sequence[Record]") -> NoReturn:
    """Print the sessions, and the command that resumes the latest."""
    list_sessions(records)
    latest = records[0]
    fix = f"name one: {ours('run', latest.profile, '--session', latest.name)}"
    raise UsageError(f"there are {len(records)} sessions, and no terminal to choose one on", fix=fix)


def _resumed(request: RunRequest, settings: "Settings") -> RunRequest:
    """Choose the session of `--continue`.

    Of a named profile it is the latest, but in an interactive session the user may choose another one.
    """
    if request.words:
        is_asked = is_left_open(request.words[1:], request.file) and request.output == "text" and can_pick()
        records = _of_profile(request.words[0], settings) if is_asked else []
        return resuming(pick_session(records, here()), request) if len(records) > 1 else request
    project, records = _of_project(settings)
    if not records:
        raise SessionError(f"there is no session in {project} to continue", fix=f"start one: {ours('run')}")
    if len(records) > 1 and not can_pick():
        refuse_to_choose(records)
    record = pick_session(records, project) if len(records) > 1 else records[0]
    if len(records) == 1:
        _tell(f'resuming the only session of this project, "{called(record)}" of profile {record.profile}')
    return resuming(record, request)


def _of_project(settings: "Settings") -> "tuple[Path, Sequence[Record]]":
    """Return the sessions of this project that a profile can resume, the latest first."""
    from acp_launch.plan.resolve import ADHOC
    from acp_launch.profile.discover import project_of
    from acp_launch.session.store import open_registry

    project = project_of(here())
    with open_registry(settings.state) as registry:
        return project, [each for each in registry.list(str(project)) if not each.profile.startswith(ADHOC)]


def _of_profile(name: str, settings: "Settings") -> "Sequence[Record]":
    from acp_launch.profile.discover import find
    from acp_launch.session.store import open_registry

    found = find(name, start=here(), settings=settings)
    with open_registry(settings.state) as registry:
        return registry.list(str(found.project), found.name)


def _named(name: str, settings: "Settings") -> "Record | None":
    """Return the session of this project with this name if it is the only one."""
    named = [record for record in _of_project(settings)[1] if record.name == name]
    return named[0] if len(named) == 1 else None


def _profile(settings: "Settings") -> str:
    from acp_launch.profile.discover import discover

    found = [each for each in discover(start=here(), settings=settings) if not each.shadowed_by]
    of_project = [each for each in found if each.origin == "project"]
    if len(of_project) == 1:
        _tell(f"running {of_project[0].name}, the only profile of this project")
        return of_project[0].name
    others = ("user",) if of_project else ("user", "built-in")
    offered = [*of_project, *(each for each in found if each.origin in others)]
    return _picked_profile(offered, settings)


def _picked_profile(offered: "Sequence[Found]", settings: "Settings") -> str:
    from acp_launch.console import profiles
    from acp_launch.profile.load import inspect

    entries = [(found, *inspect(found, cache=settings.cache)) for found in offered]
    if not can_pick():
        profiles.show_list(entries, as_json=False)
        fix = f"name one: {ours('run', offered[0].name, 'PROMPT')}"
        raise UsageError("no profile is given", fix=fix)
    from acp_launch.interactive.picker import Choices

    rows = list(profiles.rows(entries))
    number = _picked(Choices(title="Profiles", headings=("NAME", "FROM", "DESCRIPTION"), rows=rows, ends=[2]))
    return offered[number].name


def _picked(choices: "Choices") -> int:
    from acp_launch.interactive.picker import pick_now

    number = pick_now(choices)
    if number is None:
        raise Stopped("nothing was chosen", signal_number=signal.SIGINT)
    return number


def _tell(text: str) -> None:
    say(harmless(f"acp-launch: {text}", keep=""), style=DIM)
