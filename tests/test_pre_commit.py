"""The hook for pre-commit: what it says it runs does what a team wants of it."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.patience import PATIENCE

HOOKS = Path(__file__).parents[1] / ".pre-commit-hooks.yaml"
GOOD = 'version: 1\nagent: {command: x, env: {API_KEY: "${secret:api-key}"}}\n'
LEAKING = "version: 1\nagent: {{command: x, env: {{API_KEY: {}}}}}\n"


@pytest.fixture
def hook() -> dict[str, Any]:
    """Its only entry."""
    (entry,) = YAML(typ="safe").load(HOOKS)
    return dict(entry)


def committed(hook: dict[str, Any], directory: Path, *files: str) -> "subprocess.CompletedProcess[str]":
    """Run the hook as pre-commit does: at the top of the repository, the changed files appended."""
    program, *arguments = shlex.split(hook["entry"])
    assert program == "acp-launch"
    command = [sys.executable, "-m", "acp_launch", *arguments, *files]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=PATIENCE, check=False)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".acp-launch").mkdir()
    (tmp_path / ".acp-launch" / "good.yaml").write_text(GOOD)
    return tmp_path


def test_the_hook_is_complete(hook: dict[str, Any]) -> None:
    assert hook == {
        "id": "acp-launch-validate",
        "name": "validate acp-launch profiles",
        "description": "Refuses profiles (.acp-launch/*.yaml, *.yml) that are wrong,"
        " or that hold a credential in plain text.",
        "entry": "acp-launch validate --strict",
        "language": "python",
        "files": hook["files"],
        "types": ["yaml"],
        "exclude": r"\.local\.ya?ml$",  # an overlay is part of its profile
    }


@pytest.mark.parametrize(
    ("file", "wanted"),
    [
        (".acp-launch/a.yaml", True),
        (".acp-launch/a.yml", True),
        ("services/api/.acp-launch/a.yaml", True),
        ("acp-launch/a.yaml", False),
        ("x.acp-launch/a.yaml", False),
        (".acp-launch/notes/a.yaml", False),
        (".acp-launch/a.yaml.orig", False),
        ("profiles/a.yaml", False),
    ],
)
def test_the_hook_sees_the_profiles_of_a_repository(hook: dict[str, Any], file: str, wanted: bool) -> None:
    assert bool(re.search(hook["files"], file)) is wanted


def test_good_profiles_may_be_committed(hook: dict[str, Any], repository: Path) -> None:
    (repository / ".acp-launch" / "two.yaml").write_text(GOOD)
    ended = committed(hook, repository, ".acp-launch/good.yaml", ".acp-launch/two.yaml")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_token_in_a_comment_may_not_be_committed(hook: dict[str, Any], repository: Path) -> None:
    (repository / ".acp-launch" / "leaking.yaml").write_text(f"# was ghp_{'a1B2' * 9}\n{GOOD}")
    ended = committed(hook, repository, ".acp-launch/leaking.yaml")
    assert ended.returncode == 2
    assert ended.stderr.startswith(".acp-launch/leaking.yaml:1:7: this looks like a GitHub token\n    fix: remove it")


@pytest.mark.parametrize("literal", ["abcd-1234", "changeme"])
def test_a_profile_with_a_credential_or_its_placeholder_may_not(
    hook: dict[str, Any], repository: Path, literal: str
) -> None:
    (repository / ".acp-launch" / "leaking.yaml").write_text(LEAKING.format(literal))
    ended = committed(hook, repository, ".acp-launch/good.yaml", ".acp-launch/leaking.yaml")
    assert ended.returncode == 2
    assert ended.stdout == ".acp-launch/good.yaml: ok\n"
    assert '\n    fix: acp-launch secret set api-key, then write "${secret:api-key}" here\n' in ended.stderr
    assert ended.stderr.endswith("; 1 of 2 profiles did not pass\n")
