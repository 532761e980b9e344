"""Ring 1. What changed between two texts."""

from difflib import unified_diff

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.console.draw.difflines import COMPARED, CONTEXT, Line, changes

TEXTS = st.lists(st.sampled_from(["a", "b", "c", "", "d\x0c", "e\u2028f"]), max_size=30).map("\n".join)


def drawn(old: str | None, new: str) -> list[str]:
    return [f"{line.number or ''}{line.sign}{line.text}" for line in changes(old, new).lines]


def numbered(count: int, **changed: str) -> str:
    return "".join(changed.get(f"l{number}", f"line {number}") + "\n" for number in range(1, count + 1))


def test_a_changed_line_stands_among_three_lines_of_context() -> None:
    assert drawn(numbered(9), numbered(9, l5="changed")) == [
        "…1 line",
        "2 line 2",
        "3 line 3",
        "4 line 4",
        "5-line 5",
        "5+changed",
        "6 line 6",
        "7 line 7",
        "8 line 8",
    ]


def test_gone_lines_have_their_old_numbers_and_the_others_their_new_ones() -> None:
    assert drawn("a\nb\nc\n", "b\nc\nd\n") == ["1-a", "1 b", "2 c", "3+d"]


def test_changes_that_are_far_apart_have_a_gap_between_them() -> None:
    lines = changes(numbered(30), numbered(30, l3="x", l28="y")).lines
    assert [line.sign for line in lines].count("…") == 1
    assert lines[0].number == 1


@pytest.mark.parametrize(("old", "new"), [("", ""), ("a\n", "a\n"), ("a", "a\n"), (None, "")])
def test_where_no_line_differs_there_is_nothing_to_show(old: str | None, new: str) -> None:
    assert changes(old, new).lines == ()


@given(TEXTS, TEXTS)
def test_the_new_text_can_be_made_from_the_old_one_and_the_changes(old: str, new: str) -> None:
    before = old.removesuffix("\n").split("\n") if old else []
    after = new.removesuffix("\n").split("\n") if new else []
    made = changes(old, new)
    for line in made.lines:
        if line.sign == "-":
            assert before[line.number - 1] == line.text
        elif line.sign != "…":
            assert after[line.number - 1] == line.text
    gone = {line.number for line in made.lines if line.sign == "-"}
    come = {line.number: line.text for line in made.lines if line.sign == "+"}
    kept = iter([line for number, line in enumerate(before, 1) if number not in gone])
    assert [come[number] if number in come else next(kept) for number in range(1, len(after) + 1)] == after


@given(TEXTS, TEXTS)
def test_it_shows_something_just_when_a_unified_diff_does(old: str, new: str) -> None:
    made = changes(old, new)
    before = old.removesuffix("\n").split("\n") if old else []
    after = new.removesuffix("\n").split("\n") if new else []
    theirs = [
        line for line in unified_diff(before, after, n=CONTEXT, lineterm="") if not line.startswith(("---", "+++"))
    ]
    assert bool(made.lines) == bool(theirs)


def test_texts_too_long_to_compare_are_shown_as_replaced_where_they_differ() -> None:
    count = int(COMPARED**0.5) + 10
    old, new = ("".join(f"{word} {number}\n" for number in range(count)) for word in ("old", "new"))
    made = changes(f"head\n{old}tail\n", f"head\n{new}tail\n")
    assert (made.added, made.removed) == (count, count)
    assert (made.lines[0], made.lines[-1]) == (Line(" ", 1, "head"), Line(" ", count + 2, "tail"))
