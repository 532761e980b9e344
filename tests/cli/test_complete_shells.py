"""The tab key in real shells: what stands on the line is what the shell will take for the name there is."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.launcher import ROOT
from tests.cli.shells import Shell, fish, interactive, is_there, on_path

ODD = [
    "my prof",
    "it's",
    'say "so"',
    "end'",
    "a:b",
    "x=y",
    "do$lar",
    "$(touch pwned)",
    "`touch pwned`",
    "semi;colon",
    "am&p",
    "pipe|d",
    "less<more",
    "back\\slash",
    "st*r",
    "qu?stion",
    "[brackets]",
    "{braces}",
    "(parens)",
    "#hash",
    "~tilde",
    "bang!x",
    "per%cent",
    "^caret",
    "dä日本",
]
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
    for name in ODD:
        profile(project, name, "%F{red}$(touch pwned)`touch pwned`")
    (project / "file one.txt").touch()
    (project / "sub dir").mkdir()
    return project


def profile(project: Path, name: str, description: str) -> None:
    text = f"description: '{description}'\nmcp_servers:\n  one:\n    command: x\n  two.b:\n    command: y\n"
    (project / ".acp-launch" / f"{name}.yaml").write_text(text)


@pytest.fixture(params=["bash", "zsh"])
def shell(request: pytest.FixtureRequest, project: Path, env: dict[str, str]) -> Iterator[Shell]:
    if not is_there(request.param):
        pytest.skip(f"{request.param} is not installed")
    with interactive(request.param, cwd=project, env=env) as shell:
        yield shell


@pytest.fixture
def has_fish() -> None:
    if not is_there("fish"):
        pytest.skip("fish is not installed")


def test_every_profile_is_offered_and_its_name_survives_the_shell(shell: Shell, project: Path) -> None:
    assert set(shell.offers("acp-launch show ")) == {*ODD, *BUILT_IN}
    assert not (project / "pwned").exists()


BEGUN: dict[str, Callable[[str], str]] = {
    "": lambda text: re.sub(r"[^\w]", r"\\\g<0>", text),
    "'": lambda text: "'" + text.replace("'", "'\\''"),
    '"': lambda text: '"' + re.sub(r'[$`"\\]', r"\\\g<0>", text),
}


def begin(name: str) -> str:
    """Not with the quote itself, after which zsh no longer knows that one is open."""
    return name[:3].partition("'")[0]


def read(line: str, project: Path) -> list[str]:
    """The arguments on a line, as a shell reads them that is not being typed into."""
    script = "acp-launch() { printf '%s\\0' \"$@\"; }\n" + line
    done = subprocess.run(["bash", "-c", script], cwd=project, capture_output=True, text=True, timeout=20, check=False)
    return [*done.stdout.split("\0")[:-1], *done.stderr.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("quote", BEGUN)
def test_a_name_is_completed_as_it_was_begun(shell: Shell, project: Path, quote: str) -> None:
    names = [name for name in ODD if not quote or set(name) & set(" '\"$`\\")]
    lines = {name: shell.completes(f"acp-launch show {BEGUN[quote](begin(name))}") for name in names}
    assert {name: read(line, project) for name, line in lines.items()} == {name: ["show", name] for name in names}
    assert all(line.endswith(" ") for line in lines.values())
    assert not (project / "pwned").exists()


def test_verbs_options_and_values_are_completed(shell: Shell) -> None:
    lines = {
        "acp-launch sec": "acp-launch secret ",
        "acp-launch secret ren": "acp-launch secret rename ",
        "acp-launch run --no-": "acp-launch run --no-replay ",
        "acp-launch run --output j": "acp-launch run --output json ",
        "acp-launch run --output=j": "acp-launch run --output=json ",
        "acp-launch run -o q": "acp-launch run -o quiet ",
        "acp-launch mcp tools my\\ prof t": "acp-launch mcp tools my\\ prof two.b ",
        'acp-launch mcp tools "my prof" t': 'acp-launch mcp tools "my prof" two.b ',
        "./acp-launch sec": "./acp-launch secret ",
        "true | acp-launch sec": "true | acp-launch secret ",
        "X=1 acp-launch sec": "X=1 acp-launch secret ",
        "acp-launch nonsense x": "acp-launch nonsense x",
        "acp-launch ps x": "acp-launch ps x",
    }
    assert {typed: shell.completes(typed) for typed in lines} == lines
    assert sorted(shell.offers("acp-launch run --approve ")) == ["all", "none", "reads"]


def test_files_and_directories_are_the_shells_own(shell: Shell) -> None:
    lines = {
        "acp-launch run -f fi": "acp-launch run -f file\\ one.txt ",
        "acp-launch run --file=fi": "acp-launch run --file=file\\ one.txt ",
        "acp-launch run --cwd su": "acp-launch run --cwd sub\\ dir/",
        "acp-launch run --cwd=su": "acp-launch run --cwd=sub\\ dir/",
        "acp-launch run --cwd fi": "acp-launch run --cwd fi",
        "acp-launch show ./fi": "acp-launch show ./file\\ one.txt ",
    }
    assert {typed: shell.completes(typed) for typed in lines} == lines


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


def test_fish_offers_every_profile_with_what_it_is(has_fish: None, project: Path, env: dict[str, str]) -> None:
    offered = dict(line.split("\t") for line in fish("acp-launch show ", cwd=project, env=env))
    assert offered.keys() == {*ODD, *BUILT_IN}
    assert offered["demo"] == "A scripted agent to try acp-launch with; no account, no network"
    assert not (project / "pwned").exists()


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("acp-launch secret ren", ["rename"]),
        ("acp-launch run --output=", ["--output=text", "--output=json", "--output=quiet"]),
        ("acp-launch run -o ", ["text", "json", "quiet"]),
        ("acp-launch run -f fi", ["file one.txt"]),
        ("acp-launch run -f file\\ o", ["file one.txt"]),
        ("acp-launch run --file='fi", ["--file=file one.txt"]),
        ("acp-launch run --cwd su", ["sub dir/"]),
        ("acp-launch run --cwd=su", ["--cwd=sub dir/"]),
        ("acp-launch show 'my p", ["my prof"]),
        ("acp-launch show my\\ p", ["my prof"]),
        ("acp-launch show ./fi", ["./file one.txt"]),
        ('acp-launch mcp tools "my prof" ', ["one", "two.b"]),
        ("acp-launch nonsense x", []),
        ("acp-launch ps ", []),
    ],
)
def test_fish_offers_what_is_wanted(
    has_fish: None, project: Path, env: dict[str, str], typed: str, expected: list[str]
) -> None:
    assert [line.partition("\t")[0] for line in fish(typed, cwd=project, env=env)] == expected


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_a_script_is_one_its_shell_can_read(name: str, tmp_path: Path, env: dict[str, str]) -> None:
    if not is_there(name):
        pytest.skip(f"{name} is not installed")
    script = subprocess.run(["acp-launch", "completion", name], env=env, capture_output=True, check=True, timeout=20)
    file = tmp_path / "script"
    file.write_bytes(script.stdout)
    checked = subprocess.run([name, "-n", file], env=env, capture_output=True, timeout=20, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_zsh_without_its_completion_is_told_what_to_do(tmp_path: Path, env: dict[str, str]) -> None:
    if not is_there("zsh"):
        pytest.skip("zsh is not installed")
    said = subprocess.run(
        ["zsh", "-f", "-c", 'eval "$(acp-launch completion zsh)"'],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    fix = "put this before it: autoload -Uz compinit && compinit"
    assert said.stderr == f"acp-launch: zsh completes nothing yet; {fix}\n"
