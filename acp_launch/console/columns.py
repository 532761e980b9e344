"""Rows of text in columns that line up."""

from collections.abc import Iterable, Sequence

from acp_launch.console.sessions import cells, plain

GAP = "  "


def columns(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Yield one line per row. Each column is as wide as its widest text, and control characters are replaced."""
    shown = [[plain(text) for text in row] for row in rows]
    widths = [max(map(cells, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        yield GAP.join(text + " " * (width - cells(text)) for text, width in zip(row, widths, strict=True)).rstrip()
