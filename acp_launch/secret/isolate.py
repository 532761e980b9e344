"""
Isolation for foreign code: keyring libraries that may hang, print, ask for input or raise anything.

    diverted, stdout_restored   descriptors 0 and 1 while foreign code runs
    bounded                     work in a thread that is abandoned after a deadline
    without_prompts             no input and no password prompts in this thread
    attempt, sentence, …        foreign exceptions as `StoreFault`, without the secret value

A thread cannot be ended from outside. This one is a daemon: it does not hold up the caller after the deadline, and its
late result is dropped. Threads that it started do not hold up our exit (shutdown.py), and processes that it started are
killed during the exit.
"""

import getpass
import io
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar, cast

from acp_launch import shutdown, waits
from acp_launch.secret.value import MAX_VALUE, Outcome, Secret, StoreFault, size

if TYPE_CHECKING:
    from concurrent.futures import Future

# Descriptors 0 and 1 while foreign code works in this process or starts programs.
#
# Our stdin may be a pipe with the value to set, our stdout a stream of JSON. Meanwhile descriptor 0 is at end of file
# and descriptor 1 leads to stderr, for this process and for every program it starts. Descriptors belong to the process,
# not to a thread: the main thread only waits, and prints within `stdout_restored`. What foreign code prints in those
# milliseconds reaches stdout; what its programs print does not, if they started before.


_DIVERTED = (0, 1)
_one_at_a_time = threading.Lock()
_working: set[object] = set()
_kept: list[int] = []  # copies of descriptors 0 and 1 while they are diverted


@contextmanager
def diverted() -> Iterator[None]:
    """Divert descriptors 0 and 1 for the block. Any number of threads may do so; the last one restores them."""
    work = object()
    _flush()
    with _one_at_a_time:
        if not _kept:
            nothing = os.open(os.devnull, os.O_RDONLY)
            try:
                _kept.extend([os.dup(descriptor) for descriptor in _DIVERTED])
                os.dup2(nothing, 0)
                os.dup2(2, 1)
            finally:
                os.close(nothing)
        _working.add(work)
    try:
        yield
    finally:
        _flush()
        with _one_at_a_time:
            _working.discard(work)
            if not _working:
                _restore()


@contextmanager
def stdout_restored() -> Iterator[None]:
    """Restore stdout for the block."""
    _flush()
    with _one_at_a_time:
        if _kept:
            os.dup2(_kept[1], 1)
    try:
        yield
    finally:
        _flush()
        with _one_at_a_time:
            if _kept:
                os.dup2(2, 1)


def restore_descriptors() -> None:
    """Restore descriptors 0 and 1, even though abandoned work still runs."""
    _flush()
    with _one_at_a_time:
        _working.clear()
        _restore()


def _restore() -> None:
    for descriptor, kept in zip(_DIVERTED, _kept, strict=False):  # the copies are gone if they were restored already
        os.dup2(kept, descriptor)
        os.close(kept)
    _kept.clear()


def _flush() -> None:
    """Write the buffered output to where descriptor 1 leads now, before it changes."""
    for stream in (sys.stdout, sys.__stdout__):
        if stream is not None:
            with suppress(OSError, ValueError):  # the next writer gets the error
                stream.flush()


T = TypeVar("T")

_children_before: set[int] | None = None


class Late(Exception):  # noqa: N818
    """Raised when the work was not done in time; it may still be running."""


class NoThread(Exception):  # noqa: N818
    """Raised when the system allows no thread for the work (`ulimit -u`)."""


def bounded(work: Callable[[], T], *, limit: float, waiting: Callable[[float], None]) -> T:
    """Return or raise the result of `work`, if it comes within `limit` seconds. Ctrl-C ends the wait at once.

    `waiting` receives the seconds so far, at the intervals of every wait (`waits`).

    Raises:
        Late: the deadline passed.
        NoThread: the work did not start.
        RuntimeError: the work tried to end its thread or this process (SystemExit, GeneratorExit).
    """
    global _children_before
    if _children_before is None:
        _children_before = _children() | _children()  # the kernel may omit one whose sibling exits
    from concurrent.futures import Future, wait  # most commands ask no store

    answer: Future[T] = Future()
    try:
        threading.Thread(target=_run_work, args=(work, answer), daemon=True).start()
    except RuntimeError as error:
        raise NoThread from error
    try:
        begun, word = time.monotonic(), waits.FIRST_NOTICE
        while not wait([answer], max(0.0, begun + min(word, limit) - time.monotonic())).done:
            if word >= limit:
                raise Late
            with stdout_restored():
                waiting(word)
            word = waits.next_notice(word)
    except BaseException:  # the deadline; a signal; a stdout that refuses the message
        shutdown.at_exit(end_children)
        restore_descriptors()
        raise
    return answer.result()


def end_children() -> None:
    """Kill our direct children that abandoned work started: a dialog, a program that hangs.

    Linux only. Their own children, and daemons they left behind, live on. Call this only when nothing that we started
    ourselves is alive.
    """
    if sys.platform == "linux":
        for pid in _children() - (_children_before or set()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _run_work(work: Callable[[], T], answer: "Future[T]") -> None:
    try:
        answer.set_result(work())
    except (Exception, KeyboardInterrupt) as error:
        answer.set_exception(error)
    except BaseException as error:  # in the caller's thread it would look like an exit that was asked for
        answer.set_exception(RuntimeError(f"work that must not end anything raised {type(error).__name__}"))


def _children() -> set[int]:
    """Return our children as the kernel lists them; empty where it does not (Linux needs CONFIG_PROC_CHILDREN)."""
    found: set[int] = set()
    for listed in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # a thread that has just ended
            found.update(map(int, listed.read_text().split()))
    return found


# Keyring backends ask for a password with `input` and `getpass`, even if stdin is a JSON-RPC pipe.
#
# While a backend works, its own thread finds stdin at end of file and cannot ask. Other threads notice nothing, not
# even when this one hangs for ever and is abandoned. Only descriptors 0 and 1, which programs that it starts inherit,
# are shared by the whole process (see `diverted`).


class _Thread(threading.local):
    quiet = False
    is_beside = False


_this = _Thread()


@contextmanager
def beside_a_session() -> Iterator[None]:
    """Leave descriptors 0 and 1 alone while this thread works: a session reads and writes there."""
    _this.is_beside = True
    try:
        yield
    finally:
        _this.is_beside = False


@contextmanager
def without_prompts() -> Iterator[None]:
    """Prevent prompts in this thread, and in the programs it starts.

    Reading stdin gives end of file, asking for a password raises EOFError, and printed text goes to stderr. Beside a
    session only the first two hold, and not for programs.
    """
    stdin, asking = sys.stdin, getpass.getpass
    ours, refusing = cast(TextIO, _Stdin(stdin)), _refusing(asking)
    sys.stdin, getpass.getpass, _this.quiet = ours, refusing, True
    try:
        with nullcontext() if _this.is_beside else diverted():
            yield
    finally:
        _this.quiet = False
        # Other code may have replaced ours. Then ours stays behind it and only passes calls on.
        if sys.stdin is ours:
            sys.stdin = stdin
        if getpass.getpass is refusing:
            getpass.getpass = asking


class _Stdin:
    def __init__(self, real: TextIO | None) -> None:
        self._real = real
        self._ended = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")

    def _stream(self) -> TextIO | None:
        return self._ended if _this.quiet else self._real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream(), name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._stream() or ())


def _refusing(asking: Callable[..., str]) -> Callable[..., str]:
    """Return a `getpass` that checks the thread, not the call: a backend
    keeps the function it found at its first import."""

    def getpass(*arguments: Any, **options: Any) -> str:
        if _this.quiet:
            raise EOFError("acp-launch does not allow password prompts here")
        return asking(*arguments, **options)

    return getpass


# Exceptions of keyring libraries become a `StoreFault` here and are dropped, because they may hold the value being
# written. One short line of their text stays. While a value is written nothing of it stays: the library may show the
# value in a form that no search finds.


SERVICE = "acp-launch"
USE_A_FILE = "keep secrets in a sealed file instead: acp-launch config set secrets.store file"
_MAX_FOREIGN_CHARS = 200


class ItemFault(StoreFault):
    """Raised for a fault of one item; other items may be readable."""


def attempt(work: Callable[[], T], translate: Callable[[BaseException], StoreFault]) -> T:
    """Return the result of `work`. Everything but StoreFault and Ctrl-C is translated, and is not the fault's context.

    SystemExit too: otherwise a library could end the process with its own exit code and without a message.
    """
    try:
        return work()
    except (StoreFault, KeyboardInterrupt):
        raise
    except BaseException as error:
        fault = translate(error)
    raise fault


def sentence(error: BaseException) -> str:
    """Return the text of `error` as one line of at most 200 characters."""
    name = type(error).__name__
    text = " ".join(error_text(error).split())
    text = "".join(character if character.isprintable() else "?" for character in text).rstrip(". ")
    if not isinstance(error, Exception):
        text = f"{name} {text}".rstrip()  # SystemExit: its text may be only a number
    return f"{text[: _MAX_FOREIGN_CHARS - 1]}…" if len(text) > _MAX_FOREIGN_CHARS else text or name


def type_only(error: BaseException) -> str:
    """Return what may be shown of `error` while a value is written."""
    return f"{type(error).__name__}; its text is not shown, as it may hold the value"


def error_text(error: BaseException) -> str:
    """Return the text of `error`; empty if that raises too."""
    try:
        return str(error)
    except Exception:
        return ""


def storable_text(secret: Secret) -> str:
    """Return the text to store.

    Raises:
        StoreFault: it is too large, or not UTF-8 text.
    """
    text = secret.expose()
    if (held := size(text)) is None:
        raise StoreFault("unavailable", "the value is not UTF-8 text", fix="encode it first, for example with base64")
    if held > MAX_VALUE:
        reason = f"the value has {held:,} bytes; a secret may have at most {MAX_VALUE:,}"
        raise StoreFault("too large", reason, fix="keep it in a file, and store only its path or its key as a secret")
    return text


def found(text: str, source: str) -> Outcome:
    """Return the outcome for a stored value, which must not be larger than a secret may be."""
    held = len(text.encode(errors="surrogatepass"))
    if held > MAX_VALUE:
        reason = f"the value has {held:,} bytes; a secret may have at most {MAX_VALUE:,}"
        return Outcome("too large", source, None, reason, "store a shorter value under this name")
    return Outcome("found", source, Secret(text))
