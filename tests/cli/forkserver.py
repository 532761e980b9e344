"""
A process of its own for a command line, without a start of Python: forked from a server that has imported us.

Real are its pid, descriptors, environment, directory, signals and exit code; and it ends as ever, by `os._exit`. Not
so what `/proc` shows of it, and of what it forks (its guards): command line and environment are the server's there. So
the server, to which orphans come, sees to it that none is left. What the interpreter does at its start, and what we
import then, is for tests that start us as `python -m acp_launch`.

    run(arguments, …)                        in a test, to its end
    start(arguments, …)                      in a test that meddles
    begin(program, …)                        in a test with a server that is slow to import
    python -m tests.cli.forkserver FD        the server, which ends with whoever has the other end
"""

import atexit
import ctypes
import fcntl
import functools
import gc
import importlib
import json
import os
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any, NoReturn, cast

from acp_launch.__main__ import main
from tests.cli import inprocess
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
SET_CHILD_SUBREAPER = 36  # prctl(2)
GUARD = "acp_launch-guard"[:15]  # as Linux keeps a name
LEAVING = 2.0  # seconds for a guard
READ_AT_START = ("PYTHON", "LANG", "LC_", "ACP_LAUNCH_TEST_PATIENCE")
READ_LATER = ("PYTHON_KEYRING_BACKEND",)
STDERR = 2  # what a test's own stderr is
# What our modules import when they need it: for a terminal, for remote servers, for a look at processes.
IMPORTED_LATER = (
    *("markdown_it", "psutil", "typer._click.decorators"),
    *("aiohttp", "truststore"),
    *("encodings.ascii", "encodings.idna"),
    *("http.server", "gzip"),  # for the servers of tests
)


# In a test


def suits(env: Mapping[str, str]) -> bool:
    """Whether an interpreter that starts with this environment would be as the server's is."""
    return sys.platform == "linux" and _told(env) == INTERPRETER


def _told(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(READ_AT_START) and name not in READ_LATER}


INTERPRETER = _told(os.environ)  # what the server is told at its start, whichever test begins it


def run(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    stdin: bytes | None,
    out: "IO[bytes] | int",
    timeout: float,
) -> "subprocess.CompletedProcess[bytes]":
    """As `subprocess.run` does; what it writes to stderr is captured, and to stdout if that is PIPE.

    Raises:
        AssertionError: a process of its was left when it ended.
    """
    end = out if isinstance(out, int) else out.fileno()
    with (
        inprocess.readable(stdin) as given,
        start(arguments, env=env, cwd=cwd, stdin=given, stdout=end) as process,
    ):
        try:
            texts = process.communicate(timeout)
        except TimeoutError:
            raise subprocess.TimeoutExpired(["acp-launch", *arguments], timeout) from None
        assert process.returncode is not None
        return subprocess.CompletedProcess([*arguments], process.returncode, *texts)


def completed(
    arguments: Sequence[str], *, env: Mapping[str, str], cwd: Path, timeout: float = PATIENCE
) -> "subprocess.CompletedProcess[str]":
    """The same for those who want text, wherever it has to start."""
    if suits(env):
        done = run(arguments, env=env, cwd=cwd, stdin=None, out=subprocess.PIPE, timeout=timeout)
    else:
        argv = [sys.executable, "-P", "-m", "acp_launch", *arguments]
        env = {**env, "PYTHONPATH": str(ROOT)}
        nothing = subprocess.DEVNULL
        done = subprocess.run(argv, env=env, cwd=cwd, stdin=nothing, capture_output=True, timeout=timeout, check=False)
    out, err = (text.decode(errors="surrogateescape") for text in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


def start(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    stdin: int,
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
    has_terminal: bool = False,
    program: Path | None = None,
) -> "Process":
    """Start a command line, or a `program` in Python with these arguments.

    `has_terminal`: what it has as stdin becomes its controlling terminal.
    """
    told = {"has_terminal": has_terminal, "program": str(program or "")}
    request = {"arguments": [*arguments], "env": dict(env), "cwd": str(cwd), **told}
    with ExitStack() as theirs:
        given = (stdin, "wb"), (stdout, "rb"), (stderr, "rb")
        ours, ends = zip(*(_pipe(end, mode, theirs) for end, mode in given), strict=True)
        return Process(_server().ask(request, ends), *ours)


def _pipe(end: int, mode: str, theirs: ExitStack) -> tuple[IO[bytes] | None, int]:
    """Return our end, opened so, and the other, which is closed with `theirs`, for PIPE."""
    if end != subprocess.PIPE:
        return None, end
    reading, writing = os.pipe()
    our, their = (reading, writing) if mode == "rb" else (writing, reading)
    theirs.callback(os.close, their)
    return cast(IO[bytes], open(our, mode)), their  # noqa: PTH123


def begin(program: Path, *arguments: str) -> "Process | subprocess.Popen[bytes]":
    """Start a server of a test, by pipes for its stdin and stdout, as cheaply as the platform allows."""
    pipe = subprocess.PIPE
    if suits(os.environ):
        return start(arguments, env=os.environ, cwd=Path.cwd(), stdin=pipe, stderr=STDERR, program=program)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, str(program), *arguments], stdin=pipe, stdout=pipe, env=env)


class Process:
    """A forked command line, with as much of the face of `subprocess.Popen` as tests use."""

    def __init__(self, answer: socket.socket, *ours: IO[bytes] | None) -> None:
        """`answer` gives the pid, and later the exit code and what is left; `ours` are our ends of its streams."""
        self._socket = answer
        self._answer = answer.makefile("rb", buffering=0)
        self.stdin, self.stdout, self.stderr = ours
        self.pid = int(self._answer.readline())
        self.returncode: int | None = None

    def communicate(self, timeout: float) -> tuple[bytes, bytes]:
        """Read what it writes to its pipes, and wait for its end."""
        deadline = time.monotonic() + timeout
        written, said = _Reader(self.stdout), _Reader(self.stderr)
        self.wait(timeout)
        return written.text(deadline - time.monotonic()), said.text(deadline - time.monotonic())

    def poll(self) -> int | None:
        with suppress(TimeoutError):
            return self.wait(0)
        return None

    def wait(self, timeout: float = PATIENCE) -> int:
        """Return the exit code.

        Raises:
            AssertionError: a process of its was left when it ended.
        """
        if self.returncode is None:
            if not select.select([self._socket], [], [], timeout)[0]:
                raise TimeoutError
            self.returncode, left = json.loads(self._answer.readline())
            assert not left, f"it leaves {left}"
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # the server looks at what it has left
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *exception: object) -> None:
        """Kill it if it still runs; what it leaves then is no fault."""
        with suppress(AssertionError):
            self.kill()
            self.wait()
        for each in (self._answer, self._socket, self.stdin, self.stdout, self.stderr):
            if each:
                each.close()


class _Reader:
    """A pipe, read to its end in a thread."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        self._pipe = pipe
        self._text = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def text(self, patience: float) -> bytes:
        self._thread.join(max(0.0, patience))
        if self._thread.is_alive():
            raise TimeoutError
        return self._text

    def _read(self) -> None:
        if self._pipe and not self._pipe.closed:
            self._text = self._pipe.read()


class _Server:
    """The process that is forked from."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair()
        self._lock = threading.Lock()
        with theirs:
            argv = [sys.executable, "-m", "tests.cli.forkserver", str(theirs.fileno())]
            env = {name: value for name, value in os.environ.items() if not name.startswith(("ACP_", *READ_AT_START))}
            self._process = subprocess.Popen(argv, pass_fds=[theirs.fileno()], cwd=ROOT, env=env | INTERPRETER)
        atexit.register(self._end)

    def _end(self) -> None:
        self._control.close()
        self._process.wait()

    def ask(self, request: object, descriptors: Sequence[int]) -> socket.socket:
        """The socket gives the pid and the exit code, and nothing if the server has died."""
        text = json.dumps(request).encode()
        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            socket.send_fds(self._control, [len(text).to_bytes(8, "big")], [*descriptors, theirs.fileno()])
            self._control.sendall(text)
        return ours


@functools.cache
def _server() -> _Server:
    return _Server()


# The server


def serve(control: socket.socket) -> None:
    """Fork for every request, and answer with the pid, then the exit code and what is left, until the end of all."""
    take_orphans()
    _prepare()
    running: dict[int, socket.socket] = {}
    woken, wakes = socket.socketpair()
    for end in (woken, wakes):
        end.setblocking(False)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    with selectors.DefaultSelector() as waiting:
        waiting.register(control, selectors.EVENT_READ)
        waiting.register(woken, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in waiting.select()}
            if woken in ready:
                woken.recv(4096)
                _bury(running)
            if control in ready:
                request, descriptors = _heard(control)
                if request is None:
                    return
                answer = socket.socket(fileno=descriptors.pop())
                if pid := os.fork():
                    running[pid] = answer
                    answer.sendall(b"%d\n" % pid)
                    for descriptor in descriptors:
                        os.close(descriptor)
                else:
                    _become(request, descriptors, [waiting, control, woken, wakes, answer, *running.values()])


def _prepare() -> None:
    """Do once what every command line would do after its fork."""
    inprocess.import_everything()
    for name in IMPORTED_LATER:
        importlib.import_module(name)
    inprocess.compile_everything()
    gc.collect()
    gc.freeze()


def take_orphans() -> None:
    """What the processes below this one leave becomes its child."""
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _heard(control: socket.socket) -> tuple[Any, list[int]]:
    size, descriptors, _, _ = socket.recv_fds(control, 8, 4)
    if not size:
        return None, []
    text, left = bytearray(), int.from_bytes(size, "big")
    while left > len(text):
        text += control.recv(left - len(text))
    return json.loads(text), descriptors


def _bury(running: dict[int, socket.socket]) -> None:
    for pid, answer in list(running.items()):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            with running.pop(pid):
                left = [os.waitstatus_to_exitcode(status), orphans(running)]
                answer.sendall(json.dumps(left).encode() + b"\n")


def orphans(running: Mapping[int, object]) -> list[str]:
    """The names of what those that have ended left alive; it is ended now. A guard may be on its way out."""
    left = []
    for pid in map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()):
        if pid not in running and os.waitpid(pid, os.WNOHANG) == (0, 0):
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            if not (name == GUARD and _ends(pid)):
                left.append(name)
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return left


def _ends(pid: int) -> bool:
    """Whether it does within a time that only a process which is told to end needs."""
    watched = os.pidfd_open(pid)
    try:
        return bool(select.select([watched], [], [], LEAVING)[0])
    finally:
        os.close(watched)


def _become(request: Any, descriptors: list[int], ours: Sequence[selectors.BaseSelector | socket.socket]) -> NoReturn:
    """Be what a new process of acp-launch is, and end as one."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for each in ours:
        each.close()
    for descriptor, end in enumerate(descriptors):
        os.dup2(end, descriptor)
        os.close(end)
    if request["has_terminal"]:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.path.pop(0)  # where the server was started
    sys.stdin, sys.stdout, sys.stderr = inprocess.streams()
    gc.unfreeze()
    if program := request["program"]:
        sys.argv = [program, *request["arguments"]]
        runpy.run_path(program, run_name="__main__")
    else:
        sys.argv = inprocess.argv(request["arguments"])
        main()
    sys.exit()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
