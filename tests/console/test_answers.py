"""What the answers to a permission question are called, and which key gives which."""

from typing import Any

import pytest

from acp_launch.console.answers import OURS, answers, label
from acp_launch.session.person import Answer, Choice


def option(kind: str, name: str = "", id: str = "") -> dict[str, Any]:
    return {"optionId": id or f"{kind} {name}", "name": name, "kind": kind}


def keys(options: list[Any]) -> dict[str, str | None]:
    return {way.choice.key: way.answer.option_id for way in answers(options).offered}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("allow_once", "Allow"),
        ("allow_once", "Yes, proceed"),
        ("allow_once", "ACCEPT"),
        ("allow_always", "Always allow in this session"),
        ("allow_always", "Yes, always for git"),
        ("reject_once", "Reject"),
        ("reject_once", "No, tell it what to do"),
        ("reject_once", "Don\u2019t"),
        ("reject_always", "Always deny"),
    ],
)
def test_a_name_that_plainly_says_what_its_kind_does_stands_alone(kind: str, name: str) -> None:
    assert label(kind, name) == name


@pytest.mark.parametrize(
    ("kind", "name", "shown"),
    [
        ("allow_always", "Deny", 'Allow always ("Deny")'),
        ("reject_once", "Allow once", 'Deny once ("Allow once")'),
        ("allow_always", "Allow once", 'Allow always ("Allow once")'),
        ("allow_once", "Always allow", 'Allow once ("Always allow")'),
        ("allow_always", "Yes, and don't ask again", 'Allow always ("Yes, and don\'t ask again")'),
        ("allow_once", "Yes, deny it", 'Allow once ("Yes, deny it")'),
        ("allow_once", "Allow nothing", 'Allow once ("Allow nothing")'),
        ("allow_once", "Nope", 'Allow once ("Nope")'),
        ("reject_once", "Nothing is denied", 'Deny once ("Nothing is denied")'),
        ("reject_always", "No", 'Deny always ("No")'),
        ("allow_once", "\u0410llow", 'Allow once ("\u0410llow")'),
        ("allow_once", "", "Allow once"),
        ("reject_always", "", "Deny always"),
        ("plan", "Deny", 'Unclear ("Deny")'),
        ("allow_once", "Write\n[n] it\x1b[2J\u202e", 'Allow once ("Write [n] it\\x1b[2J\\u202e")'),
        ("allow_once", "w" * 103, f'Allow once ("{"w" * 100}\u2026 [3 more characters]")'),
    ],
)
def test_any_other_name_stands_beside_our_word_for_the_kind(kind: str, name: str, shown: str) -> None:
    assert label(kind, name) == shown


def test_an_id_that_comes_twice_means_what_it_meant_first() -> None:
    twice = [option("reject_once", "Deny", "x"), option("allow_once", "Allow", "x"), option("allow_once", "Yes", "y")]
    found = answers(twice)
    assert [(way.choice, way.answer) for way in found.offered] == [
        (Choice("n", "Deny"), Answer("x")),
        (Choice("y", "Yes"), Answer("y")),
        (Choice("a", OURS), Answer("y", always=True)),
    ]
    assert found.dismissed == Answer("x")


def test_an_id_that_was_an_allowance_first_is_no_way_to_deny() -> None:
    found = answers([option("allow_once", "Allow", "x"), option("reject_once", "Deny", "x")])
    assert found.dismissed == Answer(None)
    assert [way.choice.key for way in found.offered] == ["y", "a"]


def test_of_three_hundred_options_each_that_is_shown_has_a_key_of_its_own() -> None:
    many = [*(option("allow_once", f"Allow {number}") for number in range(299)), option("reject_once", "No")]
    found = answers(many)
    shown = [way.choice.key for way in found.offered]
    assert "".join(shown) == "y23456789bcefghijklmopqrstuvwxzna"
    assert keys(many)["2"] == "allow_once Allow 1"
    assert keys(many)["b"] == "allow_once Allow 9"
    assert keys(many)["n"] == "reject_once No"
    assert found.left_out == ("[... 268 more options are not shown ...]",)
    assert found.dismissed == Answer("reject_once No")


def test_a_digit_is_the_number_in_the_list_on_a_bare_terminal() -> None:
    shown = answers([option("allow_once", str(number)) for number in range(12)]).offered
    assert all(int(way.choice.key) == place for place, way in enumerate(shown, 1) if way.choice.key.isdecimal())


def test_what_is_no_option_is_left_out() -> None:
    assert keys([3, {}, {"optionId": 4}, {"optionId": "o"}]) == {"1": "o"}
