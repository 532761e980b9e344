"""
What a supervisor starts again and again: a program of this machine, or a remote server behind the same interface.

`Program` begins a `Running`. A running program of this machine is a `Child`, whose lines come and go through its
descriptors. A remote server has no process, but what is said of a process holds for its connection too; it gives and
takes `Lines`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from acp_launch.process.child import GRACE, Child, attach
from acp_launch.process.lifecycle import Ended
from acp_launch.process.runner import may_fetch
from acp_launch.process.spawn import spawn
from acp_launch.process.tree import Outcome
from acp_launch.secret.value import Secret

if TYPE_CHECKING:
    from acp_launch.plan.model import ProcessPlan, StdioPlan


class Lines(Protocol):
    """The messages of a remote server's connection: the face of a link, without descriptors.

    It calls nobody from within `send`.
    """

    def listen(
        self,
        line: Callable[[bytes], None],
        room: Callable[[], None] = lambda: None,
        burst: Callable[[bool], None] = lambda is_on: None,
    ) -> None:
        """Give the server's messages to `line`, which must not raise; none is lost before this is called.

        `room` is called when it is not full any more, `burst` with True before messages that came in one piece, and
        with False after them.
        """

    @property
    def is_full(self) -> bool:
        """Whether too much is held for the server; the sender should wait for `room`."""

    @property
    def held(self) -> int:
        """A measure of what the server has not taken yet."""

    @property
    def is_paused(self) -> bool: ...

    def send(self, line: bytes) -> None:
        """Send a message, or several with newlines between them. Never waits."""

    def gather(self) -> None: ...

    def release(self) -> None: ...

    def pause(self) -> None:
        """Read nothing more of the server until `resume`."""

    def resume(self) -> None: ...

    def drain(self) -> None: ...

    def close(self) -> None:
        """Give its messages to nobody any more."""


class Running(Protocol):
    """A process at work, or the connection to a remote server."""

    hurry: asyncio.Event  # set: the stop under way has no more patience

    @property
    def lines(self) -> Lines | None:
        """The messages of a remote server; None for a process, which has descriptors."""

    @property
    def pid(self) -> int | None:
        """Its process; None for a remote server."""

    @property
    def end(self) -> Ended | None:
        """How it has ended, and what follows from that; None while it runs."""

    @property
    def is_dead(self) -> bool:
        """Whether it has ended, also where `end` is not known yet."""

    @property
    def unsent(self) -> Sequence[bytes]:
        """The lines written to it that certainly had no effect, in order; final once it has ended.

        The requests among them are for its successor, instead of being refused.
        """

    async def wait(self) -> object:
        """Wait until it has ended."""

    async def stop(self, *, grace: float) -> Outcome:
        """End it, if it still runs, and everything that belongs to it; bounded, and once however often it is called.

        `grace` is in seconds for each polite step.
        """

    def stderr_tail(self) -> list[str]:
        """Return the last lines that it wrote for its log, redacted."""


class Program(Protocol):
    """What a supervised server is started from. Its repr shows no secret.

    `name` is the server's name in the profile, or `github#2` for a second process of it.
    """

    @property
    def name(self) -> str: ...

    @property
    def may_fetch(self) -> bool:
        """Whether it may download itself before it starts."""

    def begin(self, *, restarts: int, log: Callable[[bytes], None] | None) -> AbstractAsyncContextManager[Running]:
        """Start it, without waiting for anything; leaving the block kills it, within bounds.

        `restarts` is how many starts came before this one; `log` gets every chunk of its stderr, redacted.

        Raises:
            AgentError: it could not be started.
        """


class LocalProgram(Struct, frozen=True):
    """A program of this machine with its secrets revealed. Its repr shows only the name.

    `argv` begins with an absolute path; `env` is the whole environment.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path

    @classmethod
    def of(cls, plan: "ProcessPlan | StdioPlan", name: str, secrets: Mapping[str, Secret]) -> "LocalProgram":
        """Reveal the secrets of a plan that has a directory. `name` tells two processes of a server apart."""
        assert plan.cwd is not None
        argv = (str(plan.command), *(arg.reveal(secrets) for arg in plan.args))
        return cls(name, argv, {each: value.reveal(secrets) for each, value in plan.env.items()}, plan.cwd)

    @property
    def may_fetch(self) -> bool:
        return may_fetch(self.argv)

    @asynccontextmanager
    async def begin(self, *, restarts: int, log: Callable[[bytes], None] | None) -> AsyncIterator[Child]:
        spawned = spawn(self.argv, env=self.env, cwd=self.cwd, name=self.name, restarts=restarts)
        async with attach(spawned, log=log) as child:
            yield child

    def __repr__(self) -> str:
        return f"LocalProgram({self.name!r})"

    def __rich_repr__(self) -> list[tuple[str, str]]:  # msgspec's own shows every field
        return [("name", self.name)]


async def stop(running: Running, *, hurry: asyncio.Event) -> Outcome:
    """End it with the usual patience, which `hurry` cuts."""
    hasten = asyncio.create_task(_pass_on(hurry, running))
    try:
        return await running.stop(grace=GRACE)
    finally:
        hasten.cancel()


async def _pass_on(hurry: asyncio.Event, running: Running) -> None:
    await hurry.wait()
    running.hurry.set()
