"""Ring 2. The line to a front over a real socket pair: order, answers between events, a front that does not read."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from acp_launch.errors import SessionError
from acp_launch.served import connections
from acp_launch.served.connections import ClientConnection, FrontGone, SessionEvents, UnknownMethod
from acp_launch.served.wire import MISSED
from acp_launch.session import events
from tests.looped import looped
from tests.patience import PATIENCE

Json = dict[str, Any]


class Hall:
    """The host of a front line; `events` are of the session that it follows."""

    max_line = 1_000_000

    def __init__(self) -> None:
        self.clock = 0.0  # seconds
        self.events = SessionEvents(self.now, lambda: None)
        self.left = asyncio.Event()
        self.notes: list[str] = []

    def now(self) -> float:
        return self.clock

    async def serve(self, front: ClientConnection, method: str, params: dict[str, Any], raw: Raw) -> object:
        match method:
            case "good":
                return {"given": params}
            case "bad":
                raise SessionError("not here", fix="go there")
            case "broken":
                raise ZeroDivisionError
        raise UnknownMethod

    def on_notification(self, front: ClientConnection, method: str, params: Raw) -> None:
        self.notes.append(method)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def on_gone(self, front: ClientConnection) -> None:
        self.left.set()

    def happens(self, front: ClientConnection, *numbers: int) -> None:
        for number in numbers:
            self.events.add(b'{"n":%d}\n' % number, front if number == 2 else None)
            front.news()


class Other:
    """The front's own end."""

    def __init__(self, line: socket.socket) -> None:
        line.setblocking(False)
        self._line, self._raw = line, b""

    async def lines(self, count: int) -> list[Json]:
        async with asyncio.timeout(PATIENCE):
            while self._raw.count(b"\n") < count:
                self._raw += await asyncio.get_running_loop().sock_recv(self._line, 1 << 16)
        *whole, self._raw = self._raw.split(b"\n", count)
        return [json.loads(line) for line in whole]

    async def sends(self, message: Json) -> None:
        await asyncio.get_running_loop().sock_sendall(self._line, json.dumps(message).encode() + b"\n")


@asynccontextmanager
async def attached(small: bool = False) -> AsyncIterator[tuple[Hall, Other, ClientConnection, socket.socket]]:
    """The host, the front's own end, the line between them, and its socket; `small` is a socket that holds little."""
    ours, theirs = socket.socketpair()
    if small:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    hall = Hall()
    with theirs:
        front = ClientConnection(hall, ours)
        running = asyncio.create_task(front.run())
        yield hall, Other(theirs), front, theirs
        theirs.close()
        await asyncio.wait_for(running, PATIENCE)
    assert hall.left.is_set()


@looped
async def test_events_come_in_order_and_answers_after_those_before_them() -> None:
    async with attached() as (hall, other, front, _):
        front.follow(hall.events, 0)
        hall.happens(front, 1, 2, 3)
        front.say(b'{"said":1}\n')
        hall.happens(front, 4)
        front.say(b'{"said":2}\n')
        assert await other.lines(5) == [{"n": 1}, {"n": 3}, {"said": 1}, {"n": 4}, {"said": 2}], "2 is its own"
        front.hold(hall.events)
        hall.happens(front, 5)
        front.say(b'{"said":3}\n')
        assert await other.lines(1) == [{"said": 3}]
        front.resume(hall.events)
        assert await other.lines(1) == [{"n": 5}]


@looped
async def test_a_front_that_falls_out_of_the_window_is_told_so_and_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "MAX_EVENTS", 100)
    async with attached(small=True) as (hall, other, front, _):
        front.follow(hall.events, 0)
        for start in range(0, 30_000, 50):  # more than socket and window hold, while nothing is read
            hall.happens(front, *range(start, start + 50))
            await asyncio.sleep(0)
        front.say(b'{"said":"end"}\n')
        got: list[Json] = []
        while got[-1:] != [{"said": "end"}]:
            got += await other.lines(1)
        missed = [each for each in got if each.get("method") == "_acp-launch/event"]
        assert {each["params"]["text"] for each in missed} == {MISSED}
        numbers = [each["n"] for each in got if "n" in each]
        assert numbers == sorted(set(numbers)), "nothing twice, and in order"
        hall.happens(front, 30_000)
        assert await other.lines(1) == [{"n": 30_000}]


@looped
async def test_the_answer_of_the_latest_turn_outlives_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """A front that comes later gets what is kept of it, then what the window has; the next turn begins anew."""
    monkeypatch.setattr(connections, "MAX_EVENTS", 10)
    monkeypatch.setattr(connections, "KEPT_BYTES", 400)
    async with attached() as (hall, other, front, _):
        for answer in (range(100, 102), range(200, 230), range(300, 360)):
            hall.events.begin_turn(front)
            for number in answer:
                hall.events.add_answer(b'{"n":%d}\n' % number)
        hall.happens(front, 400)
        front.follow(hall.events, hall.events.began)
        front.news()
        missed, *got = await other.lines(1 + 40 + 1)
        assert missed["params"]["text"] == MISSED
        assert [each["n"] for each in got] == [*range(320, 360), 400], "400 bytes of the end"


@looped
async def test_an_answer_outlives_the_hour_for_which_events_are_kept() -> None:
    """A front that comes after it gets the answer and nothing else; one that comes within it gets all."""
    async with attached() as (hall, other, front, _):
        hall.events.begin_turn(front)
        hall.happens(front, 100)
        hall.events.add_answer(b'{"n":101}\n')
        for later, seen in ((connections.KEPT_FOR - 1, [100, 101]), (connections.KEPT_FOR + 1, [MISSED, 101])):
            hall.clock = later
            front.unfollow(hall.events)
            front.follow(hall.events, hall.events.began)
            front.news()
            got = await other.lines(2)
            assert [each.get("n") or each["params"]["text"] for each in got] == seen


@looped
async def test_requests_of_a_front_are_answered_whatever_they_are() -> None:
    async with attached() as (hall, other, front, theirs):
        for number, method in enumerate(("good", "bad", "broken", "other")):
            await other.sends({"jsonrpc": "2.0", "id": number, "method": method, "params": {"x": 1}})
        answers = {each["id"]: each for each in await other.lines(4)}
        assert answers[0]["result"] == {"given": {"x": 1}}
        kind, event = answers[1]["error"]["data"]["acp-launch"]
        error = events.restore_error(kind, msgspec.convert(event, events.ErrorEvent))
        assert (type(error), error.message, error.fix, error.exit_code) == (SessionError, "not here", "go there", 3)
        assert (answers[2]["error"]["code"], answers[3]["error"]["code"]) == (-32603, -32601)
        await other.sends({"jsonrpc": "2.0", "method": "session/cancel"})
        asking = asyncio.create_task(front.request("ask", {"q": 1}))
        (asked,) = await other.lines(1)
        assert hall.notes[-1] == "session/cancel"
        await other.sends({"jsonrpc": "2.0", "id": asked["id"], "result": 7})
        assert bytes(await asyncio.wait_for(asking, PATIENCE)) == b"7"
        asking = asyncio.create_task(front.request("ask", {"q": 2}))
        await other.lines(1)
        theirs.close()
        with pytest.raises(FrontGone):
            await asyncio.wait_for(asking, PATIENCE)
        assert not front.options.can_ask
