"""What a running batch shows: a line for each ended attempt, and a table on a terminal."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pyte
import pytest
from rich.console import Console

from acp_launch.batch.model import CheckResult, ErrorFacts, Limits, Outcome, Patch
from acp_launch.batch.progress import Attempt, Ended, Lines, Tally
from acp_launch.batch.schedule import Schedule
from acp_launch.batch.table import Table, describe_lanes, find_tool_call
from acp_launch.console.draw.live_region import Region
from tests.batch.made import RETRY, account, make_directory, record


def make_tally(place: Path, *ids: str, limits: Limits | None = None, jobs: int = 4) -> Tally:
    directory = make_directory(place, ids, limits)
    batch = directory.batch
    schedule = Schedule(batch.items, batch.limits, RETRY, jobs, lambda: 0.0)
    for item in batch.items:
        schedule.add(item)
    return Tally(directory, len(ids), schedule)


def start(tally: Tally, now: float) -> None:
    while item := tally.schedule.take(now):
        tally.running[item.id] = Attempt(item, 1, now, None)


def finish(tally: Tally, id: str, outcome: Outcome, again_in: float | None = None, **more: Any) -> Ended:
    record(tally.directory, id, 1, outcome, **more)
    attempt = Attempt(tally.directory.find_item(id), 1, 0, None)
    return Ended(attempt, tally.directory.verdicts(id)[-1], 9, again_in)


def write_events(tally: Tally, id: str, *updates: Any) -> Path:
    file = tally.directory.directory_of(id, 1) / "events.ndjson"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps({"type": "update", "update": each}) + "\n" for each in updates))
    return file


def call(title: object) -> dict[str, object]:
    return {"sessionUpdate": "tool_call", "title": title}


# A line for each ended attempt.


def test_each_ended_attempt_has_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tally = make_tally(tmp_path, "a", "b", "c", "d")
    lines = Lines()
    lines.begin(tally)
    patch = Patch(files=1, insertions=1, deletions=0, sha256="0" * 64, secrets=("tracker",))
    lines.end_attempt(finish(tally, "a", "passed", seconds=12.3, patch=patch))
    failure = ErrorFacts(exit_code=4, message="the agent\ndied\x1b[2J")
    lines.end_attempt(finish(tally, "b", "agent_died", 30.0, error=failure))
    made = CheckResult(command=("make", "test"), exit_code=2, seconds=1)
    lines.end_attempt(finish(tally, "c", "failed", check=made))
    lines.end_attempt(Ended(Attempt(tally.directory.find_item("d"), 1, 0, None), None, 3, 1.0, "the disk\nis full"))
    lines.end_attempt(Ended(Attempt(tally.directory.find_item("d"), 1, 0, None), None, 130, None))
    lines.pause(tally.schedule.lane_of(tally.directory.find_item("a")), 600, "rate limit")
    tally.outcomes.update({"passed": 2, "failed": 1})
    lines.end(9, ["last"])
    assert capsys.readouterr().out.splitlines() == [
        str(tmp_path),
        "a: passed in 12.3 s; patch.diff holds the secret tracker, unmasked",
        "b: agent_died in 1 s: the agent; again in 30 s",
        "c: failed in 1 s: make test ended with 2",
        "d: no record, `batch item` exited with 3: the disk is full; again in 1 s",
        "d: cancelled before its run began",
        "profile demo pauses for 10 min: rate limit",
        "2 passed, 1 failed, 1 due",
        "last",
    ]


def test_a_hostile_message_cannot_drive_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tally = make_tally(tmp_path, "a")
    lines = Lines()
    lines.begin(tally)
    lines.end_attempt(finish(tally, "a", "agent_died", error=ErrorFacts(exit_code=4, message="x\x1b]0;evil\x07\u202e")))
    assert capsys.readouterr().out.splitlines()[1] == "a: agent_died in 1 s: x\\x1b]0;evil\\x07\\u202e"


# The table.


class Screen:
    """A terminal of this size, and a table on it."""

    def __init__(self, tally: Tally, columns: int = 80, rows: int = 24) -> None:
        self.file = StringIO()
        self.table = Table()
        self.console = Console(
            file=self.file, force_terminal=True, width=columns, height=rows, highlight=False, legacy_windows=False
        )
        self.table._console = self.console
        self.table._region = Region(self.console)
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.Stream(self.screen)
        self.table.begin(tally)

    def resize(self, columns: int, rows: int) -> None:
        self.console.size = (columns, rows)
        self.screen.resize(rows, columns)

    def shown(self) -> list[str]:
        self.stream.feed(self.file.getvalue().replace("\n", "\r\n"))
        self.file.truncate(0)
        self.file.seek(0)
        return [row.rstrip() for row in self.screen.display if row.strip()]


def test_the_table_has_what_runs_and_a_bar(tmp_path: Path) -> None:
    tally = make_tally(tmp_path, "a", "b", "c", jobs=2)
    tally.outcomes["passed"] = 1
    tally.spent["USD"] = 1.234
    tally.lengths.append(60)
    start(tally, 100)
    write_events(tally, "a", call("read the notes"), {"sessionUpdate": "tool_call_update", "status": "completed"})
    screen = Screen(tally)
    screen.table.look(112)
    rows = screen.shown()
    assert rows[:3] == [
        "  a  12 s  read the notes",
        "  b  12 s",
        "1 of 3 items done · 2 running · 1 passed · 1.234 USD · about 60 s left",
    ]
    assert set(rows[3]) <= set("━╸╺")
    screen.table.look(113)
    assert screen.shown()[0] == "  a  13 s  read the notes", "drawn in the same place"
    screen.table.close()
    assert screen.shown() == []
    assert not screen.screen.cursor.hidden


def test_a_long_id_leaves_room_for_the_seconds_and_the_last_call(tmp_path: Path) -> None:
    tally = make_tally(tmp_path, long := "task-" * 30 + "1.demo")
    start(tally, 100)
    write_events(tally, long, call("read the notes"))
    screen = Screen(tally)
    screen.table.look(112)
    assert screen.shown()[0].endswith("task-task-1.demo  12 s  read the notes")


def test_what_did_not_pass_is_printed_above_the_table(tmp_path: Path) -> None:
    tally = make_tally(tmp_path, "a", "b", "c")
    screen = Screen(tally)
    start(tally, 0)
    screen.table.look(1)
    screen.table.end_attempt(finish(tally, "a", "passed"))
    screen.table.end_attempt(finish(tally, "b", "empty"))
    screen.table.look(2)
    assert screen.shown()[0] == "b: empty in 1 s: the answer is empty"


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 10, 24])
def test_five_hundred_running_items_fit_the_screen(tmp_path: Path, rows: int) -> None:
    tally = make_tally(tmp_path, *(f"t{number}" for number in range(500)), jobs=500)
    start(tally, 0)
    screen = Screen(tally, 60, rows)
    for now in range(1, 4):
        screen.table.look(now)
    shown = screen.shown()
    assert len(shown) <= max(1, rows - 1)
    if rows >= 5:
        assert shown[rows - 4] == f"  … {500 - rows + 4} more items"
    screen.table.close()
    assert screen.shown() == []


def test_a_terminal_that_changes_its_size_keeps_one_table(tmp_path: Path) -> None:
    tally = make_tally(tmp_path, "a", "b", jobs=1)
    start(tally, 0)
    write_events(tally, "a", call("w" * 200))
    screen = Screen(tally)
    for columns, rows in ((80, 24), (20, 6), (9, 4), (120, 30)):
        screen.resize(columns, rows)
        screen.table.look(columns)
        shown = screen.shown()
        assert sum("1 running" in row or "0 of 2" in row for row in shown) == 1
        assert all(len(row) <= columns for row in shown)


def test_a_hostile_title_stays_on_its_line(tmp_path: Path) -> None:
    tally = make_tally(tmp_path, "a")
    start(tally, 0)
    write_events(tally, "a", call("\x1b[2J[bold]x[/]\r\nsecond\u202e"))
    screen = Screen(tally)
    screen.table.look(1)
    assert screen.shown()[0] == "  a  1 s  \\x1b[2J[bold]x[/] second\\u202e"


# What it is made of.


def test_the_last_tool_call_is_found_at_the_end_of_long_events(tmp_path: Path) -> None:
    tally = make_tally(tmp_path, "a")
    other = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": '"tool_call'}}
    file = write_events(tally, "a", *[other] * 2000, call("first"), call("last\nline"), other)
    with file.open("a") as half:
        half.write('{"type":"update","update":{"sessionUpdate":"tool_call","tit')
    with file.open("rb") as events:
        assert find_tool_call(events) == "last line"


@pytest.mark.parametrize("update", [call(None), call(3), call([]), [], "tool_call", {"tool_call": {}}])
def test_events_of_another_shape_have_no_tool_call(tmp_path: Path, update: Any) -> None:
    with write_events(make_tally(tmp_path, "a"), "a", update).open("rb") as events:
        assert find_tool_call(events) == ""


def test_accounts_that_items_wait_for_are_named(tmp_path: Path) -> None:
    limits = Limits(accounts={"one": account("x", jobs=1)})
    tally = make_tally(tmp_path, "1.x", "2.x", "3.x", "4.y", limits=limits)
    start(tally, 0)
    assert list(describe_lanes(tally.schedule, 0)) == ["  one: 2 items waiting, 1 running"]
    tally.schedule.pause(tally.directory.find_item("1.x"), 0, 0, 300)
    assert list(describe_lanes(tally.schedule, 0)) == ["  one: 2 items waiting, paused for 5 min"]


def test_unknown_costs_and_lengths_are_left_out(tmp_path: Path) -> None:
    tally = make_tally(tmp_path, "a", "b")
    assert tally.describe() == "0 of 2 items done · 0 running"
    tally.spent["EUR"] = 2
    tally.abandoned = 1
    assert tally.describe() == "0 of 2 items done · 0 running · 1 without a record · 2 EUR"
