"""
The Dask engine: attempts are carried out by workers of a cluster, each by `batch item` on the worker's host.

Workers get a directory, an id and an attempt number, a token of this submitter, and an account with its jobs. Profile,
prompt and secrets are read on the worker's host, and what comes back is an exit code; all else is in the directory.

`read_address` and `DaskEngine` are the submitter's; `carry_out` and what it calls run on workers. Those must not raise:
Dask writes exceptions to its logs and pages.
"""

import asyncio
import os
import signal
import socket
from contextlib import AsyncExitStack, suppress
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from acp_launch import __version__
from acp_launch.batch.engine import EngineGone, send_signal, start_item, wait_for_end
from acp_launch.batch.store import BatchDirectory
from acp_launch.errors import MachineError, UsageError
from acp_launch.private import create
from acp_launch.problem import about, ours
from acp_launch.regex import regex
from acp_launch.settings.address import LOOPBACK
from acp_launch.waits import stretch

if TYPE_CHECKING:
    from distributed import Future, Security

ANSWER = stretch(10.0)  # seconds for a scheduler, and for its workers, to answer
LOOK = 0.4  # seconds between two looks of a worker whether an attempt is cancelled
ROOM = 5.0  # seconds that an attempt may keep a worker's slot while its account has no room
BUSY = "busy"  # what an attempt answers then
CANCEL, NOW = "cancel", "now"
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
        raise UsageError("--engine dask: Dask is not installed", fix="pip install 'acp-launch[dask]'")
    if not parts:
        return ""
    scheme, host = parts[1] or "tcp", parts[2].strip("[]")
    is_safe = scheme in ("tls", "wss") or LOOPBACK.fullmatch(host) is not None
    if not (is_safe or may_be_insecure):
        what = f"--engine: {address} has no TLS: all that can reach it could run commands on its workers"
        fix = "give tls://HOST:PORT, or allow it in your settings: acp-launch config set batch.insecure_scheduler true"
        raise UsageError(what, fix=fix)
    return f"{scheme}://{parts[2]}:{parts[3]}"


class DaskEngine:
    """Carries out attempts on the workers of a scheduler.

    Without `address` it starts a cluster with `jobs` slots on this machine, which ends with this process.
    """

    def __init__(self, batch: BatchDirectory, address: str, jobs: int, *, trust: bool = False) -> None:
        self._batch, self._address, self._jobs, self._trust = batch, address, jobs, trust
        self._token = f"acp-launch-{os.urandom(8).hex()}"
        self._stack = AsyncExitStack()
        self._unanswered: set[str] = set()  # items
        self._telling: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Connect to the scheduler, and check its workers.

        Raises:
            UsageError: Dask has no keys for TLS.
            MachineError: the scheduler does not answer, or a worker cannot carry out attempts.
        """
        try:
            await self._open()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *failure: object) -> None:
        if self._unanswered:
            self.end_now()
        await asyncio.gather(*self._telling)
        await self._stack.aclose()

    async def submit(self, item: str, attempt: int, account: str | None) -> int:
        """See `Engine.submit`. An attempt whose worker dies begins again on another one."""
        jobs = self._batch.batch.limits.accounts[account].jobs if account else None
        given = (str(self._batch.path), item, attempt, self._token, account if jobs else None, jobs or 0)
        self._unanswered.add(item)
        for number in count():
            if self._client.status != "running":  # it may try to connect again
                raise self._explain_loss()
            key = ("acp-launch-item", self._token, item, attempt, number)
            answer = await self._result_of(self._client.submit(carry_out, *given, key=key, pure=False))
            if answer != BUSY:
                break
        if isinstance(answer, str):
            raise EngineGone(answer)
        self._unanswered.discard(item)
        return answer

    def _explain_loss(self) -> EngineGone:
        resume = ours("batch", "run", "--resume", str(self._batch.path), "--engine", f"dask:{self._address}")
        return EngineGone(f"the scheduler at {self._address} is gone; start it, then {resume}")

    async def _result_of(self, future: "Future[int | str]") -> int | str:
        from distributed import CancelledError  # not that of asyncio
        from distributed.scheduler import KilledWorker

        try:
            return cast(int | str, await cast(Any, future.result()))
        except CancelledError:
            raise self._explain_loss() from None
        except KilledWorker:  # each that began it
            return 128 + signal.SIGKILL
        except Exception as error:  # a worker that joined later has no acp-launch
            faults = "; ".join(await self._find_faults()) or f"a worker raised {type(error).__name__}"
            raise EngineGone(faults) from None

    def cancel(self) -> None:
        """See `Engine.cancel`."""
        self._tell(CANCEL)

    def end_now(self) -> None:
        """See `Engine.end_now`. Each attempt ends as by a second Ctrl-C."""
        self._tell(CANCEL)
        self._tell(NOW)

    def _tell(self, event: str) -> None:
        task = asyncio.create_task(self._set(f"{self._token}-{event}"))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _set(self, event: str) -> None:
        from distributed import Event

        with suppress(OSError, TimeoutError):
            if self._client.status == "running":
                await asyncio.wait_for(Event(event, self._client).set(), ANSWER)

    async def _open(self) -> None:
        import logging

        from distributed import Client, Security

        logging.disable()  # of Dask, to stderr: what matters is raised
        self._stack.callback(logging.disable, logging.NOTSET)
        file = self._batch.path / f".{self._token}"
        create(file, (f"{__version__} --trust" if self._trust else __version__).encode())
        self._stack.callback(file.unlink, missing_ok=True)
        security = Security() if self._address else Security.temporary()
        if self._address.startswith(("tls", "wss")) and not security.get_connection_args("client")["ssl_context"]:
            fix = "set distributed.comm.tls: ca-file, client.cert and client.key in ~/.config/dask/distributed.yaml"
            raise UsageError(f"--engine: Dask has no keys for {self._address}", fix=fix)
        address = self._address or await self._start_cluster(security)
        try:
            client = Client(address, security=security, timeout=ANSWER, asynchronous=True, set_as_default=False)
            self._stack.push_async_callback(_close, client)
            self._client = await asyncio.wait_for(client, ANSWER)
            faults = await self._find_faults()
        except (OSError, TimeoutError):
            what = f"the scheduler at {self._address} does not answer"
            raise MachineError([about("--engine", what, "check that it runs, and its address and TLS keys")]) from None
        if faults:
            raise MachineError([about("--engine", fault) for fault in faults])

    async def _start_cluster(self, security: "Security") -> str:
        """Start a scheduler in this process, and one worker."""
        from dask import config
        from distributed import LocalCluster

        # Without pages; and agents must not inherit OMP_NUM_THREADS=1 and a hash seed, which are Dask's defaults.
        pages = {f"distributed.{kind}.http.routes": list[str]() for kind in ("scheduler", "worker")}
        environ = {"distributed.nanny.pre-spawn-environ": {"PYTHONHASHSEED": "random"}}
        self._stack.enter_context(config.set(pages | environ))
        cluster = LocalCluster(
            n_workers=1,
            threads_per_worker=self._jobs,
            processes=True,
            host="127.0.0.1",
            protocol="tls://",
            security=security,
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # else 8787
            memory_limit=None,
            silence_logs=50,  # critical
            preload=[__name__, *config.get("distributed.worker.preload")],
            asynchronous=True,
        )
        self._stack.push_async_callback(_close, cluster)
        await cluster
        return cluster.scheduler_address

    async def _find_faults(self) -> list[str]:
        """Ask all workers whether they can carry out attempts; return a sentence about each that cannot."""
        answers = await asyncio.wait_for(
            self._client.run(find_fault, str(self._batch.path), self._token, on_error="return"), ANSWER
        )
        return [f"worker {worker} {_describe(answer)}" for worker, answer in sorted(answers.items()) if answer]


async def _close(part: Any) -> None:
    """Close a client or a cluster within a limit, also if its other side is gone."""
    with suppress(OSError, TimeoutError):
        await asyncio.wait_for(part.close(), LOOK if str(part.status) == "connecting" else ANSWER)


def _describe(answer: object) -> str:
    if isinstance(answer, str):
        return answer
    if isinstance(answer, OSError):
        return "does not answer"
    return f"cannot import acp-launch {__version__}; install it there"


# What follows runs on workers.


def dask_setup(worker: object) -> None:
    """Leave the terminal's process group: Ctrl-C is for the submitter. Dask calls it in a worker of this machine."""
    os.setsid()


def find_fault(directory: str, token: str) -> str:
    """Say what keeps this host from carrying out attempts of a submitter; empty if nothing does."""
    try:
        version = _read_order(directory, token)[0]
    except OSError:
        return f"on {socket.gethostname()} does not see {directory}; all hosts must, at the same path"
    if version == __version__:
        return ""
    return f"on {socket.gethostname()} has acp-launch {__version__}; the submitter has {version}"


def _read_order(directory: str, token: str) -> list[str]:
    """Read what a submitter says of all its attempts: its version, and an option of `batch item`."""
    return Path(directory, f".{token}").read_text().split()


async def carry_out(directory: str, item: str, attempt: int, token: str, account: str | None, jobs: int) -> int | str:
    """Carry out an attempt; return the exit code of `batch item`, BUSY, or what is wrong with this worker."""
    from distributed import Event, Semaphore, get_worker

    name = f"worker {get_worker().address}"
    if fault := find_fault(directory, token):
        return f"{name} {fault}"
    try:
        room = await Semaphore(jobs, f"acp-launch-account-{account}-{jobs}") if account else None
        if await Event(f"{token}-{CANCEL}").is_set():
            return 128 + signal.SIGINT
        if room and not await room.acquire(ROOM):
            return BUSY
        try:
            return await _run_item(directory, item, attempt, token)
        finally:
            if room:
                await room.release()
    except Exception as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        return f"{name} on {socket.gethostname()} could not carry out {item}: {why}"


async def _run_item(directory: str, item: str, attempt: int, token: str) -> int:
    """Run `batch item`; tell it by SIGINT that it is cancelled, and again that it has to end at once."""
    from distributed import Event

    async with start_item(Path(directory), item, attempt, _read_order(directory, token)[1:]) as child:
        ended = asyncio.ensure_future(wait_for_end(child))
        with suppress(OSError):  # the scheduler is gone
            for name in (CANCEL, NOW):
                await asyncio.wait((ended,), timeout=LOOK)
                while not (ended.done() or await Event(f"{token}-{name}").is_set()):
                    await asyncio.wait((ended,), timeout=LOOK)
                send_signal(child, signal.SIGINT)
        return await ended
