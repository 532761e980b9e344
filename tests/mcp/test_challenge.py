"""What a server says when it refuses a request: read leniently, and within bounds."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.mcp.http.wire import CHALLENGES, SCOPES, Challenge, first_scopes, read_challenges

WHERE = "https://mcp.example/.well-known/oauth-protected-resource"
bearer = partial(Challenge, is_bearer=True)


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("Bearer", bearer()),
        ("", Challenge()),
        (f'Bearer resource_metadata="{WHERE}"', bearer(resource_metadata=WHERE)),
        (f"bearer resource_metadata={WHERE}", bearer(resource_metadata=WHERE)),
        (
            f'BEARER realm="a, b=\\"c\\"", resource_metadata = "{WHERE}"',
            bearer(resource_metadata=WHERE),
        ),
        ('Bearer scope="read  write read"', bearer(scopes=("read", "write"))),
        (
            'Bearer error="insufficient_scope",scope="a"',
            bearer(scopes=("a",), error="insufficient_scope"),
        ),
        (
            'Bearer error="invalid_token", error_description="the scope=x, Basic"',
            bearer(error="invalid_token"),
        ),
        ("Bearer error_description=Missing token, scope=read", bearer(scopes=("read",))),
        ('Basic realm="x", Bearer scope="a"', bearer(scopes=("a",))),
        ('Bearer scope="a", Basic realm="x", scope="b"', bearer(scopes=("a",))),
        ('Negotiate YWJj==, Bearer scope="a"', bearer(scopes=("a",))),
        (f'DPoP algs="ES256", resource_metadata="{WHERE}"', Challenge(resource_metadata=WHERE)),
        ('Bearer scope="a", scope="b"', bearer(scopes=("a",))),
        ('Bearer scope="a b', bearer(scopes=("a", "b"))),
        ('Bearer scope="ok \x1b[0m \\"q\\" é"', bearer(scopes=("ok",))),
    ],
)
def test_a_challenge_is_read_leniently(header: str, found: Challenge) -> None:
    assert read_challenges(header) == found


def test_challenges_in_several_headers_are_one() -> None:
    assert read_challenges('Basic realm="x", Bearer scope="a"').scopes == ("a",)


def test_only_a_lack_of_scopes_wants_more() -> None:
    assert read_challenges('Bearer error="insufficient_scope"').wants_more
    assert not read_challenges('Bearer error="invalid_token"').wants_more


@given(st.text(max_size=300) | st.text(alphabet='Bearer scope="\\=, ', max_size=300))
def test_any_challenge_can_be_read(text: str) -> None:
    found = read_challenges(text)
    assert all(" " not in scope and scope.isascii() for scope in found.scopes)


@pytest.mark.parametrize("flood", ['Bearer scope="', "a=" * 50_000, '"\\' * 50_000, "Bearer " * 50_000, "," * 100_000])
def test_a_challenge_is_read_up_to_its_bound(flood: str) -> None:
    beyond = f'{flood:,<{CHALLENGES}}, Bearer resource_metadata="{WHERE}"'
    assert read_challenges(beyond).resource_metadata == ""


def test_scopes_are_bounded() -> None:
    assert len(first_scopes(f"s{number}" for number in range(10_000))) == SCOPES
    assert first_scopes(["x" * 5000]) == ()
