"""The filter of a list to choose from."""

import pytest

from acp_launch.interactive.picker import PickList, match_rows

ROWS = [
    ("fix-42: Fix the rounding of prices", "3 hours ago", "12", "review"),
    ("Explain the parser", "yesterday", "1", "demo"),
    ("prefix the logs", "2 days ago", "3", "demo"),
    ("Übersicht der Preise", "2 days ago", "", "review"),
]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("", [0, 1, 2, 3]),
        ("fix", [0, 2]),  # the beginning of a word comes before text within one
        ("FIX", [0, 2]),
        ("demo", [1, 2]),
        ("the demo", [1, 2]),
        ("demo parser", [1]),  # words in any order
        ("arser", [1]),
        ("über", [3]),
        ("review 12", [0]),
        ("zzz", []),
        ("parser zzz", []),
        ("  ", [0, 1, 2, 3]),
    ],
)
def test_a_filter_finds_rows_by_words_the_best_first(typed: str, found: list[int]) -> None:
    assert match_rows(ROWS, typed) == found


def test_no_line_is_wider_than_the_terminal_and_texts_cannot_drive_it() -> None:
    rows = [("a title of an agent \x1b[2J " * 9, "just now", "1", "demo"), *ROWS]
    choices = PickList(title="Sessions", headings=("SESSION", "LAST USED", "TURNS", "PROFILE"), rows=rows, ends=[0])
    lines = choices.lines(60)
    assert max(map(len, lines)) <= 60
    assert all(line.isprintable() for line in lines)
    assert lines[1].endswith("…  just now     1      demo")
