"""
Programs that run what lies in the directory they are started in: Python adds it to its path for `-m` and `-c`, and npx
prefers what a project has to what is published.

What is looked at is a command line, also within `env` and `sh -c`: this is for programs that have to work in a project
which the profile does not speak for. Others are not started there at all (see `reach`).
"""

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from acp_launch.plan.executable import CannotRun
from acp_launch.private import Unfit, read_bounded
from acp_launch.settings.grounds import grounds, lies_in

LARGEST = 4 * 1024 * 1024  # bytes of a package.json
SETTINGS = (".npmrc", "bunfig.toml")  # say where a package comes from and by which program it is run
PACKAGE = ("-p", "--package")
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*(?:\.exe)?", re.IGNORECASE)
_FLAGS = re.compile(r"-(?P<flags>[A-Za-z]*?)(?P<code>[mc].*)?")  # -m NAME, -c CODE: also `-um`, `-cpass`
_SAFE = frozenset("IP")  # flags that keep the working directory off the path
_BETWEEN = re.compile(r"[\s'\"();&|]+")
_TAKES_VALUE = ("-W", "-X", "--check-hash-based-pycs")
_RUNNERS = {"npx": (), "bunx": (), "npm": ("exec", "x"), "bun": ("x",)}  # pnpx and yarn dlx never look there


def imports_from_here(words: Sequence[str]) -> bool:
    """Whether this command line has Python run code with the working directory on its path."""
    flat = _flat(words)
    return any(
        _PYTHON.fullmatch(PurePath(word).name) and _is_code(flat[index + 1 :]) for index, word in enumerate(flat)
    )


def taken_over(words: Sequence[str], cwd: Path) -> CannotRun | None:
    """Why this command line would run something else than it says when started in this directory; None if it would
    not."""
    for runner, name in _fetched(_flat(words)):
        fix = f"install {name or 'it'} and name its command; or, for a server, leave out cwd and bridge"
        if name and (found := next(_in_its_place(name, cwd), None)):
            what = f"{runner} would run {found}, which this project brought, and not the published {name}"
            return CannotRun(what, fix)
        if found := next(_settings(cwd), None):
            return CannotRun(f"{runner} would do as {found} says, which this project brought", fix)
    return None


def _flat(words: Sequence[str]) -> list[str]:
    """With what a shell is given taken apart: enough to recognise a program."""
    return [piece for word in words for piece in _BETWEEN.split(word) if piece]


def _is_code(options: Sequence[str]) -> bool:
    """Whether these words, after Python's name, are options up to `-m` or `-c`, and none that makes those safe."""
    words = iter(options)
    for word in words:
        if word in _TAKES_VALUE:
            next(words, "")
        elif not word.startswith("--"):
            option = _FLAGS.fullmatch(word)
            if option is None or word == "-" or _SAFE & set(option["flags"]):
                return False
            if option["code"]:
                return True
        elif word == "--":
            return False
    return False


def _fetched(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The runners in a command line, each with the names of what it is to run; empty where that has none."""
    for index, word in enumerate(words):
        runner, rest = PurePath(word).stem, words[index + 1 :]
        verbs = _RUNNERS.get(runner)
        if verbs:
            at = next((place for place, each in enumerate(rest) if each in verbs), None)
            rest = [] if at is None else rest[at + 1 :]
        if verbs is not None:
            yield from ((runner, name) for name in dict.fromkeys(_names(rest)) or [""])


def _names(args: Sequence[str]) -> Iterator[str]:
    """Of packages, and of the program that is run of one; without their versions."""
    words = iter(args)
    for word in words:
        if word in PACKAGE:
            yield _bare(next(words, ""))
        elif word.startswith("--package="):
            yield _bare(word.partition("=")[2])
        elif not word.startswith("-"):
            yield _bare(word)
            return


def _bare(package: str) -> str:
    name = package.rpartition("@")[0] or package
    return name if name.rpartition("/")[0].startswith("@") or "/" not in name else ""


def _in_its_place(name: str, cwd: Path) -> Iterator[Path]:
    """What lies in this project where a runner looks before it fetches `name`."""
    for directory in _around(cwd):
        modules = directory / "node_modules"
        yield from filter(os.path.lexists, (modules / name, modules / ".bin" / name))
        if _is_named(name, directory / "package.json"):
            yield directory / "package.json"


def _settings(cwd: Path) -> Iterator[Path]:
    return (file for directory in _around(cwd) for each in SETTINGS if os.path.lexists(file := directory / each))


def _is_named(name: str, file: Path) -> bool:
    """Whether a package says that it is, or has, what `name` means. One that cannot be read may say so to others."""
    try:
        found = read_bounded(file, LARGEST)
    except (OSError, Unfit):
        return True
    try:
        package = json.loads(found[0]) if found else None
    except (ValueError, RecursionError):
        return True
    if not isinstance(package, dict):
        return False
    called, programs, folders = package.get("name"), package.get("bin"), package.get("directories")
    if isinstance(folders, dict) and "bin" in folders:  # whatever lies in there is a program
        return True
    if isinstance(programs, str):  # it is called as the package is, without the scope
        return name in (called, str(called).rpartition("/")[2])
    return name == called or (isinstance(programs, dict) and name in programs)


def _around(cwd: Path) -> Iterator[Path]:
    """From here up to the root of the outermost project, less the user's home."""
    projects = [*grounds(cwd)] or [cwd]
    return (each for each in (cwd, *cwd.parents) if lies_in(each, projects))
