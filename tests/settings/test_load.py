"""The user's settings: the file, the variables, the defaults, and what is remembered of them (ours)."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import platformdirs
import pytest

from acp_launch.document.scalars import Duration
from acp_launch.errors import SettingsError, StateError
from acp_launch.settings import load
from acp_launch.settings.model import FileSettings, KeyringSettings, SecretSettings, Settings
from tests.patience import PATIENCE

EVERYTHING = """
max_line: 1MiB
secrets:
  store: command
  timeout: 1m
  keyring: {backend: keyring.backends.kwallet.DBusKeyring}
  file: {path: ~/secrets.sealed, key_file: /run/secrets/acp-launch}
  command: [op, read, "op://dev/{name}/credential"]
"""


@pytest.fixture
def config(a_home_of_its_own: Path) -> Iterator[Path]:
    """The directory of the file; the umask may be 002."""
    before = os.umask(0o077)
    folder = a_home_of_its_own / "config"
    folder.mkdir()
    yield folder / "config.yaml"
    os.umask(before)


def entries(home: Path) -> list[Path]:
    folder = home / "cache" / "settings"
    return list(folder.iterdir()) if folder.exists() else []


def refused() -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load.load()
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize("kind", ["CONFIG", "STATE", "CACHE"])
def test_without_a_choice_they_are_those_of_platformdirs(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.delenv(f"ACP_LAUNCH_{kind}_DIR")
    wanted = getattr(platformdirs, f"user_{kind.lower()}_path")
    homes = ("/home/u", "/", "/home/u/", "relative", "", None)
    bases = ("/xdg", "/xdg/", "", " ", "relative", "~/x", None)
    for home, base in product(homes, bases):
        for name, value in (("HOME", home), (f"XDG_{kind}_HOME", base)):
            monkeypatch.delenv(name, raising=False)
            if value is not None:
                monkeypatch.setenv(name, value)
        assert load.directory(kind) == wanted("acp-launch", appauthor=False), (home, base)


def test_without_a_home_directory_the_fix_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container whose user has no entry in passwd."""

    def unknown(*name: str, **more: object) -> Path:
        raise RuntimeError("could not determine the home directory")

    for name in ("ACP_LAUNCH_STATE_DIR", "XDG_STATE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(platformdirs, "user_state_path", unknown)
    with pytest.raises(StateError) as caught:
        load.load()
    assert caught.value.message == "there is no place for its files: the user has no home directory"
    assert "ACP_LAUNCH_STATE_DIR" in caught.value.fix


def test_without_a_file_and_variables_everything_is_the_default(
    a_home_of_its_own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the file says nothing. A directory that is chosen becomes absolute."""
    home = a_home_of_its_own
    defaults = Settings(config=home / "config", state=home / "state", cache=home / "cache")
    assert load.load() == defaults
    assert entries(home) == []
    (home / "config").mkdir(0o700)
    for text in ("", "# nothing yet\n", "---\n", "~\n", "\ufeff"):
        (home / "config" / "config.yaml").write_text(text)
        (home / "config" / "config.yaml").chmod(0o600)
        assert load.load() == defaults
    monkeypatch.setenv("ACP_LAUNCH_STATE_DIR", "here")
    assert load.load().state == Path.cwd() / "here"


def test_everything_can_be_chosen_by_variables_and_in_the_file(monkeypatch: pytest.MonkeyPatch, config: Path) -> None:
    chosen = {
        "MAX_LINE": "1MiB",
        "SECRETS__STORE": "command",
        "SECRETS__TIMEOUT": "1m",
        "SECRETS__KEYRING__BACKEND": "keyring.backends.kwallet.DBusKeyring",
        "SECRETS__FILE__PATH": "~/secrets.sealed",
        "SECRETS__FILE__KEY_FILE": "/run/secrets/acp-launch",
        "SECRETS__COMMAND": '["op", "read", "op://dev/{name}/credential"]',
    }
    with monkeypatch.context() as patch:
        for name, text in chosen.items():
            patch.setenv(f"ACP_LAUNCH_{name}", text)
        found = load.load()
    assert (found.max_line, found.secrets.store, found.secrets.timeout) == (1024 * 1024, "command", Duration(60))
    assert found.secrets.keyring == KeyringSettings(backend="keyring.backends.kwallet.DBusKeyring")
    assert found.secrets.file == FileSettings(path="~/secrets.sealed", key_file="/run/secrets/acp-launch")
    assert found.secrets.command == ("op", "read", "op://dev/{name}/credential")
    config.write_text(EVERYTHING)
    assert repr(load.load()) == repr(found)
    monkeypatch.setenv("ACP_LAUNCH_SECRETS__FILE__PATH", "/elsewhere")
    monkeypatch.setenv("ACP_LAUNCH_SECRETS__STORE", "file")
    mixed = load.load().secrets  # a variable wins over the file, key by key
    assert (mixed.store, mixed.timeout) == ("file", Duration(60))
    assert mixed.file == FileSettings(path="/elsewhere", key_file="/run/secrets/acp-launch")


@pytest.mark.parametrize(
    "name", ["ACP_LAUNCH_TEST_KEYRING", "ACP_LAUNCH_SECRETS", "ACP_LAUNCH_SECRET_STORE", "ACP_LAUNCH_PASSPHRASE"]
)
def test_other_variables_are_left_alone(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "x")
    assert load.load().secrets == SecretSettings()


def test_the_cap_on_a_line_is_64_mib_or_what_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, size in (("", 64 * 1024 * 1024), ("4096", 4096), ("100000000", 100_000_000)):
        monkeypatch.setenv("ACP_LAUNCH_MAX_LINE", text)
        assert load.load().max_line == size
    for text in ("0", "4095", "-1", "lots", "1e9", "٣٤٥٦٧"):
        monkeypatch.setenv("ACP_LAUNCH_MAX_LINE", text)
        assert refused() == [
            f'ACP_LAUNCH_MAX_LINE: expected a number of bytes from 4KiB to 1GiB, found the text "{text}"\n'
            "    fix: write a number and its unit: 64MiB"
        ]


def test_problems_of_the_variables_and_the_file_come_together(monkeypatch: pytest.MonkeyPatch, config: Path) -> None:
    config.write_text("secrets: {stor: file}\nmax_line: 64MB\n")
    config.chmod(0o646)
    monkeypatch.setenv("ACP_LAUNCH_SECRETS__TIMEOUT", "soon")
    assert refused() == [
        f"{config}: other users can write this file, and so change which commands run\n    fix: chmod go-w {config}",
        'ACP_LAUNCH_SECRETS__TIMEOUT: expected a duration, found the text "soon"\n'
        "    fix: write a positive number and its unit: 200ms, 10s, 2m, 1h",
        f'{config}:1:11: secrets.stor: unknown key "stor"; did you mean "store"?\n    fix: write store',
        f"{config}:2:11: max_line: expected a number of bytes from 4KiB to 1GiB, "
        'found the text "64MB"\n    fix: write a number and its unit: 64MiB',
    ]


def test_what_is_recalled_equals_what_was_checked_to_the_last_digit(a_home_of_its_own: Path, config: Path) -> None:
    config.write_text(EVERYTHING.replace("1m", "123456.789ms"))
    first = load.load()
    assert first.secrets.timeout == 123.456789
    (entry,) = entries(a_home_of_its_own)
    assert (stat.S_IMODE(entry.stat().st_mode), stat.S_IMODE(entry.parent.stat().st_mode)) == (0o600, 0o700)
    kept = entry.read_bytes()
    again = load.load()
    assert again == first
    assert repr(again) == repr(first)  # the types too: Duration, Size, tuple
    assert entry.read_bytes() == kept


def test_what_is_recalled_is_for_the_same_text_and_the_same_variables(
    monkeypatch: pytest.MonkeyPatch, config: Path
) -> None:
    config.write_text("secrets: {store: file}")
    assert load.load().secrets.store == "file"
    monkeypatch.setenv("ACP_LAUNCH_SECRETS__STORE", "keyring")
    assert load.load().secrets.store == "keyring"
    monkeypatch.delenv("ACP_LAUNCH_SECRETS__STORE")
    assert load.load().secrets.store == "file"
    config.write_text("max_line: 8KiB")
    assert (load.load().secrets.store, load.load().max_line) == ("keyring", 8192)


def test_settings_with_a_problem_are_not_kept(a_home_of_its_own: Path, config: Path) -> None:
    """Nor is what was kept used once other users can write the file."""
    config.write_text("secrets: {store: file, store: file}")
    assert len(refused()) == len(refused()) == 1
    assert entries(a_home_of_its_own) == []
    config.write_text(EVERYTHING)
    load.load()
    config.chmod(0o646)
    assert [problem.partition(": ")[2].partition(",")[0] for problem in refused()] == [
        "other users can write this file"
    ]


def test_a_secret_is_neither_kept_nor_told(
    a_home_of_its_own: Path, monkeypatch: pytest.MonkeyPatch, config: Path
) -> None:
    """Not even one whose variable was spelled so that it looks like a setting."""
    config.write_text("secrets: {store: file}")
    monkeypatch.setenv("ACP_LAUNCH_SECRET_GITHUB", "canary-1")
    monkeypatch.setenv("ACP_LAUNCH_PASSPHRASE", "canary-2")
    load.load()
    (entry,) = entries(a_home_of_its_own)
    assert b"canary" not in entry.read_bytes()
    before = entry.read_bytes()
    monkeypatch.setenv("ACP_LAUNCH_SECRETS__GITHUB", "canary-3")
    assert refused() == [
        "ACP_LAUNCH_SECRETS__GITHUB: unknown setting\n"
        "    fix: unset ACP_LAUNCH_SECRETS__GITHUB; to give a secret's value, set ACP_LAUNCH_SECRET_GITHUB"
    ]
    assert entry.read_bytes() == before


@pytest.mark.parametrize("answer", [b"[]", b'{"max_line": "many", "secrets": {}}', b'{"max_line": 5, "secrets": []}'])
def test_an_entry_of_another_shape_counts_as_none(a_home_of_its_own: Path, config: Path, answer: bytes) -> None:
    config.write_text("secrets: {store: file}")
    load.load()
    (entry,) = entries(a_home_of_its_own)
    head, tail = entry.read_bytes().split(b'"answer":')
    entry.write_bytes(head + b'"answer":' + answer + b"}")
    assert load.load().secrets.store == "file"
    assert entry.read_bytes() == head + b'"answer":' + tail


def loaded_modules() -> set[str]:
    code = "import sys, acp_launch.settings.load as it; it.load(); print(*sys.modules)"
    return set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True
        ).stdout.split()
    )


def test_neither_defaults_nor_a_file_that_was_checked_before_need_yaml_or_pydantic(config: Path) -> None:
    heavy = {"pydantic", "pydantic_settings", "dataclasses", "ruamel.yaml"}
    assert not heavy & loaded_modules()
    config.write_text(EVERYTHING)
    assert {"pydantic_settings", "ruamel.yaml"} <= loaded_modules()
    assert not heavy & loaded_modules()
