"""The pump with real servers of every temper: nothing hangs, and every failure says whose fault it is."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec import Raw

from acp_launch.errors import (
    LaunchError,
    LocalProtocolError,
    RemoteProtocolError,
    ServerError,
    ServerRefused,
    WaitExpired,
)
from acp_launch.mcp.client import (
    STDIO,
    Event,
    Limit,
    McpClient,
    McpConnection,
    call_tool,
    list_items,
    shake_hands,
)
from acp_launch.mcp.message import LogMessage, Progress
from acp_launch.process import child
from acp_launch.process.child import attach
from acp_launch.process.spawn import spawn
from acp_launch.rpc import StdioTransport
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
SHORT = 0.2
T = TypeVar("T")


class Ear:
    def __init__(self) -> None:
        self.heard: list[object] = []

    def progress(self, progress: Progress) -> None:
        self.heard.append(progress)

    def said(self, said: LogMessage) -> None:
        self.heard.append(said)

    def note(self, text: str) -> None:
        self.heard.append(text)


def visit(
    temper: str, story: Callable[[McpConnection], Awaitable[T]], *arguments: str, max_line: int = 64 << 20
) -> tuple[T, Ear]:
    ear = Ear()

    async def run() -> T:
        command = [sys.executable, "-I", "-S", str(ROOT / "tests" / "servers" / f"{temper}.py"), *arguments]
        async with (
            asyncio.timeout(PATIENCE),
            attach(spawn(command, env=dict(os.environ), cwd=ROOT)) as server,
            McpConnection(
                "x", StdioTransport(server), McpClient([ROOT]), ear, lambda *_: None, max_line=max_line
            ).running() as connection,
        ):
            return await story(connection)

    return asyncio.run(run()), ear


def meet(limit: float) -> Callable[[McpConnection], Awaitable[str]]:
    async def story(connection: McpConnection) -> str:
        return (await shake_hands(connection, limit=limit)).name

    return story


def failed(mode: str, *, limit: float = PATIENCE, max_line: int = 64 << 20) -> LaunchError:
    with pytest.raises(LaunchError) as caught:
        visit("probe_rude", meet(limit), mode, max_line=max_line)
    return caught.value


@pytest.mark.whole
@pytest.mark.parametrize(
    ("mode", "kind", "message", "fix", "detail"),
    [
        ("quits", ServerError, "exited with status 3 before it answered initialize", STDIO, ()),
        (
            "usage",
            ServerError,
            "exited with status 2 before it answered initialize",
            STDIO,
            ("it printed: usage: rude [serve]",),
        ),
        ("closes", ServerError, "closed its output but is still running before it answered initialize", STDIO, ()),
        ("refuses", ServerRefused, "answered initialize with an error: who are you? (-32602)", "", ()),
        (
            "modern",
            ServerRefused,
            "answered initialize with an error: unsupported protocol version (-32022)",
            "",
            ('data: {"supported":["2026-07-28"],"requested":"2025-11-25"}',),
        ),
    ],
)
def test_a_failed_handshake_says_what_the_server_did(
    mode: str,
    kind: type[LaunchError],
    message: str,
    fix: str,
    detail: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if mode == "closes":
        monkeypatch.setattr(child, "REAP_TIMEOUT", SHORT)
    error = failed(mode)
    assert type(error) is kind
    assert (error.message, error.fix, error.detail) == (f'the MCP server "x" {message}', fix, detail)


@pytest.mark.parametrize("mode", ["mute", "blind"])
def test_a_server_that_says_nothing_is_waited_for_so_long_and_no_longer(mode: str) -> None:
    error = failed(mode, limit=SHORT)
    assert type(error) is WaitExpired
    assert error.message == 'no answer to initialize from the MCP server "x" within 0.2 s'
    assert error.fix == f"{STDIO}; if it needs longer: mcp_servers.x.timeouts.start in the profile"


def test_a_line_over_the_limit_is_the_servers_fault() -> None:
    error = failed("long", max_line=1 << 20)
    assert type(error) is RemoteProtocolError
    assert (error.message, error.fix) == (
        'the MCP server "x" sent a line of more than 1,048,576 bytes',
        'if the MCP server "x" is right, raise the cap: ACP_LAUNCH_MAX_LINE=<bytes>',
    )


@pytest.mark.parametrize("mode", ["noisy", "batch"])
def test_junk_and_batches_before_the_handshake_do_not_matter(mode: str) -> None:
    """Nor does a megabyte of stderr."""
    assert visit("probe_rude", meet(PATIENCE), mode)[0] == mode


@pytest.mark.whole
def test_a_server_that_asks_and_never_reads_fails_what_waits_for_it() -> None:
    async def story(connection: McpConnection) -> str:
        await shake_hands(connection, limit=PATIENCE)
        with pytest.raises(RemoteProtocolError) as caught:
            await list_items(connection, "tools/list", limit=PATIENCE)
        with pytest.raises(RemoteProtocolError):  # and whatever is asked later
            await list_items(connection, "tools/list", limit=PATIENCE)
        return caught.value.message

    message, _ = visit("probe_rude", story, "floods")
    assert message == 'the MCP server "x" sends requests and does not read the answers'


def test_a_call_that_was_given_up_is_cancelled_and_its_late_answer_is_ignored() -> None:
    async def story(connection: McpConnection) -> tuple[str, ...]:
        await shake_hands(connection, limit=PATIENCE)
        with pytest.raises(WaitExpired) as caught:
            await call_tool(connection, "one", Raw(b"{}"), Limit(SHORT, False, "--timeout SECONDS"))
        assert caught.value.fix == "if it needs longer: --timeout SECONDS"
        return (await call_tool(connection, "one", Raw(b"{}"), Limit(PATIENCE, False, ""))).parts

    assert visit("probe_rude", story, "late")[0] == ("in time",)


@pytest.mark.whole
def test_arguments_larger_than_a_pipe_to_a_server_that_does_not_read_are_bounded_too() -> None:
    async def story(connection: McpConnection) -> str:
        with pytest.raises(WaitExpired) as caught:
            await call_tool(connection, "one", Raw(b'"%s"' % (b"x" * (1 << 20))), Limit(SHORT, False, ""))
        return caught.value.message

    assert visit("probe_rude", story, "blind")[0] == 'no result of "one" from the MCP server "x" within 0.2 s'


def test_a_server_has_a_moment_to_ask_for_the_roots_and_no_longer() -> None:
    async def asked(connection: McpConnection) -> int:
        await shake_hands(connection, limit=PATIENCE)
        return await connection.roots_asked(within=PATIENCE)  # not to be had without waiting for it

    async def not_asked(connection: McpConnection) -> int:
        await shake_hands(connection, limit=PATIENCE)
        return await connection.roots_asked(within=SHORT)

    assert visit("probe_polite", asked)[0] == 1
    assert visit("probe_pager", not_asked)[0] == 0


def test_junk_after_the_handshake_is_noted_once() -> None:
    async def story(connection: McpConnection) -> int:
        await shake_hands(connection, limit=PATIENCE)
        for _ in range(3):
            await call_tool(connection, "junk", Raw(b"{}"), Limit(PATIENCE, False, ""))
        return len(connection.pump.noise)

    noise, ear = visit("probe_polite", story)
    noted = 'the stdout of the MCP server "x" holds a line that is not a JSON-RPC message; ignored (1 so far)'
    assert (noise, ear.heard) == (0, [noted])


def test_a_message_that_breaks_us_costs_only_itself_and_fails_the_request_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A question of the server's, and an answer."""
    receive = McpClient.receive

    def fragile(client: McpClient, line: bytes) -> Iterator[Event]:
        if b'"ping"' in line or b"fragile" in line:
            raise LookupError("its words may hold a secret")
        return receive(client, line)

    async def story(connection: McpConnection) -> tuple[str, str]:
        await shake_hands(connection, limit=PATIENCE)
        monkeypatch.setattr(McpClient, "receive", fragile)
        heard = await call_tool(connection, "ask", Raw(b"{}"), Limit(PATIENCE, False, ""))
        with pytest.raises(LocalProtocolError) as caught:
            await call_tool(connection, "echo", Raw(b'{"word":"fragile"}'), Limit(PATIENCE, False, ""))
        return json.loads(heard.parts[0])[-1]["error"]["message"], caught.value.message

    (refused, left_out), ear = visit("probe_polite", story)
    assert refused == "this request was not handled because of a bug in acp-launch"
    assert left_out == 'the answer of the MCP server "x" to tools/call was left out, by a bug in acp-launch'
    said = 'a message of the MCP server "x" was skipped because of a bug in acp-launch; please report it'
    (note,) = ear.heard
    assert re.fullmatch(rf"{said} \(LookupError in mcp\.client:\d+\)", str(note))
