"""
What a supervisor starts again and again: a program of this machine, or a remote server behind the same interface.

`Program` begins a `Running`. A running program of this machine is a `Child`, whose lines come and go through its
descriptors. A remote server has no process, but its connection is treated as a process; it gives and
takes `Lines`.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Protocol, Self

from msgspec import Struct

from acp_launch.process import prepare
from acp_launch.process.child import GRACE_SECONDS, Child, attach
from acp_launch.process.code import read_code
from acp_launch.process.lifecycle import Ended
from acp_launch.process.spawn import spawn
from acp_launch.process.table import Table
from acp_launch.process.tree import StopOutcome
from acp_launch.protocol.jsonrpc import Envelope
from acp_launch.regex import regex
from acp_launch.secret.value import Secret

if TYPE_CHECKING:
    from acp_launch.plan.model import ProcessPlan, StdioPlan


class Lines(Protocol):
    """The messages of a remote server's connection: the face of a link, without descriptors.

    Nothing is called from within `send`.
    """

    def listen(
        self,
        line: Callable[[bytes, Envelope | None], None],
        on_drained: Callable[[], None] = lambda: None,
        on_burst: Callable[[bool], None] = lambda is_on: None,
    ) -> None:
        """Give the server's messages to `line`, with what they say if that was read; it must not raise, and none is
        lost before this is called.

        `on_drained` is called when it is not full any more, `on_burst` with True before messages that came in one
        piece, and with False after them.
        """

    @property
    def is_full(self) -> bool:
        """Whether too much is held for the server; the sender should wait for `on_drained`."""

    @property
    def held(self) -> int:
        """A measure of what the server has not taken yet."""

    @property
    def is_paused(self) -> bool: ...

    def send(self, line: bytes, messages: Sequence[Envelope] = ()) -> None:
        """Send a message, or several with newlines between them. Never waits.

        `messages` are what they say, if that was read.
        """

    def cork(self) -> None: ...

    def uncork(self) -> None: ...

    def pause(self) -> None:
        """Read nothing more of the server until `resume`."""

    def resume(self) -> None: ...

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

    async def stop(self, *, grace: float) -> StopOutcome:
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
        """Start it, without waiting for its answers; leaving the block kills it, within bounds.

        `restarts` is how many starts came before this one; `log` gets every chunk of its stderr, redacted.

        Raises:
            AgentError: it could not be started.
        """


class LocalProgram(Struct, frozen=True):
    """A program of this machine with its secrets revealed. Its repr shows only the name.

    `argv` begins with an absolute path; `env` is the whole environment; `is_client`: as in `spawn`.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    is_client: bool = False

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
        code = read_code(self.argv, self.cwd)
        spawned = spawn(self.argv, env=self.env, cwd=self.cwd, name=self.name, restarts=restarts, code=code)
        async with attach(spawned, log=log) as child:
            yield child

    def __repr__(self) -> str:
        return f"LocalProgram({self.name!r})"

    def __rich_repr__(self) -> list[tuple[str, str]]:  # msgspec's own shows every field
        return [("name", self.name)]


async def stop(running: Running, *, grace: float = GRACE_SECONDS, hurry: asyncio.Event | None = None) -> StopOutcome:
    """End it with the usual patience, which `hurry` cuts."""
    hasten = asyncio.create_task(_pass_on(hurry, running)) if hurry else None
    try:
        return await running.stop(grace=grace)
    finally:
        if hasten is not None:
            hasten.cancel()


async def _pass_on(hurry: asyncio.Event, running: Running) -> None:
    await hurry.wait()
    running.hurry.set()


# Package runners (npx, uvx, pipx run, …), which download what they run: whether a process is still at that.
#
# The sign is the tree of processes. While a runner resolves, downloads and unpacks, it is the last process of its line:
# it starts the program only when that is there, as its child (npx, uvx, bunx, pnpm dlx) or in its own place (pipx). The
# scripts that npm runs while it installs are children too; they say so in their environment.


_ALONE = frozenset(("npx", "npx-cli", "uvx", "bunx", "pnpx"))
_VERBS = {
    "npm": ("exec", "x"),
    "uv": ("tool", "run", "x"),
    "bun": ("x",),
    "pnpm": ("dlx", "exec"),
    "yarn": ("dlx",),
    "pipx": ("run",),
}
_INTERPRETERS = regex(r"node|nodejs|bun|sh|bash|env|(?:python|pypy)[0-9.]*")
_BETWEEN = regex(r"[\s'\"();&|]+")
AT_HAND = 2.0  # seconds in which a runner starts what it has downloaded before
POLL_SECONDS = 1.0
_SCRIPT = b"npm_lifecycle_event="
_RUN = (b"", b"npx")  # its value in a program that npx runs; any other is a script of an installation


def may_fetch(argv: Sequence[str]) -> bool:
    """Whether this command line names a package runner, also within `sh -c` and `env`."""
    words = [piece for word in argv for piece in _BETWEEN.split(word) if piece]
    return any(_is_runner(words[index:]) for index in range(len(words)))


class Download:
    """Watches the download of a program by its package runner, for a wait for its first answer.

    Enter it within an event loop for the length of the wait. `was_seen` says whether there was a download.
    """

    def __init__(self, pid: int | None, limit: float, tell: Callable[[], None]) -> None:
        """`pid` is None for what downloads nothing; `limit` is in seconds; `tell` is called once for a download."""
        self.was_seen = False
        self._pid, self._tell = pid, tell
        self._begun = self._last = time.monotonic()
        self._until = self._begun + limit
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        if self._pid is not None:
            self._timer = asyncio.get_running_loop().call_later(POLL_SECONDS, self._look)
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def since(self) -> float:
        """Return when it was last seen to go on (time.monotonic, as asyncio's loops), for `waits.awaited`."""
        self._see()
        return self._last

    def _look(self) -> None:
        self._see()
        self._timer = asyncio.get_running_loop().call_later(POLL_SECONDS, self._look)

    def _see(self) -> None:
        now = time.monotonic()
        if self._pid is None or now >= self._until or not is_fetching(self._pid):
            return
        self._last = now
        if not self.was_seen and now >= self._begun + AT_HAND:
            self.was_seen = True
            self._tell()


def is_fetching(pid: int) -> bool:
    """Whether a package runner in this process's tree is still downloading or installing."""
    return any(_fetches(line) for line in _lines(prepare.table(), (pid,)))


def _lines(table: Table, line: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the line from the first process to each one without children."""
    children = [pid for pid in table.children(line[-1]) if pid not in line and _is_alive(table, pid)]
    if not children:
        yield line
    for child in children:
        yield from _lines(table, (*line, child))


def _is_alive(table: Table, pid: int) -> bool:
    seen = table.read(pid)
    return seen is not None and not seen.is_dead


def _fetches(line: tuple[int, ...]) -> bool:
    """Whether the last process is a runner, or works for one that is still installing."""
    runners = [(pid, name) for pid in line if (name := _runner(command_line(pid)))]
    if not runners:
        return False
    pid, name = runners[-1]
    return pid == line[-1] or name == "pipx" or _is_script(line[-1])


def _is_script(pid: int) -> bool:
    """Whether npm runs this program to install a package."""
    values = [
        each.removeprefix(_SCRIPT) for each in prepare.environment_of(pid).split(b"\0") if each.startswith(_SCRIPT)
    ]
    return bool(values) and values[0] not in _RUN


def _runner(words: Sequence[str]) -> str:
    """Return the name of the runner that a process is; empty if it is none."""
    if words and _INTERPRETERS.fullmatch(PurePath(words[0]).stem) and not _is_runner(words):
        words = [word for word in words[1:] if not word.startswith("-")]
    return PurePath(words[0]).stem if words and _is_runner(words) else ""


def _is_runner(words: Sequence[str]) -> bool:
    name = PurePath(words[0]).stem
    if name in _ALONE:
        return True
    verb = next((word for word in words[1:] if not word.startswith("-")), "")
    return verb in _VERBS.get(name, ())


def command_line(pid: int) -> list[str]:
    """Return the words of a process's command line. npm writes its own there, in one piece; empty if unreadable."""
    if not prepare.IS_LINUX:
        import psutil

        try:
            return " ".join(psutil.Process(pid).cmdline()).split()
        except psutil.Error:
            return []
    try:
        with open(f"/proc/{pid}/cmdline", "rb", buffering=0) as file:  # noqa: PTH123 - asked again and again
            return file.readall().replace(b"\0", b" ").decode(errors="replace").split()
    except OSError:
        return []
