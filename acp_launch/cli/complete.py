"""The verb `completion`: prints a completion script for a shell."""

from enum import StrEnum
from typing import Annotated

import typer


class Shell(StrEnum):
    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="The shell that the script is for.")],
) -> None:
    """Print a completion script for your shell; its first lines say how to use it. Nothing is installed."""
    from pathlib import Path

    script = Path(__file__).with_name("shells") / f"acp-launch.{shell.value}"
    typer.echo(script.read_text(encoding="utf-8"), nl=False)
