"""A form as a person meets it (C-74): who asks, every field, a last look, and two ways to say no."""

import asyncio
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.console.ask import forms
from acp_launch.console.ask.forms import Forms
from acp_launch.console.draw import sanitize
from acp_launch.session.elicitation import Field, FieldOption, Filled, Form
from acp_launch.session.events import BACK
from tests.console.person import Scripted
from tests.looped import looped
from tests.patience import PATIENCE
from tests.secret.canaries import knowing

TOKEN = "ghp_" + "a1B2c3D4e" * 4


def filled(person: Scripted, form: Form, agent: str = "Demo Agent") -> Filled:
    async def scenario() -> Filled:
        async with asyncio.timeout(PATIENCE):
            return await Forms(person, agent).fill(form)

    return asyncio.run(scenario())


def form(*fields: Field, **more: Any) -> Form:
    return Form(message="Which one?", fields=fields, **more)


REGION = Field(
    name="region",
    kind="choice",
    title="Region",
    description="Where it runs.",
    is_required=True,
    options=(FieldOption("eu", "Europe"), FieldOption("us", "us")),
    default="eu",
)
COUNT = Field(name="count", kind="integer", least=1, most=9, is_required=True)
NICK = Field(name="nick", kind="text")
x = partial(Field, name="x")
SECRETS = ("password", "apiKey", "API key", "access_token", "clientSecret", "passphrase")
WARNING = "Do not type a secret here: the agent sees it."


def test_a_form_from_the_first_line_to_the_last() -> None:
    person = Scripted("", "10", "3", "", "s")
    assert filled(person, form(REGION, COUNT, NICK, title="Deploy")) == Filled("accept", {"region": "eu", "count": 3})
    assert person.told == [
        "The agent Demo Agent asks you to fill in a form:",
        "  | Deploy",
        "  | Which one?",
        "Escape (then Enter, if nothing happens) goes back a field.",
        "To leave without sending: Ctrl-D on an empty line, at any field.",
        "1 of 3: Region",
        "  | Where it runs.",
        "    1. Europe (eu)",
        "    2. us",
        "One of these, by number or name.",
        '"Region" [Europe]',
        "2 of 3: count",
        "A whole number, 1 to 9.",
        '"count"',
        '"count" must be at most 9.',
        '"count"',
        "3 of 3: nick",
        "Optional: an empty line leaves it out.",
        '"nick"',
        "This goes to Demo Agent:",
        "    Region: Europe",
        "    count: 3",
        "    nick: (left out)",
        "Send it? s send / e edit / d decline / c cancel, without an answer",
    ]
    assert person.of_tone("warning") == ['"count" must be at most 9.']


@pytest.mark.parametrize(("key", "action"), [("d", "decline"), ("c", "cancel")])
def test_after_a_last_look_it_can_still_be_refused(key: str | None, action: str) -> None:
    assert filled(Scripted("1", key), form(COUNT)) == Filled(action)  # type: ignore[arg-type]


@pytest.mark.parametrize("answers", [(None,), ("1", None)])
@pytest.mark.parametrize(("key", "action"), [("d", "decline"), ("c", "cancel"), (None, "cancel")])
def test_ctrl_d_leaves_at_any_field(answers: tuple[str | None, ...], key: str | None, action: str) -> None:
    """Also from one that nothing fits."""
    assert filled(Scripted(*answers, key), form(COUNT, NICK)) == Filled(action)  # type: ignore[arg-type]


def test_escape_goes_back_a_field_also_from_the_last_look_and_leaves_at_the_first() -> None:
    person = Scripted("1", "me", None, BACK, "2", "you", "s")
    assert filled(person, form(COUNT, NICK)) == Filled("accept", {"count": 2, "nick": "you"})
    asked = ['"count"', '"nick"', '"nick" [me]', '"count" [1]', '"nick" [me]']
    assert [line for line in person.told if line.startswith('"')] == asked
    assert filled(Scripted(BACK, "d"), form(COUNT, NICK)) == Filled("decline")


def test_editing_asks_again_with_what_was_answered() -> None:
    person = Scripted("2", "4", "me", "e", "", "5", "-", "s")
    assert filled(person, form(REGION, COUNT, NICK)) == Filled("accept", {"region": "us", "count": 5})
    assert [line for line in person.told if line.endswith("]")] == [
        '"Region" [Europe]',
        '"Region" [us]',
        '"count" [4]',
        '"nick" [me]',
    ]
    assert person.told[-2] == "    nick: (left out)"


@pytest.mark.parametrize(
    ("field", "shown", "sent"),
    [
        (x(kind="boolean", default=False), "no", False),
        (x(kind="number", default=1.5), "1.5", 1.5),
        (x(kind="text", default="-"), "-", "-"),
        (x(kind="text", default="two\nlines"), "two lines", "two\nlines"),
        (
            x(kind="choices", options=(FieldOption("a", "A, b"), FieldOption("b", "B")), default=["a", "b"]),
            "A, b, B",
            ["a", "b"],
        ),
    ],
)
def test_a_default_is_shown_and_taken_as_it_is(field: Field, shown: str, sent: object) -> None:
    person = Scripted("", "s")
    assert filled(person, form(field)).content == {"x": sent}
    assert f'"x" [{shown}]' in person.told


@pytest.mark.parametrize(
    ("field", "hint"),
    [
        (x(kind="text", is_required=True, least=2), "Text, at least 2 characters."),
        (
            x(kind="text", is_required=True, format="date", most=10),
            "A date, such as 2026-12-31, at most 10 characters.",
        ),
        (x(kind="text", is_required=True, pattern="^a"), "It must match ^a."),
        (x(kind="boolean", default=True), "Yes or no. Optional: - leaves it out."),
        (x(kind="number", is_required=True, most=0.5), "A number, at most 0.5."),
        (
            x(kind="choices", options=(FieldOption("a", "A"),), is_required=True, least=1, most=2),
            "Any of these, by number or name, with commas between, 1 to 2 of them.",
        ),
    ],
)
def test_what_can_be_answered_is_said_before(field: Field, hint: str) -> None:
    person = Scripted(None, None)
    filled(person, form(field))
    assert hint in person.of_tone("dim")


def test_a_form_without_fields_asks_for_consent() -> None:
    person = Scripted("s")
    assert filled(person, form()) == Filled("accept", {})
    assert (
        person.told[-1]
        == "The form has no fields; it asks for your consent. s send / d decline / c cancel, without an answer"
    )


@pytest.mark.parametrize(
    ("names", "warnings"),
    [
        *(([name], [WARNING]) for name in SECRETS),
        (["max_tokens", "keyboard", "passenger"], []),
    ],
)
def test_a_field_that_looks_like_a_secret_is_warned_of_and_no_other(names: list[str], warnings: list[str]) -> None:
    person = Scripted(None, None)
    filled(person, form(*(Field(name=name, kind="text") for name in names)))
    assert person.of_tone("warning") == warnings


def test_a_secret_of_the_launch_is_never_shown_and_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sanitize, forms):
        monkeypatch.setattr(module, "redactor", knowing(TOKEN))
    person = Scripted(TOKEN, "x", "d")
    described = Field(name="note", kind="text", title=f"with {TOKEN}", description=TOKEN, default=TOKEN)
    filled(person, form(described, NICK, title=TOKEN))
    assert "ghp_" not in "".join(person.told)
    assert "    with ***: ***" in person.told
    assert person.of_tone("warning") == ['"with ***" contains a secret of this launch.']


HOSTILE = "\x1b[2J\x07 x\u202eevil \x9b1m\r\x00"


def test_no_word_of_an_agent_drives_the_terminal() -> None:
    field = Field(
        name=HOSTILE,
        kind="choice",
        title=HOSTILE,
        description=f"a\n{HOSTILE}",
        options=(FieldOption(HOSTILE, HOSTILE),),
        pattern=f"{HOSTILE}$",
        default=HOSTILE,
    )
    person = Scripted("3", "1", None, None, None)
    shown = form(field, title=HOSTILE, description=HOSTILE)
    assert filled(person, shown, agent=HOSTILE) == Filled("cancel")
    assert [line for line in person.told if not line.isprintable()] == []


def test_words_that_are_too_long_are_cut_and_said_to_be_and_no_value() -> None:
    person = Scripted("s" * 5000, None, None)
    many = Field(name="many", kind="choice", options=tuple(FieldOption(f"o{n}", f"o{n}") for n in range(150)))
    filled(person, Form(message="m" * 5000, fields=(NICK, many)))
    assert person.told[1] == f"  | {'m' * 4000}… [1,000 more characters]"
    assert "    100. o99" in person.told
    assert "    and 50 more" in person.told
    assert "    101. o100" not in person.told
    person = Scripted("s" * 3000 + "\x1b", "d")
    filled(person, form(NICK))
    assert person.told[-2] == f"    nick: {'s' * 3000}\\x1b", "a value is shown whole before it is sent"


@looped
async def test_a_cancelled_question_frees_the_floor() -> None:
    """The agent withdraws it, or the turn is cancelled."""

    class Waiting(Scripted):
        def __init__(self) -> None:
            super().__init__()
            self.asked = asyncio.Event()

        async def line(self, prompt: str, *, default: str = "") -> str | None:
            self.asked.set()
            await asyncio.Event().wait()
            return None

    person = Waiting()
    filling = asyncio.create_task(Forms(person, "Demo").fill(form(NICK)))
    async with asyncio.timeout(PATIENCE):
        await person.asked.wait()
        filling.cancel()
        await asyncio.wait({filling})
        assert filling.cancelled()
        async with person.floor():
            pass


KINDS = st.sampled_from(["text", "number", "integer", "boolean"])


@given(st.lists(st.text(max_size=6), max_size=12), st.lists(KINDS, max_size=3), st.sampled_from(["s", "d", "c"]))
def test_whatever_is_typed_it_ends_with_an_answer(typed: list[str], kinds: list[Any], key: str) -> None:
    """An answer that is not understood is asked for again; Escape is always there."""

    class Typing(Scripted):
        async def line(self, prompt: str, *, default: str = "") -> str | None:
            return self.answers.pop(0) if self.answers else None

        async def choose(self, prompt: str, choices: Any) -> str | None:
            return key

    person = Typing(*typed)
    answer = filled(person, form(*(Field(name=str(n), kind=kind) for n, kind in enumerate(kinds))))
    assert answer.action in ("accept", "decline", "cancel")
    assert answer.action == "accept" or answer.content == {}
