"""
The records of decisions: the permission log, and the answers that the user wants to be remembered.

The log has what was asked, what was answered, and by which rule. One JSON object a line, one file a profile. It is only
appended to, and never removed with other logs. A full file is renamed, with `.1` after its name, and a new one begins.
Each line is one write of at most 64 KiB at the end of the file, so that several runs can share it. Secrets are redacted
before anything is cut. A full disk stops no work: that is reported once, and later lines are tried again.

A run that asks faster than a user could read cannot fill the disk, or push out the entries of others: beyond `BURST`
bytes at once, and `RATE` afterwards, calls are counted by their answer, and the counts are logged.

`Audit` writes, `entries` reads.

The remembered answers, for one profile in one project, are a small private file. It is replaced whole, under a lock, so
that ten runs may add answers at once and each may be killed at any instant: stored answers stay, and no process reads
half of them. A file that we did not write in this form is refused and left in place: a lost "no" must not silently
become a question again. An answer never contains a secret.
"""

import json
import os
import shlex
import stat
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
from msgspec import Struct
from msgspec.structs import replace as replace_fields

from acp_launch.descent import remove
from acp_launch.errors import StateError
from acp_launch.plan.model import LaunchPlan
from acp_launch.private import Unfit, hash_content, locked, make_private, read_bounded, replace, take_lock
from acp_launch.problem import ours
from acp_launch.protocol import acp
from acp_launch.secret.redact import redactor
from acp_launch.session.events import Decision, Holds, Way
from acp_launch.session.permission.policy import Approve, Policy, Remembered, chosen_name, policy
from acp_launch.session.permission.subject import subject
from acp_launch.waits import format_time, stretch

if TYPE_CHECKING:
    from acp_launch.settings.model import Settings


# The name of a profile as a part of a file's name: readable and unique.


MAX_NAME_CHARS = 120  # a file's name has room for 255 bytes


def of_profile(profile: str) -> str:
    text = quote(profile, safe=" ", errors="surrogateescape")
    return text if len(text) <= MAX_NAME_CHARS else f"{text[: MAX_NAME_CHARS - 17]}~{digest(profile)}"


def digest(*words: str) -> str:
    """Return 16 hexadecimal digits that identify these words."""
    return hash_content("\0".join(words).encode(errors="surrogateescape"))[:16]


SUFFIX = ".permissions.ndjson"
OLDER = ".1"  # after the name of the file before this one
MAX_FILE_BYTES = 10 * 1024 * 1024
BURST, RATE = 1024 * 1024, 16 * 1024  # bytes, about 2,000 answers; and bytes a second
KINDS = 50  # of answers that are counted separately
COUNTED = 10_000  # answers after which the counts are logged
COUNTED_BY = ("session", "how", "answer", "by", "kind")
MAX_LINE_BYTES = 64 * 1024
_LIMITS = (8000, 2000, 500, 100)  # characters of one text; the first that makes a line short enough
_ITEMS = 20  # of a list
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK


class Audit:
    """Writes one run's entries.

    The file is created with its first line; `note` is called once if it cannot be written.
    """

    def __init__(
        self,
        state: Path,
        profile: str,
        *,
        project: str,
        note: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.file = state / "log" / f"{of_profile(profile)}{SUFFIX}"
        self._always = {"profile": profile, "project": project}
        self._note = note
        self._clock = clock
        self._descriptor = -1
        self._is_torn = False  # whether the last line has no end
        self._has_failed = False
        self._room, self._looked = float(BURST), clock()
        self._is_flooded = False  # whether the user was told
        self._beyond: Counter[tuple[str, ...]] = Counter()  # by `COUNTED_BY`

    def record(
        self,
        how: Way,
        call: dict[str, Any],
        options: Sequence[Any],
        *,
        allowed: bool,
        by: str,
        option_id: str | None,
        session: str,
        cwd: str = "/",
    ) -> None:
        """Log an answer: to a question of the agent (`asked`), to our own before we serve it
        (`service`), or a call that ran without a question (`unasked`)."""
        answer = "ran" if how == "unasked" else "allow" if allowed else "deny"
        if not self._has_room():
            about = (session, how, answer, by, acp.text(call.get("kind")))
            if not self._is_flooded:
                self._is_flooded = True
                self._note("the agent asks too fast to log each call: the permission log counts the rest")
            known = about in self._beyond or len(self._beyond) < KINDS
            self._beyond[about if known else (*about[:3], "", "")] += 1
            if self._beyond.total() >= COUNTED:
                self._settle()
            return
        self._settle()
        self._write(
            {
                "session": session,
                "how": how,
                "answer": answer,
                "by": by,
                "option": option_id,
                "chosen": chosen_name(option_id, options),
                "offered": [acp.text(option.get("kind")) for option in map(acp.mapping, options)],
                **_about(call, cwd),
            }
        )

    def close(self) -> None:
        self._settle()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _has_room(self) -> bool:
        now = self._clock()
        self._room = min(float(BURST), self._room + max(0.0, now - self._looked) * RATE)
        self._looked = now
        return self._room > 0

    def _settle(self) -> None:
        """Log the calls that were only counted."""
        beyond, self._beyond = self._beyond, Counter()
        for about, count in beyond.items():
            title = f"{count:,} more calls, which came too fast to be logged"
            self._write({**dict(zip(COUNTED_BY, about, strict=True)), "title": title, "count": count})

    def _write(self, entry: dict[str, Any]) -> None:
        line = _line(redactor.tree({"time": format_time(self._clock()), **self._always, **entry}))
        self._room -= len(line)
        try:
            self._append(line)
        except OSError as fault:
            self._fail(fault)

    def _append(self, line: bytes) -> None:
        if self._descriptor < 0 or not self._is_current():
            self._open()
        if os.fstat(self._descriptor).st_size + len(line) > MAX_FILE_BYTES:
            self._turn_over()
        data = b"\n" + line if self._is_torn else line
        written = os.write(self._descriptor, data)
        if written:
            self._is_torn = written < len(data)
        if written < len(data):
            raise OSError(0, "only half a line was written")

    def _is_current(self) -> bool:
        """Whether the file still has its name: another run may have found it full."""
        try:
            named = self.file.lstat()
        except FileNotFoundError:
            return False
        return os.path.samestat(named, os.fstat(self._descriptor))

    def _turn_over(self) -> None:
        """Begin a new file, unless another run is about to."""
        try:
            is_ours = take_lock(self._descriptor)
        except OSError:
            return
        if not is_ours:
            return
        if self._is_current():
            with suppress(FileNotFoundError):
                self.file.rename(f"{self.file}{OLDER}")
        self._open()

    def _open(self) -> None:
        make_private(self.file.parent)
        descriptor = os.open(self.file, _FLAGS, 0o600)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(0, "it is not a file")
            size = status.st_size
            self._is_torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        except BaseException:
            os.close(descriptor)
            raise
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = descriptor

    def _fail(self, fault: OSError) -> None:
        if self._has_failed:
            return
        self._has_failed = True
        reason = fault.strerror or str(fault)
        self._note(f"cannot write the permission log {self.file} ({reason}); the run continues without it")


def _about(call: dict[str, Any], cwd: str) -> dict[str, Any]:
    about = subject(call, cwd=cwd)
    return {
        "tool_call": acp.text(call.get("toolCallId")),
        "title": about.title,
        "kind": about.kind,
        "tool": about.tool,
        "paths": list(about.paths),
        "command": about.command,
        "input": call.get("rawInput"),
    }


def _line(entry: dict[str, Any]) -> bytes:
    lines = (_encode({key: _cut(value, most) for key, value in entry.items()}) for most in _LIMITS)
    return next(line for line in lines if len(line) <= MAX_LINE_BYTES)


def _encode(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode(errors="replace") + b"\n"


def _cut(value: Any, most: int) -> Any:
    """Cut texts longer than `most` characters, with a note of how much is missing."""
    if isinstance(value, str):
        return value if len(value) <= most else f"{value[:most]} [... {len(value) - most:,} characters more]"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        cut = [_cut(item, most) for item in value[:_ITEMS]]
        return cut if len(value) <= _ITEMS else [*cut, f"[... {len(value) - _ITEMS:,} more]"]
    if isinstance(value, dict | list):
        try:
            text = json.dumps(value, ensure_ascii=False)
        except RecursionError:
            return "[nested too deep]"
        return value if len(text) <= most else _cut(text, most)
    return value


# Reading the permission logs, leniently: a line that is not ours is counted, not shown.


def files(state: Path, profile: str | None = None) -> list[Path]:
    """Return the existing files of a profile's log, or of all logs; the older one of each first."""
    if profile is None:
        found = [*(state / "log").glob(f"*{SUFFIX}{OLDER}"), *sorted((state / "log").glob(f"*{SUFFIX}"))]
    else:
        file = state / "log" / f"{of_profile(profile)}{SUFFIX}"
        found = [file.with_name(f"{file.name}{OLDER}"), file]
    return [file for file in found if file.is_file()]


def entries(files: list[Path], last: int | None = None) -> tuple[list[dict[str, Any]], int]:
    """Return the entries in the order of time, at most the `last` ones, and the number of damaged lines.

    Raises:
        StateError: a file cannot be read.
    """
    read = [entry for file in files for entry in _lines(file)]
    found = sorted((entry for entry in read if entry is not None), key=lambda entry: str(entry.get("time", "")))
    return (found if last is None else found[max(0, len(found) - last) :]), len(read) - len(found)


def _lines(file: Path) -> Iterator[dict[str, Any] | None]:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as stream:
            while line := stream.readline(MAX_LINE_BYTES + 1):
                if line.strip():
                    yield _entry(line)
    except OSError as fault:
        reason = (fault.strerror or str(fault)).lower()
        raise StateError(f"cannot read the permission log {file}: {reason}", fix=f"check its mode: {file}") from None


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


VERSION = 3
LOCK_TIMEOUT = stretch(5.0)  # other writers take some milliseconds each
MAX_ANSWERS = 1000  # of one profile
MAX_ANSWER_BYTES = 64 * 1024
_MAX_FILE_BYTES = MAX_ANSWERS * MAX_ANSWER_BYTES + 64 * 1024

Answers = tuple[Remembered, ...]


class _Kept(Struct, frozen=True, forbid_unknown_fields=True):
    """The file. `project` and `profile` tell its reader whose it is."""

    version: int
    project: str
    profile: str
    answers: Answers


class AnswerStore(Struct, frozen=True):
    """The owner of answers: `profile` in `project`, below the user's `state` directory.

    `called` is its name in commands, if different.
    """

    state: Path
    project: str
    profile: str
    called: str = ""

    @property
    def file(self) -> Path:
        name = f"{of_profile(self.profile)}-{digest(self.project, self.profile)}.json"
        return self.state / "permissions" / name


def load(store: AnswerStore) -> Answers:
    """Return the stored answers, the oldest first.

    Raises:
        StateError: the file cannot be read, or is damaged.
    """
    with _explain(store):
        return _read(store)


def keep(store: AnswerStore, answer: Remembered) -> None:
    """Store an answer, replacing an earlier one to the same call.

    Raises:
        StateError: it cannot be stored; nothing was changed.
    """
    fix = "write a rule in the profile"
    try:
        content = msgspec.json.encode(answer)
    except UnicodeEncodeError:  # half an emoji
        raise StateError("cannot remember the answer: its call is not valid Unicode", fix=fix) from None
    if len(content) > MAX_ANSWER_BYTES:
        raise StateError(f"cannot remember the answer: its call takes {len(content):,} bytes", fix=fix)
    if redactor.raw_json(content) != content:
        raise StateError("cannot remember the answer: its call holds a secret", fix=fix)
    _change(store, lambda answers: (*(each for each in answers if not _is_same(each, answer)), answer))


def forget(store: AnswerStore, numbers: Collection[int] | None = None) -> Answers:
    """Forget the answers with these numbers, counted from 1 in the order of `load`, or all. Returns them.

    Raises:
        StateError: a number does not exist, or the file cannot be read or written; nothing was changed.
    """
    gone: list[Remembered] = []

    def without(answers: Answers) -> Answers:
        chosen = range(1, len(answers) + 1) if numbers is None else numbers
        if unknown := [number for number in chosen if not 1 <= number <= len(answers)]:
            raise StateError(
                f'"{store.profile}" has no remembered answer {unknown[0]}; there are {len(answers)}',
                fix=ours("permission", "list", store.called or store.profile),
            )
        gone.extend(answer for number, answer in enumerate(answers, 1) if number in chosen)
        return tuple(answer for number, answer in enumerate(answers, 1) if number not in chosen)

    _change(store, without)
    return tuple(gone)


def _change(store: AnswerStore, change: Callable[[Answers], Answers]) -> None:
    with _explain(store):
        make_private(store.file.parent)
        with locked(store.file.with_suffix(".lock"), LOCK_TIMEOUT):
            before = _read(store)
            after = change(before)
            if len(after) > MAX_ANSWERS:
                fix = ours("permission", "forget", store.called or store.profile, "N")
                raise StateError(f'"{store.profile}" has {MAX_ANSWERS} remembered answers, the maximum', fix=fix)
            if after != before:
                _write(store, after)


def _read(store: AnswerStore) -> Answers:
    found = read_bounded(store.file, _MAX_FILE_BYTES)
    if found is None:
        return ()
    kept = msgspec.json.decode(found[0], type=_Kept)
    if kept.version != VERSION:
        raise Unfit(f"is of version {kept.version}, and this acp-launch knows {VERSION}")
    if (kept.project, kept.profile) != (store.project, store.profile):
        raise Unfit("belongs to another profile")
    return kept.answers


def _write(store: AnswerStore, answers: Answers) -> None:
    for left in store.file.parent.glob(f".{store.file.name}.*"):  # left by a writer that was killed; we hold the lock
        remove(left)
    content = msgspec.json.encode(_Kept(VERSION, store.project, store.profile, answers))
    replace(store.file, msgspec.json.format(content, indent=1) + b"\n")


def _is_same(one: Remembered, other: Remembered) -> bool:
    """Whether both are about the same call."""
    return msgspec.structs.replace(one, answer=other.answer, since=other.since) == other


@contextmanager
def _explain(store: AnswerStore) -> Iterator[None]:
    try:
        yield
    except (Unfit, msgspec.MsgspecError, UnicodeDecodeError, OSError) as fault:  # a TimeoutError is an OSError
        raise _explanation(store.file, fault) from fault


def _explanation(file: Path, fault: Exception) -> StateError:
    aside = f"mv {shlex.quote(str(file))} {shlex.quote(f'{file}.damaged')}, and answer again"
    if isinstance(fault, Unfit):
        return StateError(f"cannot use the remembered answers: {file} {fault}", fix=aside)
    if isinstance(fault, TimeoutError):
        return StateError(
            f"the remembered answers in {file} are in use by another process ({LOCK_TIMEOUT:g} s)", fix="try again"
        )
    if isinstance(fault, OSError):
        reason = (fault.strerror or str(fault)).lower()
        fix = f"check the owner, the mode and the free space of {shlex.quote(str(file.parent))}"
        return StateError(f"cannot read or write the remembered answers in {file}: {reason}", fix=fix)
    why = "not UTF-8" if isinstance(fault, UnicodeDecodeError) else str(fault)
    return StateError(f"the remembered answers in {file} are damaged: {why}", fix=aside)


def shelf_of(plan: LaunchPlan, settings: "Settings") -> AnswerStore:
    return AnswerStore(settings.state, str(plan.project), plan.profile, plan.called)


def rules_of(plan: LaunchPlan, settings: "Settings", approve: Approve | None) -> Policy:
    """Return the rules about tool calls of a plan, with the answers that were kept until now."""
    return policy(plan, approve=approve, remembered=load(shelf_of(plan, settings)), home=os.environ.get("HOME", ""))


class PermissionRecord:
    """Records the permission decisions of one launch; implements `session.permission.gate.DecisionLog`."""

    def __init__(self, plan: LaunchPlan, settings: "Settings", note: Callable[[str], None]) -> None:
        """`note` receives a message when an answer or a record cannot be saved."""
        self._cwd, self._note = str(plan.directory), note
        self._shelf = shelf_of(plan, settings)
        self._audit = Audit(settings.state, plan.profile, project=str(plan.project), note=note)

    def keep(self, answer: Remembered | None, *, holds: Holds, session: str) -> Remembered | None:
        if answer is None:
            self._note("this answer applies only once: the call does not say enough to be recognized again")
            return None
        here = replace_fields(answer, session=session)
        if holds != "always":
            return here
        try:
            keep(self._shelf, answer)
        except StateError as error:
            self._note(f"the answer applies only to this session and could not be saved: {error.message}")
            return here
        return answer

    def record(self, how: Way, call: dict[str, Any], options: list[Any], decision: Decision, session: str) -> None:
        self._audit.record(
            how,
            call,
            options,
            allowed=decision.allowed,
            by=decision.by,
            option_id=decision.option_id,
            session=session,
            cwd=self._cwd,
        )

    def close(self) -> None:
        self._audit.close()
