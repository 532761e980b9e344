"""Ring 3. The shim as agents start it, between real pipes and a real socket whose other end is the test.

Most of it about the way that is left where a sandbox forbids to lend descriptors: the bytes are copied.
"""

import ast
import hashlib
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import pytest

from acp_launch.bridge import copying, shim
from acp_launch.plan.model import STARTER
from tests.patience import PATIENCE

PROMPT = 5  # seconds; the promise is 1, the rest is for a machine with much to do
SHIM = str(Path(shim.__file__))
REFUSED = (
    b'acp-launch: no connection for the MCP server "github": acp-launch or the session has ended, or it was refused\n'
)
MUCH = 50_000_000  # bytes
# The shim where descriptors cannot be passed.
COPIES = f"""
import posix, sys
sys.path.insert(0, {str(Path(SHIM).parent)!r})
import shim
shim._flows = lambda descriptor: False
try:
    status = shim.main(sys.argv)
except KeyboardInterrupt:
    status = 130
posix._exit(status)
"""


class Bench:
    """A listening socket, and shims that connect to it."""

    copying: Sequence[str] = (sys.executable, "-I", "-S", "-c", COPIES)

    def __init__(self, directory: Path) -> None:
        self.path = directory / "seat"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.settimeout(PATIENCE)
        self.listener.bind(str(self.path))
        self.listener.listen(8)
        self._shims: list[subprocess.Popen[bytes]] = []
        self._seats: list[socket.socket] = []

    def start(
        self,
        *args: str,
        prefix: Sequence[str] = (),
        token: str = "t0ken",
        stdin: int | IO[bytes] = subprocess.PIPE,
        stdout: int | IO[bytes] = subprocess.PIPE,
        lends: bool = False,
        more_env: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        program = (sys.executable, "-I", "-S", SHIM) if lends else self.copying
        argv = [*prefix, *program, *(args or (str(self.path), "github"))]
        env = {**({"ACP_LAUNCH_SEAT": token} if token else {}), **(more_env or {})}
        started = subprocess.Popen(argv, env=env, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, bufsize=0)
        self._shims.append(started)
        return started

    def accept(self) -> socket.socket:
        """The next connection, greeted."""
        seat, _ = self.listener.accept()
        self._seats.append(seat)
        seat.settimeout(PATIENCE)
        greeting = b"acp-launch 2 t0ken github\n"
        assert read(seat, len(greeting)) == greeting
        return seat

    def let_in(self) -> socket.socket:
        """The next connection, where the bytes are copied from here on."""
        seat = self.accept()
        seat.sendall(b"+")
        assert read(seat, 1) == b"="
        return seat

    def close(self) -> None:
        for seat in (self.listener, *self._seats):
            seat.close()
        for started in self._shims:
            started.kill()
            started.wait()
            for stream in (started.stdin, started.stdout, started.stderr):
                if stream:
                    stream.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()


def read(source: socket.socket, size: int) -> bytes:
    """Exactly so much, or what there is until the end."""
    heard = b""
    while len(heard) < size and (chunk := source.recv(size - len(heard))):
        heard += chunk
    return heard


def write(started: subprocess.Popen[bytes], data: bytes) -> None:
    assert started.stdin
    started.stdin.write(data)


def output(started: subprocess.Popen[bytes]) -> IO[bytes]:
    assert started.stdout
    return started.stdout


def hang_up(seat: socket.socket, started: subprocess.Popen[bytes]) -> None:
    """The seat goes, and so does the shim."""
    seat.close()
    assert ending(started) == (0, b"")


def close_stdin(started: subprocess.Popen[bytes]) -> None:
    assert started.stdin
    started.stdin.close()


def ending(started: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    """Its status and its stderr, once it has ended, which it does at once."""
    assert started.stderr
    return started.wait(PROMPT), started.stderr.read()


def pair(bench: Bench) -> tuple[subprocess.Popen[bytes], socket.socket]:
    started = bench.start()
    return started, bench.let_in()


# Lending


def lending(bench: Bench) -> tuple[subprocess.Popen[bytes], socket.socket, int, int]:
    """A shim, its connection, and its stdin and stdout, as they have come to the seat."""
    started = bench.start(lends=True)
    seat = bench.accept()
    seat.sendall(b"+")
    word, (source, sink), _, _ = socket.recv_fds(seat, 1, 2)
    assert word == b"+"
    return started, seat, source, sink


def test_the_seat_gets_its_stdin_and_stdout_and_it_ends_with_the_connection(bench: Bench) -> None:
    started, seat, source, sink = lending(bench)
    write(started, b"ask\n")
    assert os.read(source, 100) == b"ask\n"
    os.write(sink, b"answer\n")
    assert output(started).read(100) == b"answer\n"
    for descriptor in (source, sink):
        os.close(descriptor)
    assert output(started).read() == b""  # it does not hold them any more
    hang_up(seat, started)


def test_what_the_agent_said_before_the_seat_answered_is_not_lost(bench: Bench) -> None:
    started = bench.start(lends=True)
    write(started, b"early\n")
    close_stdin(started)
    seat = bench.accept()
    seat.sendall(b"+")
    _, (source, sink), _, _ = socket.recv_fds(seat, 1, 2)
    assert (os.read(source, 100), os.read(source, 100)) == (b"early\n", b"")
    for descriptor in (source, sink):
        os.close(descriptor)
    hang_up(seat, started)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_the_seat_hears_of_the_death_of_one_that_has_lent(bench: Bench, number: signal.Signals) -> None:
    started, seat, source, sink = lending(bench)
    started.send_signal(number)
    assert seat.recv(1) == b""
    for descriptor in (source, sink):
        os.close(descriptor)
    assert output(started).read() == b""
    assert ending(started) == (-number, b"")


# Copying


def test_in_a_container_a_script_starts_it_and_nothing_is_added_to_its_directory(bench: Bench, tmp_path: Path) -> None:
    """It copies at once, as it is told to: over ssh, too, its descriptors would be lost."""
    directory = tmp_path / "mounted"
    directory.mkdir()
    names = {STARTER, "shim.py", "copying.py"}
    for name in names:
        shutil.copy(Path(shim.__file__).parent / name, directory)
    bench.copying = ("/bin/sh", str(directory / STARTER), "shim")
    started = bench.start(more_env={"ACP_LAUNCH_SEAT_COPY": "1", "PATH": os.environ["PATH"]})
    hang_up(bench.let_in(), started)
    assert {path.name for path in directory.iterdir()} == names


def test_it_greets_and_copies_both_ways_until_the_seat_ends(bench: Bench) -> None:
    started, seat = pair(bench)
    for number in range(3):
        write(started, b"ask %d\n" % number)
        assert read(seat, 6) == b"ask %d\n" % number
        seat.sendall(b"say %d\n" % number)
        assert output(started).read(100) == b"say %d\n" % number
    hang_up(seat, started)
    assert output(started).read() == b""


def test_what_the_seat_said_last_still_arrives(bench: Bench) -> None:
    started, seat = pair(bench)
    seat.sendall(b"x" * 100_000)
    seat.close()
    assert len(started.communicate(timeout=PATIENCE)[0]) == 100_000


def test_what_the_seat_said_before_it_hung_up_on_us_arrives(bench: Bench) -> None:
    """It has not read what we sent, so the connection is reset."""
    started, seat = pair(bench)
    write(started, b"never read\n")
    seat.recv(1, socket.MSG_PEEK)
    seat.sendall(b"goodbye\n")
    seat.close()
    assert output(started).read() == b"goodbye\n"
    assert ending(started) == (0, b"")


def test_an_agent_that_ends_its_input_still_hears_the_answers(bench: Bench) -> None:
    started, seat = pair(bench)
    write(started, b"ask\n")
    close_stdin(started)
    assert read(seat, 100) == b"ask\n"  # and the end
    seat.sendall(b"answer\n")
    assert output(started).read(100) == b"answer\n"
    hang_up(seat, started)


class Copy(threading.Thread):
    """Reads `size` bytes in `pieces`, from a socket or a pipe."""

    def __init__(self, source: int, size: int, piece: int) -> None:
        super().__init__(daemon=True)
        self._source, self._left, self._piece = source, size, piece
        self.seen = hashlib.sha256()

    def run(self) -> None:
        while self._left and (chunk := os.read(self._source, self._piece)):
            self._left -= len(chunk)
            self.seen.update(chunk)


def peak(pid: int) -> int:
    """The most memory it ever had, in KiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


@pytest.mark.whole
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_50_mb_each_way_at_once_arrive_whole_and_are_not_held(bench: Bench) -> None:
    """Both readers are slow: they take 4 KiB at a time."""
    assert growth(bench) < 1024


def growth(bench: Bench) -> int:
    """How much its memory grows, in KiB, by much each way at once."""
    started, seat = pair(bench)
    seat.settimeout(None)
    before = peak(started.pid)
    up, down = os.urandom(MUCH), os.urandom(MUCH)
    readers = [Copy(seat.fileno(), MUCH, 4096), Copy(output(started).fileno(), MUCH, 4096)]
    writers = [
        threading.Thread(target=write_all, args=[started, up], daemon=True),
        threading.Thread(target=seat.sendall, args=[down], daemon=True),
    ]
    for thread in (*readers, *writers):
        thread.start()
    for thread in (*readers, *writers):
        thread.join(4 * PATIENCE)
    assert [reader.seen.digest() for reader in readers] == [hashlib.sha256(sent).digest() for sent in (up, down)]
    return peak(started.pid) - before


def write_all(started: subprocess.Popen[bytes], data: bytes) -> None:
    """The stream has no buffer, so it takes what the pipe does."""
    rest = memoryview(data)
    while rest:
        assert started.stdin
        rest = rest[started.stdin.write(rest) :]


# Ending


def test_an_agent_that_ends_its_input_does_not_keep_it_alive(bench: Bench) -> None:
    """The seat says nothing and hangs on."""
    started, seat = pair(bench)
    close_stdin(started)
    assert read(seat, 1) == b""
    assert ending(started) == (0, b"")


@pytest.mark.parametrize("is_full", [False, True])
def test_an_agent_with_open_input_that_may_not_read_does_not_keep_it_alive(bench: Bench, is_full: bool) -> None:
    """stdout may be full, and the seat has gone."""
    started, seat = pair(bench)
    fill(seat) if is_full else seat.sendall(b"something")
    hang_up(seat, started)


def fill(seat: socket.socket) -> None:
    seat.setblocking(False)
    flood(seat.fileno())


def flood(descriptor: int) -> None:
    """Write until nothing has moved for a while: all there is between the two ends is full."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLOUT)
    while waiting.poll(200):
        try:
            os.write(descriptor, b"x" * 65536)
        except BlockingIOError:
            continue


@pytest.mark.parametrize("is_busy", [False, True])
def test_an_agent_that_closes_its_end_of_stdout_ends_it(bench: Bench, is_busy: bool) -> None:
    started, seat = pair(bench)
    output(started).close()
    if is_busy:
        with suppress(BrokenPipeError, ConnectionResetError):  # it went while we wrote
            seat.sendall(b"x" * 1_000_000)
    assert ending(started) == (0, b"")


def test_a_seat_whose_process_is_killed_ends_it(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "other"
    holder = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print(flush=True);"
        "c, _ = s.accept(); c.recv(100); c.send(b'+'); c.recv(1); c.send(b'hello'); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holder, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as launcher:
        assert launcher.stdout
        launcher.stdout.readline()
        started = bench.start(str(path), "github")
        assert output(started).read(5) == b"hello"
        launcher.kill()
        assert ending(started) == (0, b"")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_shim_that_is_killed_ends_both_its_sides(bench: Bench, number: signal.Signals) -> None:
    started, seat = pair(bench)
    started.send_signal(number)
    assert seat.recv(1) == b""
    assert output(started).read() == b""
    assert ending(started) == (-number, b"")


def test_an_interrupt_ends_it_without_a_traceback(bench: Bench) -> None:
    started, _ = pair(bench)
    started.send_signal(signal.SIGINT)
    assert ending(started) == (130, b"")


@pytest.mark.whole
def test_while_it_waits_for_an_end_it_costs_nothing(bench: Bench) -> None:
    """Every state in which poll would tell of the same end again and again."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started, seat = pair(bench)
    fill(seat)
    hang_up(seat, started)
    started, seat = pair(bench)
    close_stdin(started)
    assert ending(started) == (0, b"")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < copying.LINGER_SECONDS / 2


# Not getting in


def test_without_a_socket_it_says_so(bench: Bench) -> None:
    started = [bench.start(path, "github") for path in (f"{bench.path}.gone", "/" + 200 * "x")]
    assert [ending(each) for each in started] == [(1, REFUSED)] * 2


def test_a_socket_without_a_listener_is_reported(bench: Bench) -> None:
    bench.listener.close()
    assert ending(bench.start()) == (1, REFUSED)


@pytest.mark.parametrize("is_read", [False, True])
def test_a_seat_that_hangs_up_without_a_word_has_refused_it(bench: Bench, is_read: bool) -> None:
    started = bench.start()
    if is_read:
        bench.accept().close()
    else:
        bench.listener.accept()[0].close()
    assert ending(started) == (1, REFUSED)


def test_an_agent_that_leaves_before_a_word_was_said_was_not_refused(bench: Bench) -> None:
    started, seat = pair(bench)
    close_stdin(started)
    assert seat.recv(1) == b""
    hang_up(seat, started)


@pytest.mark.parametrize(("args", "token"), [([], ""), (["x"], "t"), (["x", "y", "z"], "t")])
def test_started_by_hand_it_says_what_to_start_instead(bench: Bench, args: list[str], token: str) -> None:
    assert ending(bench.start(*args, token=token)) == (
        1,
        b"acp-launch: this program is started by agents; run acp-launch instead\n",
    )


def test_one_that_finds_the_door_crowded_waits_for_its_turn(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    try:
        bench.listener.listen(0)
        crowd = [bench.start() for _ in range(6)]
        for _ in crowd:
            bench.let_in().sendall(b"welcome")
        assert [output(started).read(7) for started in crowd] == [b"welcome"] * 6
    finally:
        bench.close()


def test_a_shim_whose_stderr_is_not_read_still_ends(bench: Bench) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    argv = [sys.executable, "-I", "-S", SHIM, "/nowhere", "github"]
    with subprocess.Popen(argv, env={"ACP_LAUNCH_SEAT": "t"}, stderr=writer) as started:
        os.close(writer)
        assert started.wait(PROMPT) == 1


# What agents connect it to


def test_sockets_do_for_stdin_and_stdout(bench: Bench) -> None:
    """What node gives to its children; here even one for both."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(PATIENCE)
        started = bench.start(stdin=theirs.fileno(), stdout=theirs.fileno())
        theirs.close()
        seat = bench.let_in()
        ours.sendall(b"ask\n")
        assert read(seat, 4) == b"ask\n"
        seat.sendall(b"answer\n")
        assert read(ours, 7) == b"answer\n"
        ours.shutdown(socket.SHUT_WR)
        assert read(seat, 1) == b""
        seat.sendall(b"more\n")
        assert read(ours, 5) == b"more\n"
        hang_up(seat, started)


def test_a_socket_that_the_agent_closes_ends_it(bench: Bench) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        started = bench.start(stdout=theirs.fileno())
        theirs.close()
        bench.let_in()
        ours.close()
        assert ending(started) == (0, b"")


def test_files_do_for_stdin_and_stdout(bench: Bench, tmp_path: Path) -> None:
    asked, answered = tmp_path / "asked", tmp_path / "answered"
    asked.write_bytes(b"ask\n" * 100_000)
    with asked.open("rb") as stdin, answered.open("wb") as stdout:
        started = bench.start(stdin=stdin, stdout=stdout)
        seat = bench.let_in()
        assert len(read(seat, 1_000_000)) == 400_000
        seat.sendall(b"answer\n" * 20_000)
        hang_up(seat, started)
    assert answered.read_bytes() == b"answer\n" * 20_000


def test_nothing_at_all_does_for_stdin_and_stdout(bench: Bench) -> None:
    """Its connection must not become its stdin or its stdout."""
    started = bench.start(prefix=["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"])
    seat = bench.let_in()
    seat.sendall(b"hello\n")
    assert read(seat, 100) == b""
    assert ending(started) == (0, b"")


def test_whatever_its_name_the_seat_is_asked_for_it(bench: Bench) -> None:
    started = bench.start(str(bench.path), "a b\udcff\u2028")
    seat, _ = bench.listener.accept()
    with seat:
        seat.settimeout(PATIENCE)
        wanted = b"acp-launch 2 t0ken a b?\xe2\x80\xa8\n"
        assert read(seat, len(wanted)) == wanted
    assert ending(started)[0] == 1


def test_it_imports_next_to_nothing() -> None:
    """Each further module is a tenth of its start or more."""
    tree = ast.walk(ast.parse(Path(SHIM).read_text()))
    imports = [node for node in tree if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {node.module for node in imports if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    assert names == {"_socket", "copying", "posix", "select", "sys", "time"}
