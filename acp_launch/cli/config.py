"""
The verb `config`: shows the user's settings and where each comes from; `path`, `edit`, `set` and `unset`.

It works while the settings are wrong: `config edit` mends them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from acp_launch.cli.verb import Argument, Group, Json
from acp_launch.errors import SettingsError, UsageError
from acp_launch.problem import did_you_mean, ours

if TYPE_CHECKING:
    from collections.abc import Sequence

    from acp_launch.problem import Problem

NEW = """\
# Your settings of acp-launch. `acp-launch config` shows all of them, `acp-launch help settings` explains them.
"""
app = Group("Your settings: show, path, edit, set, unset.")

Key = Annotated[str, Argument("KEY", "For example secrets.timeout; acp-launch config lists them.")]


@app.alone
def config(context: typer.Context, as_json: Json = False) -> None:
    """Show your settings, and where each comes from; or path, edit, set, unset."""
    if context.invoked_subcommand is None:
        show(as_json)


@app.verb()
def show(as_json: Json = False) -> None:
    """Show every setting, its value, and where it comes from."""
    from acp_launch.console import settings as shown
    from acp_launch.console.stdout import terminal_width
    from acp_launch.settings.origin import directories, origins

    file = _file()
    shown.show(file, origins(file), directories(), width=terminal_width(), as_json=as_json)


@app.verb()
def path() -> None:
    """Print the path of your settings file, which may not exist yet."""
    from acp_launch.console import stdout

    stdout.line(str(_file()))


@app.verb()
def edit() -> None:
    """Edit your settings file in $VISUAL or $EDITOR. It is checked when you save it."""
    from acp_launch.cli.correct import edit_text

    file = _file()
    before = _text(file)
    text = edit_text(file, NEW if before is None else before, lambda text: _problems(file, text), may_save=False)
    if text is not None:
        _put(file, text, before)


@app.verb("set")
def set_(key: Key, value: Annotated[str, Argument("VALUE", "Text or a number; a list as [a, b].")]) -> None:
    """Set one setting in your settings file; its comments stay."""
    from acp_launch.console.interop import show_change

    _change(key, _set_value(value), tell=show_change)


def choose(key: str, value: str) -> Path:
    """Set one setting as `set` does, but print nothing; return the settings file."""
    _change(key, _set_value(value), tell=lambda *_: None)
    return _file()


@app.verb()
def unset(key: Key) -> None:
    """Remove one setting from your settings file, so that its default applies."""
    from acp_launch.console.interop import show_change
    from acp_launch.profile.edit import remove

    _change(key, lambda text, where: remove(text, where) if _says_something(text) else text, tell=show_change)


def _set_value(value: str) -> Callable[[str, tuple[str, ...]], str]:
    """Return the change that sets a setting to what the user wrote."""
    from acp_launch.profile.edit import meant, put

    given = meant(value)
    return lambda text, where: put(text, where, given) if _says_something(text) else _first_setting(text, where, given)


def _says_something(text: str) -> bool:
    from acp_launch.document.nodes import SETTINGS
    from acp_launch.document.yaml import parse

    document, problems = parse(text, "", SETTINGS)
    return bool(document.root if document else problems)


def _first_setting(text: str, where: tuple[str, ...], value: object) -> str:
    """Add the first setting to a file without any."""
    import json

    parents = "".join(f"{'  ' * depth}{step}:\n" for depth, step in enumerate(where[:-1]))
    indent = "  " * (len(where) - 1)
    return f"{text.rstrip()}\n{parents}{indent}{where[-1]}: {json.dumps(value)}\n".lstrip("\n")


def _change(
    key: str, change: Callable[[str, tuple[str, ...]], str], *, tell: Callable[[Path, str | None, str], None]
) -> None:
    """Make the change if the settings are valid with it; `tell` shows it before.

    Raises:
        UsageError: the setting is unknown.
        SettingsError: the settings would be wrong.
    """
    from acp_launch.console.interop import note
    from acp_launch.profile.edit import CannotEdit
    from acp_launch.settings.origin import keys

    file, where = _file(), tuple(key.split("."))
    if where not in keys():
        known = [".".join(each) for each in keys()]
        raise UsageError(f'unknown setting "{key}"{did_you_mean(key, known)}', fix=ours("config", "show"))
    before = _text(file)
    try:
        after = change(NEW if before is None else before, where)
    except CannotEdit as cannot:
        raise UsageError(f"{key}: {cannot.message}", fix=cannot.fix or ours("config", "edit")) from None
    if wrong := _problems(file, after):
        refusal = SettingsError(wrong)
        refusal.outcome = "nothing was changed"
        raise refusal
    if after == before:
        note("the settings already say this; nothing was changed")
        return
    tell(file, before, after)
    _put(file, after, before)


def _problems(file: Path, text: str) -> "Sequence[Problem]":
    from acp_launch.settings.check import choices
    from acp_launch.settings.load import present

    return choices(text, str(file), present())[1]


def _file() -> Path:
    from acp_launch.settings.load import FILE, directory

    return directory("CONFIG") / FILE


def _text(file: Path) -> str | None:
    """Return the text of the file; None if it does not exist.

    Raises:
        SettingsError: it cannot be read, or others could change it.
    """
    from acp_launch.settings.load import file_text

    text, problems = file_text(file)
    if problems:
        raise SettingsError(problems)
    return text if file.exists() else None


def _put(file: Path, text: str, before: str | None) -> None:
    from acp_launch.interop.merge import replace_file
    from acp_launch.private import create, make_private

    if before is not None:
        replace_file(file, text, instead_of=before)
        return
    try:
        make_private(file.parent)
        create(file, text.encode())
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}", fix="check its directory") from None
