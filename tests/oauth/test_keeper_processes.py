"""Many processes at one login: one renewal for all, whichever is killed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acp_launch.oauth.grant import Login, Logins, decode_grant, encode_grant
from tests.cli import forkserver
from tests.oauth import holder as program
from tests.oauth.endpoint import Authority, Endpoint, access, refresh, serving
from tests.oauth.holder import ITEM, sealed
from tests.patience import PATIENCE

NOW = 1_790_000_000.0
LIFE = 3600.0


class Holder:
    def __init__(self, directory: Path, step: str = "") -> None:
        self.process = forkserver.begin(Path(program.__file__), str(directory), *([step] if step else []))

    def ask(self, now: float, refused: str | None = None) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"now": now, "refused": refused}).encode() + b"\n")
        self.process.stdin.flush()

    def said(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return dict(json.loads(self.process.stdout.readline()))

    def kill(self) -> None:
        """With SIGKILL."""
        self.process.kill()
        self.process.wait(PATIENCE)


class Crowd:
    """Processes that share a sealed file and a state directory. `begin` puts a login there that has expired at NOW."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.holders: list[Holder] = []

    def begin(self, endpoint: Endpoint) -> None:
        sealed(self.directory).write(ITEM, encode_grant(endpoint.authority.grant(endpoint.client(), expires=NOW)))

    def add(self, step: str = "") -> Holder:
        self.holders.append(holder := Holder(self.directory, step))
        return holder

    @property
    def stored(self) -> tuple[str, str]:
        secret = sealed(self.directory).read([ITEM])[ITEM].secret
        grant = decode_grant(secret) if secret is not None else None
        assert grant is not None and grant.refresh is not None
        return grant.access.expose(), grant.refresh.expose()


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    """Ended after the test, whatever happens."""
    crowd = Crowd(tmp_path)
    yield crowd
    for holder in crowd.holders:
        holder.process.kill()
        with holder.process:
            holder.process.wait(PATIENCE)


READY = {"at": "ready"}


@pytest.mark.sample(0, 1)
@pytest.mark.parametrize("rounds", [3, pytest.param(100, marks=pytest.mark.timeout(600))])
def test_twenty_processes_at_the_moment_of_expiry_renew_once(crowd: Crowd, rounds: int) -> None:
    """The server takes a refresh token once and ends the grant at a second use: a second request would log all out."""
    with serving(Authority("strict", LIFE)) as endpoint:
        crowd.begin(endpoint)
        holders = [crowd.add() for _ in range(20)]
        assert [holder.said() for holder in holders] == [READY] * 20
        for number in range(rounds):
            for holder in holders:
                holder.ask(NOW + number * LIFE)
            assert [holder.said() for holder in holders] == [{"token": access(number + 2)}] * 20
            assert len(endpoint.posted) == number + 1
        assert crowd.stored == (access(rounds + 1), refresh(rounds + 1))


def test_no_token_is_in_any_file_but_the_store(crowd: Crowd) -> None:
    with serving(Authority("strict", LIFE)) as endpoint:
        crowd.begin(endpoint)
        logins = Logins(crowd.directory)
        login = Login(url="https://mcp.example/mcp", client="", issuer="", resource="", client_id="us", item=ITEM)
        logins.put(login)
        holder = crowd.add()
        assert holder.said() == READY
        holder.ask(NOW)
        assert holder.said() == {"token": access(2)}
        record = logins.find(login.url)
        assert record is not None and record.expires == NOW + LIFE, "it was written, too"
        files = [file for file in crowd.directory.rglob("*") if file.is_file()]
        assert {file.suffix for file in files} == {"", ".json", ".lock", ".sealed"}
        assert [file for file in files if b"-token-" in file.read_bytes()] == []


# kill -9 of the process that renews: where it was, what the server has been asked by then, and in all.
STEPS = [
    ("before the lock", 0, 1),
    ("after the lock", 0, 1),
    ("after the rehearsal", 0, 1),
    ("during the request", 1, 2),
    ("before the write", 1, 2),
    ("after the write", 1, 1),
]


def stopped(crowd: Crowd, endpoint: Endpoint, step: str) -> Holder:
    """A process that has come to this step and goes no further."""
    holder = crowd.add(step)
    assert holder.said() == READY
    if step == "during the request":
        endpoint.held.clear()
    holder.ask(NOW)
    if step == "during the request":
        assert endpoint.came.acquire(timeout=PATIENCE)
    else:
        assert holder.said() == {"at": step}
    return holder


@pytest.mark.sample(1)
@pytest.mark.parametrize(("step", "before", "after"), STEPS, ids=[step for step, _, _ in STEPS])
def test_after_a_kill_anywhere_the_others_go_on(crowd: Crowd, step: str, before: int, after: int) -> None:
    """One waits for the lock, if it is held, and one comes later. The server takes the last refresh token once more."""
    with serving(Authority("grace", LIFE)) as endpoint:
        crowd.begin(endpoint)
        holder = stopped(crowd, endpoint, step)
        assert len(endpoint.posted) == before
        waiting, later = crowd.add("locking"), crowd.add()
        assert [waiting.said(), later.said()] == [READY] * 2
        if step not in ("before the lock", "after the write"):
            waiting.ask(NOW)
            assert waiting.said() == {"at": "locking"}
        holder.kill()
        endpoint.held.set()
        expected = {"token": access(after + 1)}
        if step in ("before the lock", "after the write"):
            waiting.ask(NOW)
        said = waiting.said()
        assert (waiting.said() if said == {"at": "locking"} else said) == expected
        later.ask(NOW)
        assert later.said() == expected
        assert (len(endpoint.posted), endpoint.authority.refused) == (after, 0)
        assert crowd.stored == (access(after + 1), refresh(after + 1))


@pytest.mark.whole
def test_without_a_grace_a_kill_between_answer_and_write_ends_the_login(crowd: Crowd) -> None:
    """The pinned limit: the only copy of the new refresh token is gone. It is told, and the item stays as it is."""
    with serving(Authority("strict", LIFE)) as endpoint:
        crowd.begin(endpoint)
        stopped(crowd, endpoint, "before the write").kill()
        endpoint.held.set()
        later = crowd.add()
        assert later.said() == READY
        later.ask(NOW)
        assert later.said()["how"].startswith("is not logged in any more: the authorization server ")
        assert crowd.stored == (access(1), refresh(1))
