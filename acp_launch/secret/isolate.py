"""
Work that may never end (a keyring waiting for somebody to answer its dialog), in a thread that is given up.

A thread cannot be ended from outside. This one is a daemon: it does not hold up the caller after the deadline, and
whatever it finds out too late is dropped. Threads that it started do not hold up our end (leave.py), and processes that
it started are killed in the course of it.
"""

import getpass
import io
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TextIO, TypeVar, cast

from acp_launch import leave, waits
from acp_launch.secret.value import MAX_VALUE, Outcome, Secret, StoreFault, size

# Descriptors 0 and 1 while a stranger's code works in this process, or starts programs of its own.
#
# Our stdin may be a pipe with the value that is being set, our stdout a stream of JSON. Meanwhile descriptor 0 is at
# its end and descriptor 1 leads to stderr, for this process and for every program it starts. They belong to the
# process, not to a thread: the main thread only waits, and says what it has to say within `out_loud`. What a stranger
# prints itself in those milliseconds comes out on stdout; the programs it had started by then do not.


_DIVERTED = (0, 1)
_one_at_a_time = threading.Lock()
_working: set[object] = set()
_kept: list[int] = []  # what 0 and 1 were, while they are diverted


@contextmanager
def diverted() -> Iterator[None]:
    """Any number of threads may be in here; the last one out puts everything back."""
    work = object()
    _flush()
    with _one_at_a_time:
        if not _kept:
            _divert()
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
def out_loud() -> Iterator[None]:
    """stdout is what it was while the block runs."""
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


def give_back() -> None:
    """Put everything back, although somebody who was given up is still at work."""
    _flush()
    with _one_at_a_time:
        _working.clear()
        _restore()


def _divert() -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        _kept.extend([os.dup(descriptor) for descriptor in _DIVERTED])
        os.dup2(nothing, 0)
        os.dup2(2, 1)
    finally:
        os.close(nothing)


def _restore() -> None:
    for descriptor, kept in zip(_DIVERTED, _kept, strict=False):  # nothing is kept when it was put back already
        os.dup2(kept, descriptor)
        os.close(kept)
    _kept.clear()


def _flush() -> None:
    """What was printed goes where descriptor 1 leads now, and not where it leads next."""
    for stream in (sys.stdout, sys.__stdout__):
        if stream is not None:
            with suppress(OSError, ValueError):  # whoever writes there next is told that it is gone
                stream.flush()


T = TypeVar("T")

_children_before: set[int] | None = None


class Late(Exception):  # noqa: N818
    """Raised when the work was not done in time; it may still be going on."""


class NoThread(Exception):  # noqa: N818
    """Raised when the system gives us no thread for the work (`ulimit -u`)."""


def bounded(work: Callable[[], T], *, limit: float, waiting: Callable[[float], None]) -> T:
    """What `work` gives or raises, if that comes within `limit` seconds. Ctrl-C ends the wait at once.

    `waiting` is told how long it has been, by the rule of every wait (`waits`).

    Raises:
        Late: the deadline passed.
        NoThread: the work was not begun.
        RuntimeError: the work wanted to end its thread or this process (SystemExit, GeneratorExit).
    """
    global _children_before
    if _children_before is None:
        _children_before = _children() | _children()  # the kernel may leave one out whose sibling exits
    answers: SimpleQueue[Callable[[], T]] = SimpleQueue()
    try:
        threading.Thread(target=lambda: answers.put(_done(work)), daemon=True).start()
    except RuntimeError as error:
        raise NoThread from error
    try:
        answer = _awaited(answers, limit, waiting)
    except BaseException:  # the deadline; a signal; a stdout that takes no word
        _give_up()
        raise
    return answer()


def end_children() -> None:
    """Kill the processes that given-up work has started and that are children of ours: a dialog, a program that hangs.

    Linux only, and only direct children: what those started themselves, and what they left behind as a daemon, lives
    on. To be called when nothing we started ourselves is alive any more.
    """
    if sys.platform == "linux":
        for pid in _children() - (_children_before or set()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _awaited(
    answers: "SimpleQueue[Callable[[], T]]", limit: float, waiting: Callable[[float], None]
) -> Callable[[], T]:
    begun = time.monotonic()
    word = waits.FIRST_WORD
    while True:
        left = begun + min(word, limit) - time.monotonic()
        try:
            return answers.get(timeout=max(0.0, left))
        except Empty:
            if word >= limit:
                raise Late from None
            with out_loud():
                waiting(word)
            word = waits.next_word(word)


def _give_up() -> None:
    leave.at_exit(end_children)
    give_back()


def _done(work: Callable[[], T]) -> Callable[[], T]:
    """The outcome as something to call: it returns what the work returned, or raises what it raised."""
    try:
        result = work()
    except (Exception, KeyboardInterrupt) as error:
        failure: BaseException = error
    except BaseException as error:  # here it would pass for an exit somebody asked for
        failure = RuntimeError(f"work that must not end anything raised {type(error).__name__}")
    else:
        return lambda: result

    def fail() -> T:
        raise failure

    return fail


def _children() -> set[int]:
    """Our children as the kernel lists them; empty where it does not (Linux needs CONFIG_PROC_CHILDREN)."""
    found: set[int] = set()
    for listed in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # a thread that has just ended
            found.update(map(int, listed.read_text().split()))
    return found


# Keyring backends that ask for a password do so with `input` and `getpass`, in the middle of somebody's JSON-RPC pipe.
#
# While one works, its own thread finds stdin at its end and nobody to ask. Other threads notice nothing, not even when
# this one hangs for ever and is given up; but descriptors 0 and 1, which programs inherit that it starts, are the whole
# process's (see `descriptors`).


class _Thread(threading.local):
    quiet = False


_this = _Thread()


@contextmanager
def nobody_to_ask() -> Iterator[None]:
    """In this thread reading stdin gives its end, and asking for a password raises EOFError; what is printed goes to
    stderr. For the programs it starts, too."""
    stdin, asking = sys.stdin, getpass.getpass
    ours, refusing = cast(TextIO, _Stdin(stdin)), _refusing(asking)
    sys.stdin, getpass.getpass, _this.quiet = ours, refusing, True
    try:
        with diverted():
            yield
    finally:
        _this.quiet = False
        # Somebody may have put theirs in front meanwhile; then ours stays behind it and only passes on.
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
    """Asks the thread, not this call: a backend keeps the function it found at its first import."""

    def getpass(*arguments: Any, **options: Any) -> str:
        if _this.quiet:
            raise EOFError("nobody may be asked for a password here")
        return asking(*arguments, **options)

    return getpass


# The border to keyring libraries: they may raise anything, and what they raise may hold the value being written.
#
# Foreign exceptions become a `StoreFault` here and are dropped; of their text one short line stays, and nothing at all
# while a value is written: no search finds it there in every shape a stranger may give it.


SERVICE = "acp-launch"
USE_A_FILE = 'keep secrets in a sealed file instead: write "secrets: {store: file}" in config.yaml'
_LONGEST = 200  # characters of somebody else's message


class ItemFault(StoreFault):
    """Raised for what is wrong with one item; the others may well be readable."""


def attempt(work: Callable[[], T], translate: Callable[[BaseException], StoreFault]) -> T:
    """What `work` gives. Everything but StoreFault and Ctrl-C is translated, and not even kept as the fault's context.

    SystemExit too: a library that ends the process would end it with its own exit code, and without a word.
    """
    try:
        return work()
    except (StoreFault, KeyboardInterrupt):
        raise
    except BaseException as error:
        fault = translate(error)
    raise fault


def sentence(error: BaseException) -> str:
    """`error` in one line, at most 200 characters."""
    name = type(error).__name__
    text = " ".join(said(error).split())
    text = "".join(character if character.isprintable() else "?" for character in text).rstrip(". ")
    if not isinstance(error, Exception):
        text = f"{name} {text}".rstrip()  # SystemExit: the text may be no more than a number
    return f"{text[: _LONGEST - 1]}…" if len(text) > _LONGEST else text or name


def kind(error: BaseException) -> str:
    """What may be shown of `error` while a value is written."""
    return f"{type(error).__name__}; its text is not shown, as it may hold the value"


def said(error: BaseException) -> str:
    """The text of `error`; empty when it cannot even give that."""
    try:
        return str(error)
    except Exception:
        return ""


def storable(secret: Secret) -> str:
    """The text to store.

    Raises:
        StoreFault: it is too large, or no text that could be stored.
    """
    text = secret.expose()
    if (held := size(text)) is None:
        raise StoreFault(
            "unavailable", "the value is not text in UTF-8", fix="encode it first, with base64 for instance"
        )
    if held > MAX_VALUE:
        reason = f"the value has {held:,} bytes; {MAX_VALUE:,} are the most a secret may have"
        raise StoreFault("too large", reason, fix="keep it in a file, and only its path or its key in a secret")
    return text


def found(text: str, source: str) -> Outcome:
    """What was read, unless it is more than a secret may hold."""
    held = len(text.encode(errors="surrogatepass"))
    if held > MAX_VALUE:
        reason = f"the value has {held:,} bytes; {MAX_VALUE:,} are the most a secret may have"
        return Outcome("too large", source, None, reason, "store a shorter value under this name")
    return Outcome("found", source, Secret(text))


def failed(fault: StoreFault, source: str) -> Outcome:
    return Outcome(fault.state, source, None, fault.reason, fault.fix)


def not_text(name: str) -> ItemFault:
    reason = "what is stored under this name is not text in UTF-8"
    return ItemFault("unavailable", reason, fix=f"acp-launch secret set {name}")
