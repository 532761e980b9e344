"""Where a session is drawn: what is finished scrolls away, what is not is drawn again below it."""

from typing import Protocol

from rich.console import RenderableType


class Canvas(Protocol):
    """`console.draw.region` on a bare terminal; the screen of an interactive session."""

    @property
    def width(self) -> int:
        """Columns, now."""

    def print(self, what: RenderableType) -> None:
        """For good, above what is drawn."""

    def show(self, what: RenderableType) -> None:
        """What stands below it from now on; drawn with the next frame, at most twelve a second."""

    def erase(self) -> bool:
        """Take it off the screen until the next frame. Whether it was there."""

    def close(self) -> None:
        """Give the terminal back; `show` takes it again."""
