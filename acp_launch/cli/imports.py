"""
The verbs `init`, `import` and `export`: a profile is created, takes servers of other tools, and is given to them.

They start nothing. `import` stores each credential in the secret store before it writes the profile, and nowhere else.
"""

from typing import TYPE_CHECKING

from acp_launch.app.questions import agrees
from acp_launch.cli.drafting import create, import_by_questions
from acp_launch.cli.exporting import export_profile
from acp_launch.cli.import_request import ExportRequest, ImportRequest, InitRequest
from acp_launch.cli.importing import find_sources, import_source, list_sources
from acp_launch.cli.run import Run
from acp_launch.console.ask.terminal import possible
from acp_launch.errors import UsageError
from acp_launch.interop.tools import EXPORTED, TOOLS
from acp_launch.problem import ours

if TYPE_CHECKING:
    from collections.abc import Mapping

    from acp_launch.interop.tools import Tool


class Init(InitRequest):
    """Create a profile. Asks on a terminal, unless --agent or --extends is given."""

    __slots__ = ()

    def carry_out(self) -> None:
        create(self)


class Import(ImportRequest):
    """Import MCP servers and agents from other tools. Without SOURCE, list those on this machine; a terminal asks."""

    __slots__ = ()

    def carry_out(self) -> int:
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
    if as_json or not possible():
        list_sources(as_json=as_json)
        return 0

    name = import_by_questions()
    return Run((name,)).carry_out() if name and agrees(f"Run {name} now?") else 0


class Export(ExportRequest):
    """Print or write what makes another tool use a profile. Never prints a secret's value."""

    __slots__ = ()

    def carry_out(self) -> None:
        if self.to in TOOLS.keys() - EXPORTED.keys():
            fix = f"start the agent with acp-launch: {ours('run', self.profile)}"
            raise UsageError(f"export --to {self.to} was removed", fix=fix)
        export_profile(self, _tool(self.to, EXPORTED))


def _tool(name: str, tools: "Mapping[str, Tool]") -> "Tool":
    if name not in tools:
        raise UsageError(f'unknown tool "{name}"', fix=f"choose one of {', '.join(tools)}")
    return tools[name]
