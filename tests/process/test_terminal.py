"""A command that was run for an agent, with real processes: its output, its end, and the end of all it started."""

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from acp_launch.errors import AgentError
from acp_launch.process import terminal
from acp_launch.process.spawn import live
from acp_launch.process.terminal import Scrollback, Terminal
from acp_launch.process.tree import Exit
from tests.looped import looped
from tests.patience import PATIENCE

from .liveness import TREES, Liveness, program


class Watched:
    """A terminal, and what it told."""

    def __init__(self, argv: list[str], *, env: dict[str, str] | None = None, limit: int = 1 << 20) -> None:
        self.told: list[str] = []
        self.exits: list[Exit] = []
        self._news = asyncio.Event()
        self.it = Terminal(
            argv,
            env=env or {"PATH": os.environ["PATH"]},
            cwd=Path("/"),
            name="terminal-1",
            limit=limit,
            said=self._said,
            ended=self.exits.append,
        )

    def _said(self, text: str) -> None:
        self.told.append(text)
        self._news.set()

    async def says(self, text: str) -> None:
        """Until it has told this."""
        while text not in "".join(self.told):
            self._news.clear()
            await self._news.wait()


@asynccontextmanager
async def running(
    argv: list[str], *, env: dict[str, str] | None = None, limit: int = 1 << 20
) -> AsyncIterator[Watched]:
    async with asyncio.timeout(PATIENCE):
        watched = Watched(argv, env=env, limit=limit)
        try:
            yield watched
        finally:
            await watched.it.end()


def sh(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


@looped
async def test_stdout_and_stderr_come_in_the_order_they_were_written() -> None:
    async with running(sh("for n in 1 2 3 4 5; do echo out $n; echo err $n >&2; done")) as watched:
        assert await watched.it.wait() == Exit(0, None)
        expected = "".join(f"out {n}\nerr {n}\n" for n in range(1, 6))
        assert watched.it.output() == (expected, False)
        assert "".join(watched.told) == expected


@looped
async def test_its_input_is_empty_and_not_a_pipe_so_that_no_program_searches_it() -> None:
    async with running(sh("cat; [ -p /dev/stdin ] || readlink -f /proc/self/fd/0")) as watched:
        assert await watched.it.wait() == Exit(0, None)
        assert watched.it.output() == ("/dev/null\n", False)


@pytest.mark.parametrize(
    ("script", "exit_"), [("exit 0", Exit(0, None)), ("exit 255", Exit(255, None)), ("kill -9 $$", Exit(None, 9))]
)
@looped
async def test_how_it_ended_is_told_once_and_after_all_it_said(script: str, exit_: Exit) -> None:
    async with running(sh(f"echo last words; {script}")) as watched:
        before = watched.it.exit
        assert (before, await watched.it.wait(), watched.it.exit) == (None, exit_, exit_)
        assert (watched.told, watched.exits) == (["last words\n"], [exit_])
    assert watched.exits == [exit_]


@looped
async def test_a_flood_is_kept_within_the_limit_told_within_bounds_and_holds_nothing_up() -> None:
    began = asyncio.get_running_loop().time()
    async with running(["/usr/bin/yes"], limit=1000) as watched:
        while len(watched.told) < 5 or not any(told.startswith("\n[... ") for told in watched.told):
            watched._news.clear()
            await watched._news.wait()
        took = asyncio.get_running_loop().time() - began
        text, is_cut = watched.it.output()
        assert (len(text), is_cut) == (1000, True)
        steps = len(watched.told)
    assert steps <= took / terminal.REPORT_SECONDS + 1  # at most 20 a second
    assert all(len(told) <= terminal.MAX_STEP_CHARS + 100 for told in watched.told)
    assert watched.it.exit == Exit(None, signal.SIGTERM)


@looped
async def test_what_is_not_told_of_a_flood_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "MAX_STEP_CHARS", 4)
    async with running(sh("printf 123456789")) as watched:
        await watched.it.wait()
        assert watched.told == ["\n[... 5 characters not shown ...]\n6789"]
        assert watched.it.output() == ("123456789", False)


class Noticed(Scrollback):
    """Says when it was fed."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.fed = asyncio.Event()

    def feed(self, data: bytes) -> str:
        self.fed.set()
        return super().feed(data)


def test_a_process_that_ended_is_over_although_another_holds_its_output_and_that_one_is_still_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noticed = Noticed(1 << 20)
    monkeypatch.setattr(terminal, "Scrollback", lambda limit: noticed)
    os.mkfifo(tmp_path / "fifo")
    line = os.open(tmp_path / "fifo", os.O_RDWR)
    script = f"(read line; echo later $line; exec sleep 1000) <{tmp_path}/fifo & echo first"

    async def run() -> None:
        async with running(sh(script)) as watched:
            assert await watched.it.wait() == Exit(0, None)
            assert watched.it.output() == ("first\n", False)
            noticed.fed.clear()
            os.write(line, b"on\n")
            await noticed.fed.wait()
            assert watched.it.output() == ("first\nlater on\n", False)
        assert "".join(watched.told) == "first\n"  # after its end nothing is told

    try:
        asyncio.run(run())
    finally:
        os.close(line)


@looped
async def test_a_program_that_closes_its_output_still_runs() -> None:
    async with running(sh("echo bye; exec >&- 2>&-; exec sleep 1000")) as watched:
        await watched.says("bye\n")
        assert watched.it.exit is None
        await watched.it.end()
        assert watched.it.exit == Exit(None, signal.SIGTERM)


@pytest.mark.parametrize("temper", [temper for temper in TREES if temper != "follow"])
@looped
async def test_ending_it_ends_all_it_started(temper: str, alive: Liveness, monkeypatch: pytest.MonkeyPatch) -> None:
    """C-73."""
    monkeypatch.setattr(terminal, "GRACE_SECONDS", 0.05)
    argv, names = TREES[temper]
    command = f"{shlex.join(program(*argv))} < /dev/zero"  # a program that ends with its input does not end here
    async with running(sh(command), env=alive.env) as watched:
        await asyncio.to_thread(alive.hear, *names)
        await watched.it.end()
        assert watched.it.exit is not None
        assert watched.it.is_gone
    assert live() == []
    alive.assert_all_dead()


@looped
async def test_a_command_may_clean_up_before_it_is_killed() -> None:
    code = (
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: print('cleaning up') or sys.exit(3))\n"
        "print('ready', flush=True)\n"
        "signal.pause()"
    )
    async with running([sys.executable, "-I", "-S", "-c", code]) as watched:
        await watched.says("ready\n")
        await watched.it.end()
        assert watched.it.exit == Exit(3, None)
        assert watched.it.output() == ("ready\ncleaning up\n", False)


@looped
async def test_a_hurry_leaves_no_grace(alive: Liveness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "GRACE_SECONDS", 10 * PATIENCE)
    async with running(program("deaf", "stubborn"), env=alive.env) as watched:
        await asyncio.to_thread(alive.hear, "stubborn")
        watched.it.hurry.set()
        await watched.it.end()
        assert watched.it.exit == Exit(None, signal.SIGKILL)
    alive.assert_all_dead()


@looped
async def test_ending_it_is_seen_through_although_its_caller_is_cancelled(
    alive: Liveness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "GRACE_SECONDS", 0.05)
    async with running(program("deaf", "stubborn"), env=alive.env) as watched:
        await asyncio.to_thread(alive.hear, "stubborn")
        ending = asyncio.create_task(watched.it.end())
        asyncio.get_running_loop().call_soon(ending.cancel)  # it has begun by then
        assert await watched.it.wait() == Exit(None, signal.SIGKILL)
        assert ending.cancelled()
    alive.assert_all_dead()


@looped
async def test_one_that_was_dropped_is_gone_at_once(alive: Liveness) -> None:
    watched = Watched(program("forker", "daemon"), env=alive.env)
    await asyncio.to_thread(alive.hear, "forker", "daemon")
    watched.it.drop()
    watched.it.drop()
    assert live() == []
    alive.assert_all_dead()


@looped
async def test_without_pidfds_an_exit_is_noticed_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    async with running(sh("echo hello; exit 7")) as watched:
        assert await watched.it.wait() == Exit(7, None)
        assert watched.it.output() == ("hello\n", False)


@looped
async def test_a_program_that_cannot_be_started_leaves_nothing() -> None:
    with pytest.raises(AgentError) as raised:
        Watched(["/no/such/program"])
    assert str(raised.value) == "/no/such/program could not be started: there is no such file"
    assert live() == []
