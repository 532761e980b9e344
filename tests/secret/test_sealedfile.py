"""The sealed file as a store: what it answers, what it says when it cannot, and that nothing is ever lost."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from acp_launch.secret import sealedfile
from acp_launch.secret.sealed import Kdf, Key, derive
from acp_launch.secret.sealedfile import SealedFile, open_file
from acp_launch.secret.value import MAX_VALUE, Outcome, Secret, StoreFault
from acp_launch.settings.model import FileSettings
from tests.patience import PATIENCE
from tests.secret.shelf import fault

pytestmark = pytest.mark.usefixtures("cheap_keys")
PASSPHRASE = "correct horse"
GIVEN = {"ACP_LAUNCH_PASSPHRASE": PASSPHRASE}
BY_KEY_FILE = FileSettings(key_file="key")


def no_user(prompt: str) -> str | None:
    raise AssertionError(f"asked {prompt!r}")


def store(
    config: Path,
    environ: Mapping[str, str] = GIVEN,
    settings: FileSettings = FileSettings(),  # noqa: B008 - frozen
    ask: Callable[[str], str | None] = no_user,
) -> SealedFile:
    return open_file(settings, config, environ, ask)


def values(store: SealedFile, *names: str) -> dict[str, str | None]:
    """The text of each, None where it is missing."""
    outcomes = store.read(names)
    assert {outcome.state for outcome in outcomes.values()} <= {"found", "missing"}
    return {name: outcome.secret.expose() if outcome.secret else None for name, outcome in outcomes.items()}


def files(config: Path) -> set[str]:
    return {entry.name for entry in config.iterdir()}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "config"


@pytest.fixture
def path(config: Path) -> Path:
    """A file with one secret in it."""
    store(config).write("github", Secret("gho_1"))
    return config / "secrets.sealed"


def test_what_was_written_is_read_by_the_next(config: Path) -> None:
    first = store(config)
    first.write("github", Secret("gho_1"))
    first.write("team/linear", Secret("zwei\nZeilen 😀"))
    first.write("github", Secret("gho_2"))
    assert values(store(config), "github", "team/linear", "none") == {
        "github": "gho_2",
        "team/linear": "zwei\nZeilen 😀",
        "none": None,
    }


def test_an_outcome_names_the_file(path: Path, config: Path) -> None:
    label = f"sealed file ({path})"
    assert store(config).label == label
    assert store(config).read(["github", "x"]) == {
        "github": Outcome("found", label, Secret("gho_1")),
        "x": Outcome("missing", label),
    }


def test_without_a_file_all_is_missing_no_user_is_asked_and_nothing_is_made(config: Path) -> None:
    for settings in (FileSettings(), BY_KEY_FILE):
        there = store(config, {}, settings)
        there.prepare()
        assert values(there, "a", "b") == {"a": None, "b": None}
        assert there.names() == {}
        assert there.remove("a") is False
    assert not config.exists()


def test_what_is_removed_is_gone_and_the_rest_stays(path: Path, config: Path) -> None:
    store(config).write("linear", Secret("lin_1"))
    assert store(config).remove("github") is True
    before = path.read_bytes()
    assert store(config).remove("github") is False
    assert path.read_bytes() == before
    assert values(store(config), "github", "linear") == {"github": None, "linear": "lin_1"}


def test_names_come_with_the_time_they_were_set(path: Path, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1700000000.5)
    store(config).write("linear", Secret("lin_1"))
    names = store(config).names()
    assert names is not None and names.keys() == {"github", "linear"} and names["linear"] == 1700000000.5


def test_names_are_not_known_before_the_passphrase_is(path: Path, config: Path) -> None:
    there = store(config, {}, ask=lambda prompt: PASSPHRASE)
    assert there.names() is None
    there.prepare()
    assert list(there.names() or {}) == ["github"]


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777], ids=oct)
def test_all_is_for_the_user_alone_whatever_the_umask(config: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        store(config / "deep", settings=BY_KEY_FILE).write("a", Secret("1"))
    finally:
        os.umask(before)
    modes = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in (config, *(config / "deep").iterdir())}
    assert modes.pop("secrets.sealed.lock") & 0o177 == 0
    assert modes == {"config": 0o700, "secrets.sealed": 0o600, "key": 0o600}


def test_the_settings_say_where_the_files_are(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    store(config, {}, FileSettings(path="~/s.sealed", key_file="sub/k")).write("a", Secret("1"))
    assert (tmp_path / "me" / "s.sealed").is_file() and (config / "sub" / "k").is_file()
    assert not (config / "s.sealed").exists()


def test_settings_that_cannot_be_are_refused(config: Path) -> None:
    same = f"{config}/x is named as the sealed file and as its key file"
    assert fault(lambda: store(config, settings=FileSettings(path="x", key_file="x"))) == (
        "unavailable",
        same,
        "name another secrets.file.key_file in config.yaml",
    )
    assert fault(lambda: store(config, settings=FileSettings(path="~nobody-here/x"))) == (
        "unavailable",
        'cannot expand "~" in ~nobody-here/x',
        "write the whole path in config.yaml",
    )


def test_a_link_stays_and_what_it_leads_to_is_replaced(config: Path, tmp_path: Path) -> None:
    config.mkdir()
    (config / "secrets.sealed").symlink_to(tmp_path / "elsewhere" / "real")
    store(config).write("a", Secret("1"))
    store(config).write("b", Secret("2"))
    assert (config / "secrets.sealed").is_symlink()
    assert files(tmp_path / "elsewhere") == {"real", "real.lock"}
    assert values(store(config), "a", "b") == {"a": "1", "b": "2"}


def test_the_key_is_derived_once_for_each_salt(path: Path, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    derived: list[Kdf] = []

    def counted(kdf: Kdf, material: bytes) -> Key:
        derived.append(kdf)
        return derive(kdf, material)

    monkeypatch.setattr(sealedfile, "derive", counted)
    there = store(config, {}, ask=lambda prompt: PASSPHRASE)
    there.prepare()
    there.write("a", Secret("1"))
    there.read(["a", "b"])
    there.names()
    there.remove("a")
    assert len(derived) == 1
    path.unlink()
    there.write("a", Secret("1"))
    there.read(["a"])
    assert len(set(derived)) == len(derived) == 2


@pytest.mark.parametrize(
    ("damage", "says", "fix"),
    [
        (lambda data: data[:-10], "is cut off: its end is missing", "restore a backup, or start over: mv"),
        (lambda data: b"", "is cut off: its end is missing", "restore a backup, or start over: mv"),
        (
            lambda data: data.replace(b'"token":"', b'"token":"AAAA'),
            "was changed or damaged",
            "restore a backup, or start over: mv",
        ),
        (lambda data: b"github: gho_1\n", "is not a sealed file", "name another secrets.file.path in config.yaml"),
        (
            lambda data: data.replace(b'"version":1', b'"version":2'),
            "was written by a newer acp-launch",
            "upgrade acp-launch",
        ),
    ],
    ids=["cut off", "empty", "changed", "foreign", "newer"],
)
def test_a_file_we_do_not_understand_is_said_and_never_replaced(
    path: Path, config: Path, damage: Callable[[bytes], bytes], says: str, fix: str
) -> None:
    path.write_bytes(damaged := damage(path.read_bytes()))
    there = store(config)
    works: list[Callable[[], object]] = [
        lambda: there.read(["github"]),
        lambda: there.write("github", Secret("gho_2")),
        lambda: there.remove("github"),
        there.names,
        store(config, {}).prepare,  # before the user is asked
    ]
    for work in works:
        state, reason, what_to_do = fault(work)
        assert (state, reason) == ("unavailable", f"{path} {says}")
        assert what_to_do.startswith(fix)
    assert path.read_bytes() == damaged


def test_beginning_anew_is_a_command(config: Path) -> None:
    path = config / "my secrets"
    config.mkdir()
    path.write_bytes(b"")
    _, _, fix = fault(lambda: store(config, settings=FileSettings(path="my secrets")).read(["a"]))
    assert fix == f"restore a backup, or start over: mv '{path}' '{path}'.damaged"


def test_what_is_not_a_file_does_not_hang(config: Path) -> None:
    config.mkdir()
    os.mkfifo(config / "secrets.sealed")
    there = store(config)
    expected = ("unavailable", f"{config}/secrets.sealed is not a regular file", "name another file in config.yaml")
    assert fault(lambda: there.read(["a"])) == expected
    assert fault(lambda: there.write("a", Secret("1"))) == expected


def test_a_file_of_an_absurd_size_is_not_read(config: Path) -> None:
    config.mkdir()
    with (config / "secrets.sealed").open("wb") as file:
        file.truncate(17 * 1024 * 1024)
    reason = f"{config}/secrets.sealed is larger than 16777216 bytes"
    assert fault(lambda: store(config).read(["a"])) == ("unavailable", reason, "name another file in config.yaml")


def test_a_directory_that_cannot_be_had_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "secrets.sealed"
    fix = f"check the owner, the mode and the free space of {tmp_path}/file"
    there = store(tmp_path / "file")
    assert fault(lambda: there.read(["a"])) == ("unavailable", f"cannot read {path}: not a directory", fix)


def test_a_value_that_is_too_large_changes_nothing(path: Path, config: Path) -> None:
    before = path.read_bytes()
    state, reason, fix = fault(lambda: store(config).write("github", Secret("é" * (MAX_VALUE // 2) + "x")))
    assert (state, bool(reason), bool(fix)) == ("too large", True, True)
    assert path.read_bytes() == before
    store(config).write("github", Secret("é" * (MAX_VALUE // 2)))
    assert values(store(config), "github") == {"github": "é" * (MAX_VALUE // 2)}


def test_a_value_that_is_no_text_is_refused_without_showing_it(path: Path, config: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(StoreFault) as raised:
        store(config).write("a", Secret("hunter22\udcff"))
    assert raised.value.state == "unavailable"
    error: BaseException | None = raised.value
    while error:
        assert "hunter22" not in repr(error) + repr(vars(error))
        error = error.__cause__ or error.__context__
    assert path.read_bytes() == before


def test_a_file_that_would_grow_too_large_stays_as_it_is(
    path: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acp_launch.secret.sealedfile.MAX_FILE", 1024 * 1024)
    there, before = store(config), b""
    with pytest.raises(StoreFault) as raised:
        for number in range(20):
            before = path.read_bytes()
            there.write(f"n{number}", Secret("v" * MAX_VALUE))
    assert (raised.value.state, raised.value.reason) == ("too large", f"{path} would be larger than 1 MiB")
    assert raised.value.fix == "remove secrets you do not need: acp-launch secret rm NAME"
    assert path.read_bytes() == before


def test_only_what_is_opened_is_imported() -> None:
    code = (
        "import sys; from pathlib import Path; from acp_launch.secret.sealedfile import open_file\n"
        "from acp_launch.settings.model import FileSettings\n"
        "open_file(FileSettings(), Path('/nowhere'), {}, input).read(['a'])\n"
        "print([name for name in ('cryptography', 'pydantic', 'asyncio', 'keyring') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
