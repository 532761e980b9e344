"""The keeper of a grant: when it renews, what it does when that fails, and that nothing of another process is lost."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from acp_launch.mcp.http.wire import NoToken
from acp_launch.oauth import keeper as module
from acp_launch.oauth.exchange import ClientSecret
from acp_launch.oauth.grant import Grant, Login, Logins, decode_grant, encode_grant
from acp_launch.oauth.keeper import TokenStore
from acp_launch.private import locked
from acp_launch.secret.command import CommandStore
from acp_launch.secret.redact import redactor
from acp_launch.secret.value import Secret, Store, StoreFault
from tests.looped import looped
from tests.oauth.endpoint import Endpoint, Reply, access, refresh, said, serving
from tests.patience import PATIENCE
from tests.secret.shelf import Shelf

NOW = 1_790_000_000.0
ITEM = "oauth/mcp.example/1"
COMMAND = "acp-launch mcp login work docs"


class Scene:
    """A login in a store in memory, its authorization server, and a clock that stands still."""

    def __init__(self, endpoint: Endpoint, state: Path) -> None:
        self.endpoint, self.shelf, self.logins = endpoint, Shelf(), Logins(state)
        self.now, self.notes = NOW, list[str]()

    def put(self, *, left: float | None = 3600.0, life: float = 3600.0, number: int = 1, **members: object) -> Grant:
        """Put a grant into the store whose token expires in `left` seconds."""
        expires = None if left is None else self.now + left
        given = {"issued": None if expires is None else expires - life, **members}
        grant = self.endpoint.authority.grant(self.endpoint.client(), expires=expires)
        fields = {name: getattr(grant, name) for name in grant.__struct_fields__}
        fields |= {"access": Secret(access(number)), "refresh": Secret(refresh(number))}
        grant = Grant(**fields | given)
        self.shelf.kept[ITEM] = encode_grant(grant).expose()
        return grant

    def keeper(self, store: Store | None = None, **options: object) -> TokenStore:
        return TokenStore(
            ITEM,
            lambda: store or self.shelf,
            self.logins,
            command=COMMAND,
            note=self.notes.append,
            clock=lambda: self.now,
            **options,  # type: ignore[arg-type]
        )

    def holding(self, **how: Any) -> TokenStore:
        """Put a grant into the store; a keeper of it."""
        self.put(**how)
        return self.keeper()

    @property
    def stored(self) -> Grant:
        grant = decode_grant(Secret(self.shelf.kept[ITEM]))
        assert grant is not None
        return grant

    @property
    def posts(self) -> int:
        return len(self.endpoint.posted)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with serving() as endpoint:
        yield Scene(endpoint, tmp_path)


def token(keeper: TokenStore, refused: str | None = None) -> str:
    secret = None if refused is None else Secret(refused)
    return asyncio.run(asyncio.wait_for(keeper.token(secret), PATIENCE)).expose()


def no_token(keeper: TokenStore, refused: str | None = None) -> NoToken:
    with pytest.raises(NoToken) as caught:
        token(keeper, refused)
    return caught.value


def sentence(scene: Scene, error: NoToken) -> str:
    return error.how.replace(scene.endpoint.address, "ADDRESS")


# When it renews.


def test_a_token_that_is_good_is_given_without_a_question(scene: Scene) -> None:
    keeper = scene.holding()
    assert [token(keeper), token(keeper)] == [access(1)] * 2
    assert (scene.shelf.asked, scene.posts) == ([ITEM], 0)


def test_a_grant_that_the_caller_has_read_is_not_read_again(scene: Scene) -> None:
    assert token(scene.keeper(grant=scene.put())) == access(1)
    assert scene.shelf.asked == []


def test_a_token_about_to_expire_is_renewed_and_stored_before_it_is_used(scene: Scene) -> None:
    scene.put(left=59, scopes=("read",))
    login = Login(url="https://mcp.example/mcp", client="", issuer="", resource="", client_id="us", item=ITEM)
    scene.logins.put(login)
    assert token(scene.keeper()) == access(2)
    (posted,) = scene.endpoint.posted
    assert posted.form == {
        "grant_type": "refresh_token",
        "refresh_token": refresh(1),
        "resource": "https://mcp.example/mcp",
        "client_id": "us",
    }
    stored = scene.stored
    assert (stored.access, stored.refresh) == (Secret(access(2)), Secret(refresh(2)))
    assert (stored.issued, stored.expires, stored.scopes, stored.is_renewed) == (NOW, NOW + 3600, ("read",), True)
    record = scene.logins.find(login.url)
    assert record is not None
    assert (record.expires, record.scopes, record.is_renewed) == (NOW + 3600, ("read",), True)
    assert redactor.text(f"{access(2)} {refresh(2)}") == "*** ***"


def test_a_renewal_names_the_resource_only_if_the_login_did(scene: Scene) -> None:
    scene.put(left=59, sends_resource=False)
    assert token(scene.keeper()) == access(2)
    (posted,) = scene.endpoint.posted
    assert "resource" not in posted.form
    assert not scene.stored.sends_resource


@pytest.mark.parametrize(
    ("life", "left", "is_renewed"),
    [
        (3600, 61, False),
        (3600, 60, True),
        (3600, -5, True),
        (100, 11, False),
        (100, 10, True),
        (5, 1, False),
        (5, 0.4, True),
        (-100, 1, False),
    ],
)
def test_a_token_is_renewed_a_minute_before_its_end_or_a_tenth_of_its_life(
    scene: Scene, life: float, left: float, is_renewed: bool
) -> None:
    scene.put(left=left, life=life)
    assert token(scene.keeper()) == access(2 if is_renewed else 1)


def test_a_token_whose_end_is_not_known_is_used_until_it_is_refused(scene: Scene) -> None:
    keeper = scene.holding(left=None)
    assert token(keeper) == access(1)
    assert token(keeper, access(1)) == access(2)


def test_any_number_of_calls_ask_once(scene: Scene) -> None:
    keeper = scene.holding(left=0)

    async def story() -> list[Secret]:
        expired = [keeper.token() for _ in range(25)]
        refused = [keeper.token(Secret(access(1))) for _ in range(25)]
        return await asyncio.gather(*expired, *refused)

    assert asyncio.run(story()) == [Secret(access(2))] * 50
    assert scene.posts == 1


def test_a_refused_token_that_another_process_renewed_is_taken_from_the_store(scene: Scene) -> None:
    keeper = scene.holding()
    assert token(keeper) == access(1)
    scene.put(number=2)
    assert token(keeper, access(1)) == access(2)
    assert scene.posts == 0


def test_a_new_token_that_is_refused_at_once_is_not_renewed_again(scene: Scene) -> None:
    """Or each call to a server that accepts none would cost a refresh token."""
    keeper = scene.holding()
    assert token(keeper, access(1)) == access(2)
    error = no_token(keeper, access(2))
    assert error.how == "rejects the login, even with a fresh token"
    assert error.fix == f"check its `url`, or log in again: {COMMAND}"
    assert no_token(scene.keeper(), access(2)).how == error.how, "another process knows, too"
    scene.now += 30
    assert token(keeper, access(2)) == access(3)


def test_a_server_that_keeps_the_refresh_token_does_so_for_ever(scene: Scene) -> None:
    scene.endpoint.authority.rotation = "none"
    keeper = scene.holding(left=0)
    for number in range(2, 5):
        assert token(keeper) == access(number)
        assert scene.stored.refresh == Secret(refresh(1))
        scene.now += 3600


def configured(issuer: str) -> ClientSecret:
    return ClientSecret(Secret("configured"), issuer, "p.yaml:5:9")


@pytest.mark.parametrize("is_configured", [True, False])
def test_a_client_with_a_secret_uses_it(scene: Scene, is_configured: bool) -> None:
    """The configured one; else that of its registration."""
    scene.put(
        left=0, client=scene.endpoint.client(method="client_secret_post"), client_secret=Secret("of registration")
    )
    secret = configured(scene.endpoint.client().issuer) if is_configured else None
    assert token(scene.keeper(secret=secret)) == access(2)
    (posted,) = scene.endpoint.posted
    assert posted.form["client_secret"] == ("configured" if is_configured else "of registration")


@pytest.mark.parametrize(
    ("issuer", "why"),
    [
        ("", "as the profile lacks `issuer: {}` beside client_secret (p.yaml:5:9)"),
        ("https://other.example", "which is for https://other.example"),
    ],
)
def test_a_renewal_posts_the_secret_to_no_other_authorization_server(scene: Scene, issuer: str, why: str) -> None:
    client = scene.endpoint.client(method="client_secret_basic")
    scene.put(left=0, client=client)
    error = no_token(scene.keeper(secret=configured(issuer)))
    assert scene.endpoint.posted == []
    assert error.is_final
    told = f"is not logged in any more: {client.issuer} may not get the client secret, {why.format(client.issuer)}"
    assert (error.how, error.fix) == (told, COMMAND)


def test_a_renewal_without_the_secret_needs_no_issuer(scene: Scene) -> None:
    scene.put(left=0)
    assert token(scene.keeper(secret=configured(""))) == access(2)


# Clocks.


@pytest.mark.parametrize("skew", [-1e9, -300.0, 300.0, 1e9])
def test_a_time_that_another_clock_wrote_costs_one_renewal_at_most(scene: Scene, skew: float) -> None:
    scene.now += skew
    scene.put()
    scene.now = NOW
    keeper = scene.keeper()
    first = token(keeper)
    assert first == access(2 if skew <= -3600 else 1)
    assert [token(keeper), token(scene.keeper())] == [first, first]
    assert token(keeper, access(1)) == access(2), "a refusal decides"
    assert scene.posts == 1


# What fails.


def test_a_token_stays_in_use_while_the_authorization_server_fails(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = scene.holding(left=-5)
    scene.endpoint.script.append(Reply(503, b"<html>"))
    assert [token(keeper) for _ in range(5)] == [access(1)] * 5
    assert scene.posts == 1, "there is a pause between attempts"
    error = no_token(keeper, access(1))
    assert sentence(scene, error) == (
        "cannot be asked now: its login cannot be renewed: "
        "the authorization server ADDRESS answered 503 Service Unavailable"
    )
    assert (error.fix, error.is_final, scene.posts) == ("try again later", False, 1)
    monkeypatch.setattr(module, "monotonic", lambda: time.monotonic() + 11)
    assert token(keeper) == access(2)


def test_the_pause_is_that_of_the_authorization_server(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = scene.holding(left=-5)
    scene.endpoint.script.append(Reply(429, b"", {"Retry-After": "60"}))
    assert token(keeper) == access(1)
    monkeypatch.setattr(module, "monotonic", lambda: time.monotonic() + 30)
    assert (token(keeper), scene.posts) == (access(1), 1)
    monkeypatch.setattr(module, "monotonic", lambda: time.monotonic() + 61)
    assert (token(keeper), scene.posts) == (access(2), 2)


def test_a_login_that_has_ended_is_told_and_left_in_the_store(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.endpoint.authority.is_over = True
    before = scene.put(left=-5)
    keeper = scene.keeper()
    error = no_token(keeper)
    assert sentence(scene, error) == (
        "is not logged in any more: the authorization server ADDRESS refused: "
        "invalid_grant (this refresh token was used before)"
    )
    assert (error.fix, error.is_final) == (COMMAND, True)
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.0)
    assert no_token(keeper, access(1)).how == error.how
    assert (scene.posts, scene.stored) == (1, before), "it is not asked for again"
    scene.put(number=7)
    assert token(keeper) == access(7), "the user has logged in again"


def test_a_token_is_used_to_its_end_though_it_cannot_be_renewed(scene: Scene) -> None:
    scene.endpoint.authority.is_over = True
    keeper = scene.holding(left=30)
    assert token(keeper) == access(1)
    scene.now += 30
    assert no_token(keeper).is_final
    assert scene.posts == 1


def test_a_refused_renewal_looks_for_what_another_process_wrote(scene: Scene) -> None:
    """One that does not take our lock: on another machine, say, with the same store."""
    scene.put(left=-5)

    def overtaken() -> Reply:
        scene.put(number=7)
        return said(400, error="invalid_grant")

    scene.endpoint.script.append(overtaken)
    assert token(scene.keeper()) == access(7)
    assert scene.stored.access == Secret(access(7))


def test_a_login_that_was_removed_meanwhile_is_not_written_again(scene: Scene) -> None:
    scene.put(left=-5)

    def removed() -> Reply:
        scene.shelf.kept.clear()
        return said(400, error="invalid_grant")

    scene.endpoint.script.append(removed)
    assert (no_token(scene.keeper()).how, scene.shelf.kept) == ("is not logged in", {})


def test_without_a_refresh_token_the_login_ends_with_its_token(scene: Scene) -> None:
    keeper = scene.holding(left=30, refresh=None)
    assert token(keeper) == access(1)
    error = no_token(keeper, access(1))
    assert error.how.endswith("the login has expired, and the server gave no refresh token")
    assert (error.fix, scene.posts) == (COMMAND, 0)


@pytest.mark.parametrize(
    ("item", "how"),
    [
        (None, "is not logged in"),
        ("{}", "is not logged in: what the shelf holds is not its login"),
        ("gho_1234", "is not logged in: what the shelf holds is not its login"),
    ],
)
def test_without_a_grant_there_is_a_command(scene: Scene, item: str | None, how: str) -> None:
    if item is not None:
        scene.shelf.kept[ITEM] = item
    error = no_token(scene.keeper())
    assert (error.how, error.fix, error.is_final) == (how, COMMAND, True)


# The store.


LOCKED = StoreFault("locked", "the shelf is locked", fix="unlock it")


def fails_at(*accesses: int) -> Callable[[], None]:
    """The store's accesses with these numbers, counted from 1, find it locked."""
    count = 0

    def before() -> None:
        nonlocal count
        count += 1
        if count in accesses:
            raise LOCKED

    return before


def test_a_store_that_is_locked_has_its_sentence(scene: Scene) -> None:
    scene.put()
    scene.shelf.before = fails_at(1)
    keeper = scene.keeper()
    error = no_token(keeper)
    assert error.how == "cannot be asked now: its login cannot be read: the shelf is locked"
    assert (error.fix, error.is_final) == ("unlock it", False)
    assert token(keeper) == access(1)


def test_a_token_stays_in_use_while_the_store_is_locked(scene: Scene) -> None:
    grant = scene.put(left=30)
    scene.shelf.before = fails_at(1)
    assert (token(scene.keeper(grant=grant)), scene.posts) == (access(1), 0)


def test_a_store_that_takes_nothing_is_found_out_before_the_refresh_token_is_used_up(scene: Scene) -> None:
    scene.put(left=30)
    scene.shelf.before = fails_at(3)
    keeper = scene.keeper()
    assert (token(keeper), scene.posts) == (access(1), 0)
    error = no_token(keeper, access(1))
    assert error.how == (
        "cannot be asked now: its login cannot be renewed, as it cannot be stored: the shelf is locked"
    )
    assert error.fix == "unlock it"


def test_a_store_that_only_reads_says_so(scene: Scene) -> None:
    scene.put(left=30)
    (item,) = scene.shelf.kept.values()

    class Answer:
        class ending:  # noqa: N801 - its name is the protocol's
            status = 0

        out, err, timed_out = item.encode(), (), False

    store = CommandStore(["pass", "show", "{name}"], limit=PATIENCE, run=lambda argv, limit: Answer())
    keeper = scene.keeper(store)
    assert token(keeper) == access(1)
    error = no_token(keeper, access(1))
    assert error.how.endswith("as it cannot be stored: the store is a command, which is read-only")
    assert error.fix == "change it with pass, or choose another secrets.store in config.yaml"
    assert scene.posts == 0


def test_new_tokens_that_cannot_be_stored_are_used_and_stored_at_the_next_renewal(scene: Scene) -> None:
    scene.put(left=30)
    scene.shelf.before = fails_at(4)
    keeper = scene.keeper()
    assert [token(keeper), token(keeper)] == [access(2)] * 2
    assert scene.notes == [f"the renewed login in {ITEM} could not be stored yet: the shelf is locked"]
    assert scene.stored.access == Secret(access(1))
    scene.now += 3600
    assert (token(keeper), scene.stored.access) == (access(3), Secret(access(3)))
    assert [posted.form["refresh_token"] for posted in scene.endpoint.posted] == [refresh(1), refresh(2)]


def test_what_another_process_stored_stays_when_ours_could_not_be(scene: Scene) -> None:
    scene.put(left=30)
    scene.shelf.before = fails_at(4)
    keeper = scene.keeper()
    assert token(keeper) == access(2)
    scene.put(number=7)
    assert token(keeper, access(2)) == access(7)
    assert scene.stored.access == Secret(access(7))


def test_tokens_that_are_too_long_to_be_stored_are_used(scene: Scene) -> None:
    scene.put(left=30)
    scene.endpoint.script.append(said(access_token="a" * 15_000, refresh_token="r" * 5000, expires_in=3600))
    assert token(scene.keeper()) == "a" * 15_000
    assert scene.notes == [
        f"the renewed login in {ITEM} could not be stored yet: the tokens have more than 16,384 bytes"
    ]


# Others, meanwhile.


def test_a_lock_that_is_held_too_long_has_its_sentence(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.put(left=30)
    monkeypatch.setattr(module, "patience", lambda limit: 0.1)
    keeper = scene.keeper()
    with locked(scene.logins.lock(ITEM)):
        assert token(keeper) == access(1)
        error = no_token(keeper, access(1))
    assert error.how == "cannot be asked now: another process has been renewing its login for 0.1 s"
    assert (error.fix, error.is_final) == ("try again", False)
    assert token(keeper, access(1)) == access(2)


def test_a_token_that_lasts_a_while_is_used_while_another_process_renews_it(scene: Scene) -> None:
    keeper = scene.holding(left=30)
    with locked(scene.logins.lock(ITEM)):
        assert token(keeper) == access(1)
    assert (token(keeper), scene.posts) == (access(2), 1)


def test_a_state_directory_that_cannot_be_used_has_its_sentence(scene: Scene, tmp_path: Path) -> None:
    scene.put(left=30)
    (tmp_path / "logins").write_text("not a directory")
    keeper = scene.keeper()
    assert token(keeper) == access(1)
    assert no_token(keeper, access(1)).how.startswith(
        "cannot be asked now: its login cannot be renewed: cannot read or write the records of logins: "
    )


@looped
async def test_a_cancelled_call_does_not_stop_a_renewal(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the new refresh token would be lost."""
    monkeypatch.setattr(module, "END_TIMEOUT", PATIENCE)
    scene.put(left=0)
    scene.endpoint.held.clear()
    keeper = scene.keeper()
    calls = [asyncio.create_task(keeper.token()) for _ in range(3)]
    await asyncio.to_thread(scene.endpoint.came.acquire, timeout=PATIENCE)
    for call in calls:
        call.cancel()
    await asyncio.wait(calls)
    scene.endpoint.held.set()
    await keeper.leave()
    assert scene.stored.access == Secret(access(2))
    assert await keeper.token() == Secret(access(2))


def test_a_renewal_outlives_its_event_loop(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "END_TIMEOUT", PATIENCE)
    scene.put(left=0)
    scene.endpoint.held.clear()
    keeper = scene.keeper()

    async def begun() -> None:
        call = asyncio.create_task(keeper.token())
        await asyncio.to_thread(scene.endpoint.came.acquire, timeout=PATIENCE)
        assert not call.done()

    asyncio.run(begun())
    scene.endpoint.held.set()
    asyncio.run(keeper.leave())
    assert (scene.stored.access, scene.posts) == (Secret(access(2)), 1)


@looped
async def test_a_session_ends_though_the_authorization_server_does_not_answer(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "END_TIMEOUT", 0.1)
    scene.put(left=0)
    scene.endpoint.held.clear()
    keeper = scene.keeper()
    call = asyncio.create_task(keeper.token())
    await asyncio.to_thread(scene.endpoint.came.acquire, timeout=PATIENCE)
    await keeper.leave()
    assert not call.done()


def test_a_session_does_not_wait_for_the_lock_to_end(scene: Scene) -> None:
    """Another process renews: nothing of ours can be lost."""
    keeper = scene.holding(left=0)

    async def story() -> None:
        call = asyncio.create_task(keeper.token())
        await asyncio.sleep(0)
        await keeper.leave()
        assert not call.done()

    with locked(scene.logins.lock(ITEM)):
        asyncio.run(story())
    asyncio.run(keeper.token())
    assert scene.posts == 1


def test_nothing_of_it_stops_the_event_loop(scene: Scene) -> None:
    scene.put(left=0)
    goes_on = threading.Event()
    scene.shelf.before = lambda: goes_on.wait(PATIENCE)

    async def story() -> Secret:
        call = asyncio.create_task(scene.keeper().token())
        await asyncio.sleep(0)
        goes_on.set()  # never reached if the store is read here
        return await call

    assert asyncio.run(story()) == Secret(access(2))
