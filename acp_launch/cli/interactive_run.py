"""`run` without a prompt: the interactive session."""

from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any
from zlib import crc32

from acp_launch.cli.planning import checked_name, here
from acp_launch.cli.start import Launched, RunContext, launched
from acp_launch.plan.model import LaunchPlan
from acp_launch.problem import ours
from acp_launch.session.hold import hold, is_fresh

if TYPE_CHECKING:
    from acp_launch.cli.run_request import RunRequest
    from acp_launch.interactive.front import Front
    from acp_launch.process.program import LocalProgram
    from acp_launch.process.tree import Exit
    from acp_launch.session.login import InFront


def run_interactive(request: "RunRequest", plan: LaunchPlan, kept: RunContext, held: ExitStack) -> int:
    """Run an interactive session and return the exit code; `held` holds the first session."""
    with launched(kept.settings, plan, kept.secrets, request.trace) as started:
        import asyncio  # while the agent starts

        return asyncio.run(_run(request, kept, held, started))


async def _run(request: "RunRequest", kept: RunContext, held: ExitStack, started: Launched) -> int:
    guard, plan, spawned, trace = started
    from acp_launch.cli.session_needs import run_context, wished
    from acp_launch.console.ask.terminal import StillClock
    from acp_launch.console.stream.redacted import RedactedOutput
    from acp_launch.interactive.output import session_output
    from acp_launch.interactive.session import SessionSetup, choose_front, run_session
    from acp_launch.interactive.state import HeldSessions
    from acp_launch.launch.run import conversation

    history = kept.settings.state / "history" / history_name(plan)
    clock = StillClock()
    shown = choose_front(history, kept.settings.attention, profile=plan.profile, clock=clock)
    roots = (plan.cwd, *plan.additional_directories)
    output = session_output(shown.canvas, clock, roots, has_links=not request.plain)
    held_sessions = HeldSessions(kept.registry, plan, partial(_holding, plan, kept), check=checked_name)

    in_front = partial(in_front_of, shown)
    observer = RedactedOutput(output)
    with run_context(request, plan, kept, guard, shown.person, observer.note, in_front, trace=trace) as context:
        assert context.services is not None and context.services.gate is not None, "this launch has its own"
        gate = context.services.gate
        setup = SessionSetup(
            front=shown,
            observer=observer,
            output=output,
            held_sessions=held_sessions,
            held_session=held_sessions.first(kept.name, kept.record, held),
            replay=request.replay,
            wishes=wished(plan, request.sets),
            blocks=partial(typed_blocks, plan),
            here=here(),
            log_in=partial(logged_in, request, plan, in_front),
            policy=lambda: gate.policy,
            resume=partial(resuming, request, plan),
            seen=kept.settings.state / "interactive",
        )
        return await run_session(
            lambda seen_by, interrupt: conversation(context, seen_by, spawned, on_interrupt=interrupt), setup
        )


async def in_front_of(shown: "Front", program: "LocalProgram") -> "Exit":
    """Run a program on the terminal, which the session leaves meanwhile."""
    from acp_launch.process.foreground import foreground

    async with shown.suspended():
        return await foreground(program)


async def logged_in(request: "RunRequest", plan: LaunchPlan, in_front: "InFront", server: str) -> bool:
    """Run `mcp login` on the terminal, as a process of its own; return whether it worked."""
    import os
    import sys

    from acp_launch.process.program import LocalProgram

    words = ("mcp", "login", plan.called, server, *(("--trust",) if request.trust else ()))
    argv = (sys.executable, "-P", "-m", "acp_launch", *words)  # -P: nothing in this directory replaces a module
    ended = await in_front(LocalProgram("login", argv, dict(os.environ), here()))
    return ended.status == 0


def _holding(plan: LaunchPlan, kept: RunContext, name: str) -> AbstractContextManager[None]:
    return hold(kept.settings.state, (str(plan.project), plan.profile, name))


def resuming(request: "RunRequest", plan: LaunchPlan, name: str) -> str:
    """Return the command that comes back to the session `name`, as the user can type it here."""
    command = ("--agent", request.agent) if request.agent is not None else (plan.called or plan.profile,)
    cwd = ("--cwd", str(request.cwd)) if request.cwd is not None else ()
    return ours("run", *command, *cwd, *(("--continue",) if is_fresh(name) else ("--session", name)))


def history_name(plan: LaunchPlan) -> str:
    """Name the history file: one for each project, because users give the same prompts to different agents."""
    readable = "".join(mark if mark.isalnum() or mark in "-_." else "_" for mark in plan.project.name[:40])
    return f"{readable}-{crc32(str(plan.project).encode(errors='surrogatepass')):08x}"


def typed_blocks(plan: LaunchPlan, text: str, able: Any) -> list[dict[str, Any]]:
    from acp_launch.session.attachments import blocks

    return blocks(text, plan.cwd, (plan.cwd, *plan.additional_directories), able)
