"""
One attempt of an item, by `batch item`, which any engine can call: its directory, `run`, the check, the patch, and the
record as the last.

    under the item's lock, after a second look      `_run_due`
      the attempt's directory, and its tree         `_make_attempt`
      run, in a process forked from this one        `_RunProcess`
      what it meant; the check decides              `_decide`
      the patch, the record; the tree may go        `_conclude`

The process of the run is a session of its own, so a Ctrl-C reaches it only through this one, and by its lifeline it
ends with this one; its guards end all that it has started. A signal, or DIR/cancel, cancels the attempt at any moment;
if its run had not begun, there is no record.
"""

import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from msgspec.structs import replace

from acp_launch import __version__, leave
from acp_launch.batch.model import Batch, CheckResult, ErrorFacts, FrozenProfile, Item, Outcome, Patch, Record
from acp_launch.batch.outcome import RunFacts, classify, find_reset, shorten_answer, subtract_earlier
from acp_launch.batch.store import RESULT, STARTED, BatchDirectory, open_batch
from acp_launch.cli.main import end_in_code
from acp_launch.cli.run import carry_out
from acp_launch.cli.run_request import RunRequest, Screen
from acp_launch.console.problems import show_error
from acp_launch.console.stderr import DIM, tell
from acp_launch.errors import LaunchError, MachineError, StateError, Stopped, UsageError
from acp_launch.private import make_digest
from acp_launch.problem import about, ours
from acp_launch.waits import format_time

if TYPE_CHECKING:
    from acp_launch.cli.planning import Ready
    from acp_launch.cli.run import Planner
    from acp_launch.settings.model import Settings

EVENTS, STDERR, ANSWER, PATCH, CHECK = "events.ndjson", "stderr.txt", "answer.md", "patch.diff", "check.txt"
TREES = "trees"
NOT_PASSED = 9
INTERRUPTED = 128 + signal.SIGINT
LOOK_EVERY = 0.25  # seconds
INSISTENT = 3  # signals: with so many the process of the run is killed, and its guards end what it has started
LAST = 10.0  # seconds for the record after a signal
NAME = 60  # characters of an item's id in the name of its session


def run_item(
    directory: Path, id: str | None, index: int | None, attempt: int | None, lifeline: int | None, *, trust: bool
) -> int:
    """Make the attempt of an item that is due; return 0 if it passed, 9 if not, 130, 143 or 129 if it was cancelled.

    Raises:
        UsageError: there is no such batch or item, or the lifeline is not open.
        StateError: the directory cannot be read or written; then there is no record.
    """
    RunRequest(words=("", ""), lifeline=lifeline).watch_lifeline()
    batch = open_batch(directory)
    item = _choose(batch, id, index)
    try:
        with _hold(batch, item.id):
            return _run_due(batch, item, attempt, trust=trust)
    except OSError as error:
        if error.filename is None:  # not about a file of ours
            raise
        raise StateError(f"cannot write {error.filename}: {error.strerror}") from None


def _choose(directory: BatchDirectory, id: str | None, index: int | None) -> Item:
    if (id is None) == (index is None):
        raise UsageError("batch item needs an ID, or --index", fix=ours("batch", "status", str(directory.path)))
    if id is not None:
        return directory.find_item(id)
    items = directory.batch.items
    if index is None or not 0 <= index < len(items):
        raise UsageError(f"the batch has no item {index}", fix=f"give a number from 0 to {len(items) - 1}")
    return items[index]


@contextmanager
def _hold(directory: BatchDirectory, id: str) -> Iterator[None]:
    """Hold the item's lock, which the attempt of another process keeps for as long as it takes."""
    with ExitStack() as stack:
        try:
            stack.enter_context(directory.lock(id, 0))
        except TimeoutError:
            tell(f"waiting for another process, which makes an attempt of {id}", style=DIM)
            stack.enter_context(directory.lock(id))
        yield


def _run_due(directory: BatchDirectory, item: Item, attempt: int | None, *, trust: bool) -> int:
    """Make the attempt that is due. If `attempt` or the item is done, only give its exit code again."""
    if attempt is not None and attempt in directory.attempts(item.id):
        return _exit_code(directory.read_record(item.id, attempt).outcome)
    standing = directory.judge(item.id)
    if standing.is_done and standing.last:
        return _exit_code(standing.last.outcome)
    if directory.is_cancelled():
        return INTERRUPTED
    record = _make_attempt(directory, item, standing.attempt, trust=trust)
    return record.exit_code if record.outcome == "cancelled" else _exit_code(record.outcome)


def _exit_code(outcome: Outcome) -> int:
    return {"passed": 0, "cancelled": INTERRUPTED}.get(outcome, NOT_PASSED)


class _Attempt(NamedTuple):
    """An attempt that was begun; `where` is its directory, `began` in Unix seconds."""

    directory: BatchDirectory
    item: Item
    number: int
    where: Path
    began: float

    @property
    def batch(self) -> Batch:
        return self.directory.batch

    @property
    def profile(self) -> FrozenProfile:
        return self.batch.profiles[self.item.profile]

    @property
    def tree(self) -> Path | None:
        """The directory that git makes for the item; None without isolation."""
        return None if self.batch.isolation.kind == "none" else self.directory.path / TREES / self.item.id


class _Decision(NamedTuple):
    """What became of an attempt; `exit_code` is that of its run, or of what stopped it otherwise."""

    outcome: Outcome
    exit_code: int
    check: CheckResult | None = None
    patch: Patch | None = None


def _make_attempt(directory: BatchDirectory, item: Item, number: int, *, trust: bool) -> Record:
    attempt = _Attempt(directory, item, number, directory.begin(item.id, number), time.time())
    facts = RunFacts()
    try:
        cwd = _make_place(attempt)
    except LaunchError as error:
        return _conclude(attempt, facts, _blame(error, facts))
    run = _RunProcess(_make_request(attempt, cwd), partial(_plan, attempt, trust), attempt.where)
    code = run.wait(directory.is_cancelled)
    try:
        leave.set_listener(lambda number: False)
        if not code and run.signals and attempt.batch.check:
            code = INTERRUPTED  # it may have ended well in spite of the signal, but the check shall not begin
        _read_run(attempt, code, facts)
        decision = _decide(attempt, code, facts, cwd)
        decision = decision._replace(patch=_make_patch(attempt))
    except (KeyboardInterrupt, Stopped) as error:
        leave.within(LAST, leave.code())
        decision = _Decision("cancelled", error.exit_code if isinstance(error, Stopped) else leave.code())
    return _conclude(attempt, facts, decision)


def _blame(error: LaunchError, facts: RunFacts) -> _Decision:
    """Let this be what stopped the attempt."""
    facts.error = ErrorFacts(exit_code=error.exit_code, message=error.message, fix=error.fix)
    return _Decision("setup_failed", error.exit_code)


# The run.


def _make_place(attempt: _Attempt) -> Path:
    """Return the session's directory; a tree is made for the first attempt."""
    try:
        os.chdir(attempt.batch.directory)  # profiles are found from there
    except OSError as error:
        raise StateError(f"cannot enter the batch's directory {error.filename}: {error.strerror}") from None
    isolation, item = attempt.batch.isolation, attempt.item
    if attempt.tree is None or isolation.kind == "none" or item.base_commit is None:
        return Path(item.repo)
    from acp_launch.batch.worktree import make_tree

    return make_tree(item.repo, item.base_commit, isolation.kind, attempt.tree)


def _make_request(attempt: _Attempt, cwd: Path) -> RunRequest:
    batch, item = attempt.batch, attempt.item
    goes_on = batch.retry is not None and batch.retry.session == "continue"
    digest = make_digest(batch.name, batch.created, item.id)[:8]
    return RunRequest(
        words=(attempt.profile.called, item.prompt),
        session=f"batch.{item.id[:NAME]}.{digest}" + ("" if goes_on else f".{attempt.number}"),
        new=not goes_on,
        no_replay=True,
        cwd=cwd,
        output="json",
        approve=batch.approve,
        timeouts=() if batch.limits.timeout is None else (("", batch.limits.timeout),),
        sets=tuple(f"{option}={value}" for option, value in item.matrix.items()),
    )


def _plan(attempt: _Attempt, trust: bool, request: RunRequest, settings: "Settings", screen: Screen) -> "Ready":
    """Plan the run, unless the profile is another one than was frozen."""
    from acp_launch.cli.planning import loaded_profile, ready, resolve_trusted
    from acp_launch.profile.trust import digest_content

    loaded, frozen = loaded_profile(request.words[0], settings), attempt.profile
    if (digest := digest_content(loaded)) != frozen.digest:
        what = f"this profile is not the one that was frozen: its digest is {digest}, and was {frozen.digest}"
        raise MachineError([about(str(loaded.found.file), what, "restore it, or prepare a new batch")])
    resolved = resolve_trusted(
        loaded, settings, cwd=request.cwd, session=request.session, typed=request.cwd, trust=trust
    )
    return ready(resolved, settings, waiting=screen.show_wait)


class _RunProcess:
    """The process of a run. The signals that come from now on are its own: as a user's first and second Ctrl-C."""

    def __init__(self, request: RunRequest, plan: "Planner", where: Path) -> None:
        self.signals = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        streams = [os.open(where / name, flags, 0o600) for name in (EVENTS, STDERR)]
        theirs, self._lifeline = os.pipe()  # not inheritable
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, leave.SIGNALS)
        try:
            self._pid = os.fork()
            if not self._pid:
                os.close(self._lifeline)
                _become_run(partial(carry_out, request._replace(lifeline=theirs), plan), streams, mask)
            leave.set_listener(self._send)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            for descriptor in (theirs, *streams):
                os.close(descriptor)

    def wait(self, is_cancelled: Callable[[], bool]) -> int:
        """Wait for its end, and return its exit code; a signal that ended it is negative."""
        poll = select.poll()
        poll.register(self._lifeline, 0)  # an error, once the process that alone reads it has ended
        while not (ended := os.waitpid(self._pid, os.WNOHANG))[0]:
            poll.poll(LOOK_EVERY * 1000)
            if self.signals:
                leave.acknowledge()
            elif is_cancelled():
                self._send(signal.SIGINT)
        self._pid = 0
        os.close(self._lifeline)
        return os.waitstatus_to_exitcode(ended[1])

    def _send(self, number: int) -> bool:
        self.signals += 1
        if self._pid:
            os.kill(self._pid, number if self.signals < INSISTENT else signal.SIGKILL)
        return True


def _become_run(work: Callable[[], int], streams: Sequence[int], mask: Iterable[int]) -> NoReturn:
    """Be the process of the run, and end as any `run` does."""

    def run() -> int:
        os.setsid()
        for number in leave.SIGNALS:  # only `batch item` sends them now, even if it ignores them itself
            signal.signal(number, signal.SIG_DFL)
        leave.listen()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for stream, descriptor in enumerate((os.open(os.devnull, os.O_RDONLY), *streams)):
            os.dup2(descriptor, stream)
            os.close(descriptor)
        return work()

    os._exit(leave.finish_with(partial(end_in_code, run)))


def _read_run(attempt: _Attempt, code: int, facts: RunFacts) -> None:
    with (attempt.where / EVENTS).open("rb") as lines:
        for line in lines:
            facts.take(line)
    if code and facts.error is None and facts.stop_reason is None:
        how = f"exit code {code}" if code > 0 else signal.Signals(-code).name
        facts.error = ErrorFacts(
            exit_code=code, message=f"the run ended with {how}", fix=f"see {attempt.where / STDERR}"
        )


# What it meant.


def _decide(attempt: _Attempt, code: int, facts: RunFacts, cwd: Path) -> _Decision:
    """Let the check decide after a turn that ended well; without one the answer does."""
    if outcome := classify(code, facts):
        return _Decision(outcome, code)
    check = attempt.batch.check
    if check is None:
        return _Decision("passed" if facts.answer.strip() else "empty", code)
    from acp_launch.batch.checking import run_check

    look = partial(_stop_if, attempt.directory.is_cancelled)
    try:
        made = run_check(check.command, check.timeout, cwd, attempt.where / CHECK, os.environ, look=look)
    except StateError as error:
        return _blame(error, facts)
    return _Decision("passed" if made.exit_code == 0 else "failed", code, made)


def _stop_if(is_cancelled: Callable[[], bool]) -> None:
    if is_cancelled():
        raise Stopped("the batch was cancelled", signal_number=signal.SIGINT)


def _make_patch(attempt: _Attempt) -> Patch | None:
    if attempt.tree is None or attempt.item.base_commit is None:
        return None
    from acp_launch.batch.worktree import write_patch

    try:
        return write_patch(attempt.tree, attempt.item.base_commit, attempt.where / PATCH)
    except StateError as error:
        show_error(error)
        return None


def _conclude(attempt: _Attempt, facts: RunFacts, decision: _Decision) -> Record:
    """Write the record; then remove the tree, if it is not wanted and its patch is on disk."""
    with leave.deferred():
        if facts.answer:
            (attempt.where / ANSWER).write_text(facts.answer, encoding="utf-8", errors="replace")
        record = _make_record(attempt, facts, decision)
        is_kept = attempt.tree is not None and _is_wanted(attempt, record)
        record = replace(record, worktree=str(attempt.tree) if is_kept else None)
        attempt.directory.write_record(record)
    tell(f"{record.item}, attempt {record.attempt}: {record.outcome}", style=DIM)
    if attempt.tree is not None and not is_kept:
        from acp_launch.batch.worktree import remove_tree

        try:
            remove_tree(attempt.item.repo, attempt.tree)
        except StateError as error:
            show_error(error)
    return record


def _is_wanted(attempt: _Attempt, record: Record) -> bool:
    """Whether the tree is kept; the next attempt works in it, so it is kept for as long as one is due."""
    keep = attempt.batch.isolation.keep
    if record.patch is None or keep == "always" or (keep == "failed" and record.outcome != "passed"):
        return True
    directory = attempt.directory
    return not directory.judge(record.item, [*directory.verdicts(record.item), record]).is_done


def _make_record(attempt: _Attempt, facts: RunFacts, decision: _Decision) -> Record:
    directory, item, batch, ended = attempt.directory, attempt.item, attempt.batch, time.time()
    earlier = (directory.read_record(item.id, number) for number in directory.attempts(item.id))
    is_limited = decision.outcome == "rate_limited" and facts.error is not None
    return Record(
        batch=batch.name,
        item=item.id,
        attempt=attempt.number,
        task=item.task,
        profile=item.profile,
        profile_digest=attempt.profile.digest,
        matrix=item.matrix,
        sample=item.sample,
        agent=facts.agent,
        model=item.matrix.get("model") or facts.model,
        mode=facts.mode,
        acp_launch=__version__,
        host=socket.gethostname(),
        started=format_time(attempt.began),
        ended=format_time(ended),
        seconds=round(ended - attempt.began, 3),
        exit_code=decision.exit_code,
        outcome=decision.outcome,
        stop_reason=facts.stop_reason,
        error=facts.error,
        resets=find_reset(facts.error, facts.error_time) if is_limited and facts.error else None,
        denied=facts.denied,
        usage=facts.usage,
        cost=subtract_earlier(facts.cost, facts.session, earlier),
        session_cost=facts.cost,
        tools=facts.tools,
        answer=shorten_answer(facts.answer),
        repo=item.repo,
        base_commit=item.base_commit,
        patch=decision.patch,
        check=decision.check,
        servers=facts.servers,
        session=facts.session,
        files=tuple(sorted(each.name for each in attempt.where.iterdir() if each.name not in (RESULT, STARTED))),
    )
