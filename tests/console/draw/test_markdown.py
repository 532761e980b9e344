"""Ring 1. Where a growing text is finished."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.console.draw.markdown import MAX_PIECE_CHARS, Growing

PIECES = st.lists(
    st.sampled_from(["a", "\n", "\n\n", "```", "```py\n", "~~~\n", "- x\n", "  ", "````\n", "| a | b |\n|---|---|\n"]),
    max_size=30,
)


CODE = "```py\n" + "".join(f"line {number}\n" for number in range(500))


def grown(*pieces: str) -> tuple[list[str], str]:
    """What is finished, and the rest."""
    growing = Growing()
    for piece in pieces:
        growing.add(piece)
    done = [piece.text for piece in growing.take()]
    return done, growing.tail(1_000_000, 1_000_000)


def test_a_blank_line_finishes_what_is_before_it_unless_it_is_in_code_or_in_a_list() -> None:
    for done, rest in [
        ([], "one paragraph"),
        (["one\n\n"], "two"),
        (["one\n\n", "two\n\n"], "three"),
        ([], "```py\na\n\nb\n"),
        (["```py\na\n\nb\n```\n\n"], "after"),
        ([], "````\n```\n\n```\n"),
        (["~~~\n\n~~~\n\n"], "x"),
        (["one\n   \n"], "two"),
        ([], "one\n\n"),
        ([], "- a\n\n  still a\n\n- b\n\n"),
        (["1. a\n\n2. b\n\n"], "# Not in the list\n"),
        (["```inline``` code\n\n"], "after"),
        (["- a\n  ```\n  b\n\n  ```\n\n"], "after\n"),
    ]:
        assert grown("".join(done) + rest) == (done, rest)


@given(PIECES)
def test_nothing_is_lost_however_it_is_cut(pieces: list[str]) -> None:
    done, rest = grown(*pieces)
    assert "".join(done) + rest == "".join(pieces)


@given(PIECES)
def test_growing_piece_by_piece_finishes_the_same_text(pieces: list[str]) -> None:
    assert grown(*pieces) == grown("".join(pieces))
    assert grown(*"".join(pieces)) == grown("".join(pieces))


@pytest.mark.parametrize("text", ["word " * 10_000, "x" * 50_000, "a line\n" * 10_000, "```\n" + "code\n" * 10_000])
def test_no_piece_and_no_tail_is_longer_than_the_limit(text: str) -> None:
    done, rest = grown(*(text[at : at + 7] for at in range(0, len(text), 7)))
    assert len(done) >= 4
    assert max(map(len, [*done, rest])) <= MAX_PIECE_CHARS + 100
    assert "".join(done) + rest == text or text.startswith("```")
    assert text[0] != "w" or all(piece.endswith(" ") for piece in done), "a paragraph is cut between words"


def test_code_that_is_cut_goes_on_as_code() -> None:
    growing = Growing()
    growing.add("```python\n" + "code = 1\n" * 1_000 + "```\n\nafter\n")
    pieces = growing.take()
    assert [piece.goes_on for piece in pieces] == [False, True, True]
    assert all(piece.text.startswith("```python\n") for piece in pieces)
    assert "".join(piece.text for piece in pieces).count("code = 1\n") == 1_000
    assert growing.tail(100, 10) == "after\n"


def test_a_table_that_is_cut_goes_on_with_its_head() -> None:
    head = "| name | size |\n|------|------|\n"
    growing = Growing()
    growing.add(head + "| file | 1024 |\n" * 500)
    pieces = growing.rest()
    assert len(pieces) == 2
    assert all(piece.text.startswith(head) for piece in pieces)


@pytest.mark.parametrize(
    ("text", "size", "rows", "tail"),
    [
        (CODE, 30, 10, "```py\nline 497\nline 498\nline 499\n"),
        (CODE, 1_000, 2, "```py\nline 498\nline 499\n"),
        ("short\n" * 10, 1_000, 2, "short\n" * 10),  # the lines of a paragraph are no measure of its rows
    ],
)
def test_the_tail_begins_at_a_line_and_says_that_it_is_code(text: str, size: int, rows: int, tail: str) -> None:
    growing = Growing()
    growing.add(text)
    assert growing.tail(size, rows) == tail


def test_the_rest_is_all_that_is_left_and_the_next_text_begins_anew() -> None:
    growing = Growing()
    growing.add("```\nopen\n\n")
    assert [piece.text for piece in growing.rest()] == ["```\nopen\n\n"]
    growing.add("one\n\ntwo")
    assert [piece.text for piece in growing.take()] == ["one\n\n"]
