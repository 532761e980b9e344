"""
How this process ends: when its work is done, or by a signal, at any moment from its first instruction to its last.

    the first signal     is a KeyboardInterrupt in the main thread where there is work to undo (`undoing`); while an
                         event loop runs its listener hears of it instead, and decides
    a second one, or no end of the work within `PATIENCE` of the first one
                         this process leaves at once: its guards end what it has started, the terminal is given back

Either way ends in `os._exit`: the interpreter's own end takes longer than many a run, and a signal in the midst of it
is a traceback. Free of imports that cost, since signals are heard before the first of them.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

PATIENCE = 3.0  # seconds for the work to be undone, or for the event loop to hear of a signal
LAST = 3.0  # seconds for leaving at once: the guards take a fraction of one
LOOK_AGAIN = 0.005  # seconds, while an import is to be finished first
STUCK = 0.5  # seconds after which an event loop that has not heard of a signal is not waited for when another one comes
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))

# Takes a signal in the midst of anything, and sees to it that `heard` is called; False when it cannot.
Listener = Callable[[int], bool]


class _State:
    """Of this process."""

    def __init__(self) -> None:
        self.first = 0  # the signal that ends us
        self.latest = 0
        self.undoing = 0  # depth of `undoing` blocks
        self.deferring = 0  # depth of `deferred` blocks
        self.listener: Listener | None = None
        self.unheard = 0.0  # since when the listener has owed us a `heard`
        self.callbacks: list[Callable[[], object]] = []


_state = _State()


def listen() -> None:
    """From here on no signal that ends us is lost. What we were told to ignore (nohup) stays ignored."""
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _arrived)
    sys.unraisablehook = _unraisable


def code() -> int:
    """The exit code of the signal that came: 130, 143 or 129."""
    return 128 + (_state.first or signal.SIGINT)


@contextmanager
def undoing() -> Iterator[None]:
    """The first signal is a KeyboardInterrupt in this block: there is something to undo."""
    _state.undoing += 1
    try:
        yield
    finally:
        _state.undoing -= 1


@contextmanager
def deferred() -> Iterator[None]:
    """The first signal waits for the end of this block, which is short and must not be torn apart."""
    _state.deferring += 1
    try:
        yield
    finally:
        _state.deferring -= 1
        if is_due() and not _state.deferring:
            _end()


def is_due() -> bool:
    """Whether a signal has come that ends us."""
    return _state.first != 0


def set_listener(listener: Listener) -> None:
    """Every signal is the listener's from now on, until it cannot take one."""
    _state.listener = listener


def acknowledge() -> None:
    """The listener has acted on what it was told."""
    _state.unheard = 0.0
    within(0, 0)


def within(seconds: float, code: int) -> None:
    """Leave at once after `seconds`, with this exit code, unless this is called again; with 0, never."""
    if hasattr(signal, "setitimer"):  # Windows has none
        signal.signal(signal.SIGALRM, lambda number, frame: at_once(code))
        signal.setitimer(signal.ITIMER_REAL, seconds)


def at_exit(callback: Callable[[], object]) -> Callable[[], None]:
    """`callback` is called when we leave, perhaps in the midst of anything, the latest first. Returns what takes it
    back."""
    _state.callbacks.append(callback)

    def forget() -> None:
        if callback in _state.callbacks:
            _state.callbacks.remove(callback)

    return forget


def tell(descriptor: int, text: bytes) -> None:
    """Write `text`, a short one, if that is possible without waiting: for callbacks of `at_exit`."""
    import select

    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    if poll.poll(0):
        os.write(descriptor, text)


def at_once(code: int) -> NoReturn:
    """Leave now. What keeps us for longer than `LAST` seconds is left undone."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, lambda number, frame: os._exit(code))
        signal.setitimer(signal.ITIMER_REAL, LAST)
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_IGN)
    while _state.callbacks:
        try:
            _state.callbacks.pop()()
        except BaseException:  # the others are as important, and stderr may be what holds us up
            continue
    os._exit(code)


def finish(code: int) -> None:
    """The work is done, with this exit code: leave.

    Returns only under a debugger, a profiler or coverage, or with ACP_LAUNCH_FULL_EXIT set: they want the
    interpreter's own end.
    """
    if _is_watched():
        return
    import atexit

    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = code or 1  # an exit function wrote it: what came before was flushed, and complained about
    at_once(128 + _state.first if _state.first else code)


def _is_watched() -> bool:
    if sys.gettrace() or sys.getprofile() or sys.flags.inspect or "ACP_LAUNCH_FULL_EXIT" in os.environ:
        return True
    monitoring = getattr(sys, "monitoring", None)  # Python 3.12
    return monitoring is not None and any(monitoring.get_tool(tool) for tool in range(6))


def _arrived(number: int, frame: FrameType | None) -> None:
    """A signal, in the main thread, between any two of its instructions."""
    _state.latest = number
    if _state.listener is not None and _is_taken(number, _state.listener):
        return
    if _state.first:
        at_once(code())
    _state.first = number
    _end_when_whole(frame, monotonic() + PATIENCE)


def _end_when_whole(frame: FrameType | None, deadline: float) -> None:
    """End, or interrupt; but not in the midst of what an exception would leave in pieces."""
    if _state.deferring:
        within(PATIENCE, code())
    elif _state.undoing and _is_fragile(frame) and monotonic() < deadline and hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, lambda number, frame: _end_when_whole(frame, deadline))
        signal.setitimer(signal.ITIMER_REAL, LOOK_AGAIN)
    else:
        _end()


def _is_fragile(frame: FrameType | None) -> bool:
    """Whether a module is being imported, or msgspec (0.22, in C) looks at annotations: it crashes by an exception."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        if str(frame.f_globals.get("__name__")).startswith("msgspec."):
            return True
        frame = frame.f_back
    return False


def _is_taken(number: int, listener: Listener) -> bool:
    now = monotonic()
    if _state.unheard and now - _state.unheard > STUCK:
        at_once(128 + number)
    if not listener(number):
        _state.listener = None
        acknowledge()
        return False
    if not _state.unheard:
        _state.unheard = now
        within(PATIENCE, 128 + number)
    return True


def _end() -> NoReturn:
    if not _state.undoing:
        at_once(code())
    within(PATIENCE, code())
    raise KeyboardInterrupt


def _unraisable(unraisable: "UnraisableHookArgs") -> None:
    """What was raised where nothing can be, in a destructor for instance, would be a traceback and then forgotten."""
    if _state.first and unraisable.exc_type is KeyboardInterrupt:
        at_once(code())
    sys.__unraisablehook__(unraisable)
