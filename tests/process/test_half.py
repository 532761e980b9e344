"""Ring 3. The program that starts the agent elsewhere, as a child here with pipes for the line: what it starts, passes
on, and leaves behind, which is nothing."""

import ast
import hashlib
import os
import re
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from acp_launch.app.place import THERE_GRACE_SECONDS
from acp_launch.bridge.elsewhere import RemoteSeat, make_header, program, read_program
from acp_launch.plan.model import PROGRAMS, STARTER
from acp_launch.plan.place import BOOT
from acp_launch.process.child import GRACE_SECONDS
from tests.patience import PATIENCE, until
from tests.process import liveness as children
from tests.process.liveness import Liveness

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="prctl and /proc")

BRIDGE = Path(__file__).parents[2] / "acp_launch" / "bridge"
PYTHON = [sys.executable, "-I", "-S", str(BRIDGE / "half.py")]
PIPE_BYTES = 65536
GRACE = 0.1  # seconds, where the agent is deaf
MUCH = 50_000_000  # bytes
LONG = PATIENCE * 10  # seconds of silence, for a line that is not to be lost


class Line:
    """A half at the other end of pipes."""

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        cwd: str = "/",
        grace: float = PATIENCE,
        login_path: bool = False,
        needs_home: bool = False,
        seat: RemoteSeat | None = None,
        silence: float = 0,
        half: Sequence[str],
        own_env: Mapping[str, str] | None = None,
        before: bytes = b"",
        input: bytes | None = b"",
    ) -> None:
        """`input` follows the header in one write; None for writing nothing yet."""
        own = os.environ if own_env is None else own_env
        pipe = subprocess.PIPE
        self.half = subprocess.Popen([*half], env=own, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe)
        assert self.half.stdin and self.half.stdout and self.half.stderr
        self.stdin, self.stdout, self.stderr = self.half.stdin, self.half.stdout, self.half.stderr
        self.header = before + make_header(
            argv,
            env,
            cwd,
            grace=grace,
            where="on build1",
            login_path=login_path,
            needs_home=needs_home,
            seat=seat,
            silence=silence,
        )
        if input is not None:
            self.write(self.header + input)

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self.stdin.write(rest) :]

    def end(self) -> tuple[int, bytes, bytes]:
        """Its status and all that it has written, once our end of its stdin is closed and it has ended."""
        self.stdin.close()
        return self.ending()

    def ending(self) -> tuple[int, bytes, bytes]:
        """The same, but its stdin stays open."""
        written = [b"", b""]
        readers = [
            threading.Thread(target=lambda number, stream: written.__setitem__(number, stream.read()), args=each)
            for each in ((0, self.stdout), (1, self.stderr))
        ]
        for reader in readers:
            reader.start()
        status = self.half.wait(PATIENCE)
        for reader in readers:
            reader.join(PATIENCE)
        return status, written[0], written[1]

    def close(self) -> None:
        self.half.kill()
        self.half.wait()
        for stream in (self.stdin, self.stdout, self.stderr):
            stream.close()


@contextmanager
def lines(half: Sequence[str]) -> Iterator[Callable[..., Line]]:
    begun: list[Line] = []

    def begin(argv: Sequence[str], env: Mapping[str, str] | None = None, **how: object) -> Line:
        begun.append(Line(argv, env or {}, **{"half": half, **how}))  # type: ignore[arg-type]
        return begun[-1]

    yield begin
    for line in begun:
        line.close()


@pytest.fixture
def start() -> Iterator[Callable[..., Line]]:
    with lines(PYTHON) as begin:
        yield begin


Start = Callable[..., Line]


# What it passes on


def test_what_follows_the_header_is_the_agents_to_the_byte(start: Start) -> None:
    said = b'00000003\n{"id":1}\n\xff\x00'
    assert start(["cat"], input=said).end() == (0, said, b"")


def test_it_reads_what_comes_byte_by_byte(start: Start) -> None:
    line = start(["cat"], input=None)
    for byte in line.header + b"ask\n":
        line.write(bytes([byte]))
    assert line.end() == (0, b"ask\n", b"")


def test_its_text_can_come_first_on_the_line(start: Start) -> None:
    """The boot reads no byte of what follows the text."""
    line = start(["cat"], half=[sys.executable, "-I", "-S", "-c", BOOT], before=program(), input=None)
    for byte in (line.header + b"ask\n")[:300]:
        line.write(bytes([byte]))
    line.write((line.header + b"ask\n")[300:])
    assert line.end() == (0, b"ask\n", b"")
    assert not {"'", "\\", "!"} & set(BOOT)  # any shell takes it between single quotes


@pytest.mark.parametrize("sent", [b"", b"00000400\n{"])
def test_a_line_that_ends_before_the_agent_is_named_starts_nothing(start: Start, sent: bytes) -> None:
    line = start(["cat"], input=None)
    line.write(sent)
    assert line.end() == (2, b"", b"acp-launch: this program is started by acp-launch, which has ended\n")


def test_the_agent_gets_its_variables_directory_and_a_session_of_its_own(start: Start, tmp_path: Path) -> None:
    own = 'tr "\\0" "\\n" < /proc/$$/environ | grep ^PWD'
    shown = f'echo "$A $B"; {own}; ps -o sid= -p $$ | tr -d " "; echo $$; echo said >&2'
    line = start(["sh", "-c", shown], {"A": "é\udcff"}, cwd=str(tmp_path), own_env={**os.environ, "B": "b", "A": "a"})
    status, out, err = line.end()
    told, where, session, pid = out.splitlines()
    assert (status, told, where, err) == (0, b"\xc3\xa9\xff b", b"PWD=" + bytes(tmp_path), b"said\n")
    assert session == pid


def test_50_mb_arrive_whole_and_are_not_held(start: Start) -> None:
    assert much(start) < 40_000


def much(start: Start) -> int:
    """The most memory that it had, in KiB, with much input."""
    sent = os.urandom(MUCH)
    line = start(["sha256sum"])
    line.write(sent)
    peak = Path(f"/proc/{line.half.pid}/status").read_text().partition("VmHWM:")[2].split()[0]
    assert line.end()[1].split()[0].decode() == hashlib.sha256(sent).hexdigest()
    return int(peak)


def test_what_the_agent_said_last_arrives(start: Start) -> None:
    status, out, _ = start(["head", "-c", "3000000", "/dev/zero"]).ending()
    assert (status, len(out)) == (0, 3_000_000)


def test_input_for_an_agent_that_has_closed_its_stdin_is_dropped(start: Start, alive: Liveness) -> None:
    line = start(["sh", "-c", "exec <&-; exec " + " ".join(children.program("deaf"))], alive.env, grace=GRACE)
    alive.hear("deaf")
    line.write(b"x" * 3 * PIPE_BYTES)
    assert line.end() == (128 + signal.SIGTERM, b"", b"")


# How it ends


@pytest.mark.parametrize("silence", [0, LONG])
@pytest.mark.parametrize(("how", "status"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -15 $$", 143)])
def test_its_status_is_the_agents(start: Start, how: str, status: int, silence: float) -> None:
    """It ends with the agent, though its stdin stays open."""
    assert start(["sh", "-c", how], silence=silence).ending() == (status, b"", b"")


def test_an_agent_that_leaves_at_the_end_of_its_input_is_not_signalled(start: Start, alive: Liveness) -> None:
    line = start(children.program("polite"), alive.env, input=b"ask\n")
    alive.hear("polite")
    assert line.end() == (0, b"ask\n", b"")


def test_a_deaf_agent_is_ended_after_the_grace(start: Start, alive: Liveness) -> None:
    line = start(children.program("deaf", "stubborn"), alive.env, grace=GRACE)
    alive.hear("stubborn")
    assert line.end()[0] == 128 + signal.SIGKILL
    alive.assert_all_dead()


@pytest.mark.parametrize("silence", [0, 0.3])
def test_a_stdin_full_of_input_that_a_deaf_agent_never_reads_is_seen_to_end(
    start: Start, alive: Liveness, silence: float
) -> None:
    """Its line is not lost: what comes behind that cannot be seen."""
    line = start(children.program("deaf"), alive.env, silence=silence, grace=GRACE)
    alive.hear("deaf")
    os.set_blocking(line.stdin.fileno(), False)
    until(lambda: line.stdin.write(b"x" * PIPE_BYTES) is None and state_of(line.half.pid) == "S")
    with pytest.raises(subprocess.TimeoutExpired):
        line.half.wait(2 * silence)
    assert line.end()[0] == 128 + signal.SIGTERM
    alive.assert_all_dead()


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_all_without_the_grace(start: Start, alive: Liveness, number: signal.Signals) -> None:
    line = start(children.program("wrapper", alive.env["LIVENESS"], *children.program("deaf")), alive.env)
    heard = alive.heard(3)
    assert "deaf" in heard
    line.half.send_signal(number)
    assert line.ending()[0] == 128 + signal.SIGTERM
    alive.assert_all_dead()


def test_daemons_with_sessions_of_their_own_and_no_variables_are_ended(start: Start, alive: Liveness) -> None:
    line = start(children.program("wrapper", alive.env["LIVENESS"], *children.program("polite")), alive.env)
    alive.heard(3)
    assert line.end() == (0, b"", b"")
    alive.assert_all_dead()


def test_a_stubborn_daemon_that_changes_its_pid_all_the_time_is_ended(start: Start, alive: Liveness) -> None:
    line = start(children.program("hopper", "0.002"), alive.env)
    alive.hear("hopper", "hopping")
    assert line.end() == (0, b"", b"")
    alive.assert_all_dead()


def test_no_zombie_is_left_while_the_agent_runs(start: Start) -> None:
    """An orphan's death is its subreaper's to take note of."""
    line = start(["sh", "-c", "(setsid true &); setsid true & wait; echo; cat"], input=b"ask\n")
    assert (line.stdout.readline(), line.stdout.readline()) == (b"\n", b"ask\n")
    until(lambda: [state_of(each) for each in pids_below(line.half.pid)] == ["S"])
    assert line.end()[0] == 0


def pids_below(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_the_reader_of_its_stdout_is_killed_and_all_ends(start: Start, alive: Liveness) -> None:
    """Its stdin stays open."""
    reader, writer = os.pipe()
    other = [sys.executable, "-I", "-S", "-c", "import os; os.read(0, 1); os.read(0, 1)"]
    stays, closes = os.pipe()
    with subprocess.Popen(other, stdin=reader) as holder, subprocess.Popen(PYTHON, stdin=stays, stdout=writer) as half:
        for descriptor in (reader, writer, stays):
            os.close(descriptor)
        os.write(
            closes, make_header(children.program("deaf", "stubborn"), alive.env, "/", grace=GRACE, where="on build1")
        )
        alive.hear("stubborn")
        holder.kill()
        assert half.wait(PATIENCE) == 128 + signal.SIGKILL
        os.close(closes)
    alive.assert_all_dead()


def test_an_agent_whose_half_is_killed_hears_the_end_of_its_input(start: Start, alive: Liveness) -> None:
    line = start(children.program("polite"), alive.env)
    alive.hear("polite")
    (agent,) = pids_below(line.half.pid)
    line.half.kill()
    alive.assert_all_dead()
    line.half.wait(PATIENCE)  # before that, its children are still its own
    os.waitpid(agent, 0)  # it has come to us


# A line that may fall silent


BEAT = b"\0"


@pytest.mark.promise("kill")
def test_a_line_that_falls_silent_is_lost_and_all_ends(start: Start, alive: Liveness, seat: RemoteSeat) -> None:
    """Its stdin stays open."""
    line = start(children.program("deaf", "stubborn"), alive.env, seat=seat, silence=0.5)
    alive.hear("stubborn")
    status, out, err = line.ending()
    assert (status, out, err) == (255, b"", b"acp-launch: the line was silent for 0.5 s, on build1\n")
    alive.assert_all_dead()
    assert not os.path.lexists(seat.directory) and not os.path.lexists(seat.socket)


def test_a_line_with_a_sign_of_life_now_and_then_is_not_lost(start: Start) -> None:
    """The agent gets no byte of these."""
    line = start(["cat"], silence=1)
    begun = time.monotonic()
    while time.monotonic() < begun + 1.5:
        line.write(BEAT)
        assert select.select([line.stdout], [], [], 0.1) == ([], [], [])
    line.write(b'{"a":' + BEAT + b"1}\n")
    assert line.end() == (0, b'{"a":1}\n', b"")


@pytest.mark.promise("kill")
@pytest.mark.parametrize("victim", ["watcher", "worker"])
def test_one_of_the_two_is_killed_and_the_other_ends_all(
    start: Start, alive: Liveness, seat: RemoteSeat, victim: str
) -> None:
    """A daemon with a session of its own, and a deaf agent: this end hears at once."""
    argv = children.program("wrapper", alive.env["LIVENESS"], *children.program("deaf", "stubborn"))
    line = start(argv, alive.env, seat=seat, silence=LONG)
    alive.heard(3)
    (worker,) = pids_below(line.half.pid)
    os.kill(line.half.pid if victim == "watcher" else worker, signal.SIGKILL)
    status, _, err = line.ending()
    if victim == "watcher":
        os.waitpid(worker, 0)  # it has come to us
    assert status == (255 if victim == "worker" else -signal.SIGKILL)
    assert err == b"acp-launch: acp-launch's program was killed on build1\n"
    alive.assert_all_dead()
    until(lambda: not (os.path.lexists(seat.directory) or os.path.lexists(seat.socket)))


def test_a_signal_to_the_first_of_the_two_ends_all(start: Start, alive: Liveness, seat: RemoteSeat) -> None:
    line = start(children.program("deaf"), alive.env, seat=seat, silence=LONG)
    alive.hear("deaf")
    line.half.terminate()
    assert line.ending() == (128 + signal.SIGTERM, b"", b"")
    alive.assert_all_dead()
    assert not os.path.lexists(seat.directory)


@pytest.mark.parametrize("name", ["half.py", "half.js"])
def test_all_has_ended_before_acp_launch_loses_patience(name: str) -> None:
    """A deaf agent has the grace and the time after TERM; a launch gives its own child more."""
    told = {"half.py": r"^TERM_SECONDS = ([\d.]+)", "half.js": r"^const TERM_MS = (\d+)"}
    (found,) = re.findall(told[name], read_program(name), re.MULTILINE)
    after = float(found) / (1 if name == "half.py" else 1000)
    assert THERE_GRACE_SECONDS + after < GRACE_SECONDS


# What cannot be started


@pytest.mark.parametrize(
    ("argv", "status", "why"),
    [
        (["no-such-agent"], 127, f'"no-such-agent" is not on PATH ({os.environ["PATH"]}) on build1'),
        (["/no/such/agent"], 127, 'there is no "/no/such/agent" on build1'),
        (["/etc/passwd"], 126, '"/etc/passwd" is not executable on build1'),
        (["HERE/broken"], 126, '"HERE/broken" cannot be run: No such file or directory, on build1'),
        (["HERE/text"], 126, '"HERE/text" cannot be run: Exec format error, on build1'),
    ],
)
def test_a_program_that_cannot_be_run_is_named(
    start: Start, tmp_path: Path, argv: list[str], status: int, why: str
) -> None:
    for name, text in (("broken", "#!/no/such/interpreter\n"), ("text", "nothing\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o700)
    here = [part.replace("HERE", str(tmp_path)) for part in argv]
    said = f"acp-launch: {why}\n".replace("HERE", str(tmp_path)).encode()
    assert start(here).ending() == (status, b"", said)


def test_a_missing_directory_is_named(start: Start) -> None:
    said = b'acp-launch: the directory "/srv/gone" cannot be used: No such file or directory, on build1\n'
    assert start(["cat"], cwd="/srv/gone").ending() == (126, b"", said)


def test_a_program_is_found_in_the_agents_own_path(start: Start, tmp_path: Path) -> None:
    (tmp_path / "here").symlink_to("/bin/echo")
    assert start(["here", "found"], {"PATH": str(tmp_path)}).ending() == (0, b"found\n", b"")


# The login shell


@pytest.fixture
def shell(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """Variables of a user with this profile of a login shell."""

    def make(profile: str) -> dict[str, str]:
        (tmp_path / ".profile").write_text(profile)
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / "there").write_text("#!/bin/sh\necho there\n")
        (tmp_path / "bin" / "there").chmod(0o700)
        return {"PATH": os.defpath, "HOME": str(tmp_path), "SHELL": "/bin/sh"}

    return make


Shell = Callable[[str], dict[str, str]]


def test_the_login_shell_tells_where_programs_are(start: Start, shell: Shell) -> None:
    """What it says besides is nothing to the agent's line."""
    own = shell('echo "Welcome back"; echo hm >&2; read line; PATH="$HOME/bin:$PATH"\n')
    assert start(["there"], login_path=True, own_env=own).ending() == (0, b"there\n", b"")
    assert start(["there"], own_env=own).ending()[0] == 127
    assert start(["there"], {"PATH": os.defpath}, login_path=True, own_env=own).ending()[0] == 127


@pytest.mark.parametrize("profile", ["exit 1\n", "exec sleep 1000\n"])
def test_a_login_shell_that_does_not_tell_is_named_and_ended(
    start: Start, shell: Shell, tmp_path: Path, profile: str
) -> None:
    quick = tmp_path / "half.py"
    quick.write_text((BRIDGE / "half.py").read_text().replace("LOGIN_SECONDS = 5.0", "LOGIN_SECONDS = 0.5"))
    half = [*PYTHON[:-1], str(quick)]
    line = start(["echo", "hello"], login_path=True, own_env=shell(profile), half=half)
    assert line.ending() == (0, b"hello\n", b"acp-launch: no PATH came from the login shell on build1\n")


def test_a_signal_while_the_login_shell_is_asked_ends_all(start: Start, shell: Shell, alive: Liveness) -> None:
    deaf = " ".join(children.program("deaf", "stubborn"))
    line = start(["cat"], login_path=True, own_env={**shell(f"exec {deaf}\n"), "LIVENESS": alive.env["LIVENESS"]})
    alive.hear("stubborn")
    line.half.terminate()
    assert line.ending()[0] == 128 + signal.SIGTERM
    alive.assert_all_dead()


# The seat


@pytest.fixture
def seat(tmp_path: Path) -> RemoteSeat:
    """A seat to make, whose socket is there."""
    (tmp_path / "there.seat").touch(mode=0o600)
    files = {name: read_program(name) for name in ("shim.py", "copying.py")}
    return RemoteSeat(str(tmp_path / "there"), str(tmp_path / "there.seat"), files)


def test_the_seat_is_made_for_the_agent_and_removed_after_it(start: Start, seat: RemoteSeat, tmp_path: Path) -> None:
    line = start(["sh", "-c", "mkdir -p sub/sub; ln -s / link; touch sub/file; cat"], cwd=seat.directory, seat=seat)
    line.write(b"ask\n")
    assert line.stdout.read(4) == b"ask\n"
    there = Path(seat.directory)
    assert stat.S_IMODE(there.stat().st_mode) == 0o700
    assert sorted(each.name for each in there.iterdir()) == ["copying.py", "link", "seat", "shim.py", "sub"]
    assert (there / "shim.py").read_text() == (BRIDGE / "shim.py").read_text()
    assert line.end() == (0, b"", b"")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("end", ["signal", "missing"])
def test_the_seat_is_removed_however_it_ends(start: Start, seat: RemoteSeat, tmp_path: Path, end: str) -> None:
    line = start(["sh", "-c", "echo; exec sleep 1000"] if end == "signal" else ["no-such-agent"], seat=seat)
    if end == "signal":
        line.stdout.read(1)
        line.half.terminate()
    assert line.ending()[0] == (143 if end == "signal" else 127)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_there_already_is_not_ours(start: Start, seat: RemoteSeat, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").touch()
    said = f'acp-launch: the seat "{seat.directory}" cannot be made: File exists, on build1\n'
    assert start(["cat"], seat=seat).ending() == (126, b"", said.encode())
    assert [path.name for path in tmp_path.rglob("*")] == ["there", "file"]


def test_a_directory_that_an_earlier_agent_left_is_used_again(start: Start, seat: RemoteSeat, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir(mode=0o700)
    (tmp_path / "there" / "shim.py").write_text("old")
    line = start(["cat"], seat=seat)
    line.write(b"ask\n")
    assert line.end() == (0, b"ask\n", b"")
    assert list(tmp_path.iterdir()) == []


def test_what_killed_ones_left_is_removed_by_the_next(start: Start, tmp_path: Path) -> None:
    """A seat whose socket no process listens to; and nothing else that has such a name."""
    for name in ("dead", "live", "cold"):
        (tmp_path / f"acp-launch-{name}").mkdir(0o700)
    (tmp_path / "acp-launch-file").touch()
    (tmp_path / "acp-launch-cold" / "notes").touch()
    (tmp_path / "acp-launch-link").symlink_to(tmp_path / "acp-launch-dead")
    with ExitStack() as listeners:
        for name in ("dead", "live", "alone", "new"):
            listener = listeners.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(tmp_path / f"acp-launch-{name}-0123"))
            if name in ("dead", "live"):
                (tmp_path / f"acp-launch-{name}-0123").rename(tmp_path / f"acp-launch-{name}" / "seat")
            if name in ("dead", "alone"):
                listener.close()
        made = RemoteSeat(str(tmp_path / "acp-launch-new"), str(tmp_path / "acp-launch-new-0123"), {})
        assert start(["cat"], seat=made).end()[0] == 0
    left = sorted(each.name for each in tmp_path.iterdir())
    assert left == ["acp-launch-cold", "acp-launch-file", "acp-launch-link", "acp-launch-live"]


def test_a_socket_that_was_not_forwarded_is_an_error(start: Start, seat: RemoteSeat, tmp_path: Path) -> None:
    Path(seat.socket).unlink()
    said = f'acp-launch: the seat "{seat.directory}" cannot be made: No such file or directory, on build1\n'
    assert start(["cat"], seat=seat).ending() == (126, b"", said.encode())
    assert list(tmp_path.iterdir()) == []


# What starts it


SHELLS = [["/bin/sh"], ["dash"], ["busybox", "sh"]]


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    """The programs as a container has them."""
    for name in ("start.sh", "half.py", "half.js", "shim.py", "shim.js", "copying.py"):
        shutil.copy(PROGRAMS / name, tmp_path)
    return tmp_path


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
@pytest.mark.parametrize("interpreters", [["python3", "node"], ["python3"], ["node"]], ids=" ".join)
def test_in_a_container_it_is_started_by_the_interpreter_that_is_there(
    mounted: Path, shell: list[str], interpreters: list[str]
) -> None:
    by_name = {name: shutil.which(sys.executable if name == "python3" else name) for name in interpreters}
    if not (shutil.which(shell[0]) and all(by_name.values())):
        pytest.skip(f"{' '.join(shell)} or {interpreters[-1]} is not installed")
    (mounted / "bin").mkdir()
    for name, path in by_name.items():
        (mounted / "bin" / name).write_text(f'#!/bin/sh\necho {name} >&2; exec {path} "$@"\n')
        (mounted / "bin" / name).chmod(0o700)
    half = [shutil.which(shell[0]) or "", *shell[1:], str(mounted / STARTER), "half"]
    with lines(half) as begin:
        line = begin(["/bin/cat"], own_env={"PATH": str(mounted / "bin")}, input=b"ask\n")
        assert line.end() == (0, b"ask\n", f"{interpreters[0]}\n".encode())


@pytest.mark.parametrize("name", ["half", "shim"])
def test_an_image_without_an_interpreter_is_named(mounted: Path, name: str) -> None:
    ended = subprocess.run(
        ["/bin/sh", mounted / STARTER, name], env={"PATH": "/none"}, capture_output=True, check=False
    )
    said = b"acp-launch: this image has neither python3 nor node, and acp-launch needs one of them\n"
    assert (ended.returncode, ended.stderr) == (127, said)


@pytest.mark.parametrize("name", ["half.py", "shim.py", "copying.py"])
def test_python_3_8_reads_what_runs_elsewhere(name: str) -> None:
    """An annotation like `list[str]` is evaluated there, unless it is quoted."""
    tree = ast.parse(read_program(name), feature_version=(3, 8))
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
    annotations = [each.returns for each in functions]
    annotations += [argument.annotation for each in functions for argument in (*each.args.args, *each.args.kwonlyargs)]
    assert {type(each) for each in annotations} <= {ast.Name, ast.Constant, type(None)}
    assert not any(isinstance(each, ast.AnnAssign) for each in ast.walk(tree))


@pytest.mark.parametrize("interpreter", ["python3", "node"])
def test_a_home_that_cannot_be_written_is_another_directory_where_that_is_asked(
    interpreter: str, tmp_path: Path
) -> None:
    """As of an image's HOME for another user than the image's own."""
    if not (program := shutil.which(interpreter)):
        pytest.skip(f"{interpreter} is not installed")
    half = [*PYTHON] if interpreter == "python3" else [program, str(BRIDGE / "half.js")]
    for home, needs_home, stays in (("/none", True, False), ("/none", False, True), (str(tmp_path), True, True)):
        with lines(half) as begin:
            own = {"PATH": os.environ["PATH"], "HOME": home}
            asked = ["/bin/sh", "-c", 'echo "$HOME"; test "$HOME" = /none || touch "$HOME/x"']
            status, out, err = begin(asked, needs_home=needs_home, own_env=own).end()
        said = out.decode().strip()
        assert (status, said == home, err) == (0, stays, b"")
        if not stays:
            assert said.startswith("/tmp/home-")
            shutil.rmtree(said)
