"""
The stdout of acp-launch: the answer. Text from agents, servers, files and paths passes through here.

On a terminal, control characters are made visible and no text can look like our line. Where our own lines go to
the same file or pipe, our mark is removed from the text. Anywhere else the text stays unchanged. JSON is the same
everywhere: unprintable characters in it are escapes.
"""

import json
import sys
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence

from acp_launch.console.stderr import harmless, is_marking, say, wants_colours
from acp_launch.problem import MARK, unmarked
from acp_launch.protocol.splice import visible


def put(text: str) -> None:
    """Write to stdout, in UTF-8 whatever the locale is: agents and servers use all languages.

    A terminal shows it before a question or a line on stderr that follows.
    """
    sys.stdout.flush()
    sys.stdout.buffer.write(printable(text).encode(errors="replace"))
    if sys.stdout.isatty():
        sys.stdout.buffer.flush()


def line(text: str) -> None:
    put(f"{text}\n")


def put_json(answer: object) -> None:
    """Write one JSON text on one line, which is the same on a terminal and in a pipe."""
    line(visible(json.dumps(answer)))


def has_colours() -> bool:
    return sys.stdout.isatty() and wants_colours()


def printable(text: str) -> str:
    """Return `text` as it is written to this stdout."""
    if sys.stdout.isatty():
        return harmless(text)
    return unmarked(text) if is_marking() else text


# Rows of text in columns that line up, and the room that a text takes on a terminal.
#
# Texts may come from agents and files, so control and direction characters in them are replaced.


GAP = "  "
MIN_CELLS = 9  # that a column keeps where the terminal is narrow
JOINERS = "\u200c\u200d"  # harmless formatting characters that Persian and emoji need


def columns(
    rows: Sequence[Sequence[str]], *, width: int | None = None, ends: Collection[int] = (), starts: Collection[int] = ()
) -> Iterable[str]:
    """Yield one line per row. Each column is as wide as its widest text, and control characters are replaced.

    Rows wider than `width` cells (None: any width) lose text in the columns `ends`, at the end, and in `starts`, at the
    start; the widest of them first.
    """
    shown = [[plain(text) for text in row] for row in rows]
    widths = [max(map(cells, column)) for column in zip(*shown, strict=True)]
    if width is not None:
        widths = _narrow(widths, width, [*ends, *starts])
    for row in shown:
        pairs = enumerate(zip(row, widths, strict=True))
        fitted = [(fit(text, most, tail=column in starts), most) for column, (text, most) in pairs]
        yield GAP.join(text + " " * (most - cells(text)) for text, most in fitted).rstrip()


def plain(text: str) -> str:
    """Return `text` on one line, safe to print on any terminal."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_printable, text))


def cells(text: str) -> int:
    """Return how many columns of a terminal `text` takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def fit(text: str, width: int, *, tail: bool = False) -> str:
    """Cut `text` to `width` cells, with `…` at the cut; `tail` keeps its end instead of its beginning."""
    if cells(text) <= width:
        return text
    if width < 1:
        return ""
    kept = text[-width:] if tail else text[:width]
    while cells(kept) > width - 1:
        kept = kept[1:] if tail else kept[:-1]
    return f"…{kept}" if tail else f"{kept}…"


def _narrow(widths: list[int], width: int, yielding: Sequence[int]) -> list[int]:
    """Narrow the widest of the columns that may lose text, cell by cell, until the row fits or all have the least."""
    widths = list(widths)
    while yielding and sum(widths) + len(GAP) * (len(widths) - 1) > width:
        widest = max(yielding, key=lambda column: widths[column])
        if widths[widest] <= MIN_CELLS:
            break
        widths[widest] -= 1
    return widths


def _printable(character: str) -> str:
    if character.isspace():
        return " "
    hidden = unicodedata.category(character) in ("Cc", "Cf", "Cs") or character == MARK
    return "\N{REPLACEMENT CHARACTER}" if hidden and character not in JOINERS else character


def labelled(texts: Mapping[str, str]) -> str:
    """Return a line for each text that is not empty, after its label."""
    width = max(map(len, texts)) + 2
    return "\n".join(f"{label + ':':<{width}}{plain(text)}" for label, text in texts.items() if text)


def terminal_width() -> int | None:
    """Return the columns of the terminal on stdout; None if stdout is not a terminal."""
    if not sys.stdout.isatty():
        return None
    from shutil import get_terminal_size  # takes 2 ms

    return get_terminal_size().columns


def answer(data: object, text: str, otherwise: str = "", *, as_json: bool) -> None:
    """Print the answer of a verb: `data` as JSON, or `text`; where there is no text, say `otherwise` on stderr."""
    if as_json:
        put_json(data)
    elif text:
        line(text)
    else:
        say(otherwise)
