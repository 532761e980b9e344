"""The tab key in real shells: what stands on the line is what the shell will take for the name there is."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.launcher import ROOT
from tests.cli.shells import Shell, fish, interactive, is_there, on_path
from tests.patience import PATIENCE

# Names that a shell would read as more than a name; they are typed, and not offered.
ODD = ["my prof", "it's", "do$lar", "$(touch pwned)", "`touch pwned`", "back\\slash", "st*r", "[brackets]", "#hash"]
PLAIN = ["my-prof", "a:b", "per%cent", "x=y", "dä日本"]
BUILT_IN = {"claude", "codex", "demo", "gemini", "opencode"}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    found = {**os.environ, "PATH": on_path(tmp_path / "bin"), "PYTHONPATH": str(ROOT)}
    return {**found, "TERM": "xterm", "LC_ALL": "C.UTF-8", "INPUTRC": "/dev/null"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Profiles with names of all sorts, a file and a directory."""
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / ".acp-launch").mkdir()
    for name in (*ODD, *PLAIN):
        profile(project, name, "%F{red}$(touch pwned)`touch pwned`")
    (project / "file one.txt").touch()
    (project / "sub dir").mkdir()
    return project


def profile(project: Path, name: str, description: str) -> None:
    servers = "mcp_servers: {one: {command: x}, two.b: {command: y}}"
    text = f"version: 1\nagent: {{command: x}}\ndescription: '{description}'\n{servers}\n"
    (project / ".acp-launch" / f"{name}.yaml").write_text(text)


@pytest.fixture(params=["bash", "zsh"])
def shell(request: pytest.FixtureRequest, project: Path, env: dict[str, str]) -> Iterator[Shell]:
    if not is_there(request.param):
        pytest.skip(f"{request.param} is not installed")
    with interactive(request.param, cwd=project, env=env) as shell:
        yield shell


def test_the_profiles_with_plain_names_are_offered(shell: Shell, project: Path) -> None:
    assert set(shell.offers("acp-launch show ")) == {*PLAIN, *BUILT_IN}
    assert not (project / "pwned").exists()


def test_verbs_options_values_and_files_are_completed(shell: Shell) -> None:
    lines = {
        "acp-launch sec": "acp-launch secret ",
        "acp-launch run --no-": "acp-launch run --no-replay ",
        "acp-launch run --output j": "acp-launch run --output json ",
        "acp-launch run -o q": "acp-launch run -o quiet ",
        'acp-launch mcp tools "my prof" t': 'acp-launch mcp tools "my prof" two.b ',
        "true | acp-launch sec": "true | acp-launch secret ",
        "X=1 acp-launch sec": "X=1 acp-launch secret ",
        "acp-launch nonsense x": "acp-launch nonsense x",
        "acp-launch run -f fi": "acp-launch run -f file\\ one.txt ",
        "acp-launch run --cwd su": "acp-launch run --cwd sub\\ dir/",
        "acp-launch show ./fi": "acp-launch show ./file\\ one.txt ",
    }
    assert {typed: shell.completes(typed) for typed in lines} == lines
    assert sorted(shell.offers("acp-launch run --approve ")) == ["all", "none", "reads"]


def test_a_program_of_that_name_in_a_repository_is_not_run(shell: Shell, project: Path) -> None:
    hostile = project / "acp-launch"
    hostile.write_text("#!/bin/sh\ntouch pwned\n")
    hostile.chmod(0o755)
    assert shell.completes("./acp-launch sec") == "./acp-launch secret "
    assert not (project / "pwned").exists()


def test_a_completion_without_the_program_says_nothing(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "bin" / "acp-launch").unlink()
    assert shell.completes("acp-launch sec") == "acp-launch sec"
    assert "not found" not in shell.seen


@pytest.mark.skipif(not is_there("fish"), reason="fish is not installed")
def test_fish_offers_what_is_wanted(project: Path, env: dict[str, str]) -> None:
    offered = {typed: fish(f"acp-launch {typed}", cwd=project, env=env) for typed in ("show my", "secret ren")}
    (rename,) = offered["secret ren"]
    assert (offered["show my"], rename.partition(" ")[0]) == (["my-prof\tproject"], "rename\tRename")
    assert not (project / "pwned").exists()


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_a_script_is_one_its_shell_can_read(name: str, tmp_path: Path, env: dict[str, str]) -> None:
    if not is_there(name):
        pytest.skip(f"{name} is not installed")
    script = subprocess.run(
        ["acp-launch", "completion", name], env=env, capture_output=True, check=True, timeout=PATIENCE
    )
    file = tmp_path / "script"
    file.write_bytes(script.stdout)
    checked = subprocess.run([name, "-n", file], env=env, capture_output=True, timeout=PATIENCE, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")
