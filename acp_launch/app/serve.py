"""A profile as an ACP agent on stdin and stdout, for an editor."""

import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from acp_launch.app.attach import present, usable_host
from acp_launch.app.planning import loaded_profile, prepare_launch, prepare_plan, resolve_trusted, resolved_for_front
from acp_launch.app.spec import RunSpec, load_settings, silence
from acp_launch.app.start import guarded_launch, launch_agent
from acp_launch.console.problems import show_error
from acp_launch.engine.prepared import PreparedPlan
from acp_launch.errors import LaunchError, NotTrusted, UsageError
from acp_launch.plan.model import LaunchPlan
from acp_launch.process.spawn import Spawned
from acp_launch.profile.discover import here
from acp_launch.served.registry import HostNote, any_host
from acp_launch.settings.model import MAX_LINE

if TYPE_CHECKING:
    from acp_launch.process.flow import Lent


def take_streams() -> tuple[int, int]:
    """Take stdin and stdout for the protocol alone: whatever else reads and writes there meets nothing, and stderr."""
    mode = os.fstat(0).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        fix = "enter this command in an editor that speaks ACP; on a terminal: acp-launch run PROFILE"
        raise UsageError("serve is started by an editor, which speaks ACP on a pipe to its stdin", fix=fix)
    source, sink = os.dup(0), os.dup(1)
    silence(0)
    os.dup2(2, 1)
    return source, sink


def lend_streams(source: int, sink: int) -> "tuple[Lent, Lent | int]":
    """Return the two without their waits. stdout may also be a file, or a terminal, which is written to as it is."""
    from acp_launch.process.flow import Lent, lend  # with asyncio, while the agent starts

    return Lent(source, reads=True), lend(os.dup(sink), reads=False) or sink


def refuse(error: LaunchError, source: int, sink: int) -> int:
    """Tell the editor why its agent does not come; return the exit code once it has ended."""
    import asyncio

    from acp_launch.served.lines import refuse_all

    if not asyncio.run(refuse_all(error, *lend_streams(source, sink), max_line=MAX_LINE)):
        show_error(error)
    return error.exit_code


class ServedLaunch:
    """A profile whose agent was started; `stack` ends it."""

    def __init__(self, request: RunSpec, stack: ExitStack) -> None:
        """Start the agent.

        Raises:
            LaunchError: as `run`.
        """
        prepare_launch()
        self.request, self.settings = request, load_settings()
        self.loaded = loaded_profile(request.profile, self.settings)
        self.spawned: Spawned | None = None  # None if its agent is its host
        if self._takes_host(stack):
            return
        with name_place(here()):
            resolved = resolve_trusted(
                self.loaded, self.settings, cwd=request.cwd, trust=request.trust, locked=request.locked
            )
        self.ready = prepare_plan(resolved, self.settings)
        alone = replace(self.ready.plan, servers=())  # each session has its own
        started = stack.enter_context(
            launch_agent(self.settings, self.ready._replace(plan=alone), request.trace, "serve")
        )
        self.guard, self.plan, self.spawned, self.trace = started.guard, started.plan, started.spawned, started.trace
        self.ready = self.ready._replace(plan=replace(self.ready.plan, place=self.plan.place))

    def _takes_host(self, stack: ExitStack) -> bool:
        """Take the host of the profile for its agent, if one is up that can be used here."""
        if self.request.locked or not any_host(self.settings.state):
            return False

        plan = resolved_for_front(self.loaded, self.request.cwd, None)
        if plan is None or self.find_running_host(plan) is None:
            return False
        self.ready, self.plan = PreparedPlan(plan), plan
        self.guard, self.trace = stack.enter_context(guarded_launch(self.settings, plan, "serve", self.request.trace))
        return True

    def find_running_host(self, plan: LaunchPlan) -> HostNote | None:
        return usable_host(present(self.settings, plan), self.loaded, plan)


@contextmanager
def name_place(cwd: Path) -> "Iterator[None]":
    """Say where to trust a profile, as an editor shows the error and not the directory."""
    try:
        yield
    except NotTrusted as error:
        error.fix = f"in {shlex.quote(str(cwd))}: {error.fix}"
        raise
