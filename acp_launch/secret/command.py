"""
The `command` store: a program of the user that prints a value, called once for each name (`op read …`, `pass show …`).

It only reads. Programs do not agree on exit statuses, so any status but 0 is `unavailable`, with the last lines of
stderr as the reason; an empty answer is `missing`. The program's stdout is never shown, and neither is text on stderr
that looks like a credential.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePath
from typing import Any, NoReturn, Protocol

from acp_launch.errors import LaunchError, ProblemsError
from acp_launch.regex import regex
from acp_launch.secret.detect import masked
from acp_launch.secret.value import MAX_VALUE, PROGRAMS_AT_ONCE, Outcome, Secret, State, StoreFault

PLACEHOLDER = "{name}"
STDERR_LINES, MAX_LINE_CHARS = 3, 200  # of stderr in a reason


class Captured(Protocol):
    """The result of one call. `out` may be cut when it is longer than any secret."""

    @property
    def ending(self) -> Any:
        """How the program ended: its `status`; its text continues a sentence: `exited with status 1`."""

    @property
    def out(self) -> bytes: ...
    @property
    def err(self) -> Sequence[str]: ...
    @property
    def timed_out(self) -> bool: ...


Run = Callable[[Sequence[str], float], Captured]  # argv and seconds; raises LaunchError if the program does not start


class CommandStore:
    """The store whose values `argv` prints; `limit` is for each name, in seconds."""

    def __init__(self, argv: Sequence[str], *, limit: float, run: Run) -> None:
        self._argv = tuple(argv)
        self._limit = limit
        self._run = run
        self._program = PurePath(argv[0]).name if argv else "none"

    @property
    def label(self) -> str:
        return f"command ({self._program})"

    def prepare(self, *, writing: bool = False) -> None:
        """Refuse to write. To read, the program itself asks for what it needs."""
        if writing:
            raise self._only_reads()

    def read(self, names: Sequence[str]) -> Mapping[str, Outcome]:
        self._require_placeholder()
        with ThreadPoolExecutor(PROGRAMS_AT_ONCE) as pool:
            return dict(zip(names, pool.map(self._outcome, names), strict=True))

    def write(self, name: str, secret: Secret) -> NoReturn:
        raise self._only_reads()

    def remove(self, name: str) -> NoReturn:
        raise self._only_reads()

    def names(self) -> Mapping[str, float | None] | None:
        """Return None: programs have no common way to list."""
        return None

    def _require_placeholder(self) -> None:
        """Refuse a command without a placeholder. The settings check reports it too, with its line."""
        if not any(PLACEHOLDER in argument for argument in self._argv[1:]):
            reason = (
                f"no argument of the command holds {PLACEHOLDER}, so it would print the same value for every secret"
            )
            raise StoreFault("unavailable", reason, fix="correct secrets.command in config.yaml")

    def _outcome(self, name: str) -> Outcome:
        is_option = name.startswith("-") and any(argument.startswith(PLACEHOLDER) for argument in self._argv)
        if is_option or not {".", ".."}.isdisjoint(name.split("/")):
            reason = f'"{name}" would be an option or another directory for {self._program}'
            return self._failed("denied", reason, "choose another name")
        try:
            captured = self._run([argument.replace(PLACEHOLDER, name) for argument in self._argv], self._limit)
        except LaunchError as error:
            return self._failed("unavailable", sentence(error), "install it, or correct secrets.command in config.yaml")
        if len(captured.out) > MAX_VALUE + len("\r\n"):
            return self._too_large()
        if reason := failure(self._program, captured, self._limit):
            signing_in = "run it once yourself: it may be waiting for you to sign in"
            fix = signing_in if captured.timed_out else f'run it yourself for "{name}", and correct what it reports'
            return self._failed("unavailable", reason, fix)
        return self._answered(captured.out)

    def _answered(self, out: bytes) -> Outcome:
        # The one line end that programs print after a value. Further ones are part of it.
        value = out[:-2] if out.endswith(b"\r\n") else out.removesuffix(b"\n")
        if len(value) > MAX_VALUE:
            return self._too_large()
        try:
            text = value.decode()
        except UnicodeDecodeError:
            return self._failed("unavailable", f"{self._program} printed something that is not UTF-8", _ENCODE)
        if "\0" in text:
            return self._failed("unavailable", f"{self._program} printed a NUL character", _ENCODE)
        missing = Outcome("missing", self.label, fix=f"add it with {self._program}")
        return Outcome("found", self.label, Secret(text)) if text else missing

    def _too_large(self) -> Outcome:
        reason = f"{self._program} printed more than {MAX_VALUE} bytes; a secret may have at most that"
        return self._failed("too large", reason, "check that it prints one secret and nothing else")

    def _failed(self, state: State, reason: str, fix: str) -> Outcome:
        return Outcome(state, self.label, reason=reason, fix=fix)

    def _only_reads(self) -> StoreFault:
        fix = f"change it with {self._program}, or choose another secrets.store in config.yaml"
        return StoreFault("denied", "the store is a command, which is read-only", fix=fix)


def failure(program: str, captured: Captured, limit: float) -> str:
    """Return how a call failed, with the end of its stderr: `op exited with status 1: not signed in`; empty if it did
    not fail."""
    if captured.timed_out:
        return f"{program} did not answer within {limit:g} s{_last(captured.err)}"
    return f"{program} {captured.ending}{_last(captured.err)}" if captured.ending.status != 0 else ""


_ENCODE = "store it as text, base64-encoded for instance"


_STYLE = regex(r"\x1b\[[0-?]*[ -/]*[@-~]")  # colours; one before or in a credential would hide its shape


def _last(err: Sequence[str]) -> str:
    """Return the end of stderr as part of a sentence, without control characters and secrets."""
    text = " / ".join(line.strip()[:MAX_LINE_CHARS] for line in _discreet(err))
    shown = "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text)
    return f": {shown}" if shown else ""


def _discreet(err: Sequence[str]) -> list[str]:
    """Mask whole lines, because half a credential is not recognized. Only a key file spans several lines."""
    text = _STYLE.sub("", "\n".join(err))
    if "-----BEGIN" in text:
        text = masked(text)
    return [masked(line) for line in [line for line in text.split("\n") if line.strip()][-STDERR_LINES:]]


def sentence(error: LaunchError) -> str:
    return error.problems[0].message if isinstance(error, ProblemsError) else error.message
