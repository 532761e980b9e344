"""The user's settings file: reads, changes and checks it."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from acp_launch.app.correct import edit_text
from acp_launch.console.interop import note, show_change
from acp_launch.document.nodes import SETTINGS
from acp_launch.document.yaml import parse
from acp_launch.errors import SettingsError, UsageError
from acp_launch.interop.merge import replace_file
from acp_launch.private import create, make_private
from acp_launch.problem import Problem, did_you_mean, ours
from acp_launch.profile.edit import CannotEdit, meant, put, remove
from acp_launch.settings.check import choices
from acp_launch.settings.load import file_text, present, settings_file
from acp_launch.settings.model import keys

NEW = """\
# Your settings of acp-launch. `acp-launch config` shows all of them, `acp-launch help settings` explains them.
"""


def edit() -> None:
    """Let the user edit the settings file."""
    file = settings_file()
    before = read_settings(file)
    text = edit_text(file, NEW if before is None else before, lambda text: find_problems(file, text), may_save=False)
    if text is not None:
        write_settings(file, text, before)


def set_(key: str, value: str) -> None:
    change_settings(key, set_value(value), tell=show_change)


def unset(key: str) -> None:
    change_settings(key, lambda text, where: remove(text, where) if says_something(text) else text, tell=show_change)


def choose(key: str, value: str) -> Path:
    """Set one setting as `set` does, but print nothing; return the settings file."""
    change_settings(key, set_value(value), tell=lambda *_: None)
    return settings_file()


def set_value(value: str) -> Callable[[str, tuple[str, ...]], str]:
    """Return the change that sets a setting to what the user wrote."""
    given = meant(value)
    return lambda text, where: put(text, where, given) if says_something(text) else _first_setting(text, where, given)


def says_something(text: str) -> bool:
    document, problems = parse(text, "", SETTINGS)
    return bool(document.root if document else problems)


def _first_setting(text: str, where: tuple[str, ...], value: object) -> str:
    """Add the first setting to a file without any."""
    parents = "".join(f"{'  ' * depth}{step}:\n" for depth, step in enumerate(where[:-1]))
    indent = "  " * (len(where) - 1)
    return f"{text.rstrip()}\n{parents}{indent}{where[-1]}: {json.dumps(value)}\n".lstrip("\n")


def change_settings(
    key: str, change: Callable[[str, tuple[str, ...]], str], *, tell: Callable[[Path, str | None, str], None]
) -> None:
    """Make the change if the settings are valid with it; `tell` shows it before.

    Raises:
        UsageError: the setting is unknown.
        SettingsError: the settings would be wrong.
    """
    file, where = settings_file(), tuple(key.split("."))
    if where not in keys():
        known = [".".join(each) for each in keys()]
        raise UsageError(f'unknown setting "{key}"{did_you_mean(key, known)}', fix=ours("config", "show"))
    before = read_settings(file)
    try:
        after = change(NEW if before is None else before, where)
    except CannotEdit as cannot:
        raise UsageError(f"{key}: {cannot.message}", fix=cannot.fix or ours("config", "edit")) from None
    if wrong := find_problems(file, after):
        refusal = SettingsError(wrong)
        refusal.outcome = "nothing was changed"
        raise refusal
    if after == before:
        note("the settings already say this; nothing was changed")
        return
    tell(file, before, after)
    write_settings(file, after, before)


def find_problems(file: Path, text: str) -> Sequence[Problem]:
    return choices(text, str(file), present())[1]


def read_settings(file: Path) -> str | None:
    """Return the text of the file; None if it does not exist.

    Raises:
        SettingsError: it cannot be read, or others could change it.
    """
    text, problems = file_text(file)
    if problems:
        raise SettingsError(problems)
    return text if file.exists() else None


def write_settings(file: Path, text: str, before: str | None) -> None:
    if before is not None:
        replace_file(file, text, instead_of=before)
        return
    try:
        make_private(file.parent)
        create(file, text.encode())
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}", fix="check its directory") from None
