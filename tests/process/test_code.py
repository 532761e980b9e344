"""Ring 1. Which files a server is started from, and when they are others."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from acp_launch.process.code import changed_code, read_code


def rewrite(path: Path) -> None:
    """Replace a file as npm does: with a time of long ago."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(path.read_text() + "more")
    os.utime(fresh, (499162500, 499162500))
    fresh.replace(path)


def file(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (499162500, 499162500))
    return path


def script(place: Path) -> tuple[list[str], Path]:
    return [sys.executable, str(file(place / "server.py"))], place / "server.py"


def script_of_the_directory(place: Path) -> tuple[list[str], Path]:
    return [sys.executable, "server.py"], file(place / "server.py")


def script_in_a_shell(place: Path) -> tuple[list[str], Path]:
    return ["/bin/sh", "-c", f"exec node '{file(place / 'server.js')}' --stdio"], place / "server.js"


def command(place: Path) -> tuple[list[str], Path]:
    return [str(file(place / "server"))], place / "server"


def linked_command(place: Path) -> tuple[list[str], Path]:
    """A command of npm leads to a script, whose package has a version."""
    main = file(place / "node_modules" / "pkg" / "dist" / "index.js")
    (place / "bin").mkdir()
    (place / "bin" / "pkg").symlink_to(main)
    return [str(place / "bin" / "pkg")], file(place / "node_modules" / "pkg" / "package.json", "{}")


def module(place: Path) -> tuple[list[str], Path]:
    file(place / "pkg" / "__main__.py")
    return [sys.executable, "-m", "pkg"], file(place / "pkg" / "tools.py")


def imported(place: Path) -> tuple[list[str], Path]:
    """Also by what is imported."""
    file(place / "lib" / "__init__.py", "from . import other\n")
    changing = file(place / "lib" / "notes" / "store.py")
    file(place / "tools.py", "def f():\n    from lib.notes.store import x\n")
    return [sys.executable, str(file(place / "server.py", "import os, sys; import tools as t, json\n"))], changing


def required(place: Path) -> tuple[list[str], Path]:
    changing = file(place / "dist" / "lib" / "store.js")
    file(place / "dist" / "tools.js", 'const s = require("./lib/store");\n')
    return ["/bin/sh", str(file(place / "dist" / "index.js", "import { t } from './tools.js'\n"))], changing


def wrapped(place: Path) -> tuple[list[str], Path]:
    """In a script of the shell, which names another."""
    starter = file(place / "bin" / "start", '#!/bin/sh\nexec python3 "$(dirname "$0")/../server.py" --stdio\n')
    starter.chmod(0o755)
    return [str(starter)], file(place / "server.py")


DIRECT = [script, script_of_the_directory, script_in_a_shell, command, linked_command, module]


@pytest.mark.parametrize("make", [*DIRECT, imported, required, wrapped])
def test_another_file_is_noticed(tmp_path: Path, make: Callable[[Path], tuple[list[str], Path]]) -> None:
    argv, changing = make(tmp_path)
    code = read_code(argv, tmp_path)
    assert changed_code(code) == ""
    rewrite(changing)
    assert changed_code(code) == str(changing)
    assert changed_code(read_code(argv, tmp_path)) == ""
    changing.unlink()
    assert changed_code(code) == "", "it is about to be replaced"


def test_a_package_of_its_environment_is_noticed_and_what_it_compiles_is_not(tmp_path: Path) -> None:
    packages = file(tmp_path / "pyvenv.cfg").parent / "lib" / "python3.13" / "site-packages"
    file(packages / "server-1.0.dist-info" / "METADATA")
    argv = [str(file(tmp_path / "bin" / "server"))]
    code = read_code(argv, tmp_path)
    (packages / "__pycache__").mkdir()
    assert changed_code(code) == ""
    (packages / "server-1.0.dist-info").rename(packages / "server-1.1.dist-info")
    assert changed_code(code) == str(packages)


@pytest.mark.parametrize("word", ["data.db", "\0", "x" * 5000, "-", ""])
def test_what_it_may_write_and_what_is_no_file_is_no_code(tmp_path: Path, word: str) -> None:
    file(tmp_path / "data.db")
    assert {each.path for each in read_code([sys.executable, word], tmp_path)} == {
        each.path for each in read_code([sys.executable], tmp_path)
    }
