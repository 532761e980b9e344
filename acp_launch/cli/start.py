"""Start a plan's agent before anything that talks to it is imported, and be sure it ends."""

import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

from acp_launch.errors import Stopped
from acp_launch.plan.model import LaunchPlan
from acp_launch.process.kill import end_now
from acp_launch.process.logfile import LogFile
from acp_launch.process.spawn import Spawned, spawn
from acp_launch.secret.value import Secret
from acp_launch.settings.model import Settings


@contextmanager
def started(plan: LaunchPlan, secrets: Mapping[str, Secret]) -> Iterator[Spawned]:
    """The agent's process; leaving kills whatever of its tree is left."""
    agent = plan.agent
    argv = [str(agent.command), *(arg.reveal(secrets) for arg in agent.args)]
    env = {name: value.reveal(secrets) for name, value in agent.env.items()}
    arrived: list[int] = []  # a signal within `spawn` would lose the process it has just started
    _on_signals(lambda number, frame: arrived.append(number))
    spawned = spawn(argv, env=env, cwd=agent.cwd)
    try:
        _on_signals(_stopped)  # until the event loop listens
        if arrived:
            _stopped(arrived[0], None)
        yield spawned
    finally:
        _on_signals(lambda number, frame: None)  # nobody's impatience interrupts the kill
        end_now(spawned)
        _on_signals(_stopped)


@contextmanager
def stderr_log(settings: Settings, plan: LaunchPlan, *, echo: bool) -> Iterator[Callable[[bytes], None]]:
    """Takes the agent's stderr into a file of the state directory; `echo` shows it too."""
    log = LogFile(settings.state / "log", plan.profile)

    def both(data: bytes) -> None:
        sys.stderr.write(data.decode(errors="replace"))
        sys.stderr.flush()
        log(data)

    try:
        yield both if echo else log
    finally:
        log.close()


def _on_signals(action: Callable[[int, FrameType | None], object]) -> None:
    """What we were told to ignore (nohup) stays ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, action)


def _stopped(number: int, frame: FrameType | None) -> None:
    raise Stopped("stopped", signal_number=number)
