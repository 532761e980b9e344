"""
The verbs `import` and `export`: configuration of other tools becomes part of a profile, and the other way round.

They start nothing. `import` stores each credential in the secret store before it writes the profile, and nowhere else.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from acp_launch.errors import UsageError
from acp_launch.problem import ours

if TYPE_CHECKING:
    from acp_launch.interop.tools import Tool

Only = Annotated[
    list[str] | None, typer.Option("--only", metavar="NAME", help="Import only this server or agent; repeatable.")
]
From = Annotated[
    str | None, typer.Option("--from", metavar="TOOL", help="The tool of the file, if its name does not tell.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Json = Annotated[bool, typer.Option("--json", help="Print the list as JSON.")]


def import_(
    source: Annotated[str | None, typer.Argument(metavar="[SOURCE]", help="A tool's name, or a file's path.")] = None,
    into: Annotated[str | None, typer.Option("--into", metavar="PROFILE", help="The profile to import into.")] = None,
    only: Only = None,
    as_name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="The name for the imported server.")
    ] = None,
    origin: From = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change without changing it.")] = False,
    yes: Yes = False,
    force: Annotated[bool, typer.Option("--force", help="Replace servers of the same name.")] = False,
    as_json: Json = False,
) -> None:
    """Import MCP servers and agents from other tools. Without SOURCE, list those on this machine."""
    from acp_launch.cli.incoming import Wish, found, list_, take

    if source is None:
        if into is not None:
            raise UsageError("no source is given", fix="acp-launch import lists the sources on this machine")
        list_(as_json=as_json)
        return
    tool = _tool(origin) if origin else None
    if into is None:
        found(source, tool)  # a mistake in the source is reported first, as no profile would mend it
        whose = ("--from", origin) if origin else ()
        raise UsageError("no profile is given to import into", fix=ours("import", source, *whose, "--into", "PROFILE"))
    wish = Wish(tuple(only or ()), as_name or "", dry_run=dry_run, yes=yes, force=force)
    take(source, into, tool, wish)


def export(
    profile: Annotated[str, typer.Argument(metavar="PROFILE", help="A profile's name, or the path of its file.")],
    to: Annotated[str, typer.Option("--to", metavar="TOOL", help="zed, vscode, claude, codex, ...")],
    write: Annotated[bool, typer.Option("--write", help="Write it to the tool's configuration.")] = False,
    file: Annotated[str | None, typer.Option("--file", metavar="FILE", help="Write it to this file instead.")] = None,
    yes: Yes = False,
    force: Annotated[bool, typer.Option("--force", help="Replace entries of the same name.")] = False,
    trust: Annotated[
        bool, typer.Option("--trust", help="Export a project's profile once without trusting it.")
    ] = False,
) -> None:
    """Print or write a profile's servers and agent for another tool. Never prints a secret's value."""
    from acp_launch.cli.outgoing import Wish, give

    give(profile, _tool(to), Wish(write or file is not None, file or "", yes=yes, force=force, trust=trust))


def _tool(name: str) -> "Tool":
    from acp_launch.interop.tools import TOOLS

    if name not in TOOLS:
        raise UsageError(f'unknown tool "{name}"', fix=f"choose one of {', '.join(TOOLS)}")
    return TOOLS[name]
