"""Ring 3. A confined agent: what it sees and can do, and that nothing of it outlives a launch (docs/profiles.md)."""

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.cli.hosted import up
from tests.cli.launcher import DEMO_SERVER, GUARD, ROOT, Ended, Json, Launcher
from tests.cli.serving import serving
from tests.confined import WHO, needs_box
from tests.patience import until

SECRET = "not-a-real-4f1d0c77e2"
NAMES = ("pass", "helper")
KERNEL = ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/etc/x", "/usr/x", "/x", "/sys/x")


@pytest.fixture(autouse=True)
def box() -> None:
    needs_box()


@pytest.fixture
def home(launch: Launcher) -> Path:
    return Path(launch.env["HOME"])


def spy(launch: Launcher, confined: Json | None = None, **sections: Json) -> None:
    launch.profile("spy")
    launch.extend(runtime={"confined": confined or {}}, **sections)


def say(done: Ended) -> list[object]:
    """What the spy has said, line by line."""
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.decode().splitlines()]


def ask(launch: Launcher, *lines: str, who: Sequence[str] = (), options: Sequence[str] = ()) -> list[object]:
    """Run a turn with these lines, as this user."""
    with launch.start("run", "p", "\n".join(lines), *options, prefix=who, apart=True) as running:
        return say(running.end())


def beside_seat(launch: Launcher, files: object) -> list[str]:
    """What of these files is not the socket of the launch that it sees, or a directory above that."""
    assert isinstance(files, list)
    sockets = str(launch.state / "sockets")
    shown = [each for each in files if each != str(launch.state) and not each.startswith(sockets)]
    assert len({each.split("/")[len(launch.state.parts)] for each in files if each.startswith(f"{sockets}/")}) <= 1
    return shown


@contextmanager
def listening(address: str | tuple[str, int], family: int = socket.AF_UNIX) -> Iterator[socket.socket]:
    with socket.socket(family) as made:
        made.bind(address)
        made.listen()
        yield made


@pytest.mark.promise("confined")
@pytest.mark.sample(1)
@pytest.mark.parametrize("who", WHO)
def test_the_spy_sees_its_project_and_its_state_and_nothing_else(
    launch: Launcher, home: Path, tmp_path: Path, who: Sequence[str]
) -> None:
    """No process, no file of the home, no bus, no other seat, no secret of a server; and its seat works."""
    needs_box(who)
    runtime = tmp_path / "run"
    runtime.mkdir(0o700)
    (launch.state / "sockets").mkdir(0o700, parents=True)
    (launch.state / "sockets" / "1-other").mkdir()
    launch.env |= {"XDG_RUNTIME_DIR": str(runtime), "ACP_LAUNCH_SECRET_TRACKER": SECRET}
    (home / ".netrc").write_text("private")
    (launch.project / "mine").write_text("")
    server = {**DEMO_SERVER, "env": {"TRACKER_TOKEN": "${secret:tracker}"}}
    spy(launch, {"state": ["~/.spy", "~/.spy.json"]}, mcp_servers={"sums": server})
    with listening(str(runtime / "bus")):
        pids, files, shown, project, summed, environ = ask(
            launch,
            "processes()",
            f"tree({str(home)!r})",
            f"tree({str(runtime)!r})",
            f"tree({str(launch.project)!r})",
            "call('sums', 'add', a=2, b=3)",
            "dict(os.environ)",
            who=who,
        )
    assert isinstance(pids, dict) and list(pids) == ["1"], "only the first process of the box"
    assert beside_seat(launch, files) == [f"{home}/.spy", f"{home}/.spy.json"]
    assert shown == [] and "1-other" not in str(files)
    assert f"{launch.project}/mine" in str(project)
    assert "'text': '5'" in str(summed)
    assert SECRET not in json.dumps([pids, files, environ])


@pytest.mark.parametrize("network", ["none", "shared"])
def test_without_a_network_there_are_no_abstract_sockets_and_no_ports(launch: Launcher, network: str) -> None:
    name = f"acp-launch-test-{os.getpid()}"
    spy(launch, {"network": network}, mcp_servers={"sums": DEMO_SERVER})
    with listening(f"\0{name}"), listening(("127.0.0.1", 0), socket.AF_INET) as port:
        number = port.getsockname()[1]
        *reached, summed = ask(launch, f"reach('@{name}')", f"reach({number})", "call('sums', 'add', a=2, b=3)")
    assert reached == [{"none": "refused", "shared": "connected"}[network]] * 2
    assert "'text': '5'" in str(summed)


@pytest.mark.parametrize("who", WHO)
def test_it_can_change_neither_the_machine_nor_the_first_process_of_its_box(
    launch: Launcher, who: Sequence[str]
) -> None:
    """Root inside has no capability either, so it can undo no mount. The kernel ends the box with us because its first
    process has asked for it, and it could be made to take that back."""
    needs_box(who)
    spy(launch)
    *written, mount, capable, mine, first, child, mem, thread = ask(
        launch,
        *(f"write({path!r})" for path in KERNEL),
        "run('mount', '-o', 'remount,rw', '/usr')",
        "run('grep', 'CapEff', '/proc/self/status')",
        "write('mine')",
        "trace(1)",
        "trace(0)",
        *(f"attempt(lambda: open({path!r}, 'r+b'))" for path in ("/proc/1/mem", "/proc/1/task/1/mem")),
        who=who,
    )
    assert not [path for path, each in zip(KERNEL, written, strict=True) if "written" in str(each)]
    assert "mount:" in str(mount)
    assert str(capable).split() == ["CapEff:", "0" * 16]
    assert "written" in str(mine) and (launch.project / "mine").exists()
    assert (first, child) == ("Operation not permitted", "attached")
    assert (mem, thread) == ("Permission denied", "No such file or directory")


@pytest.mark.parametrize("who", WHO)
def test_the_keyrings_of_the_login_are_closed(launch: Launcher, who: Sequence[str]) -> None:
    """Nor do commands that are run for it reach them, or what it starts without guards (a login)."""
    needs_box(who)
    login = (*who, sys.executable, str(ROOT / "tests" / "children" / "keyring.py"))
    look = (sys.executable, "-I", "-S", str(shutil.copy(login[-1], launch.project)))
    before = subprocess.run((*login, *look), capture_output=True, text=True)
    if before.returncode:
        pytest.skip(before.stderr)
    assert before.stdout.splitlines() == ["a key of the login"] * 2
    spy(launch, client={"terminal": True}, permissions={"default": "allow"})
    found, served = ask(launch, f"run(*{look!r})", f"served({look[0]!r}, args={look[1:]!r})['output']", who=login)
    assert str(found).splitlines() == str(served).splitlines() == ["Operation not permitted"] * 2


def test_what_it_may_only_read_cannot_be_moved_away(launch: Launcher) -> None:
    """A directory above it could be renamed otherwise, and another put in its place."""
    tools = launch.project / "lib" / "tools"
    tools.mkdir(parents=True)
    (tools / "server.py").write_text("")
    spy(launch, {"read": ["lib/tools"]})
    assert ask(
        launch,
        "attempt(lambda: os.rename('lib', 'away'))",
        "attempt(lambda: os.rename('lib/tools', 'away'))",
        "write('lib/tools/server.py')",
        "attempt(lambda: os.unlink('lib/tools/server.py'))",
        "write('lib/other')",
    ) == ["Device or resource busy", "Invalid cross-device link", *["Read-only file system"] * 2, "1 written"]
    spy(launch, {"read": ["."]})
    assert ask(launch, "write('mine')", "len(os.listdir('.')) > 0") == ["Read-only file system", True]


def test_its_state_is_there_in_the_next_run(launch: Launcher, home: Path) -> None:
    """What it writes elsewhere in the home is gone."""
    spy(launch, {"state": ["~/.spy"]})
    files = [str(home / name / "a") for name in (".spy", ".other")]
    ask(
        launch,
        f"attempt(lambda: os.makedirs({str(home / '.other')!r}))",
        *(f"write({file!r}, 'kept')" for file in files),
    )
    found = ask(launch, *(f"attempt(lambda: read({file!r}))" for file in files))
    assert found == ["kept", "No such file or directory"]


def test_links_lead_where_they_lead_outside(launch: Launcher, tmp_path: Path) -> None:
    """A path with a link in it is the same inside; nothing is there twice, or it could be written by another name."""
    (tmp_path / "data" / "more").mkdir(parents=True)
    (tmp_path / "link").symlink_to("data")
    spy(launch, {"write": [str(tmp_path / "link" / "more")], "read": [str(tmp_path / "data" / "more" / "kept")]})
    (tmp_path / "data" / "more" / "kept").write_text("")
    assert ask(
        launch,
        f"os.path.realpath({str(tmp_path / 'link' / 'more')!r})",
        f"write({str(tmp_path / 'link' / 'more' / 'file')!r})",
        f"write({str(tmp_path / 'link' / 'more' / 'kept')!r})",
    ) == [str(tmp_path / "data" / "more"), "1 written", "Read-only file system"]


def test_commands_for_it_run_in_its_place(launch: Launcher, home: Path) -> None:
    """Unconfined they would see the host, and so would code that the agent names as one to load."""
    (home / ".netrc").write_text("private")
    spy(launch, client={"terminal": True}, permissions={"default": "allow"})
    listed, named, hidden = ask(
        launch,
        f"served('ls', args=['-a', {str(home)!r}])",
        "served('cat', args=['/proc/1/comm'])",
        "served('echo $LD_PRELOAD', env=[{'name': 'LD_PRELOAD', 'value': '/nothing.so'}])",
    )
    assert isinstance(listed, dict) and listed["output"].split() == [".", "..", launch.state.name]
    assert isinstance(named, dict) and named["output"] == "bwrap\n"
    assert isinstance(hidden, dict) and "/nothing.so\n" in hidden["output"]


def test_what_it_may_only_read_is_not_written_for_it(launch: Launcher) -> None:
    """A server starts from there, with its secret."""
    (launch.project / "tools").mkdir()
    (launch.project / "tools" / "server.py").write_text("ours")
    spy(launch, {"read": ["tools"]}, client={"fs": True}, permissions={"default": "allow"})
    write = (
        "script.ask('fs/write_text_file', {{'sessionId': 'session-1', 'path': {!r}, 'content': 'mine'}}, identity=1)"
    )
    paths = [str(launch.project / name) for name in ("tools/server.py", "tools/new", "note")]
    *refused, written = ask(launch, *(f"{write.format(path)}.get('error', {{}}).get('message')" for path in paths))
    assert all(str(each).endswith("may only be read (runtime.confined)") for each in refused)
    assert written is None and (launch.project / "note").read_text() == "mine"
    assert [each.read_text() for each in (launch.project / "tools").iterdir()] == ["ours"]


def git(where: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a", *words]
    return subprocess.run(command, cwd=where, check=True, capture_output=True, text=True).stdout.strip()


def linked_worktree(launch: Launcher, tmp_path: Path, *branch: str, **files: str) -> tuple[Path, Path]:
    """A repository with these files, and a worktree of it, which becomes the project."""
    main, tree = tmp_path / "main", tmp_path / "main-tree"
    git(tmp_path, "init", "-q", "-b", "main", str(main))
    for name, text in files.items():
        (main / name).write_text(text)
    git(main, "add", ".")
    git(main, "commit", "-q", "--allow-empty", "-m", "one")
    git(main, "worktree", "add", "-q", *branch, str(tree))
    spy(launch)
    (launch.project / ".acp-launch").rename(tree / ".acp-launch")
    launch.project = tree
    launch("trust", "p", "--yes")
    return main, tree


@pytest.mark.sample(0, 2)
@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("branch", [["-b", "mine"], ["--detach"]], ids=["branch", "detached"])
def test_it_commits_in_a_linked_worktree_and_writes_no_hook(
    launch: Launcher, home: Path, tmp_path: Path, branch: Sequence[str], who: Sequence[str]
) -> None:
    needs_box(who)
    (home / ".gitconfig").write_text("[user]\nname = me\nemail = me@x\n")
    main, tree = linked_worktree(launch, tmp_path, *branch)
    common, own = main / ".git", main / ".git" / "worktrees" / tree.name
    status, committed, log, diff, *refused = ask(
        launch,
        "run('git', 'status', '--short')",
        "run('git', 'add', '.acp-launch') + run('git', 'commit', '-q', '-m', 'two')",
        "run('git', 'log', '--format=%an <%ae> %s')",
        "run('git', 'diff', '--stat', 'HEAD~')",
        *(f"write({str(path)!r})" for path in (common / "hooks" / "x", common / "config", common / "packed-refs")),
        *(f"write({str(path)!r})" for path in (own / "commondir", tree / ".git", common / "refs" / "tags" / "x")),
        "attempt(lambda: os.rename('.git', '.g'))",
        who=who,
    )
    assert (status, committed) == ("?? .acp-launch/", "")
    assert str(log).splitlines() == ["me <me@x> two", "a <a> one"]
    assert ".acp-launch/p.yaml" in str(diff)
    assert refused == [*["Read-only file system"] * 6, "Device or resource busy"]
    assert git(tree, "log", "--format=%s") == "two\none"
    assert git(tree, "rev-parse", "--abbrev-ref", "HEAD") == ("HEAD" if branch == ["--detach"] else "mine")
    assert git(main, "log", "--format=%s") == "one"


def test_it_does_not_change_what_others_committed(launch: Launcher, tmp_path: Path) -> None:
    """An object of git's can be a file of its own, and git does not look whether it fits its name."""
    main, _ = linked_worktree(launch, tmp_path, "--detach", ours="ours", theirs="theirs")
    objects = [git(main, "rev-parse", f"HEAD:{name}") for name in ("ours", "theirs")]
    paths = [main / ".git" / "objects" / each[:2] / each[2:] for each in objects]
    forged = paths[1].read_bytes()
    ask(
        launch,
        f"attempt(lambda: os.makedirs({str(paths[0].parent)!r}, exist_ok=True))",
        f"attempt(lambda: os.remove({str(paths[0])!r}))",
        f"attempt(lambda: open({str(paths[0])!r}, 'wb').write({forged!r}))",
    )
    assert paths[0].read_bytes() == forged
    assert git(main, "show", "HEAD:ours") == "ours"
    git(main, "worktree", "add", "-q", "--detach", str(tmp_path / "next"))
    assert (tmp_path / "next" / "ours").read_text() == "ours"


def test_a_repository_does_not_choose_what_it_sees(launch: Launcher, home: Path) -> None:
    """Its `.git` file names the user's keys; a word says so before."""
    (home / ".ssh").mkdir()
    (home / ".ssh" / "key").write_text("private")
    (launch.project / ".git").write_text(f"gitdir: {home}/.ssh\n")
    spy(launch)
    (files,) = ask(launch, f"tree({str(home)!r})")
    assert beside_seat(launch, files) == []
    said = launch("plan", "p").err.replace(str(home), "~")
    assert "/.git leads to ~/.ssh, which is not its git directory" in said


DAEMONS = """
import os, signal, sys
def nothing():
    for each in (0, 1, 2):
        os.dup2(os.open("/dev/null", os.O_RDWR), each)
def deaf():
    for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)
started, starting = os.pipe()  # closed when the last of them runs its program
for temper in ("deaf", "setsid", "forker", "daemon"):
    if os.fork() == 0:
        nothing()
        deaf()
        if temper in ("setsid", "daemon"):
            os.setsid()
        if temper in ("forker", "daemon") and os.fork() and temper == "daemon":
            os._exit(0)
        os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", "import signal\\nwhile 1: signal.pause()"], {})
os.close(starting)
os.read(started, 1)
os._exit(0)
"""


def line_of(process: psutil.Process) -> str:
    """The command line of a process; empty if it is dead."""
    try:
        return " ".join(process.cmdline()) if process.is_running() else ""
    except psutil.Error:
        return ""


@pytest.mark.promise("kill")
@pytest.mark.sample(1, 3)
@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("victims", [("launcher",), ("guards",), ("launcher", "guards")], ids="+".join)
def test_nothing_outlives_a_killed_launch(launch: Launcher, victims: Sequence[str], who: Sequence[str]) -> None:
    """Not even what ignores every signal, has left its session, and has an empty environment."""
    needs_box(who)
    (launch.project / "daemons.py").write_text(DAEMONS)
    spy(launch, mcp_servers={"sums": DEMO_SERVER})
    prompt = "run(sys.executable, '-I', '-S', 'daemons.py')\nscript.hang()"
    with launch.start("run", "p", prompt, prefix=who, apart=True) as running:
        running.shows('""')
        started = psutil.Process(running.process.pid)
        everyone = [started, *started.children(recursive=True)]
        lines = {each: line_of(each) for each in everyone}
        guards = [each for each, line in lines.items() if line.startswith(GUARD)]
        launcher = next(each for each, line in lines.items() if "-m acp_launch run" in line and "bwrap" not in line)
        assert len(guards) == 2 and sum("signal.pause" in line for line in lines.values()) == 5
        for each in [*([launcher] if "launcher" in victims else []), *(guards if "guards" in victims else [])]:
            each.kill()
        until(lambda: not any(map(line_of, everyone)))


def test_it_may_end_by_itself_after_a_request(launch: Launcher, home: Path) -> None:
    """bubblewrap would take the agent along if it were asked to end, too."""
    body = """
import signal
def leave(*_):
    open("left", "w").close()
    raise SystemExit(0)
signal.signal(signal.SIGTERM, leave)
script.serve()
signal.pause()
"""
    launch.scripted(body)
    launch.extend(runtime={"confined": {"read": [str(ROOT / "tests")]}})
    with launch.start("run", "p", "hi", apart=True) as running:
        assert running.end().code == 0
    assert (launch.project / "left").exists()


def test_without_a_profile_it_has_the_state_of_a_known_agent(launch: Launcher, home: Path) -> None:
    line = shlex.join([sys.executable, "-I", "-S", f"{ROOT}/tests/agents/spy.py"])
    with launch.start("run", "--agent", line, "--confined", f"tree({str(home)!r})", apart=True) as running:
        (files,) = say(running.end())
    assert beside_seat(launch, files) == []
    refused = launch("run", "p", "--confined", "hi")
    assert (refused.code, refused.err.splitlines()) == (
        2,
        ["acp-launch: --confined is for --agent", "    fix: in the profile: runtime: {confined: true}"],
    )


@pytest.mark.parametrize("is_named", [False, True], ids=["on PATH", "by its path"])
def test_a_program_that_it_wrote_gets_no_secret_from_the_store(
    launch: Launcher, tmp_path: Path, is_named: bool
) -> None:
    """The store's command runs outside, as the user: also with a folder of the project on PATH, as a shell has it in a
    virtual environment."""
    own, bin = tmp_path / "own", launch.project / ".venv" / "bin"
    for folder in (own, bin):
        folder.mkdir(parents=True)
    for name in NAMES:
        (own / name).write_text("#!/bin/sh\necho of-the-user\n" if name == "helper" else "#!/bin/sh\nhelper\n")
        (own / name).chmod(0o755)
    launch.env["PATH"] = f"{bin}{os.pathsep}{own}{os.pathsep}{os.environ['PATH']}"
    evil = f"#!/bin/sh\ntouch {tmp_path}/escaped\necho of-the-agent\n"
    spy(launch)
    ask(launch, *(f"write({str(bin / name)!r}, {evil!r}), os.chmod({str(bin / name)!r}, 0o755)" for name in NAMES))
    launch.configure(f"secrets: {{store: command, command: [{bin / 'pass' if is_named else 'pass'}, '{{name}}']}}\n")
    launch.profile("spy", agent={"env": {"TOKEN": "${secret:token}"}}, runtime={"confined": {}})
    done = launch.apart("run", "p", "len(os.environ['TOKEN'])")
    assert not (tmp_path / "escaped").exists()
    if is_named:
        assert done.code == 3
        assert f"a confined agent could write {bin / 'pass'}, which would run outside of its place, as you" in done.err
    else:
        assert say(done) == [len("of-the-user")]


def test_a_bubblewrap_that_it_wrote_makes_no_place(launch: Launcher, tmp_path: Path) -> None:
    """Another project's agent has no more of it than its own."""
    other = tmp_path / "other"
    other.mkdir()
    spy(launch, {"write": [str(other)]})
    ask(launch, f"write({str(other / 'bwrap')!r}, '#!/bin/sh'), os.chmod({str(other / 'bwrap')!r}, 0o755)")
    spy(launch)
    done = launch.apart("run", "p", "1", PATH=f"{other}{os.pathsep}{os.environ['PATH']}")
    assert (done.code, f"a confined agent could write {other / 'bwrap'}" in done.err) == (3, True), done.err


def test_it_shares_a_server_with_an_agent_that_is_not_confined(launch: Launcher) -> None:
    """It sees the server through its own seat, and not the socket of the server host."""
    launch.env["ACP_LAUNCH_SECRET_TRACKER"] = SECRET
    command = {"command": sys.executable, "args": ["-I", "-S", str(ROOT / "tests" / "servers" / "polite.py")]}
    server: Json = {**command, "env": {"TOKEN": "${secret:tracker}"}, "share": "user", "idle": "1h", "cwd": "/usr"}
    try:
        launch.profile("spy", mcp_servers={"polite": server})
        (outside,) = say(launch.apart("run", "p", "call('polite', 'pid')"))
        spy(launch, mcp_servers={"polite": server})
        inside, sockets = say(
            launch.apart("run", "p", f"call('polite', 'pid')\ntree({str(launch.state / 'sockets')!r})")
        )
        assert inside == outside
        assert isinstance(sockets, list) and [Path(each).name for each in sockets[1:]] == ["seat"]
        (launch.project / "data").mkdir()
        spy(launch, mcp_servers={"polite": {**server, "env": {**server["env"], "DATA": "${project}/data"}}})
        refused = launch.apart("run", "p", "1")
        assert (refused.code, "the agent can write" in refused.err) == (3, True), "whichever launch would start it"
    finally:
        launch("down", "--servers", "--force")


def test_a_host_confines_its_agent(launch: Launcher, home: Path) -> None:
    (home / ".netrc").write_text("private")
    spy(launch, mcp_servers={"sums": DEMO_SERVER})
    with up(launch) as host:
        files, summed = say(host.run(f"tree({str(home)!r})\ncall('sums', 'add', a=2, b=3)"))
        assert beside_seat(launch, files) == [] and "'text': '5'" in str(summed)


def test_a_served_agent_is_confined_to_what_it_was_started_with(launch: Launcher, home: Path, tmp_path: Path) -> None:
    """The editor reads no file and runs no command for it, and its own local servers are the agent's."""
    (home / ".netrc").write_text("private")
    (launch.project / "part").mkdir()
    spy(launch, mcp_servers={"sums": DEMO_SERVER})
    (launch.config / "profiles").mkdir(parents=True)
    (launch.project / ".acp-launch" / "p.yaml").rename(launch.config / "profiles" / "p.yaml")
    with serving(launch) as editor:
        editor.begin(fs={"readTextFile": True, "writeTextFile": True}, terminal=True)
        local = {"name": "own", "command": sys.executable, "args": ["-I", "-m", "acp_launch.demo.server"], "env": []}
        session = editor.open(mcpServers=[local])
        editor.prompt(session, f"tree({str(home)!r})\nentries['own']['command']\ncall('sums', 'add', a=2, b=3)")
        files, command, summed = (json.loads(line) for line in editor.said().splitlines())
        assert (beside_seat(launch, files), command) == ([], sys.executable) and "'text': '5'" in summed
        assert editor.open(cwd=launch.project / "part") != session
        why = editor.refused("session/new", cwd=str(tmp_path), mcpServers=[])
        assert "is confined, and does not see" in why


@pytest.mark.promise("confined")
def test_without_a_bubblewrap_that_works_nothing_starts(launch: Launcher, tmp_path: Path) -> None:
    """Ubuntu 24.04 forbids it namespaces, without a profile of AppArmor; that is not blamed on the agent."""
    fake = tmp_path / "bin" / "bwrap"
    fake.parent.mkdir()
    spy(launch)
    done = launch("run", "p", "1", PATH=str(fake.parent))
    assert (done.code, done.out) == (3, b"")
    assert "bubblewrap, which confines the agent, is not installed" in done.err
    assert "fix: install it: apt-get install bubblewrap" in done.err
    fake.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    fake.chmod(0o755)
    done = launch("run", "p", "1", PATH=f"{fake.parent}:{launch.env['PATH']}")
    assert done.code == 4
    assert done.err.splitlines()[-2:] == [
        "    bwrap: setting up uid map: Permission denied",
        "    fix: bubblewrap could not make the agent's place; to try that: acp-launch doctor p",
    ]


def test_an_agent_and_a_command_that_are_killed_are_said_to_be(launch: Launcher) -> None:
    """bubblewrap exits with 137 then."""
    spy(launch, client={"terminal": True}, permissions={"default": "allow"})
    lines = ("served('kill -9 $$')['exitStatus']", "os.kill(os.getpid(), 9)")
    done = launch("run", "p", "\n".join(lines))
    assert (done.code, json.loads(done.out)) == (4, {"exitCode": None, "signal": "SIGKILL"})
    assert "was killed by SIGKILL" in done.err and "137" not in done.err
