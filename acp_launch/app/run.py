"""A run with an agent of its own: one prompt, or an interactive session."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from msgspec.structs import replace

from acp_launch.app.screen import Screen
from acp_launch.app.spec import RunSpec
from acp_launch.app.start import ChosenSession, launch_agent
from acp_launch.session import store as choice
from acp_launch.session.hold import fresh_name, hold
from acp_launch.session.store import open_registry

if TYPE_CHECKING:
    from acp_launch.engine.prepared import PreparedPlan
    from acp_launch.plan.model import LaunchPlan
    from acp_launch.settings.model import Settings


def run_launch(
    spec: RunSpec, settings: "Settings", screen: Screen, ready: "PreparedPlan", read_prompt: Callable[[], str] | None
) -> int:
    """Run one prompt, or an interactive session without `read_prompt`, with an agent of its own; return the exit code.

    `prepare_launch` comes before it.

    Raises:
        LaunchError: see the tree in `errors`.
    """
    plan = replace(ready.plan, timeouts=replace(ready.plan.timeouts, **spec.limits))
    text = "" if read_prompt is None else read_prompt()
    with ExitStack() as stack:
        held = stack.enter_context(ExitStack())
        chosen = session_of(plan, settings, stack, held, latest=spec.latest, is_new=spec.is_new)
        with launch_agent(settings, ready._replace(plan=plan), spec.trace) as started:
            if read_prompt is not None:  # the rest is imported while the agent starts
                from acp_launch.app.context import run_turn

                return run_turn(spec, started, chosen, text, screen)
            from acp_launch.app.interactive_run import run_interactive

            return run_interactive(spec, started, chosen, held)


def session_of(
    plan: "LaunchPlan",
    settings: "Settings",
    stack: ExitStack,
    held: ExitStack,
    *,
    latest: bool = False,
    is_new: bool = False,
) -> "ChosenSession":
    """Choose the session, and hold it.

    `stack` keeps the store open, and `held` holds the session. The store is opened for a new session too, so that its
    faults are reported before anything starts.

    Raises:
        SessionError: cannot open the store, another process is in the session, or it is of another directory.
    """
    registry = stack.enter_context(open_registry(settings.state))
    name = choice.latest_name(registry, plan) if latest else plan.session or fresh_name()
    held.enter_context(hold(settings.state, (str(plan.project), plan.profile, name)))
    if is_new or not (latest or plan.session):
        return ChosenSession(registry, name, None)
    return ChosenSession(registry, name, choice.continued(registry, plan, name, latest=latest))
