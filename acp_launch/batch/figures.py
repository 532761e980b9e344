"""What the records of a batch say together: of an item, and of a profile with its matrix values. For all reports."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import comb
from statistics import median
from typing import NamedTuple

from acp_launch.batch.model import Batch, Item, Outcome, Record
from acp_launch.batch.store import BatchDirectory
from acp_launch.waits import seconds

UNKNOWN = "unknown"
NO_RECORD = "not run"
MAX_REASON_CHARS = 300


class Spent(NamedTuple):
    """What attempts took. `unpriced` and `uncounted` are those whose agent told no cost and no tokens."""

    costs: Mapping[str, float] = {}  # by currency
    unpriced: int = 0
    tokens: int = 0
    uncounted: int = 0
    seconds: float = 0.0

    def write_cost(self) -> str:
        known = [write_amount(amount, currency) for currency, amount in sorted(self.costs.items())]
        return _write_sum(known, self.unpriced)

    def write_tokens(self) -> str:
        return _write_sum([f"{self.tokens:,}"] if self.tokens else [], self.uncounted)


class ItemResult(NamedTuple):
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
    def way(self) -> str:
        """Write the outcomes of its attempts: `agent died, passed`."""
        return ", ".join(self.outcomes).replace("_", " ")

    @property
    def is_passed(self) -> bool:
        return self.outcomes[-1:] == ("passed",)

    @property
    def is_counted(self) -> bool:
        """Whether it counts for a pass rate: one that was cancelled says nothing of its profile."""
        return bool(self.outcomes) and self.outcomes[-1] != "cancelled"


class Figure(NamedTuple):
    """One figure of a profile. Its `number`, if known, can be compared with others; `whole` is its largest."""

    heading: str
    text: str
    number: float | None = None
    whole: float | None = None


class Column:
    """The items of a profile with one row of the matrix."""

    def __init__(self, name: str, results: Sequence[ItemResult]) -> None:
        self.name, self.results = name, results
        self.counted = [each for each in results if each.is_counted]
        self.passed = sum(each.is_passed for each in results)
        self.rate = self.passed / len(self.counted) if self.counted else None
        self.spent = add_up([each.spent for each in results])

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

    def figures(self, samples: int, currency: str) -> list[Figure]:
        """List the figures of all reports; costs in another currency cannot be compared."""
        rates = {"pass rate": self.rate, **({f"pass@{samples}": self.pass_at(samples)} if samples > 1 else {})}
        taken = median(each.seconds for each in self.counted) if self.counted else None
        return [
            Figure("passed", f"{self.passed} of {len(self.counted)}"),
            *(Figure(heading, write_rate(rate), rate, 1.0) for heading, rate in rates.items()),
            Figure("cost", self.spent.write_cost(), self.spent.costs.get(currency)),
            Figure("tokens", self.spent.write_tokens(), self.spent.tokens or None),
            Figure("time", UNKNOWN if taken is None else seconds(taken), taken),
        ]


class Table(NamedTuple):
    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


class Summary:
    def __init__(self, batch: Batch, results: Sequence[ItemResult]) -> None:
        """`results` are in the order of the batch."""
        self.batch, self.results = batch, results
        by_name: dict[str, list[ItemResult]] = {}
        for each in results:
            by_name.setdefault(name_column(each.item), []).append(each)
        self.columns = [Column(*each) for each in by_name.items()]
        currencies = {currency for each in self.columns for currency in each.spent.costs}
        self.currency = currencies.pop() if len(currencies) == 1 else ""  # the only one in which costs are known
        samples = max((item.sample for item in batch.items), default=1)
        self.figures = [each.figures(samples, self.currency) for each in self.columns]

    @property
    def counts(self) -> str:
        """Say how the items ended: `30 of 36 items passed · 4 failed · 2 not run`."""
        found = Counter(each.outcome for each in self.results)
        passed = f"{found.pop('passed', 0):,} of {len(self.results):,} items passed"
        return " · ".join([passed, *(f"{number:,} {outcome}" for outcome, number in found.most_common())])

    @cached_property
    def tables(self) -> list[Table]:
        """List what every report has as a table: the figures of profiles, and items that stand out."""
        rows = [
            [column.name, *(each.text for each in figures)]
            for column, figures in zip(self.columns, self.figures, strict=True)
        ]
        headings = ["profile", *(each.heading for each in self.figures[0])]
        run = [each for each in self.results if each.outcomes]
        failed = [(each.item.id, each.outcome, each.reason) for each in run if not each.is_passed]
        retried = [(each.item.id, each.way) for each in run if len(each.outcomes) > 1]
        slowest = [(each.item.id, seconds(each.seconds)) for each in sorted(run, key=lambda each: -each.seconds)[:10]]
        return [
            Table("Profiles", headings, rows),
            Table("Did not pass", ("item", "outcome", "reason"), failed),
            Table("Retried", ("item", "attempts"), retried),
            Table("Slowest", ("item", "time"), slowest),
        ]


def summarize(directory: BatchDirectory) -> Summary:
    """Read the records, item by item, and keep what a report needs of them."""
    return Summary(directory.batch, [_make_result(directory, item) for item in directory.batch.items])


def _make_result(directory: BatchDirectory, item: Item) -> ItemResult:
    records = [directory.read_record(item.id, attempt) for attempt in directory.attempts(item.id)]
    if not records:
        return ItemResult(item)
    outcomes, spent = tuple(each.outcome for each in records), add_up([_count_spent(each) for each in records])
    last = records[-1]
    return ItemResult(item, outcomes, last.attempt, explain(last)[:MAX_REASON_CHARS], last.seconds, spent)


def name_column(item: Item) -> str:
    return " ".join([item.profile, *item.matrix.values()])


def write_amount(amount: float, currency: str) -> str:
    return f"{amount:,.4g} {currency}"


def write_rate(rate: float | None) -> str:
    """Write a rate in percent; only a whole one is 100%."""
    return UNKNOWN if rate is None else f"{int(rate * 100 + 1e-9)}%"


def _write_sum(known: Sequence[str], unknown: int) -> str:
    """Write a sum, which is a lower bound if parts are unknown: `0.5 USD`, `0.5 USD + 2 unknown`, `unknown`."""
    return " + ".join([*known, *([f"{unknown} {UNKNOWN}"] if unknown else [])]) if known else UNKNOWN


def add_up(parts: Sequence[Spent]) -> Spent:
    currencies = {currency for each in parts for currency in each.costs}
    return Spent(
        {currency: sum(each.costs.get(currency, 0.0) for each in parts) for currency in currencies},
        sum(each.unpriced for each in parts),
        sum(each.tokens for each in parts),
        sum(each.uncounted for each in parts),
        sum(each.seconds for each in parts),
    )


def explain(record: Record) -> str:
    """Say in one line why an attempt did not pass, and why it has no patch."""
    why, lack = _explain(record), record.patch_error
    return f"{why}; no patch: {lack}" if lack and lack != why else why


def _explain(record: Record) -> str:
    if record.check and record.outcome == "failed":
        ended = "passed its time limit" if record.check.exit_code is None else f"ended with {record.check.exit_code}"
        return f"{' '.join(record.check.command)} {ended}"
    if record.error:
        return next(iter(record.error.message.splitlines()), "")
    if record.outcome == "denied":
        return f"denied: {record.denied}"
    if record.outcome in ("refused", "limited"):
        return f"the agent stopped: {record.stop_reason}"
    unsaid = {"empty": "the answer is empty", "unknown": "the agent does not say whether its turn failed: add a check"}
    return unsaid.get(record.outcome, "")


def _count_spent(record: Record) -> Spent:
    usage = record.usage or {}
    tokens = usage.get("totalTokens") or usage.get("inputTokens", 0) + usage.get("outputTokens", 0)
    was_asked = record.outcome != "setup_failed"  # else nothing was spent
    costs = {record.cost.currency: record.cost.amount} if record.cost else {}
    return Spent(costs, was_asked and not costs, tokens, was_asked and not tokens, record.seconds)
