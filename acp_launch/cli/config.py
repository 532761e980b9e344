"""
The verb `config`: shows the user's settings and where each comes from; `path`, `edit`, `set` and `unset`.

It works while the settings are wrong: `config edit` mends them.
"""

from typing import Annotated

import typer

from acp_launch.app.config import (
    NEW,
    change_settings,
    find_problems,
    read_settings,
    says_something,
    set_value,
    settings_file,
    write_settings,
)
from acp_launch.app.correct import edit_text
from acp_launch.cli.verb import Argument, Group, Json
from acp_launch.console import settings as shown
from acp_launch.console import stdout
from acp_launch.console.stdout import terminal_width
from acp_launch.settings.origin import directories, origins

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
    file = settings_file()
    shown.show(file, origins(file), directories(), width=terminal_width(), as_json=as_json)


@app.verb()
def path() -> None:
    """Print the path of your settings file, which may not exist yet."""
    stdout.line(str(settings_file()))


@app.verb()
def edit() -> None:
    """Edit your settings file in $VISUAL or $EDITOR. It is checked when you save it."""
    file = settings_file()
    before = read_settings(file)
    text = edit_text(file, NEW if before is None else before, lambda text: find_problems(file, text), may_save=False)
    if text is not None:
        write_settings(file, text, before)


@app.verb("set")
def set_(key: Key, value: Annotated[str, Argument("VALUE", "Text or a number; a list as [a, b].")]) -> None:
    """Set one setting in your settings file; its comments stay."""
    from acp_launch.console.interop import show_change

    change_settings(key, set_value(value), tell=show_change)


@app.verb()
def unset(key: Key) -> None:
    """Remove one setting from your settings file, so that its default applies."""
    from acp_launch.console.interop import show_change
    from acp_launch.profile.edit import remove

    change_settings(key, lambda text, where: remove(text, where) if says_something(text) else text, tell=show_change)
