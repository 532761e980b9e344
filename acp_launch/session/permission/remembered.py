"""
The user's remembered answers, for one profile in one project: a small private file.

It is replaced whole, under a lock, so that ten runs may add answers at once and each may be killed at any instant:
stored answers stay, and no process reads half of them. A file that we did not write in this form is refused and left in
place: a lost "no" must not silently become a question again. An answer never contains a secret.
"""

import os
import shlex
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from acp_launch.descent import remove
from acp_launch.errors import StateError
from acp_launch.private import Unfit, locked, make_private, read_bounded, replace
from acp_launch.problem import ours
from acp_launch.secret.redact import redactor
from acp_launch.session.permission.audit import digest, of_profile
from acp_launch.session.permission.policy import Policy, Remembered, policy
from acp_launch.waits import stretch

if TYPE_CHECKING:
    from acp_launch.plan.model import LaunchPlan
    from acp_launch.session.permission.policy import Approve
    from acp_launch.settings.model import Settings

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
    _check(answer)
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


def _check(answer: Remembered) -> None:
    fix = "write a rule in the profile"
    try:
        content = msgspec.json.encode(answer)
    except UnicodeEncodeError:  # half an emoji
        raise StateError("cannot remember the answer: its call is not valid Unicode", fix=fix) from None
    if len(content) > MAX_ANSWER_BYTES:
        raise StateError(f"cannot remember the answer: its call takes {len(content):,} bytes", fix=fix)
    if redactor.raw_json(content) != content:
        raise StateError("cannot remember the answer: its call holds a secret", fix=fix)


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


def shelf_of(plan: "LaunchPlan", settings: "Settings") -> AnswerStore:
    return AnswerStore(settings.state, str(plan.project), plan.profile, plan.called)


def rules_of(plan: "LaunchPlan", settings: "Settings", approve: "Approve | None") -> Policy:
    """Return the rules about tool calls of a plan, with the answers that were kept until now."""
    return policy(plan, approve=approve, remembered=load(shelf_of(plan, settings)), home=os.environ.get("HOME", ""))
