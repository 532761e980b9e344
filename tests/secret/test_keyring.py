"""Which keyring is used: one, chosen on purpose (issue "Secrets": Stores; facts: what the chainer does to stdin)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from acp_launch.secret.keyring import MACOS, SECRET_SERVICE, BackendChoice, Keyring, choose, config_root
from acp_launch.secret.value import Outcome, Secret, StoreFault
from acp_launch.settings.model import KeyringSettings
from tests.patience import PATIENCE
from tests.secret.backends import Memory
from tests.secret.bus import Desktop

HERE = "tests.secret.backends"
MEMORY = f"{HERE}.Memory"
UNSET = KeyringSettings()
FILE = "keep secrets in a sealed file instead: acp-launch config set secrets.store file"


def configured(home: Path, text: str) -> Path:
    """`~/.config/python_keyring/keyringrc.cfg`."""
    path = home / ".config" / "python_keyring" / "keyringrc.cfg"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def read(
    settings: KeyringSettings, environ: dict[str, str], home: Path, *, name: str = "github"
) -> tuple[str, str, str] | Outcome:
    """The outcome, or the fault's state, reason and fix."""
    store = Keyring(settings, environ | {"HOME": str(home)}, interactive=False)
    try:
        return store.read([name])[name]
    except StoreFault as fault:
        return fault.state, fault.reason, fault.fix


@pytest.mark.parametrize(
    ("platform", "expected"),
    [("linux", SECRET_SERVICE), ("freebsd14", SECRET_SERVICE), ("darwin", MACOS)],
)
def test_the_platform_has_one_keyring(platform: str, expected: str, tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    assert choose(UNSET, environ, platform=platform) == BackendChoice(expected)


def test_our_settings_win_over_the_librarys_variable_over_its_file(tmp_path: Path) -> None:
    path = configured(tmp_path, "[backend]\ndefault-keyring = a.File\n")
    environ = {"HOME": str(tmp_path)}
    assert choose(UNSET, environ) == BackendChoice("a.File", str(path), f"remove default-keyring from {path}")
    environ["PYTHON_KEYRING_BACKEND"] = "a.Variable"
    assert choose(UNSET, environ) == BackendChoice(
        "a.Variable", "PYTHON_KEYRING_BACKEND", "unset PYTHON_KEYRING_BACKEND"
    )
    place = "secrets.keyring.backend in your settings"
    ours = BackendChoice("a.Setting", place, f"remove {place}", ours=True)
    assert choose(KeyringSettings(backend="a.Setting"), environ) == ours


@pytest.mark.parametrize("text", ["", "[other]\n", "[backend]\n", "[backend]\ndefault-keyring =\n"])
def test_a_file_that_names_no_backend_leaves_the_platforms(tmp_path: Path, text: str) -> None:
    configured(tmp_path, text)
    assert choose(UNSET, {"HOME": str(tmp_path)}, platform="linux") == BackendChoice(SECRET_SERVICE)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"default-keyring = x\n", "MissingSectionHeaderError"),
        (b"[backend]\n\xff\n", "UnicodeDecodeError"),
        (b"[backend]\na = 1\na = 2\n", "DuplicateOptionError"),
        (b"[backend]\nkeyring-path = ~nobody-of-that-name/x\n", "RuntimeError"),
    ],
)
def test_a_file_that_cannot_be_read_is_said_and_not_passed_over(tmp_path: Path, content: bytes, why: str) -> None:
    path = configured(tmp_path, "")
    path.write_bytes(content)
    assert read(UNSET, {}, tmp_path) == (
        "unavailable",
        f"cannot read {path}, the keyring library's configuration ({why})",
        f"correct {path}, or remove it",
    )
    assert Keyring(UNSET, {"HOME": str(tmp_path)}, interactive=False).label == "keyring"


@pytest.mark.parametrize(
    "environ",
    [{"XDG_CONFIG_HOME": ".config"}, {"HOME": "."}, {"XDG_CONFIG_HOME": ".config", "HOME": "."}],
    ids=["XDG", "home", "both"],
)
def test_a_project_chooses_no_backend(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, a_home_of_its_own: Path
) -> None:
    """A path that is not absolute leads into whatever directory we are in."""
    configured(tmp_path, "[backend]\ndefault-keyring = theirs.Keyring\nkeyring-path = .\n")
    monkeypatch.chdir(tmp_path)
    elsewhere = {"HOME": str(tmp_path / "empty"), **environ}
    assert choose(UNSET, elsewhere, platform="linux") == BackendChoice(SECRET_SERVICE)
    root = Path(elsewhere["HOME"]) if elsewhere["HOME"] != "." else a_home_of_its_own
    assert config_root(elsewhere) == root / ".config" / "python_keyring"


def test_a_folder_in_the_librarys_file_is_meant_from_there(tmp_path: Path) -> None:
    path = configured(tmp_path, "[backend]\ndefault-keyring = mine.Keyring\nkeyring-path = backends\n")
    assert choose(UNSET, {"HOME": str(tmp_path)}).folder == str(path.parent / "backends")


@pytest.mark.parametrize("isolated", [False, True], ids=["python -m", "python -P -m"])
def test_what_lies_in_the_current_directory_is_not_imported(tmp_path: Path, isolated: bool) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for module in ("jeepney", "secretstorage", "msgspec", "typer"):
        (project / f"{module}.py").write_text("raise SystemExit('a stranger')\n")
    environ = {name: value for name, value in os.environ.items() if name != "PYTHON_KEYRING_BACKEND"}
    environ |= {"PYTHONPATH": str(Path(__file__).parents[2]), "DBUS_SESSION_BUS_ADDRESS": "unix:path=/nowhere"}
    command = [sys.executable, *(["-P"] if isolated else []), "-m", "acp_launch", "secret", "set", "github"]
    ended = subprocess.run(
        command, cwd=project, env=environ, input="x", capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert ended.returncode == 3
    assert "does not work here: [Errno 2]" in ended.stderr


def test_the_librarys_folder_is_searched_for_the_backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", list(sys.path))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "acp_launch_test_backend.py").write_text(f"from {HERE} import Memory as Mine\n")
    configured(tmp_path, f"[backend]\ndefault-keyring = acp_launch_test_backend.Mine\nkeyring-path = {tmp_path}/mine\n")
    assert read(UNSET, {}, tmp_path) == Outcome("missing", "keyring (acp_launch_test_backend.Mine)")
    del sys.modules["acp_launch_test_backend"]


@pytest.mark.parametrize(
    "environ", [{}, {"XDG_CONFIG_HOME": "/somewhere"}, {"XDG_CONFIG_HOME": ""}], ids=["home", "XDG", "XDG, empty"]
)
def test_the_librarys_file_is_where_the_library_looks(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from keyring.util import platform_

    for name, value in (environ | {"HOME": str(tmp_path)}).items():
        monkeypatch.setenv(name, value)
    theirs = platform_._config_root_Linux()  # type: ignore[no-untyped-call]
    assert config_root(environ | {"HOME": str(tmp_path)}) == theirs


PLACES = [
    ("secrets.keyring.backend in your settings", "remove secrets.keyring.backend in your settings"),
    ("PYTHON_KEYRING_BACKEND", "unset PYTHON_KEYRING_BACKEND"),
    ("{path}", "remove default-keyring from {path}"),
]
places = pytest.mark.parametrize(("place", "undo"), PLACES, ids=["settings", "variable", "file"])


def chosen_at(place: str, name: str, home: Path) -> tuple[KeyringSettings, dict[str, str], str]:
    """`name` chosen at a place; also the path of the library's file, written or not."""
    path = home / ".config" / "python_keyring" / "keyringrc.cfg"
    if place.startswith("secrets."):
        return KeyringSettings(backend=name), {}, str(path)
    if place == "{path}":
        configured(home, f"[backend]\ndefault-keyring = {name}\n")
        return UNSET, {}, str(path)
    return UNSET, {place: name}, str(path)


@places
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("keyring.backends.null.Keyring", "turns keyrings off"),
        ("keyring.backends.fail.Keyring", "always fails"),
        ("keyring.backends.chainer.ChainerBackend", "tries all others in turn, so the place of a secret is unknown"),
        ("keyring.backends.nowhere.Keyring", "cannot be imported: No module named 'keyring.backends.nowhere'"),
        ("Keyring", "cannot be imported: Empty module name"),
        (f"{HERE}.Nobody", "does not exist: there is no such class"),
        (f"{HERE}.NotABackend", "is not a keyring backend"),
    ],
)
def test_a_backend_that_is_no_place_for_a_secret_is_not_used(
    tmp_path: Path, place: str, undo: str, name: str, why: str
) -> None:
    settings, environ, path = chosen_at(place, name, tmp_path)
    assert read(settings, environ, tmp_path) == (
        "unavailable",
        f"the keyring backend {name} (chosen by {place.format(path=path)}) {why}",
        f"{undo.format(path=path)}, or name another one there",
    )


@pytest.mark.parametrize("name", ["PlaintextMemory", "Alias", "Openly"])
@pytest.mark.parametrize(("place", "undo"), PLACES[1:], ids=["variable", "file"])
def test_a_plaintext_backend_is_refused_where_only_the_library_is_told_of_it(
    tmp_path: Path, place: str, undo: str, name: str
) -> None:
    settings, environ, path = chosen_at(place, f"{HERE}.{name}", tmp_path)
    assert read(settings, environ, tmp_path) == (
        "unavailable",
        f"the keyring backend {HERE}.{name} (chosen by {place.format(path=path)}) stores secrets in plain text",
        f'{undo.format(path=path)}, or allow it in config.yaml: "secrets: {{keyring: {{backend: {HERE}.{name}}}}}"',
    )


def test_a_well_known_plaintext_backend_is_refused_before_it_is_imported(tmp_path: Path) -> None:
    environ = {"PYTHON_KEYRING_BACKEND": "keyrings.alt.file.PlaintextKeyring"}
    state, reason, _ = faulty(read(UNSET, environ, tmp_path))
    assert state == "unavailable"
    assert reason.endswith("(chosen by PYTHON_KEYRING_BACKEND) stores secrets in plain text")


@pytest.mark.parametrize("name", ["PlaintextMemory", "Alias", "Openly"])
def test_a_plaintext_backend_is_used_when_our_settings_name_it(tmp_path: Path, name: str) -> None:
    settings = KeyringSettings(backend=f"{HERE}.{name}")
    assert read(settings, {}, tmp_path) == Outcome("missing", f"keyring ({HERE}.{name})")


def test_a_backend_for_another_platform_says_so(tmp_path: Path) -> None:
    settings = KeyringSettings(backend=MACOS)
    assert read(settings, {}, tmp_path) == (
        "unavailable",
        "the keyring (macOS Keychain) does not work here: macOS required",
        "remove secrets.keyring.backend in your settings, or name another one there",
    )


def faulty(answer: tuple[str, str, str] | Outcome) -> tuple[str, str, str]:
    assert isinstance(answer, tuple), answer
    return answer


def in_a_process(code: str, environ: dict[str, str], *, path: str = "") -> list[str]:
    """What a fresh interpreter prints, as JSON, after running `code` with `store` at hand."""
    program = (
        "import json, os, sys\n"
        "from acp_launch.secret.keyring import Keyring\n"
        "from acp_launch.secret.value import Secret\n"
        "from acp_launch.settings.model import KeyringSettings\n"
        "store = Keyring(KeyringSettings(), os.environ, interactive=False)\n"
    )
    root = str(Path(__file__).parents[2])
    environ = environ | {"PYTHONPATH": f"{path}{os.pathsep}{root}" if path else root}
    command = [sys.executable, "-c", program + code]
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 0, ended.stderr
    printed: list[str] = json.loads(ended.stdout)
    return printed


def test_opening_the_store_imports_none_of_the_libraries(tmp_path: Path) -> None:
    libraries = ["keyring", "secretstorage", "jeepney", "cryptography"]
    code = f"store.label\nprint(json.dumps([name for name in {libraries} if name in sys.modules]))\n"
    assert in_a_process(code, {"HOME": str(tmp_path)}) == []


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A distribution that offers a backend for discovery, as keyrings.alt does; it leaves a mark."""
    folder = tmp_path / "site"
    (folder / "acp_launch_alt-1.0.dist-info").mkdir(parents=True)
    (folder / "acp_launch_alt-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: acp-launch-alt\nVersion: 1.0\n"
    )
    (folder / "acp_launch_alt-1.0.dist-info" / "entry_points.txt").write_text(
        "[keyring.backends]\nalt = acp_launch_alt\n"
    )
    (folder / "acp_launch_alt.py").write_text(
        "from keyring.backend import KeyringBackend\n"
        "class Alternative(KeyringBackend):\n"
        "    priority = 99\n"
        "    def get_password(self, service, username): return 'from the alternative'\n"
        "    def set_password(self, service, username, password): raise AssertionError\n"
    )
    return folder


LOOK = (
    "def look():\n"
    "    outcome = store.read(['github'])['github']\n"
    "    return [outcome.state, outcome.source, 'acp_launch_alt' in sys.modules]\n"
)


def test_backends_that_are_merely_installed_change_nothing(desktop: Desktop, installed: Path, tmp_path: Path) -> None:
    environ = desktop.environ | {"HOME": str(tmp_path)}
    code = LOOK + "store.write('github', Secret('ours'))\nprint(json.dumps(look()))\n"
    assert in_a_process(code, environ, path=str(installed)) == ["found", "keyring (Secret Service)", False]
    # Even where the library is at work; and it would discover this one if it were let.
    environ["PYTHON_KEYRING_BACKEND"] = MEMORY
    code = LOOK + "seen = look()\nimport keyring.backend\nkeyring.backend.get_all_keyring()\n"
    code += "print(json.dumps([*seen, 'acp_launch_alt' in sys.modules]))\n"
    assert in_a_process(code, environ, path=str(installed)) == ["missing", f"keyring ({MEMORY})", False, True]


def test_the_library_itself_would_have_taken_the_installed_backend(
    desktop: Desktop, installed: Path, tmp_path: Path
) -> None:
    """Why we choose: this is what would happen otherwise."""
    code = "import keyring\nprint(json.dumps([keyring.get_password('acp-launch', 'github')]))\n"
    environ = desktop.environ | {"HOME": str(tmp_path)}
    assert in_a_process(code, environ, path=str(installed)) == ["from the alternative"]


def test_a_store_passes_everything_on(tmp_path: Path) -> None:
    store = Keyring(KeyringSettings(backend=MEMORY), {"HOME": str(tmp_path)}, interactive=False)
    store.prepare()
    store.write("github", Secret("x"))
    assert store.label == f"keyring ({MEMORY})"
    assert store.read(["github"])["github"].secret == Secret("x")
    assert store.names() is None
    assert store.remove("github") is True
    assert Memory.items == {}
