"""
The display of a running batch: a live table on a terminal, a line for each ended attempt in a pipe, or events.

What runs is read from the directory (`started.json`, the end of `events.ndjson`), so every engine looks the same.
"""

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from acp_launch.batch.figures import MAX_REASON_CHARS, explain, write_amount
from acp_launch.batch.model import Item, Started, Verdict
from acp_launch.batch.schedule import Lane, Schedule
from acp_launch.batch.store import RESULT, BatchDirectory
from acp_launch.console import stdout
from acp_launch.console.stderr import harmless_line
from acp_launch.problem import count
from acp_launch.protocol.splice import visible
from acp_launch.waits import format_time, seconds

if TYPE_CHECKING:
    pass

CANCELLED = (129, 130, 143)  # exit codes of `batch item`


class Attempt(NamedTuple):
    """An attempt that was given to the engine. `before` is what `started.json` of that number said until then."""

    item: Item
    number: int
    begun: float
    before: Started | None


class Ended(NamedTuple):
    """How an attempt has ended; `verdict` is None without a record, and then `note` says what `batch item` said."""

    attempt: Attempt
    verdict: Verdict | None
    exit_code: int
    again_in: float | None  # seconds; None if it does not start again
    note: str = ""


class Tally:
    """The state of a running batch; `items` is how many were chosen."""

    def __init__(self, directory: BatchDirectory, items: int, schedule: Schedule) -> None:
        self.directory, self.items, self.schedule = directory, items, schedule
        self.outcomes: Counter[str] = Counter()  # of done items
        self.abandoned = 0  # items that have no record after several starts
        self.running: dict[str, Attempt] = {}
        self.spent: defaultdict[str, float] = defaultdict(float)  # known cost by currency, of all records
        self.lengths: list[float] = []  # seconds of attempts that have ended

    @property
    def due(self) -> int:
        return self.items - self.outcomes.total()

    def counts(self) -> dict[str, int]:
        """Return how many items have each outcome, and how many are due."""
        return count_items(self.outcomes, self.due)

    def describe(self) -> str:
        """Describe all items in one line, with an estimate of the time left from the attempts so far."""
        parts = [f"{self.outcomes.total()} of {count(self.items, 'item')} done", f"{len(self.running)} running"]
        parts += [f"{number} {outcome}" for outcome, number in self.outcomes.most_common()]
        if self.abandoned:
            parts.append(f"{self.abandoned} without a record")
        parts += [write_amount(amount, currency) for currency, amount in sorted(self.spent.items())]
        if self.lengths and self.due:
            rounds = ceil((self.due - self.abandoned) / self.schedule.most)
            parts.append(f"about {seconds(round(rounds * sum(self.lengths) / len(self.lengths)))} left")
        return " · ".join(parts)


class Lines:
    """Writes a line for each ended attempt. `every` is how often `look` is called, in seconds."""

    every = 1.0

    def begin(self, tally: Tally) -> None:
        self._tally = tally
        self._put(str(tally.directory.path))

    def begin_attempt(self, attempt: Attempt, started: Started) -> None: ...

    def end_attempt(self, ended: Ended) -> None:
        id, verdict = ended.attempt.item.id, ended.verdict
        again = f"; again in {seconds(ended.again_in)}" if ended.again_in is not None else ""
        if verdict is None:
            what, why = f"no record, `batch item` exited with {ended.exit_code}", ended.note
            if ended.exit_code in CANCELLED:
                what, why = "cancelled before its run began", ""
        else:
            what, why = f"{verdict.outcome} in {seconds(verdict.seconds)}", ""
            if verdict.outcome not in ("passed", "cancelled"):
                why = explain(self._tally.directory.read_record(id, verdict.attempt))
            if verdict.patch and verdict.patch.warning:
                again += f"; {verdict.patch.warning}"
        why = stdout.fit(" ".join(why.split()), MAX_REASON_CHARS)
        self._put(f"{id}: {what}{why and f': {why}'}{again}")

    def pause(self, lane: Lane, length: float, reason: str) -> None:
        what = "account" if lane.account else "profile"
        self._put(f"{what} {lane.name} pauses for {seconds(length)}: {reason}")

    def reach(self, limit: Mapping[str, object]) -> None: ...

    def look(self, now: float) -> None: ...

    def close(self) -> None: ...

    def end(self, exit_code: int, advice: Sequence[str]) -> None:
        for line in (show_counts(self._tally.counts()), *advice):
            self._put(line)

    def _put(self, text: str) -> None:
        stdout.line(harmless_line(text))
        sys.stdout.flush()


class Events(Lines):
    """Writes events (`--output json`)."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock

    def begin(self, tally: Tally) -> None:
        self._tally = tally
        self._emit("batch", directory=str(tally.directory.path), name=tally.directory.batch.name, items=tally.items)

    def begin_attempt(self, attempt: Attempt, started: Started) -> None:
        self._emit("started", item=attempt.item.id, attempt=attempt.number, pid=started.pid, host=started.host)

    def end_attempt(self, ended: Ended) -> None:
        id = ended.attempt.item.id
        if ended.verdict is None:
            told = {"exit_code": ended.exit_code, "message": ended.note}
            self._emit("ended", item=id, attempt=ended.attempt.number, outcome=None, **told)
        else:
            directory = self._tally.directory
            with directory.open(directory.directory_of(id, ended.verdict.attempt) / RESULT) as file:
                self._emit("ended", **msgspec.json.decode(file.read()))

    def pause(self, lane: Lane, length: float, reason: str) -> None:
        self._emit("paused", account=lane.name, seconds=round(length, 3), reason=reason)

    def reach(self, limit: Mapping[str, object]) -> None:
        self._emit("budget", **limit)

    def end(self, exit_code: int, advice: Sequence[str]) -> None:
        self._emit("end", counts=self._tally.counts(), exitCode=exit_code)

    def _emit(self, type: str, **members: object) -> None:
        event = {"type": type, "time": format_time(self._clock()), **members}
        stdout.line(visible(msgspec.json.encode(event).decode()))
        sys.stdout.flush()


def count_items(outcomes: Counter[str], due: int) -> dict[str, int]:
    """Return how many items have each outcome, the most frequent first, and how many are due."""
    return {**dict(outcomes.most_common()), **({"due": due} if due else {})}


def show_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {outcome}" for outcome, number in counts.items()) or "no items"
