"""The server host, once its guards are forked; `served.shared` starts its process."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from acp_launch import __version__
from acp_launch.app.start import record_and_guard
from acp_launch.engine.loop import Interrupts, run_supervised
from acp_launch.errors import Stopped, first
from acp_launch.process.logs import LogFile
from acp_launch.secret.redact import redactor
from acp_launch.served.connections import listen
from acp_launch.served.registry import HostNote, find_server_host, hold_place, server_host_state
from acp_launch.served.serverhost import PROFILE, ServerHost
from acp_launch.settings.load import load
from acp_launch.settings.model import Settings
from acp_launch.waits import stretch

HOST_END_TIMEOUT = stretch(5.0)  # to leave its place
POLL_SECONDS = 0.02


def serve() -> int:
    """Be the server host, until no launch uses it; return the exit code. Another one that lives is left alone.

    `prepare_launch` comes before it.
    """
    settings, until = load(), time.monotonic() + HOST_END_TIMEOUT
    while True:
        with hold_place(server_host_state(settings.state), "", __version__) as write:
            if write is not None:
                with record_and_guard(settings, "host", "shared servers", Path("/")) as guard, _log_failure(settings):
                    run_supervised(guard, lambda interrupts: interrupts.watch(_host(settings, interrupts, write)))
                return 0
        if find_server_host(settings.state) is not None or time.monotonic() > until:
            return 0
        time.sleep(POLL_SECONDS)


@contextmanager
def _log_failure(settings: Settings) -> Iterator[None]:
    """Write a failure to the log, as the host has no terminal; a signal is none."""
    try:
        yield
    except Stopped:
        return
    except Exception as error:
        LogFile(settings.state / "log", PROFILE).mark(redactor.text(f"the server host has failed: {error!r}"))
        raise


async def _host(settings: Settings, interrupts: Interrupts, write: "Callable[[HostNote], None]") -> None:
    try:
        async with asyncio.TaskGroup() as tasks:
            host = ServerHost(settings.state, settings.max_line, interrupts.hurry, tasks)
            async with listen(host.attach, settings.state) as socket:
                try:
                    write(
                        HostNote(
                            pid=os.getpid(),
                            since=time.time(),
                            version=__version__,
                            project="",
                            profile=__version__,
                            called="shared servers",
                            cwd="/",
                            here="/",
                            digest="",
                            socket=str(socket),
                        )
                    )
                    await host.run()
                finally:
                    await host.close()
    except BaseExceptionGroup as failures:
        raise first(failures) from None
