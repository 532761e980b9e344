"""
`batch run`: gives the items that are due to an engine, by the schedule, until all are done or a limit is reached.

    an attempt has ended    its item is judged by its records, and starts again if it is due
    a limit is reached      nothing more starts; what runs ends by itself
    Ctrl-C, SIGTERM         nothing more starts; what runs is cancelled; a second one ends everything at once
    `batch cancel`          nothing more starts; each item sees the file itself

What this module knows it has read from the directory, so it can be killed at any moment and resumed.
"""

import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from math import inf
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from msgspec.structs import replace

from acp_launch import shutdown
from acp_launch.app.spec import load_settings
from acp_launch.batch.engine import Engine, EngineGone, read_address
from acp_launch.batch.figures import write_amount
from acp_launch.batch.local import LocalEngine
from acp_launch.batch.model import UNCOUNTED, Item, Limits, Outcome, Standing, Verdict
from acp_launch.batch.progress import Attempt, Ended, Events, Lines, Tally, count_items, show_counts
from acp_launch.batch.schedule import Schedule
from acp_launch.batch.store import BATCH, BatchDirectory, explain_faults, open_batch
from acp_launch.batch.trees import find_trees, remove_left, tell_kept
from acp_launch.batch.trust import is_kept, require_directory
from acp_launch.console import stdout
from acp_launch.console.stderr import DIM, harmless, harmless_line, tell
from acp_launch.errors import UsageError, first
from acp_launch.problem import count, did_you_mean, ours
from acp_launch.waits import seconds, stretch

PASSED, NOT_PASSED, CANCELLED = 0, 9, 130
STRIKES = 3  # starts of an item in a row that change nothing
STRIKE_BACKOFF = 1.0  # seconds between them
CANCEL_TIMEOUT = stretch(60.0)  # for cancelled items to end, which includes their patches
KILL_TIMEOUT = stretch(5.0)  # for items to end at once
MAX_NOTE_BYTES = 2000  # of what `batch item` said


class RunOptions(NamedTuple):
    """The options of `batch run`."""

    file: Path | None = None
    resume: Path | None = None
    out: Path | None = None
    jobs: int | None = None
    engine: str | None = None
    only: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    failures: int | None = None
    cost: tuple[str, ...] = ()
    dry_run: bool = False
    output: Literal["text", "json"] = "text"
    trust: bool = False


@explain_faults()
def run_batch(options: RunOptions) -> int:
    """Run a batch, or go on with one; return the exit code."""
    limits, address = check_options(options), _read_engine(options.engine)
    if options.dry_run:
        for item in _list_due(options, elsewhere=bool(address)):
            stdout.line(item.id)
        return PASSED
    directory = _open_directory(options, elsewhere=bool(address))
    trust = not _require_trust(directory, options)
    directory.batch = replace(directory.batch, limits=_override(directory.batch.limits, limits))
    items = _choose_items(directory, options)
    if options.resume:
        remove_left(directory)
    if options.again:
        _reopen_items(directory, items, options.again)
    directory.uncancel()
    directory.write_results()
    show = make_show(options.output)
    try:
        return asyncio.run(_submit(directory, items, address, show, trust=trust))
    except BaseExceptionGroup as failures:
        raise first(failures) from None
    finally:
        show.close()
        directory.write_results()


async def _submit(
    directory: BatchDirectory, items: Sequence[Item], address: str | None, show: Lines, *, trust: bool
) -> int:
    async with _make_engine(directory, address, trust) as opened:
        submitter = Submitter(directory, items, opened, show)
        take_signals(submitter)
        code = await submitter.run()
    show.close()
    show.end(code, list(submitter.advise()))
    return code


def check_options(options: RunOptions) -> Limits:
    """Check the options of `batch run`; return the limits among them.

    Raises:
        UsageError: they are wrong.
    """
    _check_source(options)
    for name, number in (("--jobs", options.jobs), ("--failures", options.failures)):
        if number is not None and number < 1:
            raise UsageError(f"{name}: expected a number from 1 on, found {number}", fix=f"{name} 1")
    for outcome in options.again:
        if outcome not in (known := get_args(Outcome)):
            fix = f"one of {', '.join(known)}"
            raise UsageError(f'--again: "{outcome}" is not an outcome{did_you_mean(outcome, known)}', fix=fix)
    return Limits(jobs=options.jobs, failures=options.failures, cost=dict(map(_read_cost, options.cost)))


def _check_source(options: RunOptions) -> None:
    if (options.file is None) == (options.resume is None):
        what = "give a batch's file or --resume DIR" + (", not both" if options.file else "")
        raise UsageError(what, fix=f"{ours('batch', 'run', 'FILE')}, or {ours('batch', 'run', '--resume', 'DIR')}")
    if options.file and (options.file / BATCH).is_file():
        fix = ours("batch", "run", "--resume", str(options.file))
        raise UsageError(f"{options.file} is the directory of a batch, not its file", fix=fix)
    if options.again and options.file:
        raise UsageError("--again needs --resume DIR: a new batch has no ended items", fix="leave --again out")
    if options.out and options.resume:
        raise UsageError("--out needs FILE: --resume names the directory", fix="leave --out out")


def _read_cost(text: str) -> tuple[str, float]:
    currency, _, amount = text.partition("=")
    with suppress(ValueError):
        if currency.isalpha() and 0 < (number := float(amount)) < inf:
            return currency, number
    raise UsageError(f'--cost: expected a currency and an amount, found "{text}"', fix="--cost USD=50")


def _override(limits: Limits, given: Limits) -> Limits:
    return replace(
        limits,
        jobs=given.jobs or limits.jobs,
        failures=given.failures or limits.failures,
        cost={**limits.cost, **given.cost},
    )


def _read_engine(engine: str | None) -> str | None:
    """Return what `_make_engine` needs."""
    if engine is None:
        return None
    return read_address(engine, may_be_insecure=load_settings().batch.insecure_scheduler)


def _open_directory(options: RunOptions, *, elsewhere: bool) -> BatchDirectory:
    """Open the directory to go on with, or freeze the file; before a dry run only plan it."""
    if options.resume is not None:
        return open_batch(options.resume)
    from acp_launch.batch.freeze import freeze, plan_batch

    assert options.file is not None
    if options.dry_run:
        return BatchDirectory(Path(), plan_batch(options.file, trust=options.trust, elsewhere=elsewhere))
    return freeze(options.file, options.out, trust=options.trust, only=options.only, elsewhere=elsewhere)


def _require_trust(directory: BatchDirectory, options: RunOptions) -> bool:
    """Refuse a directory that was not made for this user; return whether its items find out that it was.

    On other hosts they may not.

    Raises:
        NotTrusted: as it says.
    """
    settings = load_settings()
    if options.resume is None:
        is_found = is_kept(directory, settings)
    else:
        is_found = require_directory(directory, settings, allow_once=options.trust)
    return is_found and not (options.trust and options.engine)


def _choose_items(directory: BatchDirectory, options: RunOptions) -> list[Item]:
    """Choose the items of `--only`, by default all."""
    return [directory.find_item(id) for id in dict.fromkeys(options.only)] or list(directory.batch.items)


def _list_due(options: RunOptions, *, elsewhere: bool) -> list[Item]:
    directory = _open_directory(options, elsewhere=elsewhere)
    items = _choose_items(directory, options)
    if options.resume is None:
        return items
    again = _find_ended(directory, items, options.again)
    return [item for item in items if item in again or not directory.judge(item.id).is_done]


def _find_ended(directory: BatchDirectory, items: Sequence[Item], outcomes: Sequence[str]) -> list[Item]:
    """Find the done items of these outcomes."""
    found = ((item, directory.judge(item.id)) for item in items if outcomes)
    return [item for item, at in found if at.is_done and at.last and at.last.outcome in outcomes]


def _reopen_items(directory: BatchDirectory, items: Sequence[Item], outcomes: Sequence[str]) -> None:
    """Let done items of these outcomes start again."""
    ended = _find_ended(directory, items, outcomes)
    for item in ended:
        directory.reopen(item.id)
    if not ended:
        tell(f"no done item has the outcome {' or '.join(outcomes)}")


def _make_engine(directory: BatchDirectory, address: str | None, trust: bool) -> AbstractAsyncContextManager[Engine]:
    """Make the engine; `address` is a scheduler's, empty for a cluster of this machine, None without Dask."""
    if address is not None:
        from acp_launch.batch.cluster import DaskEngine

        return DaskEngine(directory, address, directory.batch.limits.jobs or count_processors(), trust=trust)

    return LocalEngine(directory, trust=trust)


def make_show(output: str) -> Lines:
    """Return what shows a batch, by `--output`."""
    if output == "json":
        return Events()
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        return Lines()
    from acp_launch.batch.table import Table

    return Table()


def take_signals(submitter: "Submitter") -> None:
    """Give the signals of this process to a submitter."""
    loop = asyncio.get_running_loop()

    def take(number: int) -> bool:
        if not loop.is_closed():
            loop.call_soon_threadsafe(handle, number)
        return not loop.is_closed()

    def handle(number: int) -> None:
        shutdown.acknowledge()
        submitter.interrupt(number)

    shutdown.set_listener(take)


def draw_jitter() -> float:
    """Return a number from 0 to 1. The module `random` would load OpenSSL."""
    return int.from_bytes(os.urandom(2)) / 0xFFFF


class Submitter:
    """Runs the items of a batch."""

    def __init__(
        self,
        directory: BatchDirectory,
        items: Sequence[Item],
        engine: Engine,
        show: Lines,
        *,
        wall: Callable[[], float] = time.time,
        jitter: Callable[[], float] = draw_jitter,
    ) -> None:
        self._directory, self._engine, self._show, self._wall = directory, engine, show, wall
        batch, self._limits = directory.batch, directory.batch.limits
        jobs = self._limits.jobs or count_processors()
        self._schedule = Schedule(batch.items, self._limits, batch.retry, jobs, jitter)
        self._tally = Tally(directory, len(items), self._schedule)
        self._chosen = {item.id for item in items}
        self._due: dict[str, int] = {}  # the attempt that is due, by item: earlier ones are counted
        self._strikes: Counter[str] = Counter()
        self._failures = 0  # done items of the whole directory that did not pass, and items given up
        self._unannounced: dict[str, Attempt] = {}  # given to the engine, but not seen to have begun
        self._code: int | None = None  # once nothing more starts
        self._reason = ""  # of that
        self._advice: tuple[str, ...] = ()  # options that help

    async def run(self) -> int:
        """Run the items until all are done, or as many as may be; return the exit code."""
        self._loop, self._wake = asyncio.get_running_loop(), asyncio.Event()
        self._show.begin(self._tally)
        for item in self._directory.batch.items:
            self._add(item)
        try:
            async with asyncio.timeout(None) as self._patience, asyncio.TaskGroup() as group:
                self._check_limits()
                watching = group.create_task(self._watch())
                while self._tally.running or not (self._code is not None or self._schedule.is_empty):
                    self._start(group)
                    with suppress(TimeoutError):
                        async with asyncio.timeout_at(None if self._code is not None else self._schedule.next_moment()):
                            await self._wake.wait()
                    self._wake.clear()
                watching.cancel()
        except TimeoutError:
            tell(f"running items did not end within {seconds(CANCEL_TIMEOUT)} of the signal: they are ended now")
        if self._code not in (None, NOT_PASSED):
            return self._code
        return PASSED if self._tally.outcomes["passed"] == self._tally.items else NOT_PASSED

    def interrupt(self, number: int) -> None:
        """Start nothing more, and cancel what runs; at the second signal end it at once. All that is bounded."""
        if self._code in (None, NOT_PASSED):
            self._stop(128 + number, "cancelled")
            self._engine.cancel()
        else:
            self._patience.reschedule(self._loop.time() + KILL_TIMEOUT)
            self._engine.end_now()

    def advise(self) -> Iterator[str]:
        """Yield what to do next."""
        place, due = str(self._directory.path), self._tally.due
        yield f"report: {ours('batch', 'report', place)}"
        failed = [outcome for outcome, _ in self._tally.outcomes.most_common() if outcome != "passed"]
        resume = ("batch", "run", "--resume", place)
        if due:
            reason = self._reason or f"{count(due, 'item')} without a record"
            yield f"{reason}; go on: {ours(*resume, *self._advice)}"
        elif failed:
            yield f"start those again: {ours(*resume, '--again', failed[0])}"
        yield from tell_kept(self._directory)

    # The items.

    def _add(self, item: Item) -> None:
        """Add an item that is due. What earlier attempts of all items cost and how they ended counts too."""
        standing, _ = self._judge(item)
        if item.id not in self._chosen or standing.is_done:
            return
        last = standing.last
        if last and last.outcome == "rate_limited" and (last.resets or 0) > self._wall():
            self._pause(item, self._loop.time(), last)
        self._schedule.add(item)

    def _judge(self, item: Item) -> tuple[Standing, list[Verdict]]:
        """Judge an item, and count its records; return those that are new too."""
        verdicts = self._directory.verdicts(item.id)
        standing = self._directory.judge(item.id, verdicts)
        fresh = [each for each in verdicts if each.attempt >= self._due.get(item.id, 0)]
        for verdict in fresh:
            if verdict.outcome not in UNCOUNTED:
                self._tally.lengths.append(verdict.seconds)
            if verdict.cost:
                self._tally.spent[verdict.cost.currency] += verdict.cost.amount
        self._due[item.id] = standing.attempt
        if standing.last and standing.is_done:
            self._failures += standing.last.outcome != "passed"
            if item.id in self._chosen:
                self._tally.outcomes[standing.last.outcome] += 1
        return standing, fresh

    def _start(self, group: asyncio.TaskGroup) -> None:
        while self._code is None and (item := self._schedule.take(self._loop.time())):
            number = self._due[item.id]
            before = self._directory.read_started(item.id, number)
            attempt = Attempt(item, number, self._loop.time(), before)
            self._tally.running[item.id] = self._unannounced[item.id] = attempt
            group.create_task(self._carry_out(attempt), name=item.id)

    async def _carry_out(self, attempt: Attempt) -> None:
        item = attempt.item
        try:
            code = await self._engine.submit(item.id, attempt.number, self._schedule.lane_of(item).account)
        except EngineGone as gone:
            self._stop(NOT_PASSED, str(gone))
            code = None
        finally:
            self._schedule.end(item)
            del self._tally.running[item.id]
        self._announce(attempt)
        self._unannounced.pop(item.id, None)
        if code is not None:
            self._settle(attempt, code)
        self._check_limits()
        self._wake.set()

    def _settle(self, attempt: Attempt, code: int) -> None:
        """Decide how an item goes on after an attempt."""
        standing, fresh = self._judge(attempt.item)
        verdict = fresh[-1] if fresh else None
        again = pause = None
        if verdict:
            pause = self._mind_rate_limit(attempt, verdict)
            if verdict.outcome == "cancelled" and self._directory.is_cancelled():
                self._stop(CANCELLED, "cancelled")
        if self._code is None and not standing.is_done:
            again = self._add_again(attempt, verdict, standing, pause)
        self._show.end_attempt(Ended(attempt, verdict, code, again, "" if verdict else self._read_note(attempt)))

    def _mind_rate_limit(self, attempt: Attempt, verdict: Verdict) -> float | None:
        """Pause the account of an item that met a rate limit; return for how many seconds."""
        if verdict.outcome != "rate_limited":
            self._schedule.forget_pauses(attempt.item)
            return None
        return self._pause(attempt.item, attempt.begun, verdict)

    def _pause(self, item: Item, begun: float, verdict: Verdict) -> float:
        """Pause the account of an item until its rate limit ends, if the agent said when; return for how long."""
        left = (verdict.resets or 0) - self._wall()
        pause = self._schedule.pause(item, begun, self._loop.time(), left if left > 0 else None)
        self._show.pause(self._schedule.lane_of(item), pause, "rate limit")
        return pause

    def _add_again(
        self, attempt: Attempt, verdict: Verdict | None, standing: Standing, pause: float | None
    ) -> float | None:
        """Let an item that is due start again; return after how many seconds, None if it does not."""
        item, now = attempt.item, self._loop.time()
        if verdict is not None and verdict.outcome != "cancelled":
            del self._strikes[item.id]
            if pause is None:
                return self._schedule.add_again(item, now, standing.tries)
            self._schedule.add(item, now)
            return pause
        self._strikes[item.id] += 1  # no record, or cancelled by another
        if self._strikes[item.id] >= STRIKES:
            self._tally.abandoned += 1
            self._failures += 1
            return None
        self._schedule.add(item, now + STRIKE_BACKOFF)
        return STRIKE_BACKOFF

    def _read_note(self, attempt: Attempt) -> str:
        """Return the end of what `batch item` said."""
        try:
            with self._directory.open(self._directory.log_of(attempt.item.id, attempt.number)) as log:
                return log.read()[-MAX_NOTE_BYTES:].decode(errors="replace").strip()
        except OSError:
            return ""

    # Ends, and looks until then.

    def _check_limits(self) -> None:
        """Start nothing more once a limit is reached."""
        limits, spent = self._limits, self._tally.spent
        if self._code is not None:
            return
        if limits.failures and self._failures >= limits.failures:
            reason = f"stopped at the limit of {count(limits.failures, 'failure')} ({self._failures} did not pass)"
            self._show.reach({"limit": "failures", "failures": self._failures, "most": limits.failures})
            self._stop(NOT_PASSED, reason, ("--failures", "N"))
        for currency, most in limits.cost.items():
            if spent[currency] >= most:
                known = write_amount(spent[currency], currency)
                self._show.reach({"limit": "cost", "currency": currency, "spent": spent[currency], "most": most})
                reason = f"stopped at the cost limit of {write_amount(most, currency)} (known cost: {known})"
                self._stop(NOT_PASSED, reason, ("--cost", f"{currency}=AMOUNT"))

    def _stop(self, code: int, reason: str, advice: tuple[str, ...] = ()) -> None:
        """Start nothing more. An interruption counts more than a limit."""
        if self._code in (None, NOT_PASSED):
            self._code, self._reason, self._advice = code, reason, advice
            if code != NOT_PASSED:
                self._patience.reschedule(self._loop.time() + CANCEL_TIMEOUT)
        self._wake.set()

    async def _watch(self) -> None:
        """Look again and again at what others write to the directory."""
        while True:
            if self._directory.is_cancelled():
                self._stop(CANCELLED, "cancelled")
            for attempt in list(self._unannounced.values()):
                self._announce(attempt)
            self._show.look(self._loop.time())
            await asyncio.sleep(self._show.every)

    def _announce(self, attempt: Attempt) -> None:
        """Show that an attempt has begun, once `batch item` says so."""
        if attempt.item.id not in self._unannounced:
            return
        started = self._directory.read_started(attempt.item.id, attempt.number)
        if started and started != attempt.before:
            del self._unannounced[attempt.item.id]
            self._show.begin_attempt(attempt, started)


def count_processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# `batch status` and `batch cancel`.


class RunningItem(NamedTuple):
    item: str
    attempt: int
    pid: int | None
    host: str
    since: str

    def __str__(self) -> str:
        who = f"pid {self.pid} on {self.host} since {self.since}" if self.pid else "about to begin"
        return f"{self.item}: attempt {self.attempt}, {who}"


@explain_faults()
def show_status(path: Path, *, as_json: bool) -> int:
    """Show how far a batch is, and make `results.jsonl` again."""
    directory = open_batch(path)
    with suppress(OSError):  # one that cannot be written has a status, too
        directory.write_results()
    running, outcomes = list[RunningItem](), Counter[str]()
    lost = 0  # attempts that ended without a record
    for item in directory.batch.items:
        standing = directory.judge(item.id)
        if standing.is_done and standing.last:
            outcomes[standing.last.outcome] += 1
        elif found := _find_running(directory, item, standing):
            running.append(found)
        else:
            lost += directory.directory_of(item.id, standing.attempt).exists()
        lost += len(list(directory.directory_of(item.id).glob("*.lost-*")))
    name, items = directory.batch.name, len(directory.batch.items)
    due = items - outcomes.total()
    told = {"directory": str(directory.path), "name": name, "items": items, "counts": dict(outcomes.most_common())}
    told |= {"due": due, "lost": lost, "cancelled": directory.is_cancelled()}
    told["running"] = [each._asdict() for each in running]
    told["trees"] = [
        {"item": each.item.id, "path": str(each.path), "state": each.state} for each in find_trees(directory)
    ]
    losses = [f"{count(lost, 'attempt')} ended without a record"] if lost else []
    lines = [f"{name}: {show_counts(count_items(outcomes, due))}", *losses, *map(str, running), *tell_kept(directory)]
    if as_json:
        stdout.put_json(told)
    else:
        stdout.line(harmless("\n".join(lines)))
    if due and not running and not as_json:
        tell(f"go on: {ours('batch', 'run', '--resume', str(path))}", style=DIM)
    return 0


@explain_faults()
def cancel_batch(path: Path) -> int:
    """Cancel what runs of a batch; submitters and items see the file soon."""
    directory = open_batch(path)
    directory.cancel()
    found = (_find_running(directory, item, directory.judge(item.id)) for item in directory.batch.items)
    running = [each for each in found if each]
    for each in running:
        stdout.line(harmless_line(str(each)))
    if running:
        tell(f"{count(len(running), 'item')} will end soon; go on later: {ours('batch', 'run', '--resume', str(path))}")
    else:
        tell("nothing runs")
    return 0


def _find_running(directory: BatchDirectory, item: Item, standing: Standing) -> RunningItem | None:
    if standing.is_done or not directory.is_running(item.id):
        return None
    began = directory.read_started(item.id, standing.attempt)  # None if its process has just taken the lock
    known = (began.pid, began.host, began.started) if began else (None, "", "")
    return RunningItem(item.id, standing.attempt, *known)
