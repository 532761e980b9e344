"""The credentials of a login: when its record is read, which costs a file for each time."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from acp_launch.app import credentials as module
from acp_launch.app.credentials import RECORD_SECONDS, LoginCredentials, ServerLogin, secret_of
from acp_launch.mcp.http.wire import Challenge, NoToken
from acp_launch.oauth.exchange import ClientSecret
from acp_launch.oauth.grant import Login, Logins
from acp_launch.oauth.keeper import TokenStore
from acp_launch.plan.model import LoginPlan, Origin, RemotePlan, Value
from acp_launch.secret.value import Secret, SecretReference
from tests.clock import Clock

URL = "https://mcp.example.com/mcp"
FIRST = Login(url=URL, client="", issuer="https://as.example", resource=URL, client_id="us", item="one", since=1.0)
SECOND = replace(FIRST, item="two", since=2.0)
SERVER = RemotePlan(name="web", type="http", url=Value((URL,), Origin("web")), headers={}, oauth=LoginPlan())


class Records(Logins):
    """Records that count how often one is looked for."""

    reads = 0

    def find(self, url: str, client: str = "") -> Login | None:
        self.reads += 1
        return super().find(url, client)


class Tokens(TokenStore):
    """The store of a token that is called like its item; that of `ended` can no longer be renewed."""

    ended = ""

    def __init__(self, item: str) -> None:
        self.item = item

    async def token(self, refused: Secret | None = None) -> Secret:
        if self.item == self.ended:
            raise NoToken("is not logged in any more", "log in")
        return Secret(self.item)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "monotonic", clock)
    return clock


@pytest.fixture
def records(tmp_path: Path) -> Records:
    records = Records(tmp_path)
    records.put(FIRST)
    return records


def made(records: Records, record: Login | None = FIRST) -> LoginCredentials:
    return LoginCredentials(
        ServerLogin(SERVER, record), None, lambda login, grant, note: Tokens(login.item), records, "log in"
    )


def sent(credentials: LoginCredentials, refused: str = "") -> str:
    before = {"Authorization": Secret(f"Bearer {refused}")} if refused else None
    found = asyncio.run(credentials.headers(before))
    return found["Authorization"].expose().removeprefix("Bearer ") if found else ""


@pytest.mark.parametrize(
    ("written", "confirmed", "issuer"),
    [
        ("https://a.example", "https://b.example", "https://a.example"),
        ("", "https://b.example", "https://b.example"),
        ("", "", ""),
    ],
)
def test_a_client_secret_is_for_the_issuer_of_the_profile_else_for_the_confirmed_one(
    written: str, confirmed: str, issuer: str
) -> None:
    secret = Value((SecretReference("web"),), Origin("p.yaml", 5, 9))
    server = replace(SERVER, oauth=LoginPlan(client_id="us", client_secret=secret, issuer=written))
    found = secret_of(server, replace(FIRST, secret_to=confirmed), {"web": Secret("s3cret")})
    assert found == ClientSecret(Secret("s3cret"), issuer, "p.yaml:5:9")


def test_the_record_is_read_once_a_minute_at_most(clock: Clock, records: Records) -> None:
    """A server without a login costs no more."""
    with_login, without = made(records), made(records, None)
    records.put(SECOND)
    assert [sent(with_login) for _ in range(5)] == ["one"] * 5
    assert [sent(without) for _ in range(5)] == [""] * 5
    assert records.reads == 0
    clock.now += RECORD_SECONDS
    assert [sent(with_login) for _ in range(5)] == ["two"] * 5
    assert records.reads == 1
    assert [sent(without) for _ in range(5)] == ["two"] * 5
    assert records.reads == 2


def test_it_is_read_at_once_when_a_token_was_refused_or_cannot_be_renewed(
    clock: Clock, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused, ended = made(records), made(records)
    monkeypatch.setattr(Tokens, "ended", "one")
    with pytest.raises(NoToken):
        sent(ended)
    records.put(SECOND)
    assert (sent(refused, refused="one"), sent(ended)) == ("two", "two")


def test_it_is_read_for_each_request_after_a_scope_was_refused_until_there_is_a_new_login(
    clock: Clock, records: Records
) -> None:
    credentials = made(records)
    assert asyncio.run(credentials.note_challenge(Challenge(scopes=("write",), error="insufficient_scope"))) == "log in"
    assert sent(credentials) == "one"
    records.put(SECOND)
    assert sent(credentials) == "two"
    reads = records.reads
    assert (sent(credentials), records.reads) == ("two", reads)
