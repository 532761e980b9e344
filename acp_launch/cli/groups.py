"""The lists of commands in `--help`: under headings, in whole sentences, as wide as the terminal."""

from collections.abc import Collection, Iterator
from typing import Any

from typer.core import TyperGroup

WIDEST = 120  # columns; longer lines are hard to read
# The headings of `acp-launch --help`. Every command stands under one.
HEADINGS = {
    "Run": ("run", "serve", "up", "attach", "reload", "down", "login", "logout", "permission"),
    "Profiles": (
        *("list", "init", "import", "edit", "profile", "validate", "plan", "show", "trust", "lock", "export", "schema"),
    ),
    "Secrets": ("secret",),
    "Sessions": ("session",),
    "Servers": ("mcp",),
    "Agents": ("agents",),
    "This machine": ("doctor", "config", "ps", "logs", "trace", "reap", "completion", "help"),
}


class Commands(TyperGroup):
    """A group of commands. Its `--help` wraps a long sentence where typer would cut it."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        rows = {name: _sentence(self.get_command(ctx, name)) for name in self.list_commands(ctx)}
        width = max(map(len, rows))
        for heading, names in self.headings(rows):
            with formatter.section(heading):
                formatter.write_dl([(f"{name:{width}}", rows[name]) for name in names])

    def headings(self, names: Collection[str]) -> Iterator[tuple[str, Collection[str]]]:
        """Yield each heading with the names of its commands."""
        yield "Commands", names


class AllCommands(Commands):
    """The commands of acp-launch."""

    def headings(self, names: Collection[str]) -> Iterator[tuple[str, Collection[str]]]:
        for heading, under in HEADINGS.items():
            yield heading, [name for name in under if name in names]
        if rest := set(names).difference(*HEADINGS.values()):
            yield "Other", sorted(rest)


def _sentence(command: Any) -> str:
    """Return the first sentence of a command's help."""
    first, stop, _ = str(command.help or "").partition("\n")[0].partition(". ")
    return first + stop.strip()
