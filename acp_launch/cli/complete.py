"""`completion`: a script that lets the shell complete what is typed."""

from enum import StrEnum
from typing import Annotated

import typer


class Shell(StrEnum):
    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="Which shell it is for.")]) -> None:
    """Print a script that completes acp-launch in your shell; it begins with how to use it. Nothing is installed."""
    from pathlib import Path

    script = Path(__file__).with_name("shells") / f"acp-launch.{shell.value}"
    typer.echo(script.read_text(encoding="utf-8"), nl=False)
