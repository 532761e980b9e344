"""Ring 2. The pump by itself: whose fault a long line is, what a bug of ours costs, how waits end."""

import asyncio
import json
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

import pytest

from acp_launch.errors import AgentError, LaunchError, RemoteProtocolError
from acp_launch.mcp.client import McpClient, messages
from acp_launch.protocol.jsonrpc import Peer
from acp_launch.rpc import Pump
from tests.looped import looped
from tests.patience import PATIENCE
from tests.transport.memory import MemoryTransport, pair


class Told:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.events: list[object] = []

    def on_event(self, event: Any) -> None:
        self.events.append(event)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def died(self, how: str, last_words: tuple[str, ...], method: str) -> LaunchError:
        return AgentError(f"it {how} before {method or 'anything'}", detail=last_words)

    async def drain(self) -> None: ...


def pump(transport: MemoryTransport, told: Told, peer: Peer, *, max_line: int = 1000) -> Pump:
    def receive(line: bytes) -> Iterable[object]:
        return [peer.receive(line)]

    return Pump(transport, receive, told, "the peer", recover=peer.recover, max_line=max_line)


async def said(transport: MemoryTransport, count: int) -> list[Any]:
    """So many messages that were written to us."""
    held = b""
    while held.count(b"\n") < count:
        held += await transport.read()
    return [json.loads(line) for line in held.splitlines()]


@looped
async def test_a_line_that_is_too_long_is_the_fault_of_the_other_side_by_its_name() -> None:
    ours, theirs = pair()
    peer = Peer()
    pumping = pump(ours, Told(), peer, max_line=100)
    async with asyncio.timeout(PATIENCE), pumping.running():
        with pumping.asking(peer.call("hello", {})) as answer:
            await theirs.write(b"x" * 101)
            with pytest.raises(RemoteProtocolError) as caught:
                await answer
    error = caught.value
    assert (error.message, error.exit_code) == ("the peer sent a line of more than 100 bytes", 5)
    assert error.fix == "if the peer is right, raise the cap: ACP_LAUNCH_MAX_LINE=<bytes>"


@looped
async def test_what_is_asked_after_the_end_fails_with_how_it_ended() -> None:
    ours, theirs = pair()
    peer = Peer()
    pumping = pump(ours, Told(), peer)
    async with asyncio.timeout(PATIENCE), pumping.running():
        await theirs.die("was killed by SIGKILL", ("oh no",))
        assert (await pumping.over()).message == "it was killed by SIGKILL before anything"
        with (
            pytest.raises(AgentError, match="it was killed by SIGKILL before hello") as caught,
            pumping.asking(peer.call("hello", {})),
        ):
            pytest.fail("it was asked")
    assert caught.value.detail == ("oh no",)


@looped
async def test_junk_is_kept_until_the_handshake_and_noted_after_it() -> None:
    ours, theirs = pair()
    told, peer = Told(), Peer()
    pumping = pump(ours, told, peer)
    async with asyncio.timeout(PATIENCE), pumping.running():
        await theirs.write(b"Welcome!\n\n")
        with pumping.asking(peer.call("hello", {})) as answer:
            await theirs.write(b'{"jsonrpc":"2.0","id":0,"result":{}}\n')
            await answer
        pumping.is_open = True
        await theirs.write(b"more\n" * 100)
        await theirs.die("ended")
        await pumping.over()
    assert pumping.noise == ["Welcome!"]
    assert told.notes == [
        f"the stdout of the peer holds a line that is not a JSON-RPC message; ignored ({count} so far)"
        for count in (1, 100)
    ]


@looped
async def test_a_message_of_a_batch_that_breaks_us_costs_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those before and after it are answered once, and the one that broke us with an error."""
    handle = McpClient.receive

    def breaking(client: McpClient, line: bytes) -> Any:
        if b'"bad"' in line:
            raise KeyError("a bug")
        return handle(client, line)

    monkeypatch.setattr(McpClient, "receive", breaking)
    ours, theirs = pair()
    told, client = Told(), McpClient([PurePosixPath("/w")])
    pumping = Pump(ours, client.receive, told, "the peer", recover=client.recover, max_line=1000, split=messages)
    batch = [{"jsonrpc": "2.0", "id": id, "method": "ping"} for id in ("first", "bad", "last")]
    async with asyncio.timeout(PATIENCE), pumping.running():
        await theirs.write(json.dumps(batch).encode() + b"\n")
        answers = await said(theirs, 3)
        await theirs.die("ended")
        await pumping.over()
    assert [(answer["id"], "error" in answer) for answer in answers] == [
        ("first", False),
        ("bad", True),
        ("last", False),
    ]
    assert [note.partition(" because")[0] for note in told.notes] == ["a message of the peer was skipped"]
