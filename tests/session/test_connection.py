"""Ring 2. The pump: order, death, back-pressure, junk; and that nothing hangs."""

import asyncio
import json
import re
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.errors import (
    AgentError,
    AgentRefused,
    AuthRequired,
    LocalProtocolError,
    RemoteProtocolError,
    WaitExpired,
)
from acp_launch.protocol import acp
from acp_launch.protocol.conversation import Updated
from acp_launch.session import connection as module
from acp_launch.session.client import AcpSession
from acp_launch.session.connection import ACP_MODE, negotiate
from acp_launch.session.events import ToolQuestion
from acp_launch.session.opening import SessionParams, end_session, list_sessions, open_session
from acp_launch.session.permission.gate import Gate
from acp_launch.session.permission.policy import Policy
from tests import rawjson
from tests.bridge.test_shim import REFUSED
from tests.looped import looped
from tests.session.recording import Agent, Recorder, connected, negotiated, question, update
from tests.turnedclock import turned


@looped
async def test_nothing_is_sent_before_initialize_is_answered() -> None:
    """C-15."""
    async with connected() as (connection, agent, recorder):
        handshake = asyncio.create_task(negotiate(connection, limit=5))
        request = await agent.hears("initialize")
        assert recorder.told == []
        await agent.answers(request, {"protocolVersion": 1})
        assert (await handshake).version == 1
        assert [kind for kind, _ in recorder.told] == ["negotiated"]


@turned
async def test_an_answer_is_delivered_after_the_updates_before_it() -> None:
    """C-10: all of them in one chunk, which is when it goes wrong elsewhere."""
    async with negotiated() as (connection, agent, recorder, _):
        opening = asyncio.create_task(open_new(connection))
        request = await agent.hears("session/new")
        numbers = list(range(100))
        await agent.says(
            {"id": request["id"], "result": {"sessionId": "s1"}}, *(update("s1", number) for number in numbers)
        )
        await opening
        prompt = asyncio.create_task(
            connection.call(connection.conversation.prompt("s1", []), what="the end", limit=60)
        )
        request = await agent.hears("session/prompt")
        more = list(range(100, 200))
        await agent.says(
            *(update("s1", number) for number in more), {"id": request["id"], "result": {"stopReason": "end_turn"}}
        )
        await prompt
        assert recorder.of("update") == [*numbers, *more]


async def open_new(connection: module.Connection) -> None:
    call = connection.conversation.open("new", "", cwd="/w", servers=[], directories=[])
    await connection.call(call, what="a session", limit=5)


@looped
async def test_the_death_of_the_agent_fails_every_open_request_at_once_with_its_last_words() -> None:
    """C-12; what runs in place of its servers writes to its stderr, too."""
    async with negotiated() as (connection, agent, _, _):
        calls = [asyncio.create_task(open_new(connection)) for _ in range(3)]
        for _ in calls:
            await agent.hears("session/new")
        await agent.dies("was killed by SIGKILL", "out of memory", REFUSED.decode().rstrip(), "good bye")
        for call in calls:
            with pytest.raises(AgentError) as caught:
                await call
            assert caught.value.message == "the agent was killed by SIGKILL before it answered session/new"
            assert caught.value.detail == ("out of memory", "good bye")
        with pytest.raises(AgentError, match="was killed by SIGKILL"):
            await open_new(connection)


@looped
async def test_a_program_that_is_no_agent_is_quoted() -> None:
    async with connected() as (connection, agent, _):
        handshake = asyncio.create_task(negotiate(connection, limit=5))
        await agent.hears("initialize")
        await agent.writes(b"Usage: tool [OPTIONS]\n\nOptions:\n")
        await agent.dies("exited with status 2", "no such option")
        with pytest.raises(AgentError) as caught:
            await handshake
        assert caught.value.message == "the agent exited with status 2 before it answered initialize"
        assert caught.value.detail == ("it printed: Usage: tool [OPTIONS]", "it printed: Options:", "no such option")
        assert caught.value.fix == ACP_MODE


@looped
async def test_an_agent_that_says_nothing_expires_by_name() -> None:
    async with connected() as (connection, agent, _):
        with pytest.raises(WaitExpired, match=r"^no answer to initialize from the agent within 0\.05 s$") as caught:
            await negotiate(connection, limit=0.05)
        assert caught.value.fix == f"{ACP_MODE}; if it needs longer: agent.timeouts.initialize in the profile"
        await agent.hears("initialize")


@looped
async def test_a_wait_that_expires_names_the_key_that_makes_it_longer_where_there_is_one() -> None:
    async with negotiated() as (connection, _, _, client):
        new = connection.conversation.open("new", "", cwd="/w", servers=[], directories=[])
        with pytest.raises(WaitExpired) as caught:
            await connection.call(new, what="a session", limit=0.01)
        assert caught.value.fix == ""
        with pytest.raises(WaitExpired) as caught:
            params = SessionParams(Path("/w"), (), [])
            await open_session(connection, client, params, how="new", session_id="", limit=0.01)
        assert caught.value.message == "no answer about a new session from the agent within 0.01 s"
        assert caught.value.fix == "if it needs longer: agent.timeouts.session in the profile"
        with pytest.raises(WaitExpired) as caught:
            await anext(list_sessions(connection, cwd=None, limit=0.01))
        assert caught.value.fix == "if it needs longer: agent.timeouts.session in the profile"
        with pytest.raises(WaitExpired) as caught:
            await end_session(connection, "close", "s1", limit=0.01)
        assert caught.value.fix == "if it needs longer: agent.timeouts.session in the profile"


@looped
async def test_a_late_answer_to_a_request_given_up_is_tolerated() -> None:
    """C-66."""
    async with negotiated() as (connection, agent, recorder, _):
        call = connection.conversation.open("new", "", cwd="/w", servers=[], directories=[])
        with pytest.raises(WaitExpired):
            await connection.call(call, what="a session", limit=0.01)
        request = await agent.hears("session/new")
        await agent.answers(request, {"sessionId": "late"})
        second = asyncio.create_task(open_new(connection))
        await agent.answers(await agent.hears("session/new"), {"sessionId": "s1"})
        await second
        assert recorder.of("note") == []


@looped
async def test_auth_required_names_the_methods() -> None:
    """C-30."""
    async with connected() as (connection, agent, _):
        handshake = asyncio.create_task(negotiate(connection, limit=5))
        methods = [
            {"id": "oauth", "name": "Sign in", "description": "opens\na\u2028 browser"},  # and begins no line
            {"id": "key", "name": "API key"},
        ]
        await agent.answers(await agent.hears(), {"protocolVersion": 1, "authMethods": methods})
        await handshake
        opening = asyncio.create_task(open_new(connection))
        await agent.refuses(await agent.hears(), -32000, "Authentication required")
        with pytest.raises(AuthRequired) as caught:
            await opening
        assert caught.value.exit_code == 6
        assert caught.value.message == "the agent wants a login first: Authentication required"
        assert caught.value.detail == ("it offers: Sign in (oauth): opens a browser", "it offers: API key (key)")


@looped
async def test_an_error_answer_carries_code_message_and_data() -> None:
    async with negotiated() as (connection, agent, _, _):
        opening = asyncio.create_task(open_new(connection))
        await agent.refuses(await agent.hears(), -32603, "Internal error", data={"details": "bad path"})
        with pytest.raises(AgentRefused) as caught:
            await opening
        assert caught.value.message == "the agent answered session/new with an error: Internal error (-32603)"
        assert caught.value.detail == ('data: {"details":"bad path"}',)
        assert caught.value.code == -32603


@looped
async def test_a_banner_before_the_handshake_is_no_news_and_does_not_count() -> None:
    """C-3: many agents print one; it is quoted only when the handshake fails."""
    async with connected() as (connection, agent, recorder):
        handshake = asyncio.create_task(negotiate(connection, limit=5))
        request = await agent.hears("initialize")
        await agent.writes(b"Welcome!\nloading\n")
        await agent.answers(request, {"protocolVersion": 1})
        await handshake
        assert recorder.of("note") == []
        opening = asyncio.create_task(open_new(connection))
        request = await agent.hears("session/new")
        await agent.writes(b"late banner\n")
        await agent.answers(request, {"sessionId": "s1"})
        await opening
        assert recorder.of("note") == [
            "the stdout of the agent holds a line that is not a JSON-RPC message; ignored (1 so far)"
        ]


@looped
async def test_a_program_that_prints_and_then_waits_is_no_agent_and_is_quoted() -> None:
    async with connected() as (connection, agent, recorder):
        handshake = asyncio.create_task(negotiate(connection, limit=0.5))
        await agent.hears("initialize")
        await agent.writes(b"login: \n")
        with pytest.raises(AgentError) as caught:
            await handshake
        assert caught.value.message == (
            "this is not an ACP agent: it printed text, and no answer to initialize from the agent within 0.5 s"
        )
        assert (caught.value.fix, caught.value.detail) == (ACP_MODE, ("it printed: login:",))
        assert recorder.of("note") == []


@looped
async def test_a_line_over_the_cap_is_an_error_for_the_waiting_call() -> None:
    """C-5."""
    async with connected(max_line=5000) as (connection, agent, _):
        handshake = asyncio.create_task(negotiate(connection, limit=5))
        await agent.hears()
        await agent.writes(b"x" * 5001)
        with pytest.raises(RemoteProtocolError, match="a line of more than 5,000 bytes"):
            await handshake


@looped
async def test_the_agent_is_not_read_while_the_observer_has_no_room() -> None:
    """Back-pressure: what is not read stays in the pipe, and the agent's writes wait."""
    recorder = Recorder()
    async with connected(recorder) as (connection, agent, _):
        handshake = asyncio.create_task(negotiate(connection, limit=5))
        await agent.answers(await agent.hears(), {"protocolVersion": 1})
        await handshake
        recorder.room.clear()
        await agent.writes(b"x\n")  # read, then the pump waits for room
        flood = asyncio.create_task(agent.writes(b"y" * 200_000 + b"\n"))
        done, _ = await asyncio.wait({flood}, timeout=0.05)
        assert not done
        recorder.room.set()
        await flood


async def asks_without_end(agent: Agent) -> None:
    number = 0
    while True:
        number += 1
        await agent.says({"id": f"{number:01000}", "method": "_x/y", "params": {}})


@looped
async def test_an_agent_that_asks_and_never_reads_the_answers_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounded memory: its requests would pile up our answers for ever."""
    monkeypatch.setattr("acp_launch.rpc.MAX_REPLIES", 100_000)
    async with negotiated() as (connection, agent, _, _):
        opening = asyncio.create_task(open_new(connection))
        await agent.hears()
        flood = asyncio.create_task(asks_without_end(agent))
        with pytest.raises(RemoteProtocolError, match="sends requests and does not read the answers"):
            await opening
        flood.cancel()


@looped
async def test_the_oracle_sees_what_it_should() -> None:
    """The test peer itself: a malformed client line does not pass."""
    async with negotiated() as (connection, agent, _, _):
        connection.send(json.dumps({"jsonrpc": "2.0", "id": 9, "method": "session/new", "params": {}}).encode() + b"\n")
        with pytest.raises(AssertionError):
            await agent.hears()


@looped
async def test_permission_questions_are_answered_while_a_call_is_open() -> None:
    """C-11, C-60."""
    async with negotiated(default="allow") as (connection, agent, _, _):
        opening = asyncio.create_task(open_new(connection))
        request = await agent.hears("session/new")
        await agent.says(question("q"))
        assert (await agent.hears())["result"] == {"outcome": {"outcome": "selected", "optionId": "yes"}}
        await agent.answers(request, {"sessionId": "s1"})
        await opening


class BugError(Exception):
    """One of ours, unforeseen."""


def bug(*args: object, **members: object) -> NoReturn:
    raise BugError("its words may hold a secret")


NOTED = re.compile(
    r"a message of the agent was skipped because of a bug in acp-launch; please report it \(BugError in [\w.]+:\d+\)"
)


@looped
async def test_an_update_that_breaks_us_costs_nothing_beside_it() -> None:
    """All of it in one chunk."""

    class Fragile(Recorder):
        def update(self, update: Updated) -> None:
            super().update(update)
            if self.of("update")[-1] == 2:
                bug()

    recorder = Fragile()
    async with connected(recorder) as (connection, agent, _):
        handshake = asyncio.create_task(negotiate(connection, limit=5))
        await agent.answers(await agent.hears("initialize"), {"protocolVersion": 1})
        await handshake
        client = AcpSession(connection, name="n", gate=Gate(Policy("ask"), None))
        client.opening("s1")
        opening = asyncio.create_task(open_new(connection))
        request = await agent.hears("session/new")
        # The first two come with the answer, as what was kept for a session that was not known yet.
        await agent.says(update("s1", 1), update("s1", 2), {"id": request["id"], "result": {"sessionId": "s1"}})
        await opening
        await agent.says(update("s1", 2), update("s1", 3), {"id": 9, "method": "x"})
        assert (await agent.hears())["error"]["code"] == -32601
        assert recorder.of("update") == [1, 2, 2, 3]
        (note,) = recorder.of("note")
        assert NOTED.fullmatch(note)


@looped
async def test_an_answer_that_breaks_us_is_waited_for_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    async with negotiated() as (connection, agent, recorder, _):
        opening = asyncio.create_task(open_new(connection))
        request = await agent.hears("session/new")
        with monkeypatch.context() as patch:
            patch.setattr(acp, "read_session_id", bug)
            await agent.answers(request, {"sessionId": "s1"})
            with pytest.raises(LocalProtocolError) as caught:
                await opening
        assert caught.value.message == "the answer of the agent to session/new was left out, by a bug in acp-launch"
        assert [bool(NOTED.fullmatch(note)) for note in recorder.of("note")] == [True]


@looped
async def test_a_request_that_breaks_us_is_answered_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    async with negotiated() as (_, agent, recorder, client):
        monkeypatch.setattr(client, "asked", bug)
        await agent.says(question(1), {"id": 2, "method": "x"})
        answer = await agent.hears()
        broken = "this request was not handled because of a bug in acp-launch"
        assert (answer["id"], answer["error"]) == (1, {"code": -32603, "message": broken})
        assert (await agent.hears())["id"] == 2
        assert [bool(NOTED.fullmatch(note)) for note in recorder.of("note")] == [True]


@looped
async def test_a_question_that_cannot_be_asked_for_a_bug_is_cancelled() -> None:
    async def ask(question: ToolQuestion) -> NoReturn:
        bug()

    async with negotiated(ask=ask) as (_, agent, recorder, _):
        await agent.says(question(1))
        assert (await agent.hears())["result"] == {"outcome": {"outcome": "cancelled"}}
        assert [bool(NOTED.fullmatch(note)) for note in recorder.of("note")] == [True]


WIRE = rawjson.messages(
    [
        *("session/update", "session/request_permission", "$/cancel_request", "fs/read_text_file"),
        *("elicitation/create", "elicitation/complete", "terminal/create", "x"),
    ],
    b'{"sessionId":"s1","update":{"sessionUpdate":"tool_call","toolCallId":"\\ud83d"}}',
    b'{"sessionId":"s1","update":{"sessionUpdate":"plan","entries":["\\ud83d",{"content":"\\ud83d"}]}}',
    b'{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\\ud83d"}}}',
    b'{"sessionId":"s1","update":{"sessionUpdate":"tool_call","toolCallId":"a","rawInput":' + rawjson.DEEP + b"}}",
    b'{"sessionId":"s1","toolCall":{"toolCallId":"\\ud83d"},"options":[{"kind":{},"optionId":[]}]}',
    b'{"code":-32000,"message":"x","data":' + rawjson.DEEP + b"}",
    b'{"requestId":' + rawjson.DEEP + b"}",
)


@pytest.mark.whole
@given(st.lists(WIRE, max_size=12))
@looped
async def test_nothing_an_agent_writes_breaks_us(lines: list[bytes]) -> None:
    async with negotiated(default="allow") as (connection, agent, recorder, _):
        opening = asyncio.create_task(open_new(connection))
        request = await agent.hears("session/new")
        await agent.answers(request, {"sessionId": "s1"})
        await opening
        await agent.writes(b"".join(line.replace(b"\n", b" ") + b"\n" for line in lines))
        await agent.says({"id": "the end", "method": "x"})
        await agent.hears_unjudged(b'"the end"')
        assert not [note for note in recorder.of("note") if "a bug in acp-launch" in note]
