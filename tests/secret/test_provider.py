"""The one source of secrets so far: `ACP_LAUNCH_SECRET_<NAME>` (DESIGN §8)."""

import pytest

from acp_launch.secret.provider import lookup, remedy, variable
from acp_launch.secret.reference import SecretReference


@pytest.mark.parametrize(
    ("name", "expected"),
    [("github", "ACP_LAUNCH_SECRET_GITHUB"), ("team/git-hub.2", "ACP_LAUNCH_SECRET_TEAM_GIT_HUB_2")],
)
def test_a_name_becomes_a_variable(name: str, expected: str) -> None:
    assert variable(name) == expected


def test_found_and_missing_secrets_are_told_apart_in_one_pass() -> None:
    wanted = [SecretReference("a"), SecretReference("b"), SecretReference("empty"), SecretReference("a")]
    values, missing = lookup(wanted, {"ACP_LAUNCH_SECRET_A": "1", "ACP_LAUNCH_SECRET_EMPTY": ""})
    assert values == {"a": "1"}
    assert missing == (SecretReference("b"), SecretReference("empty"))


def test_the_remedy_is_a_command() -> None:
    assert remedy(SecretReference("github")) == "export ACP_LAUNCH_SECRET_GITHUB=..."
