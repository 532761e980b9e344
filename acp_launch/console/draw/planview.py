"""The agent's plan as a checklist: where it stands is in sight, however long it is."""

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from acp_launch.console.draw.outside import cut, one_line
from acp_launch.session.options.told import Step

BOXES = {"completed": "[x]", "in_progress": "[>]", "pending": "[ ]"}
STYLES = {"completed": "dim", "in_progress": "bold"}
DRAWN = 10  # entries
LONG = 300  # characters of one


class Checklist:
    def __init__(self, steps: Sequence[Step], *, drawn: int = DRAWN) -> None:
        self._steps, self._drawn = steps, drawn

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        first = self._first()
        if first:
            yield Text(f"… {first} more", "dim")
        for step in self._steps[first : first + self._drawn]:
            yield Text(
                f"{BOXES.get(step.status, '[?]')} {one_line(cut(step.content, LONG))}", STYLES.get(step.status, "")
            )
        if left := max(0, len(self._steps) - first - self._drawn):
            yield Text(f"… {left} more", "dim")

    def _first(self) -> int:
        """The entry to begin with: the one before what is done now, no further than the end needs."""
        now = next((at for at, step in enumerate(self._steps) if step.status != "completed"), len(self._steps))
        return max(0, min(now - 1, len(self._steps) - self._drawn))
