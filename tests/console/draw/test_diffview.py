"""Ring 2. A change of a file on a terminal."""

import pytest

from acp_launch.console.draw.tools import Diff
from tests.console.drawn import Emulated, terminal


def drawn(diff: Diff, width: int = 40) -> Emulated:
    file, console = terminal(width, 60, "standard")
    console.print(diff)
    return file


def test_a_change_has_its_path_its_size_and_its_numbered_lines() -> None:
    file = drawn(Diff("src/a.py", "one\ntwo\nthree\n", "one\n2\nthree\n"))
    assert file.text == "src/a.py  +1 -1\n1   one\n2 - two\n2 + 2\n3   three"
    assert file.styled("- two").fg == "red"
    assert file.styled("+ 2").fg == "green"


def test_a_long_change_is_cut_and_says_so() -> None:
    text = drawn(Diff("a", None, "x\n" * 1_000)).text
    assert text.splitlines()[-1] == "… 960 more lines"
    assert len(text.splitlines()) == 42


@pytest.mark.parametrize(
    ("diff", "width", "text"),
    [
        (Diff("a", None, "one\n"), 40, "a  new file, +1 -0\n1 + one"),
        (Diff("a", "x", "x\n"), 40, "a  +0 -0\nonly the line end at the end of the file"),
        (
            Diff("a\x1b[2J", None, "\x1b[2J\u202e[red]\tx\n"),
            40,
            "a\\x1b[2J  new file, +1 -0\n1 + \\x1b[2J\\u202e[red]  x",
        ),
        (
            Diff("a", None, "one two three four five\n"),
            16,
            "a  new file, +1\n-0\n1 + one two\n    three four\n    five",
        ),
        (Diff("a", None, "abcdefgh\n"), 9, "a  new\nfile, +1\n-0\n+ abcdefg\n  h"),
    ],
    ids=["new", "a line end", "hostile", "a long line", "narrow"],
)
def test_a_change_is_told_on_any_terminal(diff: Diff, width: int, text: str) -> None:
    """A long line goes on beside the gutter; where there is little room the numbers give way."""
    assert drawn(diff, width).text == text


def test_a_minified_line_is_cut_and_says_so() -> None:
    assert drawn(Diff("a", None, "x" * 1_000_000), 100).text.endswith("… 999,000 more characters")
