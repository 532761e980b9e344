"""A child's streams and its exit, with real pipes: what the kernel decides."""

import asyncio
import os
import resource
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from acp_launch import rpc
from acp_launch.process import child as pipes
from acp_launch.process import table
from acp_launch.process.child import Child, attach
from acp_launch.process.spawn import spawn
from acp_launch.process.tree import Exit
from acp_launch.secret.redact import StreamRedactor
from tests.looped import looped
from tests.patience import PATIENCE
from tests.secret.canaries import knowing

from .liveness import Liveness, program


@asynccontextmanager
async def attached(
    argv: Sequence[str], *, env: dict[str, str] | None = None, log: Callable[[bytes], None] | None = None
) -> AsyncIterator[Child]:
    """A child's context, everything bounded."""
    async with asyncio.timeout(PATIENCE), attach(spawn(argv, env=env or {}, cwd=Path("/")), log=log) as child:
        yield child


async def rest_of(child: Child) -> bytes:
    chunks = []
    while chunk := await child.read():
        chunks.append(chunk)
    return b"".join(chunks)


@looped
async def test_what_is_written_comes_back_and_the_end_of_stdin_ends_it() -> None:
    async with attached(["/bin/cat"]) as child:
        await child.write(b"hello\n")
        assert await child.read() == b"hello\n"
        child.close_stdin()
        child.close_stdin()
        assert await child.read() == b""
        assert await child.read() == b""
        assert await child.wait() == Exit(0, None)
    assert child.exit == Exit(0, None)


@pytest.mark.parametrize(
    ("ending", "exit_"),
    [(("exit", "3"), Exit(3, None)), (("signal", "9"), Exit(None, 9)), (("signal", "6"), Exit(None, 6))],
)
@looped
async def test_an_exit_is_noticed_with_its_status_and_the_last_words_are_complete_by_then(
    ending: tuple[str, str], exit_: Exit
) -> None:
    """C-12: the agent's end is known promptly, with status or signal and its last stderr lines."""
    async with attached(program("crasher", *ending)) as child:
        assert child.exit is None
        await child.write(b"\n")
        assert await child.wait() == exit_
        assert child.stderr_tail() == ["first", "last words"]


@looped
async def test_a_megabyte_on_stderr_before_anything_is_read_does_not_deadlock() -> None:
    """C-2."""
    logged: list[bytes] = []
    async with attached(program("chatty"), log=logged.append) as child:
        await child.write(b"still there?\n")
        assert await child.read() == b"still there?\n"
        await child.wait()
        assert child.stderr_tail() == ["x" * 99] * 50
    assert b"".join(logged) == (b"x" * 99 + b"\n") * 10_000


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ValueError("write to closed file")])
@looped
async def test_a_log_that_cannot_be_written_is_reported_once_and_draining_goes_on(error: Exception) -> None:
    calls = []

    def full(chunk: bytes) -> None:
        calls.append(chunk)
        raise error

    async with attached(program("chatty"), log=full) as child:
        await child.write(b"go on\n")
        assert await child.read() == b"go on\n"
    assert len(calls) == 1
    assert len(child.stderr_tail()) == 50


@looped
async def test_48_megabytes_flow_in_bounded_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with attached(program("chatty", "48000000")) as child:
        size = 0
        while chunk := await child.read():
            assert len(chunk) <= 256 * 1024
            size += len(chunk)
        assert size == 48_000_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8 * 1024  # KiB


@looped
async def test_a_reader_that_always_finds_something_still_lets_others_run() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with attached(program("chatty", "8000000")) as child:
        beside = asyncio.create_task(other())
        await rest_of(child)
        beside.cancel()
    # Under load a read finds more at once; without letting others run it would be one turn at the very most.
    assert turns >= 3


@looped
async def test_a_full_pipe_makes_the_writer_wait_and_the_writer_is_woken_when_we_close_it(alive: Liveness) -> None:
    async with attached(program("deaf"), env=alive.env) as child:
        alive.hear("deaf")
        writing = asyncio.create_task(child.write(bytes(1_000_000)))
        queued = asyncio.create_task(child.write(b"later"))
        done, _ = await asyncio.wait({writing, queued}, timeout=0.05)
        assert not done
        child.close_stdin()
        for task in (writing, queued):
            with pytest.raises(BrokenPipeError, match="its stdin is closed"):
                await task


@looped
async def test_writing_to_a_child_that_closed_its_stdin_is_a_broken_pipe() -> None:
    async with attached(["/bin/sh", "-c", "exec <&-; echo closed; exec sleep 100"]) as child:
        assert await child.read() == b"closed\n"
        with pytest.raises(BrokenPipeError):
            await child.write(b"anybody?\n")


@looped
async def test_a_writer_waiting_in_a_full_pipe_learns_that_the_child_died() -> None:
    async with attached(["/bin/sh", "-c", "head -c 10 >/dev/null; exit 1"]) as child:
        with pytest.raises(BrokenPipeError):
            await child.write(bytes(1_000_000))


@looped
async def test_concurrent_writes_never_mix_although_each_is_larger_than_the_pipe() -> None:
    lines = [bytes([letter]) * 200_000 + b"\n" for letter in b"abcdefgh"]
    async with attached(["/bin/cat"]) as child:

        async def write_all() -> None:
            await asyncio.gather(*(child.write(line) for line in lines))
            child.close_stdin()

        writing = asyncio.create_task(write_all())
        assert await rest_of(child) == b"".join(lines)
        await writing


@looped
async def test_a_write_cancelled_half_way_is_completed_before_the_next() -> None:
    async with attached(["/bin/cat"]) as child:
        first, second = b"1" * 1_000_000 + b"\n", b"2\n"
        writing = asyncio.create_task(child.write(first))
        await asyncio.wait({writing}, timeout=0.05)
        writing.cancel()
        await asyncio.wait({writing})

        async def finish() -> None:
            await child.write(second)
            child.close_stdin()

        finishing = asyncio.create_task(finish())
        assert await rest_of(child) == first + second
        await finishing


@looped
async def test_a_write_cancelled_before_its_first_byte_never_happens(alive: Liveness) -> None:
    async with attached(["/bin/cat"]) as child:
        first = b"1" * 1_000_000 + b"\n"
        writing = asyncio.create_task(child.write(first))
        waiting = asyncio.create_task(child.write(b"never\n"))
        await asyncio.wait({writing, waiting}, timeout=0.05)
        waiting.cancel()
        assert await child.read() == b"1" * 65536
        chunks = 65536
        while chunks < len(first):
            chunks += len(await child.read())
        await writing
        await child.write(b"3\n")
        assert await child.read() == b"3\n"


@looped
async def test_the_exit_is_seen_and_output_ends_although_a_grandchild_holds_stdout_open(alive: Liveness) -> None:
    """C-14: exit detection does not depend on EOF."""
    async with attached(program("forker", "hold"), env=alive.env) as child:
        alive.hear("forker", "daemon")
        assert await child.wait() == Exit(0, None)
        assert await rest_of(child) == b"last words\n"
    alive.assert_all_dead()


@looped
async def test_what_is_left_in_the_pipe_is_read_however_late(alive: Liveness) -> None:
    async with attached(program("forker", "hold"), env=alive.env) as child:
        await child.wait()
        child._output._give_up()  # as if the half second had passed
        assert await child.read() == b"last words\n"
        assert await child.read() == b""


@looped
async def test_a_grandchild_that_floods_the_dead_childs_stdout_is_not_read_for_ever() -> None:
    async with attached(["/bin/sh", "-c", "yes & exit"], env={"PATH": os.environ["PATH"]}) as child:
        await child.wait()
        child._output._give_up()
        assert len(await rest_of(child)) < 2 * 1024 * 1024


@looped
async def test_leaving_the_context_kills_what_was_not_stopped(alive: Liveness) -> None:
    async with attached(program("deaf", "stubborn"), env=alive.env) as child:
        alive.hear("stubborn")
    assert child.exit == Exit(None, 9)
    alive.assert_all_dead()


@looped
async def test_an_exception_in_the_context_comes_out_and_leaves_nothing(alive: Liveness) -> None:
    with pytest.raises(LookupError, match="mine"):
        async with attached(program("forker", "setsid"), env=alive.env):
            alive.hear("forker", "loner")
            raise LookupError("mine")
    alive.assert_all_dead()


@looped
async def test_a_child_that_died_before_it_was_attached_is_noticed() -> None:
    spawned = spawn(["/bin/sh", "-c", "echo out; echo err >&2; exit 5"], env={}, cwd=Path("/"))
    os.waitid(os.P_PID, spawned.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 - nothing else runs
    spawned.poll()
    async with asyncio.timeout(PATIENCE), attach(spawned) as child:
        assert await child.wait() == Exit(5, None)
        assert await rest_of(child) == b"out\n"
        assert child.stderr_tail() == ["err"]


@looped
async def test_without_pidfds_the_exit_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS."""
    monkeypatch.delattr(os, "pidfd_open")
    assert table.open_pid(os.getpid()) == table.NO_PIDFD
    async with attached(program("crasher", "exit", "3")) as child:
        await child.write(b"\n")
        assert await child.wait() == Exit(3, None)
        assert child.stderr_tail() == ["first", "last words"]


@looped
async def test_an_orphan_that_dies_while_we_run_is_reaped_at_once_so_that_its_friends_see_it_gone() -> None:
    """As init would: `kill -0` on a zombie succeeds for ever."""
    script = "setsid sh -c 'sleep 100 & echo $!' & wait; read pid; kill $pid; while kill -0 $pid; do :; done; echo gone"
    async with attached(["/bin/sh", "-c", script], env={"PATH": os.environ["PATH"]}) as child:
        pid = await child.read()
        await child.write(pid)
        assert await child.read() == b"gone\n"


@looped
async def test_a_value_that_a_child_begins_and_a_grandchild_ends_is_in_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child is dead by then, and its last words were shown; the stream goes on all the same."""
    token = "ghp_" + "a1B2c3D4e" * 4
    monkeypatch.setattr(pipes, "StreamRedactor", lambda: StreamRedactor(knowing(token)))
    logged: list[bytes] = []
    is_whole = asyncio.Event()

    def log(chunk: bytes) -> None:
        logged.append(chunk)
        if b"!" in chunk:
            is_whole.set()

    script = f"exec 3<&0; printf 'key: {token[:20]}' >&2; (read line <&3; printf '{token[20:]}!' >&2) & exit 0"
    async with attached(["/bin/sh", "-c", script], log=log) as child:
        assert await child.wait() == Exit(0, None)
        assert child.stderr_tail() == ["key: ***"]
        await child.write(b"go on\n")
        await is_whole.wait()
        assert child.stderr_tail() == ["key: ***!"]
    assert b"".join(logged) == b"key: ***!"


@looped
async def test_a_dead_child_is_no_running_one_because_the_word_of_its_end_is_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That of its guard, which on a busy machine may have no turn for a second."""
    monkeypatch.setattr("acp_launch.process.child.REAP_TIMEOUT", 0.0)
    async with attached(["/bin/sh", "-c", "exit 3"]) as child:
        await child.wait()
        status, child.spawned.status = child.spawned.status, None
        child._exited.clear()

        def word() -> None:
            child.spawned.status = status
            child._exited.set()

        assert (child.exit, child.is_dead) == (None, True)
        asyncio.get_running_loop().call_later(0.05, word)
        assert await rpc.StdioTransport(child).describe_end() == ("exited with status 3", ())


@looped
async def test_a_child_that_only_closes_its_output_still_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_launch.process.child.REAP_TIMEOUT", 0.0)
    async with attached(["/bin/sh", "-c", "exec >&-; read line; exit 0"]) as child:
        assert await child.read() == b""
        assert not child.is_dead
        assert await rpc.StdioTransport(child).describe_end() == ("closed its output but is still running", ())
        child.close_stdin()
        assert await child.wait_within(PATIENCE) == Exit(0, None)
