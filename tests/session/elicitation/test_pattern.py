"""Patterns of forms: checked where they mean the same to us, and bounded in time and memory (C-76)."""

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_launch.session.elicitation import LONGEST_PATTERN, TooSlow, is_readable, matches
from tests.patience import PATIENCE


@pytest.mark.parametrize(
    ("pattern", "right", "wrong"),
    [
        (r"^\d{4}$", ["2026"], ["٢٠٢٦", "20266"]),
        (r"b", ["abc"], ["ac"]),
        (r"^\w+$", ["a_1"], ["é"]),
        (r"^[\w.-]+@[a-z\d-]+(\.[a-z\d-]+)+$", ["me.too@example.com"], ["me@example", "@"]),
        (r"^(?:a|b)(?=c)c(?!d)", ["ac", "bce"], ["acd"]),
        (r"(?<=a)b(?<!ab)$", [], ["ab"]),
        (r"^[a-c&&b]$", ["a", "&"], ["d"]),
        (r"^\x41\u0042\/\-\]\}\{$", ["AB/-]}{"], [r"\/"]),
        (r"^a{2,}?$", ["aaa"], ["a"]),
        (r"a\$", ["a$"], ["a"]),
        (r"[$^.]", ["$"], ["a"]),
        (r"^[^^]\b", ["a"], ["^"]),
    ],
)
def test_a_pattern_that_means_the_same_to_us_is_checked(pattern: str, right: list[str], wrong: list[str]) -> None:
    assert is_readable(pattern)
    assert [text for text in right if not matches(pattern, text)] == []
    assert [text for text in wrong if matches(pattern, text)] == []


DIFFERENT = [
    r"\p{L}",
    r"[]",
    r"^[^]$",
    r"^[[a]$",
    r"[[:alpha:]]",
    r"[\b]",
    r"^\cJ$",
    r"\u{1f600}",
    r"\0",
    r"^\e$",
    r"^a{e}$",
]
REFUSED = ["(", "[a", "a++", "(?i)a", "(?R)", "(?P<x>a)", "(*FAIL)", "(?>a)", "a{2,1}", "\\", "(?|a)", "*", "()" * 501]


def test_what_may_mean_something_else_or_nothing_is_left_to_the_agent() -> None:
    for pattern in [*DIFFERENT, r"^(?<y>.)\k<y>\1$", "]", r"\Z", r"\m", r"\N{BULLET}", *REFUSED]:
        assert not is_readable(pattern)
        assert matches(pattern, "anything")


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "pattern",
    [r"(a+)+$", r"(a|a)*$", r"((((a{0,9999}){0,9999}){0,9999}){0,9999})$", r"((a*)*)*$", r"(?=(a+)+b)"],
)
def test_a_pattern_that_backtracks_for_ever_is_given_up(pattern: str) -> None:
    with pytest.raises(TooSlow):
        matches(pattern, "a" * 10_000 + "!")


@pytest.mark.parametrize(
    "pattern", ["(?:a?){999999999}b", "a{9999999}", "((?:a?){1000}){1000}b", r"(?:\b){9999999}c", "(?:(a{200}){100}b)"]
)
def test_a_pattern_that_would_take_gigabytes_is_not_readable(pattern: str) -> None:
    assert not is_readable(pattern)


def test_an_absurdly_long_pattern_is_not_readable() -> None:
    assert is_readable("a" * LONGEST_PATTERN)
    assert not is_readable("a" * (LONGEST_PATTERN + 1))


def test_counts_one_after_another_do_not_multiply() -> None:
    identifier = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    assert is_readable(f"^({identifier},){{10}}{identifier}$")


LIMITED = """
import json, resource, sys, time
from acp_launch.session.elicitation import TooSlow, matches
resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))
matches("a", "a")
began = time.monotonic()
for pattern in json.loads(sys.argv[1]):
    try:
        matches(pattern, "a" * 100_000 + "!")
    except TooSlow:
        pass
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps([time.monotonic() - began, int(status["VmHWM"].split()[0])]))  # ru_maxrss is also our parent's
"""


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS means something only there")
def test_no_pattern_takes_the_memory_of_the_machine() -> None:
    """The clock alone would not keep `regex` from it: see WIDEST."""
    patterns = ["(?:a?){4000}b", "(a?){3000}$", "((a?){50}){60}b", "(a|b|ab)*c", "(?:a?){999999999}b", "(a*)*(a*)*$"]
    argv = [sys.executable, "-c", LIMITED, json.dumps(patterns)]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, check=True)
    _, memory = json.loads(ended.stdout)
    assert memory < 200 << 10


PIECES = st.sampled_from(
    [
        *"ab01()[]{}*+?|^$\\.,-:=!<>&~dwsbkpuxc ",
        "(?:",
        "(?=",
        "(?<=",
        "(?<n>",
        r"\k<n>",
        "{1,9}",
        "{0,}",
        r"\p{L}",
        r"\1",
    ]
)


@settings(max_examples=500, deadline=None)
@given(st.lists(PIECES, max_size=30).map("".join) | st.text(max_size=30), st.text("ab01 \n", max_size=20))
def test_any_text_is_a_pattern_or_is_not(pattern: str, text: str) -> None:
    """Neither an exception nor a warning (warnings are errors here)."""
    try:
        answer = matches(pattern, text)
    except TooSlow:
        return
    assert answer in (True, False)
    assert is_readable(pattern) or answer
