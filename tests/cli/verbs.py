"""The verbs of the command line, as typer has them."""

from collections.abc import Iterator
from typing import cast

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from acp_launch.cli.app import app

Command = TyperCommand | TyperGroup  # whichever click typer brings: some versions have their own


def commands() -> dict[str, Command]:
    """Every verb and group by its words; the program itself has none."""
    return dict(_below("", cast(Command, typer.main.get_command(app))))


def _below(name: str, command: Command) -> Iterator[tuple[str, Command]]:
    yield name, command
    if isinstance(command, TyperGroup):
        for word in command.commands:
            found = cast(Command, command.get_command(typer.Context(command), word))  # made when it is asked for
            yield from _below(f"{name} {word}".strip(), found)
