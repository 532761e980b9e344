"""A line as bash reads it, cut anywhere; and what it makes of the words that are put there."""

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_launch.cli.tab import quoted, split

MARKS = st.text(st.sampled_from(" ab'\"\\$`!\n\t=:~*é"), max_size=20)


@pytest.mark.parametrize(
    ("line", "words", "quote"),
    [
        ("", [""], ""),
        ("a", ["a"], ""),
        ("a ", ["a", ""], ""),
        ("  a  b", ["a", "b"], ""),
        ("a b\\ c", ["a", "b c"], ""),
        ("a b\\", ["a", "b"], ""),
        ("a 'b c", ["a", "b c"], "'"),
        ("a 'b c'", ["a", "b c"], ""),
        ('a "b \\" \\$ \\x', ["a", 'b " $ \\x'], '"'),
        ("a x'y'\"z", ["a", "xy" + "z"], '"'),
        ('a "" ', ["a", "", ""], ""),
        ('"" a', ["", "a"], ""),
        ('a "', ["a", ""], '"'),
        ("a 'b'\\''c", ["a", "b'c"], "'"),
    ],
)
def test_a_line_is_read_as_a_shell_reads_it(line: str, words: list[str], quote: str) -> None:
    assert split(line) == (words, quote)


@given(MARKS)
def test_no_line_is_too_broken_to_be_read(line: str) -> None:
    words, quote = split(line)
    assert words
    assert all(mark in line for mark in "".join(words))
    assert quote in ("", "'", '"')


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(st.characters(blacklist_categories=["Cc", "Cs"]), min_size=1, max_size=8), max_size=20))
@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_what_is_quoted_is_what_bash_reads(quote: str, texts: list[str]) -> None:
    """Not typed, so `!` means nothing."""
    line = "\n".join(f"printf '%s\\n' {quote}{quoted(text, quote)}{quote}" for text in texts)
    read = subprocess.run(["bash", "--norc"], input=line.encode(), capture_output=True, timeout=20, check=True)
    assert read.stdout.decode().split("\n")[:-1] == texts
    assert read.stderr == b""


@given(MARKS.filter(lambda text: "\n" not in text), st.sampled_from(["", "'", '"']))
def test_a_quoted_text_is_read_back_from_the_line(text: str, quote: str) -> None:
    """So that what was completed once can be completed further."""
    assert split(f"x {quote}{quoted(text, quote)}") == (["x", text], quote)
