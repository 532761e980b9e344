"""Ring 3. `logs`: what the agent and its servers said, found again, prefixed, followed."""

import errno
import json
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from acp_launch.console.logs import LogPrinter, LogWatch
from acp_launch.errors import LaunchError
from acp_launch.process import logs as logread
from acp_launch.process.logs import LogFile, ServerLogs
from tests.cli.launcher import Launcher, Running
from tests.cli.terminal import on_terminal
from tests.cli.test_mcp import server
from tests.patience import PATIENCE

OLD, NEW, NEWER = "20200101T000000.000Z-1", "20200102T000000.000Z-2", "20200103T000000.000Z-3"
STARTED = "acp-launch: {}, started {}\n"


class Logs:
    """Writes logs as launches do."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._open: list[LogFile | ServerLogs] = []

    def agent(self, text: str, launch: str = NEW, profile: str = "p") -> LogFile:
        log = LogFile(self.directory, profile, launch=launch)
        self._open.append(log)
        log(text.encode())
        return log

    def server(self, name: str, text: str, launch: str = NEW, profile: str = "p") -> Callable[[bytes], None]:
        servers = ServerLogs(self.directory, profile, launch=launch)
        self._open.append(servers)
        log = servers.of(name)
        log(text.encode())
        return log

    def close(self) -> None:
        for log in self._open:
            log.close()


@pytest.fixture
def logs(launch: Launcher) -> Iterator[Logs]:
    made = Logs(launch.state / "log")
    yield made
    made.close()


def started(running: Running, profile: str, day: str) -> None:
    """It says which launch it shows, on stderr."""
    running.complains(f"acp-launch: {profile}, started {day}")


def test_one_log_is_shown_as_it_is(launch: Launcher, logs: Logs) -> None:
    log = logs.agent("one\n\x1b[31mred\x1b[0m\n")
    log(b"\xff\xfe\x00\r\n\n no end")
    done = launch("logs", "p")
    assert (done.code, done.out) == (0, b"one\n\x1b[31mred\x1b[0m\n\xff\xfe\x00\r\n\n no end\n")
    assert done.err == STARTED.format("p", "2020-01-02")


def test_each_of_several_logs_is_named_before_its_lines(launch: Launcher, logs: Logs) -> None:
    logs.server("github", "hello\n\nworld\n")
    logs.agent("a\n")
    logs.server("github#2", "second\n")
    logs.server("agent", "a server may be called so\n")
    done = launch("logs", "p")
    assert done.out.decode() == (
        "agent     | a\n"
        "mcp:agent | a server may be called so\n"
        "github    | hello\ngithub    | \ngithub    | world\n"
        "github#2  | second\n"
    )
    assert launch("logs", "p", "agent").out == b"a\n"
    assert launch("logs", "p", "mcp:agent").out == b"a server may be called so\n"
    assert launch("logs", "p", "github#2").out == b"second\n"
    assert launch("logs", "p", "github").out.splitlines()[-1] == b"github#2 | second"


def test_the_latest_launch_is_shown_of_the_profile_or_of_all(launch: Launcher, logs: Logs) -> None:
    """The profile can be named by its file."""
    logs.agent("p old\n", OLD)
    logs.agent("p new\n", NEW)
    logs.agent("q newer\n", NEWER, "q")
    launch.profile("polite")
    for name in ("p", ".acp-launch/p.yaml"):
        assert launch("logs", name).out == b"p new\n"
    done = launch("logs")
    assert (done.out, done.err) == (b"q newer\n", STARTED.format("q", "2020-01-03"))


def test_the_last_lines_of_each_log(launch: Launcher, logs: Logs) -> None:
    logs.agent("1\n2\n3\nend")
    logs.server("x", "1\n2\n")
    for count, expected in (
        ("0", ""),
        ("1", "agent | end\nx     | 2\n"),
        ("2", "agent | 3\nagent | end\nx     | 1\nx     | 2\n"),
        ("9", "agent | 1\nagent | 2\nagent | 3\nagent | end\nx     | 1\nx     | 2\n"),
    ):
        assert launch("logs", "p", "-n", count).out.decode() == expected


def test_for_a_script_each_line_is_an_object(launch: Launcher, logs: Logs) -> None:
    logs.agent("a\n")
    logs.server("x", "\x1b[31m\xe9")
    done = launch("logs", "--json")
    head = {"launch": NEW, "profile": "p"}
    assert [json.loads(line) for line in done.out.splitlines()] == [
        {**head, "name": "agent", "line": "a"},
        {**head, "name": "x", "line": "\x1b[31m\xe9"},
    ]


@pytest.mark.promise("diagnosis")
def test_without_a_name_the_latest_launch_of_this_project_is_shown_whatever_it_was(
    launch: Launcher, tmp_path: Path
) -> None:
    launch.profile("polite", mcp_servers={"polite": server("probe_polite")})
    assert launch("run", "p", "hi", "--output", "quiet").code == 0
    agent = shlex.join([sys.executable, "-c", "import sys; sys.exit('no key')"])
    assert launch("run", "--agent", agent, "hi").code == 4
    done = launch("logs")
    assert (done.code, done.out) == (0, b"no key\n")
    assert done.err.startswith("acp-launch: --agent ")
    assert launch("doctor", "p").code == 0
    done = launch("logs")
    assert re.fullmatch(
        rb"--- [-0-9: ]+ polite starting \(pid \d+\) ---\n--- [-0-9: ]+ polite stopped, .*exit.* ---\n", done.out
    )
    assert done.err == STARTED.format("p", "just now")


def test_a_launch_of_another_project_is_shown_by_its_name_only(launch: Launcher, logs: Logs, tmp_path: Path) -> None:
    """Without any log it is said where they would be."""
    launch.profile("polite")
    assert launch("run", "demo", "add 1 2", "--cwd", str(tmp_path), "--output", "quiet").code == 0
    other = tmp_path / "other"
    (other / ".acp-launch").mkdir(parents=True)
    elsewhere = Launcher(other, launch.env)
    kept = f"they are kept in {logs.directory}\n"
    done = elsewhere("logs")
    assert (done.code, done.out) == (0, b"")
    assert done.err == (
        "acp-launch: no logs of this project yet;"
        f" acp-launch logs PROFILE shows those of a profile in any project; {kept}"
    )
    for words in (["p"], ["p", "x"]):
        done = launch("logs", *words)
        assert (done.code, done.err) == (0, f'acp-launch: no logs of "p" yet; {kept}')
    assert b"notes stopped" in elsewhere("logs", "demo").out
    assert b"notes stopped" in launch("logs").out


def test_a_launch_that_wrote_nothing_is_not_passed_over(launch: Launcher) -> None:
    launch.scripted("print('hello', file=sys.stderr, flush=True)\nscript.serve({})\n")
    launch("run", "p", "hi")
    launch.profile("polite", name="silent")
    launch("run", "silent", "hi")
    done = launch("logs")
    assert (done.code, done.out) == (0, b"")
    assert done.err == STARTED.format("silent", "just now") + (
        "acp-launch: nothing was written to stderr in this launch\n"
    )
    assert launch("logs", "p").out == b"hello\n"


# nothing, or nobody


def test_an_unknown_profile_is_an_error(launch: Launcher, logs: Logs) -> None:
    logs.agent("x\n", profile="gone")
    for name, near in (("dema", "demo"), ("gonne", "gone")):
        done = launch("logs", name)
        fix = "    fix: acp-launch list shows the profiles\n"
        assert (done.code, done.out) == (2, b"")
        assert done.err == f'acp-launch: no profile named "{name}"; did you mean "{near}"?\n{fix}'


def test_an_unknown_server_is_an_error_and_a_silent_one_is_not(launch: Launcher, logs: Logs) -> None:
    logs.server("github", "x\n", OLD)
    logs.server("docs", "x\n", NEW)
    done = launch("logs", "p", "gitub")
    assert (done.code, done.out) == (2, b"")
    assert done.err == (
        'acp-launch: no log of "gitub" in any launch of "p"; did you mean "github"?\n'
        "    fix: there is agent, docs, github\n"
    )
    for name in ("github", "agent"):
        done = launch("logs", "p", name)
        assert (done.code, done.out) == (0, b"")
        assert done.err == f'acp-launch: "{name}" wrote nothing in the latest launch of "p"\n'


def test_a_log_that_cannot_be_read_is_said(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this very process, since root could read anything."""

    def refuse(file: str, flags: int) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), file)

    logs.agent("x\n")
    monkeypatch.setattr(logread, "_without_waiting", refuse)
    watch = LogWatch(logs.directory, LogPrinter(as_json=False), profile="p", server=None)
    with pytest.raises(LaunchError) as raised:
        watch.look()
    file = logs.directory / f"{NEW}+p.log"
    assert (raised.value.message, raised.value.fix) == (
        f"cannot read {file}: Permission denied",
        "see who owns it: ls -l",
    )


# a terminal


def test_a_log_cannot_drive_the_terminal(launch: Launcher, logs: Logs) -> None:
    logs.agent("\x1b[32mgreen\x1b[0m \x1b]0;title\x07 \x1b[2J\t.\n10%\r20%\r\nplain\n")
    logs.server("x", "1\n")
    with on_terminal("logs", "p", cwd=launch.project, env=launch.env) as terminal:
        assert terminal.ends() == 0
    assert terminal.raw.decode().replace("\r\n", "\n") == (
        "acp-launch: p, started 2020-01-02\n"
        "agent | green \\x1b]0;title\\x07 \\x1b[2J\t.\n"
        "agent | 20%\n"
        "agent | plain\n"
        "x     | 1\n"
    )


# following


def test_what_comes_is_shown_when_its_line_is_whole(launch: Launcher, logs: Logs) -> None:
    agent = logs.agent("1\n2\n")
    with launch.start("logs", "p", "agent", "-f", "-n", "1") as running:
        assert running.shows("2") == "2\n"
        agent(b"thr")
        agent(b"ee\n")
        assert running.shows("three") == "three\n"
        agent(b"4\nno end")
        assert running.shows("4") == "4\n"
        running.kill(signal.SIGINT)
        done = running.end()
    assert (done.code, done.out) == (130, b"no end\n")
    assert done.err == STARTED.format("p", "2020-01-02")


def test_ctrl_c_ends_what_is_shown_at_the_end_of_a_line(launch: Launcher, logs: Logs) -> None:
    logs.agent("x" * 99 + "\n")
    logs.server("x", ("y" * 99 + "\n") * 20_000 + "no end")
    with launch.start("logs", "p", "--json") as running:
        running.gets_stuck()
        running.kill(signal.SIGINT)
        done = running.end()
    lines = [json.loads(line)["line"] for line in done.out.splitlines()]
    assert (done.code, set(lines)) == (130, {"x" * 99, "y" * 99})
    assert len(lines) < 20_001


def test_ctrl_c_twice_ends_it_without_a_reader(launch: Launcher, logs: Logs) -> None:
    logs.server("x", ("y" * 99 + "\n") * 20_000)
    with launch.start("logs", "-f", PYTHONUNBUFFERED="1") as running:
        for _ in range(2):
            running.gets_stuck()
            running.kill(signal.SIGINT)
        assert running.process.wait(PATIENCE) == 130


def test_a_server_that_begins_to_speak_and_a_newer_launch_are_followed(launch: Launcher, logs: Logs) -> None:
    with launch.start("logs", "demo", "-f") as running:
        said = running.complains("waiting")
        assert said == f'acp-launch: no logs of "demo" yet; they are kept in {logs.directory}; waiting for one\n'
        agent = logs.agent("1\n", profile="demo")
        assert running.shows("1") == "agent | 1\n"
        started(running, "demo", "2020-01-02")
        logs.server("github", "2\n", profile="demo")
        assert running.shows("2") == "github | 2\n"
        agent(b"3\n")
        assert running.shows("3") == "agent  | 3\n"
        logs.agent("other\n", NEWER, "q")
        logs.agent("4\n", NEWER, "demo")
        assert running.shows("4") == "agent  | 4\n"
        started(running, "demo", "2020-01-03")
        agent(b"5\n")
        assert running.shows("5") == "agent  | 5\n"
        assert running.process.stdout is not None and running.process.stderr is not None
        running.process.stdout.close()
        assert running.process.wait(PATIENCE) == 141
        assert running.process.stderr.read() == b""
