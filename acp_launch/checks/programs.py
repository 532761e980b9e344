"""The program behind a command: its Node.js, and the Node.js versions that its package accepts."""

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

Version = tuple[int, int, int]
# What packages of agents and servers say in `engines`, of npm's grammar; other ranges are not judged.
_AT_LEAST = regex(r"\s*(>=|\^)\s*v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?\s*")


def parse_version(text: str) -> Version | None:
    """Parse a version such as `v22.11.0`; None for anything else."""
    found = re.match(r"v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})", text.strip())
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def satisfies(version: Version, wanted: str) -> bool | None:
    """Whether a Node.js is in the range `wanted`; None if that is not one of `>=` and `^`, or several with `||`."""
    holds = False
    for alternative in wanted.split("||"):
        if (found := _AT_LEAST.fullmatch(alternative)) is None:
            return None
        least = tuple(int(number or 0) for number in found.groups()[1:])
        holds |= version >= least and (found[1] == ">=" or version[0] == least[0])
    return holds


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
    facts = {"path": str(program), "node": None, "node_wanted": None}
    if runtime is None:
        return ok("command", subject, str(program), **facts)
    facts |= {"node": runtime.version or None, "node_wanted": runtime.wanted or None}
    text = f"{program} ({f'Node.js {runtime.version}'.rstrip()})"
    version = parse_version(runtime.version)
    if version is None:
        return warning("command", subject, f"{text}: {runtime.node} does not report its version", OLD, **facts)
    if runtime.wanted and satisfies(version, runtime.wanted) is False:
        return warning("command", subject, f"{text}, but its package needs {runtime.wanted}", OLD, **facts)
    return ok("command", subject, text, **facts)


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
