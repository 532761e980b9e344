"""The table of secret stores: a name without a row is found before a user meets it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

import acp_launch
from acp_launch.secret.stores import STORES
from acp_launch.settings.check import choices
from acp_launch.settings.model import NEEDED_SECTIONS, SecretSettings, StoreName
from tests.patience import PATIENCE

PACKAGE = Path(acp_launch.__file__).parent


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package in which a store that the user can choose has no row."""
    shutil.copytree(PACKAGE, tmp_path / "acp_launch", ignore=shutil.ignore_patterns("__pycache__"))
    model = tmp_path / "acp_launch/settings/model.py"
    text = model.read_text()
    names = f"StoreName = Literal[{', '.join(json.dumps(name) for name in get_args(StoreName))}"
    assert names in text
    model.write_text(text.replace(names, f'{names}, "of a test"'))
    return tmp_path


def run(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(directory), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *words],
        cwd=directory,
        env=environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_a_store_without_a_row_is_no_program_at_all(copy: Path) -> None:
    ended = run(copy, "-c", "import acp_launch.secret.stores as s; print(s.__file__)")
    assert ended.returncode == 1, ended.stdout
    assert "AssertionError: Expected code to be unreachable, but got: 'of a test'" in ended.stderr


@pytest.mark.whole
def test_the_type_checker_names_a_store_without_a_row(copy: Path) -> None:
    # Without the imports of these two, mypy needs seconds and not minutes.
    words = ("-m", "mypy", "--follow-imports=skip", "--config-file=", "--cache-dir", str(copy / "cache"))
    ended = run(copy, *words, "acp_launch/secret/stores.py", "acp_launch/settings/model.py")
    assert 'Argument 1 to "assert_never" has incompatible type "Literal[\'of a test\']"' in ended.stdout
    assert ended.stdout.count("assert_never") == 1


def test_the_table_has_a_row_for_each_name_and_no_other() -> None:
    assert tuple(STORES) == get_args(StoreName)


def test_every_store_but_the_keyring_can_be_chosen_by_the_words_that_a_user_is_told() -> None:
    """What `secret set` shows where the keyring fails is a `secrets` section without a mistake."""
    told = {name: row.example for name, row in STORES.items() if not row.is_desktop}
    assert all(told.values())
    for name, example in told.items():
        found, problems = choices(f"secrets: {example}\n", "config.yaml", {})
        assert problems == []
        assert found is not None
        assert found.secrets.store == name


@pytest.mark.parametrize("name", get_args(StoreName))
def test_a_store_that_needs_a_section_is_refused_without_it(name: StoreName) -> None:
    _, problems = choices(f"secrets: {{store: {name}}}\n", "config.yaml", {})
    assert [each.message for each in problems] == (
        [f"the store is a {name}, but secrets.{name} is not set"] if name in NEEDED_SECTIONS else []
    )
    assert NEEDED_SECTIONS.keys() <= set(SecretSettings.__struct_fields__)
