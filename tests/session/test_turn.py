"""Ring 2. Opening and turns: replay, cancelling, questions, denial."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from acp_launch.errors import SessionError, WaitExpired
from acp_launch.profile.agents import Replay
from acp_launch.protocol.acp import Capabilities
from acp_launch.session import opening
from acp_launch.session.client import GRACE_SECONDS, AcpSession, Turn
from acp_launch.session.connection import Connection
from acp_launch.session.events import Answer, SessionEvent, ToolQuestion, TurnEnd
from acp_launch.session.opening import SessionParams, how_to_continue, open_session
from tests.looped import looped
from tests.session.recording import Agent, negotiated, question, update
from tests.turnedclock import turned

HERE = SessionParams(Path("/w"), (), [])
TEXT = [{"type": "text", "text": "hi"}]


def opened(
    connection: Connection, client: AcpSession, how: Any = "new", id: str = "", replay: Replay = "before"
) -> "asyncio.Task[SessionEvent]":
    return asyncio.create_task(open_session(connection, client, HERE, how=how, session_id=id, limit=5, replay=replay))


async def in_turn(
    connection: Connection, agent: Agent, client: AcpSession
) -> tuple[Turn, "asyncio.Task[TurnEnd]", dict[str, Any]]:
    """A new session with a turn under way, and the request the agent has not answered yet."""
    ready = opened(connection, client)
    await agent.answers(await agent.hears("session/new"), {"sessionId": "s1"})
    await ready
    turn = Turn(connection, client, "s1", silence=5)
    running = asyncio.create_task(turn.run(TEXT))
    return turn, running, await agent.hears("session/prompt")


@looped
async def test_a_turn_ends_with_its_stop_reason_and_usage() -> None:
    async with negotiated() as (connection, agent, recorder, client):
        _, running, request = await in_turn(connection, agent, client)
        assert request["params"] == {"sessionId": "s1", "prompt": TEXT}
        await agent.says(
            update("s1", 1), {"id": request["id"], "result": {"stopReason": "end_turn", "usage": {"totalTokens": 3}}}
        )
        end = await running
        assert (end.stop_reason, end.usage, end.denied) == ("end_turn", {"totalTokens": 3}, "")
        assert [kind for kind, _ in recorder.told] == ["negotiated", "ready", "update", "ended"]


@looped
async def test_a_replay_is_complete_when_the_answer_comes_last() -> None:
    """C-44."""
    async with negotiated() as (connection, agent, recorder, client):
        ready = opened(connection, client, "load", "s9")
        request = await agent.hears("session/load")
        await agent.says(update("s9", 1, "user_message_chunk"), update("s9", 2), {"id": request["id"], "result": None})
        assert (await ready).replayed == 2
        assert recorder.of("replay") == [1, 2]
        assert recorder.of("update") == []


async def told_in_a_turn(connection: Connection, agent: Agent, client: AcpSession) -> None:
    running = asyncio.create_task(Turn(connection, client, "s9", silence=5).run(TEXT))
    request = await agent.hears("session/prompt")
    await agent.says(update("s9", "live"), {"id": request["id"], "result": {"stopReason": "end_turn"}})
    await running


@pytest.mark.parametrize("replay", ["after", ""])
@turned
async def test_a_replay_is_complete_when_most_of_it_comes_after_the_answer(replay: Replay) -> None:
    """gemini: one update before the answer, twenty after it. Of an agent that is not known the first ones show it."""
    async with negotiated() as (connection, agent, recorder, client):
        ready = opened(connection, client, "load", "s9", replay)
        request = await agent.hears("session/load")
        answer = {"id": request["id"], "result": {}}
        await agent.says(update("s9", 0, "user_message_chunk"), answer, update("s9", 1))
        for number in range(2, 21):
            await recorder.has("replay", number)  # one after the other, as they come
            await agent.says(update("s9", number))
        assert (await ready).replayed == 21
        await told_in_a_turn(connection, agent, client)
        assert recorder.of("replay") == list(range(21))
        assert recorder.of("update") == ["live"]


@turned
async def test_an_agent_that_is_not_known_is_asked_whether_there_is_more() -> None:
    """It sends the rest of a history before it looks at what it was asked meanwhile."""
    async with negotiated() as (connection, agent, recorder, client):
        ready = opened(connection, client, "load", "s9", "")
        await agent.answers(await agent.hears("session/load"), {})
        request = await agent.hears("_acp-launch/replayed")
        rest = [update("s9", 0, "user_message_chunk"), *(update("s9", number) for number in range(1, 21))]
        refusal = {"id": request["id"], "error": {"code": -32601, "message": "method not found"}}
        await agent.says(*rest, refusal)
        assert (await ready).replayed == 21
        await told_in_a_turn(connection, agent, client)
        assert (recorder.of("replay"), recorder.of("update")) == ([*range(21)], ["live"])


@pytest.mark.parametrize("code", [-32601, -32603, -32000])
@turned
async def test_no_time_passes_when_there_is_no_more(code: int) -> None:
    """A history that is empty, or that ends with the prompt of a person; and news that are no part of any."""
    async with negotiated() as (connection, agent, recorder, client):
        ready = opened(connection, client, "load", "s9", "")
        request = await agent.hears("session/load")
        answer = {"id": request["id"], "result": {}}
        news = update("s9", "news", "available_commands_update")
        await agent.says(update("s9", 0, "user_message_chunk"), answer, news)
        await agent.refuses(await agent.hears("_acp-launch/replayed"), code, "what is that?")
        await ready
        assert asyncio.get_running_loop().time() == 0
        await told_in_a_turn(connection, agent, client)
        assert (recorder.of("replay"), recorder.of("update")) == ([0, "news"], ["live"])


@turned
async def test_no_time_passes_and_nothing_is_asked_where_the_history_is_known_to_come_first() -> None:
    async with negotiated() as (connection, agent, _, client):
        ready = opened(connection, client, "load", "s9", "before")
        await agent.answers(await agent.hears("session/load"), {})
        await ready
        assert asyncio.get_running_loop().time() == 0
        await told_in_a_turn(connection, agent, client)


@turned
async def test_an_agent_that_does_not_answer_what_it_does_not_know_is_waited_for_half_a_second() -> None:
    async with negotiated() as (connection, agent, recorder, client):
        ready = opened(connection, client, "load", "s9", "")
        await agent.answers(await agent.hears("session/load"), {})
        request = await agent.hears("_acp-launch/replayed")
        await ready
        assert asyncio.get_running_loop().time() == opening.REFUSAL
        await agent.refuses(request, -32601, "oh, that")  # C-66
        await told_in_a_turn(connection, agent, client)
        assert recorder.of("note") == []


@pytest.mark.whole
@looped
async def test_an_agent_that_never_stops_replaying_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(opening, "QUIET_AT_MOST", 0.2)
    async with negotiated() as (connection, agent, recorder, client):
        ready = opened(connection, client, "load", "s9", "after")
        await agent.answers(await agent.hears("session/load"), {})
        number = 0
        while not ready.done():
            number += 1
            await agent.says(update("s9", number))
            await recorder.has("replay", number)
        assert (await ready).session_id == "s9"


@pytest.mark.parametrize(
    ("able", "replay", "how"),
    [
        (Capabilities(load=True, resume=True), True, "load"),
        (Capabilities(load=True, resume=True), False, "resume"),
        (Capabilities(load=True), False, "load"),
        (Capabilities(resume=True), True, "resume"),
    ],
)
def test_load_is_for_history_and_resume_for_its_absence(able: Capabilities, replay: bool, how: str) -> None:
    assert how_to_continue(able, replay=replay, name="n") == how


def test_an_agent_that_can_do_neither_is_an_error_that_names_new() -> None:
    with pytest.raises(SessionError) as caught:
        how_to_continue(Capabilities(), replay=True, name="fix-42")
    assert caught.value.message == 'the agent can neither load nor resume a session, so "fix-42" cannot be continued'
    assert caught.value.fix == "start afresh under this name: --session fix-42 --new"


def test_the_name_of_a_session_can_be_pasted_into_a_shell() -> None:
    with pytest.raises(SessionError) as caught:
        how_to_continue(Capabilities(), replay=True, name="fix the bug")
    assert caught.value.fix == "start afresh under this name: --session 'fix the bug' --new"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (-32002, 'the agent has forgotten the session "n"'),
        (-32603, 'the session "n" cannot be continued: the agent answered session/load with an error: gone (-32603)'),
    ],
)
@looped
async def test_a_forgotten_session_is_never_a_silent_fresh_start(code: int, message: str) -> None:
    async with negotiated() as (connection, agent, _, client):
        ready = opened(connection, client, "load", "s9")
        await agent.refuses(await agent.hears("session/load"), code, "gone")
        with pytest.raises(SessionError) as caught:
            await ready
        assert (caught.value.message, caught.value.cause) == (message, (code, "gone", None))
        assert caught.value.fix == "start afresh under this name: --session n --new"


@looped
async def test_cancelling_answers_the_questions_and_waits_for_the_agents_end() -> None:
    """C-61, C-62, C-63."""
    never: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    asked = asyncio.Semaphore(0)

    async def ask(question: ToolQuestion) -> Answer:
        asked.release()
        return await never

    async with negotiated(ask=ask) as (connection, agent, recorder, client):
        turn, running, request = await in_turn(connection, agent, client)
        await agent.says(question(0), question("b", call="c2"))
        await asked.acquire()
        await asked.acquire()
        turn.cancel()
        turn.cancel()
        await agent.hears("session/cancel")
        answers = [await agent.hears(), await agent.hears()]
        assert [answer["id"] for answer in answers] == [0, "b"]
        assert all(answer["result"] == {"outcome": {"outcome": "cancelled"}} for answer in answers)
        await agent.says(update("s1", "late"))
        await agent.says({"id": request["id"], "result": {"stopReason": "cancelled"}})
        assert (await running).stop_reason == "cancelled"
        assert recorder.of("update")[-1] == "late"
        assert recorder.of("cancelled") == [["c1", "c2"]]


@looped
async def test_a_silent_turn_expires_and_names_the_key_that_makes_it_longer() -> None:
    async with negotiated() as (connection, agent, _, client):
        ready = opened(connection, client)
        await agent.answers(await agent.hears("session/new"), {"sessionId": "s1"})
        await ready
        with pytest.raises(WaitExpired) as caught:
            await Turn(connection, client, "s1", silence=0.05).run(TEXT)
        assert caught.value.message == "no activity from the agent within 0.05 s"
        assert caught.value.fix == "if it needs longer: agent.timeouts.silence in the profile"


@pytest.mark.parametrize("code", [-32800, -32603])
@looped
async def test_an_error_after_a_cancel_counts_as_cancelled(code: int) -> None:
    async with negotiated() as (connection, agent, _, client):
        turn, running, request = await in_turn(connection, agent, client)
        turn.cancel()
        await agent.hears("session/cancel")
        await agent.refuses(request, code, "aborted")
        assert (await running).stop_reason == "cancelled"


@pytest.mark.parametrize(("grace", "told"), [((), GRACE_SECONDS), ((1.0,), 1.0)])
@turned
async def test_an_agent_deaf_to_cancel_is_given_up_when_it_was_said(grace: tuple[float, ...], told: float) -> None:
    """And no other deadline is named meanwhile, however long it has been silent."""
    async with negotiated() as (connection, agent, recorder, client):
        turn, running, _ = await in_turn(connection, agent, client)
        await asyncio.sleep(2.5)
        turn.cancel(*grace)
        turn.cancel()  # again: the first deadline stands
        began = asyncio.get_running_loop().time()
        with pytest.raises(WaitExpired) as caught:
            await running
        assert caught.value.message == f"the agent did not stop within {told:g} s of the cancellation, so it was ended"
        assert asyncio.get_running_loop().time() - began == pytest.approx(told)
        assert (recorder.of("grace"), recorder.of("waiting")) == ([told], [])


@pytest.mark.parametrize(
    ("default", "approve", "chosen", "allowed"),
    [
        ("allow", None, "yes", True),
        ("deny", None, "no", False),
        ("ask", None, "no", False),
        ("deny", "all", "yes", True),
    ],
)
@looped
async def test_a_question_is_answered_by_policy(default: Any, approve: Any, chosen: str, allowed: bool) -> None:
    async with negotiated(default=default, approve=approve) as (connection, agent, recorder, client):
        _, running, request = await in_turn(connection, agent, client)
        await agent.says(question(0))
        assert (await agent.hears())["result"]["outcome"] == {"outcome": "selected", "optionId": chosen}
        await agent.answers(request, {"stopReason": "end_turn"})
        end = await running
        (permission,) = recorder.of("permission")
        assert (permission.allowed, permission.option_id) == (allowed, chosen)
        assert end.denied == ("Do c1" if default == "ask" else "")


@turned
async def test_an_agent_that_we_could_not_read_is_not_given_up_for_that() -> None:
    """A slow terminal: the agent's answer waits behind what is still to be shown."""
    async with negotiated() as (connection, agent, recorder, client):
        turn, running, request = await in_turn(connection, agent, client)
        turn.cancel()
        await agent.hears("session/cancel")
        for number in range(4):
            recorder.room.clear()
            await agent.says(update("s1", number))
            await asyncio.sleep(0.5)
            recorder.room.set()
            await asyncio.sleep(0.6)
        await agent.says({"id": request["id"], "result": {"stopReason": "cancelled", "usage": {"totalTokens": 3}}})
        assert (await running).usage == {"totalTokens": 3}


@turned
async def test_an_agent_is_not_given_up_while_this_process_stands_still() -> None:
    """A terminal that takes nothing blocks it in a write; the agent's answer waits in its pipe meanwhile."""
    async with negotiated() as (connection, agent, _, client):
        turn, running, request = await in_turn(connection, agent, client)
        turn.cancel()
        await agent.hears("session/cancel")
        for _ in range(2):
            asyncio.get_running_loop().now += 3.5  # type: ignore[attr-defined]
            await asyncio.sleep(0.2)
        await agent.says({"id": request["id"], "result": {"stopReason": "cancelled", "usage": {"totalTokens": 3}}})
        assert (await running).usage == {"totalTokens": 3}


@turned
async def test_a_shorter_grace_does_not_grow_while_we_cannot_read() -> None:
    """It is what `--timeout` promises, after which no user waits."""
    async with negotiated() as (connection, agent, recorder, client):
        turn, running, _ = await in_turn(connection, agent, client)
        turn.cancel(1.0)
        await agent.hears("session/cancel")
        began = asyncio.get_running_loop().time()
        recorder.room.clear()
        await agent.says(update("s1", 0))
        await asyncio.sleep(0.5)
        recorder.room.set()
        with pytest.raises(WaitExpired):
            await running
        assert asyncio.get_running_loop().time() - began == pytest.approx(1.0)


@looped
async def test_nothing_to_reject_with_is_answered_cancelled() -> None:
    """C-64."""
    async with negotiated(default="deny") as (connection, agent, _, client):
        await in_turn(connection, agent, client)
        await agent.says(question(0, options=[{"optionId": "y", "name": "Y", "kind": "allow_once"}]))
        assert (await agent.hears())["result"] == {"outcome": {"outcome": "cancelled"}}


@looped
async def test_a_denial_no_user_could_prevent_is_forgotten_when_the_work_goes_on() -> None:
    async with negotiated() as (connection, agent, _, client):
        _, running, request = await in_turn(connection, agent, client)
        await agent.says(question(0))
        await agent.hears()
        body = {"sessionUpdate": "tool_call", "toolCallId": "c7", "title": "Read", "status": "completed"}
        await agent.says({"method": "session/update", "params": {"sessionId": "s1", "update": body}})
        await agent.answers(request, {"stopReason": "end_turn"})
        assert (await running).denied == ""


@looped
async def test_a_turn_that_is_over_is_not_cancelled() -> None:
    """Ctrl-C and the agent's answer may come in the same instant."""
    async with negotiated() as (connection, agent, recorder, client):
        turn, running, request = await in_turn(connection, agent, client)
        await agent.answers(request, {"stopReason": "end_turn"})
        assert (await running).stop_reason == "end_turn"
        turn.cancel()
        assert recorder.of("cancelled") == []


@looped
async def test_a_person_is_asked_about_several_things_and_one_may_be_withdrawn() -> None:
    """C-11, C-65."""
    answers: dict[str, asyncio.Future[Answer]] = {}
    asked = asyncio.Semaphore(0)

    async def ask(question: ToolQuestion) -> Answer:
        title = question.call["title"]
        answers[title] = asyncio.get_running_loop().create_future()
        asked.release()
        return await answers[title]

    async with negotiated(ask=ask) as (connection, agent, recorder, client):
        await in_turn(connection, agent, client)
        await agent.says(question(1, call="a"), question(2, call="b"))
        await asked.acquire()
        await asked.acquire()
        await agent.says({"method": "$/cancel_request", "params": {"requestId": 1}})
        withdrawn = await agent.hears()
        assert (withdrawn["id"], withdrawn["error"]["code"]) == (1, -32800)
        answers["Do b"].set_result(Answer("always"))
        assert (await agent.hears())["result"]["outcome"] == {"outcome": "selected", "optionId": "always"}
        (permission,) = recorder.of("permission")
        assert (permission.allowed, permission.by) == (True, "you")


@looped
async def test_the_agent_is_not_silent_while_the_user_is_asked() -> None:
    """The deadline of a turn's silence stands still while we wait for a person."""
    answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    async def ask(question: ToolQuestion) -> Answer:
        return await answer

    async with negotiated(ask=ask) as (connection, agent, _, client):
        ready = opened(connection, client)
        await agent.answers(await agent.hears("session/new"), {"sessionId": "s1"})
        await ready
        running = asyncio.create_task(Turn(connection, client, "s1", silence=0.1).run(TEXT))
        request = await agent.hears("session/prompt")
        await agent.says(question(0))
        done, _ = await asyncio.wait({running}, timeout=0.4)
        assert not done
        answer.set_result(Answer("no"))
        await agent.hears()
        done, _ = await asyncio.wait({running}, timeout=0.05)
        assert not done  # the agent has all its time again, from the answer on
        await agent.answers(request, {"stopReason": "end_turn"})
        assert (await running).stop_reason == "end_turn"
