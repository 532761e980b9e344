"""The verb `trace`: shows what `--trace` has written. Also that option, for the verbs that typer reads."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from acp_launch.cli.verb import TRACE
from acp_launch.errors import UsageError

if TYPE_CHECKING:
    from acp_launch.console.sequence import Entry, Sequence
    from acp_launch.console.trace import TracePrinter

CHUNK = 256 * 1024  # bytes per read
LONGEST = 16 * 1024 * 1024  # bytes of a line; ours have at most half of that
HOW = "write one: acp-launch run PROFILE PROMPT --trace FILE"

TraceFile = Annotated[Path | None, typer.Option(TRACE.names, metavar=TRACE.metavar, help=TRACE.help)]


def trace(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that --trace has written; - is stdin.")],
    server: Annotated[
        str | None, typer.Option("--server", metavar="NAME", help="Only this MCP server; agent is the agent.")
    ] = None,
    method: Annotated[
        str | None, typer.Option("--method", metavar="METHOD", help="Only this method: 'session/*'.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line on stdout.")] = False,
) -> None:
    """Show a trace as a sequence: who asked what, and how long the answer took."""
    from acp_launch.console.sequence import Sequence
    from acp_launch.console.trace import Filter, TracePrinter

    printer = TracePrinter(Filter(server, method), as_json=as_json)
    sequence = Sequence()
    torn = 0
    with _opened(file) as source:
        lines = _entries(source, file)
        printer.begin(_header(next(lines, None), file))
        for entry in lines:
            torn += entry is None
            for step in sequence.steps(entry) if entry else ():
                printer.step(step)
    printer.flush()
    _show_end(sequence, printer, torn, file)


def _show_end(sequence: "Sequence", printer: "TracePrinter", torn: int, file: Path) -> None:
    from acp_launch.console.stderr import YELLOW, harmless, say

    for step in sequence.unanswered():
        printer.step(step)
    printer.flush()
    if torn:
        what = f"{torn:,} lines" if torn > 1 else "a line"
        say(harmless(f"acp-launch: skipped {what} of {file} that cannot be read", keep=""), style=YELLOW)
    if not sequence.has_ended:
        say("acp-launch: the trace has no end: its run was killed, goes on, or could not write it", style=YELLOW)


def _header(entry: "Entry | None", file: Path) -> "Entry":
    from acp_launch.trace import VERSION

    if entry is None or entry.type != "trace":
        raise UsageError(f"{file} is not a trace", fix=HOW)
    if entry.version > VERSION:
        raise UsageError(f"{file} is a trace of a newer acp-launch", fix="show it with that version")
    return entry


def _opened(file: Path) -> BinaryIO:
    import sys

    if str(file) == "-":
        return sys.stdin.buffer
    try:
        return file.open("rb", buffering=0)
    except OSError as error:
        raise _unreadable(file, error) from None


def _unreadable(file: Path, error: OSError) -> UsageError:
    return UsageError(f"cannot read {file}: {(error.strerror or str(error)).lower()}", fix=HOW)


def _entries(source: BinaryIO, file: Path) -> "Iterator[Entry | None]":
    """Yield the entries of a trace; None for a line that is something else."""
    from acp_launch.console.sequence import entry
    from acp_launch.protocol.jsonrpc import LineFramer, LineTooLong

    framer = LineFramer(limit=LONGEST)
    try:
        while chunk := _chunk(source, file):
            for line in framer.feed(chunk):
                yield entry(line)
        for line in framer.feed(b"\n"):
            if line:
                yield entry(line)
    except LineTooLong:
        raise UsageError(f"{file} is not a trace: it has a line of more than {LONGEST:,} bytes", fix=HOW) from None


def _chunk(source: BinaryIO, file: Path) -> bytes:
    try:
        return getattr(source, "read1", source.read)(CHUNK)
    except OSError as error:
        raise _unreadable(file, error) from None
