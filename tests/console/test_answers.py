"""What the answers to a permission question are called, and which key gives which."""

from typing import Any

import pytest

from acp_launch.console.ask.permission import AnswerChoice, answers, label
from acp_launch.session.events import Answer, Choice
from acp_launch.session.permission.policy import holds

WHERE = "acp-launch permission list p"
GOOD = f"Allow for good, listed by {WHERE}"


def option(kind: str, name: str = "", id: str = "") -> dict[str, Any]:
    return {"optionId": id or f"{kind} {name}", "name": name, "kind": kind}


def keys(options: list[Any]) -> dict[str, str | None]:
    return {way.choice.key: way.answer.option_id for way in answers(options, WHERE).offered}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("allow_once", "Allow"),
        ("allow_once", "Yes, proceed"),
        ("allow_once", "ACCEPT"),
        ("allow_always", "Always allow in this session"),
        ("allow_always", "Allow all server tools for this session"),
        ("allow_always", "Allow for Session"),
        ("reject_once", "Reject"),
        ("reject_once", "No, tell it what to do"),
        ("reject_once", "Don\u2019t"),
        ("reject_always", "Reject for this session"),
    ],
)
def test_a_name_that_plainly_says_what_its_kind_does_stands_alone(kind: str, name: str) -> None:
    assert label(kind, name, WHERE) == name


def test_any_other_name_stands_beside_our_word_for_the_kind() -> None:
    for kind, name, shown in [
        ("allow_always", "Deny", 'Allow from now on ("Deny")'),
        ("reject_once", "Allow once", 'Deny once ("Allow once")'),
        ("allow_always", "Allow once", 'Allow from now on ("Allow once")'),
        ("allow_once", "Always allow", 'Allow once ("Always allow")'),
        ("allow_once", "Allow for this session", 'Allow once ("Allow for this session")'),
        ("allow_always", "Deny for this session", 'Allow from now on ("Deny for this session")'),
        ("allow_always", "Yes, and don't ask again", 'Allow from now on ("Yes, and don\'t ask again")'),
        ("allow_always", "Allow All Edits", 'Allow from now on ("Allow All Edits")'),
        ("allow_once", "Yes, deny it", 'Allow once ("Yes, deny it")'),
        ("allow_once", "Allow nothing", 'Allow once ("Allow nothing")'),
        ("allow_once", "Nope", 'Allow once ("Nope")'),
        ("reject_once", "Nothing is denied", 'Deny once ("Nothing is denied")'),
        ("reject_always", "No", 'Deny from now on ("No")'),
        ("allow_once", "\u0410llow", 'Allow once ("\u0410llow")'),
        ("allow_once", "", "Allow once"),
        ("allow_always", "", "Allow from now on"),
        ("reject_always", "", "Deny from now on"),
        ("plan", "Deny", 'Unclear ("Deny")'),
        ("allow_once", "Write\n[n] it\x1b[2J\u202e", 'Allow once ("Write [n] it\\x1b[2J\\u202e")'),
        ("allow_once", "w" * 103, f'Allow once ("{"w" * 100}\u2026 [3 more characters]")'),
        ("allow_always", "Always allow", GOOD),
        ("allow_always", "Always", GOOD),
        ("allow_always", "Always Allow in project: npm test", f'{GOOD} ("Always Allow in project: npm test")'),
        ("allow_always", "Allow for all future sessions", f'{GOOD} ("Allow for all future sessions")'),
        ("reject_always", "Always deny", f"Deny for good, listed by {WHERE}"),
        (
            "reject_always",
            "Block example.com in the Future",
            f'Deny for good, listed by {WHERE} ("Block example.com in the Future")',
        ),
    ]:
        assert label(kind, name, WHERE) == shown


@pytest.mark.parametrize(
    ("life", "names"),
    [
        (
            "session",
            [
                "Always allow in this session",  # the demo agent
                "Allow for this session",  # gemini, for edits, commands and addresses
                "Allow tool for this session",
                "Allow all server tools for this session",
                "Allow All Edits",  # qwen
                "Yes, and auto-accept edits",
                "Yes, and don't ask again for npm test commands",  # claude
                "Yes, auto-accept edits",
                "Yes, allow reading from src/ from this project",
                "Yes, and switch to auto mode",
                "Allow for Session",  # codex
                "Allow Host for Session",
                "Allow Root for Session",
                "Allow Commands Starting With `npm`",
                "Yes, and don't ask again for this command in this session",
                "Always, until I restart",
                "Always allow for this conversation",
                "Always allow for 2 hours",
                "Always allow for now",
                "Allow",
                "",
                "\u672c\u4f1a\u8bdd\u59cb\u7ec8\u5141\u8bb8",
            ],
        ),
        (
            "always",
            [
                "Always",  # the older codex adapter
                "Always allow",  # opencode
                "Always Allow",
                "Always Allow ls",
                "Always Allow in project: npm run test",  # qwen
                "Always Allow for user: git push *",
                "Allow for this file in all future sessions",  # gemini, where its user wants that
                "Allow this command for all future sessions",
                "Allow tool for all future sessions",
                "Allow for all future sessions",
                "Allow example.com in the Future",  # codex
                "Allow in future",
                "Yes, and always allow access to src/ from this project",  # claude
                "Allow for every session",
            ],
        ),
    ],
)
def test_an_answer_lives_as_long_as_its_name_plainly_says(life: str, names: list[str]) -> None:
    """What no name says is not for good: most agents have forgotten their own "always" by the next session."""
    assert [name for name in names if holds("allow_always", name) != life] == []
    assert {holds(kind, name) for kind in ("allow_once", "reject_once", "plan") for name in names} == {"once"}


@pytest.mark.parametrize(
    ("name", "life"), [("Reject for this session", "session"), ("Never", "always"), ("No", "session")]
)
def test_a_no_lives_no_longer_than_its_name_says(name: str, life: str) -> None:
    assert holds("reject_always", name) == life


def test_the_letters_tell_how_long_an_answer_lives() -> None:
    found = answers(
        [
            option("allow_always", "Allow for all future sessions", "good"),
            option("allow_always", "Allow for this session", "session"),
            option("allow_once", "Allow", "once"),
            option("reject_once", "Reject", "no"),
        ],
        WHERE,
    )
    assert [(way.choice.key, way.answer) for way in found.offered] == [
        ("g", Answer("good", "always")),
        ("a", Answer("session", "session")),
        ("y", Answer("once")),
        ("n", Answer("no")),
    ]


def test_where_no_option_is_for_good_one_of_ours_is() -> None:
    found = answers([option("allow_once", "Allow", "y"), option("allow_always", "For this session", "s")], WHERE)
    assert found.offered[-1] == AnswerChoice(Choice("g", GOOD), Answer("y", "always"))
    only = answers([option("allow_always", "For this session", "s")], WHERE)
    assert only.offered[-1] == AnswerChoice(Choice("g", GOOD), Answer("s", "always"))
    assert "g" not in keys([option("reject_once", "No")])


def test_what_cannot_be_kept_is_not_said_to_be() -> None:
    """A plan, for instance: every one is another."""
    offered = [option("allow_always", "Always allow", "a"), option("allow_once", "Yes", "y")]
    found = answers(offered, WHERE, is_keepable=False)
    assert [(way.choice, way.answer) for way in found.offered] == [
        (Choice("a", 'Allow from now on ("Always allow")'), Answer("a")),
        (Choice("y", "Yes"), Answer("y")),
    ]


def test_an_id_that_comes_twice_means_what_it_meant_first() -> None:
    twice = [option("reject_once", "Deny", "x"), option("allow_once", "Allow", "x"), option("allow_once", "Yes", "y")]
    found = answers(twice, WHERE)
    assert [(way.choice, way.answer) for way in found.offered] == [
        (Choice("n", "Deny"), Answer("x")),
        (Choice("y", "Yes"), Answer("y")),
        (Choice("g", GOOD), Answer("y", "always")),
    ]
    assert found.dismissed == Answer("x")


def test_an_id_that_was_an_allowance_first_is_no_way_to_deny() -> None:
    found = answers([option("allow_once", "Allow", "x"), option("reject_once", "Deny", "x")], WHERE)
    assert found.dismissed == Answer(None)
    assert [way.choice.key for way in found.offered] == ["y", "g"]


def test_of_three_hundred_options_each_that_is_shown_has_a_key_of_its_own() -> None:
    many = [*(option("allow_once", f"Allow {number}") for number in range(299)), option("reject_once", "No")]
    found = answers(many, WHERE)
    shown = [way.choice.key for way in found.offered]
    assert "".join(shown) == "y23456789ng"
    assert keys(many)["2"] == "allow_once Allow 1"
    assert keys(many)["n"] == "reject_once No"
    assert found.left_out == ("[... 290 more options are not shown ...]",)
    assert found.dismissed == Answer("reject_once No")


def test_a_digit_is_the_number_in_the_list_on_a_bare_terminal() -> None:
    shown = answers([option("allow_once", str(number)) for number in range(12)], WHERE).offered
    assert all(int(way.choice.key) == place for place, way in enumerate(shown, 1) if way.choice.key.isdecimal())


def test_what_is_no_option_is_left_out() -> None:
    assert keys([3, {}, {"optionId": 4}, {"optionId": "o"}]) == {"1": "o"}
