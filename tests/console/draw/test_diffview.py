"""Ring 2. A change of a file on a terminal."""

from rich.console import Console

from acp_launch.console.draw.tools import Diff
from tests.console.drawn import Emulated


def drawn(diff: Diff, width: int = 40) -> Emulated:
    file = Emulated(width, 60)
    Console(file=file, force_terminal=True, width=width, height=60, color_system="standard", no_color=False).print(diff)
    return file


def test_a_change_has_its_path_its_size_and_its_numbered_lines() -> None:
    file = drawn(Diff("src/a.py", "one\ntwo\nthree\n", "one\n2\nthree\n"))
    assert file.text == "src/a.py  +1 -1\n1   one\n2 - two\n2 + 2\n3   three"
    assert file.styled("- two").fg == "red"
    assert file.styled("+ 2").fg == "green"


def test_a_new_file_is_said_to_be_one() -> None:
    assert drawn(Diff("a", None, "one\n")).text == "a  new file, +1 -0\n1 + one"


def test_a_long_change_is_cut_and_says_so() -> None:
    text = drawn(Diff("a", None, "x\n" * 1_000)).text
    assert text.splitlines()[-1] == "… 960 more lines"
    assert len(text.splitlines()) == 42


def test_a_long_line_goes_on_beside_the_gutter() -> None:
    assert drawn(Diff("a", None, "one two three four five\n"), 16).text == (
        "a  new file, +1\n-0\n1 + one two\n    three four\n    five"
    )


def test_a_minified_line_is_cut_and_says_so() -> None:
    rows = drawn(Diff("a", None, "x" * 1_000_000), 100).text
    assert rows.endswith("… 999,000 more characters")


def test_a_change_of_the_last_line_end_alone_is_told() -> None:
    assert drawn(Diff("a", "x", "x\n")).text == "a  +0 -0\nonly the line end at the end of the file"


def test_what_is_in_a_file_does_not_drive_the_terminal() -> None:
    assert drawn(Diff("a\x1b[2J", None, "\x1b[2J\u202e[red]\tx\n")).text == (
        "a\\x1b[2J  new file, +1 -0\n1 + \\x1b[2J\\u202e[red]  x"
    )


def test_on_a_very_narrow_terminal_the_numbers_give_way() -> None:
    assert drawn(Diff("a", None, "abcdefgh\n"), 9).text == "a  new\nfile, +1\n-0\n+ abcdefg\n  h"
