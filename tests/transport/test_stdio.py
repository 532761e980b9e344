"""A child as a transport; the process rules are tested in tests/process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from acp_launch.process.child import attach
from acp_launch.process.spawn import spawn
from acp_launch.rpc import StdioTransport, TransportClosed
from tests.looped import looped
from tests.patience import PATIENCE
from tests.process.liveness import program


@asynccontextmanager
async def over(argv: list[str]) -> AsyncIterator[StdioTransport]:
    async with asyncio.timeout(PATIENCE), attach(spawn(argv, env={}, cwd=Path("/"))) as child:
        yield StdioTransport(child)


@looped
async def test_bytes_go_there_and_back_and_closing_ends_the_other_side() -> None:
    async with over(["/bin/cat"]) as transport:
        await transport.write(b"hello")
        assert await transport.read() == b"hello"
        transport._child.close_stdin()
        assert await transport.read() == b""
        assert await transport.describe_end() == ("exited with status 0", ())
        with pytest.raises(TransportClosed, match="nothing more can be sent: its stdin is closed"):
            await transport.write(b"more")


@looped
async def test_a_crash_is_described_with_its_signal_and_last_words() -> None:
    async with over(program("crasher", "signal", "9")) as transport:
        await transport.write(b"\n")
        assert await transport.read() == b""
        assert await transport.describe_end() == ("was killed by SIGKILL", ("first", "last words"))


@looped
async def test_an_output_that_ends_before_the_process_is_described_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_launch.process.child.REAP_TIMEOUT", 0.01)
    async with over(["/bin/sh", "-c", "exec >&-; exec sleep 100"]) as transport:
        assert await transport.read() == b""
        assert await transport.describe_end() == ("closed its output but is still running", ())
