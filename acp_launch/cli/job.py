"""One `run`, from its request to its exit code. Nothing starts before all possible checks have passed."""

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

from msgspec.structs import replace

from acp_launch.cli import run_request as prompts
from acp_launch.cli.run_request import RunRequest
from acp_launch.cli.screen import Screen
from acp_launch.errors import UsageError
from acp_launch.host.place import any_host
from acp_launch.settings.load import load
from acp_launch.settings.model import Settings

if TYPE_CHECKING:
    from acp_launch.cli.planning import Ready
    from acp_launch.cli.start import RunContext
    from acp_launch.plan.model import LaunchPlan
    from acp_launch.session.store import Record, Registry


def carry_out(request: RunRequest) -> int:
    """Carry out the request and return the exit code."""
    if request.plain:
        os.environ["NO_COLOR"] = "1"  # known to everything that draws, also in the programs we start
    screen = Screen(request.output, has_links=not request.plain)
    with screen.reporting():
        return _carried_out(request, screen)


def _carried_out(request: RunRequest, screen: Screen) -> int:
    settings = load()
    prompts.check_background(request)
    if prompts.may_be_hosted(request) and (prompts.wants_host(request) or any_host(settings.state)):
        from acp_launch.cli.attach import hosted

        if (code := hosted(request, settings, screen)) is not None:
            return code
    from acp_launch.process.guard import start_guards
    from acp_launch.process.prepare import require_descriptors
    from acp_launch.process.spawn import require_platform

    require_platform()
    require_descriptors()
    start_guards()
    return _launched(request, settings, screen)


def _launched(request: RunRequest, settings: Settings, screen: Screen) -> int:
    """Carry out the run with an agent of its own."""
    from acp_launch.cli.start import RunContext

    if request.agent is None and (request.latest or not request.words):
        from acp_launch.cli.choice import completed

        request = completed(request, settings)
    profile, words = _profile_and_words(request)
    if is_interactive := prompts.is_left_open(words, request.file) and request.output == "text":
        prompts.require_nothing_one_shot(request)
    plan, secrets, credentials = _plan(profile, words, request, settings, screen)
    plan = replace(plan, timeouts=replace(plan.timeouts, **request.limits))
    text = "" if is_interactive else prompts.read(words, request.file)
    prompts.examine(request.attach)
    with ExitStack() as stack:
        held = stack.enter_context(ExitStack())
        prompts.require_one_session(request)
        registry, name, record = session_of(plan, settings, stack, held, latest=request.latest, is_new=request.new)
        kept = RunContext(settings, secrets, registry, name, record, credentials)
        if is_interactive:
            from acp_launch.cli.interactive_run import run_interactive

            return run_interactive(request, plan, kept, held)
        return _turn(request, plan, text, screen, kept)


def _profile_and_words(request: RunRequest) -> tuple[str, tuple[str, ...]]:
    """Split the words into the profile's name and the prompt; with `--agent` all words belong to the prompt."""
    if request.agent is not None:
        return "", request.words
    return request.words[0], request.words[1:]


def _plan(profile: str, words: tuple[str, ...], request: RunRequest, settings: Settings, screen: Screen) -> "Ready":
    from acp_launch.cli.planning import Ready, adhoc_plan, ready, trusted_profile

    if request.agent is not None:
        if request.locked:
            raise UsageError("--locked cannot be combined with --agent", fix="the lock file is of profiles; name one")
        return Ready(*adhoc_plan(request.agent, cwd=request.cwd, session=request.session), {})
    resolved = trusted_profile(
        profile, settings, cwd=request.cwd, session=request.session, trust=request.trust, locked=request.locked
    )
    if resolved.plan is not None and request.output != "text":
        prompts.require(words, request.file)
    return ready(resolved, settings, waiting=screen.waiting)


def session_of(
    plan: "LaunchPlan",
    settings: Settings,
    stack: ExitStack,
    held: ExitStack,
    *,
    latest: bool = False,
    is_new: bool = False,
) -> "tuple[Registry, str, Record | None]":
    """Return the store, the session's name, and its record if it is resumed.

    `stack` keeps the store open, and `held` holds the session. The store is opened for a new session too, so that its
    faults are reported before anything starts.

    Raises:
        SessionError: cannot open the store, another process is in the session, or it is of another directory.
    """
    from acp_launch.session import store as choice
    from acp_launch.session.hold import fresh_name, hold
    from acp_launch.session.store import open_registry

    registry = stack.enter_context(open_registry(settings.state))
    name = choice.latest_name(registry, plan) if latest else plan.session or fresh_name()
    held.enter_context(hold(settings.state, (str(plan.project), plan.profile, name)))
    if is_new or not (latest or plan.session):
        return registry, name, None
    return registry, name, choice.continued(registry, plan, name, latest=latest)


def _turn(request: RunRequest, plan: "LaunchPlan", text: str, screen: Screen, kept: "RunContext") -> int:
    """Start the agent, then import the modules that talk to it, so that both overlap; run the turn."""
    screen.roots = (plan.cwd, *plan.additional_directories)
    from acp_launch.cli.start import launched

    with launched(kept.settings, plan, kept.secrets, request.trace) as (guard, plan, spawned, trace):
        import asyncio

        from acp_launch.cli.session_needs import blocks, exit_code, run_context, session_request
        from acp_launch.launch.run import Prompt, run_prompt
        from acp_launch.session.store import SessionKeeper

        keeper = SessionKeeper(kept.registry, plan, kept.record, text)
        prompt = Prompt(
            request=session_request(request, plan, kept, keeper),
            blocks=blocks(request, plan, text),
            timeout=request.timeout,
            over=lambda end: keeper.ended(end.title),
        )
        with run_context(request, plan, kept, guard, screen.person(), screen.observer.note, trace=trace) as context:
            return exit_code(asyncio.run(run_prompt(context, prompt, spawned, screen.observer)))
