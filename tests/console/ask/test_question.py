"""What a person reads before they allow something, and how a bare terminal is answered at."""

import asyncio
from typing import Any

import pytest

from acp_launch.console import answers
from acp_launch.console.ask import permit
from acp_launch.console.ask.question import Questions
from acp_launch.session.person import Answer, Choice
from tests.console.person import Scripted
from tests.secret.canaries import knowing

TOKEN = "ghp_" + "a1B2c3D4e" * 4
ONCE = {"optionId": "o", "name": "Once", "kind": "allow_once"}
ALWAYS = {"optionId": "a", "name": "Always", "kind": "allow_always"}
NO = {"optionId": "n", "name": "No", "kind": "reject_once"}


@pytest.mark.parametrize("before", [0, 1990, 2100])
def test_what_is_too_long_to_be_shown_is_cut_when_it_is_redacted(before: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that the cut goes through would be found by nobody any more."""
    for module in (permit, answers):
        monkeypatch.setattr(module, "redactor", knowing(TOKEN))
    call = {"title": f"use {TOKEN}", "kind": "read", "rawInput": {"text": "x" * before + TOKEN + "y" * 5_000}}
    person = Scripted(None)
    asyncio.run(permit.permitting(person)(call, [{"optionId": TOKEN, "name": f"with {TOKEN}", "kind": "allow_once"}]))
    shown = "\n".join(person.told)
    assert shown.splitlines()[0] == "The agent asks for permission: use ***"
    assert "with ***" in shown
    assert "ghp_" not in shown
    assert "characters are not shown" in shown


@pytest.mark.parametrize(
    ("key", "options", "answer"),
    [
        ("y", [ALWAYS, ONCE, NO], Answer("o")),
        ("a", [ALWAYS, ONCE, NO], Answer("a", always=True)),
        ("n", [ALWAYS, ONCE, NO], Answer("n")),
        ("a", [ONCE, NO], Answer("o", always=True)),
        ("2", [ONCE, {**ONCE, "optionId": "again"}], Answer("again")),
        (None, [ONCE, ALWAYS, NO], Answer("n")),
        (None, [ONCE], Answer(None)),
    ],
)
def test_each_way_to_answer_has_a_key_and_no_answer_is_a_no(
    key: str | None, options: list[Any], answer: Answer
) -> None:
    """C-60, C-64: an option that was offered, chosen by its kind; nothing but what was offered."""
    found = asyncio.run(permit.permitting(Scripted(key))({"title": "Do it"}, options))
    assert found == answer


def test_what_would_be_changed_is_named_where_only_a_diff_names_it() -> None:
    person = Scripted("n")
    call = {"title": "Edit", "content": [{"type": "diff", "path": "/w/a.py", "newText": "x"}], "locations": [3, {}]}
    asyncio.run(permit.permitting(person)(call, [ONCE, NO]))
    assert "changes /w/a.py" in "\n".join(person.told)


def test_what_is_too_much_to_be_read_is_cut_with_a_word_about_the_rest() -> None:
    """Nothing an agent writes pushes out what it wants to do."""
    person = Scripted("n")
    call = {
        "title": "t" * 5_000,
        "kind": "k" * 600,
        "locations": [{"path": f"/w/{number}"} for number in range(3_000)],
        "rawInput": {f"key{number}": "x" for number in range(30)},
        "content": [{"type": "diff", "path": f"/d/{number}", "newText": ""} for number in range(21)],
    }
    asyncio.run(permit.permitting(person)(call, [ONCE, NO]))
    assert person.told == [
        f"The agent asks for permission: {'t' * 500}… [4,500 more characters]",
        f"    kind: {'k' * 500}… [100 more characters]",
        *(f"    /w/{number}" for number in range(20)),
        "    [... 2,980 more places are not shown ...]",
        *(f"    key{number}: x" for number in range(20)),
        "    [... 10 more arguments are not shown ...]",
        *(f"    changes /d/{number}  +0 -0" for number in range(20)),
        "    [... 1 more changes are not shown ...]",
        'Allow it? y Allow once ("Once") / n No / a Allow always (kept by acp-launch)',
    ]


def asked(monkeypatch: pytest.MonkeyPatch, *lines: str) -> str | None:
    waiting = list(lines)

    async def line() -> str:
        return waiting.pop(0)

    monkeypatch.setattr("acp_launch.console.ask.question._line", line)
    choices = [Choice("y", "Yes"), Choice("2", "The same again"), Choice("n", "No")]
    answer = asyncio.run(Questions(lambda: None).choose("Well?", choices))
    assert not waiting, "every line was read"
    return answer


@pytest.mark.parametrize(
    ("lines", "key"),
    [
        (["y\n"], "y"),
        (["YES\n"], "y"),
        (["1\n"], "y"),
        (["2\n"], "2"),
        (["3\n"], "n"),
        (["no\n"], "n"),
        (["\n"], None),
        ([""], None),
        (["4\n", "what?\n", "0\n", "y\n"], "y"),
    ],
)
def test_a_line_answers_by_key_or_number_and_anything_unclear_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, lines: list[str], key: str | None
) -> None:
    assert asked(monkeypatch, *lines) == key
