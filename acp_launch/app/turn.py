"""The one prompt of a run, once its agent starts."""

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import replace

from acp_launch.app.context import run_context
from acp_launch.app.screen import Screen, exit_code
from acp_launch.app.spec import RunSpec
from acp_launch.engine.run import run_prompt
from acp_launch.session.observer import show_note
from acp_launch.session.store import SessionKeeper

if TYPE_CHECKING:
    from acp_launch.app.start import ChosenSession, Launched


def run_turn(spec: RunSpec, started: "Launched", chosen: "ChosenSession", text: str, screen: Screen) -> int:
    plan, (registry, name, record) = started.plan, chosen
    screen.roots = (plan.cwd, *plan.additional_directories)
    keeper = SessionKeeper(registry, plan, record, text)
    prompt = spec.prompt(plan, name, record, text)
    prompt = replace(
        prompt,
        request=replace(prompt.request, opened=keeper.opened),
        over=lambda end: keeper.ended(end.title, text, end.said, end.stop_reason),
        broken=lambda said: keeper.broken(text, said),
    )
    with run_context(spec, started, screen.person(), lambda text: show_note(screen.observer, text)) as context:
        return exit_code(asyncio.run(run_prompt(context, prompt, started.spawned, screen.observer)))
