"""`run` without a prompt: the interactive session."""

import asyncio
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any
from zlib import crc32

from acp_launch.cli.planning import checked_name, here
from acp_launch.cli.session_needs import session_needs, wished
from acp_launch.cli.start import launched
from acp_launch.plan.model import LaunchPlan
from acp_launch.session.hold import hold

if TYPE_CHECKING:
    from acp_launch.cli.run_request import RunContext, RunRequest
    from acp_launch.process.guard import Guard
    from acp_launch.process.spawn import Spawned
    from acp_launch.process.supervisor import Program
    from acp_launch.process.tree import Exit


def run_interactive(request: "RunRequest", plan: LaunchPlan, kept: "RunContext", held: ExitStack) -> int:
    """Run an interactive session and return the exit code; `held` holds the first session."""
    with launched(kept.settings, plan, kept.secrets) as (guard, plan, spawned):
        return asyncio.run(_run(request, plan, kept, held, guard, spawned))


async def _run(
    request: "RunRequest", plan: LaunchPlan, kept: "RunContext", held: ExitStack, guard: "Guard", spawned: "Spawned"
) -> int:
    from acp_launch.console.stillclock import StillClock, UntimedPerson
    from acp_launch.console.stream.redacted import RedactedOutput
    from acp_launch.interactive.output import session_output
    from acp_launch.interactive.session import SessionSetup, run_session
    from acp_launch.interactive.state import HeldSessions
    from acp_launch.interactive.which import choose_front

    shown = choose_front(kept.settings.state / "history" / _history_name(plan))
    clock = StillClock()
    output = session_output(shown.canvas, clock)
    held_sessions = HeldSessions(kept.registry, plan, partial(_holding, plan, kept), check=checked_name)

    async def in_front(program: "Program") -> "Exit":
        from acp_launch.process.foreground import foreground

        async with shown.suspended():
            return await foreground(program)

    observer = RedactedOutput(output)
    with session_needs(
        request, plan, kept, guard, UntimedPerson(shown.person, clock), observer.note, in_front
    ) as needs:
        setup = SessionSetup(
            needs=needs,
            front=shown,
            observer=observer,
            output=output,
            held_sessions=held_sessions,
            held_session=held_sessions.first(kept.name, kept.record, held),
            replay=request.replay,
            wishes=wished(plan, request.sets),
            blocks=partial(_blocks, plan),
            here=here(),
        )
        return await run_session(plan, setup, spawned)


def _holding(plan: LaunchPlan, kept: "RunContext", name: str) -> AbstractContextManager[None]:
    return hold(kept.settings.state, (str(plan.project), plan.profile, name))


def _history_name(plan: LaunchPlan) -> str:
    """Name the history file: one for each project, because users give the same prompts to different agents."""
    readable = "".join(mark if mark.isalnum() or mark in "-_." else "_" for mark in plan.project.name[:40])
    return f"{readable}-{crc32(str(plan.project).encode(errors='surrogatepass')):08x}"


def _blocks(plan: LaunchPlan, text: str, able: Any) -> list[dict[str, Any]]:
    from acp_launch.session.attachments import blocks

    return blocks(text, plan.cwd, (plan.cwd, *plan.additional_directories), able)
