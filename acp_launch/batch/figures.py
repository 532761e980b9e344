"""What the records of a batch say together: of an item, and of a profile with its matrix values. For all reports."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from math import comb
from statistics import median
from typing import NamedTuple

from acp_launch.batch.model import Batch, Item, Outcome, Record
from acp_launch.batch.store import BatchDirectory
from acp_launch.waits import seconds

UNKNOWN = "unknown"
NO_RECORD = "not run"
LONGEST = 300  # characters of a reason


class Spent(NamedTuple):
    """What attempts cost. `unknown` counts those whose agent told nothing of it, so that the rest is a lower bound."""

    costs: Mapping[str, float] = {}  # by currency
    unknown: int = 0
    tokens: int = 0
    untold: int = 0  # attempts of unknown tokens
    seconds: float = 0.0

    def write_cost(self) -> str:
        """Write the cost: `0.5 USD`, `0.5 USD + 2 unknown`, `unknown`."""
        known = [f"{amount:,.4g} {currency}" for currency, amount in sorted(self.costs.items())]
        return " + ".join([*known, *([f"{self.unknown} {UNKNOWN}"] if self.unknown else [])]) if known else UNKNOWN

    def write_tokens(self) -> str:
        if not self.tokens:
            return UNKNOWN
        return f"{self.tokens:,}" + (f" + {self.untold} {UNKNOWN}" if self.untold else "")


class Result(NamedTuple):
    """An item, and what its records say of it; without their texts, because there may be thousands."""

    item: Item
    outcomes: tuple[Outcome, ...] = ()  # of its attempts
    attempt: int = 0  # the last one, 0 if there was none
    reason: str = ""  # why it did not pass, in a line
    seconds: float = 0.0  # of the last attempt
    spent: Spent = Spent()

    @property
    def outcome(self) -> str:
        return self.outcomes[-1].replace("_", " ") if self.outcomes else NO_RECORD

    @property
    def is_passed(self) -> bool:
        return self.outcomes[-1:] == ("passed",)

    @property
    def is_counted(self) -> bool:
        """Whether it counts for a pass rate: one that was cancelled says nothing of its profile."""
        return bool(self.outcomes) and self.outcomes[-1] != "cancelled"


class Column(NamedTuple):
    """The items of a profile with one row of the matrix."""

    name: str
    results: Sequence[Result]

    @property
    def counted(self) -> list[Result]:
        return [each for each in self.results if each.is_counted]

    @property
    def passed(self) -> int:
        return sum(each.is_passed for each in self.results)

    @property
    def rate(self) -> float | None:
        return self.passed / len(self.counted) if self.counted else None

    @property
    def spent(self) -> Spent:
        return add_up(each.spent for each in self.results)

    @property
    def seconds(self) -> float | None:
        """Return the median of the items' last attempts."""
        return median(each.seconds for each in self.counted) if self.counted else None

    def pass_at(self, samples: int) -> float | None:
        """Estimate without bias how often one of so many samples of a task passes; tasks with fewer do not count."""
        by_task: dict[str, list[bool]] = {}
        for each in self.counted:
            by_task.setdefault(each.item.task, []).append(each.is_passed)
        rates = [
            1 - comb(len(found) - sum(found), samples) / comb(len(found), samples)
            for found in by_task.values()
            if len(found) >= samples
        ]
        return sum(rates) / len(rates) if rates else None

    def cells(self, samples: int) -> list[str]:
        """Write the figures that go with the headings of a `Summary`."""
        taken = UNKNOWN if self.seconds is None else seconds(self.seconds)
        rates = [write_rate(self.rate), *([write_rate(self.pass_at(samples))] if samples > 1 else [])]
        return [
            f"{self.passed} of {len(self.counted)}",
            *rates,
            self.spent.write_cost(),
            self.spent.write_tokens(),
            taken,
        ]


class Summary(NamedTuple):
    batch: Batch
    results: Sequence[Result]  # in the order of the batch
    columns: Sequence[Column]

    @property
    def samples(self) -> int:
        return max((item.sample for item in self.batch.items), default=1)

    @property
    def headings(self) -> list[str]:
        more = [f"pass@{self.samples}"] if self.samples > 1 else []
        return ["profile", "passed", "pass rate", *more, "cost", "tokens", "time"]

    @property
    def counts(self) -> str:
        """Say how the items ended: `30 of 36 items passed · 4 failed · 2 not run`."""
        found = Counter(each.outcome for each in self.results)
        passed = f"{found.pop('passed', 0):,} of {len(self.results):,} items passed"
        return " · ".join([passed, *(f"{number:,} {outcome}" for outcome, number in found.most_common())])

    @property
    def failed(self) -> list[Result]:
        return [each for each in self.results if each.outcomes and not each.is_passed]

    @property
    def slowest(self) -> list[Result]:
        return sorted((each for each in self.results if each.outcomes), key=lambda each: -each.seconds)[:10]

    @property
    def retried(self) -> list[Result]:
        return [each for each in self.results if len(each.outcomes) > 1]


def summarize(directory: BatchDirectory) -> Summary:
    """Read all records, one at a time, and keep what a report needs of them."""
    found = {id: _digest(records) for id, records in groupby(directory.records(), lambda record: record.item)}
    results = [Result(item, *found.get(item.id, ())) for item in directory.batch.items]
    columns: dict[str, list[Result]] = {}
    for each in results:
        columns.setdefault(name_column(each.item), []).append(each)
    return Summary(directory.batch, results, [Column(*each) for each in columns.items()])


def name_column(item: Item) -> str:
    return " ".join([item.profile, *item.matrix.values()])


def write_way(result: Result) -> str:
    """Write the outcomes of an item's attempts: `agent died, passed`."""
    return ", ".join(result.outcomes).replace("_", " ")


def write_rate(rate: float | None) -> str:
    """Write a rate in percent; only what is whole is 100%."""
    return UNKNOWN if rate is None else f"{int(rate * 100 + 1e-9)}%"


def add_up(parts: Iterable[Spent]) -> Spent:
    costs: Counter[str] = Counter()
    unknown = tokens = untold = 0
    taken = 0.0
    for each in parts:
        costs.update(each.costs)
        unknown, tokens, untold = unknown + each.unknown, tokens + each.tokens, untold + each.untold
        taken += each.seconds
    return Spent(dict(costs), unknown, tokens, untold, taken)


def explain(record: Record) -> str:
    """Say in one line why an attempt did not pass."""
    if record.check and record.outcome == "failed":
        ended = "passed its time limit" if record.check.exit_code is None else f"ended with {record.check.exit_code}"
        return f"{' '.join(record.check.command)} {ended}"
    if record.error:
        return next(iter(record.error.message.splitlines()), "")
    if record.outcome == "denied":
        return f"denied: {record.denied}"
    if record.outcome in ("refused", "limited"):
        return f"the agent stopped: {record.stop_reason}"
    return "the answer is empty" if record.outcome == "empty" else ""


def _digest(records: Iterable[Record]) -> tuple[tuple[Outcome, ...], int, str, float, Spent]:
    """Return the members of a `Result`; of each record little is kept."""
    outcomes, spent = list[Outcome](), list[Spent]()
    for record in records:
        outcomes.append(record.outcome)
        spent.append(_count_spent(record))
    return tuple(outcomes), record.attempt, explain(record)[:LONGEST], record.seconds, add_up(spent)


def _count_spent(record: Record) -> Spent:
    usage = record.usage or {}
    tokens = usage.get("totalTokens") or usage.get("inputTokens", 0) + usage.get("outputTokens", 0)
    was_asked = record.outcome != "setup_failed"  # else nothing was spent
    costs = {record.cost.currency: record.cost.amount} if record.cost else {}
    return Spent(costs, was_asked and not costs, tokens, was_asked and not tokens, record.seconds)
