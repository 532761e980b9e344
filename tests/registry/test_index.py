"""The index: what is read of it, its copy, and how it is fetched."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_launch.errors import RegistryError
from acp_launch.registry.download import NotFetched, fetch
from acp_launch.registry.index import decode, latest, list_packages, parse_package, read_copy
from acp_launch.registry.installed import precedence, reference
from tests.registry.published import Web, entry, serving, written

NPX = {"package": "@scope/agent@1.0.0"}


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as web:
        yield web


def test_an_index_is_read_without_what_cannot_be_used() -> None:
    later = {"package": "x@1", "later": [1]}
    read = decode(
        written(
            entry("good", npx=later, preview={"x": 1}) | {"icon": None, "license_url": 5},
            entry("Bad id", npx=NPX),
            entry("bad-version", "../../x", npx=NPX),
            entry("nothing"),
            entry("unknown-kind", snap={"package": "x"}),
            entry("wrong", npx={"package": 5}),
            entry("good", "0.9.0", npx=NPX),
            {"id": "half"},
        )
    ).agents
    assert [(each.id, each.version) for each in read.values()] == [("good", "1.0.0")]


@pytest.mark.parametrize("text", [b"", b"<html>", b"[]", b"{}", b'{"agents": 5}', b"\xff", b"[" * 100_000])
def test_what_is_not_an_index_is_not_read(text: bytes) -> None:
    with pytest.raises(ValueError, match="not an index"):
        decode(text)


def test_versions_are_ordered_as_semantic_versioning_does() -> None:
    before = ("nightly", "0.9", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta.2", "1.0.0-beta.11")
    ordered = [*before, "1.0.0", "1.0.1", "1.10.0"]
    assert sorted(sorted(ordered), key=precedence) == ordered
    assert precedence("1.0.0+a") == precedence("1.0.0+b")


@pytest.mark.parametrize("text", ["", "Agent", "a@", "a@../x", "a@.", "../a", "a/b", "a@1 ", "a" * 65, "a@-1"])
def test_what_is_no_reference_is_refused(text: str) -> None:
    assert reference(text) is None


def test_an_index_is_fetched_and_its_copy_is_used_without_the_network(web: Web, tmp_path: Path) -> None:
    web.index(entry("one", npx=NPX))
    first, fault = latest(web.address, tmp_path)
    assert (list(first.agents), fault) == (["one"], "")
    web.index(entry("two", npx=NPX))
    begun = time.time()
    assert list(latest(web.address, tmp_path)[0].agents) == ["two"]
    web.put("/registry.json", b"<html>")
    copy, fault = latest(web.address, tmp_path)
    assert copy == read_copy(tmp_path)
    assert (list(copy.agents), copy.address, copy.fetched >= begun) == (["two"], web.address, True)
    assert "not an index" in fault
    web.files.clear()
    assert f"{web.url[7:]} answered 404" in latest(web.address, tmp_path)[1]
    with pytest.raises(RegistryError, match="404"):  # another index has no copy
        latest(f"{web.url}/other.json", tmp_path)


def test_an_index_in_a_file_is_read_from_there(tmp_path: Path) -> None:
    file = tmp_path / "index.json"
    file.write_bytes(written(entry("one", npx=NPX)))
    assert list(latest(str(file), tmp_path)[0].agents) == ["one"]
    file.unlink()
    copy, fault = latest(str(file), tmp_path)
    assert (list(copy.agents), fault) == (
        ["one"],
        "cannot be used: it is not an index of agents (Input data was truncated)",
    )


def test_a_damaged_copy_is_none(tmp_path: Path) -> None:
    (tmp_path / "registry").mkdir()
    for text in (b"", b"x\n{}", b'{"address": "a", "fetched": 1}', b'{"address": "a", "fetched": 1, "published": [<'):
        (tmp_path / "registry" / "index.json").write_bytes(text)
        assert read_copy(tmp_path) is None


def fetched(address: str, most: int = 1000) -> bytes:
    text = bytearray()
    fetch(address, text.extend, most=most, limit=20)
    return bytes(text)


def test_a_redirect_is_followed_but_not_to_where_others_can_read(web: Web) -> None:
    web.put("/a", b"", status=302, headers={"Location": "/b"})
    web.put("/b", b"", status=307, headers={"Location": f"{web.url}/c"})
    web.put("/c", b"content")
    assert fetched(f"{web.url}/a") == b"content"
    for location, said in (
        ("http://example.com/x", "not an https address"),
        ("file:///etc/passwd", "expected an http or https url"),
        ("/a", "redirects more than 5 times"),
    ):
        web.put("/c", b"", status=301, headers={"Location": location})
        with pytest.raises(NotFetched, match=said):
            fetched(f"{web.url}/a")


def test_a_file_is_whole_and_within_its_bounds(web: Web) -> None:
    address = web.put("/a", b"x" * 500)
    assert len(fetched(address)) == 500
    with pytest.raises(NotFetched, match="is larger than"):
        fetched(address, most=499)
    web.put("/a", b"x" * 500, cut=100)
    with pytest.raises(NotFetched, match="could not be fetched"):
        fetched(address)
    web.put("/a", b"x" * 500)
    with pytest.raises(NotFetched, match="within -1 s"):
        fetch(address, lambda piece: None, most=1000, limit=-1)


def test_nothing_is_fetched_from_where_others_can_read() -> None:
    """A server that is not there is named without the path."""
    for address in ("http://example.com/x", "ftp://x/y", "x", "", "https://user:pass@example.com/x", "https:///x"):
        with pytest.raises(NotFetched):
            fetched(address)
    with pytest.raises(NotFetched, match=r"127\.0\.0\.1:1") as failed:
        fetched("http://127.0.0.1:1/token/secret")
    assert "secret" not in str(failed.value)


@pytest.mark.parametrize(
    ("runner", "line", "told"),
    [
        ("npx", "-y @s/server@1.2.3 --port 1", ["@s/server@1.2.3"]),
        ("npx", "--yes -p a@1 --package=b@2 program arg", ["a@1", "b@2"]),
        ("npx", "-c x -- a@1 b", ["a@1"]),
        ("uvx", "server==1.0 --from-file x", ["server==1.0"]),
        ("uvx", "--python 3.13 -p 3.12 --with extra server@1.0", ["server@1.0"]),
        ("uvx", "--from pkg[x]==2.0 program", ["pkg[x]==2.0"]),
        ("node", "server.js", []),
        ("npx", "-y", []),
    ],
)
def test_a_runner_is_told_packages(runner: str, line: str, told: list[str]) -> None:
    assert [*list_packages(runner, line.split())] == told


def test_an_exact_version_is_told_from_all_others() -> None:
    assert parse_package("npm", "@s/a@1.0.0") == ("@s/a", "1.0.0")
    assert parse_package("pypi", "a[x]@1.0") == parse_package("pypi", "a[x]==1.0") == ("a[x]", "1.0")
    assert parse_package("npm", "a") == ("a", "")
    for text in ("a@latest", "a@^1", "a@1.x || 2", "./a", "git+ssh://x", "a@npm:b@1", "-a", "", "a@"):
        assert parse_package("npm", text) is None
    for text in ("a>=1", "a==1.*", "a @ https://x", "-a", "./a", ""):
        assert parse_package("pypi", text) is None
