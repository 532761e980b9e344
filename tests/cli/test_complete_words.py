"""A line as bash reads it, cut anywhere; and what it makes of the words that are put there."""

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_launch.cli.completing.words import quoted, split, unquoted

MARKS = st.text(st.sampled_from(" ab'\"\\$`!\n\t=:~*é"), max_size=20)


@pytest.mark.parametrize(
    ("line", "words", "raw", "quote"),
    [
        ("", [""], "", ""),
        ("a", ["a"], "a", ""),
        ("a ", ["a", ""], "", ""),
        ("  a  b", ["a", "b"], "b", ""),
        ("a b\\ c", ["a", "b c"], "b\\ c", ""),
        ("a b\\", ["a", "b"], "b\\", ""),
        ("a 'b c", ["a", "b c"], "'b c", "'"),
        ("a 'b c'", ["a", "b c"], "'b c'", ""),
        ('a "b \\" \\$ \\x', ["a", 'b " $ \\x'], '"b \\" \\$ \\x', '"'),
        ("a x'y'\"z", ["a", "xy" + "z"], "x'y'\"z", '"'),
        ('a "" ', ["a", "", ""], "", ""),
        ('a "', ["a", ""], '"', '"'),
        ("a 'b'\\''c", ["a", "b'c"], "'b'\\''c", "'"),
    ],
)
def test_a_line_is_read_as_a_shell_reads_it(line: str, words: list[str], raw: str, quote: str) -> None:
    found = split(line)
    assert [word.text for word in found] == words
    assert (found[-1].raw, found[-1].quote) == (raw, quote)


@given(MARKS)
def test_no_line_is_too_broken_to_be_read(line: str) -> None:
    words = split(line)
    assert "".join(word.raw for word in words) == "".join(_without_spaces(line, [word.raw for word in words]))
    assert unquoted(line) is not None


def _without_spaces(line: str, raws: list[str]) -> list[str]:
    """Every word is found in the line, in order, with nothing but white space between two of them."""
    for raw in raws:
        before, _, line = line.partition(raw) if raw else (line, "", "")
        assert not before.strip(), (before, raw)
    assert not line.strip()
    return raws


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
    (_, word) = split(f"x {quote}{quoted(text, quote)}") if text or quote else split("x ")
    assert (word.text, word.quote) == (text, quote)
