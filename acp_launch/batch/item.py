"""
One attempt of an item, by `batch item`, which any engine can call: its directory, `run`, the check, the patch, and the
record as the last.

    under the item's lock, after a second look      `_run_due`
      the attempt's directory, and its tree         `_Attempt._make_place`
      run, in a process forked from this one        `_RunProcess`
      what it meant; the check decides              `_Attempt._decide`
      the patch, the record; the tree may go        `_Attempt._conclude`

The process of the run is a session of its own, so a Ctrl-C reaches it only through this one, and by its lifeline it
ends with this one; its guards end all that it has started. A signal, or DIR/cancel, cancels the attempt at any moment.
"""

import errno
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec.structs import replace

from acp_launch import __version__, shutdown
from acp_launch.app.exits import end_in_code
from acp_launch.app.screen import Screen
from acp_launch.app.spec import RunSpec, load_settings
from acp_launch.batch.checking import run_check
from acp_launch.batch.masks import Told, mask, tell_forms, tell_place
from acp_launch.batch.model import CheckCommand, ErrorFacts, Item, Outcome, Record
from acp_launch.batch.outcome import (
    classify,
    find_reset,
    judge_answer,
    read_events,
    shorten_answer,
    subtract_earlier,
    summarize_error,
)
from acp_launch.batch.store import (
    ANSWER,
    CHECK,
    EVENTS,
    PATCH,
    RESULT,
    SETUP,
    STARTED,
    STDERR,
    BatchDirectory,
    explain_faults,
    open_batch,
)
from acp_launch.batch.trees import make_tree
from acp_launch.batch.trust import find_writable, require_directory
from acp_launch.console.problems import show_error
from acp_launch.console.stderr import DIM, YELLOW, tell
from acp_launch.errors import LaunchError, MachineError, SessionError, StateError, Stopped, UsageError
from acp_launch.private import make_digest
from acp_launch.problem import about, ours
from acp_launch.profile.load import Loaded
from acp_launch.profile.trust import digest_content
from acp_launch.session.events import describe_error
from acp_launch.waits import format_time

if TYPE_CHECKING:
    from acp_launch.engine.prepared import PreparedPlan

NOT_PASSED = 9
INTERRUPTED = 128 + signal.SIGINT
POLL_SECONDS = 0.25
INSISTENT = 3  # signals: with so many the process of the run is killed, and its guards end what it has started
RECORD_TIMEOUT = 10.0  # after a signal
MAX_NAME_CHARS = 60  # of an item's id in the name of its session


@explain_faults()
def run_item(
    directory: Path, id: str | None, index: int | None, attempt: int | None, lifeline: int | None, *, trust: bool
) -> int:
    """Make the attempt of an item that is due; return 0 if it passed, 9 if not, 130, 143 or 129 if it was cancelled.

    Raises:
        UsageError: there is no such batch or item, or the lifeline is not open.
        StateError: the directory cannot be read or written; then there is no record.
        NotTrusted: the batch was not made for this user, and `trust`, which is `--trust`, does not let it pass.
    """
    if lifeline is not None:
        shutdown.check_lifeline(lifeline)
        shutdown.watch_lifeline(lifeline)
    batch = open_batch(directory)
    item = _choose(batch, id, index)
    require_directory(batch, load_settings(), allow_once=trust)
    if batch.is_running(item.id):
        tell(f"waiting for another process, which makes an attempt of {item.id}", style=DIM)
    with batch.lock(item.id):
        return _run_due(batch, item, attempt)


def _choose(directory: BatchDirectory, id: str | None, index: int | None) -> Item:
    items = directory.batch.items
    if id is not None and index is None:
        return directory.find_item(id)
    if id is not None or index is None:
        raise UsageError("batch item needs an ID, or --index", fix=ours("batch", "status", str(directory.path)))
    if not 0 <= index < len(items):
        raise UsageError(f"the batch has no item {index}", fix=f"give a number from 0 to {len(items) - 1}")
    return items[index]


def _run_due(directory: BatchDirectory, item: Item, attempt: int | None) -> int:
    """Make the attempt that is due. If `attempt` or the item is done, only give its exit code again."""
    if attempt is not None and attempt in directory.attempts(item.id):
        return _exit_code(directory.read_record(item.id, attempt).outcome)
    standing = directory.judge(item.id)
    if standing.is_done and standing.last:
        return _exit_code(standing.last.outcome)
    if directory.is_cancelled():
        return INTERRUPTED
    record = _Attempt(directory, item, standing.attempt).make()
    return record.exit_code if record.outcome == "cancelled" else _exit_code(record.outcome)


def _exit_code(outcome: Outcome) -> int:
    return {"passed": 0, "cancelled": INTERRUPTED}.get(outcome, NOT_PASSED)


class _Attempt:
    """An attempt that is begun. Its `record` says cancelled, unless it comes to another end."""

    def __init__(self, directory: BatchDirectory, item: Item, number: int) -> None:
        self._directory, self._item, self._batch = directory, item, directory.batch
        self._where = directory.begin(item.id, number)
        self._began = time.time()
        self._tree = make_tree(directory, item)
        self._told = Told()
        self.record = Record(
            batch=self._batch.name,
            item=item.id,
            attempt=number,
            task=item.task,
            profile=item.profile,
            profile_digest=self._batch.profiles[item.profile].digest,
            matrix=item.matrix,
            sample=item.sample,
            acp_launch=__version__,
            host=os.uname().nodename,  # the module socket takes 7 ms
            started=format_time(self._began),
            ended="",
            seconds=0,
            exit_code=INTERRUPTED,
            outcome="cancelled",
            repo=item.repo,
            base_commit=item.base_commit,
        )

    def _update(self, **members: Any) -> None:
        self.record = replace(self.record, **members)

    def make(self) -> Record:
        """Make it, and return its record, which is written."""
        try:
            try:
                cwd = self._make_place()
                self._decide(self._run(cwd), cwd)
            except Stopped:
                raise
            except LaunchError as error:
                facts = summarize_error(describe_error(error))
                self._update(outcome="setup_failed", exit_code=error.exit_code, error=facts)
            self._make_patch()
        except (KeyboardInterrupt, Stopped) as error:
            shutdown.exit_deadline(RECORD_TIMEOUT, shutdown.code())
            code = error.exit_code if isinstance(error, Stopped) else shutdown.code()
            self._update(outcome="cancelled", exit_code=code)
        self._conclude()
        return self.record

    # The run.

    def _make_place(self) -> Path:
        """Return the session's directory; a tree is made for the first attempt."""
        try:
            os.chdir(self._batch.directory)  # profiles are found from there
        except OSError as error:
            raise StateError(f"cannot enter the batch's directory {error.filename}: {error.strerror}") from None
        if self._tree is None:
            return Path(self._item.repo)
        isolation = self._batch.isolation
        return self._tree.make(self._prepare if isolation.copy or isolation.setup else None)

    def _prepare(self) -> None:
        """Bring a fresh tree what the commit has not."""
        if self._tree is None:
            return
        self._tree.copy(self._batch.isolation.copy)
        if setup := self._batch.isolation.setup:
            command, output = CheckCommand(command=setup.command, timeout=setup.timeout), self._where / SETUP
            done, said = run_check(command, self._tree.at, None, self._directory.is_cancelled, called="setup")
            self._directory.write(output, said.encode(errors="replace"))
            if done.exit_code != 0:
                ended = "passed its time limit" if done.exit_code is None else f"ended with {done.exit_code}"
                raise StateError(f"the setup {ended}: {' '.join(setup.command)}", fix=f"see {output}")

    def _run(self, cwd: Path) -> int:
        """Carry out the run, and return its exit code. A session that cannot be continued is begun anew."""
        retry, number = self._batch.retry, self.record.attempt
        goes_on = retry is not None and retry.session == "continue"
        spec = self._make_spec(cwd, goes_on=goes_on)
        code = self._run_once(spec)
        if goes_on and number > 1 and code == SessionError.exit_code and self.record.session is None:
            tell(f"{self._item.id}, attempt {number}: its session cannot be continued, so it begins a new one")
            code = self._run_once(replace(spec, is_new=True))
        return code

    def _make_spec(self, cwd: Path, *, goes_on: bool) -> RunSpec:
        batch, item = self._batch, self._item
        digest = make_digest(batch.name, batch.created, item.id)[:8]
        return RunSpec(
            profile=batch.profiles[item.profile].called,
            session=f"batch.{item.id[:MAX_NAME_CHARS]}.{digest}" + ("" if goes_on else f".{self.record.attempt}"),
            is_new=not goes_on,
            replay=False,
            cwd=cwd,
            approve=batch.approve,
            timeout=batch.limits.timeout,
            options=tuple(f"{option}={value}" for option, value in item.matrix.items()),
        )

    def _run_once(self, spec: RunSpec) -> int:
        streams = [self._directory.append(self._where / name) for name in (EVENTS, STDERR)]
        work = partial(_run, spec, self._item.prompt, self.record.profile_digest, self._directory.root)
        run = _RunProcess(work, streams, self._told)
        code = run.wait(self._directory.is_cancelled)
        shutdown.set_listener(lambda number: False)
        with self._directory.open(self._where / EVENTS) as events:
            self._update(**read_events(events))
        if run.signal_number and (code or self._batch.check):  # a turn may end well all the same
            return 128 + run.signal_number
        if code and self.record.error is None and self.record.stop_reason is None:
            if code > 0 and classify(code) == "agent_died":
                last = f"the run ended without its last event; see {self._where / STDERR}"
                raise OSError(errno.EIO, last, str(self._where / EVENTS))
            how = f"exit code {code}" if code > 0 else signal.Signals(-code).name
            fix = f"see {self._where / STDERR}"
            self._update(error=ErrorFacts(exit_code=code, message=f"the run ended with {how}", fix=fix))
        return code

    # What it meant.

    def _decide(self, code: int, cwd: Path) -> None:
        """Let the check decide after a turn that ended well; without one the answer does."""
        outcome = classify(code, self.record.stop_reason, self.record.error)
        if outcome is None and self._batch.check is not None:
            place = None if self._batch.check.outside else self._told.place
            check, output = run_check(self._batch.check, cwd, place, self._directory.is_cancelled)
            self._directory.write(self._where / CHECK, output.encode(errors="replace"))
            self._update(check=check)
            outcome = "passed" if check.exit_code == 0 else "failed"
        elif outcome is None:
            outcome = judge_answer(self.record)
        resets = find_reset(self.record.error, time.time()) if outcome == "rate_limited" else None
        self._update(outcome=outcome, exit_code=code, resets=resets)

    def _make_patch(self) -> None:
        """Write the patch. An item that passed, but whose work is only in its tree, has not passed."""
        if self._tree is None or not self._tree.is_made:
            return
        try:
            patch = self._tree.write_patch(self._where / PATCH, self._directory.root)
        except StateError as error:
            show_error(error)
            self._update(patch_error=error.message, error=self.record.error or summarize_error(describe_error(error)))
            if self.record.outcome == "passed":
                self._update(outcome="setup_failed", exit_code=error.exit_code)
            return
        with self._directory.open(self._where / PATCH) as file:
            patch = replace(patch, secrets=self._told.find_secrets(file))
        if patch.warning:
            tell(f"{self._item.id}, attempt {self.record.attempt}: {patch.warning}", style=YELLOW)
        self._update(patch=patch)

    def _conclude(self) -> None:
        """Write the record; then remove the tree, if it is not wanted and its patch is on disk."""
        with shutdown.critical_section():
            self._complete_record()
            kept = self._tree if self._tree and self._tree.at.exists() and self._is_tree_wanted() else None
            self._update(worktree=str(kept.at) if kept else None)
            self._directory.write_record(self.record)
        tell(f"{self.record.item}, attempt {self.record.attempt}: {self.record.outcome}", style=DIM)
        try:
            if self._tree and not kept:
                self._tree.remove()
        except StateError as error:
            show_error(error)

    def _complete_record(self) -> None:
        self.record = mask(self.record)
        record, directory, ended = self.record, self._directory, time.time()
        if record.answer:
            directory.write(self._where / ANSWER, record.answer.encode(errors="replace"))
        earlier = (directory.read_record(record.item, number) for number in directory.attempts(record.item))
        self._update(
            ended=format_time(ended),
            seconds=round(ended - self._began, 3),
            model=self._item.matrix.get("model") or record.model,
            cost=subtract_earlier(record, earlier),
            answer=shorten_answer(record.answer),
            files=tuple(sorted(each.name for each in self._where.iterdir() if each.name not in (RESULT, STARTED))),
        )

    def _is_tree_wanted(self) -> bool:
        """Whether the tree is kept; the next attempt works in it, so it is kept for as long as one is due."""
        record, keep, directory = self.record, self._batch.isolation.keep, self._directory
        if record.patch is None or keep == "always":
            return True
        is_untouched = record.outcome == "setup_failed" and record.patch.files == 0
        if keep == "failed" and record.outcome != "passed" and not is_untouched:
            return True
        return not directory.judge(record.item, [*directory.verdicts(record.item), record]).is_done


def _run(spec: RunSpec, prompt: str, digest: str, root: Path, pipe: int) -> int:
    """Run the prompt, and return the exit code. What `batch item` has to know goes to the pipe."""
    from acp_launch.app.planning import loaded_profile, prepare_launch, prepare_plan, resolve_trusted
    from acp_launch.app.start import launch_session

    screen = Screen("json")
    with screen.report_failures():
        settings = load_settings()
        prepare_launch()
        tell_forms(pipe)
        loaded = loaded_profile(spec.profile, settings)
        _require_frozen(loaded, digest)
        resolved = resolve_trusted(loaded, settings, cwd=spec.cwd, session=spec.session, typed=spec.cwd, trust=True)
        planned = prepare_plan(resolved, settings, waiting=screen.show_wait)
        _tell_place(planned, loaded, root, pipe)
        with launch_session(spec, settings, planned) as (started, chosen, _):
            from acp_launch.app.context import run_turn  # while the agent starts

            return run_turn(spec, started, chosen, prompt, screen)


def _require_frozen(loaded: Loaded, digest: str) -> None:
    """Refuse another profile than the one that was frozen, with this digest: that one was trusted."""
    if (now := digest_content(loaded)) != digest:
        what = f"this profile is not the one that was frozen: its digest is {now}, and was {digest}"
        raise MachineError([about(str(loaded.found.file), what, "restore it, or prepare a new batch")])


def _tell_place(planned: "PreparedPlan", loaded: Loaded, root: Path, pipe: int) -> None:
    """Tell `batch item` the place of a confined agent, which must not write in `root`, the directory of the batch."""
    if (place := planned.plan.place) is not None:
        if writable := find_writable(place, root):
            what = f"the agent is confined, but could write {writable}, which belongs to the batch"
            raise MachineError([about(str(loaded.found.file), what, "prepare a batch elsewhere: --out DIR")])
        tell_place(pipe, place)


class _RunProcess:
    """The process of a run. The signals that come from now on are its own: as a user's first and second Ctrl-C."""

    def __init__(self, work: Callable[[int], int], streams: Sequence[int], told: Told) -> None:
        """`streams` get stdout and stderr; they are closed here. `work` takes a pipe, and returns the exit code."""
        self._told = told
        self._news, tell = os.pipe()  # not inheritable, as all that follow
        os.set_blocking(self._news, False)
        self.signal_number = 0  # of the first that came
        self._signals = 0
        theirs, self._lifeline = os.pipe()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, shutdown.SIGNALS)
        try:
            self._pid = os.fork()
            if not self._pid:
                os.close(self._lifeline)
                os.close(self._news)
                _become_run(partial(work, tell), theirs, streams, mask)
            shutdown.set_listener(self._send)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            for descriptor in (theirs, tell, *streams):
                os.close(descriptor)

    def wait(self, is_cancelled: Callable[[], bool]) -> int:
        """Wait for its end, and return its exit code; a signal that ended it is negative."""
        poll = select.poll()
        poll.register(self._lifeline, 0)  # an error, once the process that alone reads it has ended
        poll.register(self._news, select.POLLIN)
        while not (ended := os.waitpid(self._pid, os.WNOHANG))[0]:
            is_told = any(descriptor == self._news for descriptor, _ in poll.poll(POLL_SECONDS * 1000))
            if is_told and not self._told.read(self._news):
                poll.unregister(self._news)
            if self._signals:
                shutdown.acknowledge()
            elif is_cancelled():
                self._send(signal.SIGINT)
        self._pid = 0
        self._told.read(self._news)
        os.close(self._news)
        os.close(self._lifeline)
        shutdown.acknowledge()
        return os.waitstatus_to_exitcode(ended[1])

    def _send(self, number: int) -> bool:
        self.signal_number = self.signal_number or number
        self._signals += 1
        if self._pid:
            os.kill(self._pid, number if self._signals < INSISTENT else signal.SIGKILL)
        return True


def _become_run(work: Callable[[], int], lifeline: int, streams: Sequence[int], mask: Iterable[int]) -> NoReturn:
    """Be the process of the run, and end as any `run` does."""

    def run() -> int:
        os.setsid()
        for number in shutdown.SIGNALS:  # only `batch item` sends them now, even if it ignores them itself
            signal.signal(number, signal.SIG_DFL)
        shutdown.listen()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for stream, descriptor in enumerate((os.open(os.devnull, os.O_RDONLY), *streams)):
            os.dup2(descriptor, stream)
            os.close(descriptor)
        shutdown.watch_lifeline(lifeline)
        return work()

    os._exit(shutdown.finish_with(partial(end_in_code, run)))
