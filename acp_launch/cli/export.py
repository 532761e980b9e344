"""
The verb `export`: prints what makes another tool use a profile, or writes it to the tool's file.

A tool that starts agents gets one that acp-launch runs: the whole profile, with its servers and secrets. Other tools,
and any with `--direct`, get the profile's own servers and agent.
"""

import os
import sys
from pathlib import Path
from typing import Annotated, NamedTuple

from acp_launch.app.planning import loaded_profile, require_trust
from acp_launch.app.questions import require_agreement
from acp_launch.cli.importing import read_drafts, require_tool
from acp_launch.cli.verb import Option, ProfileName, Yes
from acp_launch.console import stdout
from acp_launch.console.interop import join_names, note, show_change, warn
from acp_launch.errors import UsageError
from acp_launch.interop import write
from acp_launch.interop.formats import Misfit
from acp_launch.interop.merge import refuse_escaping_link, replace_file
from acp_launch.interop.read import entries
from acp_launch.interop.tools import (
    EXPORTED,
    PRINTED,
    SERVE,
    TOOLS,
    Source,
    Tool,
    at_home,
    own_place,
    places,
    read,
    this_machine,
)
from acp_launch.interop.write import ExportContext, Exported, export_entries, export_whole
from acp_launch.problem import ours
from acp_launch.profile.discover import Found, here
from acp_launch.profile.load import Loaded, shown
from acp_launch.profile.trust import trust_state
from acp_launch.secret.redact import redactor
from acp_launch.settings import load


class Export(NamedTuple):
    """Print or write what makes another tool use a profile. Never prints a secret's value."""

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

    def carry_out(self) -> None:
        if self.to in TOOLS.keys() - EXPORTED.keys():
            fix = f"start the agent with acp-launch: {ours('run', self.profile)}"
            raise UsageError(f"export --to {self.to} was removed", fix=fix)
        export_profile(self, require_tool(self.to, EXPORTED))


def export_profile(request: Export, tool: Tool) -> None:
    """Export a profile to `tool`.

    Raises:
        LaunchError: there is no such profile, or the tool's file cannot be changed.
        NotTrusted: the profile belongs to a project and is not trusted, so the tool must not run it either.
    """
    chosen = load.load()
    loaded = loaded_profile(request.profile, chosen)
    file = _file(loaded, tool, request)
    if request.writes:
        require_trust(loaded, chosen, allow_once=request.trust)
    is_whole = bool(tool.agents) and not request.direct
    name, project = loaded.found.name, loaded.found.project
    context = ExportContext(str(project), str(Path.home()), name, sys.executable, _is_shared(file, tool, project))
    if is_whole:
        found = export_whole(name, tool, [*_launcher(), SERVE, _name_in(loaded.found, file)])
    else:
        found = export_entries(loaded.profile, tool, context)
    for remark in found.notes:
        warn(remark)
    if not (found.servers or found.agents):
        raise UsageError(f"nothing of {name} can be exported to {tool.title}", fix="the warnings above say why")
    if file is not None and request.writes:
        _warn_of_paths(found, context, file)
        _write(loaded, tool, found, request, file)
    else:
        stdout.put(write.standalone_text(found, tool))
    _tell_of_secrets(tool, found)
    if is_whole:
        note(f"{tool.title} starts acp-launch, which runs {name}: its servers and secrets stay in the profile")
        if not trust_state(loaded, chosen).is_trusted:
            warn(f"{tool.title} cannot ask whether you trust it: {ours('trust', loaded.found.called)}")
        note("an editor that the desktop starts lacks the variables of your shell: acp-launch help serve")


def _file(loaded: Loaded, tool: Tool, request: Export) -> Path | None:
    """Return the file that the export is for; None for a tool without one.

    Raises:
        UsageError: it was to be written all the same.
    """
    if tool.name in PRINTED:
        if request.writes:
            what = f"there is no file of {tool.title} that acp-launch can change"
            raise UsageError(what, fix=f"print it: {ours('export', loaded.found.called, '--to', tool.name)}")
        return None
    return here() / at_home(request.file) if request.file else own_place(tool, this_machine(), loaded.found.project)


def _is_shared(file: Path | None, tool: Tool, project: Path) -> bool:
    """Whether the entries go into a file of the project, and not into one of the user's own."""
    own = places(tool, this_machine(), project)[len(tool.project) :]
    return file is not None and file.is_relative_to(project) and file not in own


def _name_in(found: Found, file: Path | None) -> str:
    """Return how an entry in `file` names a profile: a project's by its absolute path, as editors start anywhere."""
    is_inside = file is not None and file.is_relative_to(found.project)
    return (
        found.name
        if found.origin in ("user", "built-in") or (found.origin == "project" and is_inside)
        else str(found.file)
    )


def _launcher() -> tuple[str, ...]:
    """Return the command of this program by absolute paths, as an editor's PATH may lack it."""
    started = here() / sys.argv[0]
    if started.stem == "acp-launch" and os.access(started, os.X_OK):
        return (os.path.normpath(started),)
    return (sys.executable, "-P", "-m", "acp_launch")  # -P: nothing in the editor's directory replaces a module


def _write(loaded: Loaded, tool: Tool, found: Exported, request: Export, file: Path) -> None:
    refuse_escaping_link(file)
    source = read(file, tool) if os.path.lexists(file) else None
    if source is not None:  # the change is shown, and secrets in the file must not be
        redactor.register(*(token.secret for token in read_drafts([source]).tokens if token.secret is not None))
        _warn_of_doubles(loaded, found, source)
    old = source.text if source else None
    everything = write.compare(found, tool, source.root if source else {})
    for piece in everything:
        if piece.difference == "other" and not request.force:
            warn(f"{piece.holder}.{piece.name} already exists and differs; --force replaces it")
    wanted = [one for one in everything if one.difference == "new" or (one.difference == "other" and request.force)]
    if not wanted and any(piece.difference == "other" for piece in everything):
        raise UsageError(f"nothing was written to {shown(file)}", fix="--force replaces the existing entries")
    if not wanted:
        note(f"{shown(file)} already has all of it; nothing was changed")
        return
    try:
        new = write.insert_entries(old, tool, wanted, found.inputs)
    except Misfit as misfit:
        fix = f"add it by hand: {ours('export', loaded.found.called, '--to', tool.name)} prints it"
        raise UsageError(f"{shown(file)} cannot be changed alone: expected {misfit}", fix=fix) from None
    show_change(file, old, new)
    if not request.yes:
        require_agreement("Change it?", "nothing was written", "--yes writes it")
    replace_file(file, new, instead_of=old)
    note(f"{shown(file)}: {join_names(piece.name for piece in wanted)} written")


def _warn_of_paths(found: Exported, context: ExportContext, file: Path) -> None:
    """Name what holds a path of this machine in a file that others use, too."""
    own = (context.project, context.home, context.python, _launcher()[0])
    if context.is_shared and (values := write.holding_paths(found, own)):
        warn(f"{shown(file)} belongs to the project, and gets paths of this machine: {join_names(values)}")


def _warn_of_doubles(loaded: Loaded, found: Exported, source: Source) -> None:
    """Warn of servers that the agent would have twice, as after an earlier export."""
    present = entries(source.tool, source.root, str(loaded.found.project))
    own = () if found.servers else loaded.profile.mcp_servers
    twice = [one.name for one in present if one.kind == "server" and one.name in own and not one.disabled]
    if twice:
        warn(f"{source.tool.title} has {join_names(twice)} besides, and gives it to all agents; remove it there")


def _tell_of_secrets(tool: Tool, found: Exported) -> None:
    """Tell from where the tool takes each secret, as it does not ask acp-launch."""
    for variable, secret in found.variables.items():
        note(f'{tool.title} reads secret "{secret}" from the environment variable {variable}')
    for input, secret in found.inputs.items():
        note(f'VS Code asks for {input} (secret "{secret}") and stores it')
