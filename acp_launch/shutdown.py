"""
The end of this process: after its work, or by a signal at any moment from its first instruction to its last.

    the first signal     raises KeyboardInterrupt in the main thread inside a `raise_interrupts` block. While an event
                         loop runs, its listener receives the signal instead and decides.
    a second signal, or work that does not end within `EXIT_TIMEOUT` of the first one
                         exits at once. The guards end all processes that were started, and the terminal is restored.
    the end of file of `--lifeline`
                         is SIGTERM: a parent that is killed can send no signal.

Both ways end in `os._exit`: the interpreter's own shutdown takes longer than many runs, and a signal during it prints
a traceback. Imports little, because signals are handled before the first heavy import.
"""

import atexit
import fcntl
import os
import select
import signal
import stat
import sys
from _thread import get_ident, start_new_thread
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from acp_launch.errors import UsageError
from acp_launch.waits import stretch

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

EXIT_TIMEOUT = stretch(3.0)  # for undoing the work, or for the event loop to take a signal
IMMEDIATE_EXIT_TIMEOUT = stretch(3.0)  # the guards take a fraction of a second
LOOK_AGAIN = 0.005  # seconds between two looks whether an import is finished
RESEND_SECONDS = 0.05  # until the main thread has handled the end of the lifeline
STUCK_SECONDS = stretch(0.5)  # an event loop that has not taken a signal by then is not waited for at the next one
LIFELINE = "give it a pipe that ends with the caller, in a shell: --lifeline 3 3< PIPE"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# Takes a signal at any moment, and has `acknowledge` called later; False when it cannot take it.
Listener = Callable[[int], bool]


class _State:
    """The signal state of this process."""

    def __init__(self) -> None:
        self.first = 0  # the signal that ends this process
        self.latest = 0
        self.interruptible = 0  # depth of `raise_interrupts` blocks
        self.deferring = 0  # depth of `critical_section` blocks
        self.listener: Listener | None = None
        self.pending = 0.0  # when the listener took a signal that it has not acknowledged
        self.callbacks: list[Callable[[], object]] = []


_state = _State()


def listen() -> None:
    """Install the signal handlers; from here on no signal is lost. Signals that were ignored (nohup) stay ignored."""
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _handle_signal)
    sys.unraisablehook = _unraisable


def check_lifeline(descriptor: int) -> None:
    """Check the descriptor of `--lifeline`, before anything is opened under its number.

    Raises:
        UsageError: it is not open, or not a pipe or socket to read from.
    """
    try:
        mode = os.fstat(descriptor).st_mode
        access = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
    except (OSError, OverflowError):
        raise UsageError(f"--lifeline: descriptor {descriptor} is not open", fix=LIFELINE) from None
    is_ours = descriptor in (1, 2) or access == os.O_WRONLY
    if is_ours or not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        what = f"descriptor {descriptor} is not a pipe or socket to read from"
        raise UsageError(f"--lifeline: {what}", fix=LIFELINE)


def watch_lifeline(descriptor: int) -> None:
    """Take the end of file of a pipe or socket as SIGTERM, also if SIGTERM was ignored. No child inherits it.

    A thread reads it, because the main thread may wait in any call; a signal interrupts that call. It is SIGURG, which
    may be sent again: one that comes after Python has looked for signals, and before the call, interrupts nothing.
    """
    held = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, descriptor)
    os.close(nothing)
    is_handled = False

    def close_in_child() -> None:
        nonlocal held
        if held:
            os.close(held)
            held = 0  # the guards fork again, and then the number may be of another file

    def handle_end(number: int, frame: FrameType | None) -> None:
        nonlocal is_handled
        if not is_handled:
            is_handled = True
            _handle_signal(signal.SIGTERM, frame)

    def watch() -> None:
        _wait_for_end(held)
        while not is_handled:
            signal.pthread_kill(main, signal.SIGURG)
            sleep(RESEND_SECONDS)

    os.register_at_fork(after_in_child=close_in_child)
    signal.signal(signal.SIGURG, handle_end)
    main = get_ident()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # the thread must not take any
    start_new_thread(watch, ())
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _wait_for_end(descriptor: int) -> None:
    """Read a pipe or socket, which may be non-blocking, to its end."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while True:
        poll.poll()
        try:
            if not os.read(descriptor, 1 << 16):
                return
        except BlockingIOError:
            continue
        except OSError:  # a socket was reset
            return


def code() -> int:
    """Return the exit code for the signal that came: 130, 143 or 129."""
    return 128 + (_state.first or signal.SIGINT)


@contextmanager
def raise_interrupts() -> Iterator[None]:
    """Turn the first signal into a KeyboardInterrupt in this block, so that the block can undo its work."""
    _state.interruptible += 1
    try:
        yield
    finally:
        _state.interruptible -= 1


@contextmanager
def critical_section() -> Iterator[None]:
    """Delay the first signal to the end of this block, which is short and must not be interrupted."""
    _state.deferring += 1
    try:
        yield
    finally:
        _state.deferring -= 1
        if is_due() and not _state.deferring:
            _end()


def is_due() -> bool:
    """Whether a signal has come that ends this process."""
    return _state.first != 0


def set_listener(listener: Listener) -> None:
    """Give every signal to the listener from now on, until it cannot take one."""
    _state.listener = listener


def acknowledge() -> None:
    """Note that the listener has acted on the signals it took."""
    _state.pending = 0.0
    exit_deadline(0, 0)


def exit_deadline(seconds: float, code: int) -> None:
    """Exit at once after `seconds` with this exit code, unless this is called again; 0 cancels that."""
    _alarm(seconds, lambda number, frame: exit_now(code))


def _alarm(seconds: float, act: Callable[[int, FrameType | None], object]) -> None:
    signal.signal(signal.SIGALRM, act)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def at_exit(callback: Callable[[], object]) -> Callable[[], None]:
    """Call `callback` when this process exits, at any moment of its work, the latest first. Returns a function that
    takes the callback back."""
    _state.callbacks.append(callback)

    def forget() -> None:
        if callback in _state.callbacks:
            _state.callbacks.remove(callback)

    return forget


def tell(descriptor: int, text: bytes) -> None:
    """Write a short `text` if that is possible without waiting; for callbacks of `at_exit`."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    if poll.poll(0):
        os.write(descriptor, text)


def exit_now(code: int) -> NoReturn:
    """Exit now, after the callbacks of `at_exit`; those that last for `IMMEDIATE_EXIT_TIMEOUT` are abandoned."""
    _alarm(IMMEDIATE_EXIT_TIMEOUT, lambda number, frame: os._exit(code))
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_IGN)
    while _state.callbacks:
        try:
            _state.callbacks.pop()()
        except BaseException:  # the other callbacks must run too, and stderr may be what blocks
            continue
    os._exit(code)


def finish_with(work: Callable[[], int]) -> int:
    """Carry out the work of this process, and exit with the code that it returns; returns as `finish` does."""
    code = 1
    try:
        code = work()
    except BaseException:
        if is_due():  # a signal may have surfaced as any exception
            exit_now(128 + _state.first)
        sys.excepthook(*sys.exc_info())
    finish(code)
    return code


def finish(code: int) -> None:
    """Exit after the work is done, with this exit code.

    Returns only under a debugger, a profiler or coverage, or with ACP_LAUNCH_FULL_EXIT set: those need the
    interpreter's own shutdown.
    """
    if _is_watched():
        return
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = code or 1  # an exit function wrote this text; earlier text was flushed and errors reported
    exit_now(128 + _state.first if _state.first else code)


def _is_watched() -> bool:
    if sys.gettrace() or sys.getprofile() or sys.flags.inspect or "ACP_LAUNCH_FULL_EXIT" in os.environ:
        return True
    monitoring = getattr(sys, "monitoring", None)  # Python 3.12
    return monitoring is not None and any(monitoring.get_tool(tool) for tool in range(6))


def _handle_signal(number: int, frame: FrameType | None) -> None:
    """Handle a signal, in the main thread, between any two of its instructions."""
    _state.latest = number
    if _state.listener is not None and _is_taken(number, _state.listener):
        return
    if _state.first:
        exit_now(code())
    _state.first = number
    _end_when_whole(frame, monotonic() + EXIT_TIMEOUT)


def _end_when_whole(frame: FrameType | None, deadline: float) -> None:
    """Exit or interrupt, but not while an exception would leave something half done."""
    if _state.deferring:
        exit_deadline(EXIT_TIMEOUT, code())
    elif _state.interruptible and _is_fragile(frame) and monotonic() < deadline:
        _alarm(LOOK_AGAIN, lambda number, frame: _end_when_whole(frame, deadline))
    else:
        _end()


def _is_fragile(frame: FrameType | None) -> bool:
    """Whether a module is being imported, or msgspec is at work.

    msgspec (0.22, in C) crashes when an exception is raised while it reads annotations.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        if str(frame.f_globals.get("__name__")).startswith("msgspec."):
            return True
        frame = frame.f_back
    return False


def _is_taken(number: int, listener: Listener) -> bool:
    now = monotonic()
    if _state.pending and now - _state.pending > STUCK_SECONDS:
        exit_now(128 + number)
    if not listener(number):
        _state.listener = None
        acknowledge()
        return False
    if not _state.pending:
        _state.pending = now
        exit_deadline(EXIT_TIMEOUT, 128 + number)
    return True


def _end() -> NoReturn:
    if not _state.interruptible:
        exit_now(code())
    exit_deadline(EXIT_TIMEOUT, code())
    raise KeyboardInterrupt


def _unraisable(unraisable: "UnraisableHookArgs") -> None:
    """Exit on a KeyboardInterrupt that was raised where Python only prints it, for instance in a destructor."""
    if _state.first and unraisable.exc_type is KeyboardInterrupt:
        exit_now(code())
    sys.__unraisablehook__(unraisable)
