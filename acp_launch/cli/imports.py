"""
The verbs `init`, `import` and `export`: a profile is created, takes servers of other tools, and is given to them.

They start nothing. `import` stores each credential in the secret store before it writes the profile, and nowhere else.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from acp_launch.cli.app import ProfileName, Yes
from acp_launch.errors import UsageError
from acp_launch.problem import ours

if TYPE_CHECKING:
    from collections.abc import Mapping

    from acp_launch.interop.tools import Tool

Agent = Annotated[
    str | None,
    typer.Option("--agent", "-a", metavar="NAME|COMMAND", help="A known agent, or the command that starts another."),
]
Extends = Annotated[str | None, typer.Option("--extends", metavar="PROFILE", help="Extend another profile instead.")]
Servers = Annotated[
    list[str] | None, typer.Option("--server", metavar="NAME=COMMAND|URL", help="An MCP server; repeatable.")
]
Only = Annotated[
    list[str] | None, typer.Option("--only", metavar="NAME", help="Import only this server or agent; repeatable.")
]
From = Annotated[
    str | None, typer.Option("--from", metavar="TOOL", help="The tool of the file, if its name does not tell.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the list as JSON.")]


def init(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The profile's name.")] = None,
    agent: Agent = None,
    extends: Extends = None,
    server: Servers = None,
    user: Annotated[
        bool, typer.Option("--user", help="Create it in your own configuration, not in the project.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing profile of that name.")] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Copy the schema for editors into the project, to be committed.")
    ] = False,
) -> None:
    """Create a profile. Asks on a terminal, unless --agent or --extends is given."""
    from acp_launch.cli.drafting import InitRequest, create, parse_servers

    servers = parse_servers(server or ())
    create(InitRequest(name or "", agent or "", extends or "", servers, user, force, copies_schema=schema))


def import_(
    source: Annotated[str | None, typer.Argument(metavar="[SOURCE]", help="A tool's name, or a file's path.")] = None,
    into: Annotated[str | None, typer.Option("--into", metavar="PROFILE", help="The profile to import into.")] = None,
    only: Only = None,
    as_name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="The name for the imported server.")
    ] = None,
    origin: From = None,
    agent: Annotated[
        str | None,
        typer.Option("--agent", "-a", metavar="NAME|COMMAND", help="The agent of a new profile, as for init."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change without changing it.")] = False,
    yes: Yes = False,
    force: Annotated[bool, typer.Option("--force", help="Replace servers of the same name.")] = False,
    as_json: Json = False,
) -> None:
    """Import MCP servers and agents from other tools. Without SOURCE, list those on this machine; a terminal asks."""
    from acp_launch.cli.importing import ImportRequest, find_sources, import_source
    from acp_launch.interop.tools import TOOLS

    if source is None:
        if into is not None:
            raise UsageError("no source is given", fix="acp-launch import lists the sources on this machine")
        _from_the_list(as_json=as_json)
        return
    tool = _tool(origin, TOOLS) if origin else None
    if into is None:
        find_sources(source, tool)  # a mistake in the source is reported first, as no profile would mend it
        whose = ("--from", origin) if origin else ()
        raise UsageError("no profile is given to import into", fix=ours("import", source, *whose, "--into", "PROFILE"))
    request = ImportRequest(tuple(only or ()), as_name or "", agent or "", dry_run=dry_run, yes=yes, force=force)
    import_source(source, into, tool, request)


def _from_the_list(*, as_json: bool) -> None:
    """List the sources; on a terminal import what the user picks, and offer to run the profile."""
    from acp_launch.console.ask.terminal import possible

    if as_json or not possible():
        from acp_launch.cli.importing import list_sources

        list_sources(as_json=as_json)
        return
    from acp_launch.cli.drafting import import_by_questions
    from acp_launch.cli.planning import agrees
    from acp_launch.cli.run import Run

    name = import_by_questions()
    if name and agrees(f"Run {name} now?"):
        raise typer.Exit(Run((name,)).carry_out())


def export(
    profile: ProfileName,
    to: Annotated[str, typer.Option("--to", metavar="TOOL", help="zed, vscode, claude, codex, ...")],
    direct: Annotated[
        bool, typer.Option("--direct", help="The agent's own command and the servers, without acp-launch.")
    ] = False,
    write: Annotated[bool, typer.Option("--write", help="Write it to the tool's configuration.")] = False,
    file: Annotated[str | None, typer.Option("--file", metavar="FILE", help="Write it to this file instead.")] = None,
    yes: Yes = False,
    force: Annotated[bool, typer.Option("--force", help="Replace entries of the same name.")] = False,
    trust: Annotated[
        bool, typer.Option("--trust", help="Export a project's profile once without trusting it.")
    ] = False,
) -> None:
    """Print or write what makes another tool use a profile. Never prints a secret's value."""
    from acp_launch.cli.exporting import ExportRequest, export_profile
    from acp_launch.interop.tools import PRINTED, TOOLS

    request = ExportRequest(
        direct=direct, write=write or file is not None, file=file or "", yes=yes, force=force, trust=trust
    )
    export_profile(profile, _tool(to, TOOLS | PRINTED), request)


def _tool(name: str, tools: "Mapping[str, Tool]") -> "Tool":
    if name not in tools:
        raise UsageError(f'unknown tool "{name}"', fix=f"choose one of {', '.join(tools)}")
    return tools[name]
