"""The verb `trace`: shows what `--trace` has written. Also that option, for the verbs that typer reads."""

from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from acp_launch.cli.verb import TRACE
from acp_launch.errors import UsageError

LONGEST = 16 * 1024 * 1024  # bytes of a line; ours have at most half of that
HOW = "write one: acp-launch run PROFILE PROMPT --trace FILE"

TraceFile = Annotated[Path | None, typer.Option(TRACE.names, metavar=TRACE.metavar, help=TRACE.help)]


def trace(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that --trace has written; - is stdin.")],
) -> None:
    """Show a trace as a sequence: who asked what, and how long the answer took."""
    import sys

    try:
        source = sys.stdin.buffer if str(file) == "-" else file.open("rb")
    except OSError as error:
        raise UsageError(f"cannot read {file}: {str(error.strerror).lower()}", fix=HOW) from None
    with source:
        _show(source, file)


def _show(source: BinaryIO, file: Path) -> None:
    from acp_launch.console.stderr import DIM, YELLOW, harmless, say
    from acp_launch.console.trace import TraceView, read
    from acp_launch.trace import VERSION

    header = read(source.readline(LONGEST))
    if header is None or header.type != "trace":
        raise UsageError(f"{file} is not a trace", fix=HOW)
    if header.version > VERSION:
        raise UsageError(f"{file} is a trace of a newer acp-launch", fix="show it with that version")
    said = f"{header.verb} of {header.profile}" if header.profile else header.verb
    say(harmless(f"acp-launch: {said}, {header.time}", keep=""), style=DIM)
    view, torn = TraceView(), 0
    while line := source.readline(LONGEST):
        if entry := read(line):
            view.add(entry)
        else:
            torn += 1
    view.finish()
    if torn:
        what = f"{torn:,} lines" if torn > 1 else "a line"
        say(harmless(f"acp-launch: skipped {what} of {file} that cannot be read", keep=""), style=YELLOW)
    if not view.has_ended:
        say("acp-launch: the trace has no end: its run was killed, goes on, or could not write it", style=YELLOW)
