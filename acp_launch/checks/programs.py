"""
The program behind a command: its version manager, its Node.js, and the Node.js versions that its package accepts.

Version managers keep several copies of a program, and choose one by the directory or by the shell.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from acp_launch.checks.check import Check, ok, warning
from acp_launch.plan.executable import CannotRun, find
from acp_launch.regex import regex

# Versions of Node.js and npm's range grammar, as used by `engines` in package.json.
Version = tuple[int, int, int]
_NUMBER = r"(\d{1,9}|[xX*])"
_COMPARATOR = regex(rf"\s*(>=|<=|>|<|=|\^|~)?\s*v?{_NUMBER}(?:\.{_NUMBER})?(?:\.{_NUMBER})?(?:[-+][\w.-]+)?(?![\w.])")


def parse_version(text: str) -> Version | None:
    """Parse a version such as `v22.11.0`; None for anything else."""
    found = re.match(r"v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})", text.strip())
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def satisfies(version: Version, wanted: str) -> bool | None:
    """Whether `version` is in the range `wanted`; None if the range cannot be read, for instance one with a hyphen."""
    verdicts = [_all(version, alternative.strip()) for alternative in wanted.split("||")]
    return True if True in verdicts else None if None in verdicts else False


def _all(version: Version, wanted: str) -> bool | None:
    position, result = 0, True
    while position < len(wanted):
        found = _COMPARATOR.match(wanted, position)
        if found is None:
            return None
        result = result and _holds(version, found[1] or "=", _numbers(found))
        position = found.end()
    return result


def _numbers(found: re.Match[str]) -> tuple[int, ...]:
    """Return the numbers of a comparator up to its first wildcard."""
    numbers: list[int] = []
    for text in found.groups()[1:]:
        if text is None or not text.isdecimal():
            break
        numbers.append(int(text))
    return tuple(numbers)


def _holds(version: Version, sign: str, given: tuple[int, ...]) -> bool:
    if not given:
        return sign not in ("<", ">")
    low, after = _pad(given), _after(given, len(given))
    match sign:
        case ">=":
            return version >= low
        case ">":
            return version >= after
        case "<":
            return version < low
        case "<=":
            return version < after
        case "^":
            return low <= version < _after(given, _first_nonzero(given))
        case "~":
            return low <= version < _after(given, min(2, len(given)))
    return low <= version < after


def _first_nonzero(given: tuple[int, ...]) -> int:
    """Count the numbers that `^` fixes."""
    return next((index for index, number in enumerate(given, 1) if number), len(given))


def _after(given: tuple[int, ...], kept: int) -> Version:
    """Return the first version whose first `kept` numbers exceed the given ones."""
    return _pad((*given[: kept - 1], given[kept - 1] + 1))


def _pad(numbers: tuple[int, ...]) -> Version:
    major, minor, patch = (*numbers, 0, 0)[:3]
    return major, minor, patch


_SHIM = "a shim: what it runs depends on the directory"
# (part of the path, version manager); the first match counts. The groups of a version are joined by a space.
_KEEPERS = (
    (r"/\.?nvm/versions/(node)/v?([\d.]+)/", "nvm"),
    (r"/fnm_multishells/", "fnm, for this shell"),
    (r"/\.?fnm/(node)-versions/v?([\d.]+)/", "fnm"),
    (r"/mise/shims/", f"mise, {_SHIM}"),
    (r"/mise/installs/([^/]+)/([^/]+)/", "mise"),
    (r"/\.?asdf/shims/", f"asdf, {_SHIM}"),
    (r"/\.?asdf/installs/([^/]+)/([^/]+)/", "asdf"),
    (r"/\.volta/bin/", f"Volta, {_SHIM}"),
    (r"/\.(nodenv|pyenv)/shims/", _SHIM),
    (r"/\.(nodenv|pyenv)/versions/([^/]+)/", ""),
    (r"/pnpm/", "pnpm"),
    (r"/\.bun/bin/", "Bun"),
    (r"/uv/tools/([^/]+)/", "uv tool"),
    (r"/pipx/venvs/([^/]+)/", "pipx"),
    (r"/homebrew/|/linuxbrew/|/Cellar/", "Homebrew"),
    (r"^/nix/store/|/\.nix-profile/", "Nix"),
    (r"^/snap/", "snap"),
)
_BY_NODE = ("npx", "node", "npm", "pnpm", "pnpx", "yarn", "corepack")
_SCRIPTS = (".js", ".mjs", ".cjs")
LARGEST = 1024 * 1024  # bytes of a package.json
ABOVE = 5  # parent folders of a program that are searched for its package.json: dist/bin/cli.js
OLD = "install a newer Node.js, or put it first on PATH"

Run = Callable[[Path], str]  # runs a Node.js and returns its output for `--version`


class Runtime(Struct, frozen=True):
    """The Node.js of a program; `wanted` is the version range of its package, empty if it names none."""

    node: Path
    version: str
    wanted: str


def command(subject: str, program: Path, runtime: Runtime | None) -> Check:
    """Report the program of a command; `subject` is the agent or server that it belongs to."""
    via = keeper(program)
    facts = {"path": str(program), "via": via, "node": None, "node_wanted": None}
    if runtime is None:
        return ok("command", subject, f"{program}{_remark(via)}", **facts)
    facts |= {"node": runtime.version or None, "node_wanted": runtime.wanted or None}
    text = f"{program}{_remark(via, f'Node.js {runtime.version}'.rstrip())}"
    version = parse_version(runtime.version)
    if version is None:
        return warning("command", subject, f"{text}: {runtime.node} does not report its version", OLD, **facts)
    if runtime.wanted and satisfies(version, runtime.wanted) is False:
        return warning("command", subject, f"{text}, but its package needs {runtime.wanted}", OLD, **facts)
    return ok("command", subject, text, **facts)


def keeper(program: Path) -> str:
    """Name the version manager of a program; empty for a program of the system or of an unknown origin."""
    for path in dict.fromkeys((program.as_posix(), Path(os.path.realpath(program)).as_posix())):
        for pattern, name in _KEEPERS:
            if found := re.search(pattern, path):
                return ", ".join(filter(None, (name, " ".join(found.groups()))))
    return ""


def runtime(program: Path, *, path: str | None, cwd: Path, run: Run) -> Runtime | None:
    """Find the Node.js of a program; None if it does not use Node.js.

    `path` is the PATH that the program will have; `run` starts the Node.js found there.
    """
    if not _is_nodes(program):
        return None
    node = find("node", project=cwd, path=path)
    if isinstance(node, CannotRun):
        return None  # it brings its own; a program that needs one on PATH was refused when it was looked up
    return Runtime(node, run(node).strip().removeprefix("v"), _read_wanted(Path(os.path.realpath(program))))


def _remark(*remarks: str) -> str:
    said = "; ".join(filter(None, remarks))
    return f" ({said})" if said else ""


def _is_nodes(program: Path) -> bool:
    if program.name in _BY_NODE or os.path.realpath(program).endswith(_SCRIPTS):
        return True
    try:
        with program.open("rb") as file:
            line = file.read(256).partition(b"\n")[0]
    except OSError:  # executable but not readable is legal
        return False
    return line.startswith(b"#!") and re.search(rb"[/ ]node\b", line) is not None


def _read_wanted(program: Path) -> str:
    """Return `engines.node` of the package that the program belongs to."""
    for folder in list(program.parents)[:ABOVE]:
        if (said := _package(folder / "package.json")) is not None:
            wanted = said.get("engines")
            needed = wanted.get("node") if isinstance(wanted, dict) else None
            return needed if isinstance(needed, str) else ""
    return ""


def _package(file: Path) -> Mapping[str, Any] | None:
    try:
        if not file.is_file():
            return None
        with file.open("rb") as stream:
            said = json.loads(stream.read(LARGEST))
    except (OSError, ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None
