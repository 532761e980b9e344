"""`ACP_LAUNCH_SECRET_<NAME>` (docs/secrets.md)."""

import pytest

from acp_launch.secret.value import Outcome, Secret, is_private, read_environment, variable


@pytest.mark.parametrize(
    ("name", "expected"),
    [("github", "ACP_LAUNCH_SECRET_GITHUB"), ("team/git-hub.2", "ACP_LAUNCH_SECRET_TEAM_GIT_HUB_2")],
)
def test_a_name_becomes_a_variable(name: str, expected: str) -> None:
    assert variable(name) == expected


def test_what_has_a_variable_is_found_and_an_empty_one_is_none() -> None:
    environ = {"ACP_LAUNCH_SECRET_A": "1", "ACP_LAUNCH_SECRET_EMPTY": ""}
    assert read_environment(["a", "b", "empty", "a"], environ) == {
        "a": Outcome("found", "ACP_LAUNCH_SECRET_A", Secret("1"))
    }


def test_one_that_cannot_be_used_is_not_passed_over() -> None:
    environ = {"ACP_LAUNCH_SECRET_BYTES": "abc\udcff", "ACP_LAUNCH_SECRET_LONG": "x" * (64 * 1024 + 1)}
    found = read_environment(["bytes", "long"], environ)
    assert [(outcome.state, outcome.reason) for outcome in found.values()] == [
        ("unavailable", "ACP_LAUNCH_SECRET_BYTES does not hold UTF-8 text"),
        ("too large", "ACP_LAUNCH_SECRET_LONG holds more than 64 KiB"),
    ]
    assert "abc" not in repr(found)


@pytest.mark.parametrize("name", ["ACP_LAUNCH_SECRET_A", "acp_launch_secret_a", "ACP_LAUNCH_PASSPHRASE"])
def test_what_holds_a_secret_is_private(name: str) -> None:
    assert is_private(name)


@pytest.mark.parametrize("name", ["ACP_LAUNCH_SECRETS__STORE", "ACP_LAUNCH_STATE_DIR", "PATH", "ACP_LAUNCH_ID"])
def test_other_variables_are_not(name: str) -> None:
    assert not is_private(name)
