"""An interactive session of `run`: what its terminal provides, whether the agent is its own or a host's."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, nullcontext
from functools import partial
from typing import Any

from msgspec.structs import replace

from acp_launch.app.context import run_context
from acp_launch.app.spec import RunSpec, check_session_name, settings_of
from acp_launch.app.start import ChosenSession, Launched, login_program
from acp_launch.console.ask.terminal import StillClock
from acp_launch.console.stream.redacted import RedactedOutput
from acp_launch.engine.surroundings import conversation
from acp_launch.interactive.output import session_output
from acp_launch.interactive.session import Launching, choose_front, run_session
from acp_launch.interactive.state import LockedSession, LockedSessions, SessionSetup
from acp_launch.plan.model import LaunchPlan
from acp_launch.private import make_digest
from acp_launch.problem import ours
from acp_launch.process.foreground import foreground
from acp_launch.process.program import LocalProgram
from acp_launch.process.tree import Exit
from acp_launch.profile.discover import here
from acp_launch.session.attachments import blocks
from acp_launch.session.events import show_note
from acp_launch.session.hold import hold, is_fresh
from acp_launch.session.permission.audit import rules_of
from acp_launch.session.permission.policy import Policy
from acp_launch.session.store import Record, open_registry
from acp_launch.settings.model import Settings


class SessionTerminal:
    """The terminal of an interactive session, and the user at it."""

    def __init__(self, request: RunSpec, plan: LaunchPlan, settings: Settings) -> None:
        self._request, self._plan, self._settings = request, plan, settings
        self._roots = (plan.cwd, *plan.additional_directories)
        clock = StillClock()
        # One for each project, because users give the same prompts to different agents.
        readable = "".join(mark if mark.isalnum() or mark in "-_." else "_" for mark in plan.project.name[:40])
        history = settings.state / "history" / f"{readable}-{make_digest(str(plan.project))}"
        self.front = choose_front(history, settings.attention, profile=plan.profile, clock=clock)
        self.output = session_output(self.front.canvas, clock, self._roots, has_links=request.has_links)
        self.observer = RedactedOutput(self.output)
        self.person = self.front.person
        self.shown = asyncio.Event()
        self.shown.set()

    async def in_front(self, program: LocalProgram) -> Exit:
        """Run a program on the terminal, which the session leaves to it."""
        async with self.front.suspended():
            return await foreground(program)

    @asynccontextmanager
    async def handshake(self) -> AsyncIterator[None]:
        """Leave the terminal to ssh, which may ask on it."""
        async with self.front.suspended() if self.shown.is_set() else nullcontext():
            yield
        self.shown.set()

    def setup(self, held_sessions: LockedSessions, first: LockedSession, policy: Callable[[], Policy]) -> SessionSetup:
        """Return the set-up of `run_session`; `policy` are the rules that the user may see."""
        return SessionSetup(
            front=self.front,
            observer=self.observer,
            output=self.output,
            held_sessions=held_sessions,
            held_session=first,
            replay=self._request.replay,
            wanted_options=settings_of(self._plan, self._request.options),
            blocks=self._blocks,
            here=here(),
            log_in=self._log_in,
            policy=policy,
            resume=self._resume_command,
            seen=self._settings.state / "interactive",
            shown=self.shown,
        )

    async def run_in_host(self, name: str, record: "Record | None", launching: "Launching") -> int:
        """Run a session that a host holds, so it is not locked here; return the exit code."""
        plan, settings = self._plan, self._settings
        with open_registry(settings.state) as registry:
            sessions = LockedSessions(registry, plan, lambda name: nullcontext(), check=check_session_name)
            rules = partial(rules_of, plan, settings, self._request.approve)
            return await run_session(launching, self.setup(sessions, sessions.first(name, record, ExitStack()), rules))

    def _blocks(self, text: str, able: Any) -> list[dict[str, Any]]:
        return blocks(text, self._plan.cwd, self._roots, able, machine=self._plan.machine)

    async def _log_in(self, server: str) -> bool:
        """Run `mcp login` on the terminal, as a process of its own; return whether it worked."""
        ended = await self.in_front(login_program(self._plan.called, server, trust=self._request.trust))
        return ended.status == 0

    def _resume_command(self, name: str) -> str:
        """Return the command that comes back to the session `name`, as the user can type it here."""
        request, plan = self._request, self._plan
        command = ("--agent", request.agent) if request.agent is not None else (plan.called or plan.profile,)
        command = (*command, *(("--confined",) if request.is_confined else ()))
        cwd = ("--cwd", str(request.cwd)) if request.cwd is not None else ()
        return ours("run", *command, *cwd, *(("--continue",) if is_fresh(name) else ("--session", name)))


def run_interactive(request: RunSpec, started: Launched, chosen: ChosenSession, held: ExitStack) -> int:
    """Run an interactive session and return the exit code; `held` holds the first session."""
    plan, state, (registry, name, record) = started.plan, started.settings.state, chosen
    terminal = SessionTerminal(request, plan, started.settings)
    sessions = LockedSessions(
        registry,
        plan,
        lambda name: hold(state, (str(plan.project), plan.profile, name)),
        check=check_session_name,
    )
    with run_context(
        request, started, terminal.person, partial(show_note, terminal.observer), terminal.in_front
    ) as context:
        assert context.gate is not None, "this launch has its own"
        gate = context.gate
        if plan.machine:
            terminal.shown.clear()
            context = replace(context, handshake=terminal.handshake)
        session = run_session(
            lambda seen_by, interrupt: conversation(context, seen_by, started.spawned, on_interrupt=interrupt),
            terminal.setup(sessions, sessions.first(name, record, held), lambda: gate.policy),
        )
        return asyncio.run(session)
