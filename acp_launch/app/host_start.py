"""The process of a host, until its agent starts."""

import os
from contextlib import ExitStack
from pathlib import Path

from acp_launch.app.planning import loaded_profile, prepare_plan, resolve_trusted
from acp_launch.app.spec import RunSpec, load_settings, silence
from acp_launch.app.start import launch_agent
from acp_launch.errors import UsageError
from acp_launch.problem import ours
from acp_launch.process.spawn import find_terminal
from acp_launch.served.registry import find, hold_place
from acp_launch.session.store import open_registry


def run_host(request: RunSpec, pipe: int | None = None) -> int:
    """Be the host until it ends; return the exit code. Without a `pipe` it stays on its terminal.

    `prepare_launch` comes before it.

    `pipe` leads to the command that waits until the agent has answered and the required servers are up. It gets the
    seconds that took; if that command ends before, so does the host.

    Raises:
        LaunchError: as `run`.
    """
    settings, here = load_settings(), str(Path.cwd())
    loaded = loaded_profile(request.profile, settings)
    resolved = resolve_trusted(loaded, settings, cwd=request.cwd, trust=request.trust, locked=request.locked)
    found = prepare_plan(resolved, settings)._replace(asking=find_terminal())
    plan = found.plan
    with hold_place(settings.state, str(plan.project), plan.profile) as write:
        if write is None:
            note = find(settings.state, str(plan.project), plan.profile)
            who = f" (pid {note.pid})" if note else ""
            again = ours("up", request.profile, "--replace")
            raise UsageError(f"{request.profile} is up{who}", fix=f"to start it again: {again}")
        if pipe is not None:  # everything that a user may be asked is answered, and nothing is started yet
            if os.getsid(0) != os.getpid():
                os.setsid()  # closing the terminal, and Ctrl-C on it, do not concern us any more
            silence(0)
        with (
            open_registry(settings.state) as registry,
            launch_agent(settings, found, request.trace, "up") as started,
            ExitStack() as later,
        ):
            from acp_launch.app.host_fronts import serve_host  # while the agent starts
            from acp_launch.app.reload import Reloading

            reloading = Reloading(request.profile, request.cwd, started, loaded, write, later, here)
            serve_host(request, started, registry, reloading, pipe)
    return 0
