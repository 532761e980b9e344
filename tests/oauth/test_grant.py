"""What is stored of a login. Pure."""

import pytest

from acp_launch.oauth.grant import MAX_GRANT_BYTES, Grant, OAuthClient, decode_grant, encode_grant
from acp_launch.secret.value import Secret

CLIENT = OAuthClient(issuer="https://as.example", token_endpoint="https://as.example/token", client_id="us")
GRANT = Grant(
    client=CLIENT,
    resource="https://mcp.example:8443/mcp",
    access=Secret("an-access-token"),
    refresh=Secret("a-refresh-token"),
    client_secret=Secret("a-registered-secret"),
    redirect_uri="http://127.0.0.1:8765/callback",
    issued=1_789_996_400.5,
    expires=1_790_000_000.5,
    is_renewed=True,
    scopes=("read", "write"),
)


def test_a_grant_comes_back_from_its_item_as_it_was() -> None:
    assert decode_grant(encode_grant(GRANT)) == GRANT


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": 2}', "\udc80", "[" * 5000])
def test_an_item_that_is_something_else_is_no_grant(text: str) -> None:
    assert decode_grant(Secret(text)) is None


def test_a_grant_has_a_bound() -> None:
    with pytest.raises(ValueError, match="16,384 bytes"):
        encode_grant(Grant(client=CLIENT, resource="https://mcp.example", access=Secret("x" * MAX_GRANT_BYTES)))


def test_a_grant_shows_none_of_its_secrets() -> None:
    assert not any(secret in repr(GRANT) for secret in ("an-access", "a-refresh", "a-registered"))


def test_each_issuer_resource_and_client_has_an_item_of_its_own() -> None:
    others = [
        Grant(
            client=OAuthClient(issuer=issuer, token_endpoint="", client_id=client),
            resource=resource,
            access=Secret("a"),
        )
        for issuer in ("https://as.example", "https://other.example")
        for client in ("us", "them")
        for resource in ("https://mcp.example", "https://mcp.example/b")
    ]
    names = {grant.name for grant in others}
    assert len(names) == len(others)
    assert all(name.startswith("oauth/mcp.example/") for name in names)
