"""A command is found as the child will find it, or the reason it could not start is said (ours)."""

import os
import shlex
import sys
from pathlib import Path

import pytest

from acp_launch.plan.executable import CannotRun, find, usable


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    return tmp_path


def program(file: Path, text: str = "#!/bin/sh\n", *, mode: int = 0o755) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode())
    file.chmod(mode)
    return file


def looked_up(command: str, folder: Path, path: str | None = None) -> Path | CannotRun:
    return find(command, project=folder, path=str(folder / "bin") if path is None else path)


def test_the_first_executable_one_on_the_path_wins(folder: Path) -> None:
    program(folder / "first" / "tool", mode=0o644)
    file = program(folder / "bin" / "tool")
    (folder / "zero" / "tool").mkdir(parents=True)
    path = os.pathsep.join(str(folder / name) for name in ("zero", "first", "bin"))
    assert looked_up("tool", folder, path) == file


@pytest.mark.parametrize("command", ["tool", "./bin/tool", "{}/bin/tool"])
def test_a_name_is_looked_up_on_the_path_of_the_child_and_a_relative_path_begins_at_the_project(
    folder: Path, command: str
) -> None:
    file = program(folder / "bin" / "tool")
    assert looked_up(command.format(folder), folder) == file


@pytest.mark.parametrize("entry", ["", ".", "bin", "./bin"])
def test_a_relative_entry_of_the_path_is_passed_over(folder: Path, entry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would mean the current project, which is untrusted."""
    program(folder / "bin" / "tool")
    program(folder / "tool")
    monkeypatch.chdir(folder)
    found = looked_up("tool", folder, entry)
    assert isinstance(found, CannotRun)
    assert found.message.startswith('"tool" is not on PATH')
    elsewhere = program(folder / "elsewhere" / "tool")
    assert looked_up("tool", folder, os.pathsep.join([entry, str(elsewhere.parent)])) == elsewhere


def test_links_are_not_followed_because_names_matter(folder: Path) -> None:
    """A virtual environment's python is a link that must be called by its own name."""
    (folder / "bin" / "python").symlink_to(sys.executable)
    assert looked_up("python", folder) == folder / "bin" / "python"


@pytest.mark.parametrize(
    ("command", "fix"),
    [
        ("gone", "install it, or give an absolute path; aliases and functions of a shell do not work here"),
        (
            "claude-agent-acp",
            "npm install -g @agentclientprotocol/claude-agent-acp (needs Node.js >=22), or give an absolute path",
        ),
        ("codex-acp", "npm install -g @agentclientprotocol/codex-acp, or give an absolute path"),
        ("npx -y foo", "put the arguments under args; command is the program alone"),
    ],
)
def test_what_is_not_there_is_named_with_a_way_out(command: str, fix: str, folder: Path) -> None:
    fault = f'"{command}" is not on PATH (looked in 1 folder)'
    assert looked_up(command, folder) == CannotRun(fault, fix, "" if " " in command else command)


def test_what_is_no_command_is_told(folder: Path) -> None:
    home = CannotRun('"~/bin/tool": acp-launch does not expand "~"', "write ${home}/bin/tool")
    assert looked_up("~/bin/tool", folder) == home
    assert looked_up("a\0b", folder) == CannotRun("the command holds a NUL character", "remove it")


def test_a_path_to_nothing_or_to_a_directory_is_named_whole(folder: Path) -> None:
    fix = "correct the path; a relative path begins at the project"
    assert looked_up("./gone", folder) == CannotRun(f'the program "{folder / "gone"}" does not exist', fix)
    fault = f'"{folder / "bin"}" is a directory, not a program'
    assert looked_up("./bin", folder) == CannotRun(fault, "name the program in it")


@pytest.mark.parametrize(
    ("line", "fault", "fix"),
    [
        (
            "#!/no/such/python3 -I",
            "needs /no/such/python3, which does not exist",
            "install python3, or correct the first line of the script",
        ),
        ("#!/usr/bin/env nonesuch", "needs nonesuch, which is not on PATH", "install nonesuch"),
        ("#!/usr/bin/env -S A=b nonesuch --x", "needs nonesuch, which is not on PATH", "install nonesuch"),
        ("#!/bin/sh\r\necho\r", 'has Windows line ends, so its "#!" line names no program', "dos2unix {}"),
    ],
)
def test_a_script_that_cannot_start_says_why(folder: Path, line: str, fault: str, fix: str) -> None:
    file = program(folder / "bin" / "tool", f"{line}\n")
    assert looked_up("tool", folder) == CannotRun(f'"{file}" {fault}', fix.format(file))


def test_a_program_that_cannot_be_looked_at_says_why(folder: Path) -> None:
    """A name too long; a parent that we may not enter has the same end."""
    (folder / "loop").symlink_to("loop")
    for command, why in (("/a" * 5000, "File name too long"), ("./loop/x", "Too many levels of symbolic links")):
        found = looked_up(command, folder)
        assert isinstance(found, CannotRun)
        assert found.message.endswith(f"cannot be used: {why}") and len(found.message) < 300


def test_a_script_whose_program_cannot_be_looked_at_is_told(folder: Path) -> None:
    (folder / "loop").symlink_to("loop")
    script = program(folder / "bin" / "tool", text=f"#!{folder}/loop/x\n")
    found = looked_up(str(script), folder)
    assert isinstance(found, CannotRun) and found.message.endswith("/loop/x, which does not exist")


@pytest.mark.parametrize("command", ["tool", "bin/tool"])
def test_a_file_without_the_executable_bit_says_so(command: str, folder: Path) -> None:
    file = program(folder / "bin" / "tool", mode=0o644)
    assert looked_up(command, folder) == CannotRun(f'"{file}" is not executable', f"chmod +x {file}")


def test_a_command_of_a_fix_is_read_by_a_shell_as_text(folder: Path) -> None:
    """A repository names its files and directories."""
    odd = folder / "a $(touch b); c'd"
    missing = usable(odd.name, base=folder)
    assert isinstance(missing, CannotRun)
    assert shlex.split(missing.fix) == ["mkdir", "-p", str(odd)]
    file = program(odd / "tool", mode=0o644)
    closed = looked_up(str(file), folder)
    assert isinstance(closed, CannotRun)
    assert shlex.split(closed.fix) == ["chmod", "+x", str(file)]
