"""A message of the agent as it grows: what is finished is handed out, what is not is drawn."""

from collections.abc import Callable, Iterable, Sequence

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from acp_launch.console.draw.block import Block
from acp_launch.console.draw.markdown import Growing, Piece

COLOURED = 4  # pieces of one frame
Draw = Callable[[str, bool], RenderableType]  # what is seen of a piece of text, in colours or not


def _markdown(text: str, coloured: bool) -> RenderableType:
    return Block(text, coloured=coloured)


class Talk:
    def __init__(self, draw: Draw = _markdown) -> None:
        self._draw = draw
        self._growing = Growing()
        self._begun = False  # whether a piece of this message was handed out already

    def add(self, text: str) -> None:
        self._growing.add(text)

    def take(self) -> list[RenderableType]:
        """What was finished since the last time, to be printed for good."""
        return list(self._blocks(self._growing.take()))

    def rest(self) -> list[RenderableType]:
        """All that is left of the message; the next text begins another one."""
        left = list(self._blocks(self._growing.rest()))
        self._begun = False
        return left

    def _blocks(self, pieces: Sequence[Piece]) -> Iterable[RenderableType]:
        """Of a flood only the end is drawn in colours: the rest is not seen as it goes by, and they cost the most."""
        for left, piece in zip(range(len(pieces), 0, -1), pieces, strict=True):
            if not piece.text.strip():
                continue
            if self._begun and not piece.goes_on:
                yield Text()
            self._begun = True
            yield self._draw(piece.text, left <= COLOURED)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The unfinished end, as much of it as the screen can hold."""
        tail = self._growing.tail(options.size.width * options.size.height, options.size.height)
        if not tail.strip():
            return
        if self._begun and not self._growing.goes_on:
            yield Text()
        yield self._draw(tail, True)
