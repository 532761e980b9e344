"""
`config.yaml` as it lies on the disk: its text, or why it is not read.

It may name a command that we run, so nobody but its owner may be able to change it: as with ssh's files, we refuse one
that others can write, or that lies in a directory where others could put one of their own. On Windows the directory
of a user is theirs by its access list, and nothing is checked.
"""

import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from acp_launch.document.source import MAX_SIZE, SETTINGS, decode
from acp_launch.problem import Problem


def read(file: Path) -> tuple[str | None, list[Problem]]:
    """No text, and why, when it cannot be read; a text and problems when only its protection is wrong."""
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            return None, [_not_a_file(file, status)]
        with file.open("rb") as stream:
            content = stream.read(MAX_SIZE + 1)  # one more than allowed, so that `decode` sees it is too long
        exposed = list(_exposed(file))
    except FileNotFoundError:
        return None, [Problem(str(file), 0, 0, "", "this link leads to no file", f"rm {shlex.quote(str(file))}")]
    except OSError as fault:
        return None, [
            Problem(str(file), 0, 0, "", f"cannot be read: {fault.strerror or fault}", _readable(fault, file))
        ]
    text, problems = decode(content, str(file), SETTINGS)
    return text, [*exposed, *problems]


def _not_a_file(file: Path, status: os.stat_result) -> Problem:
    if stat.S_ISDIR(status.st_mode):
        return Problem(str(file), 0, 0, "", "this is a directory, not a settings file", "move it away")
    return Problem(str(file), 0, 0, "", "this is not a regular file", "copy it into one")


def _readable(fault: OSError, file: Path) -> str:
    return f"chmod u+r {shlex.quote(str(file))}" if isinstance(fault, PermissionError) else ""


def _exposed(file: Path) -> Iterator[Problem]:
    """The ways somebody else could change what we read: the file, its directory, and those a link leads to."""
    if os.name != "posix":
        return
    target = file.resolve()
    for path in dict.fromkeys((target, file.parent, target.parent)):
        status = path.stat()
        what = "this file" if path == target else "the directory of your settings"
        if status.st_uid not in (0, os.geteuid()):
            fix = f"sudo chown {os.geteuid()} {shlex.quote(str(path))}"
            yield Problem(str(path), 0, 0, "", f"{what} belongs to another user, who could change what is run", fix)
        if _others_write(status):
            fix = f"chmod go-w {shlex.quote(str(path))}"
            yield Problem(str(path), 0, 0, "", f"other users can write {what}, and so change what is run", fix)


def _others_write(status: os.stat_result) -> bool:
    """In a directory with the sticky bit (/tmp) nobody replaces what is another's."""
    if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX:
        return False
    group = status.st_mode & stat.S_IWGRP and not _is_ours_alone(status.st_gid)
    return bool(group or status.st_mode & stat.S_IWOTH)


def _is_ours_alone(group: int) -> bool:
    """Whether this is the group that many systems make for each user; with one, a umask of 002 is usual."""
    import grp
    import pwd

    try:
        user, members = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:  # a container's user may have no name
        return False
    return members.gr_name == user.pw_name and user.pw_gid == group and set(members.gr_mem) <= {user.pw_name}
