"""
The Dask engine: attempts are carried out by workers of a cluster, each by `batch item` on the worker's host.

Workers get a directory, an id and an attempt number, a token of this submitter, an account with its jobs, and options.
Profile, prompt and secrets are read on the worker's host, and what comes back is an exit code; all else is in the
directory.

`DaskEngine` is the submitter's; `carry_out` and what it calls run on workers. Those must not raise:
Dask writes exceptions to its logs and pages.

Dask unpickles what a scheduler and its workers send, in many places; an object of theirs could run commands here. So a
submitter refuses each class that is unpickled (`_refuse_class`): numbers, texts and collections need none.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
import warnings
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import cache
from itertools import count
from pathlib import Path
from shutil import rmtree
from typing import Any, Self, cast

from dask import config
from distributed import CancelledError, Client, Event, Scheduler, Security, Semaphore, Worker, get_worker
from distributed.protocol.pickle import dumps

from acp_launch import __version__
from acp_launch.batch.engine import EngineGone, send_signal, start_item, wait_for_end
from acp_launch.batch.store import BatchDirectory
from acp_launch.errors import MachineError, UsageError
from acp_launch.private import create, directory
from acp_launch.problem import about, ours
from acp_launch.waits import stretch

ANSWER_TIMEOUT = stretch(10.0)  # for a scheduler, and for its workers
POLL_SECONDS = 0.4  # of a worker, whether an attempt is cancelled
SLOT_SECONDS = 5.0  # that an attempt may keep a worker's slot while its account has no room
BUSY = "busy"  # what an attempt answers then
CANCEL, NOW = "cancel", "now"


class _RefusedError(AttributeError):
    """Raised for a class that is not unpickled. Dask expects this error of a class that is not installed."""


_WARY = set[str]()  # tokens of the engines that talk to another process
_HARMLESS = ("builtins", "bytes")  # Dask packs errors into these


def _refuse_class(event: str, arguments: tuple[object, ...]) -> None:
    """Refuse classes and functions, which a pickle can only name by this event of Python."""
    if event == "pickle.find_class" and _WARY and arguments != _HARMLESS:
        raise _RefusedError(f"it holds {arguments[0]}.{arguments[1]}, which is not unpickled")


@cache
def _listen_to_unpickling() -> None:
    sys.addaudithook(_refuse_class)  # for the rest of this process


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
        self._broken: asyncio.Future[Exception]

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
        options = ("--trust",) if self._trust else ()
        given = (str(self._batch.path), item, attempt, self._token, account if jobs else None, jobs or 0, options)
        self._unanswered.add(item)
        for number in count():
            if self._client.status != "running":  # it may try to connect again
                raise self._explain_loss()
            key = ("acp-launch-item", self._token, item, attempt, number)
            answer = await self._result_of(self._client.submit(carry_out, *given, key=key, pure=False).result())
            if answer != BUSY:
                break
        if isinstance(answer, str):
            raise EngineGone(answer)
        self._unanswered.discard(item)
        return answer

    def _explain_loss(self) -> EngineGone:
        resume = ours("batch", "run", "--resume", str(self._batch.path), "--engine", f"dask:{self._address}")
        return EngineGone(f"the scheduler at {self._address} is gone; start it, then {resume}")

    async def _result_of(self, future: Awaitable[object]) -> int | str:
        """Return what a worker answered: an exit code, or a text."""
        result = asyncio.ensure_future(future)
        try:
            await asyncio.wait((result, self._broken), return_when=asyncio.FIRST_COMPLETED)
            if not result.done():
                raise self._broken.result()
            answer = result.result()
        except CancelledError:
            raise self._explain_loss() from None
        except _RefusedError as error:
            raise EngineGone(self._describe_refusal(error)) from None
        except Exception as error:  # of another process; it was not unpickled, so it is a text or bytes
            if "KilledWorker" in repr(error):  # each that began it
                return 128 + signal.SIGKILL
            raise EngineGone(await self._find_reason()) from None
        finally:
            result.cancel()
        if isinstance(answer, str) or (type(answer) is int and 0 <= answer < 256):
            return answer
        raise EngineGone(self._describe_refusal(TypeError("it is not an exit code")))

    def _describe_refusal(self, error: Exception) -> str:
        return f"an answer from the scheduler at {self._address} is refused: {str(error) or type(error).__name__}"

    async def _find_reason(self) -> str:
        """Find out why a worker raised an error, as one that joined later without acp-launch does."""
        with suppress(Exception):  # the error that is being explained is told in any case
            if faults := await self._find_faults():
                return "; ".join(faults)
        return f"the scheduler at {self._address} or a worker raised an error; each needs acp-launch {__version__}"

    def cancel(self) -> None:
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
        with suppress(Exception):  # a scheduler that is gone, or answers wrongly: `submit` tells it
            if self._client.status == "running":
                await asyncio.wait_for(Event(event, self._client).set(), ANSWER_TIMEOUT)

    async def _open(self) -> None:
        logging.disable()  # of Dask, to stderr: what matters is raised
        self._stack.callback(logging.disable, logging.NOTSET)
        self._stack.enter_context(warnings.catch_warnings(action="ignore"))  # which a scheduler words
        file = self._batch.path / f".{self._token}"
        create(file, __version__.encode())
        self._stack.callback(file.unlink, missing_ok=True)
        security = self._read_keys()
        if self._address:
            _listen_to_unpickling()
            _WARY.add(self._token)
            self._stack.callback(_WARY.discard, self._token)
        self._broken = asyncio.get_running_loop().create_future()
        client = _make_client(self._address or await self._start_cluster(security), security, self._broken)
        self._stack.push_async_callback(_close, client)
        try:
            self._client = await asyncio.wait_for(client, ANSWER_TIMEOUT)
            faults = await self._find_faults()
        except (OSError, TimeoutError):
            what = f"the scheduler at {self._address} does not answer"
            raise MachineError([about("--engine", what, "check that it runs, and its address and TLS keys")]) from None
        except Exception as error:
            fix = "check that it is a scheduler of Dask, and each host that has its keys"
            raise MachineError([about("--engine", self._describe_refusal(error), fix)]) from None
        if faults:
            raise MachineError([about("--engine", fault) for fault in faults])

    def _read_keys(self) -> "Security":
        """Read Dask's keys for TLS; a cluster of this process needs none.

        Raises:
            UsageError: they are wrong, or missing for a scheduler with TLS.
        """
        if not self._address:
            return Security(tls_ca_file=None, require_encryption=False)
        fix = "set distributed.comm.tls: ca-file, client.cert and client.key in ~/.config/dask/distributed.yaml"
        try:
            security = Security()
            context = security.get_connection_args("client")["ssl_context"]
        except (OSError, ValueError) as error:
            raise UsageError(f"--engine: Dask cannot use its keys for TLS: {error}", fix=fix) from None
        if self._address.startswith(("tls", "wss")) and not context:
            raise UsageError(f"--engine: Dask has no keys for {self._address}", fix=fix)
        return security

    async def _start_cluster(self, security: "Security") -> str:
        """Start a scheduler and a worker in this process, where no other process reaches them."""
        scratch = self._stack.enter_context(directory())  # Dask puts it first on `sys.path`
        routes = {f"distributed.{kind}.http.routes": list[str]() for kind in ("scheduler", "worker")}
        self._stack.enter_context(config.set({"temporary-directory": str(scratch), **routes}))
        pages = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}  # none, but Dask listens all the same
        given: dict[str, Any] = {"security": security, **pages}
        scheduler = Scheduler(protocol="inproc://", **given)
        self._stack.push_async_callback(_close, scheduler)
        await scheduler
        worker = Worker(scheduler.address, nthreads=self._jobs, memory_limit=cast(Any, None), **given)
        self._stack.push_async_callback(_close, worker)
        await worker
        rmtree(scratch / "dask-scratch-space")  # not used, and after kill -9 nothing would remove it
        return scheduler.address

    async def _find_faults(self) -> list[str]:
        """Ask all workers whether they can carry out attempts; return a sentence about each that cannot."""
        question = {"op": "run", "function": dumps(find_fault), "args": dumps((str(self._batch.path), self._token))}
        asking = self._client.scheduler.broadcast(msg=question, on_error="return_pickle")
        answers: Mapping[str, object] = await asyncio.wait_for(asking, ANSWER_TIMEOUT)
        told = ((worker, _describe(answers[worker])) for worker in sorted(answers))
        return [f"worker {worker} {fault}" for worker, fault in told if fault]


def _make_client(address: str, security: "Security", broken: "asyncio.Future[Exception]") -> "Client":
    """Make a client; `broken` gets the error if what the scheduler sends ends the connection."""

    class GuardedClient(Client):
        def subscribe_topic(self, topic: object, handler: object) -> None:
            """Hear of no events: by default a worker's are printed, or unpickled."""

        async def _handle_report(self) -> None:
            try:
                await super()._handle_report()
            except Exception as error:  # else it goes on as if it were connected
                broken.set_result(error)

    make: type[Client] = GuardedClient
    return make(address, security=security, timeout=ANSWER_TIMEOUT, asynchronous=True, set_as_default=False)


async def _close(part: Any) -> None:
    """Close a client, a scheduler or a worker within a limit, also if its other side is gone or hostile."""
    with suppress(Exception):  # Dask raises here what broke a connection, which has been told
        await asyncio.wait_for(part.close(), POLL_SECONDS if str(part.status) == "connecting" else ANSWER_TIMEOUT)


def _describe(answer: object) -> str:
    """Describe what keeps a worker from carrying out attempts; empty if nothing does."""
    match answer:
        case {"status": "OK", "result": str(fault)}:
            return fault
        case bytes() if b"ModuleNotFoundError" in answer or b"AttributeError" in answer:  # a pickled error
            return f"cannot import acp-launch {__version__}; install it there"
    return "does not answer"


# What follows runs on workers.


def find_fault(directory: str, token: str) -> str:
    """Say what keeps this host from carrying out attempts of a submitter; empty if nothing does."""
    try:
        version = Path(directory, f".{token}").read_text()
    except (OSError, ValueError):
        return f"on {socket.gethostname()} does not see {directory}; all hosts must, at the same path"
    if version == __version__:
        return ""
    return f"on {socket.gethostname()} has acp-launch {__version__}; the submitter has {version}"


async def carry_out(
    directory: str, item: str, attempt: int, token: str, account: str | None, jobs: int, options: Sequence[str]
) -> int | str:
    """Carry out an attempt; return the exit code of `batch item`, BUSY, or this worker's fault."""
    name = f"worker {get_worker().address}"
    if fault := find_fault(directory, token):
        return f"{name} {fault}"
    try:
        room = await Semaphore(jobs, f"acp-launch-account-{account}-{jobs}") if account else None
        if await Event(f"{token}-{CANCEL}").is_set():
            return 128 + signal.SIGINT
        if room and not await room.acquire(SLOT_SECONDS):
            return BUSY
        try:
            return await _run_item(directory, item, attempt, token, options)
        finally:
            if room:
                await room.release()
    except Exception as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        return f"{name} on {socket.gethostname()} could not carry out {item}: {why}"


async def _run_item(directory: str, item: str, attempt: int, token: str, options: Sequence[str]) -> int:
    """Run `batch item`; tell it by SIGINT that it is cancelled, and again that it has to end at once."""
    async with start_item(Path(directory), item, attempt, options) as child:
        ended = asyncio.ensure_future(wait_for_end(child))
        with suppress(OSError):  # the scheduler is gone
            for name in (CANCEL, NOW):
                await asyncio.wait((ended,), timeout=POLL_SECONDS)
                while not (ended.done() or await Event(f"{token}-{name}").is_set()):
                    await asyncio.wait((ended,), timeout=POLL_SECONDS)
                send_signal(child, signal.SIGINT)
        return await ended
