"""
The directories of acp-launch: there, ours, writable, and nobody else's. What is not there yet is made when needed.

Whether one can be written is tried, with a file that has no name: that alone tells of a full disk, a quota, and a file
system that is read-only.
"""

import errno
import os
import stat
import tempfile
from pathlib import Path
from shlex import quote
from typing import Literal

from acp_launch.checks.check import Check, ok, problem, warning
from acp_launch.errors import LaunchError

Kind = Literal["config", "state", "cache"]
ROOM = bytes(4096)  # what is tried to be written
FULL = (errno.ENOSPC, errno.EDQUOT)


def directory(kind: Kind, path: Path) -> Check:
    """Only `state` is needed: without a cache things take longer, and a configuration may be read-only on purpose."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return _missing(kind, path)
    except OSError as error:
        return _bad(kind, path, f"cannot be looked at: {_said(error)}", _elsewhere(kind))
    if not stat.S_ISDIR(status.st_mode):
        return _bad(kind, path, "is not a directory", f"move it away, or {_elsewhere(kind)}")
    if os.name == "posix" and status.st_uid != os.geteuid():
        return _bad(kind, path, "belongs to another user", f"sudo chown -R $(id -u) {quote(str(path))}")
    return _unwritable(kind, path) or _exposed(kind, path, stat.S_IMODE(status.st_mode))


def runtime() -> Check:
    """Where the sockets between agents and servers are: one is made and taken away."""
    from acp_launch.bridge import seat

    try:
        with seat.directory() as made:
            return ok("directory", "runtime", str(made.parent), path=str(made.parent))
    except LaunchError as error:
        return problem("directory", "runtime", f"{error.message} ({'; '.join(error.detail)})", error.fix)


def nearest(path: Path) -> Path:
    """`path`, or what is there of the way to it."""
    return next((each for each in (path, *path.parents) if os.path.lexists(each)), path)


def _missing(kind: Kind, path: Path) -> Check:
    parent = nearest(path)
    if parent.is_dir() and os.access(parent, os.W_OK | os.X_OK):
        return ok("directory", kind, f"{path} (not there yet; it is made when it is needed)", path=str(path))
    return _bad(kind, path, f"cannot be made in {parent}", _elsewhere(kind))


def _unwritable(kind: Kind, path: Path) -> Check | None:
    if kind == "config":
        return None
    try:
        with tempfile.TemporaryFile(dir=path, buffering=0) as file:
            file.write(ROOM)
    except OSError as error:
        room = "make room on its file system" if error.errno in FULL else f"chmod u+rwx {quote(str(path))}"
        return _bad(kind, path, f"cannot be written: {_said(error)}", f"{room}, or {_elsewhere(kind)}")
    return None


def _exposed(kind: Kind, path: Path, mode: int) -> Check:
    facts = {"path": str(path), "mode": f"{mode:04o}"}
    if os.name != "posix":
        return ok("directory", kind, str(path), path=str(path))
    text = f"{path} ({mode:04o})"
    if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX:
        fix = f"chmod go-w {quote(str(path))}"
        return warning("directory", kind, f"{text}: others may change what is in it", fix, **facts)
    if kind == "state" and mode & (stat.S_IRGRP | stat.S_IROTH):
        fix = f"chmod 700 {quote(str(path))}"
        return warning("directory", kind, f"{text}: others may read what agents have logged", fix, **facts)
    return ok("directory", kind, text, **facts)


def _bad(kind: Kind, path: Path, why: str, fix: str) -> Check:
    make = problem if kind == "state" else warning
    return make("directory", kind, f"{path} {why}", fix, path=str(path))


def _elsewhere(kind: Kind) -> str:
    return f"export ACP_LAUNCH_{kind.upper()}_DIR=DIRECTORY"


def _said(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
