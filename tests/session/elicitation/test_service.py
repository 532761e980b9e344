"""Serving `elicitation/create`: what a person said is what the agent gets (C-68, C-74, C-75)."""

import asyncio
import json
from typing import Any

import pytest

from acp_launch.session import elicitation as service
from acp_launch.session.elicitation import REMEMBERED, Action, Elicitation, Filled, Form, Link
from acp_launch.session.events import Refusal
from tests.looped import looped
from tests.oracle import check_client_message
from tests.patience import PATIENCE
from tests.secret.canaries import knowing

FORM = {"sessionId": "s1", "mode": "form", "message": "Which?", "requestedSchema": {"properties": {}}}


def link(id: str = "e1", message: str = "Log in") -> dict[str, Any]:
    url = "https://example.com/login"
    return {"requestId": 3, "mode": "url", "message": message, "elicitationId": id, "url": url}


class Stage:
    """A service, and the person behind it: `answer` is what they say to anything."""

    def __init__(self) -> None:
        self.answer: Action = "accept"
        self.asked: list[Form | Link] = []
        self.notes: list[str] = []
        self.is_asked = asyncio.Event()
        self.answers = asyncio.Event()
        self.answers.set()
        self.elicitation = Elicitation("Demo", fill=self.fill, visit=self.visit, note=self.notes.append)

    async def fill(self, form: Form) -> Filled:
        self.asked.append(form)
        return Filled(self.answer, {"n": 1} if self.answer == "accept" else {})

    async def visit(self, link: Link) -> Action:
        self.asked.append(link)
        self.is_asked.set()
        await self.answers.wait()
        return self.answer

    async def create(self, params: dict[str, Any]) -> object:
        return await self.elicitation.services()["elicitation/create"](params)


def is_valid(result: object) -> bool:
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode() + b"\n"
    return check_client_message(line, answers="elicitation/create") == []


@looped
async def test_a_form_is_answered_with_what_was_filled_in() -> None:
    stage = Stage()
    result = await stage.create(FORM)
    assert result == {"action": "accept", "content": {"n": 1}}
    assert is_valid(result)
    assert stage.asked == [Form(message="Which?")]


@pytest.mark.parametrize("action", ["decline", "cancel"])
@pytest.mark.parametrize("params", [FORM, link()], ids=["form", "url"])
@looped
async def test_what_is_not_accepted_carries_nothing(action: Action, params: dict[str, Any]) -> None:
    stage = Stage()
    stage.answer = action
    result = await stage.create(params)
    assert result == {"action": action}
    assert is_valid(result)


@looped
async def test_consent_to_a_link_is_answered_at_once_and_completion_is_told_once() -> None:
    stage = Stage()
    result = await stage.create(link())
    assert result == {"action": "accept"}
    assert is_valid(result)
    for id in ("unknown", "e1", "e1"):
        stage.elicitation.completed(id)
    assert stage.notes == ["Demo says that this is done: Log in"]


@pytest.mark.parametrize("action", ["decline", "cancel"])
@looped
async def test_a_link_that_was_not_accepted_cannot_be_completed(action: Action) -> None:
    stage = Stage()
    stage.answer = action
    await stage.create(link())
    stage.elicitation.completed("e1")
    assert stage.notes == []


@looped
async def test_a_link_can_be_completed_while_the_question_is_open() -> None:
    stage = Stage()
    stage.answers.clear()
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        answer = group.create_task(stage.create(link()))
        await stage.is_asked.wait()
        stage.elicitation.completed("e1")
        assert stage.notes == ["Demo says that this is done: Log in"]
        stage.answers.set()
    assert answer.result() == {"action": "accept"}
    stage.elicitation.completed("e1")
    assert len(stage.notes) == 1


@looped
async def test_a_question_that_is_withdrawn_is_forgotten() -> None:
    stage = Stage()
    stage.answers.clear()
    answer = asyncio.create_task(stage.create(link()))
    async with asyncio.timeout(PATIENCE):
        await stage.is_asked.wait()
        answer.cancel()
        await asyncio.wait({answer})
    assert answer.cancelled()
    stage.elicitation.completed("e1")
    assert stage.notes == []


@pytest.mark.parametrize("change", [{"requestedSchema": {"properties": {"it": {}}}}, {"mode": "_voice"}])
@looped
async def test_malformed_params_and_another_mode_reach_no_user(change: dict[str, Any]) -> None:
    stage = Stage()
    with pytest.raises(Refusal) as refused:
        await stage.create({**FORM, **change})
    assert refused.value.code == -32602
    assert stage.asked == []


@looped
async def test_what_is_done_is_told_in_a_few_words_and_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    token = "ghp_a1B2c3D4e5F6"
    monkeypatch.setattr(service, "redactor", knowing(token))
    stage = Stage()
    await stage.create(link(message=f"{'x' * 90}\n{token} and\n more"))
    stage.elicitation.completed("e1")
    assert stage.notes == [f"Demo says that this is done: {'x' * 90} *** and …"]


@looped
async def test_an_agent_that_never_completes_anything_is_not_remembered_for_ever() -> None:
    stage = Stage()
    for number in range(REMEMBERED + 1):
        await stage.create(link(f"e{number}"))
    for id in ("e0", "e1"):
        stage.elicitation.completed(id)
    assert len(stage.notes) == 1
