"""The `${…}` grammar: ours (DESIGN §4)."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.secret.reference import (
    PATTERN,
    VARIABLES,
    BadReference,
    EnvironmentReference,
    Part,
    SecretReference,
    VariableReference,
    parse,
)

NAMES = st.from_regex(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)?", fullmatch=True)
DEFAULTS = st.none() | st.text().filter(lambda text: "}" not in text and "${" not in text)
REFERENCES: st.SearchStrategy[Part] = st.one_of(
    st.builds(EnvironmentReference, NAMES, DEFAULTS),
    st.builds(SecretReference, NAMES),
    st.builds(VariableReference, st.sampled_from(sorted(VARIABLES))),
)
# A `$` directly before a reference cannot be written: `$${` is the escape.
LITERALS = st.text(min_size=1).filter(lambda text: not text.endswith("$"))


def written(parts: list[Part]) -> str:
    return "".join(part.replace("${", "$${") if isinstance(part, str) else str(part) for part in parts)


def joined(parts: list[Part]) -> list[Part]:
    """Neighbouring literals as one."""
    merged: list[Part] = []
    for part in parts:
        last = merged[-1] if merged else None
        if isinstance(part, str) and isinstance(last, str):
            merged[-1] = last + part
        else:
            merged.append(part)
    return merged


@given(st.lists(st.one_of(REFERENCES, LITERALS)))
def test_what_was_written_is_read_back(parts: list[Part]) -> None:
    merged = joined(parts)
    if any(isinstance(part, str) and re.search(r"\$\$\{", part) for part in merged):
        return  # "$${" as a literal would need an escape of the escape
    assert list(parse(written(merged))) == merged


@given(st.text(alphabet="${}envscrt:-/ aX1\n") | st.text())
def test_any_text_parses_or_is_a_bad_reference_at_a_dollar(text: str) -> None:
    try:
        parts = parse(text)
    except BadReference as bad:
        assert text.startswith("${", bad.offset)
        assert str(bad) and bad.fix
        return
    assert all(parts)


@given(st.text(alphabet="${}env:secrthom/-. A\n", max_size=30))
def test_the_schemas_pattern_accepts_exactly_what_parses(text: str) -> None:
    try:
        parse(text)
        good = True
    except BadReference:
        good = False
    assert bool(re.match(PATTERN, text)) is good or text.endswith("\n")  # Python's `$` forgives a last newline


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ()),
        ("plain $HOME, $5 and $", ("plain $HOME, $5 and $",)),
        ("$${env:X}", ("${env:X}",)),
        ("$$HOME", ("$$HOME",)),
        ("${env:X}", (EnvironmentReference("X"),)),
        ("${env:X:-}", (EnvironmentReference("X", ""),)),
        ("${env:X:-a b:-c}", (EnvironmentReference("X", "a b:-c"),)),
        ("Bearer ${secret:team/git-hub}!", ("Bearer ", SecretReference("team/git-hub"), "!")),
        ("${project}/${profile}", (VariableReference("project"), "/", VariableReference("profile"))),
        ("${python}", (VariableReference("python"),)),
    ],
)
def test_each_form_means_what_the_design_says(text: str, parts: tuple[Part, ...]) -> None:
    assert parse(text) == parts


@pytest.mark.parametrize(
    ("text", "offset", "message"),
    [
        ("a ${GITHUB_TOKEN}", 2, "unknown reference ${GITHUB_TOKEN}; did you mean ${env:GITHUB_TOKEN}?"),
        ("${X:-y}", 0, "unknown reference ${X:-y}; did you mean ${env:X:-y}?"),
        ("${env:X:y}", 0, "unknown reference ${env:X:y}; did you mean ${env:X:-y}?"),
        ("${env.X}", 0, "unknown reference ${env.X}; did you mean ${env:X}?"),
        ("${ENV:X}", 0, "unknown reference ${ENV:X}; did you mean ${env:X}?"),
        ("${secrets:x}", 0, "unknown reference ${secrets:x}; did you mean ${secret:x}?"),
        ("${projct}", 0, "unknown reference ${projct}; did you mean ${project}?"),
        ("${foo bar}", 0, "unknown reference ${foo bar}"),
        ("${}", 0, "unknown reference ${}"),
        ("${secret:a b}", 0, "unknown reference ${secret:a b}; did you mean ${secret:a}?"),
        ("x${env:A", 1, 'this "${" has no closing "}"'),
        ("${env:A:-${secret:b}}", 0, "a default cannot hold another reference"),
    ],
)
def test_a_bad_reference_is_named_with_its_place_and_the_nearest_form(text: str, offset: int, message: str) -> None:
    with pytest.raises(BadReference) as caught:
        parse(text)
    assert (str(caught.value), caught.value.offset) == (message, offset)
