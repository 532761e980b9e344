"""Requests to a token endpoint: what is sent, what is believed of an answer, and how each failure is told."""

import asyncio
import base64
import json
import socket
from collections.abc import Iterator, Mapping

import pytest

from acp_launch.oauth import exchange
from acp_launch.oauth.exchange import Refused, ask, fetch, revoke
from acp_launch.oauth.grant import OAuthClient, Tokens
from acp_launch.secret.redact import Redactor
from acp_launch.secret.value import Secret
from tests.oauth.endpoint import Endpoint, Reply, said, serving
from tests.patience import PATIENCE

NOW = 1_790_000_000.0
FORM: Mapping[str, str | Secret] = {
    "grant_type": "refresh_token",
    "refresh_token": Secret("refresh-token-1"),
    "resource": "https://mcp.example/mcp",
}


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with serving() as endpoint:
        yield endpoint


@pytest.fixture(autouse=True)
def redactor(monkeypatch: pytest.MonkeyPatch) -> Redactor:
    """One for each test, so that none hides a word of another."""
    monkeypatch.setattr(exchange, "redactor", fresh := Redactor())
    return fresh


def asked(client: OAuthClient, secret: Secret | None = None, *, limit: float = PATIENCE) -> Tokens:
    return asyncio.run(ask(client, secret, FORM, limit=limit, clock=lambda: NOW))


def refused(client: OAuthClient, secret: Secret | None = None, *, limit: float = PATIENCE) -> Refused:
    with pytest.raises(Refused) as caught:
        asked(client, secret, limit=limit)
    assert caught.value.how.startswith(f"the authorization server {client.issuer} ")
    assert str(caught.value) == caught.value.how
    return caught.value


def without_server(refused: Refused, endpoint: Endpoint) -> str:
    return refused.how.removeprefix(f"the authorization server {endpoint.address} ")


# What is sent.


def test_a_public_client_names_itself_in_the_form(endpoint: Endpoint) -> None:
    asked(endpoint.client())
    (posted,) = endpoint.posted
    assert posted.path == "/token"
    assert posted.form == {
        "grant_type": "refresh_token",
        "refresh_token": "refresh-token-1",
        "resource": "https://mcp.example/mcp",
        "client_id": "us",
    }
    assert "Authorization" not in posted.headers
    assert posted.headers["Accept"] == "application/json"


def test_basic_form_encodes_both_parts_before_base64(endpoint: Endpoint) -> None:
    """RFC 6749, 2.3.1."""
    asked(endpoint.client(client_id="a:b c", method="client_secret_basic"), Secret("pä%+/:"))
    (posted,) = endpoint.posted
    kind, _, pair = posted.headers["Authorization"].partition(" ")
    assert (kind, base64.b64decode(pair)) == ("Basic", b"a%3Ab%20c:p%C3%A4%25%2B%2F%3A")
    assert posted.form["client_id"] == "a:b c"
    assert "client_secret" not in posted.form


def test_a_client_whose_secret_is_not_known_does_not_ask(endpoint: Endpoint) -> None:
    found = refused(endpoint.client(method="client_secret_basic"))
    assert without_server(found, endpoint) == "wants a client secret, and none is known"
    assert (found.fix, endpoint.posted) == ("name it in the profile: oauth.client_secret", [])


@pytest.mark.parametrize("address", ["http://as.example/token", "ftp://as.example/", "as.example", "https://"])
def test_nothing_is_sent_in_the_clear(address: str) -> None:
    with pytest.raises(Refused, match=r"is not an https address .*, so nothing was sent"):
        asked(OAuthClient(issuer="", token_endpoint=address, client_id="us"))


# What is believed.


def test_the_tokens_of_an_answer(endpoint: Endpoint) -> None:
    endpoint.script.append(
        said(access_token="an-access", token_type="bEaReR", expires_in=3600, refresh_token="a-refresh", scope="a b a")
    )
    assert asked(endpoint.client()) == Tokens(
        access=Secret("an-access"), refresh=Secret("a-refresh"), issued=NOW, expires=NOW + 3600, scopes=("a", "b")
    )


def test_an_answer_may_be_text_with_a_byte_order_mark(endpoint: Endpoint) -> None:
    endpoint.script.append(Reply(200, b'\xef\xbb\xbf {"access_token": "an-access"}\n', {"Content-Type": "text/html"}))
    assert asked(endpoint.client()) == Tokens(access=Secret("an-access"), issued=NOW)


@pytest.mark.parametrize(
    ("life", "expires"),
    [
        (60, 60.0),
        ("3600", 3600.0),
        (0, None),
        (True, None),
        ("soon", None),
        (None, None),
        (1e300, 365 * 86400.0),
    ],
)
def test_a_life_that_says_nothing_is_not_known(endpoint: Endpoint, life: object, expires: float | None) -> None:
    endpoint.script.append(said(access_token="an-access", expires_in=life))
    assert asked(endpoint.client()).expires == (None if expires is None else NOW + expires)


@pytest.mark.parametrize("token", ["", None, 7, "with space", "line\nbreak", "ümlaut", "x" * 20_000])
def test_a_token_that_no_header_can_hold_is_refused(endpoint: Endpoint, token: object) -> None:
    endpoint.script.append(said(access_token=token))
    found = refused(endpoint.client())
    assert without_server(found, endpoint) == "sent an access token that cannot be sent in a header"


@pytest.mark.parametrize("token", ["", None, 7, "line\nbreak"])
def test_a_refresh_token_that_is_none_counts_as_absent(endpoint: Endpoint, token: object) -> None:
    endpoint.script.append(said(access_token="an-access", refresh_token=token))
    assert asked(endpoint.client()).refresh is None


@pytest.mark.parametrize("kind", ["mac", "DPoP", 7, None])
def test_a_token_of_another_type_is_refused(endpoint: Endpoint, kind: object) -> None:
    endpoint.script.append(said(access_token="an-access", token_type=kind))
    assert refused(endpoint.client()).how.endswith("of a type that acp-launch does not know: it knows Bearer")


def id_token(claims: object) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"eyJhbGciOiJub25lIn0.{body}.c2lnbmVk"


@pytest.mark.parametrize(
    ("token", "account"),
    [
        (id_token({"email": "me@example.com", "name": "Me"}), "me@example.com"),
        (id_token({"preferred_username": " ", "name": "M\x1b[31me"}), "M [31me"),
        (id_token({"sub": "1234"}), ""),
        (id_token({"name": "x" * 500}), "x" * 160),
        ("a.YQ", ""),
        (7, ""),
    ],
)
def test_the_account_is_that_of_an_id_token(endpoint: Endpoint, token: object, account: str) -> None:
    endpoint.script.append(said(access_token="an-access", id_token=token))
    assert asked(endpoint.client()).account == account


# What fails.


@pytest.mark.parametrize(
    ("reply", "how", "fix"),
    [
        (
            said(400, error="invalid_grant", error_description="expired"),
            "refused: invalid_grant (expired)",
            "log in again",
        ),
        (
            said(401, error="invalid_client"),
            "refused: invalid_client",
            "check the client id and secret in the profile's `oauth`",
        ),
        (said(200, error="bad_refresh_token"), "refused: bad_refresh_token", "log in again"),
        (
            Reply(200, b"<html>Log in</html>"),
            "sent no access token",
            "try again, or ask its operator",
        ),
        (
            Reply(200, b"[" * 60_000),
            "sent no access token",
            "try again, or ask its operator",
        ),
        (Reply(404, b"<html>"), "answered 404 Not Found", "try again, or ask its operator"),
        (
            Reply(302, b"", {"Location": "https://elsewhere.example"}),
            "answered 302 Found; a redirect is not followed, as credentials would go elsewhere",
            "try again, or ask its operator",
        ),
        (
            Reply(429, b"", {"Retry-After": "7"}),
            "answered 429 Too Many Requests, and asks to wait 7 s",
            "try again later",
        ),
        (
            Reply(200, b"x" * (64 * 1024 + 1)),
            "sent more than 65,536 bytes",
            "",
        ),
        (
            Reply(200, b"not compressed at all", {"Content-Encoding": "gzip"}),
            "sent an answer that cannot be decompressed",
            "try again",
        ),
    ],
)
def test_each_failure_is_one_sentence(endpoint: Endpoint, reply: Reply, how: str, fix: str) -> None:
    endpoint.script.append(reply)
    found = refused(endpoint.client())
    assert (without_server(found, endpoint), found.fix) == (how, fix)
    assert len(endpoint.posted) == 1


@pytest.mark.parametrize(
    ("reply", "error", "is_final", "pause"),
    [
        (said(400, error="invalid_grant"), "invalid_grant", True, 0.0),
        (said(401, error="invalid_client"), "invalid_client", True, 0.0),
        (said(400, error="unauthorized_client"), "unauthorized_client", True, 0.0),
        (said(400, error="invalid_request"), "invalid_request", False, 0.0),
        (said(500, error="invalid_grant"), "invalid_grant", False, 0.0),
        (said(400, error="slow_down", headers={"Retry-After": "5"}), "slow_down", False, 5.0),
        (Reply(401, b""), "", False, 0.0),
        (Reply(429, b"", {"Retry-After": "7"}), "", False, 7.0),
    ],
)
def test_a_refusal_says_whether_the_grant_is_over(
    endpoint: Endpoint, reply: Reply, error: str, is_final: bool, pause: float
) -> None:
    endpoint.script.append(reply)
    found = refused(endpoint.client())
    assert (found.error, found.is_final, found.pause) == (error, is_final, pause)


def test_what_a_server_says_is_bounded_and_harmless(endpoint: Endpoint) -> None:
    endpoint.script.append(said(400, error="invalid_grant", error_description="no\x1b[2J\n" + "way " * 10_000))
    found = without_server(refused(endpoint.client()), endpoint)
    assert found.startswith("refused: invalid_grant (no [2J way way")
    assert found.isprintable() and len(found) < 200


def test_no_failure_quotes_a_token(endpoint: Endpoint) -> None:
    """Neither one that was sent, nor one that came with the error, nor what looks like one."""
    issued = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    endpoint.script.append(
        said(
            400,
            access_token="an-access-token",
            error="invalid_grant",
            error_description=f"refresh-token-1 of the-secret for an-access-token or {issued}",
        )
    )
    found = refused(endpoint.client(method="client_secret_post"), Secret("the-secret"))
    assert not any(each in found.how for each in ("refresh-token-1", "the-secret", "an-access-token", issued))


def test_every_token_is_known_to_the_redactor_before_it_is_used(endpoint: Endpoint, redactor: Redactor) -> None:
    token = id_token({"email": "me@example.com"})
    endpoint.script.append(said(access_token="an-access-token", refresh_token="a-new-refresh", id_token=token))
    asked(endpoint.client(method="client_secret_basic"), Secret("the-secret"))
    sent = endpoint.posted[0].headers["Authorization"].removeprefix("Basic ")
    every = ("an-access-token", "a-new-refresh", token, "refresh-token-1", "the-secret", sent)
    assert redactor.text(" ".join(every)) == " ".join(["***"] * len(every))


def test_a_server_that_does_not_answer_is_given_up(endpoint: Endpoint) -> None:
    endpoint.held.clear()
    found = refused(endpoint.client(), limit=0.2)
    assert (without_server(found, endpoint), found.fix) == ("did not answer within 0.2 s", "try again")


def test_a_server_that_does_not_run() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    found = refused(OAuthClient(issuer=address, token_endpoint=f"{address}/token?key=a", client_id="us"))
    assert found.how.endswith(" could not be reached: connection refused")
    assert found.fix == f"check the network, and try again ({address})"


# Revocation, and other requests.


def revoked(client: OAuthClient) -> bool:
    return asyncio.run(revoke(client, None, Secret("refresh-token-1"), hint="refresh_token", limit=PATIENCE))


def test_a_token_is_revoked(endpoint: Endpoint) -> None:
    """RFC 7009."""
    endpoint.script.append(Reply(200, b""))
    assert revoked(endpoint.client())
    (posted,) = endpoint.posted
    assert posted.path == "/revoke"
    assert posted.form == {"token": "refresh-token-1", "token_type_hint": "refresh_token", "client_id": "us"}


def test_a_server_without_revocation_is_not_asked(endpoint: Endpoint) -> None:
    assert not revoked(endpoint.client(revocation_endpoint=""))
    assert endpoint.posted == []


def test_a_refused_revocation_is_told(endpoint: Endpoint) -> None:
    endpoint.script.append(said(503, error="unsupported_token_type"))
    with pytest.raises(Refused, match="refused: unsupported_token_type"):
        revoked(endpoint.client())


def test_any_request_is_bounded_and_read_the_same_way(endpoint: Endpoint) -> None:
    endpoint.script.append(Reply(200, b'{"issuer": "x"}', {"X-Name": "value"}))
    answer = asyncio.run(fetch("GET", f"{endpoint.address}/metadata", limit=PATIENCE, headers={"X-Ours": "1"}))
    assert (answer.status, answer.said, answer.headers["x-name"]) == (200, {"issuer": "x"}, "value")
    assert (endpoint.posted[0].method, endpoint.posted[0].headers["X-Ours"]) == ("GET", "1")


def test_an_address_whose_name_leads_to_this_machine_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An MCP server elsewhere may name any; the user's own address may be in /etc/hosts."""
    with socket.create_server(("127.0.0.1", 0)) as plug:
        port = plug.getsockname()[1]
        monkeypatch.setattr(
            socket,
            "getaddrinfo",
            lambda *about, **more: [(socket.AF_INET, socket.SOCK_STREAM, 6, "", plug.getsockname())],
        )
        url = f"https://auth.example:{port}/token"
        with pytest.raises(Refused, match=r"its name leads to 127\.0\.0\.1, which is on this machine"):
            asyncio.run(fetch("GET", url, limit=PATIENCE))
        with pytest.raises(Refused, match=r"did not answer within"):
            asyncio.run(fetch("GET", url, limit=0.2, own=url))
