"""An agent of the index becomes an installation: its very version, verified, complete or not there at all."""

import io
import tarfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as with_

from acp_launch.errors import RegistryError
from acp_launch.plan.executable import CannotRun
from acp_launch.plan.locked import chosen
from acp_launch.registry.index import PublishedAgent, decode, pin_line
from acp_launch.registry.install import binary_of, install, remove
from acp_launch.registry.installed import Installation, Reference, home, installations, read
from tests.patience import PATIENCE
from tests.registry.published import PROGRAM, Web, binary, entry, serving, written


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as web:
        yield web


def packed(name: str = "bin/agent", content: bytes = PROGRAM.encode()) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        made = tarfile.TarInfo(name)
        made.size = len(content)  # its mode has no x, which the installation gives to the program
        archive.addfile(made, io.BytesIO(content))
    return out.getvalue()


def published(**members: Any) -> PublishedAgent:
    (found,) = decode(written(entry("agent", **members))).agents.values()
    return found


def put(web: Web, content: bytes | None = None, **more: Any) -> PublishedAgent:
    """An agent of the index whose archive is on the server."""
    content = packed() if content is None else content
    return published(binary=binary(web.put("/a.tgz", content), content, **more))


def installed(entry: PublishedAgent, state: Path) -> tuple[Installation, bool]:
    chosen = binary_of(entry, entry.version, allow_unverified=False)
    return install(entry, chosen, state=state, registry="https://r.example/i.json")


def test_a_binary_is_verified_unpacked_and_made_executable(web: Web, tmp_path: Path) -> None:
    content = packed()
    archive = web.put("/agent.tar.gz", content)
    said = binary(archive, content, args=["acp"], env={"A": "1"})
    made, is_new = installed(published(binary=said), tmp_path)
    assert is_new
    assert made.program.read_text() == PROGRAM
    assert made.program.stat().st_mode & 0o100
    assert (made.manifest.args, made.manifest.env) == (("acp",), {"A": "1"})
    assert made.manifest.integrity == "sha256:" + next(iter(said.values()))["sha256"]
    assert installations(tmp_path) == [made] == [read(made.directory)]
    assert sorted(path.name for path in made.directory.iterdir()) == ["files", "install.json"]
    assert (installed(published(binary=said), tmp_path), web.count("/agent.tar.gz")) == ((made, False), 1)


def test_a_program_that_is_not_packed_is_taken_as_it_is(web: Web, tmp_path: Path) -> None:
    content = PROGRAM.encode()
    archive = web.put("/v1/agent-linux?token=x", content)
    made, _ = installed(published(binary=binary(archive, content, "./agent-linux")), tmp_path)
    assert made.program.read_text() == PROGRAM
    assert made.program.stat().st_mode & 0o100


@pytest.mark.parametrize(
    ("content", "cmd", "said"),
    [
        (packed(), "./bin/other", "does not hold its program"),
        (packed("../agent"), "./agent", "outside the destination"),
        (packed()[:60], "./bin/agent", "cannot be unpacked"),
        (packed(), "../../agent", "does not hold its program"),
        (packed(), "/bin/sh", "does not hold its program"),
    ],
    ids=["another program", "a name upwards", "a half", "a program upwards", "a program of the system"],
)
def test_a_refused_archive_leaves_nothing(web: Web, tmp_path: Path, content: bytes, cmd: str, said: str) -> None:
    with pytest.raises(RegistryError, match=said):
        installed(put(web, content, cmd=cmd), tmp_path)
    assert left(tmp_path) == []


def left(state: Path) -> list[Path]:
    """What is there of the agent, the lock aside."""
    return [path for path in (home(state) / "agent").rglob("*") if path.is_file()] if home(state).exists() else []


def test_a_wrong_hash_and_a_broken_download_leave_nothing(web: Web, tmp_path: Path) -> None:
    content = packed()
    archive = web.put("/a.tgz", content + b"tampered")
    wanted = published(binary=binary(archive, content))
    with pytest.raises(RegistryError, match="a different sha256"):
        installed(wanted, tmp_path)
    web.put("/a.tgz", content, cut=len(content) // 2)
    with pytest.raises(Exception, match="could not be fetched"):
        installed(wanted, tmp_path)
    assert left(tmp_path) == []
    web.put("/a.tgz", content)
    assert installed(wanted, tmp_path)[1]


def test_ten_at_once_are_one_installation(web: Web, tmp_path: Path) -> None:
    wanted = put(web)
    ready = threading.Barrier(10)

    def one(_: int) -> tuple[Installation, bool]:
        ready.wait(PATIENCE)
        return installed(wanted, tmp_path)

    with ThreadPoolExecutor(10) as pool:
        made = list(pool.map(one, range(10), timeout=PATIENCE))
    assert sorted(is_new for _, is_new in made) == [False] * 9 + [True]
    assert len({each.program for each, _ in made}) == 1
    assert web.count("/a.tgz") == 1


def test_what_a_killed_installation_left_is_not_installed_and_goes_with_the_next(web: Web, tmp_path: Path) -> None:
    wanted = put(web)
    for version in ("1.0.0", "0.9.0"):
        (home(tmp_path) / "agent" / version / "files").mkdir(parents=True)
        (home(tmp_path) / "agent" / version / "files" / "half").write_bytes(b"x")
    assert installations(tmp_path) == []
    made, is_new = installed(wanted, tmp_path)
    assert is_new
    assert [path.name for path in (home(tmp_path) / "agent").iterdir()] == ["1.0.0"]
    assert not (made.directory / "files" / "half").exists()
    remove(made, tmp_path)
    assert (installations(tmp_path), (home(tmp_path) / "agent").exists()) == ([], False)


def test_a_manifest_of_another_directory_or_a_damaged_one_counts_as_none(web: Web, tmp_path: Path) -> None:
    made, _ = installed(put(web), tmp_path)
    made.directory.rename(moved := made.directory.with_name("2.0.0"))
    assert read(moved) is None
    moved.rename(made.directory)
    assert read(made.directory) == made
    (made.directory / "install.json").write_bytes(b"{}")
    assert installations(tmp_path) == []


@pytest.mark.parametrize(
    ("way", "line"),
    [
        ({"npx": {"package": "@s/agent@1.2.3"}}, '{"command": "npx", "args": ["-y", "@s/agent@1.2.3"]}'),
        (
            {"npx": {"package": "agent", "args": ["--acp"]}},
            '{"command": "npx", "args": ["-y", "agent@1.0.0", "--acp"]}',
        ),
        (
            {"uvx": {"package": "my.agent[acp]==1.2.3", "env": {"A": "1"}}},
            '{"command": "uvx", "args": ["my.agent[acp]@1.2.3"], "env": {"A": "1"}}',
        ),
        ({"npx": {"package": "agent@latest"}, "uvx": {"package": "a@2"}}, '{"command": "uvx", "args": ["a@2"]}'),
    ],
)
def test_a_package_is_started_in_its_very_version_and_needs_no_installation(way: dict[str, Any], line: str) -> None:
    found = published(**way)
    assert pin_line(found) == f"agent: {line}"
    with pytest.raises(RegistryError, match="needs no installation") as refused:
        binary_of(found, "1.0.0", allow_unverified=True)
    assert refused.value.fix == f"write into the profile: agent: {line}"


@pytest.mark.parametrize(
    "package", ["agent@latest", "agent@^1", "git+https://x/y", "./local", "agent@npm:evil@1", "--flag", ""]
)
@pytest.mark.parametrize("runner", ["npx", "uvx"])
def test_a_package_without_a_very_version_is_not_pinned(runner: str, package: str) -> None:
    assert pin_line(published(**{runner: {"package": package}})) == ""


def test_what_cannot_be_installed_says_why() -> None:
    unverified = published(binary=binary("https://x/a.tgz", None))
    assert binary_of(unverified, "1.0.0", allow_unverified=True).archive == "https://x/a.tgz"
    for found, version, said in (
        (unverified, "1.0.0", "cannot be verified"),
        (unverified, "2.0.0", "1.0.0 only, not 2.0.0"),
        (published(npx={"package": "agent@latest"}), "1.0.0", "not published for"),
        (published(binary={"plan9-mips": {"archive": "https://x/a", "cmd": "a"}}), "1.0.0", "not published for"),
        (published(binary=binary("https://x/a.tgz", b"", env={"ACP_LAUNCH_SECRET_X": "1"})), "1.0.0", "cannot be set"),
    ):
        with pytest.raises(RegistryError, match=said):
            binary_of(found, version, allow_unverified=False)


def test_a_profile_gets_the_newest_version_or_the_one_it_names(web: Web, tmp_path: Path) -> None:
    for version in ("1.9.0", "1.10.0-beta", "1.10.0"):
        installed(with_(put(web), version=version), tmp_path)
    newest, by_version = chosen(tmp_path, Reference("agent")), chosen(tmp_path, Reference("agent", "1.9.0"))
    assert isinstance(newest, Installation)
    assert isinstance(by_version, Installation)
    assert (newest.manifest.version, by_version.manifest.version) == ("1.10.0", "1.9.0")
    what = "the registry's agent agent@3 is not installed; installed: 1.10.0, 1.10.0-beta, 1.9.0"
    assert chosen(tmp_path, Reference("agent", "3")) == CannotRun(what, "acp-launch agents install agent@3")
