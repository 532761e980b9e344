"""Ring 2. The rows that are drawn again: nothing of theirs is left behind, nothing above them is taken."""

import pytest
from rich.console import Console, Group
from rich.text import Text

from acp_launch.console.draw.live_region import Region
from tests.console.drawn import Emulated, terminal


class Drawn:
    def __init__(self, columns: int = 20, lines: int = 6) -> None:
        self.file, self.console = terminal(columns, lines)
        self.region = Region(self.console)


def rows(*texts: str) -> Group:
    return Group(*(Text(text) for text in texts))


def test_each_frame_replaces_the_one_before_and_what_is_printed_stands_above_and_stays() -> None:
    """The cursor is hidden as long as there is one; what is printed later wraps as it did."""
    drawn = Drawn()
    drawn.region.show(rows("one", "two", "three"))
    assert drawn.file.screen.cursor.hidden
    drawn.region.print(Text("printed"))
    drawn.region.show(rows("four"))
    assert drawn.file.text == "printed\nfour"
    drawn.region.close()
    assert (drawn.file.text, drawn.file.screen.cursor.hidden) == ("printed", False)
    drawn.file.write("0123456789" * 2 + "abc\n")
    assert drawn.file.text == "printed\n" + "0123456789" * 2 + "\nabc"


def test_a_frame_is_one_write_however_much_is_printed_with_it() -> None:
    drawn = Drawn()
    drawn.region.show(rows("first"))
    written = len(drawn.file.getvalue())
    for number in range(3):
        drawn.region.print(Text(f"line {number}"))
    assert len(drawn.file.getvalue()) == written
    drawn.region.show(rows("second"))
    assert drawn.file.getvalue()[written:].startswith("\x1b[?2026h\r\x1b[1A\x1b[Jline 0\nline 1\nline 2\n")
    assert drawn.file.text == "line 0\nline 1\nline 2\nsecond"


def test_it_is_never_taller_than_the_screen() -> None:
    drawn = Drawn(lines=4)
    drawn.region.print(Text("above"))
    for count in (10, 3, 20):
        drawn.region.show(rows(*(f"row {number}" for number in range(count))))
    assert drawn.file.text == "above\nrow 17\nrow 18\nrow 19"
    drawn.region.close()
    assert drawn.file.text == "above"


def test_a_row_that_the_terminal_finds_wider_than_we_do_takes_one_line_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Terminals do not agree on which characters are wide; this one thinks that every letter is."""
    monkeypatch.setattr("pyte.screens.wcwidth", lambda mark: 2 if mark.isalpha() else 1)
    drawn = Drawn(10)
    drawn.region.print(Text("up"))
    for text in ("abcdefghij", "klmnopqrst"):
        drawn.region.show(rows(text, "end"))
    drawn.region.close()
    assert drawn.file.screen.cursor.y == 1


def test_on_a_wider_terminal_nothing_is_left_behind() -> None:
    drawn = Drawn(20)
    drawn.region.print(Text("above"))
    drawn.region.show(rows("one two three four five six", "tail"))
    drawn.console.width = 60
    drawn.file.screen.resize(6, 60)
    drawn.region.show(rows("one two three four five six", "tail"))
    assert drawn.file.text == "above\none two three four five six\ntail"


def test_a_terminal_that_is_dumb_is_only_printed_on() -> None:
    file = Emulated(20, 6)
    console = Console(file=file, force_terminal=True, width=20, color_system=None, _environ={"TERM": "dumb"})
    region = Region(console)
    region.show(rows("drawn"))
    region.print(Text("printed"))
    region.close()
    assert file.getvalue() == "printed\n"
