"""
The user's own program as a store: one call for each name, which prints the value (`op read …`, `pass show …`).

It only reads. Programs do not agree on what an exit status means, so any but 0 is `unavailable`, with the last lines
of stderr as the reason; an empty answer is `missing`. What a program printed on stdout is never shown, nor is what
looks like a credential on stderr.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePath
from threading import Thread
from typing import NoReturn, Protocol

from acp_launch.errors import LaunchError, ProblemsError
from acp_launch.secret.detect import masked
from acp_launch.secret.value import MAX_VALUE, Outcome, Secret, State, StoreFault

PLACEHOLDER = "{name}"
AT_ONCE = 8  # programs at a time: each may be a hundred megabytes of somebody's runtime
LINES, LINE_LENGTH = 3, 200  # of stderr in a reason; characters


class Ending(Protocol):
    """Its text continues a sentence: `exited with status 1`."""

    @property
    def status(self) -> int | None: ...


class Captured(Protocol):
    """What one call gave. `out` may end early, when it is longer than any secret."""

    @property
    def ending(self) -> Ending: ...
    @property
    def out(self) -> bytes: ...
    @property
    def err(self) -> Sequence[str]: ...
    @property
    def timed_out(self) -> bool: ...


Run = Callable[[Sequence[str], float], Captured]  # argv and seconds; raises LaunchError when it cannot be started


def open_command(argv: Sequence[str], *, limit: float, run: Run) -> "CommandStore":
    """The store whose values `argv` prints; `limit` is for each name, in seconds."""
    return CommandStore(argv, limit, run)


class CommandStore:
    def __init__(self, argv: Sequence[str], limit: float, run: Run) -> None:
        self._argv = tuple(argv)
        self._limit = limit
        self._run = run
        self._program = PurePath(argv[0]).name if argv else "none"

    @property
    def label(self) -> str:
        return f"command ({self._program})"

    def prepare(self, *, writing: bool = False) -> None:
        """The program asks for itself what it needs, in its own way. Nobody is asked for a value it cannot take."""
        if writing:
            raise self._only_reads()

    def read(self, names: Sequence[str]) -> Mapping[str, Outcome]:
        self._require_placeholder()
        outcomes = _in_parallel(self._outcome, names)
        return {name: outcomes[name] for name in names}

    def write(self, name: str, secret: Secret) -> NoReturn:
        raise self._only_reads()

    def remove(self, name: str) -> NoReturn:
        raise self._only_reads()

    def names(self) -> Mapping[str, float | None] | None:
        """Programs have no common way to list."""
        return None

    def _require_placeholder(self) -> None:
        """The settings check says so too, with its line."""
        if not any(PLACEHOLDER in argument for argument in self._argv[1:]):
            reason = f"no argument of the command holds {PLACEHOLDER}, so it would answer the same for every secret"
            raise StoreFault("unavailable", reason, fix="correct secrets.command in config.yaml")

    def _outcome(self, name: str) -> Outcome:
        if _leads_elsewhere(name, self._argv):
            reason = f'"{name}" would be an option or another folder to {self._program}'
            return self._failed("denied", reason, "choose another name")
        try:
            captured = self._run([argument.replace(PLACEHOLDER, name) for argument in self._argv], self._limit)
        except LaunchError as error:
            return self._failed(
                "unavailable", _sentence(error), "install it, or correct secrets.command in config.yaml"
            )
        return self._judged(name, captured)

    def _judged(self, name: str, captured: Captured) -> Outcome:
        if len(captured.out) > MAX_VALUE + len("\r\n"):
            return self._too_large()
        if captured.timed_out:
            reason = f"{self._program} did not answer within {self._limit:g} s{_last(captured.err)}"
            return self._failed("unavailable", reason, "call it yourself once: it may be waiting for you to sign in")
        if captured.ending.status != 0:
            reason = f"{self._program} {captured.ending}{_last(captured.err)}"
            return self._failed("unavailable", reason, f'call it yourself for "{name}" until it answers')
        return self._answered(captured.out)

    def _answered(self, out: bytes) -> Outcome:
        value = _without_line_end(out)
        if len(value) > MAX_VALUE:
            return self._too_large()
        try:
            text = value.decode()
        except UnicodeDecodeError:
            return self._failed("unavailable", f"{self._program} printed something that is not UTF-8", _ENCODE)
        if "\0" in text:
            return self._failed("unavailable", f"{self._program} printed a NUL character", _ENCODE)
        missing = Outcome("missing", self.label, fix=f"put it there with {self._program} itself")
        return Outcome("found", self.label, Secret(text)) if text else missing

    def _too_large(self) -> Outcome:
        reason = f"{self._program} printed more than {MAX_VALUE} bytes, the most a secret may have"
        return self._failed("too large", reason, "check that it prints one secret and nothing else")

    def _failed(self, state: State, reason: str, fix: str) -> Outcome:
        return Outcome(state, self.label, reason=reason, fix=fix)

    def _only_reads(self) -> StoreFault:
        fix = f"change it with {self._program} itself, or choose another secrets.store in config.yaml"
        return StoreFault("denied", "the store is a command, which only reads", fix=fix)


def _in_parallel(work: Callable[[str], Outcome], names: Sequence[str]) -> dict[str, Outcome]:
    """In threads that end with the last of their commands, each bounded; daemons, so that Ctrl-C waits for none."""
    waiting = deque(names)
    outcomes: dict[str, Outcome] = {}
    failures: list[BaseException] = []

    def ask() -> None:
        while (name := _next(waiting)) is not None:
            try:
                outcomes[name] = work(name)
            except BaseException as failure:
                failures.append(failure)
                waiting.clear()

    threads = _started([Thread(target=ask, name="secret", daemon=True) for _ in names[:AT_ONCE]])
    if not threads:
        ask()
    for thread in threads:
        thread.join()
    for failure in failures:
        raise failure
    return outcomes


def _started(threads: Iterable[Thread]) -> list[Thread]:
    """As many of them as the system allows."""
    started = []
    for thread in threads:
        try:
            thread.start()
        except RuntimeError:  # ulimit -u
            break
        started.append(thread)
    return started


def _next(waiting: deque[str]) -> str | None:
    try:
        return waiting.popleft()
    except IndexError:
        return None


_ENCODE = "store it as text, base64-encoded for instance"


def _leads_elsewhere(name: str, argv: Sequence[str]) -> bool:
    """A profile chooses names; the user alone chooses options and folders."""
    is_option = name.startswith("-") and any(argument.startswith(PLACEHOLDER) for argument in argv)
    return is_option or not {".", ".."}.isdisjoint(name.split("/"))


def _without_line_end(out: bytes) -> bytes:
    """The one that programs print after a value; more are part of it."""
    return out[:-2] if out.endswith(b"\r\n") else out.removesuffix(b"\n")


_STYLE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")  # colours; one before a credential, or in it, would hide its shape


def _last(err: Sequence[str]) -> str:
    """The end of stderr as part of a sentence, with nothing in it that could drive a terminal, or is secret."""
    lines = [_visible(line.strip()[:LINE_LENGTH]) for line in _discreet(err)]
    return f": {' / '.join(lines)}" if lines else ""


def _discreet(err: Sequence[str]) -> list[str]:
    """Masked whole lines: half a credential looks like none. Only a key file is one in several."""
    text = _STYLE.sub("", "\n".join(err))
    if "-----BEGIN" in text:
        text = masked(text)
    return [masked(line) for line in [line for line in text.split("\n") if line.strip()][-LINES:]]


def _visible(text: str) -> str:
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text)


def _sentence(error: LaunchError) -> str:
    return error.problems[0].message if isinstance(error, ProblemsError) else error.message
