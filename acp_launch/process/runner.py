"""
Package runners (npx, uvx, pipx run, …), which download what they run: whether a process is still at that.

The sign is the tree of processes. While a runner resolves, downloads and unpacks, it is the last process of its line:
it starts the program only when that is there, as its child (npx, uvx, bunx, pnpm dlx) or in its own place (pipx). The
scripts that npm runs while it installs are children too; they say so in their environment.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import Self

from acp_launch.process import prepare
from acp_launch.process.table import Table
from acp_launch.regex import regex

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
LOOK_EVERY = 1.0  # seconds
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
            self._timer = asyncio.get_running_loop().call_later(LOOK_EVERY, self._look)
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
        self._timer = asyncio.get_running_loop().call_later(LOOK_EVERY, self._look)

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
        return _portably(pid)
    try:
        with open(f"/proc/{pid}/cmdline", "rb", buffering=0) as file:  # noqa: PTH123 - asked again and again
            return file.readall().replace(b"\0", b" ").decode(errors="replace").split()
    except OSError:
        return []


def _portably(pid: int) -> list[str]:
    import psutil

    try:
        return " ".join(psutil.Process(pid).cmdline()).split()
    except psutil.Error:
        return []
