"""A run whose host is up: the checks, the prompt and the user are here, everything else is the host's."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from acp_launch.app.screen import Screen
from acp_launch.app.spec import RunSpec, at_home, check_session_name, find_profile
from acp_launch.console.stderr import DIM, YELLOW, harmless, say, share, tell
from acp_launch.document.scalars import Duration
from acp_launch.errors import StateError
from acp_launch.plan.model import LaunchPlan, Origin, OverSsh, Place, ProcessPlan, Value
from acp_launch.problem import dotted, ours
from acp_launch.profile.discover import Found, here, read, shown
from acp_launch.profile.model import Timeouts
from acp_launch.served.registry import Content, FrontPlan, HostNote, content_of, digest, find
from acp_launch.settings.model import Settings
from acp_launch.waits import seconds

if TYPE_CHECKING:
    from acp_launch.app.up import Begun
    from acp_launch.profile.load import Loaded

    ReadPrompt = Callable[[], str]

DETACHED_SECONDS = 600.0  # for which a host stays that `--detach` has brought up


def run_in_host(request: RunSpec, settings: Settings, screen: Screen, read_prompt: "ReadPrompt | None") -> int | None:
    """Carry out the run with the host of its profile, and return the exit code; None if there is none for it. Without
    `read_prompt` it is interactive.

    If the host runs what the files of the profile say, they are not parsed again, and nothing is resolved.

    Raises:
        LaunchError: as `run`; `StateError` if the host cannot be reached.
    """
    found = find_profile(request.profile, settings)
    note = find(settings.state, str(found.project), found.name)
    check_session_name(request.session)
    if note is not None and read_prompt is not None and (plan := _plan_of(note, found, request)) is not None:
        from acp_launch.app.front import run_hosted

        return run_hosted(request, plan, settings, screen, note, read_prompt)
    return _run_by_content(request, found, settings, screen, read_prompt)


def _plan_of(note: HostNote, found: Found, request: RunSpec) -> "LaunchPlan | None":
    """Return the plan of a host for one of its fronts, without servers: they are the host's.

    None if the host is not up yet, or if it cannot be seen from the files alone that it runs this content in the same
    directories.
    """
    plan = note.plan
    if plan is None or not note.socket or plan.file != str(found.file):
        return None
    cwd = at_home(request.cwd) or (Path(note.cwd) if plan.names_cwd else here())
    if os.path.normpath(here() / cwd) != note.cwd or not _is_unchanged(plan):
        return None
    if not all(os.access(directory, os.R_OK | os.X_OK) for directory in (note.cwd, *plan.additional_directories)):
        return None
    return _launch_plan(plan, found, request, cwd=Path(note.cwd))


def _is_unchanged(plan: FrontPlan) -> bool:
    """Whether the files of the profile are those that the host has read."""
    if any(map(os.path.lexists, plan.absent_paths)):
        return False

    texts = {file: read(Path(file))[0] for file in plan.files}
    return all(text is not None and digest(text) == plan.files[file] for file, text in texts.items())


def _launch_plan(plan: FrontPlan, found: Found, request: RunSpec, *, cwd: Path) -> "LaunchPlan":
    typed = Origin(found.called)
    command, *rest = plan.agent
    args = tuple(Value((argument,), typed) for argument in rest)
    there = None if plan.there is None else OverSsh(plan.there[0], Path(plan.there[1]), "")
    return LaunchPlan(
        profile=found.name,
        file=found.file,
        called=found.called,
        is_built_in=plan.is_built_in,
        project=found.project,
        description="",
        agent=ProcessPlan(name="agent", command=Path(command), args=args, env={}, cwd=cwd),
        timeouts=Timeouts(**{wait: Duration(seconds) for wait, seconds in plan.timeouts.items()}),
        cwd=cwd,
        additional_directories=tuple(map(Path, plan.additional_directories)),
        session=request.session or plan.session,
        permission="ask",
        servers=(),
        mode=plan.mode,
        config=plan.config,
        place=None if there is None else Place(program=Path("ssh"), mounts=(), elsewhere=there),
        origins={
            path: Origin(shown(Path(file)), line, column, dotted(path)) for path, file, line, column in plan.origins
        },
    )


def _run_by_content(
    request: RunSpec, found: Found, settings: Settings, screen: Screen, read_prompt: "ReadPrompt | None"
) -> int | None:
    """Do the same as `run_in_host`, with the profile as it is read and resolved here."""
    from acp_launch.app.planning import resolved_for_front
    from acp_launch.profile.load import load

    loaded = load(found, cache=settings.cache)
    plan = resolved_for_front(loaded, request.cwd, request.session)
    if plan is None:
        return None
    note = present(settings, plan)
    if note is None and request.wants_host:
        begun = _brought_up(request)
        if begun.code or not begun.pid:  # it did not come up; or this process is the host, and has ended
            return begun.code
        note = present(settings, plan)
    note = usable_host(note, loaded, plan, is_needed=request.detach)
    if note is None:
        return None
    from acp_launch.app.front import run_hosted

    return run_hosted(request, plan, settings, screen, note, read_prompt)


def present(settings: Settings, plan: "LaunchPlan") -> HostNote | None:
    """Return the host of this profile in this project."""
    return find(settings.state, str(plan.project), plan.profile)


def usable_host(
    note: HostNote | None, loaded: "Loaded", plan: "LaunchPlan", *, is_needed: bool = False
) -> HostNote | None:
    """Return the host if it runs this content in the same directory; else None, and say the difference.

    Raises:
        StateError: it differs, and the run needs a host.
    """
    if note is None or not note.socket:
        return None
    content = content_of(loaded)
    if note.digest == content.digest and note.cwd == str(plan.cwd):
        return note
    _tell_difference(note, plan, content, is_needed=is_needed)
    return None


def _brought_up(request: RunSpec) -> "Begun":
    """Bring up a host that ends after its use. Returns in the host too, at its end."""
    from acp_launch.app.up import start

    keep = request.keep or DETACHED_SECONDS
    begun = start(RunSpec(profile=request.profile, cwd=request.cwd, keep=keep, trust=request.trust, outlives=False))
    if begun.pid and not begun.code and request.keep is None:
        share()
        tell(f"{request.profile} is up now, until {seconds(keep)} after its last use", style=DIM)
    return begun


def _tell_difference(note: HostNote, plan: "LaunchPlan", content: Content, *, is_needed: bool = False) -> None:
    is_elsewhere = note.cwd != str(plan.cwd)
    has_other_servers = content.others == note.others and not is_elsewhere
    again = ours("reload", note.called) if has_other_servers else ours("up", note.called, "--replace")
    if is_needed:
        why = f"works in {note.cwd}" if is_elsewhere else "runs an older version of the profile"
        raise StateError(f"the host of {note.called} {why}", fix=again)
    if is_elsewhere:
        tell(f"the host of {note.called} works in {note.cwd}, so it is not used", style=DIM)
        return
    what = "restarts just its servers" if has_other_servers else "starts it again"
    tell(f"{note.called} has changed since it was started, so its host is not used; {again} {what}", style=YELLOW)
    from acp_launch.profile.trust import changes

    for line in changes(note.lines, content.lines):
        say(harmless(f"    {line}", keep=""), style=DIM)
