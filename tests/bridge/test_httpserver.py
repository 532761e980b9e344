"""Ring 2. Our HTTP server at work, over real connections, with clients that err or attack."""

import asyncio
import contextlib
import json
import resource
from unittest.mock import Mock

import pytest

from acp_launch.bridge.http.server import SESSIONS, STRANGERS, HttpConnection, HttpLimits
from acp_launch.mcp.message import LEGACY_VERSIONS
from tests.bridge.fronted import INITIALIZE, KEY, Behind, Json, Wire, echoing, fronted, silent
from tests.looped import looped

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a"}}
HASTY = HttpLimits()
HASTY.head = HASTY.body = 0.2


@looped
async def test_a_session_begins_goes_on_and_ends() -> None:
    """M-29, M-37: the id comes with the answer to `initialize`; afterwards it is needed, and DELETE ends it."""
    async with fronted() as found:
        wire = await found.connect()
        opened = await wire.post(INITIALIZE)
        session = opened.headers["mcp-session-id"]
        assert (opened.status, opened.messages[0]["result"]) == (200, {"protocolVersion": "2025-11-25"})
        assert len(session) == 32
        accepted = await wire.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, mcp_session_id=session)
        assert (accepted.status, accepted.body) == (202, b"")
        answer = await wire.post(CALL, mcp_session_id=session, mcp_protocol_version="2025-11-25")
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.messages == [{"jsonrpc": "2.0", "id": 1, "result": {"echo": {"name": "a"}}}]
        missing = await wire.post(CALL)
        assert (missing.status, missing.json["error"]["code"]) == (400, -32600)
        unknown = await wire.post(CALL, mcp_session_id="1234")
        assert (unknown.status, unknown.json["error"]["code"]) == (404, -32600)
        wire.send(wire.request("DELETE", mcp_session_id=session))
        assert (await wire.answer()).status == 200
        gone = await wire.post(CALL, mcp_session_id=session)
        assert (gone.status, gone.json["error"]["code"]) == (404, -32600)
        await (await found.server()).is_left.wait()


@looped
async def test_a_server_that_is_added_later_has_an_address_and_a_token_of_its_own() -> None:
    async with fronted() as found:
        http, wire = found.http, await found.connect()
        before = http.address("server"), http.token("server")
        http.add(["server", "late"])
        assert (http.address("server"), http.token("server")) == before
        path, token = http.address("late").removeprefix(f"http://127.0.0.1:{http.port}"), http.token("late")
        wrong = await wire.post(INITIALIZE, path=path)
        assert (wrong.status, token == KEY.token) == (401, False)
        right = await (await found.connect()).post(INITIALIZE, path=path, authorization=f"Bearer {token}")
        assert right.status == 200


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"authorization": None}, 401),
        ({"authorization": "Bearer another"}, 401),
        ({"authorization": f"Bearer {KEY.token}x"}, 401),
        ({"authorization": f"Basic {KEY.token}"}, 401),
        ({"path": "/"}, 404),
        ({"path": f"{KEY.path}/x"}, 404),
        ({"path": f"http://127.0.0.1{KEY.path}"}, 404),
        ({"path": f"/{KEY.token}"}, 404),
        ({"host": "evil.example.com"}, 421),
        ({"host": "127.0.0.1:1"}, 421),
        ({"host": "127.0.0.1.evil.example.com"}, 421),
        ({"origin": "http://evil.example.com"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://localhost:1"}, 403),
        ({"content_type": "text/plain"}, 400),
        ({"content_type": None}, 400),
    ],
)
@looped
async def test_a_request_that_is_not_the_agents_is_refused(change: dict[str, str | None], status: int) -> None:
    """M-37. The server behind hears nothing of it, and the user is told once."""
    async with fronted() as found:
        wire = await found.connect()
        refused = await wire.post(INITIALIZE, **change)
        assert refused.status == status
        assert KEY.token not in refused.body.decode() + str(found.notes)
        assert not found.http.sessions
        assert len(found.notes) == 1


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LocalHost"])
@looped
async def test_both_names_of_this_machine_are_accepted_also_as_an_origin(name: str) -> None:
    """M-37."""
    async with fronted() as found:
        here = f"{name}:{found.http.port}"
        wire = await found.connect()
        assert (await wire.post(INITIALIZE, host=here, origin=f"http://{here}")).status == 200


@pytest.mark.parametrize(
    "head",
    [
        b"POST /a-path HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST /a-path HTTP/1.1\r\nHost : a\r\n\r\n",
        b"POST /a-path HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: " + b"x" * 100_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000 + b"\r\n",
        b"\r\n" * 50_000,
    ],
)
@looped
async def test_what_is_not_http_ends_its_own_connection_alone(head: bytes) -> None:
    """M-44."""
    async with fronted() as found:
        good = await found.connect()
        assert (await good.post(INITIALIZE)).status == 200
        wire = await found.connect()
        wire.send(head)
        wire.writer.write_eof()
        said = await wire.ended()
        assert not said or int(said.split()[1]) in (400, 421, 431, 501, 505), said
        assert (await good.post(INITIALIZE)).status == 200
        assert not any("bug" in note for note in found.notes)


@pytest.mark.parametrize(
    "lengths",
    [
        {"transfer_encoding": "chunked"},  # beside content-length
        {"transfer_encoding": "gzip, chunked", "content_length": None},
        {"transfer_encoding": "xchunked", "content_length": None},
        {"content_length": "5, 6"},
        {"content_length": "-1"},
        {"content_length": "+5"},
        {"content_length": "0x10"},
    ],
)
@looped
async def test_a_request_with_two_lengths_is_refused_and_nothing_after_it_is_read(
    lengths: dict[str, str | None],
) -> None:
    """Request smuggling: the second request hides in what may or may not be the body of the first."""
    async with fronted() as found:
        session = await found.session()
        server = await found.server()
        wire = await found.connect()
        hidden = wire.request("POST", json.dumps(CALL).encode(), mcp_session_id=session)
        wire.send(wire.request("POST", b"0\r\n\r\n" + hidden, mcp_session_id=session, **lengths))
        said = await wire.ended()
        assert said.count(b"HTTP/1.1") == 1
        assert int(said.split()[1]) in (400, 501)
        assert server.heard.empty()


@looped
async def test_requests_that_do_not_wait_are_answered_in_their_order() -> None:
    """HTTP pipelining."""
    async with fronted() as found:
        session = await found.session()
        wire = await found.connect()
        sent = [{**CALL, "id": number} for number in range(20)]
        wire.send(b"".join(wire.request("POST", json.dumps(each).encode(), mcp_session_id=session) for each in sent))
        answers = [await wire.answer() for _ in sent]
        assert [answer.messages[0]["id"] for answer in answers] == list(range(20))


@looped
async def test_a_client_that_sends_on_and_on_without_an_answer_is_cut_off() -> None:
    async with fronted(silent) as found:
        session = await found.session()
        wire = await found.connect()
        wire.begin(CALL, mcp_session_id=session)
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                wire.begin({**CALL, "params": {"x": "y" * 10_000}}, mcp_session_id=session)
                await wire.writer.drain()
        await wire.ended()
        assert not found.http._connections


@looped
async def test_a_client_that_is_too_slow_with_its_request_is_cut_off() -> None:
    """Slowloris, in the head and in the body."""
    async with fronted(limits=HASTY) as found:
        silent_one, in_head, in_body = [await found.connect() for _ in range(3)]
        in_head.send(b"POST /a-path HTTP/1.1\r\nHost: 1")
        in_body.send(in_body.request("POST", b"{", content_length="100"))
        assert await silent_one.ended() == b""
        assert await in_head.ended() == b""
        assert int((await in_body.ended()).split()[1]) == 408


@pytest.mark.parametrize("is_told", [True, False])
@looped
async def test_a_body_is_no_longer_than_a_line_may_be(is_told: bool) -> None:
    async with fronted(max_line=1000) as found:
        wire = await found.connect()
        body = b"x" * 1001
        chunked = b"3e9\r\n" + body + b"\r\n0\r\n\r\n"
        if is_told:
            wire.send(wire.request("POST", body))
        else:
            wire.send(wire.request("POST", chunked, content_length=None, transfer_encoding="chunked"))
        assert (await wire.answer()).status == 413


@looped
async def test_a_message_of_ten_megabytes_passes_both_ways() -> None:
    """M-4."""
    async with fronted() as found:
        session = await found.session()
        text = "\u2028ä\\n" * 700_000
        wire = await found.connect()
        answer = await wire.post({**CALL, "params": {"text": text}}, mcp_session_id=session)
        assert answer.messages[0]["result"]["echo"]["text"] == text


@looped
async def test_a_thousand_connections_leave_room_for_the_agent() -> None:
    """Those without a token are few; the oldest makes room."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    async with fronted() as found:
        agent = await found.connect()
        assert (await agent.post(INITIALIZE)).status == 200
        crowd = [await found.connect() for _ in range(1000)]
        late = await found.connect()
        assert (await late.post(INITIALIZE)).status == 200
        assert (await agent.post(INITIALIZE)).status == 200
        assert len(found.http._connections) <= STRANGERS + 2
        assert len([note for note in found.notes if "too many" in note]) == 1
        for wire in crowd:
            wire.close()


@looped
async def test_connections_that_come_all_at_once_are_no_more_than_those_that_come_one_by_one() -> None:
    """The event loop takes a whole backlog before it tells a connection of its end."""
    async with fronted() as found:
        made = [HttpConnection(found.http) for _ in range(3 * STRANGERS)]
        transports = [Mock(spec=asyncio.Transport) for _ in made]
        for connection, transport in zip(made, transports, strict=True):
            connection.connection_made(transport)
        closed = [transport.abort.called for transport in transports]
        assert closed == [True] * (2 * STRANGERS) + [False] * STRANGERS
        for connection in made:
            connection.connection_lost(None)


@looped
async def test_sessions_are_few_and_the_one_that_rests_longest_makes_room() -> None:
    """M-45."""
    async with fronted() as found:
        ids = [await found.session() for _ in range(SESSIONS + 1)]
        wire = await found.connect()
        assert (await wire.post(CALL, mcp_session_id=ids[0])).status == 404
        assert (await wire.post(CALL, mcp_session_id=ids[-1])).status == 200
        await (await found.server()).is_left.wait()


@looped
async def test_a_session_ends_some_time_after_its_client_has_left() -> None:
    """M-45: it had a stream open, and has closed it. Another client may be silent for as long as it likes."""
    limits = HttpLimits()
    limits.beat, limits.left = 0.02, 0.0
    async with fronted(limits=limits) as found:
        silent, left = await found.session(), await found.session()
        listening = await found.connect()
        listening.send(listening.request("GET", mcp_session_id=left))
        assert (await listening.head())[0] == 200
        wire = await found.connect()
        assert (await wire.post(CALL, mcp_session_id=left)).status == 200
        listening.close()
        await found.server()
        await (await found.server()).is_left.wait()
        assert (await wire.post(CALL, mcp_session_id=left)).status == 404
        assert (await wire.post(CALL, mcp_session_id=silent)).status == 200


@looped
async def test_an_open_stream_shows_that_it_is_alive() -> None:
    limits = HttpLimits()
    limits.beat = 0.02
    async with fronted(silent, limits=limits) as found:
        session = await found.session()
        wire = await found.connect()
        wire.begin(CALL, mcp_session_id=session)
        assert (await wire.head())[1]["content-type"] == "text/event-stream"
        assert await anext(wire.chunks()) == b": keep-alive\n\n"


@looped
async def test_a_client_that_does_not_read_is_waited_for_and_then_cut_off() -> None:
    """Another session is served meanwhile (M-44)."""
    limits = HttpLimits()
    limits.beat, limits.stall = 0.05, 0.2

    def talkative(server: Behind, message: Json) -> None:
        if message.get("params") == {"name": "a"}:
            for _ in range(200):
                server.say(method="notifications/message", params={"data": "x" * 100_000})
        else:
            echoing(server, message)

    async with fronted(talkative, limits=limits) as found:
        slow, other = await found.session(), await found.session()
        stuck = await found.connect()
        stuck.writer.transport.pause_reading()  # type: ignore[attr-defined]
        stuck.begin(CALL, mcp_session_id=slow)
        server = await found.server()
        await server.hears()
        wire = await found.connect()
        assert (await wire.post({**CALL, "params": {}}, mcp_session_id=other)).status == 200
        await server.drained()


@looped
async def test_a_server_that_has_gone_ends_its_session_and_answers_what_is_open() -> None:
    """M-21: exactly one answer. The client then gets 404 and begins anew."""
    async with fronted(silent) as found:
        session = await found.session()
        server = await found.server()
        wire = await found.connect()
        wire.begin(CALL, mcp_session_id=session)
        await server.hears()
        server.leave()
        answer = await wire.answer()
        assert [(each["id"], each["error"]["code"]) for each in answer.messages] == [(1, -32010)]
        assert (await wire.post(CALL, mcp_session_id=session)).status == 404


@looped
async def test_closing_a_stream_is_not_a_cancel() -> None:
    """Its answer is dropped."""
    async with fronted(silent) as found:
        session = await found.session()
        server = await found.server()
        wire = await found.connect()
        wire.begin({**CALL, "params": {"_meta": {"progressToken": 9}}}, mcp_session_id=session)
        await server.hears()
        server.say(method="notifications/progress", params={"progressToken": 9, "progress": 1})
        assert (await wire.head())[0] == 200
        await wire.event()
        wire.close()
        server.say(id=1, result={"late": True})
        again = await found.connect()
        again.begin({**CALL, "id": 2}, mcp_session_id=session)
        assert (await server.hears())["id"] == 2
        server.say(id=2, result={})
        assert [message["id"] for message in (await again.answer()).messages] == [2]


@looped
async def test_the_era_without_sessions_is_refused_at_once_and_a_session_can_follow() -> None:
    """M-37. Without a session GET and DELETE are not allowed."""
    async with fronted() as found:
        wire = await found.connect()
        wire.modern(5, "server/discover")
        refused = await wire.answer()
        assert (refused.status, refused.json["id"], refused.json["error"]["code"]) == (400, 5, -32601)
        wire.modern(6, "tools/list")
        refused = await wire.answer()
        assert (refused.status, refused.json["error"]["code"]) == (400, -32022)
        assert refused.json["error"]["data"]["supported"] == list(LEGACY_VERSIONS)
        session = await found.session()
        assert (await wire.post({**CALL, "id": 5}, mcp_session_id=session)).messages[0]["id"] == 5
        for method in ("GET", "DELETE", "PUT", "OPTIONS"):
            other = await found.connect()
            other.send(other.request(method))
            assert (await other.answer()).status == 405


@looped
async def test_one_servers_requests_wait_until_it_reads_again() -> None:
    """Nothing is held without bound for a server that does not read."""

    async with fronted(silent) as found:
        session = await found.session()
        server = await found.server()
        server._reader._transport.pause_reading()  # type: ignore[attr-defined]
        big = {"jsonrpc": "2.0", "method": "notifications/x", "params": {"x": "y" * 1_000_000}}
        wires = [await found.connect() for _ in range(6)]
        for wire in wires:
            wire.begin(big, mcp_session_id=session)
        done, waiting = await asyncio.wait([asyncio.create_task(wire.answer()) for wire in wires], timeout=0.5)
        assert waiting, "all were accepted"
        server._reader._transport.resume_reading()  # type: ignore[attr-defined]
        await asyncio.wait(waiting)
        assert {task.result().status for task in (*done, *waiting)} == {202}
        assert [len((await server.hears())["params"]["x"]) for _ in wires] == [1_000_000] * 6


@looped
async def test_closing_it_closes_every_connection() -> None:
    async with fronted(silent) as found:
        session = await found.session()
        wire: Wire = await found.connect()
        wire.send(wire.request("GET", mcp_session_id=session))
        await wire.head()
    assert wire.reader.at_eof() or await wire.ended() is not None
