"""
The verb `config`: shows the user's settings and where each comes from; `path`, `edit`, `set` and `unset`.

It works while the settings are wrong: `config edit` mends them.
"""

from typing import Annotated

import typer

from acp_launch.cli.verb import Argument, Group, Json
from acp_launch.console import settings as shown
from acp_launch.console import stdout
from acp_launch.console.stdout import terminal_width
from acp_launch.settings.load import settings_file
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
    from acp_launch.app import config

    config.edit()


@app.verb("set")
def set_(key: Key, value: Annotated[str, Argument("VALUE", "Text or a number; a list as [a, b].")]) -> None:
    """Set one setting in your settings file; its comments stay."""
    from acp_launch.app import config

    config.set_(key, value)


@app.verb()
def unset(key: Key) -> None:
    """Remove one setting from your settings file, so that its default applies."""
    from acp_launch.app import config

    config.unset(key)
