"""A `run` whose host is up imports almost nothing: a process that the host keeps ready does the work (docs/up.md)."""

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from acp_launch import __version__
from acp_launch.cli import light
from acp_launch.cli.run import Run
from acp_launch.cli.verb import Option, parameters, plain
from tests.cli.hosted import Host, up
from tests.cli.launcher import PATIENCE, Launcher, Running, state, trusting
from tests.cli.terminal import on_terminal

# What the light way must not import; a run that takes the ordinary way fails at once.
HEAVY = ("asyncio", "msgspec", "pydantic", "typing", "socket", "json", "pathlib", "dataclasses", "subprocess")
LIGHTLY = (
    f"import sys; sys.modules.update(dict.fromkeys({HEAVY})); sys.argv[0] = 'acp-launch'\n"
    "from acp_launch.__main__ import main; main()"
)
OTHERWISE = {"PYTHON_ANOTHER": "1"}  # an interpreter with other variables takes the ordinary way
Done = tuple[int, bytes, str]


def done(
    host: Host | Launcher, *arguments: str, stdin: bytes = b"", cwd: Path | None = None, is_light: bool = True
) -> Done:
    """Run a command line, only on the light way or only on the ordinary one."""
    launcher = host.launcher if isinstance(host, Host) else host
    how = ["-c", LIGHTLY] if is_light else ["-m", "acp_launch"]
    ended = subprocess.run(
        [sys.executable, *how, *trusting(arguments)],
        env=launcher.env | ({} if is_light else OTHERWISE),
        cwd=cwd or launcher.project,
        input=stdin,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    return ended.returncode, ended.stdout, ended.stderr.decode()


VARYING = re.compile(rb'"(sessionId|messageId|name|toolCallId|seconds|pid)": ?("[^"]*"|[0-9.]+)')
STARTING = {"initialized", "session"}


def alike(ended: Done) -> Done:
    """Without what differs between two sessions of one agent."""
    code, out, err = ended
    return code, VARYING.sub(rb'"\1":0', out), re.sub(r"session [0-9a-f-]+", "session", err)


@pytest.mark.parametrize(
    "temper",
    [
        ("polite",),
        ("refuser",),
        ("asker",),
        ("crasher", "mid-turn"),
        ("refuser", "error", "-32603", "no"),
    ],
    ids="-".join,
)
def test_the_output_is_that_of_an_ordinary_front_and_of_a_cold_run(launch: Launcher, temper: tuple[str, ...]) -> None:
    launch.profile(*temper)
    outputs = ("text", "json", "quiet")
    cold = {output: done(launch, "run", "p", "hi", "-o", output, is_light=False) for output in outputs}
    with up(launch) as host:
        for output in outputs:
            lightly = alike(done(host, "run", "p", "hi", "-o", output))
            assert lightly == alike(done(host, "run", "p", "hi", "-o", output, is_light=False))
            if output != "json":
                assert lightly == alike(cold[output])


def test_prompt_directory_and_variables_are_those_of_the_command(launch: Launcher) -> None:
    launch.profile("polite")
    below = launch.project / "below"
    below.mkdir()
    (below / "prompt").write_text("from a file, ünïcode")
    with up(launch) as host:
        assert done(host, "run", "p", stdin=b"piped")[:2] == (0, b"You said: piped\n")
        assert done(host, "run", "p", "-f", "below/prompt")[:2] == (0, "You said: from a file, ünïcode\n".encode())
        assert done(host, "run", "p", "--cwd", str(launch.project), "x", cwd=below)[:2] == (0, b"You said: x\n")
        missing = done(host, "run", "p", "-f", "prompt")
        assert missing == done(host, "run", "p", "-f", "prompt", is_light=False)
        assert missing[0] == 2


def test_a_wrong_option_and_a_closed_stdout_end_it_as_ever(launch: Launcher) -> None:
    launch.profile("polite")
    with up(launch) as host:
        wrong = done(host, "run", "p", "x", "--timeout", "soon")
        assert wrong == done(host, "run", "p", "x", "--timeout", "soon", is_light=False)
        assert wrong[0] == 2
        reading, writing = os.pipe()
        os.close(reading)
        ended = subprocess.run(
            [sys.executable, "-c", LIGHTLY, *trusting(["run", "p", "hi"])],
            env=host.launcher.env,
            cwd=host.launcher.project,
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=PATIENCE,
            check=False,
        )
        os.close(writing)
        assert (ended.returncode, ended.stderr) == (141, b"")


def test_ten_at_once_get_their_own_answers(launch: Launcher) -> None:
    launch.profile("polite")
    with up(launch) as host:
        running = [
            subprocess.Popen(
                [sys.executable, "-c", LIGHTLY, *trusting(["run", "p", f"number {number}", "-o", "json"])],
                env=host.launcher.env,
                cwd=host.launcher.project,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
            )
            for number in range(10)
        ]
        answers = [each.communicate(timeout=PATIENCE)[0] for each in running]
        assert [each.returncode for each in running] == [0] * 10
        assert all(b'You said: number %d"' % number in answer for number, answer in enumerate(answers))
        names = {re.findall(rb'"name":"([^"]+)","how":"new"', answer)[0] for answer in answers}
        assert len(names) == 10


# Signals, and ends of one of the processes.


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def starter(host: Host) -> int:
    (found,) = [pid for pid in children(host.pid) if title(pid).startswith("acp_launch-starter")]
    return found


def fronts(host: Host) -> list[int]:
    """Those at work; the next one waits beside them."""
    return [pid for pid in children(starter(host)) if title(pid).startswith("acp_launch-front")]


def title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


@contextmanager
def in_turn(host: Host) -> Iterator[tuple[Running, int]]:
    """A run in the middle of its turn, and the pid of its front."""
    with host.launcher.start("run", "p", "hi") as running:
        running.complains("execute: Long work")
        (front,) = fronts(host)
        yield running, front


def ends(pid: int) -> bool:
    """Whether the process ends."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watched], [], [], PATIENCE)[0])
    finally:
        os.close(watched)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_reaches_the_front_and_its_exit_code_comes_back(launch: Launcher, number: int) -> None:
    launch.profile("cancellable")
    with up(launch) as host, in_turn(host) as (running, front):
        running.kill(number)
        ended = running.end()
        assert ended.code == 128 + number
        assert ends(front)


def test_it_stops_and_goes_on_as_one_job(launch: Launcher) -> None:
    launch.profile("cancellable")
    with up(launch) as host:
        ours = subprocess.Popen(
            [sys.executable, "-c", LIGHTLY, *trusting(["run", "p", "hi"])],
            env=host.launcher.env,
            cwd=host.launcher.project,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            process_group=0,
        )
        assert ours.stderr is not None
        assert b"Long work" in ours.stderr.readline()
        (front,) = fronts(host)
        ours.send_signal(signal.SIGTSTP)
        _, status = os.waitpid(ours.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        deadline = time.monotonic() + PATIENCE
        while state(front) != "T":  # it takes the signal when it gets the processor
            assert time.monotonic() < deadline
        ours.send_signal(signal.SIGCONT)
        ours.send_signal(signal.SIGINT)
        ours.communicate(timeout=PATIENCE)
        assert ours.returncode == 130


def test_killed_it_takes_its_front_along_and_the_host_stays(launch: Launcher) -> None:
    launch.profile("cancellable")
    with up(launch) as host:
        with in_turn(host) as (running, front):
            running.kill(signal.SIGKILL)
            assert ends(front)
        assert state(starter(host)) in "SR"


def test_a_killed_front_ends_it_as_a_killed_run(launch: Launcher) -> None:
    launch.profile("cancellable")
    with up(launch) as host, in_turn(host) as (running, front):
        os.kill(front, signal.SIGKILL)
        assert running.end().code == -signal.SIGKILL


def test_without_a_starter_the_turn_ends_well_and_the_next_run_takes_the_ordinary_way(launch: Launcher) -> None:
    launch.profile("cancellable")
    with up(launch) as host:
        with in_turn(host) as (running, front):
            pid = starter(host)
            os.kill(pid, signal.SIGKILL)
            assert state(front) in "SR"
            running.kill(signal.SIGINT)
            assert running.end().code == 130
        with host.launcher.start("run", "p", "hi") as running:
            running.complains("execute: Long work")
            running.kill(signal.SIGINT)
            assert running.end().code == 130


def test_a_killed_host_is_told_as_ever_and_its_starter_ends(launch: Launcher) -> None:
    launch.scripted(
        "def prompt(request):\n"
        "    script.say(script.session_of(request), 'working\\n')\n"
        "    script.expect('session/cancel')\n"
        "script.serve({'session/prompt': prompt})\n"
    )
    ended = []
    for is_light in (True, False):
        with up(launch) as host:
            launcher = replace(launch, env=launch.env | ({} if is_light else OTHERWISE))
            with launcher.start("run", "p", "hi") as running:
                running.shows("working")
                pid = starter(host)
                assert len(fronts(host)) == is_light
                os.kill(host.pid, signal.SIGKILL)
                last = running.end()
            ended.append((last.code, last.out, last.err))
            assert ends(pid)
    assert ended[0] == ended[1]
    assert ended[0][0] == 4


# What takes the ordinary way.


def test_on_a_terminal_it_takes_the_ordinary_way(launch: Launcher) -> None:
    launch.profile("cancellable")
    with up(launch) as host, on_terminal("run", "p", "hi", cwd=launch.project, env=launch.env) as terminal:
        terminal.until("Long work")
        assert fronts(host) == []
        terminal.types("\x03")
        assert terminal.ends() == 130


def test_where_other_files_are_seen_it_takes_the_ordinary_way(launch: Launcher) -> None:
    """A process in a sandbox must not read through a front."""
    apart = ("unshare", "--mount")
    if shutil.which("unshare") is None or subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace can be made here")
    launch.profile("cancellable")
    with up(launch) as host, launch.start("run", "p", "hi", prefix=apart) as running:
        running.complains("execute: Long work")
        assert fronts(host) == []
        running.kill(signal.SIGINT)
        assert running.end().code == 130


def test_a_changed_profile_is_said_once(launch: Launcher) -> None:
    file = launch.profile("replayer", "1")
    with up(launch):
        file.write_text(file.read_text().replace('"1"', '"2"'))
        changed = launch.apart("run", "p", "hi")
        assert changed.methods == ["initialize", "session/new", "session/prompt"]
        assert changed.err.count("p has changed since it is up") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["-v"],
        ["--agent", "true"],
        ["--trace", "file"],
        ["--output=json"],
        ["--unknown"],
        ["--help"],
        ["--file", "/dev/fd/63"],
        ["-a", "/proc/self/fd/63"],
        ["--session"],
        ["--session", "-v"],
    ],
    ids=" ".join,
)
def test_what_is_not_plain_is_left_to_the_ordinary_way(arguments: list[str]) -> None:
    assert light._profile(["run", "p", "hi", *arguments]) is None


@pytest.mark.parametrize(
    "arguments",
    [["p", "hi"], ["--new", "p"], ["-s", "name", "p", "hi"], ["p", "--", "-v"], ["-f", "-", "p"], ["--", "p"]],
    ids=" ".join,
)
def test_the_profile_is_found_where_the_verb_finds_it(arguments: list[str]) -> None:
    request = plain(Run, arguments)
    assert request is not None
    assert light._profile(["run", *arguments]) == request.words[0] == "p"


def test_each_option_is_known_or_left_to_the_ordinary_way() -> None:
    noted = [(each.note, each.kind) for each in parameters(Run)]
    options = {name: kind for note, kind in noted if isinstance(note, Option) for name in note.names.split()}
    heavy = {"--agent", "--verbose", "-v", "--trace", "--keep", "--detach", "-d", "--locked"}
    assert {name for name, kind in options.items() if kind is bool} - heavy == light.FLAGS
    assert {name for name, kind in options.items() if kind is not bool} - heavy == light.VALUED


def written(state: Path, name: str, profile: str, within: str, *, version: str = __version__) -> bytes:
    path = f"/socket/{name}"
    (state / "hosts").mkdir(parents=True, exist_ok=True)
    (state / "hosts" / f"{name}.starter").write_bytes(light.note(version, profile, within, path))
    return path.encode()


def test_a_starter_is_found_by_what_the_profile_means_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state, outer, inner = tmp_path / "state", tmp_path / "outer", tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    monkeypatch.setenv("ACP_LAUNCH_STATE_DIR", str(state))
    assert [*light._sockets("p")] == []
    far = written(state, "far", "p", str(outer))
    near = written(state, "near", "p", str(inner))
    file = written(state, "file", str(outer / "p.yaml"), "/")
    written(state, "beside", "p", str(tmp_path / "out"))
    written(state, "old", "p", str(outer), version="0.0.0")
    (state / "hosts" / "torn.starter").write_bytes(b"torn")
    monkeypatch.chdir(inner)
    assert [*light._sockets("p")] == [near, far]
    assert [*light._sockets("q")] == []
    assert [*light._sockets("../p.yaml")] == [file]
    monkeypatch.chdir(outer)
    assert [*light._sockets("p")] == [far]
    monkeypatch.setenv("LC_ALL", "tlh")
    assert [*light._sockets("p")] == []
