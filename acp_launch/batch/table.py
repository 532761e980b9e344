"""The live table of a running batch on a terminal: what runs, the accounts, and a progress bar."""

import os
from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec
from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.text import Text

from acp_launch.batch.figures import MAX_REASON_CHARS
from acp_launch.batch.progress import Attempt, Ended, Lines
from acp_launch.batch.schedule import Schedule
from acp_launch.batch.store import EVENTS
from acp_launch.console import stdout
from acp_launch.console.draw.live_region import Region
from acp_launch.console.stderr import harmless_line
from acp_launch.problem import count
from acp_launch.waits import seconds

TAIL_BYTES = 16384  # of `events.ndjson` in which the last tool call is looked for
LANES = 3  # lines about accounts
FIXED = 3  # rows below the running items: the counts, the bar, and the cursor's


class Table(Lines):
    """A table of what runs and a progress bar, drawn below the lines of what did not pass."""

    every = 0.5

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._region = Region(self._console)
        self._is_drawn = False
        self._calls: dict[str, tuple[int, str]] = {}  # by item: the size of its events, and the last tool call

    def end_attempt(self, ended: Ended) -> None:
        self._calls.pop(ended.attempt.item.id, None)
        if ended.verdict is None or ended.verdict.outcome != "passed":
            super().end_attempt(ended)

    def look(self, now: float) -> None:
        self._is_drawn = True
        self._region.show(Group(*self._draw(now)))

    def close(self) -> None:
        self._region.close()
        self._is_drawn = False

    def _put(self, text: str) -> None:
        if not self._is_drawn:  # the terminal wraps it: a command can be copied
            super()._put(text)
            return
        self._region.print(Text(harmless_line(text)))

    def _draw(self, now: float) -> "Iterator[RenderableType]":
        tally, width, height = self._tally, self._console.width, self._console.height
        lanes = list(describe_lanes(tally.schedule, now))[: max(0, min(LANES, height - FIXED - 1))]
        room = max(0, height - FIXED - len(lanes))
        running = list(tally.running.values())
        shown = running if len(running) <= room else running[: max(0, room - 1)]
        most = max(8, width * 5 // 8)  # cells of an id: the seconds and the last tool call shall be seen too
        parts = [
            (stdout.fit(each.item.id, most, tail=True), seconds(round(now - each.begun)), self._find_call(each))
            for each in shown
        ]
        texts = ["  " + "  ".join(each) for each in parts]
        if len(running) > len(shown):
            texts.append(f"  … {count(len(running) - len(shown), 'more item')}")
        for text in (*texts, *lanes, tally.describe()):
            yield Text(stdout.fit(harmless_line(text.rstrip()), width), no_wrap=True)
        yield ProgressBar(max(1, tally.items), tally.items - tally.due + tally.abandoned, width=min(width, 60))

    def _find_call(self, attempt: Attempt) -> str:
        """Return the title of the last tool call of a running attempt."""
        id = attempt.item.id
        size, title = self._calls.get(id, (0, ""))
        directory = self._tally.directory
        try:
            with directory.open(directory.directory_of(id, attempt.number) / EVENTS) as file:
                now = os.fstat(file.fileno()).st_size
                if now != size:
                    title = find_tool_call(file) or title
                    self._calls[id] = (now, title)
        except OSError:
            return ""
        return title


def find_tool_call(events: BinaryIO) -> str:
    """Return the title of the last tool call near the end of a run's events; empty if there is none."""
    events.seek(max(0, os.fstat(events.fileno()).st_size - TAIL_BYTES))
    for line in reversed(events.read(TAIL_BYTES).splitlines()):
        if b'"tool_call' in line and (title := _read_title(line)):
            return title[:MAX_REASON_CHARS]
    return ""


def _read_title(line: bytes) -> str:
    try:
        event: Any = msgspec.json.decode(line)
        update = event["update"]
        title = update["title"] if update["sessionUpdate"] in ("tool_call", "tool_call_update") else ""
    except (msgspec.MsgspecError, ValueError, LookupError, TypeError, RecursionError):  # cut, or of another shape
        return ""
    return " ".join(title.split()) if isinstance(title, str) else ""


def describe_lanes(schedule: Schedule, now: float) -> Iterator[str]:
    """Yield a line for each account, or profile without one, that has items waiting for it."""
    for lane in schedule.lanes:
        if not lane.ready or (schedule.running >= schedule.jobs and lane.paused_until <= now):
            continue
        what = f"  {lane.name}: {count(len(lane.ready), 'item')} waiting"
        if lane.paused_until > now:
            yield f"{what}, paused for {seconds(round(lane.paused_until - now))}"
        elif lane.running >= lane.jobs:
            yield f"{what}, {lane.running} running"
