"""The records of logins: files for the user alone, without a secret."""

import stat
from pathlib import Path

import pytest

from acp_launch.errors import StateError
from acp_launch.mcp.http.wire import SCOPES
from acp_launch.oauth.grant import MAX_RECORD_BYTES, STEP_UPS, Login, Logins
from acp_launch.private import locked


def login(url: str = "https://mcp.example/mcp", client: str = "", item: str = "oauth/mcp.example/1") -> Login:
    return Login(
        url=url,
        client=client,
        issuer="https://as.example",
        resource="https://mcp.example/mcp",
        client_id="us",
        item=item,
        scopes=("read",),
        account="me@example.com",
        since=1_790_000_000.5,
        expires=1_790_003_600.0,
        is_renewed=True,
    )


def test_a_login_is_found_by_its_address_and_configured_client(tmp_path: Path) -> None:
    logins = Logins(tmp_path)
    assert (logins.find("https://mcp.example/mcp"), logins.all()) == (None, ())
    for each in (ours := login(), configured := login(client="ours"), elsewhere := login(url="https://other.example")):
        logins.put(each)
    assert logins.find("https://mcp.example/mcp") == ours
    assert logins.find("https://mcp.example/mcp", "ours") == configured
    assert logins.find("https://mcp.example/mcp", "theirs") is None
    assert logins.all() == (ours, configured, elsewhere)


def test_a_new_login_replaces_the_last_one_of_the_same_address(tmp_path: Path) -> None:
    logins = Logins(tmp_path)
    logins.put(login(item="oauth/mcp.example/1"))
    logins.put(second := login(item="oauth/mcp.example/2"))
    assert logins.all() == (second,)
    assert (logins.of("oauth/mcp.example/1"), logins.of("oauth/mcp.example/2")) == ((), (second,))


def test_scopes_that_a_server_demands_stay_in_the_record(tmp_path: Path) -> None:
    logins = Logins(tmp_path)
    assert logins.note_demand(login(), ["write"]) is None
    logins.put(login())
    logins.note_demand(login(), ["write"])
    logins.note_demand(login(), ["read", "write"])
    kept = logins.find(login().url)
    assert kept is not None
    assert (kept.demanded, kept.is_lacking, kept.step_ups) == (("write", "read"), True, 0)
    (file,) = (tmp_path / "logins").glob("*.json")
    before = file.stat()
    assert logins.note_demand(login(), ["write"]) == kept
    assert file.stat() == before, "what is known is not written again"


def test_a_record_of_as_many_scopes_as_may_be_can_be_read(tmp_path: Path) -> None:
    logins = Logins(tmp_path)
    logins.put(login())
    for number in range(3):
        logins.note_demand(login(), [f"{number}-{each:03}-".ljust(256, "x") for each in range(100)])
    kept = logins.find(login().url)
    assert kept is not None
    assert len(kept.demanded) == SCOPES


def test_logins_that_do_not_bring_the_scopes_are_counted() -> None:
    now, counted = login().demand(["write"]), []
    for _ in range(STEP_UPS + 1):
        counted.append((now.step_ups, now.is_hopeless))
        now = login().after(now)
        assert (now.demanded, now.is_lacking, now.is_hopeless) == (("write",), False, False)
        now = now.demand(["write"])
    assert counted == [(0, False), (1, False), (2, False), (3, True)]
    assert now.is_hopeless, "a login that does not ask for them changes nothing"
    assert not now.demand(["admin"]).is_hopeless, "another scope may be given"
    content = login().after(login().after(now))
    assert (content.step_ups, content.demanded) == (0, ("write",)), "the server had no complaint in between"
    assert login().after(None) == login()


def test_a_dropped_login_is_gone_and_may_be_dropped_again(tmp_path: Path) -> None:
    logins = Logins(tmp_path)
    logins.put(login())
    logins.drop(login())
    logins.drop(login())
    assert logins.all() == ()


def test_records_are_for_the_user_alone(tmp_path: Path) -> None:
    Logins(tmp_path / "state").put(login())
    (record,) = (tmp_path / "state" / "logins").iterdir()
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert stat.S_IMODE(record.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", b"[" * 5000, b"x" * (MAX_RECORD_BYTES + 1)])
def test_a_record_that_cannot_be_understood_counts_as_absent(tmp_path: Path, content: bytes) -> None:
    logins = Logins(tmp_path)
    logins.put(login())
    (record,) = (tmp_path / "logins").iterdir()
    record.write_bytes(content)
    assert (logins.find("https://mcp.example/mcp"), logins.all()) == (None, ())
    logins.put(login())
    assert logins.all() == (login(),)


def test_a_record_of_another_address_under_this_name_is_not_believed(tmp_path: Path) -> None:
    logins = Logins(tmp_path)
    logins.put(login())
    (record,) = (tmp_path / "logins").iterdir()
    record.write_bytes(record.read_bytes().replace(b"https://mcp.example/mcp", b"https://evil.example/mcp"))
    assert logins.find("https://mcp.example/mcp") is None


def test_a_directory_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "logins").write_text("not a directory")
    with pytest.raises(StateError, match="cannot read or write the records of logins: ") as caught:
        Logins(tmp_path).put(login())
    assert caught.value.fix == f"check the owner, the mode and the free space of {tmp_path / 'logins'}"


def test_each_item_has_a_lock_of_its_own(tmp_path: Path) -> None:
    logins = Logins(tmp_path)
    with locked(logins.lock("oauth/a/1")):
        with locked(logins.lock("oauth/a/2"), 0):
            pass
        with pytest.raises(TimeoutError), locked(logins.lock("oauth/a/1"), 0):
            pass
    assert logins.all() == ()
