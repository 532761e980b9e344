"""An agent of the index becomes an installation: its very version, verified, complete or not there at all."""

import io
import tarfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

import pytest

from acp_launch.errors import RegistryError
from acp_launch.registry.download import fetch
from acp_launch.registry.index import Entry, decode
from acp_launch.registry.install import Tools, install, kind_of, remove
from acp_launch.registry.installed import Installation, Kind, Lacking, Reference, chosen, home, installations, read
from tests.registry.published import PROGRAM, Web, binary, entry, serving, written

PATIENCE = 20.0  # seconds; only waited for in full when a test fails


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


def fetching(address: str, file: IO[bytes], most: int) -> None:
    fetch(address, file.write, most=most, limit=PATIENCE)


def none(argv: Sequence[str], cwd: Path, variables: Mapping[str, str]) -> None:
    raise AssertionError(f"{argv} is not needed")


TOOLS = Tools(fetch=fetching, run=none, which=lambda name: f"/bin/{name}")


def published(**members: Any) -> Entry:
    (found,) = decode(written(entry("agent", **members))).agents.values()
    return found


def installed(entry: Entry, state: Path, kind: Kind = "binary", tools: Tools = TOOLS) -> tuple[Installation, bool]:
    return install(entry, entry.version, kind, state=state, registry="https://r.example/i.json", tools=tools)


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
    ("name", "content", "cmd", "said"),
    [
        ("a.tgz", packed(), "./bin/other", "does not hold its program"),
        ("a.tgz", packed("../agent"), "./agent", "leaves its directory"),
        ("a.tgz", packed()[:60], "./bin/agent", "is damaged"),
        ("a.tgz", packed(), "../../agent", "leaves its directory"),
        ("a.tgz", packed(), "/bin/sh", "leaves its directory"),
        ("a.tar.xz", packed(), "./bin/agent", "does not unpack"),
    ],
    ids=["another program", "a name upwards", "a half", "a program upwards", "a program of the system", "a kind"],
)
def test_a_refused_archive_leaves_nothing(
    web: Web, tmp_path: Path, name: str, content: bytes, cmd: str, said: str
) -> None:
    archive = web.put(f"/{name}", content)
    with pytest.raises(RegistryError, match=said):
        installed(published(binary=binary(archive, content, cmd)), tmp_path)
    assert left(tmp_path) == []


def left(state: Path) -> list[Path]:
    """What is there of the agent, the lock aside."""
    return [path for path in (home(state) / "agent").rglob("*") if path.is_file()] if home(state).exists() else []


def test_a_wrong_hash_and_a_broken_download_leave_nothing(web: Web, tmp_path: Path) -> None:
    content = packed()
    archive = web.put("/a.tgz", content + b"tampered")
    wanted = published(binary=binary(archive, content))
    with pytest.raises(RegistryError, match="another sha256"):
        installed(wanted, tmp_path)
    web.put("/a.tgz", content, cut=len(content) // 2)
    with pytest.raises(Exception, match="could not be fetched"):
        installed(wanted, tmp_path)
    assert left(tmp_path) == []
    web.put("/a.tgz", content)
    assert installed(wanted, tmp_path)[1]


def test_ten_at_once_are_one_installation(web: Web, tmp_path: Path) -> None:
    content = packed()
    wanted = published(binary=binary(web.put("/a.tgz", content), content))
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
    content = packed()
    wanted = published(binary=binary(web.put("/a.tgz", content), content))
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
    content = packed()
    made, _ = installed(published(binary=binary(web.put("/a.tgz", content), content)), tmp_path)
    made.directory.rename(moved := made.directory.with_name("2.0.0"))
    assert read(moved) is None
    moved.rename(made.directory)
    assert read(made.directory) == made
    (made.directory / "install.json").write_bytes(b"{}")
    assert chosen(tmp_path, Reference("agent")) == Lacking(
        "the registry's agent agent is not installed", "acp-launch agents install agent"
    )


class Manager:
    """npm and uv by their calls; installs `programs`, of npm in the version that it is asked for, or `version`."""

    def __init__(self, *programs: str, version: str = "") -> None:
        self.programs, self.version = programs, version
        self.asked: list[str] = []

    def __call__(self, argv: Sequence[str], cwd: Path, variables: Mapping[str, str]) -> None:
        self.asked.append(argv[-1])
        if argv[0] == "npm":
            name, _, version = argv[-1].rpartition("@")
            modules, programs = cwd / "node_modules", cwd / "node_modules" / ".bin"
            (modules / name).mkdir(parents=True)
            said = dict.fromkeys(self.programs, "x.js")
            package = f'{{"version": "{self.version or version}", "bin": {str(said).replace(chr(39), chr(34))}}}'
            (modules / name / "package.json").write_text(package)
            lock = f'{{"packages": {{"node_modules/{name}": {{"integrity": "sha512-x"}}}}}}'
            (modules / ".package-lock.json").write_text(lock)
        else:
            programs = Path(variables["UV_TOOL_BIN_DIR"])
        programs.mkdir()
        for program in self.programs:
            (programs / program).write_text(PROGRAM)


def of_manager(manager: Manager) -> Tools:
    return Tools(fetch=fetching, run=manager, which=lambda name: f"/bin/{name}")


@pytest.mark.parametrize(
    ("kind", "package", "version", "asked", "programs", "command"),
    [
        ("npx", "@s/agent@1.2.3", "1.0.0", "@s/agent@1.2.3", ["other", "agent"], "node_modules/.bin/agent"),
        ("npx", "agent", "1.0.0", "agent@1.0.0", ["only-one"], "node_modules/.bin/only-one"),
        ("npx", "agent@1.0.0", "0.9.0", "agent@0.9.0", ["agent"], "node_modules/.bin/agent"),
        ("uvx", "my.agent==1.2.3", "1.0.0", "my.agent==1.2.3", ["my.agent", "b"], "bin/my.agent"),
        ("uvx", "agent[acp]@1.0.0", "1.0.0", "agent[acp]==1.0.0", ["agent"], "bin/agent"),
        ("uvx", "agent", "2.0.0", "agent==2.0.0", ["agent-acp"], "bin/agent-acp"),
    ],
)
def test_a_package_is_installed_in_its_very_version(
    tmp_path: Path, kind: Kind, package: str, version: str, asked: str, programs: list[str], command: str
) -> None:
    manager = Manager(*programs)
    wanted = published(**{kind: {"package": package, "args": ["--acp"]}})
    made, _ = install(wanted, version, kind, state=tmp_path, registry="r", tools=of_manager(manager))
    assert manager.asked == [asked]
    assert (made.manifest.command, made.manifest.version, made.manifest.args) == (command, version, ("--acp",))
    assert made.manifest.integrity == ("sha512-x" if kind == "npx" else "")


@pytest.mark.parametrize(
    "package", ["agent@latest", "agent@^1", "git+https://x/y", "./local", "agent@npm:evil@1", "--flag", ""]
)
@pytest.mark.parametrize("kind", ["npx", "uvx"])
def test_a_package_without_a_very_version_of_its_own_is_refused(tmp_path: Path, kind: Kind, package: str) -> None:
    manager = Manager("agent")
    with pytest.raises(RegistryError, match="NAME@VERSION"):
        installed(published(**{kind: {"package": package}}), tmp_path, kind, of_manager(manager))
    assert (manager.asked, left(tmp_path)) == ([], [])


def test_a_package_that_is_not_as_it_should_be_leaves_nothing(tmp_path: Path) -> None:
    for manager, said in (
        (Manager("agent", version="6.6.6"), "6.6.6 instead of 1.0.0"),
        (Manager(), "no program"),
        (Manager("a", "b"), "the programs a, b"),
    ):
        with pytest.raises(RegistryError, match=said):
            installed(published(npx={"package": "agent@1.0.0"}), tmp_path, "npx", of_manager(manager))
    with pytest.raises(RegistryError, match="versions of its own"):
        install(
            published(npx={"package": "agent@7.0.0"}),
            "0.9.0",
            "npx",
            state=tmp_path,
            registry="r",
            tools=of_manager(Manager("agent")),
        )
    with pytest.raises(RegistryError, match="cannot be set"):
        bad = {"package": "agent@1.0.0", "env": {"ACP_LAUNCH_SECRET_X": "1"}}
        installed(published(npx=bad), tmp_path, "npx", of_manager(Manager("agent")))
    assert left(tmp_path) == []


def test_a_verified_binary_goes_before_a_package_and_an_unverified_one_after_it() -> None:
    npx = {"package": "agent@1"}
    verified, other = binary("https://x/a.tgz", b""), binary("https://x/a.tgz", None)
    assert kind_of(published(binary=verified, npx=npx), None, TOOLS, allow_unverified=False) == "binary"
    assert kind_of(published(binary=other, npx=npx), None, TOOLS, allow_unverified=True) == "npx"
    assert kind_of(published(binary=verified, npx=npx), "npx", TOOLS, allow_unverified=False) == "npx"
    assert kind_of(published(binary=other), None, TOOLS, allow_unverified=True) == "binary"
    without = Tools(fetch=fetching, run=none, which=lambda name: None)
    assert kind_of(published(binary=other, npx=npx, uvx=npx), None, without, allow_unverified=True) == "uvx"
    for found, kind, said in (
        (published(binary=other), None, "cannot be verified"),
        (published(npx=npx), None, "npm, which is not on PATH"),
        (published(npx=npx), "binary", "not published for binary"),
        (published(binary={"plan9-mips": {"archive": "https://x/a", "cmd": "a"}}), None, "not published for"),
    ):
        with pytest.raises(RegistryError, match=said):
            kind_of(found, kind, without, allow_unverified=False)  # type: ignore[arg-type]


def test_a_profile_gets_the_newest_version_or_the_one_it_names(tmp_path: Path) -> None:
    for version in ("1.9.0", "1.10.0-beta", "1.10.0"):
        wanted = published(npx={"package": "agent@1.0.0"})
        install(wanted, version, "npx", state=tmp_path, registry="r", tools=of_manager(Manager("agent")))
    newest, named = chosen(tmp_path, Reference("agent")), chosen(tmp_path, Reference("agent", "1.9.0"))
    assert isinstance(newest, Installation)
    assert isinstance(named, Installation)
    assert (newest.manifest.version, named.manifest.version) == ("1.10.0", "1.9.0")
    lacking = chosen(tmp_path, Reference("agent", "3"))
    assert isinstance(lacking, Lacking)
    assert "installed: 1.10.0, 1.10.0-beta, 1.9.0" in lacking.message
    assert lacking.fix == "acp-launch agents install agent@3"
