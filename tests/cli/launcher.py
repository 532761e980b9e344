"""
Run acp-launch as a person does: a process of its own, in a project of its own, with one of tests/agents.

Whoever uses this gets three promises checked for every run: the client wrote nothing that ACP v1 does not know
(`tests.oracle`); at the moment acp-launch ended, nothing it started was alive: every run carries a mark of its own in
the environment, which agents inherit; and each command that a fix advised is one, about a profile that is there
(`tests.fixes`).
"""

import fcntl
import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import termios
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

from acp_launch.session.events import decode
from tests.cli import forkserver, inprocess
from tests.fixes import advised, misleading
from tests.oracle import check_transcript
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
AGENTS, SERVERS = ROOT / "tests" / "agents", ROOT / "tests" / "servers"
MARK = "ACP_TEST_MARK"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
GUARD = "acp_launch-guard "
FULL = 65536 - 2 * 4096  # bytes a pipe holds when it takes no more: it counts in pages, and they need not be full
Json = dict[str, Any]
DEMO: Json = {"command": "${python}", "args": ["-I", "-m", "acp_launch.demo.agent"]}
DEMO_SERVER: Json = {"command": "${python}", "args": ["-I", "-m", "acp_launch.demo.server"]}


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run of acp-launch ended, and what the agent heard."""

    code: int
    out: bytes
    err: str
    heard: list[Json]

    @property
    def events(self) -> list[Json]:
        """stdout of `--output json`; every line is an event, with a time."""
        lines = self.out.splitlines()
        assert all(map(decode, lines)), "a line is not of the published schema"
        events = [json.loads(line) for line in lines]
        assert all(isinstance(event["type"], str) and TIME.fullmatch(event["time"]) for event in events)
        return events

    def event(self, type: str) -> Json:
        """The only event of this type."""
        (found,) = [event for event in self.events if event["type"] == type]
        return found

    @property
    def methods(self) -> list[str]:
        """What the agent was asked and told, in order."""
        return [message["method"] for message in self.heard if "method" in message]

    def params(self, method: str) -> Json:
        """The parameters of the only message with this method."""
        (found,) = [message for message in self.heard if message.get("method") == method]
        return dict(found["params"])


@dataclass
class Running:
    """acp-launch while it runs; the agent's ear is a fifo, so that a test can wait for what it hears."""

    process: "subprocess.Popen[bytes] | forkserver.Process"
    mark: str
    transcript: Path
    ear: int
    launcher: "Launcher"
    raw: bytearray = field(default_factory=bytearray)
    seen: int = 0

    def hears(self, method: str) -> None:
        """Return once the agent has read a message with this method, later than those waited for before."""
        while True:
            for line in self._lines()[self.seen :]:
                self.seen += 1
                if json.loads(line).get("method") == method:
                    return
            self._more()

    def shows(self, text: str) -> str:
        """The next line of stdout, which must hold `text`."""
        line = _line(self.process.stdout)
        assert text in line, f"{line!r} instead of {text!r}"
        return line

    def complains(self, text: str) -> str:
        """The next line of stderr, which must hold `text`."""
        line = _line(self.process.stderr)
        assert text in line, f"{line!r} instead of {text!r}"
        return line

    def gets_stuck(self) -> None:
        """Return once our end of its stdout is full and it sleeps, having used no processor between two looks."""
        deadline = time.monotonic() + PATIENCE
        spent, now = -1, 0
        while spent != now or self._unread() < FULL or state(self.process.pid) != "S":
            assert time.monotonic() < deadline, f"it never got stuck; {self._unread()} bytes are unread"
            spent, now = now, processor(self.process.pid)
            subprocess.run([sys.executable, "-I", "-S", "-c", ""], check=True)  # some 10 ms of other work

    def _unread(self) -> int:
        assert self.process.stdout is not None
        return int.from_bytes(fcntl.ioctl(self.process.stdout, termios.FIONREAD, bytes(4)), sys.byteorder)

    def kill(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> Ended:
        """Wait for its end; the promises hold."""
        out, err = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode is not None
        left = alive(self.mark)
        self._drain()
        self.transcript.unlink()
        self.transcript.write_bytes(bytes(self.raw))
        assert left == []
        return self.launcher.judged(ended(self.process.returncode, out, err, self.transcript))

    def close(self) -> None:
        """Whatever the test left running."""
        with self.process:
            self.process.kill()
            kill_all(self.mark)
        os.close(self.ear)

    def _lines(self) -> list[bytes]:
        return bytes(self.raw).split(b"\n")[:-1]

    def _more(self) -> None:
        ready, _, _ = select.select([self.ear], [], [], PATIENCE)
        assert ready, f"the agent heard nothing more; so far {self._lines()}"
        self.raw += os.read(self.ear, 1 << 16)

    def _drain(self) -> None:
        while select.select([self.ear], [], [], 0)[0]:
            self.raw += os.read(self.ear, 1 << 16)


@dataclass
class Launcher:
    """A project directory with profiles; `env` is what acp-launch inherits."""

    project: Path
    env: dict[str, str]

    @property
    def config(self) -> Path:
        """The directory of the user's settings and profiles."""
        return Path(self.env["ACP_LAUNCH_CONFIG_DIR"])

    @property
    def state(self) -> Path:
        return Path(self.env["ACP_LAUNCH_STATE_DIR"])

    def configure(self, settings: str) -> None:
        """Write the user's settings."""
        self.config.mkdir(parents=True, exist_ok=True)
        (self.config / "config.yaml").write_text(settings)

    def profile(self, temper: str, /, *arguments: str, name: str = "p", **sections: Json) -> Path:
        """Write `.acp-launch/NAME.yaml` for one of tests/agents; `sections` are merged over it."""
        command: Json = {"command": sys.executable, "args": ["-I", "-S", str(AGENTS / f"{temper}.py"), *arguments]}
        return self.write({"agent": command | sections.pop("agent", {}), **sections}, name=name)

    def scripted(self, body: str, **agent: Json) -> Path:
        """A profile whose agent is `body`, which uses `tests.agents.script` as `script`."""
        file = self.project / "agent.py"
        file.write_text(f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom tests.agents import script\n{body}")
        return self.write({"agent": {"command": sys.executable, "args": ["-I", "-S", str(file)], **agent}})

    def write(self, profile: Json, *, name: str = "p") -> Path:
        """JSON is YAML."""
        file = self.project / ".acp-launch" / f"{name}.yaml"
        file.write_text(json.dumps({"version": 1, **profile}, indent=1))
        return file

    def extend(self, **sections: Json) -> Path:
        """Write further sections into the profile `p`."""
        return self.write({**json.loads((self.project / ".acp-launch" / "p.yaml").read_text()), **sections})

    def started(self, name: str = "p") -> str:
        """The line that names the command of a profile's agent, where that is to blame."""
        agent = json.loads((self.project / ".acp-launch" / f"{name}.yaml").read_text())["agent"]
        return f"    command: {shlex.join([agent['command'], *agent.get('args', [])])}\n"

    def __call__(
        self, *arguments: str, stdin: bytes | None = None, out: "IO[bytes] | int" = subprocess.PIPE, **env: str
    ) -> Ended:
        """Run acp-launch to its end, as cheaply as what it does allows: `within`, or as a process of its own, which
        comes from the fork server where Python's start does not matter."""
        if out == subprocess.PIPE and not needs_a_process(arguments):
            return self.within(*arguments, stdin=stdin, **env)
        return self.forked(*arguments, stdin=stdin, out=out, **env)

    def forked(
        self, *arguments: str, stdin: bytes | None = None, out: "IO[bytes] | int" = subprocess.PIPE, **env: str
    ) -> Ended:
        """Run acp-launch as a process from the fork server: it may start programs, whatever its verb."""
        run = _forked if forkserver.suits({**self.env, **env}) else _started
        return self._apart(run, arguments, stdin, out, env)

    def within(self, *arguments: str, stdin: bytes | None = None, **env: str) -> Ended:
        """Run acp-launch in this process: it starts no program, and hears no signal."""
        environment, _, transcript = self._place(env)
        done = inprocess.carry_out(trusting(arguments), env=environment, cwd=self.project, stdin=stdin)
        return self.judged(ended(done.code, done.out, done.err, transcript))

    def apart(
        self, *arguments: str, stdin: bytes | None = None, out: "IO[bytes] | int" = subprocess.PIPE, **env: str
    ) -> Ended:
        """Run acp-launch as `python -m acp_launch`."""
        return self._apart(_started, arguments, stdin, out, env)

    def _apart(
        self,
        run: "Callable[..., subprocess.CompletedProcess[bytes]]",
        arguments: Sequence[str],
        stdin: bytes | None,
        out: "IO[bytes] | int",
        env: Mapping[str, str],
    ) -> Ended:
        environment, mark, transcript = self._place(env)
        try:
            done = run(trusting(arguments), env=environment, cwd=self.project, stdin=stdin, out=out)
            assert alive(mark) == []
        finally:
            kill_all(mark)
        return self.judged(ended(done.returncode, done.stdout, done.stderr, transcript))

    def judged(self, done: Ended) -> Ended:
        """What it has advised can be done here."""
        wrong = misleading(advised(done.out, done.err), self.project, self.env)
        assert not wrong, wrong
        return done

    @contextmanager
    def start(
        self,
        *arguments: str,
        prefix: Sequence[str] = (),
        stdin: int = subprocess.DEVNULL,
        apart: bool = False,
        **env: str,
    ) -> Iterator[Running]:
        """Start acp-launch and meddle; `prefix` is a command that becomes it.

        It comes from the fork server, unless it is to be `apart`: where it is killed, or looked at from outside.
        """
        environment, mark, transcript = self._place(env)
        os.mkfifo(transcript)
        ear = os.open(transcript, os.O_RDWR | os.O_NONBLOCK)  # our own writer: no end of file between two lines
        process: subprocess.Popen[bytes] | forkserver.Process
        if apart or prefix or not forkserver.suits(environment):
            process = subprocess.Popen(
                [*prefix, *command(*arguments)],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self.project,
                env=environment,
                bufsize=0,
            )
        else:
            with open(os.devnull, "rb") as nothing:  # noqa: PTH123
                given = nothing.fileno() if stdin == subprocess.DEVNULL else stdin
                process = forkserver.start(trusting(arguments), env=environment, cwd=self.project, stdin=given)
        running = Running(process, mark, transcript, ear, self)
        try:
            yield running
        finally:
            running.close()

    def _place(self, env: Mapping[str, str]) -> tuple[dict[str, str], str, Path]:
        mark = uuid.uuid4().hex
        transcript = self.project.parent / f"transcript-{mark}"
        return {**self.env, MARK: mark, "ACP_TEST_TRANSCRIPT": str(transcript), **env}, mark, transcript


def _started(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    stdin: bytes | None,
    out: "IO[bytes] | int",
) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [sys.executable, "-m", "acp_launch", *arguments],
        input=stdin,
        stdin=None if stdin is not None else subprocess.DEVNULL,
        stdout=out,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=env,
        timeout=PATIENCE,
        check=False,
    )


_forked = partial(forkserver.run, timeout=PATIENCE)


def names(launch: Launcher) -> list[str]:
    return sorted(record["name"] for record in json.loads(launch("session", "list", "--json").out)["sessions"])


def store(launch: Launcher) -> Path:
    return launch.state / "sessions" / "sessions.db"


STARTING = (
    ("run",),
    ("up",),
    ("serve",),
    ("login",),
    ("logout",),
    ("doctor",),
    ("export",),
    *(("mcp", verb) for verb in ("inspect", "tools", "call", "login", "logout")),
    *(("session", verb) for verb in ("close", "import", "rm")),
    ("batch", "item"),
)

# What starts programs, becomes one, or looks at processes.
NEEDS_A_PROCESS = (
    *(verb for verb in STARTING if verb != ("export",)),
    ("secret", "copy-to-env"),
    ("agents", "install"),
    ("lock",),
    ("ps",),
    ("reap",),
)


def needs_a_process(arguments: Sequence[str]) -> bool:
    return "--agent" in arguments or any(tuple(arguments[: len(verb)]) == verb for verb in NEEDS_A_PROCESS)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "acp_launch", *trusting(arguments)]


def trusting(arguments: Sequence[str]) -> Sequence[str]:
    """With `--trust`: the profiles of tests are a project's, and most tests are about what comes after that."""
    for verb in STARTING:
        if tuple(arguments[: len(verb)]) == verb:
            return [*verb, "--trust", *arguments[len(verb) :]]
    return [*arguments, "--trust"] if "--agent" in arguments and arguments[0] == "session" else arguments


def ended(code: int, out: bytes | None, err: bytes, transcript: Path) -> Ended:
    """Judge what the agent heard, and give everything."""
    heard: list[Json] = []
    if transcript.exists():
        assert check_transcript(transcript) == []
        heard = [json.loads(line) for line in transcript.read_bytes().splitlines()]
    return Ended(code, out or b"", err.decode(), heard)


def patient(err: str) -> str:
    """Without what is said of waits of 3 s: a busy machine has them too."""
    return "".join(line for line in err.splitlines(keepends=True) if " still waiting for " not in line)


def processor(pid: int) -> int:
    """Ticks it has used."""
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))


def state(pid: int) -> str:
    """R while it runs or could, S while it waits for something."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def alive(mark: str) -> list[str]:
    """The command lines of the living processes that carry `mark`."""
    return [_command_line(pid) for pid in _marked(mark)]


def left_by_guards(mark: str, *drivers: str) -> list[str]:
    """What is alive once no guard is, nor a program of the test that has one of `drivers` in its command line.

    An exit at once waits 2.5 s for the guards, which may be short on a busy machine; so may what `down` waits.
    """
    deadline = time.monotonic() + PATIENCE
    while any(word in each for each in alive(mark) for word in (GUARD, *drivers)):
        assert time.monotonic() < deadline, alive(mark)
        os.sched_yield()
    return alive(mark)


def kill_all(mark: str) -> None:
    """A test that failed leaves nothing behind either."""
    for pid in _marked(mark):
        with suppress(ProcessLookupError):  # the guard was faster
            os.kill(int(pid), signal.SIGKILL)


def _marked(mark: str) -> list[str]:
    wanted = f"{MARK}={mark}".encode()
    return [entry for entry in os.listdir("/proc") if entry.isdigit() and wanted in _environment(entry)]  # noqa: PTH208


def _environment(pid: str) -> bytes:
    """Empty for a process that is gone, or a zombie."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""


def _command_line(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return f"{pid}, gone meanwhile"


def _line(stream: "IO[bytes] | None") -> str:
    assert stream is not None
    line = bytearray()
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([stream], [], [], PATIENCE)
        assert ready, f"nothing more than {bytes(line)!r}"
        piece = os.read(stream.fileno(), 1)
        assert piece, f"the end after {bytes(line)!r}"
        line += piece
    return line.decode()


def scripted_server(place: Path, server: dict[str, Any]) -> dict[str, Any]:
    """The same server, started by a script that can be changed."""
    script = place / "server.sh"
    script.write_text(f"exec {shlex.join([server['command'], *server['args']])}\n")
    return {**server, "command": "/bin/sh", "args": [str(script)]}


def upgrade(server: dict[str, Any]) -> None:
    """Change the script of such a server."""
    script = Path(server["args"][0])
    script.write_text(f"# another version\n{script.read_text()}")
