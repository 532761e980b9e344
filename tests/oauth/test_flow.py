"""A login, with an MCP server and an authorization server on loopback that differ from what they should be."""

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest
from msgspec.structs import replace

from acp_launch.oauth import flow
from acp_launch.oauth.exchange import Refused, TokenAnswer
from acp_launch.oauth.flow import LoginFlow, Wanted, code_in
from acp_launch.oauth.grant import Grant, Login
from acp_launch.oauth.metadata import AuthorizationServer
from acp_launch.secret.value import Secret
from tests.oauth.authority import Authority, Browser, authority

PRM = "/.well-known/oauth-protected-resource"
ASM = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"
DOCUMENT = "https://us.example/client.json"


def logged_in(site: Authority, browser: Browser | None = None, **how: Any) -> tuple[Grant, Login]:
    login = {name: how.pop(name) for name in ("more", "registered") if name in how}
    given = {name: how.pop(name) for name in ("waiting", "patience", "device", "confirm") if name in how}
    wanted = Wanted(name="docs", url=how.pop("url", site.url), **how)
    return asyncio.run(LoginFlow(wanted, browser or Browser(), **given).log_in(**login))


def failed(site: Authority, browser: Browser | None = None, **how: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        logged_in(site, browser, **how)
    return caught.value


def parameters(browser: Browser) -> dict[str, str]:
    """Of the page that was opened last."""
    return {name: value for name, (value,) in parse_qs(urlsplit(browser.addresses[-1]).query).items()}


# What a login gives.


def test_a_login_gives_a_grant_and_a_record_of_it() -> None:
    browser = Browser()
    with authority(resource={"scopes_supported": ["read", "write"]}) as site:
        grant, login = logged_in(site, browser)
        (token,) = site.asked("as /token")
        (registration,) = site.asked("as /register")
        (first,) = site.asked("mcp /mcp")
    assert (grant.client.issuer, grant.client.client_id, grant.client.method) == (site.issuer, "client-1", "none")
    assert (grant.client.token_endpoint, grant.client.revocation_endpoint) == tuple(
        f"{site.issuer}/{each}" for each in ("token", "revoke")
    )
    assert grant.resource == site.url
    assert grant.refresh is not None
    assert grant.client_secret is None
    assert login == Login(
        url=site.url,
        client="",
        issuer=site.issuer,
        resource=site.url,
        client_id="client-1",
        item=grant.name,
        scopes=("read", "write"),
        since=grant.issued or 0.0,
        expires=grant.expires,
        is_renewed=True,
    )
    assert parameters(browser)["resource"] == token["form"]["resource"] == site.url
    assert "client_secret" not in token["form"]
    assert registration["body"]["application_type"] == "native"
    assert registration["body"]["redirect_uris"] == [browser.redirect_uri]
    assert registration["body"]["grant_types"] == ["authorization_code", "refresh_token"]
    assert first["authorization"] == ""


def test_each_login_has_a_state_and_a_challenge_of_its_own() -> None:
    browser = Browser()
    with authority() as site:
        for _ in range(2):
            logged_in(site, browser)
    one, other = (parse_qs(urlsplit(address).query) for address in browser.addresses)
    assert not {one[name][0] for name in ("state", "code_challenge")} & {
        other[name][0] for name in ("state", "code_challenge")
    }
    assert len(one["state"][0]) >= 40


def test_an_sse_server_is_asked_with_get() -> None:
    with authority() as site:
        logged_in(site, type="sse")
        assert [each["verb"] for each in site.asked("mcp /mcp")] == ["GET"]


# Where metadata is.


@pytest.mark.parametrize(
    ("temper", "asked"),
    [
        ({}, [f"{PRM}/mcp"]),
        ({"is_named": False}, [f"{PRM}/mcp"]),
        ({"place": "root"}, [PRM]),
        ({"place": "root", "is_named": False}, [f"{PRM}/mcp", PRM]),
        ({"place": "{as}/elsewhere.json"}, []),
        ({"answers": {f"mcp {PRM}/mcp": {"body": "<html>"}}, "place": "root", "is_named": False}, [f"{PRM}/mcp", PRM]),
    ],
)
def test_the_server_s_metadata_is_looked_for_where_it_may_be(temper: dict[str, Any], asked: list[str]) -> None:
    with authority(**temper) as site:
        grant, _ = logged_in(site)
        assert [each["path"] for each in site.log if each["to"] == "mcp" and each["path"] != "/mcp"] == asked
    assert grant.client.issuer == site.issuer


def test_the_authorization_server_s_metadata_is_looked_for_in_the_given_order() -> None:
    places = [f"{ASM}/tenant", f"{OPENID}/tenant", f"/tenant{OPENID}"]
    for last, place in enumerate(places):
        with authority(issuer_path="/tenant", metadata_path=place) as site:
            logged_in(site)
            asked = [each["path"] for each in site.log if each["to"] == "as" and "well-known" in each["path"]]
            assert asked == places[: last + 1]


def test_a_server_without_metadata_may_have_that_of_its_authorization_server() -> None:
    """MCP 2025-03-26: also without a word on PKCE."""
    metadata = (
        '{"issuer": "{mcp}/auth", "authorization_endpoint": "{as}/authorize", "token_endpoint": "{as}/token", '
        '"registration_endpoint": "{as}/register"}'
    )
    with authority(place="none", answers={f"mcp {ASM}": {"body": metadata}}) as site:
        grant, login = logged_in(site)
    assert login.issuer == f"{site.mcp}/auth"
    assert grant.resource == site.url


def test_a_server_without_any_metadata_has_no_login() -> None:
    with authority(place="none") as site:
        assert failed(site).how == 'the MCP server "docs" has no metadata for a login'


def test_a_server_that_wants_no_login_is_said_to_be_one() -> None:
    plain = {"body": "{}", "headers": {"Content-Type": "application/json"}}
    with authority(place="none", answers={"mcp /mcp": plain}) as site:
        assert failed(site).how == 'the MCP server "docs" does not ask for a login'


# What is refused.

EVIL = "https://evil.example"


@pytest.mark.parametrize(
    ("temper", "said"),
    [
        ({"resource": {"resource": f"{EVIL}/mcp"}}, "metadata of another resource: https://evil.example/mcp instead"),
        ({"resource": {"authorization_servers": ["http://as.example"]}}, "which is not https"),
        ({"resource": {"resource": 5}}, "cannot be used: Expected `str`"),
        ({"place": "http://evil.example/metadata"}, "http://evil.example/metadata, which is not https"),
        ({"server": {"issuer": EVIL}}, "its issuer is https://evil.example instead of"),
        ({"server": {"code_challenge_methods_supported": None}}, "does not protect the login with PKCE"),
        ({"server": {"token_endpoint": None}}, "missing required field `token_endpoint`"),
        ({"server": {"authorization_endpoint": "javascript:alert(1)"}}, "javascript:alert(1), which cannot be used"),
        ({"server": {"token_endpoint": "https://gіthub.example/t"}}, "which cannot be used"),  # noqa: RUF001
        ({"server": {"token_endpoint_auth_methods_supported": ["private_key_jwt"]}}, "private_key_jwt"),
        ({"server": {"registration_endpoint": None}}, "accepts only registered clients"),
        ({"metadata_path": "/nowhere"}, "has no metadata"),
        ({"answers": {f"mcp {PRM}/mcp": {"status": 503}}}, 'the MCP server "docs" answered 503'),
        ({"answers": {f"as {ASM}": {"status": 500}}, "metadata_path": "/nowhere"}, "answered 500"),
        ({"answers": {f"mcp {PRM}/mcp": {"body": " " * 70_000}}}, 'the MCP server "docs" sent more than 65,536 bytes'),
        ({"answers": {f"as {ASM}": {"body": "[" * 60_000}}}, "has no metadata"),
        (
            {"answers": {"as /register": {"status": 400, "body": '{"error": "invalid_redirect_uri"}'}}},
            "invalid_redirect",
        ),
        ({"answers": {"as /register": {"status": 201, "body": '{"client_id": 5}'}}}, "no client id"),
        ({"registration": {"token_endpoint_auth_method": "private_key_jwt"}}, "registered us for `private_key_jwt`"),
        ({"registration": {"token_endpoint_auth_method": "client_secret_basic"}}, "which we cannot use"),
    ],
)
def test_no_browser_is_opened_for_what_cannot_be_trusted(temper: dict[str, Any], said: str) -> None:
    browser = Browser()
    with authority(**temper) as site:
        assert said in failed(site, browser).how
        assert site.asked("as /token") == []
    assert browser.addresses == []


class User:
    """A user who is asked, and answers all questions alike."""

    def __init__(self, answer: bool = True) -> None:
        self.answer, self.questions = answer, list[str]()

    async def __call__(self, what: str, question: str) -> bool:
        self.questions.append(f"{what}. {question}")
        return self.answer


@pytest.mark.parametrize(
    "endpoint",
    [
        "authorization_endpoint",
        "token_endpoint",
        "registration_endpoint",
        "revocation_endpoint",
        "device_authorization_endpoint",
    ],
)
def test_endpoints_of_several_origins_are_used_after_the_user_has_confirmed_both(endpoint: str) -> None:
    """A server may name the page of another party, and an endpoint of its own that gets the code."""
    browser, user = Browser(), User(answer=False)
    with authority(server={endpoint: "{mcp}/elsewhere"}) as site:
        at, other = (site.mcp, site.issuer) if endpoint == "authorization_endpoint" else (site.issuer, site.mcp)
        told = f'the MCP server "docs" sends you to {at} to log in, and {other} would get that login'
        alone = failed(site, browser)
        assert (alone.how, alone.fix) == (told, "run this on a terminal, and confirm that these belong together")
        assert failed(site, browser, confirm=user).how == f"{told}, and you said no"
        assert user.questions == [f"{told}. Do these belong together?"]
        assert [each["path"] for each in site.log if each["verb"] == "POST" and each["path"] != "/mcp"] == []
    assert browser.addresses == []


def test_what_was_confirmed_is_kept_with_the_login_and_is_not_asked_again() -> None:
    user, late = User(), User()
    with authority(server={"revocation_endpoint": "{mcp}/revoke"}) as site:
        _, login = logged_in(site, confirm=user)
        assert (len(user.questions), login.origins) == (1, (site.issuer, site.mcp))
        _, again = logged_in(site, confirm=late, before=login)
        assert (late.questions, again.origins) == ([], login.origins)
        elsewhere = replace(login, origins=(site.issuer, EVIL))
        assert "would get that login" in failed(site, before=elsewhere).how


def test_a_question_that_is_not_answered_has_a_limit() -> None:
    async def silent(what: str, question: str) -> bool:
        return await asyncio.Event().wait()

    with authority(server={"token_endpoint": "{mcp}/token"}) as site:
        how = failed(site, confirm=silent, patience=0.05).how
    assert how == "no answer to a question within 0.05 s"


SECRET: dict[str, Any] = {"client_id": "us", "client_secret": Secret("s3cret-s3cret"), "place": "p.yaml:5:9"}


def test_the_client_secret_goes_to_no_authorization_server_that_only_the_server_names() -> None:
    browser, user = Browser(), User(answer=False)
    with authority(clients={"us": "s3cret-s3cret"}) as site:
        told = (
            f'the MCP server "docs" names {site.issuer} as its authorization server, which would get the client secret'
        )
        alone = failed(site, browser, **SECRET)
        line = f"write `issuer: {site.issuer}` beside client_secret (p.yaml:5:9)"
        assert (alone.how, alone.fix) == (told, f"if it may, {line}, or run this on a terminal")
        assert failed(site, browser, confirm=user, **SECRET).how == f"{told}, and you said no"
        assert user.questions == [f"{told}. May it?"]
        assert (site.asked("as /token"), browser.addresses) == ([], [])


def test_the_user_confirms_once_who_gets_the_client_secret() -> None:
    user, late = User(), User()
    with authority(clients={"us": "s3cret-s3cret"}) as site:
        _, login = logged_in(site, confirm=user, **SECRET)
        assert (len(user.questions), login.secret_to) == (1, site.issuer)
        _, again = logged_in(site, confirm=late, before=login, **SECRET)
        assert (late.questions, again.secret_to) == ([], site.issuer)
        assert "would get the client secret" in failed(site, before=replace(login, secret_to=EVIL), **SECRET).how


def test_an_issuer_of_the_profile_is_the_only_authorization_server() -> None:
    browser = Browser()
    with authority(clients={"us": "s3cret-s3cret"}) as site:
        _, login = logged_in(site, issuer=site.issuer, **SECRET)
        assert login.secret_to == "", "only what the user has confirmed is kept"
        for how in (SECRET, {}):
            refused = failed(site, browser, issuer="https://login.example", confirm=User(), **how)
            named = f'the MCP server "docs" names {site.issuer} as its authorization server, and the profile'
            assert refused.how == f"{named} https://login.example"
            assert "or correct mcp_servers.docs.oauth.issuer" in refused.fix
    assert browser.addresses == []


def test_the_issuer_of_the_profile_is_used_where_the_server_names_several() -> None:
    with authority(resource={"authorization_servers": [EVIL, "{as}"]}) as site:
        assert logged_in(site, issuer=site.issuer)[1].issuer == site.issuer


def test_a_redirect_to_another_origin_is_not_followed() -> None:
    away = {
        f"mcp {place}": {"status": 302, "headers": {"Location": "{as}/elsewhere.json"}} for place in (PRM, f"{PRM}/mcp")
    }
    with authority(answers=away) as site:
        failed(site)
        assert site.asked("as /elsewhere.json") == []


def test_a_server_that_is_far_may_not_send_us_to_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def refuse(method: str, url: str, **_: Any) -> TokenAnswer:
        asked.append(url)
        named = f'Bearer resource_metadata="https://127.0.0.1{PRM}/mcp"'
        return TokenAnswer(401, {"www-authenticate": named}, {})

    monkeypatch.setattr(flow, "fetch", refuse)
    with pytest.raises(Refused, match="which is on this machine, though the server is not"):
        asyncio.run(LoginFlow(Wanted(name="docs", url="https://docs.example/mcp"), Browser()).log_in())
    assert asked == ["https://docs.example/mcp"]


def test_a_server_without_https_is_asked_nothing() -> None:
    with authority() as site:
        assert "is not reached by https" in failed(site, url="http://docs.example/mcp").how


@pytest.mark.sample(1)
@pytest.mark.parametrize("place", [f"mcp {PRM}/mcp", f"as {ASM}", "as /register", "as /token", "mcp /mcp"])
def test_a_request_without_an_answer_has_a_limit(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "REQUEST_TIMEOUT", 0.5)
    with authority(answers={place: {"holds": True}}) as site:
        assert "did not answer within 0.5 s" in failed(site).how


# Who we are.


def test_a_wrong_client_secret_is_told() -> None:
    with authority(clients={"us": "right"}) as site:
        how = failed(site, client_id="us", client_secret=Secret("wrong-secret"), issuer=site.issuer).how
    assert "invalid_client" in how
    assert "wrong-secret" not in how


def test_a_metadata_document_comes_before_registration_where_the_server_takes_one() -> None:
    with authority(documents=[DOCUMENT], server={"client_id_metadata_document_supported": True}) as site:
        grant, login = logged_in(site, client_metadata_url=DOCUMENT)
        assert site.asked("as /register") == []
    assert (grant.client.client_id, login.client) == (DOCUMENT, "")
    with authority() as site:
        assert logged_in(site, client_metadata_url=DOCUMENT)[0].client.client_id == "client-1"


def test_a_registration_may_come_with_a_secret() -> None:
    with authority(server={"token_endpoint_auth_methods_supported": ["client_secret_post"]}) as site:
        grant, _ = logged_in(site)
    assert (grant.client.method, grant.client_secret) == ("client_secret_post", Secret("secret-of-client-1"))


def test_a_registration_is_used_again_with_the_same_issuer_and_the_same_way_back_only() -> None:
    with authority(server={"token_endpoint_auth_methods_supported": ["client_secret_basic"]}) as site:
        first, _ = logged_in(site)
        second, _ = logged_in(site, registered=first)
        assert (second.client, second.client_secret) == (first.client, first.client_secret)
        assert len(site.asked("as /register")) == 1
        other, _ = logged_in(site, Browser("http://127.0.0.1:8766/callback"), registered=second)
        assert other.client.client_id == "client-2"
    with authority(clients={"other": None}) as elsewhere:
        third, _ = logged_in(elsewhere, registered=first)
        assert third.client.client_id == "client-2"


def test_the_headers_of_the_profile_go_to_the_server_itself_only() -> None:
    """A gateway before the server may want them; the authorization server is another party."""
    with authority() as site:
        logged_in(site, headers={"X-Key": Secret("gateway-key")})
        keys = {(each["to"], each["key"]) for each in site.log}
    assert keys == {("mcp", "gateway-key"), ("as", "")}


# Scopes.


def test_a_refresh_token_is_asked_for_where_the_server_knows_the_scope_for_it() -> None:
    browser = Browser()
    with authority(names_scopes=["read"], server={"scopes_supported": ["read", "offline_access"]}) as site:
        logged_in(site, browser)
    assert parameters(browser)["scope"] == "read offline_access"
    assert parameters(browser)["prompt"] == "consent"


def test_the_scopes_of_the_login_are_those_that_the_server_gave() -> None:
    with authority(names_scopes=["read", "write"], allows=["read"]) as site:
        assert logged_in(site)[0].scopes == ("read",)


def test_scopes_that_the_server_has_demanded_since_are_asked_for_too() -> None:
    with authority() as site:
        grant, _ = logged_in(site, more=("read", "write"))
    assert grant.scopes == ("read", "write")


# The way back.

SERVER = AuthorizationServer(
    issuer="https://as.example", authorization_endpoint="https://as.example/a", token_endpoint="https://as.example/t"
)
SIGNED = replace(SERVER, sends_issuer=True)


@pytest.mark.parametrize(
    ("query", "server"),
    [
        ("state=right&code=c", SERVER),
        ("state=right&code=c&iss=https%3A%2F%2Fas.example", SERVER),
        ("code=c&iss=https%3A%2F%2Fas.example&state=right&session_state=7", SIGNED),
    ],
)
def test_the_code_is_taken_from_the_right_answer(query: str, server: AuthorizationServer) -> None:
    assert code_in(dict(parse_qsl(query)), "right", server) == "c"


@pytest.mark.parametrize(
    ("query", "server", "said"),
    [
        ("state=wrong&code=c", SERVER, "`state` differs"),
        ("code=c", SERVER, "`state` differs"),
        ("state=r%C3%AFght%ED%A0%80&code=c", SERVER, "`state` differs"),
        ("state=wrong&error=access_denied", SERVER, "`state` differs"),
        ("state=right", SERVER, "without a code"),
        ("state=right&code=", SERVER, "without a code"),
        ("state=right&code=c", SIGNED, "`iss` is missing"),
        ("state=right&code=c&iss=https://as.example/", SIGNED, "`iss` is https://as.example/ instead of"),
        (f"state=right&code=c&iss={EVIL}", SERVER, "another authorization server"),
        ("state=right&code=c&iss=", SERVER, "another authorization server"),
        (f"state=right&error=x&iss={EVIL}", SERVER, "another authorization server"),
        ("", SERVER, "`state` differs"),
    ],
)
def test_another_answer_is_refused(query: str, server: AuthorizationServer, said: str) -> None:
    with pytest.raises(Refused, match=said):
        code_in(dict(parse_qsl(query, keep_blank_values=True)), "right", server)


def test_what_the_server_says_of_its_refusal_is_shown_bounded_and_harmless() -> None:
    words = "no%1b%5D0;owned%07%0a" + "x" * 1000
    with pytest.raises(Refused) as caught:
        code_in(dict(parse_qsl(f"state=right&error=access_denied&error_description={words}")), "right", SERVER)
    how = caught.value.how
    assert how.startswith(
        "the authorization server https://as.example refused the login: access_denied (no ]0;owned xxx"
    )
    assert len(how) < 400
    assert how.isprintable()


@pytest.mark.parametrize(
    ("temper", "said"),
    [
        ({"redirect": {"state": "other"}}, "`state` differs"),
        ({"redirect": {"code": None, "error": "server_error"}}, "refused the login: server_error"),
        ({"redirect": {"code": "another-login-s-code"}}, "invalid_grant"),
        ({"answers": {"as /token": {"status": 302, "headers": {"Location": EVIL}}}}, "a redirect is not followed"),
        ({"answers": {"as /token": {"body": "<html>"}}}, "no access token"),
        ({"tokens": {"token_type": "DPoP"}}, "of a type that acp-launch does not know"),
    ],
)
def test_a_wrong_answer_of_a_real_server_is_no_login(temper: dict[str, Any], said: str) -> None:
    with authority(**temper) as site:
        assert said in failed(site).how


def test_the_issuer_s_own_name_is_taken() -> None:
    announced = {"authorization_response_iss_parameter_supported": True}
    with authority(redirect={"iss": "{as}"}, server=announced) as site:
        assert logged_in(site)[1].issuer == site.issuer


def test_a_long_wait_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_launch.waits.FIRST_NOTICE", 0.05)
    monkeypatch.setattr(flow, "REQUEST_TIMEOUT", 0.5)
    told: list[str] = []
    note: Callable[[str, float, float], None] = lambda what, word, limit: told.append(what)  # noqa: E731
    with authority(answers={"as /register": {"holds": True}}) as site:
        failed(site, waiting=note)
    assert f"registration at {site.issuer}" in told


@pytest.mark.parametrize(
    ("place", "waits_for"),
    [("mcp /mcp", "answer of"), ("as /register", "registration at"), ("as /token", "token from")],
)
def test_a_login_that_is_given_up_leaves_nothing_running(
    place: str, waits_for: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acp_launch.waits.FIRST_NOTICE", 0.05)

    async def live(site: Authority) -> None:
        def give_up(what: str, word: float, limit: float) -> None:
            if what.startswith(waits_for):
                asked.cancel()

        flow = LoginFlow(Wanted(name="docs", url=site.url), Browser(), waiting=give_up)
        asked = asyncio.create_task(flow.log_in())
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with authority(answers={place: {"holds": True}}) as site:
        asyncio.run(live(site))


# A browser on another machine.


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "MIN_PAUSE", 0.01)
    monkeypatch.setattr(flow, "SLOWER", 0.01)


def with_device(*errors: str, **temper: Any) -> dict[str, Any]:
    server = {"device_authorization_endpoint": "{as}/device"}
    return {"device": list(errors), "server": {**server, **temper.pop("server", {})}, **temper}


@pytest.mark.usefixtures("quick")
def test_a_device_asks_until_the_user_has_typed_its_code() -> None:
    shown: list[tuple[str, str]] = []
    browser = Browser()
    pending = ["authorization_pending", "slow_down", "crash", "authorization_pending"]
    with authority(**with_device(*pending, names_scopes=["read"])) as site:
        grant, login = logged_in(site, browser, device=lambda page, code: shown.append((page, code)))
        assert len(site.asked("as /token")) == 5
        (asked,) = site.asked("as /device")
        (registered,) = site.asked("as /register")
    assert shown == [(f"{site.issuer}/type", "ABCD-EFGH")]
    assert browser.addresses == []
    assert (login.scopes, login.is_renewed, grant.resource) == (("read",), True, site.url)
    assert asked["form"] == {"client_id": "client-1", "scope": "read", "resource": site.url}
    assert flow.DEVICE in registered["body"]["grant_types"]


REFUSED_RESOURCE = (
    "if the server refuses the parameter `resource`, write oauth.resource: false in the profile; "
    "else check the `url` of the MCP server"
)


def test_a_server_that_refuses_the_parameter_resource_is_told_none_if_the_profile_says_so() -> None:
    """Microsoft Entra ID."""
    with authority(refuses_resource=True) as site:
        assert failed(site).fix == REFUSED_RESOURCE
        grant, _ = logged_in(site, browser := Browser(), sends_resource=False)
        (token,) = site.asked("as /token")
    assert "resource" not in parameters(browser) | token["form"]
    assert (grant.resource, grant.sends_resource) == (site.url, False)


@pytest.mark.usefixtures("quick")
def test_a_device_names_no_resource_either_if_the_profile_says_so() -> None:
    with authority(**with_device(refuses_resource=True)) as site:
        assert failed(site, device=lambda page, code: None).fix == REFUSED_RESOURCE
        logged_in(site, device=lambda page, code: None, sends_resource=False)
        (token,) = site.asked("as /token")
    assert "resource" not in token["form"]


@pytest.mark.parametrize(
    "temper",
    [
        {"redirect_host": "localhost"},
        {"redirect": {"error": "redirect_uri_mismatch", "code": None}},
        {
            "answers": {
                "as /token": {
                    "status": 400,
                    "body": '{"error": "invalid_grant", "error_description": "redirect_uri differs"}',
                }
            }
        },
    ],
    ids=["registration", "page", "token"],
)
def test_a_redirect_address_that_is_refused_has_a_fix_that_names_the_key(temper: dict[str, Any]) -> None:
    with authority(**temper) as site:
        fix = failed(site).fix
    assert fix == "register its redirect address there, or write oauth.callback: localhost in the profile"


def test_the_page_may_hold_the_code() -> None:
    shown: list[str] = []
    whole = "{as}/type?code=ABCD-EFGH"
    with authority(**with_device("access_denied", page={"verification_uri_complete": whole})) as site:
        how = failed(site, device=lambda page, code: shown.append(page)).how
    assert shown == [f"{site.issuer}/type?code=ABCD-EFGH"]
    assert "refused: access_denied" in how


@pytest.mark.parametrize(
    "server", [{"device_authorization_endpoint": None}, {"grant_types_supported": ["authorization_code"]}]
)
def test_a_server_that_offers_devices_nothing_is_logged_in_to_by_the_browser(server: dict[str, Any]) -> None:
    browser = Browser()
    with authority(**with_device(server=server)) as site:
        logged_in(site, browser, device=lambda page, code: pytest.fail("there is no code"))
    assert len(browser.addresses) == 1


@pytest.mark.parametrize(
    ("temper", "said"),
    [
        ({"page": {"verification_uri": "http://evil.example/type"}}, "http://evil.example/type, which is not https"),
        ({"page": {"user_code": "\x1b[31mred"}}, "no code for the user"),
        ({"page": {"user_code": None}}, "no code for the user"),
        ({"page": {"device_code": 5}}, "no code for the user"),
        ({"answers": {"as /device": {"status": 400, "body": '{"error": "invalid_scope"}'}}}, "refused: invalid_scope"),
    ],
)
def test_a_code_that_cannot_be_trusted_is_not_shown(temper: dict[str, Any], said: str) -> None:
    with authority(**with_device(**temper)) as site:
        assert said in failed(site, device=lambda page, code: pytest.fail("it was shown")).how


@pytest.mark.usefixtures("quick")
def test_a_page_for_a_code_of_another_origin_is_shown_after_the_user_has_confirmed_it() -> None:
    shown, user = list[str](), User()
    with authority(**with_device(page={"verification_uri": "{mcp}/type"})) as site:
        told = f'the MCP server "docs" sends you to {site.mcp} to log in, and {site.issuer} would get that login'
        assert failed(site, device=lambda page, code: pytest.fail("it was shown")).how == told
        _, login = logged_in(site, device=lambda page, code: shown.append(page), confirm=user)
        assert (shown, user.questions) == ([f"{site.mcp}/type"], [f"{told}. Do these belong together?"])
        assert set(login.origins) == {site.issuer, site.mcp}


@pytest.mark.usefixtures("quick")
def test_a_code_that_is_not_typed_has_a_limit() -> None:
    pending = ["authorization_pending"] * 1000
    with authority(**with_device(*pending, page={"expires_in": 0.2})) as site:
        assert failed(site, device=lambda page, code: None).how == "no login with the code within 0.2 s"
