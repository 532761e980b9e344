"""The verbs `run` and `attach`: one prompt, or an interactive session. Nothing starts before all checks have passed."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from acp_launch.app.attach import run_in_host
from acp_launch.app.lookup import load_settings
from acp_launch.app.screen import Screen
from acp_launch.cli.run_request import RunRequest
from acp_launch.cli.verb import Argument, Option, Plain
from acp_launch.errors import NotLoggedIn, UsageError
from acp_launch.problem import ours
from acp_launch.served.registry import any_host

if TYPE_CHECKING:
    from acp_launch.app.spec import PreparedPlan, RunSpec
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
    from acp_launch.app.choose import session_of_host

    note, name = session_of_host(load_settings(), session, profile)
    os.chdir(note.here)  # where the profile has the name that `up` was given
    return carry_out(RunRequest(words=(note.called,), session=name, cwd=Path(note.cwd), plain=plain))


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
    read_prompt, spec = None if request.is_interactive else request.read_prompt, request.spec
    may_go_to_host = request.may_be_hosted and (request.wants_host or any_host(settings.state))
    if may_go_to_host and (code := run_in_host(spec, settings, screen, read_prompt)) is not None:
        return code
    from acp_launch.app.planning import prepare_launch

    prepare_launch()
    from acp_launch.app.run import run_launch

    if request.agent is None and (request.latest or not request.words):
        from acp_launch.app.choose import complete

        spec = complete(spec, settings)
    return run_launch(spec, settings, screen, _plan(request, spec, settings, screen), read_prompt)


def _plan(request: RunRequest, spec: "RunSpec", settings: "Settings", screen: Screen) -> "PreparedPlan":
    from acp_launch.app.planning import adhoc_plan, loaded_profile, ready, resolve_trusted

    if spec.agent is not None:
        return adhoc_plan(spec.agent, cwd=spec.cwd, session=spec.session, is_confined=spec.is_confined)
    resolved = resolve_trusted(
        loaded_profile(spec.profile, settings),
        settings,
        cwd=spec.cwd,
        session=spec.session,
        trust=spec.trust,
        locked=spec.locked,
    )
    if resolved.plan is not None and request.output != "text":
        request.require_prompt()
    try:
        return ready(resolved, settings, waiting=screen.show_wait)
    except NotLoggedIn as error:
        from acp_launch.app.consent import log_in_now

        if not log_in_now(error.servers, spec.profile, trust=spec.trust):
            raise
    return ready(resolved, settings, waiting=screen.show_wait)
