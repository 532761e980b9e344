"""The verb `export`: prints a profile's servers and agent for another tool, or writes them to the tool's file."""

import os
import sys
from pathlib import Path

from msgspec import Struct

from acp_launch.cli.planning import here, loaded_profile, require, resolved_from
from acp_launch.console import stdout
from acp_launch.console.ask.terminal import agreed, possible
from acp_launch.console.interop import listed, note, show_change, warn
from acp_launch.errors import UsageError
from acp_launch.interop import files, write
from acp_launch.interop.drafts import collect_drafts
from acp_launch.interop.formats import Misfit
from acp_launch.interop.merge import refuse_escaping_link
from acp_launch.interop.tools import Host, Tool, at_home, own_place, read
from acp_launch.interop.write import ExportContext, Exported, exported
from acp_launch.problem import ours
from acp_launch.profile.load import Loaded, shown
from acp_launch.secret.redact import redactor
from acp_launch.settings import load


class ExportRequest(Struct, frozen=True):
    """The options of `export`; `file` is empty for the tool's own file."""

    write: bool
    file: str
    yes: bool
    force: bool
    trust: bool


def export_profile(name: str, tool: Tool, request: ExportRequest) -> None:
    """Export the profile `name` to `tool`.

    Raises:
        LaunchError: there is no such profile, or the tool's file cannot be changed.
        NotTrusted: the profile belongs to a project and is not trusted, so the tool must not run it either.
    """
    chosen = load.load()
    loaded = loaded_profile(name, chosen)
    if request.write:
        require(loaded, resolved_from(loaded, cwd=None).found, chosen, is_waved=request.trust)
    found = exported(loaded.profile, tool, _surroundings(loaded))
    for remark in found.notes:
        warn(remark)
    if not (found.servers or found.agents):
        raise UsageError(
            f"nothing of {loaded.found.name} can be exported to {tool.title}", fix="the warnings above say why"
        )
    if request.write:
        _write(loaded, tool, found, request)
    else:
        stdout.put(write.standalone_text(found, tool))
    _tell_of_secrets(tool, found)


def _write(loaded: Loaded, tool: Tool, found: Exported, request: ExportRequest) -> None:
    project = loaded.found.project
    machine = Host(Path.home(), os.environ, sys.platform)
    file = here() / at_home(request.file) if request.file else own_place(tool, machine, project)
    refuse_escaping_link(file, project)
    source = read(file, tool) if file.exists() or file.is_symlink() else None
    if source is not None:  # the change is shown, and secrets in the file must not be
        tokens = collect_drafts([(tool, source.root)], str(project)).tokens
        redactor.register(*(token.secret for token in tokens if token.secret is not None))
    everything = write.pieces(found, tool, source.root if source else {})
    for piece in everything:
        if piece.difference == "other" and not request.force:
            warn(f"{piece.holder}.{piece.name} already exists and differs; --force replaces it")
    wanted = tuple(
        one for one in everything if one.difference == "new" or (one.difference == "other" and request.force)
    )
    if not wanted:
        _nothing_new(file, everything)
        return
    try:
        new = write.insert_entries(source.text if source else None, tool, wanted, found.inputs)
    except Misfit as misfit:
        fix = f"add it by hand: {ours('export', loaded.found.called, '--to', tool.name)} prints it"
        raise UsageError(f"{shown(file)} cannot be changed alone: expected {misfit}", fix=fix) from None
    show_change(file, source.text if source else None, new)
    _agree(request)
    files.put(file, new, instead_of=source.text if source else None)
    note(f"{shown(file)}: {listed(piece.name for piece in wanted)} written")


def _nothing_new(file: Path, everything: tuple[write.ExportEntry, ...]) -> None:
    """Report that nothing was written.

    Raises:
        UsageError: existing entries differ.
    """
    if any(piece.difference == "other" for piece in everything):
        raise UsageError(f"nothing was written to {shown(file)}", fix="--force replaces the existing entries")
    note(f"{shown(file)} already has all of it; nothing was changed")


def _agree(request: ExportRequest) -> None:
    """Ask for agreement, unless --yes is given.

    Raises:
        UsageError: the user declines, or there is no terminal to ask on.
    """
    if request.yes:
        return
    if not possible():
        raise UsageError("there is no terminal to ask on; nothing was written", fix="--yes writes it")
    if not agreed("Change it?"):
        raise UsageError("nothing was written")


def _surroundings(loaded: Loaded) -> ExportContext:
    return ExportContext(str(loaded.found.project), str(Path.home()), loaded.found.name, sys.executable)


def _tell_of_secrets(tool: Tool, found: Exported) -> None:
    """Tell from where the tool takes each secret, as it does not ask acp-launch."""
    if tool.name == "goose":
        for variable, secret in found.variables.items():
            note(f'goose asks for {variable} (secret "{secret}") and stores it')
        return
    for variable, secret in found.variables.items():
        note(f'{tool.title} reads secret "{secret}" from the environment variable {variable}')
    for input, secret in found.inputs.items():
        note(f'VS Code asks for {input} (secret "{secret}") and stores it')
