"""Ring 3. An agent on another machine, by ssh: its servers and their secrets stay here, and it leaves nothing there."""

import json
import os
import re
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.batch.repositories import make_repository
from tests.cli.elsewhere import ADD, DAEMON, DEAF, SECRET, SERVER, Write, held, reach
from tests.cli.hosted import up
from tests.cli.launcher import AGENTS, MARK, ROOT, Json, Launcher
from tests.cli.serving import serving
from tests.cli.terminal import on_terminal
from tests.otherhost import OtherHost, having
from tests.patience import PATIENCE, until, until_ended


@pytest.fixture(scope="module")
def other() -> Iterator[OtherHost]:
    with having() as found:
        yield found


@pytest.fixture
def reached(launch: Launcher, other: OtherHost) -> Iterator[Write]:
    """Nothing of it stays there."""
    yield reach(launch, other)
    until(lambda: not other.processes(), lambda: str(other.processes()))
    assert other.leftovers() == []


@pytest.fixture
def small(launch: Launcher, tmp_path: Path) -> Callable[..., Path]:
    """Write a profile as `reached` does, with an ssh in small; `mode` is what it does."""
    state, bin = tmp_path / "there", tmp_path / "bin"
    for each in (state, bin):
        each.mkdir()
    program = bin / "ssh"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {ROOT}/tests/children/ssh.py {state} "$@"\n')
    program.chmod(0o755)
    launch.env |= {"PATH": f"{bin}:{launch.env['PATH']}", "ACP_LAUNCH_SECRET_TRACKER": SECRET}

    def small(mode: str = "", **sections: Any) -> Path:
        (state / "mode").write_text(mode)
        agent = {"command": sys.executable, "args": ["-B", "-I", "-S", str(AGENTS / "spy.py")]}
        runtime = {"ssh": {"host": "build1", "directory": str(state), **sections.pop("ssh", {})}}
        launch.write({"agent": agent, "runtime": runtime, "mcp_servers": {"sums": SERVER}, **sections})
        return state

    return small


def test_an_ssh_in_small_carries_servers_and_no_secret(launch: Launcher, small: Callable[..., Path]) -> None:
    state = small()
    done = launch("run", "p", "\n".join([ADD, "dict(os.environ)", "os.getcwd()"]))
    assert done.code == 0, done.err
    summed, environ, cwd = map(json.loads, done.out.decode().splitlines())
    assert "'text': '5'" in summed and cwd == str(state)
    assert SECRET not in json.dumps(environ) + (state / "calls").read_text()
    (call,) = (state / "calls").read_text().splitlines()
    (socket,) = re.findall(r"-R (\S+):", call)
    assert not os.path.lexists(socket) and not os.path.lexists(socket.rpartition("-")[0])


@pytest.mark.parametrize(
    ("mode", "change", "said"),
    [
        ("refuses", {}, "build1 does not let ssh forward a socket"),
        ("asks", {}, "build1 accepts no key that ssh can use without a question"),
        ("silent", {"agent": {"timeouts": {"initialize": "1s"}}}, "from the agent within 1 s (on build1)"),
        (
            "",
            {"ssh": {"python": "python9"}},
            "python9 of runtime.ssh.python cannot be run as Python 3.8 or later on build1",
        ),
        ("", {"ssh": {"python": "cat"}}, "cat of runtime.ssh.python cannot be run as Python 3.8 or later on build1"),
        ("", {"ssh": {"directory": "/nowhere"}}, "fix: make it there, or correct runtime.ssh.directory"),
        ("", {"agent": {"command": "nothing"}}, '"nothing" is not on PATH (/'),
    ],
)
def test_an_ssh_that_leads_nowhere_is_told(
    launch: Launcher, small: Callable[..., Path], mode: str, change: Json, said: str
) -> None:
    agent = {"command": sys.executable, "args": [str(AGENTS / "spy.py")], **change.pop("agent", {})}
    state = small(mode, agent=agent, **change)
    done = launch("run", "p", "x")
    assert done.code == (124 if mode == "silent" else 4) and said in done.err, done.err
    sockets = re.findall(r"-R (\S+):", (state / "calls").read_text())
    assert sockets and not any(map(os.path.lexists, sockets))


ASKED = "ssh asks: Password of build1: "


@pytest.mark.parametrize("words", [("run", "p", "1 + 1"), ("run", "p"), ("up", "p"), ("doctor", "p")], ids=str)
def test_on_a_terminal_ssh_asks_and_nothing_keeps_the_answer(
    launch: Launcher, small: Callable[..., Path], words: Sequence[str]
) -> None:
    state, env = small("asks"), {**launch.env, "TERM": "dumb", "SSH_ASKPASS": "/bin/false"}
    env |= {MARK: "apart"} if words[0] == "up" else {}
    with on_terminal(*words, cwd=launch.project, env=env) as terminal:
        before = terminal.modes()
        for answer in ("wrong", "sesame"):
            terminal.until(ASKED)
            until(lambda: not terminal.modes()[3] & termios.ECHO)
            terminal.raw = b""
            terminal.types(f"{answer}\n")
        if words == ("run", "p"):
            terminal.until("\n> ")
            terminal.types("\4")
        assert terminal.ends() == 0, terminal.text
        assert terminal.modes() == before and "sesame" not in terminal.text
    if words[0] == "up":
        assert launch("down", "p").code == 0
    assert "BatchMode" not in (state / "calls").read_text().splitlines()[0]
    kept = [each for each in launch.state.rglob("*") if each.is_file() and b"sesame" in each.read_bytes()]
    assert kept == []


@pytest.mark.parametrize("how", ["ctrl-c", "term", "kill", "wrong", "late"])
def test_a_question_of_ssh_ends_with_its_launch(launch: Launcher, small: Callable[..., Path], how: str) -> None:
    small("asks")
    env = {**launch.env, "TERM": "dumb", **({MARK: "apart"} if how == "kill" else {})}
    words = ["run", "p", "1 + 1", *(["--timeout", "initialize=1s"] if how == "late" else [])]
    with on_terminal(*words, cwd=launch.project, env=env) as terminal:
        before = terminal.modes()
        for _ in range(3 if how == "wrong" else 1):
            terminal.until(ASKED)
            until(lambda: not terminal.modes()[3] & termios.ECHO)
            terminal.raw = b""
            if how in ("term", "kill"):
                terminal.process.send_signal(signal.SIGTERM if how == "term" else signal.SIGKILL)
            elif how != "late":
                terminal.types("no\n" if how == "wrong" else "\3")
        assert terminal.ends() == {"ctrl-c": 130, "term": 143, "kill": -9, "wrong": 4, "late": 124}[how], terminal.text
        assert terminal.modes() == before
        assert ("ssh waits for an answer, to reach build1" in terminal.text) == (how == "late")
        assert ("build1 accepts no key" in terminal.text) == (how == "wrong")


def test_a_dialog_that_the_user_wants_is_asked_instead(
    launch: Launcher, small: Callable[..., Path], tmp_path: Path
) -> None:
    small("asks")
    dialog = tmp_path / "dialog"
    dialog.write_text("#!/bin/sh\necho sesame\n")
    dialog.chmod(0o755)
    env = {**launch.env, "TERM": "dumb", "SSH_ASKPASS": str(dialog), "SSH_ASKPASS_REQUIRE": "force"}
    with on_terminal("run", "p", "1 + 1", cwd=launch.project, env=env) as terminal:
        assert terminal.ends() == 0 and "ssh asks" not in terminal.text, terminal.text


@pytest.mark.parametrize(
    ("question", "kind", "typed", "is_shown", "code"),
    [
        ("The authenticity of host 'x' can't be established.\nContinue? ", "", "yes", True, 0),
        ("(root@x) The authenticity of host 'x' (yes/no)? ", "", "yes", False, 0),  # a server's words
        ("Allow the use of key x?", "confirm", "yes", True, 0),
        ("Allow the use of key x?", "confirm", "", True, 1),  # to ssh an empty answer is a yes
        ("Confirm user presence for key x", "none", None, True, 0),
    ],
)
def test_a_question_of_ssh_on_its_own(question: str, kind: str, typed: str | None, is_shown: bool, code: int) -> None:
    ours, theirs = os.openpty()
    asked_by = {"ACP_LAUNCH_TERMINAL": os.ttyname(theirs), "ACP_LAUNCH_JOB": str(os.getpgrp())}
    env = {**asked_by, "ACP_LAUNCH_PYTHON": sys.executable, "SSH_ASKPASS_PROMPT": kind}
    before = termios.tcgetattr(theirs)
    program = ROOT / "acp_launch" / "bridge" / "askpass.py"
    with subprocess.Popen([program, f"{question}\x1b[2J▐"], env=env, stdout=subprocess.PIPE) as asking:
        if typed is not None:
            until(lambda: not termios.tcgetattr(theirs)[3] & termios.ISIG)
            assert bool(termios.tcgetattr(theirs)[3] & termios.ECHO) == is_shown
            os.write(ours, f"{typed}\n".encode())
        said, _ = asking.communicate(timeout=PATIENCE)
    assert (asking.returncode, said) == (code, f"{typed}\n".encode() if typed is not None else b"")
    assert termios.tcgetattr(theirs) == before
    shown = os.read(ours, 65536).decode()
    assert shown.startswith(f"\r▐ ssh asks: {question.split()[0]}") and "?[2J?" in shown
    for each in (ours, theirs):
        os.close(each)


def test_each_session_of_an_editor_has_its_servers(launch: Launcher, small: Callable[..., Path]) -> None:
    small()
    with serving(launch, apart=True) as editor:
        editor.begin()
        sessions = [editor.open(), editor.open(additionalDirectories=["/usr"])]
        for number, session in enumerate((*sessions, *sessions), 1):
            editor.prompt(session, ADD)
            assert editor.said().count("'text': '5'") == number, editor.told
    assert "the agent works on build1, without the editor's additional directories" in editor.told


def test_a_host_whose_agent_does_not_come_back_tells_the_cure_of_that(
    launch: Launcher, small: Callable[..., Path]
) -> None:
    state = small()
    with up(launch) as host:
        (state / "mode").write_text("asks")
        host.run("os.kill(os.getppid(), 9)")
        assert "fix: load the key into your ssh agent" in host.run("1").err


def test_a_batch_on_a_terminal_asks_nothing(launch: Launcher, small: Callable[..., Path]) -> None:
    small("asks")
    batch = {"version": 1, "profiles": ["p"], "isolation": "none", "tasks": [{"id": "a", "prompt": "1", "repo": "."}]}
    (launch.project / "b.yaml").write_text(json.dumps(batch))
    env = {**launch.env, "TERM": "dumb"}
    with on_terminal("batch", "run", "b.yaml", "--out", "out", "--trust", cwd=launch.project, env=env) as terminal:
        assert terminal.ends() != 0 and "ssh asks" not in terminal.text, terminal.text


def test_without_a_server_no_socket_is_forwarded(launch: Launcher, small: Callable[..., Path]) -> None:
    state = small("refuses", mcp_servers={})
    assert launch("run", "p", "1 + 1").out == b"2\n"
    assert " -R " not in (state / "calls").read_text()


def test_items_of_a_batch_work_there_and_have_no_tree_here(launch: Launcher, small: Callable[..., Path]) -> None:
    make_repository(launch.project.with_name("repo"))
    state = small()
    batch: Json = {
        "version": 1,
        "profiles": ["p"],
        "tasks": [{"id": "one", "prompt": "write('made')", "repo": "../repo"}],
    }
    file = launch.project / "b.yaml"
    file.write_text(json.dumps(batch))
    with launch.start("batch", "run", str(file), "--out", "out", "--trust", apart=True) as running:
        done = running.end()
    assert done.code == 0 and (state / "made").exists(), done.err
    for key, value, what in (
        ("isolation", "clone", "a clone of an item would be made here"),
        ("check", {"command": ["true"]}, "write check: {outside: true}"),
    ):
        file.write_text(json.dumps({**batch, key: value}))
        checked = launch.forked("batch", "check", str(file))
        assert checked.code == 3 and what in checked.err and not checked.out, checked
        with launch.start("batch", "run", str(file), "--out", "other", "--trust", apart=True) as running:
            refused = running.end()
        assert refused.code != 0 and what in refused.err and not (launch.project / "other").exists(), refused.err


def test_a_login_that_needs_a_terminal_runs_there(launch: Launcher, small: Callable[..., Path], tmp_path: Path) -> None:
    account = tmp_path / "account"
    agent = {"command": sys.executable, "args": ["-B", "-I", "-S", str(AGENTS / "login.py"), str(account), "terminal"]}
    state = small(agent=agent, mcp_servers={})
    with on_terminal("login", "p", cwd=launch.project, env={**launch.env, "TERM": "dumb"}) as terminal:
        terminal.until("ask, new: ")
        terminal.types("please\n")
        assert terminal.ends() == 0
    assert account.exists() and "-t -- build1 cd " in (state / "calls").read_text()


def test_a_server_of_an_editor_runs_here(launch: Launcher, small: Callable[..., Path]) -> None:
    """The profile has none, and the directory is the one there."""
    state = small(mcp_servers={})
    server = {"name": "theirs", "command": sys.executable, "args": ["-I", "-m", "acp_launch.demo.server"], "env": []}
    with serving(launch, apart=True) as editor:
        editor.begin()
        session = editor.open(mcpServers=[server])
        editor.prompt(session, "call('theirs', 'add', a=2, b=3)\nos.getcwd()")
        assert "'text': '5'" in editor.said() and str(state) in editor.said()


def keeping(**sections: Json) -> Json:
    """An agent that keeps its sessions, in an ssh in small."""
    return {
        "agent": {"command": sys.executable, "args": ["-m", "acp_launch.demo.agent"], "env": {"PYTHONPATH": str(ROOT)}},
        "mcp_servers": {},
        **sections,
    }


def test_every_verb_about_a_session_knows_on_which_machine_it_is(launch: Launcher, small: Callable[..., Path]) -> None:
    state = small(**keeping())
    for name in ("one", "two"):
        assert launch("run", "p", f"echo {name}", "--session", name).code == 0
    assert f"build1:{state}" in launch("session", "list").out.decode()
    listed = json.loads(launch("session", "list", "p", "--agent", "--json").out)["sessions"]
    assert [each["cwd"] for each in listed] == [str(state)] * 2
    for words in (("--continue",), ("p", "--continue"), ("--session", "two")):
        continued = launch("run", *words, "-o", "json", stdin=b"history")
        assert continued.event("session") | {"name": "two", "how": "load"} == continued.event("session"), continued.err
    exported = launch("session", "export", "two")
    assert json.loads(exported.out)["record"]["cwd"] == f"build1:{state}"
    assert launch("session", "rename", "one", "first").code == 0
    assert launch("session", "rm", "two", "--local").code == 0
    imported = launch("session", "import", "-", stdin=exported.out)
    assert imported.code == 0, imported.err
    for verb in ("close", "rm"):
        done = launch("session", verb, "two")
        assert done.code == 0 and "cannot" not in done.err, done.err
    assert len(json.loads(launch("session", "list", "p", "--agent", "--json").out)["sessions"]) == 1


def test_continue_chooses_among_the_sessions_of_the_place(launch: Launcher, small: Callable[..., Path]) -> None:
    """And says where the others are; the agent here, and the one there, are not asked for a session they never had."""
    state = small(**keeping())
    assert launch("run", "p", "x", "--session", "there").code == 0
    launch.profile("replayer", "2")
    refused = launch("run", "p", "x", "--continue")
    assert refused.code == 3, refused
    assert f'no session of profile "p" works here; "there" works in build1:{state}\n' in refused.err
    assert f"fix: write runtime: {{ssh: {{host: build1, directory: {state}}}}}, or no --continue" in refused.err
    for verb in ("close", "rm"):
        refused = launch("session", verb, "there")
        assert refused.code == 3 and f'"there" works in build1:{state}, this run in {launch.project}' in refused.err
        assert "or delete the session here: acp-launch session rm there --local" in refused.err
    for words in (("--continue", "-o", "json"), ("p", "x", "--continue", "-o", "json")):
        launch.profile("replayer", "2")
        assert launch("run", "p", "x", "--session", "here").code == 0
        small(**keeping())
        found = launch("run", *words, stdin=b"x")
        assert found.event("session")["name"] == "there", found.err
    refused = launch("session", "rm", "here")
    assert refused.code == 3 and "fix: remove runtime.ssh" in refused.err
    assert launch("session", "rm", "there").code == 0
    refused = launch("run", "p", "x", "--continue")
    assert f'no session of profile "p" works on build1; "here" works in {launch.project}\n' in refused.err


DEMO = {"command": "python3", "args": ["-m", "acp_launch.demo.agent"]}


def demo(other: OtherHost) -> Json:
    return {**DEMO, "env": {"PYTHONPATH": str(other.lib)}}


def test_its_server_answers_and_no_secret_of_it_is_there(launch: Launcher, reached: Write, other: OtherHost) -> None:
    reached(agent={"env": {"OWN": "of the agent"}})
    halves = f"{SECRET[:9]!r} + {SECRET[9:]!r}"
    search = f"run('grep', '-D', 'skip', '-rl', {halves}, '/run', '/tmp', '/dev/shm', '.')"  # what both do not share
    with held(launch, other.there, ADD, "processes()", "dict(os.environ)", search, "tree('/tmp')") as (running, go_on):
        shown = launch("ps").out.decode()
        modes = [(each.stat().st_mode & 0o777) for each in map(Path, seats(other))]
        go_on()
        done = running.end()
    assert done.code == 0, done.err
    summed, processes, environ, files, tree, *_ = (json.loads(line) for line in done.out.decode().splitlines())
    assert "'text': '5'" in summed
    assert files == "" and environ["OWN"] == "of the agent"
    for place in (json.dumps(processes), json.dumps(environ)):
        assert SECRET not in place and "ACP_LAUNCH_SECRET" not in place and "ACP_LAUNCH_ID" not in place
    assert sum(each.endswith("/seat") for each in tree) == 1
    assert modes == [0o700], "an account of a neighbour there could open the seat"
    assert "agent on there" in shown and "confined" not in shown


def seats(other: OtherHost) -> list[str]:
    """The directories of seats there, as they are seen from here."""
    (pid, *_) = other.processes()
    return [str(each) for each in Path(f"/proc/{pid}/root/tmp").glob("acp-launch-*") if each.is_dir()]


def test_a_line_that_is_cut_in_a_turn_is_told(launch: Launcher, reached: Write, other: OtherHost) -> None:
    reached(host="slow")
    with held(launch, other.there, DEAF, DAEMON) as (running, _):
        other.ask("cut")
        done = running.end()
    assert done.code == 4, done.err
    assert "there is no connection to slow, or it was lost" in done.err


def test_a_line_that_is_silent_in_a_turn_leaves_nothing_there(
    launch: Launcher, reached: Write, other: OtherHost
) -> None:
    """While it is silent, all ends there; once it is not, this end is told. Both hear of each other more often here."""
    launch.env["ACP_LAUNCH_TEST_PATIENCE"] = "0.06"  # 2.7 s
    reached(host="slow")
    with held(launch, other.there, DEAF, DAEMON) as (running, _):
        until_later = time.monotonic() + 3.5
        while time.monotonic() < until_later:
            assert other.processes(), "the line was not silent, but for the agent"
        other.ask("quiet")
        until(lambda: not other.processes(), lambda: str(other.processes()))
        other.ask("loud")
        done = running.end()
    assert done.code == 4 and "the line to slow was silent" in done.err, done.err


@pytest.mark.parametrize("which", [0, 1])
def test_a_half_that_was_killed_is_named(launch: Launcher, reached: Write, other: OtherHost, which: int) -> None:
    """At once, also where the agent is deaf; and nothing is left."""
    reached()
    with held(launch, other.there, DEAF, DAEMON) as (running, _):
        halves = sorted(pid for pid, words in other.processes().items() if words.startswith("python3 -I -S -c"))
        os.kill(halves[which], signal.SIGKILL)
        done = running.end()
    assert done.code == 4 and "the program on there that the agent runs below was killed" in done.err, done.err


def test_a_session_is_remembered_with_its_host(launch: Launcher, reached: Write, other: OtherHost) -> None:
    reached(agent=demo(other), session={"name": "mine"})
    for text in ("echo one", "history"):
        done = launch("run", "p", text)
        assert done.code == 0, done.err
    assert b"1 turn" in done.out and f"there:{other.there}" in launch("session", "show", "mine").out.decode()
    reached(host="slow", agent=demo(other), session={"name": "mine"})
    refused = launch("run", "p", "history")
    assert f"fix: write runtime: {{ssh: {{host: there, directory: {other.there}}}}}, or --new" in refused.err


def test_a_host_an_editor_and_a_restarted_agent_have_it(launch: Launcher, reached: Write, other: OtherHost) -> None:
    """An agent whose half is killed is started again, and its session reopened."""
    reached(agent=demo(other))
    with up(launch) as host:
        assert host.run("add 2 3", "--session", "s").out == b"5\n"
        half = next(pid for pid, words in other.processes().items() if words.startswith("python3 -I -S -c"))
        os.kill(half, signal.SIGKILL)
        until_ended(half)
        until(lambda: b"1 turn" in host.run("history", "--session", "s").out)  # once the host has seen it
        assert host.run("add 4 4", "--session", "s").out == b"8\n"
    with serving(launch, apart=True) as editor:
        editor.begin()
        assert editor.prompt(editor.open(), "add 2 3")["result"]["stopReason"] == "end_turn"
        assert "5" in editor.said()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"host": "away"}, "there is no connection to away"),
        ({"host": "stranger"}, "the host key of stranger is not known"),
        ({"host": "closed"}, "set AllowStreamLocalForwarding yes in sshd_config there"),
        ({"directory": "/nowhere"}, 'the directory "/nowhere" cannot be used: No such file or directory, on there'),
        ({"agent": {"command": "no-agent"}}, '"no-agent" is not on PATH (/'),
    ],
    ids=str,
)
def test_run_and_doctor_say_what_is_missing_there(launch: Launcher, reached: Write, change: Json, said: str) -> None:
    reached(**change)
    assert said in launch("run", "p", "x").err
    assert said in launch("doctor", "p").out.decode()


def test_doctor_has_the_shim_opened_there(launch: Launcher, reached: Write, other: OtherHost) -> None:
    reached(agent=demo(other))
    shown = launch("doctor", "p").out.decode()
    assert "on there: it answered in its place" in shown and "shims on there" in shown, shown
