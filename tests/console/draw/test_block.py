"""Ring 2. An agent's Markdown on a terminal: it is shown as it should be, hides nothing and does nothing."""

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from acp_launch.console.draw.markdown import THEME, Block
from tests.console.drawn import Emulated, terminal

HOSTILE = [
    "\x1b]0;owned\x07",
    "\x1b[2J",
    "\x1b[31mred",
    "\x9b2J",
    "\x90q\x9c",
    "\x07",
    "\x08\x08",
    "\x0b\x0c",
    "\u202egnp.exe",
    "\u2066x\u2069",
    "\u200f",
    "&#x1b;[2J",
    "&#155;2J",
    "&#x202e;gnp",
    "&rlm;",
    "[x](http://a.b/\u202egnp)",
    "[x](<http://a.b/\x1b[2J>)",
    "`\x1b[2J`",
    "\x1b]8;;http://evil\x1b\\good\x1b]8;;\x1b\\",
    "[red]markup[/red] [link=http://evil]x[/link]",
    "```\x1b[2J\n\x1b[2J\n```",
    "| \x1b[2J |\n|---|\n| \x1b[2J |",
]
PIECES = [
    *HOSTILE,
    *(
        "a ",
        "\n",
        "\n\n",
        "- ",
        "1. ",
        "    ",
        "> ",
        "# ",
        "**",
        "`",
        "```py\n",
        "|a|b|\n|-|-|\n",
        "日本語",
        "👩‍👩‍👧",
        "e\u0301",
    ),
]


def drawn(text: str, width: int = 40, *, colours: bool = False) -> Emulated:
    file, console = terminal(width, 40, "256" if colours else None)
    console.print(Block(text))
    return file


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# Title\n\nSome **bold** `code`.", "Title\n\nSome bold code."),
        ("- one\n- two\n  - three", " • one\n • two\n    • three"),
        ("9. nine\n10. ten", "  9. nine\n 10. ten"),
        ("> quoted\n> text", "│ quoted text"),
        ("a\n\n---\n\nb", f"a\n\n{'─' * 40}\n\nb"),
        ("```py\nif x:\n\ty()\n```", "  if x:\n      y()"),
        ("```sh and hidden words\nls\n```", "  sh and hidden words\n  ls"),
        ("    indented", "  indented"),
        ("hard  \nbreak", "hard\nbreak"),
        ("one\n\n\n\ntwo", "one\n\ntwo"),
        ("", ""),
        (
            "| name | size |\n|:--|--:|\n| README.md | 1024 |\n| 日本語 | 7 |",
            "name       size\n───────────────\nREADME.md  1024\n日本語        7",
        ),
        ("a \x1b[2J b \u202e c &#x202e; d", "a \\x1b[2J b \\u202e c \\u202e d"),
        ("👩‍👧 x\u00a0y\u3000z", "👩👧 x y  z"),  # terminals disagree on the width of joined emoji
    ],
)
def test_markdown_is_laid_out(text: str, expected: str) -> None:
    assert drawn(text).text == expected


@pytest.mark.parametrize(
    ("width", "text", "expected"),
    [
        (10, "日本語の文章はここで折り返す", "日本語の文\n章はここで\n折り返す"),
        (
            20,
            "| key | meaning |\n|---|---|\n| a | several words that need room |",
            "key  meaning\n" + "─" * 20 + "\na    several words\n     that need room",
        ),
        (
            20,
            "|a|b|c|d|e|\n|-|-|-|-|-|\n|one|two|three|four|five|",
            "a | b | c | d | e\none | two | three |\nfour | five",
        ),
    ],
    ids=["wide characters", "cells", "more columns than fit"],
)
def test_where_there_is_little_room_it_is_wrapped(width: int, text: str, expected: str) -> None:
    assert drawn(text, width).text == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[good](http://evil.example/x)", "good (http://evil.example/x)"),
        ("[http://good](http://evil)", "http://good (http://evil)"),
        ("<http://a.b>", "http://a.b"),
        ("![a picture](http://evil/p.png)", "!a picture (http://evil/p.png)"),
        ("<!-- hidden --> and <b>bold</b>", "<!-- hidden --> and <b>bold</b>"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("[b]no markup[/b]", "[b]no markup[/b]"),
    ],
)
def test_nothing_is_hidden_behind_what_is_shown(text: str, expected: str) -> None:
    assert drawn(text).text == expected


def test_an_agents_text_cannot_drive_the_terminal_nor_reorder_what_is_read() -> None:
    """Only our own colours are escapes."""
    for hostile in HOSTILE:
        left = re.sub(r"\x1b\[[0-9;]*m", "", drawn(f"before {hostile} after", 60, colours=True).getvalue())
        assert left.replace("\n", "").isprintable()
        assert "before" in left
        assert "after" in left


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join), st.integers(1, 30))
def test_whatever_it_is_it_is_drawn_within_the_width_of_the_terminal(text: str, width: int) -> None:
    console = Console(width=width, height=10, force_terminal=True, color_system="256", highlight=False)
    for line in console.render_lines(Block(text), pad=False):
        told = "".join(segment.text for segment in line)
        assert told.isprintable()
        assert sum(segment.cell_length for segment in line) <= max(width, 10), told


def test_nothing_is_lost_in_deep_nesting() -> None:
    for mark in ["> ", "- ", "1. ", "[", "*a ", "**", "_a", "|", "![", "`", "<", "~~", "&#"]:
        for count in [15, 25, 1_300]:
            assert "".join(drawn(mark * count + "deep\n\nend", 100).text.split()).endswith("deepend")


def test_code_has_the_colours_of_its_language_and_none_without_colours() -> None:
    text = "```python\nreturn 1\n```"
    assert drawn(text, colours=True).styled("return").fg == "magenta"
    assert drawn(text).styled("return").fg == "default"
    assert drawn("```nonsense\nreturn 1\n```", colours=True).styled("return").fg == "default"


def test_the_lines_of_a_diff_and_the_words_of_a_program_have_colours_for_light_and_dark() -> None:
    diff = drawn("```diff\n-gone\n+come\n```", colours=True)
    assert (diff.styled("-gone").fg, diff.styled("+come").fg) == ("red", "green")
    program = drawn("```python\nx = 'text', 12  # said\n```", colours=True)
    assert (program.styled("'text").fg, program.styled("12").fg) == ("green", "cyan")
    assert not {"white", "black", "blue", "yellow"} & {style.color.name for style in THEME.values() if style.color}


def test_pygments_is_imported_only_for_a_block_with_a_language() -> None:
    said = (
        "import sys; from acp_launch.console.draw import live; from acp_launch.console.draw.markdown import Block;"
        "from rich.console import Console; shown = Console(force_terminal=True, color_system='standard');"
        "shown.print(Block('word\\n\\n    code')); assert 'pygments' not in sys.modules;"
        "shown.print(Block('```py\\n1\\n```')); assert 'pygments' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", said], check=True, capture_output=True)
