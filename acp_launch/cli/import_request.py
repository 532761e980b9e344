"""The requests of `init`, `import` and `export`, as they are typed."""

import shlex
from typing import Annotated, Any, NamedTuple

from acp_launch.cli.edit import server_entry
from acp_launch.cli.verb import Argument, Option, ProfileName, Yes
from acp_launch.errors import UsageError
from acp_launch.profile.scaffold import NewServer

AGENT = "NAME|COMMAND"


def parse_server(written: str) -> "NewServer":
    """Parse a server written as NAME=COMMAND or NAME=URL.

    Raises:
        UsageError: it is written otherwise.
    """
    name, equals, what = written.partition("=")
    if not name or not equals or not what.strip():
        raise UsageError("--server takes NAME=COMMAND or NAME=URL", fix="--server 'files=npx -y PACKAGE DIR'")
    if what.startswith(("https://", "http://")):
        return NewServer(name, server_entry([], what, None, {}, {}))
    try:
        return NewServer(name, server_entry(shlex.split(what), None, None, {}, {}))
    except ValueError:
        raise UsageError(f"--server {name}: a quote is not closed", fix="close it") from None


class InitRequest(NamedTuple):
    """The arguments and options of `init`."""

    name: Annotated[str | None, Argument("[NAME]", "The profile's name.")] = None
    agent: Annotated[str | None, Option("--agent -a", "A known agent, or the command that starts another.", AGENT)] = (
        None
    )
    extends: Annotated[str | None, Option("--extends", "Extend another profile.", "PROFILE")] = None
    servers: Annotated[
        tuple[Any, ...], Option("--server", "An MCP server; repeatable.", "NAME=COMMAND|URL", parse_server)
    ] = ()
    user: Annotated[bool, Option("--user", "Create it in your own configuration, not in the project.")] = False
    force: Annotated[bool, Option("--force", "Replace an existing profile of that name.")] = False
    schema: Annotated[bool, Option("--schema", "Copy the schema for editors into the project, to be committed.")] = (
        False
    )


class ImportRequest(NamedTuple):
    """The arguments and options of `import`."""

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


class ExportRequest(NamedTuple):
    """The arguments and options of `export`."""

    profile: ProfileName
    to: Annotated[str, Option("--to", "zed, vscode, claude, cursor, ...", "TOOL")]
    direct: Annotated[bool, Option("--direct", "The agent's own command and the servers, without acp-launch.")] = False
    write: Annotated[bool, Option("--write", "Write it to the tool's configuration.")] = False
    file: Annotated[str | None, Option("--file", "Write it to this file instead.", "FILE")] = None
    yes: Yes = False
    force: Annotated[bool, Option("--force", "Replace entries of the same name.")] = False
    trust: Annotated[bool, Option("--trust", "Export a project's profile once without trusting it.")] = False

    @property
    def writes(self) -> bool:
        return self.write or self.file is not None
