"""
The containers of a launch, and their removal by the label that each carries.

The end of `podman run` or `docker run` is not the end of its container: a program that ignores the end of its input
goes on, and a client that is killed early may leave a container that never ran. So who has ended a launch asks the
engine for what carries its label. Guards do so too: this is free of asyncio, and takes only the variables it is given.
"""

import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import chain

from msgspec import Struct

from acp_launch.process import prepare
from acp_launch.process.spawn import STATUS_LOST, start_process
from acp_launch.process.table import block_until_gone, boot_id, living
from acp_launch.waits import seconds, stretch

LABEL = "acp-launch"  # the beginning of our labels
REMOVE_TIMEOUT = stretch(5.0)  # for a launch; it takes 0.3 to 1 s with podman, less with docker
SHORT_REMOVE_TIMEOUT = stretch(2.0)  # for an engine that has not made the container either
SETTLE_SECONDS = 0.2  # after which a daemon has made what a killed client asked it for; and between two attempts
MAX_OUTPUT_BYTES = 64 * 1024  # read of a stream: what a pipe holds, a thousand ids
ID_LENGTH = 12  # as engines show ids
ENGINE_FAILED = 125  # the status of a client that could not start a container, or has lost the engine
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores them


class ContainerEngine(Struct, frozen=True):
    """An engine: its program's absolute path, and all variables that it runs with."""

    program: str
    env: Mapping[str, str]

    def __repr__(self) -> str:
        return f"ContainerEngine({self.program!r})"  # a variable may be a credential


class LaunchContainers(Struct, frozen=True):
    """The containers of a launch, by their ids. `why` the engine does not answer: then more may be left."""

    removed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    why: str = ""

    @property
    def is_over(self) -> bool:
        """Whether none is left, for sure."""
        return not (self.left or self.why)


class EngineFailed(Exception):  # noqa: N818 - it reads as what happened
    """Raised if the engine does not answer; the text continues a sentence."""


def label_arguments(cidfile: str = "") -> tuple[str, ...]:
    """Return the arguments of `run` by which a container belongs to this process's launch. `cidfile` does not exist
    until the engine has made the container."""
    labels = {"launch": prepare.launch_id(), "pid": os.getpid(), "boot": boot_id()}
    words = (word for name, value in labels.items() for word in ("--label", f"{LABEL}.{name}={value}"))
    return (*words, "--cidfile", cidfile) if cidfile else tuple(words)


def may_be_left(status: int | None, *, awaited: bool = False) -> bool:
    """Whether the container of a client with this wait status may be left. One that exits by itself has removed it, or
    the engine has not made it: it is `awaited`."""
    is_known = status is not None and status != STATUS_LOST and os.WIFEXITED(status)
    return not is_known or (not awaited and os.WEXITSTATUS(status or 0) == ENGINE_FAILED)


def list_containers(engine: ContainerEngine, launch: str) -> LaunchContainers:
    """Return what is left of a launch, running or not; at most `REMOVE_TIMEOUT`."""
    try:
        return LaunchContainers(left=_list(engine, launch, time.monotonic() + REMOVE_TIMEOUT))
    except (EngineFailed, TimeoutError) as error:
        return LaunchContainers(why=_why(error, REMOVE_TIMEOUT))


def remove_containers(engine: ContainerEngine, launch: str, within: float | None = None) -> LaunchContainers:
    """Remove every container of a launch, running or not, until the engine lists none; at most `within` seconds, or
    `REMOVE_TIMEOUT`."""
    limit = REMOVE_TIMEOUT if within is None else within
    deadline = time.monotonic() + limit
    found: dict[str, None] = {}
    left: tuple[str, ...] = ()
    empty_listings = 0
    try:
        while empty_listings < 2:  # of two, so that one shows what a daemon has made since for a client that is dead
            left = _list(engine, launch, deadline)
            if left:
                _remove(engine, left, deadline)
            found.update(dict.fromkeys(left))
            empty_listings = 0 if left else empty_listings + 1
            time.sleep(SETTLE_SECONDS if empty_listings < 2 else 0)
    except (EngineFailed, TimeoutError) as error:
        return LaunchContainers(tuple(each for each in found if each not in left), left, _why(error, limit))
    return LaunchContainers(tuple(found))


def _why(error: EngineFailed | TimeoutError, limit: float) -> str:
    return f"it did not answer within {seconds(limit)}" if isinstance(error, TimeoutError) else str(error)


def describe_left(found: LaunchContainers, program: str, launch: str) -> str:
    """Return a sentence that says which containers of a launch are, or may be, left, and how to remove them."""
    if found.left:
        what, which = f"left in {program}: {shorten(found.left)}", shorten(found.left, " ")
    else:
        what = f"a container may be left, as {program} fails ({found.why})"
        which = f"$({program} ps -aq --filter {_filter(launch)})"
    return f"{what}; to remove it: acp-launch reap, or {program} rm -f {which}"


def shorten(ids: Sequence[str], separator: str = ", ") -> str:
    """Return the ids as engines show them."""
    return separator.join(each[:ID_LENGTH] for each in ids)


def _filter(launch: str) -> str:
    return f"label={LABEL}.launch={launch}"


def _remove(engine: ContainerEngine, ids: Sequence[str], deadline: float) -> None:
    """Have them killed and removed. The engine fails for one that has gone meanwhile: the next listing tells.

    `rm -f` alone waits 10 s for a program that ignores SIGTERM (podman), and after a `kill` 5 s for a container whose
    monitor was killed, as it is by a guard. `rm` of docker has no `-t`.
    """
    for words in (("stop", "-t", "0"), ("rm", "-f")):
        _run(engine, (*words, *ids), deadline)


def _list(engine: ContainerEngine, launch: str, deadline: float) -> tuple[str, ...]:
    words = ("ps", "-a", "-q", "--no-trunc", "--filter", _filter(launch))
    status, out, err = _run(engine, words, deadline)
    if status:
        last = [line for line in err.splitlines() if line.strip()][-1:]
        raise EngineFailed(last[0].strip() if last else f"`ps` ended with status {status}")
    return tuple(out.split())


def _run(engine: ContainerEngine, words: Sequence[str], deadline: float) -> tuple[int, str, str]:
    """Run the engine's client to its end. Returns its exit code, and what it has printed."""
    with ExitStack() as opened:
        nothing = os.open(os.devnull, os.O_RDONLY)
        pipes = [os.pipe() for _ in range(2)]
        for end in (nothing, *chain(*pipes)):
            opened.callback(os.close, end)
        streams = (nothing, *(writing for _, writing in pipes))
        try:
            pid = start_process([engine.program, *words], engine.env, streams, leads=True, defaults=_RESTORED)
        except (OSError, ValueError) as error:
            raise EngineFailed(f"it could not be started: {getattr(error, 'strerror', None) or error}") from None
        code = _wait(pid, deadline)
        out, err = (_read(reading) for reading, _ in pipes)
        return code, out, err


def _wait(pid: int, deadline: float) -> int:
    """Wait for our child, and return its exit code.

    Raises:
        TimeoutError: its group was killed at the deadline.
    """
    seen = prepare.table().read(pid)
    children = [] if seen is None else [seen]
    try:
        block_until_gone(children, within=max(0.0, deadline - time.monotonic()))
    finally:  # a signal may have ended the wait
        if is_late := living(children):
            os.killpg(pid, signal.SIGKILL)
        try:
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        except ChildProcessError:  # it was taken for an orphan
            code = ENGINE_FAILED
    if is_late:
        raise TimeoutError
    return code


def _read(pipe: int) -> str:
    """Read what is in a pipe. Its end is not awaited: what the client has left in the background may hold it open."""
    os.set_blocking(pipe, False)
    try:
        return os.read(pipe, MAX_OUTPUT_BYTES).decode(errors="replace")
    except BlockingIOError:
        return ""
