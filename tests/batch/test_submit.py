"""`batch run`: the items of a batch by a fake engine and a clock that jumps; its limits, ends and records."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from acp_launch.batch import submit
from acp_launch.batch.engine import EngineGone
from acp_launch.batch.model import Cost, Limits, Outcome, Retry
from acp_launch.batch.progress import Events
from acp_launch.batch.store import BatchDirectory
from acp_launch.batch.submit import RunOptions, Submitter, cancel_batch, check_options, run_batch, show_status
from acp_launch.errors import UsageError
from tests.batch.made import RETRY, account, begin_without_end, make_directory, record

NOW = 1_000_000.0  # Unix seconds
Story = tuple[float, Outcome | Exception | None, dict[str, Any]]  # seconds, what happens, members of the record


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop that waits for nothing: its clock jumps to the next moment."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        select = self._selector.select  # type: ignore[attr-defined]

        def jump(timeout: float | None) -> Any:
            events = select(0)
            if not events:
                assert timeout is not None, "nothing would ever come"
                self.now += timeout
            return events

        self._selector.select = jump  # type: ignore[attr-defined]

    def time(self) -> float:
        return self.now


class FakeEngine:
    """Carries out attempts by a script: per item the ends of its attempts, the last one again and again."""

    def __init__(self, directory: BatchDirectory, stories: dict[str, list[Story]]) -> None:
        self.directory, self.stories = directory, stories
        self.starts: list[tuple[float, str, int]] = []
        self.running = self.most = 0
        self.accounts: dict[str, str | None] = {}
        self.cancelled = asyncio.Event()
        self.is_deaf = False
        self.deed: Callable[[str], None] = lambda item: None

    async def submit(self, item: str, attempt: int, account: str | None) -> int:
        seconds, outcome, more = self._next(item)
        self.starts.append((asyncio.get_running_loop().time() - 1000, item, attempt))
        self.accounts[item] = account
        self.running += 1
        self.most = max(self.most, self.running)
        self.deed(item)
        try:
            async with asyncio.timeout(seconds):
                await self.cancelled.wait()
                outcome = "cancelled"
        except TimeoutError:
            pass
        finally:
            self.running -= 1
        if isinstance(outcome, Exception):
            raise outcome
        if outcome is None:
            self.directory.log_of(item, attempt).parent.mkdir(parents=True, exist_ok=True)
            self.directory.log_of(item, attempt).write_text("acp-launch: the disk is full\n")
            return 3
        record(self.directory, item, attempt, outcome, **more)
        return 0 if outcome == "passed" else 9

    def _next(self, item: str) -> Story:
        story = self.stories.get(item, [(10.0, "passed", {})])
        return story.pop(0) if len(story) > 1 else story[0]

    def cancel(self) -> None:
        if not self.is_deaf:
            self.cancelled.set()

    def end_now(self) -> None:
        self.cancelled.set()


class Run:
    """A run of a batch that has ended."""

    def __init__(
        self,
        place: Path,
        ids: list[str],
        stories: dict[str, list[Story]] | None = None,
        limits: Limits | None = None,
        retry: Retry | None = None,
        *,
        prepare: Callable[[BatchDirectory], None] = lambda directory: None,
        during: Callable[["Run"], None] = lambda run: None,
        only: tuple[str, ...] = (),
    ) -> None:
        self.directory = make_directory(place, ids, limits, retry)
        prepare(self.directory)
        self.chosen = [self.directory.find_item(id) for id in only] or list(self.directory.batch.items)
        self.during = during
        with asyncio.Runner(loop_factory=JumpingLoop) as runner:
            self.code = runner.run(self._run(stories or {}))

    async def _run(self, stories: dict[str, list[Story]]) -> int:
        self.engine = FakeEngine(self.directory, stories)
        self.submitter = Submitter(
            self.directory, self.chosen, self.engine, Events(), wall=lambda: NOW, jitter=lambda: 0.0
        )
        self.during(self)
        code = await self.submitter.run()
        self.advice = list(self.submitter.advise())
        return code

    def starts(self) -> list[tuple[float, str, int]]:
        return [(round(when, 3), item, attempt) for when, item, attempt in self.engine.starts]


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_all_items_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(tmp_path, ["a", "b", "c"])
    assert run.code == 0
    assert run.starts() == [(0, "a", 1), (0, "b", 1), (10, "c", 1)]
    assert run.engine.most == 2
    assert run.advice == [f"report: acp-launch batch report {tmp_path}"]


def test_an_item_that_did_not_pass_makes_the_exit_code_9(tmp_path: Path) -> None:
    run = Run(tmp_path, ["a", "b"], {"a": [(1, "failed", {})]})
    assert run.code == 9
    assert run.advice[-1] == f"start those again: acp-launch batch run --resume {tmp_path} --again failed"


def test_a_done_item_does_not_start_again(tmp_path: Path) -> None:
    run = Run(tmp_path, ["a", "b"], prepare=lambda directory: record(directory, "a", 1, "failed"))
    assert run.starts() == [(0, "b", 1)]
    assert run.code == 9, "it did not pass, although it did not run now"


def test_an_item_that_died_starts_again_after_its_backoff(tmp_path: Path) -> None:
    stories: dict[str, list[Story]] = {"a": [(10, "agent_died", {}), (10, "agent_died", {}), (10, "passed", {})]}
    run = Run(tmp_path, ["a"], stories, retry=RETRY)
    assert run.code == 0
    assert run.starts() == [(0, "a", 1), (40, "a", 2), (110, "a", 3)]


def test_an_attempt_that_another_submitter_left_cancelled_starts_at_once(tmp_path: Path) -> None:
    run = Run(tmp_path, ["a"], prepare=lambda directory: record(directory, "a", 1, "cancelled"))
    assert run.starts() == [(0, "a", 2)]


def test_an_item_that_leaves_no_record_starts_three_times_and_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(tmp_path, ["a", "b"], {"a": [(1, None, {})]}, Limits(jobs=1))
    assert run.starts() == [(0, "a", 1), (1, "b", 1), (11, "a", 1), (13, "a", 1)]
    assert run.code == 9
    ended = [event for event in events(capsys.readouterr().out) if event["type"] == "ended" and event["item"] == "a"]
    assert [event["outcome"] for event in ended] == [None] * 3
    assert ended[-1]["message"] == "acp-launch: the disk is full"
    assert ended[-1]["exit_code"] == 3
    assert run.advice[-1] == f"1 item without a record; go on: acp-launch batch run --resume {tmp_path}"


def test_a_rate_limit_pauses_its_account_until_it_resets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(
        tmp_path,
        ["1.x", "2.x", "3.y"],
        {"1.x": [(5, "rate_limited", {"resets": NOW + 600}), (10, "passed", {})]},
        Limits(jobs=4, accounts={"one": account("x", jobs=1)}),
        RETRY,
    )
    assert run.starts() == [(0, "1.x", 1), (0, "3.y", 1), (605, "1.x", 2), (615, "2.x", 1)]
    assert run.engine.accounts == {"1.x": "one", "2.x": "one", "3.y": None}
    assert run.code == 0
    (paused,) = [event for event in events(capsys.readouterr().out) if event["type"] == "paused"]
    assert paused | {"time": ""} == {
        "type": "paused",
        "time": "",
        "account": "one",
        "seconds": 600,
        "reason": "rate limit",
    }


@pytest.mark.parametrize("resets", [{}, {"resets": NOW - 5}])
def test_a_rate_limit_without_a_time_to_come_pauses_by_backoff_and_ends_after_its_attempts(
    tmp_path: Path, resets: dict[str, float]
) -> None:
    run = Run(tmp_path, ["1.x"], {"1.x": [(10, "rate_limited", resets)]}, retry=RETRY)
    assert run.starts() == [(0, "1.x", 1), (40, "1.x", 2), (110, "1.x", 3)]
    assert run.code == 9


def test_without_retry_a_rate_limit_still_pauses_its_account(tmp_path: Path) -> None:
    run = Run(tmp_path, ["1.x", "2.x"], {"1.x": [(10, "rate_limited", {"resets": NOW + 90})]}, Limits(jobs=1))
    assert run.starts() == [(0, "1.x", 1), (100, "2.x", 1)]


def test_a_resumed_batch_minds_the_limit_that_an_earlier_attempt_met(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(
        tmp_path,
        ["1.x", "2.x"],
        retry=RETRY,
        prepare=lambda directory: record(directory, "1.x", 1, "rate_limited", resets=NOW + 90),
    )
    assert run.starts() == [(90, "1.x", 2), (90, "2.x", 1)]
    (paused,) = [event for event in events(capsys.readouterr().out) if event["type"] == "paused"]
    assert paused["seconds"] == 90


def test_after_so_many_failures_nothing_more_starts_and_what_runs_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(
        tmp_path,
        ["a", "b", "c", "d"],
        {"b": [(5, "failed", {})], "c": [(20, "passed", {})]},
        Limits(jobs=2, failures=2),
        prepare=lambda directory: record(directory, "a", 1, "empty"),
    )
    assert run.starts() == [(0, "b", 1), (0, "c", 1)]
    assert run.code == 9
    assert run.directory.attempts("c") == [1]
    assert run.directory.attempts("d") == []
    assert run.advice[-1] == (
        "stopped at the limit of 2 failures (2 did not pass); "
        f"go on: acp-launch batch run --resume {tmp_path} --failures N"
    )
    (budget,) = [event for event in events(capsys.readouterr().out) if event["type"] == "budget"]
    assert (budget["limit"], budget["failures"], budget["most"]) == ("failures", 2, 2)


def test_a_retried_attempt_is_not_a_failure(tmp_path: Path) -> None:
    stories: dict[str, list[Story]] = {"a": [(1, "agent_died", {}), (1, "passed", {})]}
    assert Run(tmp_path, ["a"], stories, Limits(failures=1), RETRY).code == 0


def test_at_the_known_cost_nothing_more_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def cost(amount: float) -> dict[str, Any]:
        return {"cost": Cost(amount=amount, currency="USD")}

    run = Run(
        tmp_path,
        ["a", "b", "c", "d"],
        {"b": [(1, "passed", cost(2.5))], "c": [(1, "passed", {})]},
        Limits(jobs=1, cost={"EUR": 1, "USD": 5}),
        prepare=lambda directory: record(directory, "a", 1, "passed", **cost(2.5)),
    )
    assert [item for _, item, _ in run.starts()] == ["b"]
    assert run.code == 9
    assert run.advice[-1] == (
        "stopped at the cost limit of 5 USD (known cost: 5 USD); "
        f"go on: acp-launch batch run --resume {tmp_path} --cost USD=AMOUNT"
    )


def test_a_limit_that_the_last_item_reaches_stops_nothing(tmp_path: Path) -> None:
    limits = Limits(cost={"USD": 1})
    stories: dict[str, list[Story]] = {"a": [(1, "passed", {"cost": Cost(amount=2, currency="USD")})]}
    assert Run(tmp_path, ["a"], stories, limits).code == 0


def call_at(run: Run, when: float, act: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(when, act)


def test_a_signal_starts_nothing_more_and_cancels_what_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(tmp_path, ["a", "b", "c"], during=lambda run: call_at(run, 5, lambda: run.submitter.interrupt(15)))
    assert run.code == 143
    assert run.starts() == [(0, "a", 1), (0, "b", 1)]
    assert [run.directory.read_record(id, 1).outcome for id in "ab"] == ["cancelled", "cancelled"]
    assert run.advice[-1] == f"cancelled; go on: acp-launch batch run --resume {tmp_path}"


def test_items_that_do_not_end_after_a_signal_are_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def arrange(run: Run) -> None:
        run.engine.is_deaf = True
        call_at(run, 5, lambda: run.submitter.interrupt(2))

    run = Run(tmp_path, ["a"], {"a": [(1e6, "passed", {})]}, during=arrange)
    assert run.code == 130
    assert "they are ended now" in capsys.readouterr().err


def test_the_file_of_batch_cancel_is_seen_within_a_second(tmp_path: Path) -> None:
    run = Run(
        tmp_path,
        ["a", "b", "c"],
        {"a": [(7, "cancelled", {})], "b": [(8, "cancelled", {})]},
        during=lambda run: call_at(run, 6.5, run.directory.cancel),
    )
    assert run.code == 130
    assert run.starts() == [(0, "a", 1), (0, "b", 1)]
    assert not run.engine.cancelled.is_set(), "each item sees the file itself"


def test_an_item_that_sees_the_cancel_file_first_is_not_started_again(tmp_path: Path) -> None:
    def cancel_early(run: Run) -> None:
        run.engine.deed = lambda item: run.directory.cancel()

    run = Run(tmp_path, ["a", "b"], {"a": [(0.1, "cancelled", {})]}, Limits(jobs=1), during=cancel_early)
    assert run.code == 130
    assert run.starts() == [(0, "a", 1)]


def test_an_item_that_others_cancel_again_and_again_is_given_up(tmp_path: Path) -> None:
    run = Run(tmp_path, ["a"], {"a": [(1, "cancelled", {})]})
    assert [attempt for _, _, attempt in run.starts()] == [1, 2, 3]
    assert run.code == 9


def test_an_engine_that_is_gone_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    gone = EngineGone("the scheduler is gone")
    run = Run(tmp_path, ["a", "b", "c"], {"a": [(1, gone, {})], "b": [(2, "passed", {})]})
    assert run.code == 9
    assert run.directory.attempts("b") == [1]
    assert run.advice[-1] == f"the scheduler is gone; go on: acp-launch batch run --resume {tmp_path}"


def test_only_the_chosen_items_run_but_all_count_for_the_limits(tmp_path: Path) -> None:
    run = Run(tmp_path, ["a", "b", "c"], only=("c",))
    assert run.starts() == [(0, "c", 1)]
    assert run.code == 0


def test_events_tell_the_story_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Run(tmp_path, ["a"], {"a": [(1, "passed", {"answer": "l\u2028r"})]})
    out = capsys.readouterr().out
    batch, started, ended = events(out)
    assert "\u2028" not in out
    assert batch | {"time": ""} == {
        "type": "batch",
        "time": "",
        "directory": str(tmp_path),
        "name": "nightly",
        "items": 1,
    }
    assert started["item"] == "a" and started["attempt"] == 1 and started["pid"] > 0
    line = json.loads((tmp_path / "items/a/1/result.json").read_text())
    assert ended == {"type": "ended", "time": ended["time"], **line}


# Options.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (RunOptions(), "give a batch's file or --resume DIR"),
        (RunOptions(file=Path("a"), resume=Path("b")), "give a batch's file or --resume DIR, not both"),
        (
            RunOptions(file=Path("a"), again=("failed",)),
            "--again needs --resume DIR: a new batch has no ended items",
        ),
        (RunOptions(resume=Path("a"), out=Path("b")), "--out needs FILE: --resume names the directory"),
        (RunOptions(resume=Path("a"), jobs=0), "--jobs: expected a number from 1 on, found 0"),
        (RunOptions(resume=Path("a"), failures=-1), "--failures: expected a number from 1 on, found -1"),
        (
            RunOptions(resume=Path("a"), again=("faild",)),
            '--again: "faild" is not an outcome; did you mean "failed"?',
        ),
        (RunOptions(resume=Path("a"), cost=("50",)), '--cost: expected a currency and an amount, found "50"'),
        (RunOptions(resume=Path("a"), cost=("USD=nan",)), '--cost: expected a currency and an amount, found "USD=nan"'),
    ],
)
def test_wrong_options_are_refused_with_a_fix(options: RunOptions, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_options(options)
    assert refused.value.message == message
    assert refused.value.fix


def test_a_directory_in_place_of_the_file_is_told_from_it(tmp_path: Path) -> None:
    (tmp_path / "batch.json").touch()
    with pytest.raises(UsageError, match="is the directory of a batch, not its file") as refused:
        check_options(RunOptions(file=tmp_path))
    assert refused.value.fix == f"acp-launch batch run --resume {tmp_path}"


def test_options_override_the_limits_of_the_file() -> None:
    given = check_options(RunOptions(resume=Path("a"), jobs=3, failures=9, cost=("USD=60", "EUR=1.5")))
    limits = submit._override(Limits(jobs=1, failures=2, cost={"USD": 50, "CHF": 4}), given)
    assert limits == Limits(jobs=3, failures=9, cost={"USD": 60, "CHF": 4, "EUR": 1.5})


# A resumed batch whose items are all done; nothing starts.


def test_a_resumed_batch_makes_its_results_again_and_forgets_the_cancel_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = make_directory(tmp_path, ["a"])
    record(directory, "a", 1, "passed")
    directory.cancel()
    assert run_batch(RunOptions(resume=tmp_path)) == 0
    assert not directory.is_cancelled()
    assert (tmp_path / "results.jsonl").read_bytes() == (tmp_path / "items/a/1/result.json").read_bytes()
    assert capsys.readouterr().out == f"{tmp_path}\n1 passed\nreport: acp-launch batch report {tmp_path}\n"


def test_a_dry_run_lists_what_is_due(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = make_directory(tmp_path, ["a", "b"])
    record(directory, "a", 1, "passed")
    assert run_batch(RunOptions(resume=tmp_path, dry_run=True)) == 0
    assert capsys.readouterr().out == "b\n"


def test_again_opens_done_items_of_that_outcome(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = make_directory(tmp_path, ["a", "b", "c"])
    for id, outcome in (("a", "failed"), ("b", "passed"), ("c", "failed")):
        record(directory, id, 1, outcome)  # type: ignore[arg-type]
    assert run_batch(RunOptions(resume=tmp_path, again=("failed",), only=("a", "b"), dry_run=True)) == 0
    assert capsys.readouterr().out == "a\n"
    submit._reopen_items(directory, directory.batch.items[:2], ("failed",))
    assert [directory.judge(id).attempt for id in "abc"] == [2, 0, 0]
    submit._reopen_items(directory, directory.batch.items, ("empty",))
    assert capsys.readouterr().err == "acp-launch: no done item has the outcome empty\n"


# `batch status` and `batch cancel`.


def test_status_counts_what_is_done_runs_and_is_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = make_directory(tmp_path, ["a", "b", "c", "d"], retry=RETRY)
    record(directory, "a", 1, "passed")
    record(directory, "b", 1, "agent_died")
    begin_without_end(directory, "c", 1)
    begin_without_end(directory, "c", 1)
    with directory.lock("b"):
        directory.begin("b", 2)
        assert show_status(tmp_path, as_json=True) == 0
        told = json.loads(capsys.readouterr().out)
        (running,) = told.pop("running")
        assert show_status(tmp_path, as_json=False) == 0
    assert told == {
        "directory": str(tmp_path),
        "name": "nightly",
        "items": 4,
        "counts": {"passed": 1},
        "due": 3,
        "lost": 2,
        "cancelled": False,
        "trees": [],
    }
    assert (running["item"], running["attempt"]) == ("b", 2)
    assert capsys.readouterr().out == (
        "nightly: 1 passed, 3 due\n2 attempts ended without a record\n"
        f"b: attempt 2, pid {running['pid']} on {running['host']} since {running['since']}\n"
    )
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 2
    assert show_status(tmp_path, as_json=False) == 0
    assert capsys.readouterr().err.endswith(f"go on: acp-launch batch run --resume {tmp_path}\n")


def test_cancel_makes_the_file_and_prints_what_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = make_directory(tmp_path, ["a", "b"])
    with directory.lock("a"):
        assert cancel_batch(tmp_path) == 0
    told = capsys.readouterr()
    assert told.out == "a: attempt 1, about to begin\n"
    assert told.err == f"acp-launch: 1 item will end soon; go on later: acp-launch batch run --resume {tmp_path}\n"
    assert directory.is_cancelled()
    assert cancel_batch(tmp_path) == 0
    assert capsys.readouterr().err == "acp-launch: nothing runs\n"
