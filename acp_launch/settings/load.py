"""
Loading of the user's settings: directories from the environment, the rest from `config.yaml` and `ACP_LAUNCH_*`.

Without the file and the variables only the look-up costs time. With them, the modules that validate are imported only
if the same content was not validated before. The file must be protected from other users, and must not lie in a
project. `grounds` and `lies_in` find the projects around a directory.
"""

import grp
import os
import pwd
import shlex
import stat
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
from msgspec import structs

from acp_launch.descent import grounds as grounds
from acp_launch.descent import lies_in as lies_in
from acp_launch.descent import named_home, real
from acp_launch.document.cache import JsonCache
from acp_launch.document.nodes import MAX_SIZE, SETTINGS, decode
from acp_launch.document.shape import build
from acp_launch.errors import SettingsError, StateError
from acp_launch.private import Unfit, read_bounded
from acp_launch.problem import Problem, about
from acp_launch.settings.model import NEARLY, PREFIX, Choices, Settings, keys_by_variable


def belongs_to(directory: Path, project: Path, kind: str) -> bool:
    """
    Whether the directory of acp-launch for CONFIG, STATE or CACHE belongs to this project, where others may write.

    It does if it lies in a repository, or in the parent of an `.acp-launch`, at or above `project`. A project that is
    neither is only the directory that a command was typed in: it counts if it does not hold the home, and a
    variable other than HOME has put the directory there.
    """
    if lies_in(directory, grounds(project)):
        return True
    home = named_home()
    is_around_home = home is not None and real(home).is_relative_to(real(project))
    return not is_around_home and _variable(kind) != "" and lies_in(directory, (project,))


FILE = "config.yaml"


def load() -> Settings:
    """
    Load what the user chose, or the defaults.

    Raises:
        SettingsError: with every problem of the file and of the variables.
    """
    config, state, cache = (directory(kind) for kind in ("CONFIG", "STATE", "CACHE"))
    text, problems = file_text(config / FILE)
    variables = present()
    has_choices = text != "" or problems or variables
    chosen = _check_or_recall(config / FILE, text, problems, variables, cache) if has_choices else Choices()
    return Settings(config=config, state=state, cache=cache, **structs.asdict(chosen))


# The places of the XDG base directory specification, below the home directory.
_PLACES = {"CONFIG": ".config", "STATE": ".local/state", "CACHE": ".cache"}


def directory(kind: str) -> Path:
    """Return the directory for CONFIG, STATE or CACHE from the environment alone; `config.yaml` lies in one of them.

    On Linux it does without platformdirs, whose import takes 7 ms.

    Raises:
        StateError: the user has no home directory.
    """
    if chosen := os.environ.get(f"{PREFIX}{kind}_DIR"):
        return Path(chosen).absolute()
    home, base = os.environ.get("HOME", ""), os.environ.get(f"XDG_{kind}_HOME", "")
    if sys.platform == "linux" and home.startswith("/") and (not base or base.startswith("/")):
        return Path(base or Path(home, _PLACES[kind]), "acp-launch")
    import platformdirs

    try:
        return Path(getattr(platformdirs, f"user_{kind.lower()}_path")("acp-launch", appauthor=False))
    except RuntimeError as error:  # HOME is not set and the user has no entry in passwd
        fix = "set HOME, or ACP_LAUNCH_CONFIG_DIR, ACP_LAUNCH_STATE_DIR and ACP_LAUNCH_CACHE_DIR"
        raise StateError("there is no place for its files: the user has no home directory", fix=fix) from error


def settings_file() -> Path:
    """Return the path of the user's settings file, which may not exist yet."""
    return directory("CONFIG") / FILE


def elsewhere(kind: str) -> str:
    """Return the fix for a directory of acp-launch that lies in a project."""
    if chosen := _variable(kind):
        return f"unset {chosen}, or set it to a directory outside of the project"
    return f"set {PREFIX}{kind}_DIR to a directory outside of the project"


def _variable(kind: str) -> str:
    """Return the variable that has put a directory of acp-launch elsewhere than HOME alone would; empty without one."""
    ours, common, home = f"{PREFIX}{kind}_DIR", f"XDG_{kind}_HOME", named_home()
    if os.environ.get(ours):
        return ours
    base = os.environ.get(common)
    return common if base and not (home and Path(base) == home / _PLACES[kind]) else ""


def present() -> dict[str, str]:
    """
    Return the variables that are set, including misspelt ones of the section; an empty one counts as not set.

    A secret's value (`ACP_LAUNCH_SECRET_NAME`) and the passphrase are never among them.
    """
    ours = ((name, text) for name, text in os.environ.items() if text and name.startswith(PREFIX))
    return {name: text for name, text in ours if name.startswith(NEARLY) or name in keys_by_variable()}


def file_text(file: Path) -> tuple[str | None, list[Problem]]:
    """Read the settings file: empty text if it does not exist, None if it cannot be read."""
    try:
        file.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return "", []
    except OSError:  # `read` reports it
        pass

    if lies_in(file, grounds(_here())):
        what = (
            "this file lies in a project; a project cannot choose your settings, because they may name a command to run"
        )
        return None, [about(str(file), what, elsewhere("CONFIG"))]
    return read(file)


def _here() -> Path:
    """Return the working directory; the root directory if it was deleted."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path(os.sep)


def _check_or_recall(
    file: Path, text: str | None, unread: list[Problem], variables: dict[str, str], cache: Path
) -> Choices:
    """Validate text and variables, or use the cached result.

    Problems of the file itself (`unread`) are checked each time, because the cache knows only its text.
    """
    entries = JsonCache(cache / "settings", ("settings/*.py",))
    key = [text, variables]
    is_ours = not lies_in(cache, grounds(_here()))  # otherwise the project could have written the entry
    if is_ours and not unread and (known := entries.read(file, key, partial(build, Choices))):
        return known
    from acp_launch.settings.check import choices

    chosen, problems = choices(text, str(file), variables)
    if chosen is None or unread:
        raise SettingsError([*unread, *problems])
    if is_ours:
        entries.write(file, key, msgspec.to_builtins(chosen, enc_hook=str))
    return chosen


# `config.yaml` may name a command that acp-launch runs, so only its owner may be able to change it. As ssh does with
# its files, acp-launch refuses a file that others can write, or whose directory others can write.


def read(file: Path) -> tuple[str | None, list[Problem]]:
    """Read the file: None and the problem if that fails; text and problems if only its protection is wrong."""
    try:
        found = read_bounded(file, MAX_SIZE)
        exposed = list(_exposure(file)) if found else []
    except Unfit as unfit:
        return None, [about(str(file), f"this file {unfit}", "check that this is a settings file")]
    except OSError as fault:
        fix = f"chmod u+r {_quote(file)}" if isinstance(fault, PermissionError) else ""
        return None, [about(str(file), f"cannot be read: {fault.strerror or fault}", fix)]
    if found is None:
        return None, [about(str(file), "this link leads to a missing file", f"rm {_quote(file)}")]
    text, problems = decode(found[0], str(file), SETTINGS)
    return text, [*exposed, *problems]


def _quote(path: Path) -> str:
    return shlex.quote(str(path))


def _exposure(file: Path) -> Iterator[Problem]:
    """Yield a problem for each way in which another user could change the file: itself, its directory, link targets."""
    target = file.resolve()
    for path in dict.fromkeys((target, file.parent, target.parent)):
        status = path.stat()
        what = "this file" if path == target else "the directory of your settings"
        if status.st_uid not in (0, os.geteuid()):
            fix = f"sudo chown {os.geteuid()} {_quote(path)}"
            yield about(str(path), f"{what} belongs to another user, who could change which commands run", fix)
        if _others_write(status):
            fix = f"chmod go-w {_quote(path)}"
            yield about(str(path), f"other users can write {what}, and so change which commands run", fix)


def _others_write(status: os.stat_result) -> bool:
    """Whether others can write it. In a directory with the sticky bit (/tmp) they cannot replace the user's files."""
    if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX:
        return False
    group = status.st_mode & stat.S_IWGRP and not _is_ours_alone(status.st_gid)
    return bool(group or status.st_mode & stat.S_IWOTH)


def _is_ours_alone(group: int) -> bool:
    """Whether this is the private group that many systems create for each user, where a umask of 002 is usual."""
    try:
        user, members = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:  # a container's user may have no name
        return False
    return members.gr_name == user.pw_name and user.pw_gid == group and set(members.gr_mem) <= {user.pw_name}
