"""
A piece of Markdown from an agent, on a terminal.

Nothing in it is hidden or acts: HTML and images are shown as they are written, a link shows where it leads, no
hyperlink escape is written, and an entity that names a control character is as visible as the character would be.
"""

from collections.abc import Iterable

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text

from acp_launch.console.draw.outside import inline, prose
from acp_launch.console.draw.typeset import Typesetter
from acp_launch.console.stderr import is_harmless

PARSER = MarkdownIt().enable(["strikethrough", "table"]).disable(["html_block", "html_inline", "image"])
NESTED = 16  # blocks within blocks; the parser gives up a few levels deeper, and drops what it has not read
NEWLINE = Segment.line()


class Block:
    def __init__(self, text: str, *, coloured: bool = True) -> None:
        """`text` is as the agent sent it; `coloured` is whether code is."""
        self._text, self._coloured = text, coloured

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = prose(self._text)
        tokens = PARSER.parse(text)
        if any(token.level > NESTED for token in tokens):
            yield Text(text)
            return
        _make_harmless(tokens)
        for line in Typesetter(console, coloured=self._coloured).lines(tokens, options.max_width):
            yield from line
            yield NEWLINE


def _make_harmless(tokens: Iterable[Token]) -> None:
    """Once more: an entity stands for any character."""
    for token in tokens:
        if not is_harmless(token.content):
            token.content = prose(token.content)
        if "href" in token.attrs:
            token.attrs["href"] = inline(str(token.attrs["href"]))
        if token.children:
            _make_harmless(token.children)
