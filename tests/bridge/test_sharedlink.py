"""The connections of an agent to a shared server, without an agent; with one: tests/seat/test_share.py."""

import asyncio
import json
import socket
from typing import Any

import pytest
from msgspec.structs import replace

from acp_launch.bridge import multiplexer
from acp_launch.bridge.seat import ShimConnection
from acp_launch.bridge.servers import ServerNeeds, Servers, running
from acp_launch.plan.model import Value
from tests.bridge.talker import INITIALIZE, INITIALIZED, ask, line
from tests.bridge.test_servers import SERVER, Told, plan
from tests.looped import looped
from tests.patience import PATIENCE

SHARED = replace(plan("polite"), share="launch")


def needs() -> ServerNeeds:
    return ServerNeeds(secrets={}, directories=(), max_line=1 << 24, hurry=asyncio.Event())


class Client:
    """A session that reads only when it is told to."""

    def __init__(self, servers: Servers) -> None:
        ours, its = socket.socketpair()
        its.setblocking(False)
        servers.on_shim(ShimConnection("polite", its))
        self._socket = ours

    async def open(self) -> "Client":
        self._reader, self._writer = await asyncio.open_connection(sock=self._socket, limit=1 << 24)
        self.say(INITIALIZE, INITIALIZED)
        await self.read()
        return self

    def say(self, *messages: Any) -> None:
        self._writer.write(b"".join(line(message) + b"\n" for message in messages))

    async def read(self) -> Any:
        return json.loads(await self._reader.readline())

    async def call(self, tool: str, **arguments: object) -> Any:
        """The answer, whatever comes before it."""
        self.say(ask(1, "tools/call", name=tool, arguments=arguments))
        while "id" not in (message := await self.read()):
            pass
        return message["result"]["content"][0]["text"]

    async def ends(self) -> bytes:
        """What is left to read, once the connection has been closed."""
        return await self._reader.read()

    def close(self) -> None:
        self._writer.close()


@looped
async def test_a_session_that_does_not_read_makes_no_other_wait_and_is_closed() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(multiplexer, "MAX_HELD_BYTES", 1 << 20)
        told = Told()
        async with asyncio.timeout(PATIENCE), running([SHARED], needs(), told) as inner:
            deaf, other = await Client(inner.servers).open(), await Client(inner.servers).open()
            deaf._writer.transport.pause_reading()  # type: ignore[attr-defined]
            for _ in range(100):
                assert await other.call("log", level="error", text="x" * 100_000) == "logged"
            deaf._writer.transport.resume_reading()  # type: ignore[attr-defined]
            assert len(await deaf.ends()) < 100 * 100_000
            assert told.notes == ["a session of polite is closed: it does not read what the server sends"]
            assert await other.call("add", a=1, b=2) == "3"
            for each in (deaf, other):
                each.close()


@looped
async def test_answers_that_are_too_much_for_a_slow_session_are_refused_with_their_size_and_it_goes_on() -> None:
    """One is delivered whatever its size; those behind it only as far as there is room."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(multiplexer, "MAX_HELD_BYTES", 1 << 20)
        told = Told()
        program = Value((str(SERVER.with_name("bigmouth.py")),), SHARED.args[0].origin)
        big = replace(SHARED, args=(*SHARED.args[:-1], program))
        async with asyncio.timeout(PATIENCE), running([big], needs(), told) as inner:
            slow, other = await Client(inner.servers).open(), await Client(inner.servers).open()
            slow._writer.transport.pause_reading()  # type: ignore[attr-defined]
            talks = [{"name": "talk", "arguments": {"bytes": size}} for size in (3 << 20, 2 << 20, 10)]
            slow.say(*(ask(number, "tools/call", **talk) for number, talk in enumerate(talks)))
            assert await other.call("add", a=1, b=2) == "3"  # by now the three have been read
            assert await other.call("log", level="error", text="x" * 1000) == "logged"  # after their answers
            slow._writer.transport.resume_reading()  # type: ignore[attr-defined]
            first, second, third, said = [await slow.read() for _ in range(4)]
            assert first["result"]["content"] == [{"type": "text", "text": "m" * (3 << 20)}]
            whole = len(json.dumps(first)) - (1 << 20)
            assert [each["error"]["code"] for each in (second, third)] == [-32012] * 2
            assert second["error"]["message"].startswith(f"an answer of {whole:,} bytes was not passed on: ")
            assert said["params"]["data"] == "x" * 1000
            assert await slow.call("talk", bytes=3 << 20) == "m" * (3 << 20)
            assert told.notes == []
            for each in (slow, other):
                each.close()


@looped
async def test_a_session_that_is_alone_and_reads_late_gets_everything() -> None:
    told = Told()
    async with asyncio.timeout(PATIENCE), running([SHARED], needs(), told) as inner:
        alone = await Client(inner.servers).open()
        echo = {"name": "echo", "arguments": {"text": "x" * 100_000}}
        calls = [ask(number, "tools/call", **echo) for number in range(100)]
        alone.say(*calls)
        assert [(await alone.read())["id"] for _ in calls] == [*range(100)]
        assert told.notes == []
        alone.close()


@looped
async def test_answers_to_several_sessions_that_come_in_one_chunk_reach_each() -> None:
    async with asyncio.timeout(PATIENCE), running([SHARED], needs(), Told()) as inner:
        clients = [await Client(inner.servers).open() for _ in range(4)]
        for client in clients:
            assert await client.call("add", a=1, b=2) == "3"  # from now on most lines pass the quick way
        for number in range(50):
            for client in clients:
                client.say(ask(number, "tools/call", name="add", arguments={"a": number, "b": number}))
        for client in clients:
            assert [(await client.read())["id"] for _ in range(50)] == [*range(50)]
        for client in clients:
            client.close()


@looped
async def test_the_process_outlives_its_sessions_and_a_new_one_finds_it() -> None:
    async with asyncio.timeout(PATIENCE), running([SHARED], needs(), Told()) as inner:
        pids = []
        for _ in range(3):
            client = await Client(inner.servers).open()
            pids.append(await client.call("pid"))
            client.close()
            (standing,) = inner.servers.standings()
            assert standing.opened
        assert len(set(pids)) == 1
