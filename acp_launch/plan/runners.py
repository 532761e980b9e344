"""
Programs that fetch what they run: in a project that has a package of that name in `node_modules`, `npx PACKAGE` runs
that one. A profile of the user's own means the published one, wherever it is used; nobody has accepted the project.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from acp_launch.plan.executable import CannotRun
from acp_launch.settings.grounds import grounds, lies_in

RUNNERS = ("npx", "bunx")  # pnpx and yarn dlx never look there
PACKAGE = ("-p", "--package")


def taken_over(program: Path, args: Sequence[str], cwd: Path) -> CannotRun | None:
    """Why `program` would run something else than it says, with these arguments in this directory; None if it would
    not."""
    if program.stem not in RUNNERS:
        return None
    for name in dict.fromkeys(filter(None, _names(args))):
        there = (directory / "node_modules" / part / name for directory in _around(cwd) for part in ("", ".bin"))
        if found := next(filter(os.path.lexists, there), None):
            what = f"{program.stem} would run {found}, which this project brought, and not the published {name}"
            return CannotRun(what, f"install {name} and name its command; or, for a server, set its cwd: ${{home}}")
    return None


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


def _around(cwd: Path) -> Iterator[Path]:
    """From here up to the root of the outermost project, less the user's home."""
    projects = [*grounds(cwd)] or [cwd]
    return (each for each in (cwd, *cwd.parents) if lies_in(each, projects))
