"""A package runner that downloads is told from the program that it has started by the tree of processes (ours)."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from acp_launch.process.program import is_fetching, may_fetch
from tests.patience import PATIENCE

FETCHER = Path(__file__).parents[1] / "servers" / "fetcher.py"
SAYS = "import sys; print('here', flush=True); sys.stdin.read()"


@pytest.mark.parametrize(
    "argv",
    [
        ["/usr/bin/npx", "-y", "pkg"],
        ["npm", "exec", "pkg"],
        ["uvx", "pkg@latest"],
        ["uv", "--quiet", "tool", "run", "pkg"],
        ["uv", "run", "server.py"],
        ["bunx", "pkg"],
        ["bun", "x", "pkg"],
        ["pnpm", "dlx", "pkg"],
        ["pipx", "run", "pkg"],
        ["sh", "-c", "exec npx -y pkg"],
        ["/usr/bin/env", "A=b", "npx", "pkg"],
    ],
)
def test_a_command_line_that_may_download_is_known(argv: list[str]) -> None:
    assert may_fetch(argv)


@pytest.mark.parametrize(
    "argv", [["npm", "start"], ["uv", "pip", "list"], ["bun", "run", "x.ts"], ["node", "s.js"], []]
)
def test_any_other_is_not(argv: list[str]) -> None:
    assert not may_fetch(argv)


@contextmanager
def running(argv: list[str], tmp_path: Path, **env: str) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **env}, cwd=tmp_path
    )
    try:
        yield process
    finally:
        process.communicate(timeout=PATIENCE)


def runner(tmp_path: Path, name: str = "npx") -> str:
    file = tmp_path / name
    python = tmp_path / "python"  # npm writes a command line in one piece, so that a space in its path divides it
    python.symlink_to(sys.executable)
    file.write_text(f"#!{python} -IS\n{FETCHER.read_text()}")
    file.chmod(0o755)
    return str(file)


@pytest.mark.parametrize("wrapped", [False, True], ids=["direct", "in a shell"])
def test_a_runner_downloads_until_it_has_started_the_program(tmp_path: Path, wrapped: bool) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    argv = [runner(tmp_path), "-y", sys.executable, "-c", SAYS]
    if wrapped:
        argv = ["sh", "-c", '"$@"; true', "sh", *argv]
    with running(argv, tmp_path, ACP_TEST_DOWNLOAD=str(fifo)) as process:
        with fifo.open("wb"):  # returns when the runner has opened it, too
            assert is_fetching(process.pid)
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        assert not is_fetching(process.pid)


@pytest.mark.parametrize(("event", "fetching"), [("postinstall", True), ("npx", False)])
def test_a_script_of_an_installation_is_part_of_the_download(tmp_path: Path, event: str, fetching: bool) -> None:
    argv = [runner(tmp_path), sys.executable, "-c", SAYS]
    with running(argv, tmp_path, npm_lifecycle_event=event) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        assert is_fetching(process.pid) == fetching


def test_what_pipx_starts_belongs_to_its_download_since_it_becomes_the_program_itself(tmp_path: Path) -> None:
    argv = [runner(tmp_path, "pipx"), sys.executable, "-c", SAYS]
    with running([argv[0], "-y", *argv[1:]], tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        assert not is_fetching(process.pid)  # not `pipx run`


def test_a_process_that_is_gone_downloads_nothing() -> None:
    process = subprocess.Popen([sys.executable, "-IS", "-c", ""])
    process.wait(20)
    assert not is_fetching(process.pid)
