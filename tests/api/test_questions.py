"""Ring 3. What an agent asks a program (docs/api.md "Questions")."""

from typing import Any

import pytest

import acp_launch
from acp_launch.errors import AuthRequired
from acp_launch.session import events
from tests.cli.launcher import Launcher
from tests.looped import bounded
from tests.patience import PATIENCE


def asked(launch: Launcher, *answers: Any, **options: Any) -> tuple[acp_launch.Result, list[events.PermissionQuestion]]:
    """The result of a prompt whose questions get these answers."""
    questions: list[events.PermissionQuestion] = []
    left = list(answers)

    async def answer(question: events.PermissionQuestion) -> str | bool | None:
        questions.append(question)
        given: str | bool | None = left.pop(0)
        return given

    return acp_launch.run("p", "hi", cwd=launch.project, trust=True, on_permission=answer, **options), questions


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(True, "allow_once-1"), (False, "reject_once-3"), ("allow_always-0", "allow_always-0"), (None, "cancelled")],
)
def test_a_question_is_answered_as_the_program_says(launch: Launcher, answer: str | bool | None, expected: str) -> None:
    launch.profile("asker")
    result, (question,) = asked(launch, answer)
    assert expected in result.answer
    assert (question.kind, len(question.options), question.call["kind"]) == ("edit", 4, "edit")
    assert question.options[0].kind == "allow_always"


def test_without_a_callback_a_question_is_denied_as_in_a_pipe(launch: Launcher) -> None:
    launch.profile("asker")
    result = acp_launch.run("p", "hi", cwd=launch.project, trust=True)
    piped = launch("run", "p", "hi", "-o", "json")
    assert (result.denied, result.answer) == (piped.event("result")["denied"], piped.event("result")["text"])
    assert result.denied


def test_rules_and_approve_decide_before_the_program(launch: Launcher) -> None:
    launch.profile("asker", permissions={"rules": [{"allow": {"kind": "edit"}}]})
    assert asked(launch)[1] == []
    launch.profile("asker")
    assert asked(launch, approve="all")[1] == []


def test_an_error_of_the_callback_is_that_of_the_prompt(launch: Launcher) -> None:
    launch.profile("asker")

    async def answer(question: events.PermissionQuestion) -> bool:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        acp_launch.run("p", "hi", cwd=launch.project, trust=True, on_permission=answer)
    with pytest.raises(ValueError, match="no option 'other'"):
        asked(launch, "other")
    with pytest.raises(ValueError, match=r"no option 3\.5"):
        asked(launch, 3.5)


FORM = """
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
def prompt(request):
    session = script.session_of(request)
    params = {"sessionId": session, "mode": "form", "message": "Who?", "requestedSchema": SCHEMA}
    script.say(session, repr(script.ask("elicitation/create", params).get("result")))
    script.end(request)
script.serve({"session/prompt": prompt})
"""


def test_a_form_is_filled_by_the_program(launch: Launcher) -> None:
    launch.scripted(FORM)
    forms: list[events.FormQuestion] = []

    async def fill(form: events.FormQuestion) -> dict[str, str]:
        forms.append(form)
        return {"name": "Ada"}

    result = acp_launch.run("p", "hi", cwd=launch.project, trust=True, on_form=fill)
    assert "'Ada'" in result.answer
    (form,) = forms
    assert form.schema is not None
    assert (form.message, form.url, list(form.schema["properties"])) == ("Who?", None, ["name"])


def test_a_form_that_cannot_be_sent_is_an_error_of_the_prompt(launch: Launcher) -> None:
    launch.scripted(FORM)

    async def fill(form: events.FormQuestion) -> dict[str, Any]:
        return {"name": object()}

    with pytest.raises(TypeError, match="object"):
        acp_launch.run("p", "hi", cwd=launch.project, trust=True, on_form=fill, timeout=PATIENCE)


def test_a_login_is_named_with_the_command_that_helps(launch: Launcher) -> None:
    for when in ("new", "prompt"):
        launch.profile("auth", when)
        with pytest.raises(AuthRequired) as wanted:
            acp_launch.run("p", "hi", cwd=launch.project, trust=True)
        piped = launch("run", "p", "hi", "-o", "json")
        told = piped.events[-1]
        assert (wanted.value.exit_code, wanted.value.fix) == (6, told["fix"])
        assert (wanted.value.message, list(wanted.value.detail)) == (told["message"], told["detail"])


def test_an_error_of_on_event_comes_out_of_the_call(launch: Launcher) -> None:
    for kind in (events.SessionEvent, events.UpdateEvent):

        def hear(event: events.AnyEvent, kind: type = kind) -> None:
            if isinstance(event, kind):
                raise ZeroDivisionError("mine")

        with pytest.raises(ZeroDivisionError, match="mine"):
            acp_launch.run("demo", "add 2 3", cwd=launch.project, on_event=hear)


@bounded
async def test_an_error_of_on_event_cancels_the_turn_or_ends_the_block(launch: Launcher) -> None:
    launch.profile("cancellable")
    is_armed = False

    def hear(event: events.AnyEvent) -> None:
        if is_armed:
            raise ZeroDivisionError("mine")

    launching = acp_launch.launch("p", cwd=launch.project, trust=True, on_event=hear)
    with pytest.raises(ZeroDivisionError, match="mine"):
        async with launching as agent, agent.session() as session:
            found = session.prompt("hi")
            await anext(found)
            is_armed = True
            agent._tell(events.NoteEvent(text="x"))
            with pytest.raises(ZeroDivisionError, match="mine"):
                [event async for event in found]
            agent._tell(events.NoteEvent(text="x"))
