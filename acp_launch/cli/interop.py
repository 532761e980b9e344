"""
The verbs `import` and `export`: other tools' configuration becomes part of a profile, and the other way round.

Nothing is started. A credential that is found goes to the secret store before the profile is written, and nowhere else.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from acp_launch.errors import UsageError
from acp_launch.problem import ours

if TYPE_CHECKING:
    from acp_launch.interop.tools import Tool

Only = Annotated[
    list[str] | None, typer.Option("--only", metavar="NAME", help="Take only this server or agent; repeatable.")
]
From = Annotated[str | None, typer.Option("--from", metavar="TOOL", help="Whose file it is, if its name does not say.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Json = Annotated[bool, typer.Option("--json", help="Answer with JSON on stdout, for the list.")]


def import_(
    source: Annotated[str | None, typer.Argument(metavar="[SOURCE]", help="A tool's name, or a file's path.")] = None,
    into: Annotated[str | None, typer.Option("--into", metavar="PROFILE", help="The profile that gets it.")] = None,
    only: Only = None,
    as_name: Annotated[str | None, typer.Option("--as", metavar="NAME", help="Call the one server so.")] = None,
    origin: From = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")] = False,
    yes: Yes = False,
    force: Annotated[bool, typer.Option("--force", help="Replace servers of the same name.")] = False,
    as_json: Json = False,
) -> None:
    """Take over servers and agents of other tools. Without a source: list what there is on this machine."""
    from acp_launch.cli.incoming import Wish, found, list_, take

    if source is None:
        if into is not None:
            raise UsageError("import what?", fix="acp-launch import lists what there is on this machine")
        list_(as_json=as_json)
        return
    tool = _tool(origin) if origin else None
    if into is None:
        found(source, tool)  # first what is wrong with that: a profile would not help
        whose = ("--from", origin) if origin else ()
        raise UsageError("import into which profile?", fix=ours("import", source, *whose, "--into", "PROFILE"))
    wish = Wish(tuple(only or ()), as_name or "", dry_run=dry_run, yes=yes, force=force)
    take(source, into, tool, wish)


def export(
    profile: Annotated[str, typer.Argument(metavar="PROFILE", help="A profile's name, or the path of its file.")],
    to: Annotated[str, typer.Option("--to", metavar="TOOL", help="zed, vscode, claude, codex, ...")],
    write: Annotated[bool, typer.Option("--write", help="Write it to the tool's configuration.")] = False,
    file: Annotated[str | None, typer.Option("--file", metavar="FILE", help="Write it there instead.")] = None,
    yes: Yes = False,
    force: Annotated[bool, typer.Option("--force", help="Replace entries of the same name.")] = False,
    trust: Annotated[bool, typer.Option("--trust", help="Write a project's profile without accepting it.")] = False,
) -> None:
    """Print, or write, what makes another tool use a profile's servers, or its agent. Never a secret's value."""
    from acp_launch.cli.outgoing import Wish, give

    give(profile, _tool(to), Wish(write or file is not None, file or "", yes=yes, force=force, trust=trust))


def _tool(name: str) -> "Tool":
    from acp_launch.interop.tools import TOOLS

    if name not in TOOLS:
        raise UsageError(f'there is no tool "{name}"', fix=f"it is one of {', '.join(TOOLS)}")
    return TOOLS[name]
