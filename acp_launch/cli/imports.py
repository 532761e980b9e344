"""
The verbs `init`, `import` and `export`: a profile is created, takes servers of other tools, and is given to them.

They start nothing. `import` stores each credential in the secret store before it writes the profile, and nowhere else.
"""

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from acp_launch.cli.verb import Argument, Option, ProfileName, Yes
from acp_launch.errors import UsageError
from acp_launch.problem import ours

if TYPE_CHECKING:
    from collections.abc import Mapping

    from acp_launch.interop.tools import Tool

AGENT = "NAME|COMMAND"


def read_server(written: str) -> object:
    """Parse a server written as NAME=COMMAND or NAME=URL."""
    from acp_launch.cli.drafting import parse_server

    return parse_server(written)


class Init(NamedTuple):
    """Create a profile. Asks on a terminal, unless --agent or --extends is given."""

    name: Annotated[str | None, Argument("[NAME]", "The profile's name.")] = None
    agent: Annotated[str | None, Option("--agent -a", "A known agent, or the command that starts another.", AGENT)] = (
        None
    )
    extends: Annotated[str | None, Option("--extends", "Extend another profile instead.", "PROFILE")] = None
    servers: Annotated[
        tuple[Any, ...], Option("--server", "An MCP server; repeatable.", "NAME=COMMAND|URL", read_server)
    ] = ()
    user: Annotated[bool, Option("--user", "Create it in your own configuration, not in the project.")] = False
    force: Annotated[bool, Option("--force", "Replace an existing profile of that name.")] = False
    schema: Annotated[bool, Option("--schema", "Copy the schema for editors into the project, to be committed.")] = (
        False
    )

    def carry_out(self) -> None:
        from acp_launch.cli.drafting import create

        create(self)


class Import(NamedTuple):
    """Import MCP servers and agents from other tools. Without SOURCE, list those on this machine; a terminal asks."""

    source: Annotated[str | None, Argument("[SOURCE]", "A tool's name, or a file's path.")] = None
    into: Annotated[str | None, Option("--into", "The profile to import into.", "PROFILE")] = None
    only: Annotated[tuple[str, ...], Option("--only", "Import only this server or agent; repeatable.", "NAME")] = ()
    called: Annotated[str | None, Option("--as", "The name for the imported server.", "NAME")] = None
    origin: Annotated[str | None, Option("--from", "The tool of the file, if its name does not tell.", "TOOL")] = None
    agent: Annotated[str | None, Option("--agent -a", "The agent of a new profile, as for init.", AGENT)] = None
    dry_run: Annotated[bool, Option("--dry-run", "Show what would change without changing it.")] = False
    yes: Yes = False
    force: Annotated[bool, Option("--force", "Replace servers of the same name.")] = False
    as_json: Annotated[bool, Option("--json", "Print the list as JSON.")] = False

    def carry_out(self) -> int:
        from acp_launch.cli.importing import find_sources, import_source
        from acp_launch.interop.tools import TOOLS

        source, into, origin = self.source, self.into, self.origin
        if source is None:
            if into is not None:
                raise UsageError("no source is given", fix="acp-launch import lists the sources on this machine")
            return _from_the_list(as_json=self.as_json)
        tool = _tool(origin, TOOLS) if origin else None
        if into is None:
            find_sources(source, tool)  # a mistake in the source is reported first, as no profile would mend it
            whose = ("--from", origin) if origin else ()
            fix = ours("import", source, *whose, "--into", "PROFILE")
            raise UsageError("no profile is given to import into", fix=fix)
        import_source(source, into, tool, self)
        return 0


def _from_the_list(*, as_json: bool) -> int:
    """List the sources; on a terminal import what the user picks, and offer to run the profile."""
    from acp_launch.console.ask.terminal import possible

    if as_json or not possible():
        from acp_launch.cli.importing import list_sources

        list_sources(as_json=as_json)
        return 0
    from acp_launch.cli.drafting import import_by_questions
    from acp_launch.cli.planning import agrees
    from acp_launch.cli.run import Run

    name = import_by_questions()
    return Run((name,)).carry_out() if name and agrees(f"Run {name} now?") else 0


class Export(NamedTuple):
    """Print or write what makes another tool use a profile. Never prints a secret's value."""

    profile: ProfileName
    to: Annotated[str, Option("--to", "zed, vscode, claude, codex, ...", "TOOL")]
    direct: Annotated[bool, Option("--direct", "The agent's own command and the servers, without acp-launch.")] = False
    write: Annotated[bool, Option("--write", "Write it to the tool's configuration.")] = False
    file: Annotated[str | None, Option("--file", "Write it to this file instead.", "FILE")] = None
    yes: Yes = False
    force: Annotated[bool, Option("--force", "Replace entries of the same name.")] = False
    trust: Annotated[bool, Option("--trust", "Export a project's profile once without trusting it.")] = False

    @property
    def writes(self) -> bool:
        return self.write or self.file is not None

    def carry_out(self) -> None:
        from acp_launch.cli.exporting import export_profile
        from acp_launch.interop.tools import PRINTED, TOOLS

        export_profile(self, _tool(self.to, TOOLS | PRINTED))


def _tool(name: str, tools: "Mapping[str, Tool]") -> "Tool":
    if name not in tools:
        raise UsageError(f'unknown tool "{name}"', fix=f"choose one of {', '.join(tools)}")
    return tools[name]
