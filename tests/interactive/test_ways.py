"""The rows of a question that a key answers, on screens of every size."""

import asyncio

from acp_launch.interactive.layout import question_rows, room
from acp_launch.interactive.questions import Question
from acp_launch.session.events import Choice

THREE = (Choice("y", "Allow once"), Choice("a", "Allow always"), Choice("n", "Deny"))


def drawn(width: int, rows: int, choices: tuple[Choice, ...] = THREE, *, is_open: bool = True) -> list[str]:
    async def text() -> list[str]:
        question = Question("Allow it?", choices, is_open=is_open)
        return ["".join(text for _, text in row) for row in question_rows(question, width, room(rows))]

    return asyncio.run(text())


def test_answers_that_fit_stand_side_by_side() -> None:
    assert drawn(80, 24) == ["▐ Allow it?", "▐ [y] Allow once  [a] Allow always  [n] Deny"]
    assert drawn(80, 9) == ["▐ Allow it?", "▐ [y] Allow once  [a] Allow always  [n] Deny"]


def test_a_row_has_as_many_answers_as_fit() -> None:
    assert drawn(40, 24) == ["▐ Allow it?", "▐ [y] Allow once  [a] Allow always", "▐ [n] Deny"]
    assert drawn(24, 24) == ["▐ Allow it?", "▐ [y] Allow once", "▐ [a] Allow always", "▐ [n] Deny"]


def test_an_answer_wider_than_the_screen_goes_on_in_the_next_row() -> None:
    """It breaks between words, and what goes on is barred."""
    rows = ["▐ [y] Allow", "▐ | once", "▐ [a] Allow", "▐ | always", "▐ [n] Deny"]
    assert drawn(14, 24) == ["▐ Allow it?", *rows]


def test_where_the_answers_have_no_room_the_keys_stand_before_the_question() -> None:
    assert drawn(10, 3) == ["[y/a/n] A\u2026"]
    assert drawn(20, 4) == ["[y/a/n] Allow it?", "[y] Allow once"]


def test_no_key_is_shown_before_it_can_answer() -> None:
    assert drawn(80, 24, is_open=False) == ["▐ Allow it?", "▐ Allow once  Allow always  Deny"]
    assert drawn(11, 3, is_open=False) == ["▐ Allow it?"]


def test_it_never_needs_more_than_its_room_and_leaves_some_to_what_it_is_about() -> None:
    for width in [1, 2, 8, 10, 17, 80, 300]:
        for rows in [1, 2, 3, 4, 7, 24, 100]:
            many = tuple(Choice(key, "an answer of some length, \u6f22\u5b57" * 3) for key in "y23456789bcefghijklmn")
            shown = drawn(width, rows, many)
            assert len(shown) <= max(min(rows - 1, 1), min(rows - 2, max(5, rows // 2)))
            if width >= 10 and rows > 1 and shown[0] != "▐ Allow it?":
                assert shown[0].startswith("[y/2/3/4/")
