"""Ring 3. An agent in a container of podman or docker: its servers and their secrets stay here, and nothing of it."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_launch.checks.confined import ask_engine, find_digest
from acp_launch.plan.model import InContainer
from acp_launch.process.records import read_all
from tests.batch.test_freeze import make_repository
from tests.batch.test_whole import ENGINES
from tests.cli.elsewhere import ADD, DEAF, MOUNTS, SECRET, Write, contain, held, record_of
from tests.cli.hosted import up
from tests.cli.launcher import AGENTS, ROOT, Launcher
from tests.cli.serving import serving
from tests.cli.terminal import on_terminal
from tests.engines import KINDS, RealEngine, having
from tests.patience import AS_USERS_WAIT, until
from tests.process.engines import SmallEngine, small_engine
from tests.process.liveness import liveness
from tests.process.test_leftovers import written


@pytest.fixture(scope="module", params=KINDS)
def engine(request: pytest.FixtureRequest) -> Iterator[RealEngine]:
    with having(request.param) as found:
        yield found


@pytest.fixture
def small(launch: Launcher, tmp_path: Path) -> Iterator[SmallEngine]:
    """An engine in small, and the profile of an agent in a container of it."""
    with liveness() as alive, small_engine(tmp_path / "engine", alive) as found:
        launch.env |= {"PATH": f"{found.state}:{launch.env['PATH']}", "ENGINE_STATE": str(found.state)}
        launch.profile("spy", runtime={"container": {"image": "agents:1", "mounts": [f"{ROOT}/tests:ro"]}})
        yield found


@pytest.fixture
def contained(launch: Launcher, engine: RealEngine) -> Write:
    return contain(launch, engine)


def test_its_server_answers_and_no_secret_of_it_is_in_the_container(
    launch: Launcher, contained: Write, engine: RealEngine
) -> None:
    contained(agent={"env": {"OWN": "of the agent"}})
    halves = f"{SECRET[:9]!r} + {SECRET[9:]!r}"
    search = (
        f"run('grep', '-D', 'skip', '-rl', {halves}, '/etc', '/home', '/opt', '/root', '/run', '/tmp', '/var', '.')"
    )
    looks = (ADD, "processes()", "dict(os.environ)", search, "read('/proc/self/mountinfo')")
    with held(launch, launch.project, *looks) as (running, go_on):
        (container,) = engine.list(record_of(launch).id)
        inspected = engine.ask("inspect", container)
        listed = json.loads(launch("ps", "--json").out)["launches"]
        shown = launch("ps").out.decode()
        go_on()
        done = running.end()
    assert done.code == 0, done.err
    summed, processes, environ, files, mounts, *_ = (json.loads(line) for line in done.out.decode().splitlines())
    assert "'text': '5'" in summed
    assert files == "" and "OWN" in environ and environ["OWN"] == "of the agent"
    for place in (inspected, json.dumps(processes), json.dumps(environ), mounts):
        assert SECRET not in place and "ACP_LAUNCH_SECRET" not in place
    assert "PATH=" + launch.env["PATH"] not in json.dumps(processes)
    assert [each["name"] for each in listed[0]["processes"]][:1] and "agent in the container" in shown
    assert engine.list() == []


def test_a_host_an_editor_and_a_loaded_session_have_it(
    launch: Launcher, contained: Write, engine: RealEngine, tmp_path: Path
) -> None:
    contained()
    with up(launch) as host:
        assert len(engine.list()) == 1
        assert "'text': '5'" in host.run(ADD).out.decode()
        assert len(engine.list()) == 1
    assert engine.list() == []
    with serving(launch, apart=True) as editor:
        editor.begin()
        assert editor.prompt(editor.open(), ADD)["result"]["stopReason"] == "end_turn"
        assert "'text': '5'" in editor.said()
    assert engine.list() == []
    (tmp_path / "state").mkdir()
    state = {"XDG_STATE_HOME": str(tmp_path / "state"), "PYTHONPATH": str(ROOT), "HOME": str(tmp_path / "state")}
    contained(
        container={"mounts": [f"{ROOT}/acp_launch:ro", str(tmp_path / "state")]},
        agent={"args": ["-m", "acp_launch.demo.agent"], "env": state},
        session={"name": "mine"},
    )
    for text in ("echo one", "history"):
        done = launch("run", "p", text)
        assert done.code == 0, done.err
    assert "one" in done.out.decode()
    assert engine.list() == []


BATCH = """\
version: 1
profiles: [p]
tasks: [{id: a}]
prompt: |
  os.listdir(read('.git').split()[1])
  write('made', 'made')
  call('sums', 'add', a=2, b=3)
isolation: {kind: worktree, keep: always}
check: {command: [sh, -c, 'cat made; env; readlink /proc/self/exe; command -v only-here; test -e made'], timeout: 60s}
"""


@pytest.mark.sample(0, 1)
def test_an_item_of_a_batch_has_its_tree_and_its_check_there(
    launch: Launcher, contained: Write, engine: RealEngine, tmp_path: Path
) -> None:
    """The check finds its programs in the image, and sees no variable of this machine."""
    make_repository(launch.project)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "only-here").symlink_to("/bin/true")
    launch.env["PATH"] = f"{tmp_path / 'bin'}:{launch.env['PATH']}"
    contained()
    (launch.project / "b.yaml").write_text(BATCH)
    done = launch.forked("batch", "run", "b.yaml", "--trust", "--out", str(tmp_path / "out"))
    item = tmp_path / "out" / "items" / "a.p" / "1"
    said = {each.name: each.read_text() for each in item.glob("*.*")}
    assert done.code == 0, (done, said)
    assert "'text': '5'" in said["answer.md"]
    assert "made" in said["check.txt"] and "HOSTNAME=" in said["check.txt"]
    assert SECRET not in said["check.txt"] and "only-here" not in said["check.txt"]
    assert f"PATH={tmp_path}" not in said["check.txt"]
    assert engine.list() == []


@pytest.mark.sample(0, 1)
def test_a_check_that_does_not_end_leaves_no_container(
    launch: Launcher, contained: Write, engine: RealEngine, tmp_path: Path
) -> None:
    make_repository(launch.project)
    contained()
    check = "check: {command: [sh, -c, 'trap \"\" TERM INT HUP; echo up; sleep 3600 & wait; wait'], timeout: 1s}\n"
    (launch.project / "b.yaml").write_text(BATCH.partition("check:")[0] + check)
    done = launch.forked("batch", "run", "b.yaml", "--trust", "--out", str(tmp_path / "out"))
    assert done.code == 9, done
    assert "the check did not end within 1 s" in (tmp_path / "out" / "items" / "a.p" / "1" / "check.txt").read_text()
    assert engine.list() == []


@ENGINES
def test_items_that_are_deaf_or_killed_leave_no_container(
    launch: Launcher, small: SmallEngine, engine: tuple[str, ...], tmp_path: Path
) -> None:
    """One is killed with what carries it out, and begins again; then both take too long."""
    prompt = f"{DEAF}\nscript.hang()"
    batch = {"version": 1, "profiles": ["p"], "tasks": [{"id": "a"}, {"id": "b"}], "prompt": prompt}
    batch |= {"isolation": "none", "limits": {"timeout": "3s"}}
    (launch.project / "b.yaml").write_text(json.dumps(batch))
    words = ("batch", "run", "b.yaml", "--trust", "--out", str(tmp_path / "out"), "--jobs", "2", *engine)
    with launch.start(*words, apart=True) as running:
        records = until(
            lambda: len(found := read_all(launch.state)) >= 2 and all(each.clients for each in found) and found
        )
        os.kill(records[0].launcher.pid, signal.SIGKILL)
        assert running.end().code == 9
    assert small.call("ps", "-a", "--filter", "label=acp-launch.launch") == "" and read_all(launch.state) == []


@pytest.mark.parametrize("how", ["wait", "ask"])
def test_a_login_has_a_terminal_there_and_leaves_no_container(
    launch: Launcher, contained: Write, engine: RealEngine, tmp_path: Path, how: str
) -> None:
    (tmp_path / "state").mkdir()
    store = tmp_path / "state" / "store"
    kind = "terminal" if how == "ask" else f"terminal:{how}"
    contained(
        {"mounts": [*MOUNTS, str(tmp_path / "state")]},
        agent={"args": ["-B", "-I", "-S", f"{AGENTS}/login.py", str(store), kind]},
    )
    with on_terminal("login", "p", cwd=launch.project, env={**launch.env, "TERM": "dumb"}) as terminal:
        if how == "ask":
            terminal.until("ask, new: ")
            terminal.types("please\n")
            assert terminal.ends() == 0, terminal.text
        else:
            terminal.until("wait, new: ")
            assert len(engine.list()) >= 1
            terminal.process.send_signal(signal.SIGTERM)
            assert terminal.ends() == 143
    assert store.exists() == (how == "ask")
    assert engine.list() == []


def test_what_the_engine_lacks_is_told_before_anything_starts_and_asked_once(
    launch: Launcher, contained: Write, engine: RealEngine
) -> None:
    room = Path(engine.program).parents[1]
    calls = room / "calls"
    contained({"image": "localhost/nothing:1"})
    refused = launch("run", "p", ADD)
    assert refused.code == 3, refused
    assert f"runtime.container: {engine.name} does not have the image localhost/nothing:1" in refused.err
    assert f"fix: fetch it: {engine.name} pull localhost/nothing:1; or write pull: missing\n" in refused.err
    contained()
    (room / "mode").write_text("down")
    try:
        refused = launch("run", "p", ADD)
        examined = launch("doctor", "p")
    finally:
        (room / "mode").write_text("")
    assert refused.code == 3 and f"{engine.name} does not answer: " in refused.err and "it is down" in refused.err
    assert examined.code == 3 and b"problem  container agent" in examined.out
    calls.write_text("")
    for _ in range(2):
        assert launch("run", "p", ADD).code == 0
    asked = [line.split()[0] for line in calls.read_text().splitlines()]
    assert asked.count("info") == asked.count("image") == 1, asked
    demo = {"args": ["-m", "acp_launch.demo.agent"], "env": {"PYTHONPATH": str(ROOT)}}
    contained({"mounts": [f"{ROOT}/acp_launch:ro"]}, agent=demo)
    checks = json.loads(launch("doctor", "p", "--json").out)["checks"]
    facts = {name: each["facts"] for each in checks if (name := each["check"]) in ("container", "shims")}
    assert facts["container"]["engine"] == engine.name and facts["container"]["version"], facts
    assert facts["shims"]["interpreter"].startswith("Python 3."), facts


def test_a_locked_run_starts_the_image_that_is_locked(launch: Launcher, contained: Write, engine: RealEngine) -> None:
    """Whatever its tag names now: at last one that has neither python3 nor node."""
    mine = f"localhost/mine:{os.urandom(4).hex()}"
    engine.ask("tag", engine.image, mine)
    try:
        contained({"image": mine})
        unlocked = launch("run", "p", ADD, "--locked")
        assert (unlocked.code, "lock file says nothing of p" in unlocked.err) == (2, True), unlocked
        locked = launch("lock", "p", "--json")
        (package,) = json.loads(locked.out)["packages"]
        assert (package["path"], package["package"]) == ("runtime.container.image", f"image:{mine}")
        assert package["integrity"] == ["sha256:" + engine.ask("image", "inspect", "-f", "{{.Id}}", mine).strip()[-64:]]
        engine.ask("tag", engine.image.replace("room", "bare"), mine)
        assert launch("run", "p", ADD).code != 0
        done = launch("run", "p", ADD, "--locked")
        assert done.code == 0 and b"'text': '5'" in done.out, done
        file = launch.project / ".acp-launch" / "lock.yaml"
        file.write_text(file.read_text().replace(package["integrity"][0], "sha256:" + "ab" * 32))
        absent = launch("run", "p", ADD, "--locked")
        assert absent.code == 3 and f"{engine.name} does not have the image sha256:abab" in absent.err, absent
        assert "fix: load it; or lock the one that is here\n" in absent.err
        file.write_text(file.read_text().replace("sha256:", "latest:"))
        assert launch("validate", "p", "--locked").code == 2
        contained({"image": f"{mine}@sha256:{'ab' * 32}"})
        assert b'"packages": []' in launch("lock", "p", "--json").out
    finally:
        engine.ask("rmi", mine)


@pytest.mark.parametrize(
    ("image", "told", "digest"),
    [
        ("agents:1", "sha256:0a", "sha256:0a"),
        ("agents:1", "0a localhost/agents@sha256:0b", "sha256:0a"),
        ("agents", "0a docker.io/library/agents@sha256:0b", "docker.io/library/agents@sha256:0b"),
        ("host:5000/a/b", "sha256:0a host:5000/a/b@sha256:0b other/b@sha256:0c", "host:5000/a/b@sha256:0b"),
        ("ghcr.io/a/b:1", "0a ghcr.io/a/b@sha256:0b ghcr.io/a/b@sha256:0c", "ghcr.io/a/b@sha256:0c"),
    ],
)
def test_a_digest_names_an_image_wherever_it_is(image: str, told: str, digest: str, tmp_path: Path) -> None:
    program = tmp_path / "engine"
    program.write_text(f"#!/bin/sh\necho {told}\n")
    program.chmod(0o755)
    assert find_digest(program, image) == digest


def test_an_engine_that_takes_long_is_named_and_an_interrupt_does_not_wait_for_it(
    launch: Launcher, small: SmallEngine
) -> None:
    """It may make the container when its client is dead: the next start removes that."""
    small.answers("late")
    launch.env |= AS_USERS_WAIT
    with launch.start("run", "p", "1 + 1", apart=True) as running:
        running.complains(f"podman has not made the container of agents:1 yet: see whether it answers: {small.program}")
        running.kill(signal.SIGINT)
        assert running.end().code == 130
    small.call("go")
    label = ("--filter", f"label=acp-launch.launch={record_of(launch).id}")
    until(lambda: bool(small.call("ps", "-a", *label)), lambda: "no container")
    small.answers()
    assert launch("run", "p", "1 + 1").out == b"2\n"
    assert small.call("ps", "-a", *label) == "" and read_all(launch.state) == []


def test_an_engine_that_goes_down_between_two_runs_is_told_as_one_that_is_down(
    launch: Launcher, small: SmallEngine
) -> None:
    assert launch("run", "p", "1 + 1").out == b"2\n"
    for cached in (True, False):
        small.answers("down")
        failed = launch("run", "p", "1 + 1")
        assert failed.code == 3
        assert "podman does not answer: Error: cannot connect to the engine" in failed.err
        assert "fix: start its daemon, or choose another one: runtime.container.engine" in failed.err
        asked = ["run"] if cached else ["info"]
        assert small.calls()[-1:] == asked and read_all(launch.state) == []
    small.answers()
    assert launch("run", "p", "1 + 1").out == b"2\n"


def test_reap_fails_while_an_engine_that_may_have_a_container_does(launch: Launcher, small: SmallEngine) -> None:
    launch.state.mkdir(0o700)
    written(launch.state, f"engine\t{small.program}")
    small.answers("down")
    for words in ((), ("--json",)):
        failed = launch("reap", *words)
        assert failed.code == 3 and b"cannot connect to the engine" in failed.out, failed
    small.answers()
    done = launch("reap")
    assert (done.code, done.err, read_all(launch.state)) == (0, "nothing was left behind\n", [])


def test_an_engine_that_maps_users_is_told(tmp_path: Path) -> None:
    program = tmp_path / "docker"
    for option, user, said in (
        ("name=userns", (), "problem"),
        ("name=rootless", ("--user", "1000:1000"), "problem"),
        ("name=rootless", (), "ok"),
        ("name=seccomp,profile=default", ("--user", "1000:1000"), "ok"),
    ):
        program.write_text(
            f'#!/bin/sh\ncase $1 in info) echo "27.1 [{option}]";; *) echo sha256:0123456789abcdef;; esac\n'
        )
        program.chmod(0o755)
        found = ask_engine(program, InContainer("docker", "x", "default", "never", user))
        assert found.verdict == said, found
        assert found.text == "docker 27.1; x: 0123456789ab" or option in found.text
