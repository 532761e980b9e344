"""
The program that starts the agent where it runs: in a container, or on another machine. Linux, Python 3.8 or later.

Its stdin begins with what elsewhere.py makes: eight digits, a line end, and as many bytes of JSON. The rest is for the
agent, which writes to our stdout and stderr itself. When our stdin ends, or the reader of our stdout is gone, the agent
has some seconds to end. Nothing that was started outlives us, as orphans come to us, and our status is the agent's.

On another machine there are two of us: one has the agent, and the other one ends what a killed one leaves. The line
may fall silent without an end, so acp-launch writes a NUL on it now and then, which JSON never holds.

It must start fast: `json` and `signal` import `re` and `enum`, which would take longer than all the rest.
"""

import _signal  # type: ignore[import-not-found]
import os
import select
import time
from _json import make_scanner

try:
    from ctypes import CDLL
except ImportError:  # Debian's python3-minimal
    CDLL = None  # type: ignore[assignment, misc]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CHUNK_BYTES = 65536
LOGIN_SECONDS = 5.0  # for the login shell to tell its PATH
TERM_SECONDS = 0.6  # after TERM; with the grace before it less than acp-launch waits for its own child
KILL_SECONDS = 5.0  # for all rounds of KILL: one in a system call that hangs would take for ever
ROUND_SECONDS = 0.1  # at most, as the death of a child is told at once
ENDS = (_signal.SIGTERM, _signal.SIGHUP, _signal.SIGINT)
GONE = select.POLLERR | select.POLLHUP
ENDED = GONE | select.POLLRDHUP | select.POLLNVAL
MARK = b"acp-launch PATH="
SET_PDEATHSIG, SET_CHILD_SUBREAPER = 1, 36  # prctl(2)
SSH_FAILED = 255  # the status of ssh if there is no line
KILLED = "acp-launch's program was killed"


class _Refusal(Exception):  # noqa: N818 - it never leaves this program
    """Why the agent cannot be started, after the exit status."""


class _Json:  # what `json` gives to its scanner
    strict, parse_float, parse_int = True, float, int
    object_hook = object_pairs_hook = array_hook = parse_constant = memo = None


def _read_exactly(size: int) -> bytes:
    read = b""
    while len(read) < size:
        chunk = os.read(0, size - len(read))
        if not chunk:
            raise ValueError("its input ended early")
        read += chunk
    return read


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _below() -> "set[int]":
    """List the processes that descend from us."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
        except OSError:  # it has ended
            continue
    found, newest = set(), {os.getpid()}  # type: set[int], set[int]
    while newest:
        newest = {pid for pid, parent in parents.items() if parent in newest} - found
        found |= newest
    return found


def _spawn(program: bytes, argv: "list[bytes]", env: "dict[bytes, bytes]", streams: "list[int]") -> int:
    """Start a program in a session of its own, with these as its first descriptors. Raise OSError if it cannot run."""
    told, failed = os.pipe()  # closed by a successful exec
    pid = os.fork()
    if not pid:
        try:
            _signal.set_wakeup_fd(-1)
            os.setsid()
            for number in (_signal.SIGPIPE, _signal.SIGXFSZ):  # which Python ignores
                _signal.signal(number, _signal.SIG_DFL)
            for target, source in enumerate(streams):
                os.dup2(source, target)
            os.execve(program, argv, env)
        except OSError as error:
            os.write(failed, b"%d" % (error.errno or 0))
        finally:
            os._exit(126)
    os.close(failed)
    errno = os.read(told, 16)
    os.close(told)
    if errno:
        raise OSError(int(errno), os.strerror(int(errno)))
    return pid


def _is_seat(path: str) -> bool:
    """Whether a path is a socket of ours, or a directory of ours with one."""
    seat = path if os.path.islink(path) or not os.path.isdir(path) else f"{path}/seat"
    is_socket = os.path.lexists(seat) and os.lstat(seat).st_mode & 0o170000 == 0o140000  # S_IFMT, S_IFSOCK
    return is_socket and os.lstat(path).st_uid == os.geteuid()


def _remove(path: str) -> None:
    """Remove a file, or a directory with all that is in it, if it is there."""
    if os.path.islink(path) or not os.path.isdir(path):
        if os.path.lexists(path):
            os.unlink(path)
        return
    for directory, names, files in os.walk(path, topdown=False):
        links = [name for name in names if os.path.islink(f"{directory}/{name}")]
        for name in (*files, *links):
            os.unlink(f"{directory}/{name}")
        os.rmdir(directory)


class Half:
    def __init__(self, task: "dict[str, Any]") -> None:
        self.where = task["where"]
        self.argv = [_encode(part) for part in task["argv"]]
        self.env = {_encode(name): _encode(value) for name, value in task["env"].items()}
        self.cwd, self.grace, self.login_path = _encode(task["cwd"]), task["grace"], task["login_path"]
        self.needs_home, self.silence = task["needs_home"], task["silence"]
        self.heard = time.monotonic()
        self.seat = task["seat"] or {}
        self.made = ""  # the directory of the seat, once it is ours
        self.agent, self.sink = 0, -1  # its pid, and our end of its stdin
        self.status = None  # type: int | None # negative: by this signal
        self.is_to_end = False  # by a signal
        self.parent = os.getppid()
        self.wake, writer = os.pipe()
        for descriptor in (self.wake, writer):
            os.set_blocking(descriptor, False)
        _signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (*ENDS, _signal.SIGCHLD):
            _signal.signal(number, lambda number, frame: None)  # `_wait` reads them from `wake`

    def run(self) -> int:
        """Run the agent to its end; return the exit status."""
        try:
            self._make_seat()
            env = self._make_environment()
            if not self.is_to_end:
                self._start(env)
                self._pump()
            if self.parent != os.getppid():
                self._say(KILLED)
        except _Refusal as refusal:
            self.status = refusal.args[0]
            self._say(refusal.args[1])
        finally:
            self._end_all()
            self._remove_seat()
        status = -_signal.SIGTERM if self.status is None else self.status
        return 128 - status if status < 0 else status

    def watch(self, worker: int) -> int:
        """Wait for the process that has the agent. If it was killed, end what it has left, and remove its seat."""
        self.agent = worker
        while self._reap() and self.status is None:
            self._wait({}, None)
            if self.is_to_end:
                os.kill(worker, _signal.SIGTERM)
        if self.status is not None and self.status >= 0:
            return self.status
        self._say(KILLED)
        self._end_all()
        try:
            self._take_directory()
        except (OSError, KeyError):  # there is no seat, or its directory is not ours
            return SSH_FAILED
        self._remove_seat()
        return SSH_FAILED

    def _say(self, text: str) -> None:
        poll = select.poll()
        poll.register(2, select.POLLOUT)
        if poll.poll(0) == [(2, select.POLLOUT)]:  # otherwise a write could block
            os.write(2, _encode(f"acp-launch: {text} {self.where}\n"))

    def _make_seat(self) -> None:
        if not self.seat:
            return
        directory = self.seat["directory"]
        try:
            self._sweep(os.path.dirname(directory))
            self._take_directory()
            os.rename(self.seat["socket"], directory + "/seat")
            for name, text in self.seat["files"].items():
                with open(f"{directory}/{name}", "wb") as file:
                    file.write(_encode(text))
        except OSError as error:
            raise _Refusal(126, f'the seat "{directory}" cannot be made: {error.strerror},') from None

    def _take_directory(self) -> None:
        """Make it for us alone. One that is ours is left by an earlier agent of this launch, which was killed."""
        directory = self.seat["directory"]
        try:
            os.mkdir(directory, 0o700)
        except FileExistsError:
            seen = os.lstat(directory)
            if seen.st_uid != os.geteuid() or seen.st_mode & 0o170077 != 0o040000:  # S_IFMT, S_IFDIR
                raise
        self.made = directory

    def _remove_seat(self) -> None:
        if not self.seat:
            return
        try:
            _remove(self.made)
            _remove(self.seat["socket"])
        except OSError as error:
            self._say(f'"{error.filename}" cannot be removed: {error.strerror},')

    def _sweep(self, above: str) -> None:
        """Remove the seats that have no listener any more: their launches have ended, and we were killed with them."""
        try:
            with open("/proc/net/unix", "rb") as file:
                listening = file.read()
            for name in os.listdir(above):
                path = f"{above}/{name}"
                if name.startswith("acp-launch-") and _encode(path) not in listening and _is_seat(path):
                    _remove(path)
        except OSError:  # it has gone meanwhile
            return

    # Starting

    def _make_environment(self) -> "dict[bytes, bytes]":
        env = dict(os.environb)
        path = self._ask_login_shell() if self.login_path and b"PATH" not in self.env else b""
        if path:
            env[b"PATH"] = path
        if self.needs_home and not os.access(env.get(b"HOME", b""), os.W_OK):
            env[b"HOME"] = self._make_home()
        return {**env, b"PWD": self.cwd, **self.env}

    def _make_home(self) -> bytes:
        home = b"/tmp/home-" + os.urandom(4).hex().encode()
        try:
            os.mkdir(home, 0o700)
        except OSError as error:
            self._say(f"HOME cannot be written, and no directory can be made in /tmp: {error.strerror},")
        return home

    def _start(self, env: "dict[bytes, bytes]") -> None:
        """Start the agent. Raise _Refusal if it cannot run."""
        try:
            os.chdir(self.cwd)
        except OSError as error:
            raise _Refusal(126, f'the directory "{os.fsdecode(self.cwd)}" cannot be used: {error.strerror},') from None
        name = os.fsdecode(self.argv[0])
        program = self._find(self.argv[0], env.get(b"PATH") or _encode(os.defpath))
        stdin, self.sink = os.pipe()
        os.set_blocking(self.sink, False)
        try:
            self.agent = _spawn(program, self.argv, env, [stdin])
        except OSError as error:
            raise _Refusal(126, f'"{name}" cannot be run: {error.strerror},') from None
        os.close(stdin)

    def _find(self, name: bytes, path: bytes) -> bytes:
        found = False
        for directory in [b""] if b"/" in name else path.split(b":"):
            candidate = os.path.join(directory or b".", name)
            found = found or os.path.isfile(candidate)
            if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
                return candidate
        shown = os.fsdecode(name)
        if found:
            raise _Refusal(126, f'"{shown}" is not executable')
        looked = f'"{shown}" is not on PATH ({os.fsdecode(path)})'
        raise _Refusal(127, looked if b"/" not in name else f'there is no "{shown}"')

    def _ask_login_shell(self) -> bytes:
        """Ask the user's login shell for its PATH; empty if it does not tell."""
        shell = os.environb.get(b"SHELL") or b"/bin/sh"
        asked = b"/bin/sh -c 'echo \"" + MARK + b"$PATH\"'"  # for fish and csh too
        reader, writer = os.pipe()
        null = os.open(os.devnull, os.O_RDWR)
        try:
            pid = _spawn(shell, [shell, b"-lc", asked], dict(os.environb), [null, writer, null])
        except OSError as error:
            self._say(f'the login shell "{os.fsdecode(shell)}" cannot be run: {error.strerror},')
            return b""
        finally:
            os.close(writer)
            os.close(null)
        said, is_open, deadline = b"", True, time.monotonic() + LOGIN_SECONDS
        while is_open and not (self.is_to_end or b"\n" in said.partition(MARK)[2]):
            ready = self._wait({reader: select.POLLIN}, deadline)
            chunk = os.read(reader, CHUNK_BYTES) if reader in ready else b""
            said = said[-len(MARK) :] + chunk if MARK not in said else said + chunk
            is_open = bool(chunk) if reader in ready else bool(ready)
        path, end, _ = said.partition(MARK)[2].partition(b"\n")
        if not end:
            os.killpg(pid, _signal.SIGKILL)
        if not (end or self.is_to_end):
            self._say("no PATH came from the login shell")
        os.close(reader)
        return path if end else b""

    # Running

    def _wait(self, wanted: "dict[int, int]", deadline: "float | None") -> "dict[int, int]":
        """Poll, also for signals; return nothing at the deadline."""
        poll = select.poll()
        poll.register(self.wake, select.POLLIN)
        for descriptor, events in wanted.items():
            poll.register(descriptor, events)
        ready = dict(poll.poll(None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000))
        if self.wake in ready:
            self.is_to_end = self.is_to_end or any(number in ENDS for number in os.read(self.wake, CHUNK_BYTES))
        return ready

    def _pump(self) -> None:
        """Pass our stdin to the agent, until the agent has ended, or is to be ended now."""
        held, has_input = b"", True
        deadline = None  # type: float | None
        while self._reap() and self.status is None and not self.is_to_end:
            wanted = {1: 0} if deadline is None else {}
            if has_input and (deadline is None or not held):  # the end of a stdin that we cannot read yet is told once
                wanted[0] = (0 if held else select.POLLIN) | select.POLLRDHUP
            if held:
                wanted[self.sink] = select.POLLOUT
            lost = self.heard + self.silence if self.silence and deadline is None and not held else deadline
            if not (ready := self._wait(wanted, lost)):
                if deadline is None:
                    raise _Refusal(SSH_FAILED, f"the line was silent for {self.silence:g} s,")
                return
            if ready.get(1, 0) & GONE:
                held, has_input = b"", False
            elif 0 in ready and not held:
                has_input, held = self._read()
            elif held:  # what comes then is not seen
                self.heard = time.monotonic()
            held = self._write(held)
            if deadline is None and not (has_input and not ready.get(0, 0) & ENDED):
                deadline = time.monotonic() + self.grace
            if not (has_input or held):
                self._close_sink()

    def _read(self) -> "tuple[bool, bytes]":
        """Return whether our stdin has not ended, and what is for the agent."""
        chunk = os.read(0, CHUNK_BYTES)
        self.heard = time.monotonic()
        return bool(chunk), chunk.replace(b"\0", b"") if self.silence else chunk

    def _write(self, held: bytes) -> bytes:
        """Write what the agent's stdin takes; return the rest. What comes after it has closed its stdin is dropped."""
        try:
            return held[os.write(self.sink, held) :] if held and self.sink >= 0 else b""
        except BlockingIOError:
            return held
        except OSError:
            self._close_sink()
            return b""

    def _close_sink(self) -> None:
        if self.sink >= 0:
            os.close(self.sink)
        self.sink = -1

    # Ending

    def _reap(self) -> bool:
        """Take the status of each child that has ended; return whether there are others."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return True
                if pid == self.agent and self.status is None:
                    self.status = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        except ChildProcessError:
            return False

    def _end_all(self) -> None:
        """End all processes below us: first TERM for each, then KILL round by round."""
        self._close_sink()
        asked = set()  # type: set[int]
        kills_from = time.monotonic() + TERM_SECONDS
        while self._reap():
            now, below = time.monotonic(), _below()
            if now > kills_from + KILL_SECONDS:
                self._say(f"{len(below)} processes cannot be ended")
                return
            for pid in below if now > kills_from else below - asked:
                try:
                    os.kill(pid, _signal.SIGKILL if now > kills_from else _signal.SIGTERM)
                except OSError:  # it has ended, or is another user's
                    continue
            asked |= below
            self._wait({}, min(now + ROUND_SECONDS, max(now, kills_from) + 0.001))


def main() -> int:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    try:
        text = _read_exactly(int(_read_exactly(9))).decode()
        task = make_scanner(_Json)(text, 0)[0]  # type: ignore[arg-type]
    except ValueError:
        os.write(2, b"acp-launch: this program is started by acp-launch, which has ended\n")
        return 2
    _signal.alarm(0)  # of `plan.place.BOOT`
    if CDLL is None:
        return Half(task).run()
    CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    worker = os.fork() if task["silence"] else 0
    if worker:
        return Half(task).watch(worker)
    if task["silence"]:
        CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        CDLL(None).prctl(SET_PDEATHSIG, _signal.SIGTERM, 0, 0, 0)
    return Half(task).run()


if __name__ == "__main__":
    os._exit(main())  # nothing needs cleaning up, and the interpreter's shutdown would take long
