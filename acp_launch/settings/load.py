"""
The user's own settings: directories from the environment, everything else from `config.yaml` and `ACP_LAUNCH_*`.

Who has neither the file nor such a variable pays for looking, and no more; who has them, and had them when they were
checked before, does not import what checks them.
"""

import os
from functools import partial
from pathlib import Path

from acp_launch.errors import SettingsError
from acp_launch.problem import Problem
from acp_launch.settings.grounds import grounds, lies_in
from acp_launch.settings.model import Choices, Settings
from acp_launch.settings.variables import present

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
    from acp_launch.settings.file import read

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

    from acp_launch.document.cache import Shelf
    from acp_launch.document.shape import build

    shelf = Shelf(cache / "settings", ("settings/*.py",))
    key = [text, variables]
    is_ours = not lies_in(cache, grounds(_here()))  # else an entry may be of somebody's making
    if is_ours and not unread and (known := shelf.recall(file, key, partial(build, Choices))):
        return known
    from acp_launch.settings.user import choices

    chosen, problems = choices(text, str(file), variables)
    if chosen is None or unread:
        raise SettingsError([*unread, *problems])
    if is_ours:
        shelf.keep(file, key, msgspec.to_builtins(chosen, enc_hook=str))
    return chosen
