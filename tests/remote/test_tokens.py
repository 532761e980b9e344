"""The token of a login in each request: a refused one is replaced once, and without one a call fails alone."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from acp_launch.mcp.http.wire import Challenge, Failure, Headers, NoToken
from acp_launch.process.lifecycle import Ended
from acp_launch.secret.redact import redactor
from acp_launch.secret.value import Secret
from tests.looped import looped

from .children import Tempered, tempered
from .peer import Peer, asked, connected, error, remote

LOGIN = "acp-launch mcp login p docs"
OLD, NEW, NEWEST = (f"canary-token-{name}-5b1f" for name in ("old", "new", "newest"))
LOGGED_OUT = "is not logged in: the login has ended"
METADATA = 'Bearer resource_metadata="https://docs.example.com/.well-known/oauth-protected-resource"'
SCOPES = 'Bearer error="insufficient_scope", scope="files:read files:write", error_description="more"'


class Hand:
    """`Credentials` that give the first of their tokens, and drop one that was refused; the last one stays."""

    is_login, has_news = True, False
    refusal: Failure | None = Failure("answered 401 Unauthorized, even to a new token", LOGIN, is_final=True)

    def __init__(self, *tokens: str | NoToken) -> None:
        self.tokens = list(tokens)
        self.refused: list[Headers | None] = []
        self.left = 0
        self.note: Callable[[str], None] = print
        self.fix = ""
        self.challenges: list[Challenge] = []

    async def note_challenge(self, challenge: Challenge) -> str:
        self.challenges.append(challenge)
        return self.fix

    async def headers(self, refused: Headers | None = None) -> Headers:
        self.refused.append(refused)
        if refused is not None and len(self.tokens) > 1:
            del self.tokens[0]
        if isinstance(self.tokens[0], NoToken):
            raise self.tokens[0]
        redactor.register(Secret(self.tokens[0]))
        return {"Authorization": Secret(f"Bearer {self.tokens[0]}")}

    async def leave(self) -> None:
        self.left += 1

    @property
    def renewals(self) -> list[str]:
        given = [each["Authorization"].expose() for each in self.refused if each is not None]
        return [each.removeprefix("Bearer ") for each in given]


def sent(server: Tempered) -> list[str | None]:
    """The `Authorization` of each request so far."""
    headers = [{name.lower(): value for name, value in each["headers"]} for each in server.requests]
    return [each.get("authorization") for each in headers]


def first(hand: Hand | None, login: str = LOGIN, **settings: Any) -> tuple[Ended, Peer, list[str | None]]:
    """How a connection ends whose handshake fails, and what was sent before."""
    headers = settings.pop("headers", {})

    async def use() -> tuple[Ended, Peer, list[str | None]]:
        with tempered(**settings) as server:
            async with connected(remote(server.url, credentials=hand, login=login, headers=headers)) as peer:
                end = await peer.rejected()
            return end, peer, sent(server)

    return asyncio.run(use())


@pytest.mark.parametrize("era", ["legacy", "sse"])
@looped
async def test_each_request_has_the_token_of_its_moment(era: str) -> None:
    bearer = Hand(OLD)
    with tempered(era=era, bearer=OLD) as server:
        async with connected(remote(server.url, credentials=bearer, type="sse" if era == "sse" else "http")) as peer:
            await peer.shake_hands()
            assert "result" in await peer.tool("echo", text="hi")
            if era == "legacy":
                await asked(server, "GET")
            bearer.tokens = [NEW]
            server.do("change", settings={"bearer": NEW})
            assert "result" in await peer.tool("echo", text="hi")
            await peer.remote.stop(grace=5)
        tokens, verbs = sent(server), [each["verb"] for each in server.requests]
        assert set(verbs) == ({"POST", "GET", "DELETE"} if era == "legacy" else {"POST", "GET"})
        changed = tokens.index(f"Bearer {NEW}")
        assert set(tokens[:changed]) == {f"Bearer {OLD}"}
        assert set(tokens[changed:]) == {f"Bearer {NEW}"}
    assert (bearer.renewals, bearer.left) == ([], 1)


@looped
async def test_a_modern_request_and_the_first_question_to_a_server_have_it_too() -> None:
    with tempered(era="modern", bearer=OLD) as server:
        async with connected(remote(server.url, credentials=Hand(OLD))) as peer:
            assert "result" in await peer.call("ping")
            assert "result" in await peer.answer(peer.ask_modern("tools/list"))
        assert sent(server) == [f"Bearer {OLD}"] * 2


@looped
async def test_it_replaces_an_authorization_of_the_headers() -> None:
    with tempered(bearer=OLD) as server:
        headers = {"authorization": "Basic abcdef", "X-Key": "value"}
        async with connected(remote(server.url, credentials=Hand(OLD), headers=headers)) as peer:
            await peer.shake_hands()
        assert set(sent(server)) == {f"Bearer {OLD}"}
        assert "Basic" not in str(server.requests)
        assert ["X-Key", "value"] in [list(pair) for pair in server.requests[0]["headers"]]


@looped
async def test_a_refused_token_is_replaced_and_the_request_repeated_once() -> None:
    bearer = Hand(OLD, NEW)
    with tempered(bearer=OLD) as server:
        async with connected(remote(server.url, credentials=bearer)) as peer:
            await peer.shake_hands()
            await asked(server, "GET")
            server.do("change", settings={"bearer": NEW})
            assert "result" in await peer.tool("echo", text="hi")
            assert "result" in await peer.tool("echo", text="hi")
        calls = [each["message"].get("id") for each in server.requests if each["message"]]
        assert bearer.renewals == [OLD]
        assert calls.count(2) == 2, "the refused one, and the one with the new token"
        assert calls.count(3) == 1


@looped
async def test_a_second_refusal_fails_the_call_and_the_session_goes_on() -> None:
    bearer = Hand(OLD, NEW, NEWEST)
    with tempered(bearer=OLD) as server:
        async with connected(remote(server.url, credentials=bearer, login=LOGIN)) as peer:
            await peer.shake_hands()
            await asked(server, "GET")
            server.do("change", settings={"bearer": "another"})
            how = "answered 401 Unauthorized, even to a new token"
            assert error(await peer.tool("echo", text="hi")) == f'MCP server "docs" {how}; {LOGIN}'
            assert sent(server).count(f"Bearer {NEW}") == 1
            server.do("change", settings={"bearer": NEWEST})
            assert "result" in await peer.tool("echo", text="hi")
            assert peer.remote.end is None
        assert how.encode() in peer.logged


@pytest.mark.parametrize("is_final", [True, False])
@looped
async def test_a_login_that_ends_fails_each_call_until_the_user_is_logged_in_again(is_final: bool) -> None:
    bearer = Hand(OLD)
    with tempered(bearer=OLD) as server:
        async with connected(remote(server.url, credentials=bearer)) as peer:
            await peer.shake_hands()
            await asked(server, "GET")
            bearer.tokens = [NoToken(LOGGED_OUT, LOGIN, is_final=is_final)]
            before = len(server.requests)
            for _ in range(2):
                answer = await peer.tool("echo", text="hi")
                assert error(answer) == f'MCP server "docs" {LOGGED_OUT}; {LOGIN}'
                assert answer["error"]["data"] == {"server": "docs"}
            assert len(server.requests) == before, "nothing was sent"
            bearer.tokens = [OLD]
            assert "result" in await peer.tool("echo", text="hi")
            assert peer.remote.end is None


def test_a_login_that_the_server_refuses_at_first_fails_for_good_after_one_renewal() -> None:
    bearer = Hand(OLD, NEW)
    end, _, tokens = first(bearer, bearer="another")
    assert (end.how, end.follows) == ("answered 401 Unauthorized, even to a new token", "never")
    assert (end.reason, end.fault) == (LOGIN, "credentials")
    assert tokens == [f"Bearer {OLD}", f"Bearer {NEW}"]


@pytest.mark.parametrize(
    ("headers", "challenge", "login", "reason"),
    [
        ({}, METADATA, LOGIN, f"it wants a login: {LOGIN}"),
        ({}, "Negotiate, Bearer", LOGIN, f"it wants a login: {LOGIN}"),
        ({}, 'Basic realm="Bearer of news"', LOGIN, "it does not accept our credentials: check its `headers`"),
        ({}, METADATA, "", "it does not accept our credentials: check its `headers`"),
        ({"Authorization": "Bearer x"}, METADATA, LOGIN, "it does not accept our credentials: check its `headers`"),
    ],
)
def test_a_server_that_wants_a_login_is_told_from_one_that_refuses_our_headers(
    headers: dict[str, str], challenge: str, login: str, reason: str
) -> None:
    end, _, _ = first(None, login, bearer=OLD, challenge=challenge, headers=headers)
    assert (end.how, end.reason, end.fault) == ("answered 401 Unauthorized", reason, "credentials")


@pytest.mark.parametrize("fix", [LOGIN, "ask its operator"])
@looped
async def test_credentials_may_know_better_what_to_do_about_scopes(fix: str) -> None:
    hand = Hand(OLD)
    hand.fix = fix
    few = {"do": "status", "status": 403, "headers": {"WWW-Authenticate": SCOPES}, "times": 1}
    with tempered(bearer=OLD, faults=[{"on": "tools/call", **few}]) as server:
        async with connected(remote(server.url, credentials=hand, login=LOGIN)) as peer:
            await peer.shake_hands()
            how = "answered 403 Forbidden: it wants the scopes files:read files:write"
            assert error(await peer.tool("echo", text="hi")) == f'MCP server "docs" {how}; {fix}'
    assert [each.scopes for each in hand.challenges if each.wants_more] == [("files:read", "files:write")]


@looped
async def test_a_login_that_is_done_while_the_server_refuses_is_used_at_once() -> None:
    hand = Late()
    with tempered(bearer=OLD, challenge=METADATA) as server:
        async with connected(remote(server.url, credentials=hand, login=LOGIN)) as peer:
            await peer.shake_hands()
            assert "result" in await peer.tool("echo", text="hi")
        assert sent(server)[:2] == [None, f"Bearer {OLD}"]
    assert hand.challenges == [], "there is a login by then"


class Late(Hand):
    """No login, until the first request was sent without one."""

    def __init__(self) -> None:
        super().__init__(OLD)
        self.is_in = False

    @property
    def has_news(self) -> bool:  # type: ignore[override]
        return not self.is_in

    @property
    def refusal(self) -> Failure | None:  # type: ignore[override]
        return Hand.refusal if self.is_in else None

    async def headers(self, refused: Headers | None = None) -> Headers:
        if refused is None and not self.is_in:
            return {}
        self.is_in = True
        return await super().headers()


def test_what_repeats_the_token_is_shown_without_it() -> None:
    """The redactor knows each token before it is sent."""
    token = "canary-token-that-is-told-back-7c"
    told = {"do": "status", "status": 418, "body": f"your token is {token}"}
    end, peer, _ = first(Hand(token), faults=[{"on": "*", **told}])
    assert end.how == "answered 418 I'm a Teapot: your token is ***"
    assert token not in f"{end} {peer.logged!r}"
    assert redactor.text(token) == "***"
