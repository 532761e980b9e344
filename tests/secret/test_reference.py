"""The `${…}` grammar: ours (docs/profiles.md)."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.secret.value import (
    PATTERN,
    VARIABLES,
    BadReference,
    EnvironmentReference,
    Part,
    SecretReference,
    VariableReference,
    misspelt,
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


def test_a_bad_reference_is_named_with_its_place_and_the_nearest_form() -> None:
    for text, offset, message in [
        ("a ${GITHUB_TOKEN}", 2, "unknown reference ${GITHUB_TOKEN}; did you mean ${env:GITHUB_TOKEN}?"),
        ("${X:-y}", 0, "unknown reference ${X:-y}; did you mean ${env:X:-y}?"),
        ("${env.X}", 0, "unknown reference ${env.X}; did you mean ${env:X}?"),
        ("${ENV:X}", 0, "unknown reference ${ENV:X}; did you mean ${env:X}?"),
        ("${secrets:x}", 0, "unknown reference ${secrets:x}; did you mean ${secret:x}?"),
        ("${projct}", 0, "unknown reference ${projct}; did you mean ${project}?"),
        ("${foo bar}", 0, "unknown reference ${foo bar}"),
        ("${}", 0, "unknown reference ${}"),
        ("${secret:a:b}", 0, "unknown reference ${secret:a:b}"),
        ("${env.X:-a}", 0, "unknown reference ${env.X:-a}; did you mean ${env:X:-a}?"),
        ("${secret:}", 0, "the name is missing in ${secret:}"),
        ("${secret}", 0, "the name is missing in ${secret}"),
        ("${env:}", 0, "the name is missing in ${env:}"),
        ("${ENV}", 0, "unknown reference ${ENV}; did you mean ${env:ENV}?"),
        ("x ${secret:x:-def}", 2, "a secret has no default"),
        ("${secrets.x=${y}", 0, "a secret has no default"),
        ("x${env:A", 1, 'this "${" has no closing "}"'),
        ("${env:A:-${secret:b}}", 0, "a default cannot hold another reference"),
        *(
            (f"x${{secret:{name}}}", 1, f"${{secret:{name}}} holds the tokens of a login; a profile cannot use it")
            for name in ("oauth/mcp.example/0123456789abcdef", "OAuth/x")
        ),
    ]:
        with pytest.raises(BadReference) as caught:
            parse(text)
        assert (str(caught.value), caught.value.offset) == (message, offset)


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("${secret:}", "write ${secret:NAME}"),
        ("${env:}", "write ${env:NAME}"),
        ("${secret:x:-def}", "write ${secret:x}"),
        ("${X}", "write ${env:X}"),
        (
            "${env:git hub}",
            "use one of ${env:NAME}, ${env:NAME:-default}, ${secret:NAME}, ${project}, ${cwd}, ${workdir}, ${home}, "
            '${profile}, ${python}, or "$${" for a literal "${"',
        ),
    ],
)
def test_the_fix_is_a_reference_to_write(text: str, fix: str) -> None:
    with pytest.raises(BadReference) as caught:
        parse(text)
    assert caught.value.fix == fix


@pytest.mark.parametrize(
    ("text", "shown", "fix"),
    [
        ("${env:ACP_LAUNCH_PASSPHRASE}", "${env:ACP_LAUNCH_PASSPHRASE}", "remove it"),
        ("${env:acp_launch_Passphrase:-x}", "${env:acp_launch_Passphrase}", "remove it"),
        ("${ACP_LAUNCH_PASSPHRASE}", "${ACP_LAUNCH_PASSPHRASE}", "remove it"),
        ("${env.ACP_LAUNCH_PASSPHRASE}", "${env:ACP_LAUNCH_PASSPHRASE}", "remove it"),
        ("${env:ACP_LAUNCH_SECRET_X}", "${env:ACP_LAUNCH_SECRET_X}", "write ${secret:x}"),
        ("${env:ACP_LAUNCH_SECRET_X:-${secret:x}}", "${env:ACP_LAUNCH_SECRET_X}", "write ${secret:x}"),
        ("${ACP_LAUNCH_SECRET_X}", "${ACP_LAUNCH_SECRET_X}", "write ${secret:x}"),
        ("${ACP_LAUNCH_SECRET_X:-y}", "${ACP_LAUNCH_SECRET_X}", "write ${secret:x}"),
        ("${env:acp_launch_secret_Git_Hub}", "${env:acp_launch_secret_Git_Hub}", "write ${secret:git-hub}"),
        ("${env:ACP_LAUNCH_SECRET_}", "${env:ACP_LAUNCH_SECRET_}", "remove it"),
    ],
)
def test_no_profile_can_ask_for_what_is_for_acp_launch_alone(text: str, shown: str, fix: str) -> None:
    """A profile from an unknown author could hand the user's passphrase to any program."""
    with pytest.raises(BadReference) as caught:
        parse(f"a {text}")
    assert str(caught.value) == f"{shown} is reserved for acp-launch; a profile cannot use it"
    assert (caught.value.offset, caught.value.fix) == (2, fix)


@pytest.mark.parametrize("name", ["ACP_LAUNCH_SECRETS__STORE", "ACP_LAUNCH_PASSPHRASES", "MY_ACP_LAUNCH_SECRET_X"])
def test_a_variable_that_only_looks_like_one_of_ours_is_like_any_other(name: str) -> None:
    assert parse(f"${{env:{name}}}") == (EnvironmentReference(name),)


@pytest.mark.parametrize(
    ("text", "slices"),
    [
        ("plain $HOME ${env:X} ${secret:x} $${x y}", []),
        ("a ${x y} b ${secret:x:-d}", ["${x y}", "${secret:x:-d}"]),
        ("${env:A:-${secret:b}}", ["${env:A:-${secret:b}}"]),
        ("${env:ACP_LAUNCH_PASSPHRASE}${env:X}", ["${env:ACP_LAUNCH_PASSPHRASE}"]),
        ("${env:X} ${env:Y", ["${env:Y"]),
    ],
)
def test_a_misspelt_reference_reaches_to_its_braces(text: str, slices: list[str]) -> None:
    assert [text[start:end] for start, end in misspelt(text)] == slices


@given(st.text(alphabet="${}env:secrthom/-. A\n", max_size=30))
def test_a_text_parses_exactly_if_nothing_in_it_is_misspelt(text: str) -> None:
    bad = list(misspelt(text))
    try:
        parse(text)
    except BadReference as fault:
        assert fault.offset == bad[0][0]
    else:
        assert bad == []
