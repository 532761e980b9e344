"""What other tools have configured on this machine: for a list of it, and for whoever begins a profile."""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from acp_launch.errors import LaunchError, ProblemsError
from acp_launch.interop import readers
from acp_launch.interop.places import TOOLS, Machine, Tool, places
from acp_launch.interop.source import Source, read


class Finding(Struct, frozen=True):
    """One file. `source` is None when it cannot be used, and `fault` says why."""

    tool: Tool
    file: Path
    servers: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    source: Source | None = None
    fault: str = ""


def survey(machine: Machine, project: Path) -> Iterator[Finding]:
    """Every file there is, tool by tool, the nearest first. Nothing raises: a file that is wrong says so."""
    for tool in TOOLS.values():
        for file in places(tool, machine, project):
            if _is_there(file):
                yield _finding(tool, file, str(project))


def _finding(tool: Tool, file: Path, project: str) -> Finding:
    try:
        source = read(file, tool)
    except ProblemsError as error:
        return Finding(tool, file, fault=str(error.problems[0].message))
    except LaunchError as error:
        return Finding(tool, file, fault=error.message)
    found = [entry for entry in readers.entries(tool, source.root, project) if not entry.unfit and not entry.disabled]
    names = {kind: tuple(entry.name for entry in found if entry.kind == kind) for kind in ("server", "agent")}
    return Finding(tool, file, names["server"], names["agent"], source)


def _is_there(file: Path) -> bool:
    try:
        return file.is_file()
    except OSError:  # a directory we may not enter
        return False
