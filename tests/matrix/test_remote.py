"""Remote servers that die, and connections that break: each request gets exactly one answer (docs/mcp.md)."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.realservers.recorder import Json, Recorder
from tests.realservers.seated import Seated, Server, seated
from tests.remote.children import Child, cutter, tempered

pytestmark = pytest.mark.timeout(120)
MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
KINDS: dict[str, Json] = {
    "json": {"answers": "json"},
    "events": {"answers": "sse", "ids": False},
    "events that are kept": {"answers": "sse", "retry": 10},
    "no session": {"answers": "json", "sessions": False},
    "older": {"era": "sse"},
    "modern": {"era": "modern"},
}


def remote(url: str, cwd: Path, **keys: object) -> Server:
    type = "sse" if url.endswith("/sse") else "http"
    return Server([], cwd, {}, {"url": url, "type": type, **keys})


def address(proxy: Child, url: str) -> str:
    """The same behind the proxy."""
    return f"http://127.0.0.1:{proxy.port}/{url.rpartition('/')[2]}"


def opened(seats: Seated, kind: str) -> Recorder:
    recorder = seats.open()
    if kind != "modern":
        recorder.initialize()
    return recorder


def begin(recorder: Recorder, kind: str, tool: str, **arguments: object) -> int:
    meta = {"_meta": MODERN} if kind == "modern" else {}
    return recorder.start("tools/call", {"name": tool, "arguments": arguments, **meta})


def done(recorder: Recorder, kind: str, tool: str, **arguments: object) -> Json:
    return recorder.answer(begin(recorder, kind, tool, **arguments))


def is_added(answer: Json, total: int) -> bool:
    return "result" in answer and answer["result"]["content"][0]["text"] == str(total)


def assert_works_again(recorder: Recorder, kind: str) -> None:
    """The answers of the older transport come on a stream of their own: a call more may be lost with that."""
    assert any(is_added(done(recorder, kind, "add", a=3, b=4), 7) for _ in range(3 if kind == "older" else 1))


def assert_all_answered_once(recorder: Recorder) -> None:
    answers = Counter(json.dumps(each["id"]) for line in recorder.lines if "method" not in (each := json.loads(line)))
    assert {id: count for id, count in answers.items() if count != 1} == {}


@pytest.mark.sample(0, 3)
@pytest.mark.parametrize("kind", KINDS)
def test_a_call_to_a_server_that_is_killed_is_answered_once_and_the_next_one_works_when_it_is_back(
    kind: str, tmp_path: Path
) -> None:
    with (
        tempered(**KINDS[kind]) as server,
        seated(server=remote(server.url, tmp_path)) as seats,
        opened(seats, kind) as recorder,
    ):
        assert is_added(done(recorder, kind, "add", a=1, b=2), 3)
        waiting = [begin(recorder, kind, "wait") for _ in range(3)]
        for _ in waiting:
            server.event("waiting")
        server.kill()
        server.again()
        for id in waiting:
            said = recorder.answer(id)["error"]["message"]
            assert 'MCP server "server"' in said and "tools/call" in said
        assert is_added(done(recorder, kind, "add", a=3, b=4), 7)
        assert_all_answered_once(recorder)


@pytest.mark.parametrize("kind", ["json", "modern"])
def test_a_call_that_never_reached_a_dead_server_says_so_to_an_agent_that_has_fallen_back(
    kind: str, tmp_path: Path
) -> None:
    with (
        tempered(**KINDS[kind]) as server,
        seated(server=remote(server.url, tmp_path, start=1.0)) as seats,
        seats.open() as recorder,
    ):
        found = recorder.request("server/discover", {"_meta": MODERN})
        assert found["error"]["code"] == -32600 if kind == "json" else "result" in found
        recorder.initialize()
        assert is_added(done(recorder, "json", "add", a=1, b=2), 3)
        server.kill()
        if kind != "modern":  # nothing is open to it, so that only a call, or a long silence, shows its end
            seats.state("resting")
        said = done(recorder, "json", "add", a=5, b=6)["error"]["message"]
        assert said == 'MCP server "server" could not be reached: connection refused, and did not come back within 1 s'
        assert_all_answered_once(recorder)


@pytest.mark.sample(0, 1)
@pytest.mark.parametrize("kind", ["json", "events that are kept", "modern"])
def test_of_many_calls_with_a_cut_after_every_fiftieth_each_is_answered_once(kind: str, tmp_path: Path) -> None:
    with tempered(**KINDS[kind]) as server, cutter(server.port) as proxy:
        url = address(proxy, server.url)
        with seated(server=remote(url, tmp_path)) as seats, opened(seats, kind) as recorder:
            waiting: list[tuple[int, int]] = []
            lost = 0
            for number in range(200):
                waiting.append((begin(recorder, kind, "add", a=number, b=1), number + 1))
                if number % 50 == 49:
                    proxy.do("cut")
                while len(waiting) > 8:
                    lost += not is_kept(recorder, *waiting.pop(0))
            lost += sum(not is_kept(recorder, *each) for each in waiting)
            assert lost < 60, "a cut costs what was in flight, and not much more"
            assert is_added(done(recorder, kind, "add", a=3, b=4), 7)
            assert_all_answered_once(recorder)


def is_kept(recorder: Recorder, id: int, total: int) -> bool:
    """Whether this call has its right answer; otherwise it has an error that names the server."""
    said = recorder.answer(id)
    assert is_added(said, total) or 'MCP server "server"' in said["error"]["message"], said
    return "result" in said


@pytest.mark.sample(0, 1)
@pytest.mark.parametrize("kind", KINDS)
def test_a_connection_that_is_only_half_open_costs_a_call_its_time_limit_and_no_more(kind: str, tmp_path: Path) -> None:
    with tempered(**KINDS[kind]) as server, cutter(server.port) as proxy:
        url = address(proxy, server.url)
        limited = remote(url, tmp_path, call=1.0)
        with seated(server=limited) as seats, opened(seats, kind) as recorder:
            assert is_added(done(recorder, kind, "add", a=1, b=2), 3)
            proxy.do("hold")
            said = done(recorder, kind, "add", a=5, b=6)["error"]["message"]
            assert 'MCP server "server"' in said
            proxy.do("cut")
            proxy.do("flow")
            assert_works_again(recorder, kind)
            assert_all_answered_once(recorder)
