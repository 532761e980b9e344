"""What a tool takes from elsewhere, there and here."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.interop.read import Untranslatable, translate
from acp_launch.interop.tools import Dialect
from acp_launch.secret.value import parse


@pytest.mark.parametrize(
    ("dialect", "text", "ours"),
    [
        ("none", "${A} $B {env:C}", "$${A} $B {env:C}"),
        ("shell", "${A}-${B:-x y}", "${env:A}-${env:B:-x y}"),
        ("shell", "$A ${1} ${}", "$A $${1} $${}"),
        ("shell", "${A:-}", "${env:A:-}"),
        ("dollar", "$A/${B}:$", "${env:A}/${env:B}:$"),
        ("dollar", "cost $5", "cost $5"),
        ("code", "${env:A} ${input:k} ${workspaceFolder}${/}x", "${env:A} ${secret:k} ${project}/x"),
        ("code", "${userHome}${pathSeparator}.x", "${home}/.x"),
        ("code", "${AUTH_HEADER} ${A:-b} ${} ${\x1b[31m}", "$${AUTH_HEADER} $${A:-b} $${} $${\x1b[31m}"),
        ("shell", "${CLAUDE_PROJECT_DIR:-.}/x ${CLAUDE_PROJECT_DIR}", "${project}/x ${project}"),
        ("commands", "$A ${B} $ $5", "${env:A} ${env:B} $ $5"),
        ("braces", "{env:A} {b} ${c}", "${env:A} {b} $${c}"),
    ],
)
def test_a_variable_is_translated_and_the_rest_is_text(dialect: Dialect, text: str, ours: str) -> None:
    assert translate(text, dialect, {"k"}) == ours
    parse(ours)


@pytest.mark.parametrize(
    ("dialect", "text", "why"),
    [
        ("code", "${command:pick}", "uses a variable that only the editor knows (command)"),
        ("code", "${input:other}", "asks for an input that the file does not describe"),
        ("code", "${workspaceFolder:api}", "names one of several workspace folders"),
        ("code", "${fileBasename}", "uses a variable that only the editor knows (fileBasename)"),
        ("commands", "x $(cat token)", "runs a command"),
        ("braces", "{file:~/.key}", "is read from a file"),
        ("braces", "{env:A B}", "names a variable with an invalid name"),
        ("shell", "${A:-${B}}", "has a variable in the default of another"),
        ("shell", "${ACP_LAUNCH_SECRET_GITHUB}", "names a variable that is reserved for acp-launch"),
        ("dollar", "$ACP_LAUNCH_PASSPHRASE", "names a variable that is reserved for acp-launch"),
        ("shell", "$${A}", 'has a "$" right before a variable'),
    ],
)
def test_what_has_no_counterpart_says_why_and_quotes_nothing(dialect: Dialect, text: str, why: str) -> None:
    with pytest.raises(Untranslatable) as untranslatable:
        translate(text, dialect, {"k"})
    assert str(untranslatable.value) == why


@given(st.sampled_from(["none", "shell", "dollar", "code", "braces"]), st.text("${}:-AB/env input", max_size=20))
def test_whatever_is_translated_is_text_of_a_profile(dialect: Dialect, text: str) -> None:
    try:
        ours = translate(text, dialect)
    except Untranslatable:
        return
    parts = parse(ours)
    if dialect == "none":
        assert parts == ((text,) if text else ())
