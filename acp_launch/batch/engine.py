"""What carries out the attempts of a batch, each by `batch item` in a process of its own: here, or on a cluster."""

import asyncio
import os
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Iterable
from contextlib import ExitStack, asynccontextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from acp_launch.batch.store import locate_log
from acp_launch.descent import open_file, real, remove
from acp_launch.errors import UsageError
from acp_launch.plan.installation import add_extra
from acp_launch.private import make_private
from acp_launch.regex import regex

COMMAND = (sys.executable, "-P", "-m", "acp_launch")  # -P: nothing in this directory replaces a module
_ADDRESS = regex(r"(?:(tls|wss|tcp|ws)://)?(\[[0-9a-fA-F:.]+\]|[^\s:/@\[\]]+):(\d{1,5})")


def read_address(engine: str, *, may_be_insecure: bool) -> str:
    """Read the value of `--engine`: the address of a scheduler, or an empty text for a cluster of this machine.

    Raises:
        UsageError: it is not an engine, its extra is not installed, or the scheduler is not protected by TLS.
    """
    kind, colon, address = engine.partition(":")
    parts = _ADDRESS.fullmatch(address)
    if kind != "dask" or (colon and not parts):
        raise UsageError(f'--engine: unknown engine "{engine}"', fix="give dask, or dask:tls://HOST:PORT")
    if find_spec("distributed") is None:
        raise UsageError("--engine dask: Dask is not installed", fix=add_extra("dask"))
    if not parts:
        return ""
    scheme = parts[1] or "tcp"
    if scheme not in ("tls", "wss") and not may_be_insecure:  # on loopback, too: other users and agents reach it
        what = f"--engine: {address} has no TLS: all that can reach it could run commands on its workers"
        fix = "give tls://HOST:PORT, or allow it in your settings: acp-launch config set batch.insecure_scheduler true"
        raise UsageError(what, fix=fix)
    return f"{scheme}://{parts[2]}:{parts[3]}"


class EngineGone(Exception):  # noqa: N818 - it reads as what happened
    """Raised when an engine can carry out nothing more, as its scheduler has died; the text says why."""


class Engine(Protocol):
    """Carries out attempts. A submitter opens it with `async with`; its end ends at once what still runs."""

    async def submit(self, item: str, attempt: int, account: str | None) -> int:
        """Carry out an attempt of an item, at the earliest when the account has room on all hosts.

        Return the exit code of `batch item`. What happened is in the record, if there is one.

        Raises:
            EngineGone: as it says.
        """

    def cancel(self) -> None:
        """Cancel every attempt that runs, as by Ctrl-C."""

    def end_now(self) -> None:
        """End every attempt that runs at once."""


@asynccontextmanager
async def start_item(directory: Path, item: str, attempt: int, options: Iterable[str]) -> AsyncIterator[Process]:
    """Start `batch item` in a session of its own: Ctrl-C at the terminal is for the submitter alone.

    Its lifeline ends with this context, and with this process, however it ends. What it says goes to a log beside its
    attempts (`BatchDirectory.log_of`), which is removed if it is empty.
    """
    log = locate_log(root := real(directory), item, attempt)
    make_private(log.parent, below=root)
    with ExitStack() as stack:
        output = open_file(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, below=root)  # of other submitters too
        stack.callback(_close_log, output, log, root)
        lifeline, other_end = os.pipe()
        stack.callback(os.close, other_end)
        stack.callback(os.close, lifeline)
        words = ("batch", "item", str(directory), item, "--attempt", str(attempt), *options)
        yield await asyncio.create_subprocess_exec(
            *COMMAND,
            *words,
            "--lifeline",
            str(lifeline),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(lifeline,),
            start_new_session=True,
        )


def _close_log(output: int, log: Path, root: Path) -> None:
    if os.fstat(output).st_size == 0:
        remove(log, below=root)
    os.close(output)


async def wait_for_end(child: Process) -> int:
    """Wait for the end of a process; return its exit code, which is 128 and the number if a signal ended it."""
    status = await child.wait()
    return status if status >= 0 else 128 - status


def send_signal(child: Process, number: int) -> None:
    """Send a signal to a process that has not ended. `Process.send_signal` may take its exit code from asyncio."""
    if child.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(child.pid, number)
