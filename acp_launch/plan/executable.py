"""
Find the program a command names, the way the child's own system call will, and say why it could not start.

The path found is not resolved through links: a virtual environment's python and every busybox tool are links that
must be called by their own names.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

# How to get what agents and servers are run with.
_RUNTIMES = {
    "npx": "install Node.js, which brings npx",
    "node": "install Node.js",
    "uvx": "pip install uv, which brings uvx",
}


class CannotRun(Struct, frozen=True):
    """Why not, and what to do."""

    message: str
    fix: str


def find(command: str, *, project: Path, path: str | None) -> Path | CannotRun:
    """`path` is the PATH of the child; `project` is what a relative path is relative to."""
    if command.startswith("~"):
        return CannotRun(f'"{command}": no shell runs here that would expand "~"', f"write ${{home}}{command[1:]}")
    if "\0" in command:
        return CannotRun("the command holds a NUL character", "remove it")
    if os.sep in command or "/" in command:
        return _checked(Path(os.path.normpath(project / command)), command, path)
    folders = _folders(path)
    candidates = [candidate for folder in folders for candidate in _spellings(folder / command, path)]
    if runnable := next(filter(_is_runnable, candidates), None):
        return _checked(runnable, command, path)
    if blocked := next(filter(_is_file, candidates), None):
        return _not_executable(blocked)
    return _missing(command, len(folders))


def _folders(path: str | None) -> list[Path]:
    """Those of PATH that are absolute: another means the project we happen to be in, which would choose what runs."""
    folders = map(Path, filter(None, (os.defpath if path is None else path).split(os.pathsep)))
    return [folder for folder in folders if folder.is_absolute()]


def _spellings(file: Path, path: str | None) -> Iterator[Path]:
    """On Windows a program is named without its extension."""
    yield file
    if sys.platform == "win32":
        for extension in os.environ.get("PATHEXT", ".COM;.EXE;.BAT;.CMD").split(";"):
            yield file.with_name(file.name + extension.lower())


def _is_file(file: Path) -> bool:
    try:
        return file.is_file()
    except OSError:  # a folder of PATH we may not enter
        return False


def _is_runnable(file: Path) -> bool:
    return _is_file(file) and os.access(file, os.X_OK)


def _checked(file: Path, command: str, path: str | None) -> Path | CannotRun:
    if file.is_dir():
        return CannotRun(f'"{file}" is a directory, not a program', "name the program in it")
    if not _is_file(file):
        return _no_such_file(file, command)
    if not os.access(file, os.X_OK):
        return _not_executable(file)
    return _without_interpreter(file, path) or file


def _no_such_file(file: Path, command: str) -> CannotRun:
    if " " in command.strip():
        return CannotRun(f'there is no program "{file}"', "put the arguments under args; command is the program alone")
    return CannotRun(f'there is no program "{file}"', "correct the path; a relative one begins at the project")


def _not_executable(file: Path) -> CannotRun:
    return CannotRun(f'"{file}" is not executable', f"chmod +x {file}")


def _missing(command: str, folders: int) -> CannotRun:
    what = f'"{command}" is not on PATH (looked in {folders} folder{"s" if folders != 1 else ""})'
    if " " in command.strip():
        return CannotRun(what, "put the arguments under args; command is the program alone")
    if advice := _advice(command):
        return CannotRun(what, f"{advice}, or give an absolute path")
    return CannotRun(what, "install it, or give an absolute path; a shell's aliases and functions do not count")


def _advice(command: str) -> str:
    """How to get it, where that is known."""
    from acp_launch.profile.agents import known  # a table that is only needed when something is missing

    agent = known(command)
    return agent.install if agent else _RUNTIMES.get(command, "")


def _without_interpreter(file: Path, path: str | None) -> CannotRun | None:
    """A script whose `#!` names nothing fails with "No such file", which misleads everybody."""
    line = _first_line(file)
    words = line[2:].decode(errors="replace").split() if line.startswith(b"#!") else []
    if not words or sys.platform == "win32":
        return None
    if line.endswith(b"\r"):
        return CannotRun(f'"{file}" has Windows line ends, so its "#!" line names no program', f"dos2unix {file}")
    if not Path(words[0]).exists():
        what = f'"{file}" needs {words[0]}, which does not exist'
        return CannotRun(what, f"install {Path(words[0]).name}, or correct the first line of the script")
    return _without_env_program(file, words, path)


def _first_line(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(256).split(b"\n", 1)[0]
    except OSError:  # executable but not readable is legal for a program
        return b""


def _without_env_program(file: Path, words: list[str], path: str | None) -> CannotRun | None:
    program = next((word for word in words[1:] if not word.startswith("-") and "=" not in word), "")
    if Path(words[0]).name != "env" or not program or "/" in program:
        return None
    if any(_is_runnable(folder / program) for folder in _folders(path)):
        return None
    return CannotRun(f'"{file}" needs {program}, which is not on PATH', f"install {program}")
