"""
The light way of a `run` whose host is up: a process that the host keeps ready runs the prompt, and we wait.

Python's start and our imports take many times as long as a prompt to a host. So a host has a starter (starter.py), a
process that has imported everything, and this module asks it for a front: it passes arguments, directory, environment,
umask and the three standard streams, hands on signals, and ends as the front ends. What the front does is the ordinary
`run`, so the output is the same. Where the two would differ, or the starter does not answer, nothing has happened yet
and the ordinary way is taken: with a terminal on stdin (questions, keys and job control need it to be one's own),
another interpreter or locale, or arguments that are not spelled plainly. It imports as little as possible.

What is said on the connection:

    light      acp-launch front 1 VERSION LENGTH and a line end, and with it stdin, stdout and stderr; then a request
    front      `+`, its pid and a line end; or the connection is closed
    light      `.`; or it closes the connection, and nothing happens
    front      `-` if this is not a run for a host; or `=`, its exit code and a line end
    starter    for a front that has not said so: `=`, its exit code and a line end; or `!`, a signal and a line end

A request is, each ended by a NUL: the directory, the umask, the ignored signals, the number of arguments, the
arguments, the environment.
"""

import os
import sys

TYPE_CHECKING = False  # that of `typing`, whose import takes as long as all of this
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    from acp_launch.cli.run_request import RunRequest as RunRequest

GREETING = b"acp-launch front 1 "
SUFFIX = ".starter"  # of the file beside the note of a host
FOLDER = "hosts"  # in the state directory, as in host.place
PATIENCE = 5.0  # seconds for the front to begin; it takes milliseconds
LONGEST = 1024  # bytes of an answer
ENDING = ("SIGINT", "SIGTERM", "SIGHUP")

# The options of `run` that the light way knows, without a value and with one.
FLAGS = frozenset(["--continue", "-c", "--new", "--no-replay", "--trust", "--plain"])
VALUED = frozenset(
    ["--file", "-f", "--session", "-s", "--cwd", "--output", "-o", "--approve", "--timeout", "--attach", "-a", "--set"]
)
OURS_ALONE = ("/dev/", "/proc/")  # names that mean something else in another process


def _nothing() -> None:
    return None


# In a front that a starter has begun: ends it, because this is not a run for a host.
decline: "Callable[[], object]" = _nothing


def carry_out(arguments: "list[str]") -> "list[int]":
    """Have a starter carry out a `run`, and end as it ends.

    Returns only if the ordinary way must be taken, with the signals that came meanwhile.
    """
    profile = _profile(arguments)
    if profile is None or not hasattr(os, "fork") or _needs_this_process():
        return []
    for path in _sockets(profile):
        waiting = _Waiting()
        try:
            waiting.wait(path, arguments)
        except OSError:  # it has gone, or does not answer
            return waiting.restored()
        return waiting.restored()
    return []


def _profile(arguments: "list[str]") -> str | None:
    """Return the profile that is named; None if the arguments are not spelled plainly, or name none."""
    words: list[str] = []
    rest = iter(arguments[1:])
    for argument in rest:
        if argument == "--":
            words += rest
        elif argument in VALUED:
            value = next(rest, "--")
            if (value.startswith("-") and value != "-") or value.startswith(OURS_ALONE):
                return None
        elif argument.startswith("-") and argument != "-" and argument not in FLAGS:
            return None
        elif argument not in FLAGS:
            words.append(argument)
    return words[0] if words else None


def _needs_this_process() -> bool:
    """Whether a stream is closed, or stdin is a terminal: it belongs to our session and our job alone."""
    return None in (sys.stdin, sys.stdout, sys.stderr) or sys.stdin.isatty()


# The file that a starter is found by.


def interpreter() -> bytes:
    """Return what an interpreter keeps from its start: a front has what the starter's has."""
    told = sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith(("PYTHON", "LANG", "LC_")))
    lines = [sys.version, sys.prefix, os.path.dirname(__file__), repr(sys.flags), *told]  # noqa: PTH120
    return os.fsencode("\n".join(lines))


def note(version: str, profile: str, within: str, path: str) -> bytes:
    """Return the content of the file.

    `profile` is its name, or the path of its file; it is meant by that `within` a directory. `path` is the socket's.
    """
    return b"\0".join([os.fsencode(each) for each in (version, profile, within, path)] + [interpreter()])


def _sockets(profile: str) -> "Iterator[bytes]":
    """Return the sockets of starters that can run what this profile means here; the nearest project's first."""
    from acp_launch import __version__
    from acp_launch.settings.variables import place

    try:
        folder = os.path.join(place("STATE"), FOLDER)  # noqa: PTH118
        names = [name for name in os.listdir(folder) if name.endswith(SUFFIX)]  # noqa: PTH208
        here = os.getcwdb()  # noqa: PTH109
    except (OSError, RuntimeError):  # platformdirs finds no home directory: the ordinary way says so
        return iter(())
    wanted = os.fsencode(profile)
    if "/" in profile or profile.endswith((".yaml", ".yml")):
        wanted = os.path.normpath(os.path.join(here, os.path.expanduser(wanted)))  # noqa: PTH111, PTH118
    found = []
    for name in names:
        try:
            with open(os.path.join(folder, name), "rb", buffering=0) as file:  # noqa: PTH118, PTH123
                version, named, within, path, theirs = file.read().split(b"\0", 4)
        except (OSError, ValueError):  # it has just gone
            continue
        is_fit = version == __version__.encode() and named == wanted and theirs == interpreter()
        if is_fit and (here + b"/").startswith(within.rstrip(b"/") + b"/"):
            found.append((within, path))
    return iter([path for _, path in sorted(found, key=_length, reverse=True)])


def _length(found: "tuple[bytes, bytes]") -> int:
    return len(found[0])


# The wait for a front.


class _Waiting:
    """This process while a front does its work."""

    def __init__(self) -> None:
        import signal

        self._signal = signal
        self._front = 0  # its pid
        self._early: list[int] = []
        self._ignored: list[int] = []
        self._before = {}
        for name in ENDING:
            number = getattr(signal, name)
            if signal.getsignal(number) == signal.SIG_IGN:  # nohup
                self._ignored.append(int(number))
            else:
                self._before[number] = signal.signal(number, self._arrived)
        if signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL:
            self._before[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, self._stopped)

    def restored(self) -> "list[int]":
        """Restore the signal handlers, except those that `leave.listen` replaces; return the signals that came."""
        self._signal.signal(self._signal.SIGTSTP, self._before.get(self._signal.SIGTSTP, self._signal.SIG_IGN))
        return self._early

    def wait(self, path: bytes, arguments: "list[str]") -> None:
        """Have the front begin, and end as it ends; return if it declines.

        Raises:
            OSError: it has not begun.
        """
        import _socket  # `socket` takes longer than all of this

        with_it = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        line: socket.socket = with_it  # type: ignore[assignment]
        try:
            line.settimeout(PATIENCE)
            line.connect(path)
            self._ask(line, arguments, (_socket.SOL_SOCKET, _socket.SCM_RIGHTS))
            front = _line(line)
            if front[:1] != b"+":
                return
            line.sendall(b".")
            line.settimeout(None)
            self._front = int(front[1:])
            while self._early:
                self._hand_on(self._early.pop(0))
            self._end(_line(line))
            self._front = 0
        finally:
            line.close()

    def _ask(self, line: "socket.socket", arguments: "list[str]", rights: "tuple[int, int]") -> None:
        from acp_launch import __version__

        umask = os.umask(0o077)
        os.umask(umask)
        ignored = b",".join(b"%d" % number for number in self._ignored)
        words = [os.fsencode(word) for word in arguments]
        variables = [name + b"=" + value for name, value in os.environb.items()]
        here = os.getcwdb()  # noqa: PTH109
        request = b"".join(
            each + b"\0" for each in (here, b"%d" % umask, ignored, b"%d" % len(words), *words, *variables)
        )
        head = b"%s%s %d\n" % (GREETING, __version__.encode(), len(request))
        streams = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
        line.sendmsg([head], [(*rights, streams)])
        line.sendall(request)

    def _arrived(self, number: int, frame: object) -> None:
        if self._front:
            self._hand_on(number)
        else:
            self._early.append(number)

    def _stopped(self, number: int, frame: object) -> None:
        """Stop together with the front, as one job."""
        self._hand_on(self._signal.SIGSTOP)
        self._signal.signal(number, self._signal.SIG_DFL)
        os.kill(os.getpid(), number)
        self._signal.signal(number, self._stopped)
        self._hand_on(self._signal.SIGCONT)

    def _hand_on(self, number: int) -> None:
        if self._front:
            try:
                os.kill(self._front, number)
            except ProcessLookupError:  # it has just ended
                return

    def _end(self, said: bytes) -> None:
        """End as the front has ended; return if it has declined."""
        if said[:1] == b"=":
            os._exit(int(said[1:]))
        if said[:1] != b"-":
            number = int(said[1:]) if said[:1] == b"!" else self._signal.SIGKILL  # it and the starter were killed
            if number != self._signal.SIGKILL:
                self._signal.signal(number, self._signal.SIG_DFL)
            os.kill(os.getpid(), number)
            os._exit(128 + number)


def _line(line: "socket.socket") -> bytes:
    """Read a line, or to the end."""
    said = b""
    while not said.endswith(b"\n") and said != b"-" and len(said) < LONGEST and (more := line.recv(LONGEST)):
        said += more
    return said.partition(b"\n")[0]
