"""
What confined agents could write in any launch, and how acp-launch keeps away from it what it runs itself, as the user.

The ledger in the state directory has each path with a NUL behind it. What lies below one, and a link there, may be an
agent's: so no store of secrets, browser, git or bubblewrap is started from there, nor finds programs of its own there.
"""

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from acp_launch.errors import LaunchError, StateError
from acp_launch.plan.executable import inherited
from acp_launch.plan.model import Place
from acp_launch.private import Unfit, follow_links, make_private, read_bounded
from acp_launch.private import replace as replace_file
from acp_launch.settings.load import directory

MAX_LEDGER_BYTES = 4 * 1024 * 1024


def ledger() -> Path:
    return directory("STATE") / "confined"


def list_written() -> tuple[Path, ...]:
    """List what confined agents could write in earlier launches.

    Raises:
        StateError: it cannot be read.
    """
    return tuple(_written())


def _written() -> Mapping[Path, None]:
    """Return the same as the keys of a mapping."""
    try:
        status = ledger().lstat()
        return _read(ledger(), status.st_mtime_ns, status.st_size)
    except FileNotFoundError:
        return {}
    except (OSError, Unfit) as error:
        what = f"cannot read {ledger()}, which tells what agents could write: {error}"
        raise StateError(what, fix="remove it") from error


@lru_cache(maxsize=1)
def _read(file: Path, *_status: int) -> Mapping[Path, None]:
    found = read_bounded(file, MAX_LEDGER_BYTES)
    return dict.fromkeys(Path(os.fsdecode(each)) for each in found[0].split(b"\0")[:-1]) if found else {}


def note_written(where: Place) -> None:
    """Note what an agent in this place can write.

    Raises:
        OSError, StateError: it cannot be read or written.
    """
    known, file = list_written(), ledger()
    paths = [mount.path for mount in where.mounts if mount.access == "write" and mount.reason != "between"]
    fresh = [path for path in paths if not any(path.is_relative_to(each) for each in known)]
    if not fresh:
        return
    make_private(file.parent)
    added = b"".join(os.fsencode(path) + b"\0" for path in fresh)
    with file.open("ab") as opened:
        opened.write(added)
        size = opened.tell()
    if size > MAX_LEDGER_BYTES // 2:  # batches make and remove many directories
        living = b"".join(os.fsencode(path) + b"\0" for path in (*known, *fresh) if os.path.lexists(path))
        replace_file(file, living)


def find_written(path: Path) -> Path | None:
    """Return what a confined agent could write of a path: the file it leads to, or a link on the way; else None.

    Raises:
        StateError: that cannot be told.
    """
    if not (tops := _written()):
        return None
    target, links = follow_links(path)
    return next((each for each in (target, *links) if any(top in tops for top in (each, *each.parents))), None)


def refuse_written(program: Path) -> None:
    """Refuse a program that a confined agent could write, as it would run outside of the agent's place.

    Raises:
        LaunchError: it is one, or that cannot be told.
    """
    if found := find_written(program):
        what = f"a confined agent could write {found}, which would run outside of its place, as you"
        raise LaunchError(what, fix="remove it, or name a program elsewhere by its absolute path")


def keep_path(environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables whose PATH has no folder that a confined agent could write."""
    folders = map(Path, os.get_exec_path(environ))
    kept = [str(each) for each in folders if each.is_absolute() and not find_written(each)]
    return {**environ, "PATH": os.pathsep.join(kept)}


def make_safe_environment() -> dict[str, str]:
    """Return our variables for a program that we run ourselves: without secrets, and with PATH as by `keep_path`."""
    return keep_path(inherited(os.environ, "all"))
