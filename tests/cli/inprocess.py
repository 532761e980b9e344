"""
The command line in this process, for tests of words and decisions: `python -m acp_launch` without a start of Python.

The entry is the program's own (`acp_launch.__main__.main`), and what it meets is what a new process would: arguments,
environment and directory, three real descriptors, a package that remembers nothing. Afterwards all of that is as it
was. The test fails where the command has left something behind that only the end of a process takes away (a
descriptor, a thread, a child, another umask), and where it starts a program: such a command wants its own process.
No process can be forked here, so a `run` that is refused before it starts anything goes on without guards.
"""

import ctypes
import errno
import functools
import gc
import importlib
import locale
import os
import pkgutil
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from io import TextIOWrapper
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import acp_launch
from acp_launch.__main__ import main
from acp_launch.regex import _Regex
from acp_launch.secret import detect
from acp_launch.waits import stretch

SET_SUBREAPER, GET_SUBREAPER = 36, 37  # prctl(2)
AT_ITS_END = stretch(1.0)  # seconds for a thread
PIPE = 65536  # bytes that a pipe holds for a reader who comes later
# What these modules do when they are imported is all they are for.
PROGRAMS = ("acp_launch.demo", "acp_launch.bridge.shim", "acp_launch.process.guard_process")
STARTS = {"os.exec", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen"}


class Done(NamedTuple):
    code: int
    out: bytes
    err: bytes


def carry_out(arguments: Sequence[str], *, env: Mapping[str, str], cwd: Path, stdin: bytes | None = None) -> Done:
    """Run the command line to its end. Without `stdin` it reads from /dev/null."""
    memory = _memory()
    begun = time.clock_gettime(time.CLOCK_BOOTTIME)
    before = _resources(since=0)
    with ExitStack() as around:
        written = around.enter_context(_descriptors(stdin))
        started = around.enter_context(_starts())
        around.enter_context(_surroundings(env, cwd))
        around.enter_context(_interpreter(arguments))
        around.enter_context(_forgetting(memory))
        code = _exit_code()
    assert not started, f"{shown(arguments)} starts a program ({started}): it wants its own process"
    for thread in set(threading.enumerate()) - before["threads"]:  # one of a server of the test may be at its end
        thread.join(AT_ITS_END)
    left = {kind: now for kind, held in _resources(since=begun).items() if (now := held - before[kind])}
    assert not left, f"{shown(arguments)} leaves {left}"
    return Done(code, *written)


def completed(arguments: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> "subprocess.CompletedProcess[str]":
    """The same for those who know `subprocess.run`."""
    done = carry_out(arguments, env=env, cwd=cwd)
    out, err = (text.decode(errors="surrogateescape") for text in (done.out, done.err))
    return subprocess.CompletedProcess([*arguments], done.code, out, err)


def shown(arguments: Sequence[str]) -> str:
    return " ".join(("acp-launch", *arguments))


def argv(arguments: Sequence[str]) -> list[str]:
    """As `python -m acp_launch` has it."""
    return [str(Path(acp_launch.__file__).with_name("__main__.py")), *arguments]


def streams() -> list[TextIOWrapper]:
    """Over the descriptors 0, 1 and 2."""
    return [_stream(0, "r"), _stream(1, "w"), _stream(2, "w")]


def _exit_code() -> int:
    try:
        main()
    except SystemExit as ended:
        assert ended.code is None or isinstance(ended.code, int)
        return ended.code or 0
    return 0


def _resources(*, since: float) -> dict[str, set[object]]:
    """What a process holds until it ends; of its children those that were started `since` then, in seconds of uptime.

    An older one is an orphan of another test: a guard that outlives its launcher for a moment.
    """
    umask = os.umask(0o077)
    os.umask(umask)
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    return {
        "descriptors": {each for each in map(_target, os.listdir("/proc/self/fd")) if each[1]},  # noqa: PTH208
        "threads": set(threading.enumerate()),
        "children": {child for child in children.read_text().split() if _started(child) >= since},
        "umask": {umask},
        "locale": {locale.setlocale(locale.LC_ALL)},
        "blocked signals": set(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    }


def _started(child: str) -> float:
    """In seconds of uptime, to the next tick (proc(5), "starttime"); 0 of one that is gone."""
    try:
        ticks = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[19]
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return 0.0
    return (int(ticks) + 1) / os.sysconf("SC_CLK_TCK")


def _target(descriptor: str) -> tuple[str, str]:
    try:
        return descriptor, os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115
    except FileNotFoundError:  # that of the listing itself
        return descriptor, ""


@contextmanager
def _descriptors(stdin: bytes | None) -> Iterator[list[bytes]]:
    """Put a caller's pipe and files at 0, 1 and 2. The list holds in the end what was written to stdout and stderr."""
    written: list[bytes] = []
    ours = sys.stdin, sys.stdout, sys.stderr
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, readable(stdin) as given:
        kept = [os.dup(descriptor) for descriptor in range(3)]
        for descriptor, end in enumerate((given, out.fileno(), err.fileno())):
            os.dup2(end, descriptor)
        theirs = streams()
        sys.stdin, sys.stdout, sys.stderr = theirs
        try:
            yield written
        finally:
            for stream in theirs:
                stream.close()
            sys.stdin, sys.stdout, sys.stderr = ours
            for descriptor, end in enumerate(kept):
                os.dup2(end, descriptor)
                os.close(end)
        for file in (out, err):
            file.seek(0)
            written.append(file.read())


def _stream(descriptor: int, mode: str) -> TextIOWrapper:
    """As the interpreter opens it at its start."""
    raw = open(descriptor, f"{mode}b", closefd=False)  # noqa: SIM115
    usual = (sys.__stdin__, sys.__stdout__, sys.__stderr__)[descriptor]
    assert usual is not None
    by_line = descriptor == 2 or raw.isatty()
    return TextIOWrapper(raw, encoding=usual.encoding, errors=usual.errors, line_buffering=by_line)


@contextmanager
def readable(content: bytes | None) -> Iterator[int]:
    """A descriptor that gives this and ends, or /dev/null."""
    if content is None:
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123
            yield nothing.fileno()
        return
    reading, writing = os.pipe()
    writer = threading.Thread(target=_write, args=(writing, content))
    if len(content) > PIPE:
        writer.start()
    else:
        _write(writing, content)
    try:
        yield reading
    finally:
        os.close(reading)
        if writer.ident:
            writer.join()


def _write(descriptor: int, content: bytes) -> None:
    with open(descriptor, "wb") as pipe:
        try:
            pipe.write(content)
            pipe.flush()
        except BrokenPipeError:
            pipe.raw.close()


@contextmanager
def _surroundings(env: Mapping[str, str], cwd: Path) -> Iterator[None]:
    """Be where it is started, with its environment, which the command must not change."""
    ours, home = dict(os.environ), Path.cwd()
    theirs = {**env, "ACP_LAUNCH_FULL_EXIT": "1"}  # it returns to us instead of leaving at once
    _become(theirs)
    os.chdir(cwd)
    try:
        yield
        assert dict(os.environ) == theirs
        assert Path.cwd() == cwd.resolve()
    finally:
        _become(ours)
        os.chdir(home)


def _become(environment: Mapping[str, str]) -> None:
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update({name: value for name, value in environment.items() if os.environ.get(name) != value})


@contextmanager
def _interpreter(arguments: Sequence[str]) -> Iterator[None]:
    """What a process may set as it likes, since it is its own: signals, hooks, the collector of garbage."""
    ours = sys.argv, sys.path[:], sys.excepthook, sys.unraisablehook
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    (alarm, again), begun = signal.getitimer(signal.ITIMER_REAL), time.monotonic()
    wakeup = signal.set_wakeup_fd(-1)
    adopts = ctypes.c_int()
    ctypes.CDLL(None).prctl(GET_SUBREAPER, ctypes.byref(adopts), 0, 0, 0)
    sys.argv = argv(arguments)
    try:
        yield
    finally:
        sys.argv, sys.path[:], sys.excepthook, sys.unraisablehook = ours
        for number, handler in handlers.items():
            if signal.getsignal(number) != handler:
                signal.signal(number, handler)
        if alarm:
            signal.setitimer(signal.ITIMER_REAL, max(0.001, alarm - (time.monotonic() - begun)), again)
        signal.set_wakeup_fd(wakeup)
        ctypes.CDLL(None).prctl(SET_SUBREAPER, adopts.value, 0, 0, 0)
        gc.unfreeze()
        gc.enable()


def import_everything() -> None:
    for module in pkgutil.walk_packages(acp_launch.__path__, "acp_launch."):
        if not module.name.startswith(PROGRAMS):
            importlib.import_module(module.name)


def compile_everything() -> None:
    """Have `re` remember the expressions that our modules compile when they first need them; we remember nothing."""
    for module in [module for name, module in sys.modules.items() if name.startswith("acp_launch.")]:
        for value in vars(module).values():
            if isinstance(value, _Regex):
                re.compile(*value._source)
    for expression in (detect._whole, detect._begun):
        expression.__wrapped__()


class _Memory(NamedTuple):
    """What our package remembers for the length of a process."""

    names: list[tuple[ModuleType, str]]  # of globals that are neither constants nor definitions
    caches: list[Any]  # of functions


@functools.cache
def _memory() -> _Memory:
    """Looks at every module of ours, imported: what each is when imported it is to be again."""
    import_everything()
    memory = _Memory([], [])
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "acp_launch":
            memory.names.extend((module, each) for each, value in vars(module).items() if _may_change(each, value))
            memory.caches.extend(each for each in vars(module).values() if _is_cache_of(module, each))
    return memory


def _may_change(name: str, value: object) -> bool:
    return name.islower() and not name.startswith("__") and not isinstance(value, ModuleType | type | FunctionType)


def _is_cache_of(module: ModuleType, value: object) -> bool:
    return hasattr(value, "cache_clear") and getattr(value, "__module__", "") == module.__name__


@contextmanager
def _forgetting(memory: _Memory) -> Iterator[None]:
    """Start with empty caches, and leave globals, with what they hold, as they were."""
    for cache in memory.caches:
        cache.cache_clear()
    before = [(module, name, getattr(module, name)) for module, name in memory.names]
    held = [(value, _content(value)) for _, _, value in before if _holds(value)]
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
        for value, content in held:
            _refill(value, content)
        for cache in memory.caches:
            cache.cache_clear()


def _holds(value: Any) -> bool:
    if isinstance(value, list | dict | set):
        return True
    return type(value).__module__.startswith("acp_launch.") and hasattr(value, "__dict__")


def _content(value: Any) -> Any:
    return {name: _copy(each) for name, each in vars(value).items()} if hasattr(value, "__dict__") else value.copy()


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, list | dict | set) else value


def _refill(value: Any, content: Any) -> None:
    if isinstance(value, list):
        value[:] = content
        return
    if not isinstance(value, dict | set):
        value = vars(value)
    value.clear()
    value.update(content)


@contextmanager
def _starts() -> Iterator[list[str]]:
    """The list holds the events of programs that were started."""
    _watch()
    started: list[str] = []
    _watchers.append(started)
    try:
        yield started
    finally:
        _watchers.remove(started)


_watchers: list[list[str]] = []


@functools.cache
def _watch() -> None:
    """Hear of each start from here on. An audit hook stays for good."""
    sys.addaudithook(_heard)


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "os.fork" and _watchers:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    if event in STARTS and _watchers:
        _watchers[-1].append(event)
        raise RuntimeError(f"{event} in a test that runs in process")
