"""
Which program a command is, and who put it there: version managers keep several, and choose by the directory or by the
shell. What Node.js it runs on, and what its package says it needs.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from acp_launch.checks import semver
from acp_launch.checks.check import Check, ok, warning
from acp_launch.plan.executable import CannotRun, find

_SHIM = "a shim: what it runs depends on the directory"
# (a piece of its path, who put it there); the first that fits. The two groups of a version are joined by a space.
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
ABOVE = 5  # folders above a program in which its package.json may be: dist/bin/cli.js
OLD = "install a newer Node.js, or put it first on PATH"

Run = Callable[[Path], str]  # a Node.js → what `--version` says


class Runtime(Struct, frozen=True):
    """`wanted` is the range of versions its package asks for, empty when it asks for none."""

    node: Path
    version: str
    wanted: str


def command(subject: str, program: Path, runtime: Runtime | None) -> Check:
    """`subject` is whose command it is."""
    via = keeper(program)
    facts = {"path": str(program), "via": via, "node": None, "node_wanted": None}
    if runtime is None:
        return ok("command", subject, f"{program}{_noted(via)}", **facts)
    facts |= {"node": runtime.version or None, "node_wanted": runtime.wanted or None}
    text = f"{program}{_noted(via, f'Node.js {runtime.version}'.rstrip())}"
    version = semver.version(runtime.version)
    if version is None:
        return warning("command", subject, f"{text}: {runtime.node} does not tell its version", OLD, **facts)
    if runtime.wanted and semver.satisfies(version, runtime.wanted) is False:
        return warning("command", subject, f"{text}, and it wants {runtime.wanted}", OLD, **facts)
    return ok("command", subject, text, **facts)


def keeper(program: Path) -> str:
    """Who put it there; empty for a program of the system, or one nobody knows."""
    for path in dict.fromkeys((program.as_posix(), Path(os.path.realpath(program)).as_posix())):
        for pattern, name in _KEEPERS:
            if found := re.search(pattern, path):
                return ", ".join(filter(None, (name, " ".join(found.groups()))))
    return ""


def runtime(program: Path, *, path: str | None, cwd: Path, run: Run) -> Runtime | None:
    """None for what is no program of Node.js. `path` is the PATH it will have; `run` runs the one it would find."""
    if not _is_nodes(program):
        return None
    node = find("node", project=cwd, path=path)
    if isinstance(node, CannotRun):
        return None  # it brings its own; one that needs it on PATH was refused when it was looked for
    return Runtime(node, run(node).strip().removeprefix("v"), _wanted(Path(os.path.realpath(program))))


def _noted(*remarks: str) -> str:
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


def _wanted(program: Path) -> str:
    """`engines.node` of the package the program belongs to."""
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
