"""Ring 1. Where a growing text is finished."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.console.markdown import finished

PIECES = st.lists(st.sampled_from(["a", "\n", "\n\n", "```", "```py\n", "~~~\n", "- x\n", "  ", "````\n"]), max_size=30)


@pytest.mark.parametrize(
    ("text", "done"),
    [
        ("one paragraph", ""),
        ("one\n\ntwo", "one\n\n"),
        ("one\n\ntwo\n\nthree", "one\n\ntwo\n\n"),
        ("```py\na\n\nb\n", ""),
        ("```py\na\n\nb\n```\n\nafter", "```py\na\n\nb\n```\n\n"),
        ("````\n```\n\n```\n", ""),
        ("~~~\n\n~~~\n\nx", "~~~\n\n~~~\n\n"),
        ("one\n   \ntwo", "one\n   \n"),
        ("one\n\n", "one\n\n"),
    ],
)
def test_a_blank_line_outside_of_code_finishes_what_is_before_it(text: str, done: str) -> None:
    if "\n\n" not in text:
        assert finished(text) == ("", text)
    else:
        assert finished(text) == (done, text[len(done) :])


@given(PIECES)
def test_nothing_is_lost_however_it_is_cut(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert "".join(finished(text)) == text


@given(PIECES)
def test_growing_piece_by_piece_finishes_the_same_text(pieces: list[str]) -> None:
    printed = rest = ""
    for piece in pieces:
        done, rest = finished(rest + piece)
        printed += done
    assert printed + rest == "".join(pieces)
