"""The lists of commands in `--help`: under headings, in whole sentences, as wide as the terminal."""

from collections.abc import Collection, Iterator
from typing import Any

from typer.core import TyperGroup

WIDEST = 120  # columns; longer lines are hard to read


class Commands(TyperGroup):
    """A group of commands. Its `--help` wraps a long sentence where typer would cut it."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        rows = {name: _sentence(self.get_command(ctx, name)) for name in self.list_commands(ctx)}
        width = max(map(len, rows))
        for heading, names in self.headings(rows):
            with formatter.section(heading):
                formatter.write_dl([(f"{name:{width}}", rows[name]) for name in names])

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Find a command; for a press of the tab key, it offers our candidates."""
        command = super().get_command(ctx, cmd_name)
        if command and ctx.resilient_parsing:
            from acp_launch.cli.completion import offer

            offer(command, f"{ctx.command_path} {cmd_name}".partition(" ")[2])
        return command

    def headings(self, names: Collection[str]) -> Iterator[tuple[str, Collection[str]]]:
        """Yield each heading with the names of its commands."""
        yield "Commands", names


def _sentence(command: Any) -> str:
    """Return the first sentence of a command's help."""
    first, stop, _ = str(command.help or "").partition("\n")[0].partition(". ")
    return first + stop.strip()
