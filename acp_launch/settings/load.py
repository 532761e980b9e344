"""
The user's own settings: directories from the environment, everything else from `config.yaml` and `ACP_LAUNCH_*`.

Who has neither the file nor such a variable pays for looking, and no more; who has them, and had them when they were
checked before, does not import what checks them.
"""

import os
import shlex
import stat
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from acp_launch.document.nodes import MAX_SIZE, SETTINGS, decode
from acp_launch.errors import SettingsError
from acp_launch.problem import Problem
from acp_launch.settings.model import Choices, Settings
from acp_launch.settings.variables import present

# Where the people of a project may write: nothing that lies there can speak for the user.
#
# A variable of the environment (`ACP_LAUNCH_*_DIR`, `XDG_*`, `HOME`) may lead a directory of ours into a project. What
# is kept in it then came with the project, or could have.


MARKS = (".git", ".acp-launch")  # a file in worktrees and submodules


def grounds(start: Path) -> Iterator[Path]:
    """The projects around a directory, itself included."""
    return (directory for directory in (start, *start.parents) if any(_is_there(directory / mark) for mark in MARKS))


def lies_in(directory: Path, projects: Iterable[Path]) -> bool:
    """Whether `directory` lies in one of them, wherever links lead. A home that is a project is the user's."""
    real, home = _real(directory), _home()
    roots = map(_real, projects)
    return any(real.is_relative_to(root) and not (home and home.is_relative_to(root)) for root in roots)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a directory we may not enter
        return False


def _home() -> Path | None:
    """As the system knows it: HOME may be what leads us astray."""
    try:
        import pwd
    except ImportError:
        return _real(Path.home())
    try:
        return _real(Path(pwd.getpwuid(os.getuid()).pw_dir))
    except KeyError:  # a container's user may have no name, and then no home that we can be sure of
        return None


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


FILE = "config.yaml"


def load() -> Settings:
    """
    What the user chose, or the defaults.

    Raises:
        SettingsError: with every problem of the file and of the variables.
    """
    config, state, cache = (directory(kind) for kind in ("CONFIG", "STATE", "CACHE"))
    chosen = _choices(config / FILE, cache)
    return Settings(config=config, state=state, cache=cache, max_line=chosen.max_line, secrets=chosen.secrets)


def directory(kind: str) -> Path:
    """CONFIG, STATE or CACHE: from the environment alone, for `config.yaml` lies in one of them."""
    if chosen := os.environ.get(f"ACP_LAUNCH_{kind}_DIR"):
        return Path(chosen).absolute()
    import platformdirs

    found: Path = getattr(platformdirs, f"user_{kind.lower()}_path")("acp-launch", appauthor=False)
    return found


def _choices(file: Path, cache: Path) -> Choices:
    variables = present()
    text, problems = _text(file)
    if text == "" and not problems and not variables:
        return Choices()
    return _checked(file, text, problems, variables, cache)


def _text(file: Path) -> tuple[str | None, list[Problem]]:
    """An empty text when there is no such file, none when it cannot be read."""
    try:
        file.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return "", []
    except OSError:  # `read` says what
        pass

    if lies_in(file, grounds(_here())):
        what = "these settings lie in a project, which cannot choose them: they may name a command to run"
        fix = "unset ACP_LAUNCH_CONFIG_DIR (or XDG_CONFIG_HOME, or HOME), or let it name a directory of your own"
        return None, [Problem(str(file), 0, 0, "", what, fix)]
    return read(file)


def _here() -> Path:
    """What is left of it when the working directory is gone: nothing above it."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path(os.sep)


def _checked(file: Path, text: str | None, unread: list[Problem], variables: dict[str, str], cache: Path) -> Choices:
    """Problems of the file itself (`unread`) are found anew each time: they are not in its text."""
    import msgspec

    from acp_launch.document.cache import JsonCache
    from acp_launch.document.shape import build

    entries = JsonCache(cache / "settings", ("settings/*.py",))
    key = [text, variables]
    is_ours = not lies_in(cache, grounds(_here()))  # else an entry may be of somebody's making
    if is_ours and not unread and (known := entries.recall(file, key, partial(build, Choices))):
        return known
    from acp_launch.settings.check import choices

    chosen, problems = choices(text, str(file), variables)
    if chosen is None or unread:
        raise SettingsError([*unread, *problems])
    if is_ours:
        entries.keep(file, key, msgspec.to_builtins(chosen, enc_hook=str))
    return chosen


# `config.yaml` as it lies on the disk: its text, or why it is not read.
#
# It may name a command that we run, so nobody but its owner may be able to change it: as with ssh's files, we refuse
# one that others can write, or that lies in a directory where others could put one of their own. On Windows the
# directory of a user is theirs by its access list, and nothing is checked.


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
