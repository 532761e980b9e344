"""What servers say about logins, read. Pure."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_launch.mcp.http.wire import Challenge
from acp_launch.oauth.metadata import (
    AuthorizationServer,
    Resource,
    Unusable,
    canonical,
    covers,
    read_resource,
    read_server,
    resource_addresses,
    secret_method,
    server_addresses,
    wanted_scopes,
)

URL = "https://mcp.example/a/mcp"
ISSUER = "https://as.example/tenant"
WHERE = "https://mcp.example/.well-known/oauth-protected-resource"


# Where metadata is.


@pytest.mark.parametrize(
    ("url", "places"),
    [
        (URL, [f"{WHERE}/a/mcp", WHERE]),
        ("https://mcp.example", [WHERE]),
        ("https://mcp.example/", [WHERE]),
        ("https://mcp.example/mcp/?key=secret#x", [f"{WHERE}/mcp", WHERE]),
        (
            "https://mcp.example:8443/mcp",
            [
                "https://mcp.example:8443/.well-known/oauth-protected-resource/mcp",
                "https://mcp.example:8443/.well-known/oauth-protected-resource",
            ],
        ),
    ],
)
def test_a_resource_s_metadata_is_below_its_origin(url: str, places: list[str]) -> None:
    assert resource_addresses(url, Challenge()) == places


def test_the_place_that_the_server_names_is_first_and_none_is_asked_twice() -> None:
    named = "https://other.example/metadata"
    assert resource_addresses(URL, Challenge(resource_metadata=named)) == [named, f"{WHERE}/a/mcp", WHERE]
    assert resource_addresses(URL, Challenge(resource_metadata=WHERE)) == [WHERE, f"{WHERE}/a/mcp"]


@pytest.mark.parametrize(
    "named",
    [
        "http://other.example/x",
        "http://127.0.0.1/x",
        "https://localhost/x",
        "https://user@other.example/x",
        "https://other.example/x#y",
        "https://other.example/ x",
        "https://other.example\\@evil/x",
        "https://[oops/x",
        "file:///etc/passwd",
        "/relative",
        "https://other.example/" + "x" * 3000,
    ],
)
def test_a_place_that_no_request_may_go_to_is_refused(named: str) -> None:
    with pytest.raises(Unusable):
        resource_addresses(URL, Challenge(resource_metadata=named))


def test_a_server_on_this_machine_may_name_others_here() -> None:
    named = "http://localhost:9000/x"
    assert resource_addresses("http://127.0.0.1:8000/mcp", Challenge(resource_metadata=named))[0] == named


@pytest.mark.parametrize(
    ("issuer", "places"),
    [
        ("https://as.example", ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"]),
        ("https://as.example/", ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"]),
        (
            ISSUER,
            [
                "/.well-known/oauth-authorization-server/tenant",
                "/.well-known/openid-configuration/tenant",
                "/tenant/.well-known/openid-configuration",
            ],
        ),
    ],
)
def test_an_issuer_s_metadata_is_in_the_places_of_the_specification(issuer: str, places: list[str]) -> None:
    assert server_addresses(issuer) == [f"https://as.example{place}" for place in places]


# The resource.


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://MCP.example/", "https://mcp.example"),
        ("HTTPS://mcp.example:443/Mcp?key=secret#x", "https://mcp.example/Mcp"),
        ("http://[::1]:80/mcp/", "http://[::1]/mcp/"),
        ("https://mcp.example:8443", "https://mcp.example:8443"),
    ],
)
def test_a_server_s_name_as_a_resource_holds_no_query(url: str, name: str) -> None:
    assert canonical(url) == name


@pytest.mark.parametrize(
    "resource",
    [URL, "https://mcp.example", "https://mcp.example/", "https://MCP.example:443/a", "https://mcp.example/a/mcp/"],
)
def test_a_resource_covers_what_is_below_it(resource: str) -> None:
    assert covers(resource, URL)


@pytest.mark.parametrize(
    "resource",
    [
        "https://mcp.example/a/mc",
        "https://mcp.example/a/mcp/more",
        "http://mcp.example/a/mcp",
        "https://mcp.example:8443/a/mcp",
        "https://mcp.example.evil/a/mcp",
        "https://evil@mcp.example/a/mcp",
        "https://mcp.example/a/mcp#x",
        "https://mcp.example/a/mcp?x=y",
        "https://mcp.example/a\\mcp",
        "//mcp.example/a/mcp",
        "mcp",
        "https://[oops",
        "",
    ],
)
def test_another_resource_does_not(resource: str) -> None:
    assert not covers(resource, URL)


def test_a_document_that_says_nothing_is_not_metadata() -> None:
    assert read_resource({}, URL) is None
    assert read_server({}, ISSUER, near=False) is None


def test_a_resource_s_metadata_is_read() -> None:
    said = {"resource": URL, "authorization_servers": [ISSUER, "https://b.example"], "scopes_supported": ["a", "b c"]}
    found = read_resource({**said, "more": [1]}, URL)
    assert found == Resource(resource=URL, authorization_servers=(ISSUER,), scopes=("a", "b c"))
    other = read_resource(said, URL, "https://b.example")
    assert other is not None and other.authorization_servers == ("https://b.example",)


@given(
    st.dictionaries(
        st.sampled_from(["resource", "authorization_servers", "scopes_supported", "x"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=20), lambda inner: st.lists(inner, max_size=3)
        ),
    )
)
def test_any_object_is_read_or_refused(said: dict[str, Any]) -> None:
    try:
        read_resource(said, URL)
    except Unusable as error:
        assert error.how.isprintable()


# The authorization server.


def server(**members: Any) -> dict[str, Any]:
    said = {
        "issuer": ISSUER,
        "authorization_endpoint": f"{ISSUER}/authorize",
        "token_endpoint": "https://tokens.example/token",
        "code_challenge_methods_supported": ["plain", "S256"],
    }
    return {name: value for name, value in {**said, **members}.items() if value is not None}


def read(said: dict[str, Any], asked: str = ISSUER, *, is_old: bool = False) -> AuthorizationServer:
    found = read_server(said, asked, near=False, is_old=is_old)
    assert found is not None
    return found


def test_an_authorization_server_s_metadata_is_read() -> None:
    assert read(server()) == AuthorizationServer(
        issuer=ISSUER,
        authorization_endpoint=f"{ISSUER}/authorize",
        token_endpoint="https://tokens.example/token",
        challenges=("plain", "S256"),
    )
    more = read(
        server(
            registration_endpoint=f"{ISSUER}/register",
            device_authorization_endpoint=f"{ISSUER}/device",
            token_endpoint_auth_methods_supported=["none"],
            grant_types_supported=["authorization_code"],
            scopes_supported=["a"],
            authorization_response_iss_parameter_supported=True,
            client_id_metadata_document_supported=True,
        )
    )
    assert (more.registration_endpoint, more.device_authorization_endpoint) == (
        f"{ISSUER}/register",
        f"{ISSUER}/device",
    )
    assert (more.methods, more.grants, more.scopes) == (("none",), ("authorization_code",), ("a",))
    assert more.sends_issuer
    assert more.takes_documents


@pytest.mark.parametrize(
    "issuer", ["https://as.example/tenant/", "https://as.example", "HTTPS://as.example/tenant", "", None]
)
def test_metadata_of_another_issuer_is_refused(issuer: str | None) -> None:
    with pytest.raises(Unusable, match="its issuer is"):
        read(server(issuer=issuer))


def test_a_root_issuer_may_end_in_a_slash_or_not() -> None:
    """Libraries add one, and the name is the same (RFC 3986, section 6.2.3)."""
    assert read(server(issuer="https://as.example/"), "https://as.example").issuer == "https://as.example/"
    assert read(server(issuer="https://as.example"), "https://as.example/").issuer == "https://as.example"


def test_only_before_protected_resource_metadata_the_issuer_may_be_another_of_the_origin() -> None:
    origin = "https://as.example"
    assert read(server(), origin, is_old=True).issuer == ISSUER
    assert read(server(issuer=None), origin, is_old=True).issuer == origin
    for issuer in ("https://evil.example", "http://as.example", "oops", "https://[oops"):
        with pytest.raises(Unusable, match="its issuer is"):
            read(server(issuer=issuer), origin, is_old=True)
    with pytest.raises(Unusable, match="its issuer is"):
        read(server(), origin)


def test_codes_are_protected_by_pkce() -> None:
    for methods in (None, [], ["plain"]):
        with pytest.raises(Unusable, match="PKCE"):
            read(server(code_challenge_methods_supported=methods))
    assert read(server(code_challenge_methods_supported=None), is_old=True).issuer == ISSUER
    with pytest.raises(Unusable, match="PKCE"):
        read(server(code_challenge_methods_supported=["plain"]), is_old=True)


@pytest.mark.parametrize(
    "name",
    [
        "authorization_endpoint",
        "token_endpoint",
        "registration_endpoint",
        "revocation_endpoint",
        "device_authorization_endpoint",
    ],
)
@pytest.mark.parametrize(
    "address", ["http://as.example/x", "https://127.0.0.1/x", "https://as.example/x#y", "javascript:x"]
)
def test_no_secret_goes_to_an_endpoint_in_the_clear(name: str, address: str) -> None:
    with pytest.raises(Unusable, match=f"`{name}`"):
        read(server(**{name: address}))


# Clients and scopes.


@pytest.mark.parametrize(
    ("methods", "method"),
    [
        (None, "client_secret_basic"),
        (["none"], ""),
        (["client_secret_post"], "client_secret_post"),
        (["client_secret_post", "client_secret_basic"], "client_secret_post"),
        (["tls", "client_secret_basic", "client_secret_post"], "client_secret_basic"),
        (["private_key_jwt"], ""),
        ([], ""),
    ],
)
def test_a_client_with_a_secret_proves_who_it_is_as_the_server_says(methods: list[str] | None, method: str) -> None:
    found = read(server(token_endpoint_auth_methods_supported=methods))
    if method:
        assert secret_method(found) == method
    else:
        with pytest.raises(Unusable, match="takes no client secret"):
            secret_method(found)


def test_the_scopes_to_ask_for() -> None:
    """MCP "Scope selection strategy"."""
    known = read(server(scopes_supported=["offline_access", "everything"]))
    plain = read(server(scopes_supported=["everything"]))
    closed = read(server(scopes_supported=["offline_access"], grant_types_supported=["authorization_code"]))
    resource = Resource(resource=URL, authorization_servers=(ISSUER,), scopes=("a", "b"))
    challenge = Challenge(scopes=("a",))
    assert wanted_scopes((), challenge, resource, plain) == ("a",)
    assert wanted_scopes((), Challenge(), resource, plain) == ("a", "b")
    assert wanted_scopes(("b c", "d"), challenge, resource, plain) == ("d",)
    assert wanted_scopes(("mine",), challenge, resource, plain) == ("mine",)
    assert wanted_scopes((), Challenge(), None, plain) == ()
    assert wanted_scopes((), Challenge(), None, known) == ()
    assert wanted_scopes((), challenge, None, known) == ("a", "offline_access")
    assert wanted_scopes((), challenge, None, closed) == ("a",)
