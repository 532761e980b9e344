"""How the engine, or ssh, is told to lead to an agent elsewhere, and what prevents that (Linux)."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from acp_launch.console.plans import as_text, plan_json
from acp_launch.errors import ProfileError
from acp_launch.plan.model import InContainer, LaunchPlan, Mount, OverSsh, Place
from acp_launch.plan.place import BEAT_SECONDS, BEATS, BOOT, add_seat, can_write, enclose, lead, shows
from acp_launch.plan.resolve import Resolved, resolve
from acp_launch.profile.discover import Found
from acp_launch.profile.load import load
from acp_launch.session.permission.policy import judge, policy
from acp_launch.settings.load import directory
from tests.patience import PATIENCE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the programs there are for Linux")
Json = Mapping[str, Any]
IMAGE = "localhost/agent:1"
SSH: Json = {"ssh": {"host": "h", "directory": "/x"}}
CONTAINER: Json = {"container": {"image": "x"}}
NETLESS: Json = {"container": {"image": "x", "network": "none"}}


def at(*places: Json) -> Json:
    """A profile's runtime with these places."""
    return {"runtime": {name: value for place in places for name, value in place.items()}}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project; on PATH are programs of all names, which are never started."""
    for name in ("podman", "docker", "ssh"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def planned(project: Path, runtime: Json, cwd: Path | None = None, **more: Any) -> Resolved:
    file = project / "p.yaml"
    file.write_text(json.dumps({"version": 1, "agent": {"command": "their-agent"}, "runtime": runtime, **more}))
    return resolve(load(Found("p", file, project, "path")), cwd=cwd or project, environ=os.environ)


def contained(project: Path, more: Json | None = None, **keys: Any) -> Resolved:
    return planned(project, {"container": {"image": IMAGE, **(more or {})}}, **keys)


def remote(project: Path, **keys: Any) -> Resolved:
    return planned(project, {"ssh": {"host": "build1", "directory": "/srv/shop"}}, **keys)


def said(resolved: Resolved) -> list[str]:
    return [f"{problem.path}: {problem.message}; {problem.fix}" for problem in resolved.problems]


def plan_of(resolved: Resolved) -> LaunchPlan:
    assert resolved.plan is not None, said(resolved)
    return resolved.plan


def place_of(resolved: Resolved) -> Place:
    place = plan_of(resolved).place
    assert place is not None
    return place


def line(where: Place, cwd: Path, *labels: str) -> str:
    return shlex.join(lead(where, cwd, labels))


def test_a_container_has_the_directories_of_the_session_and_what_starts_the_agent(project: Path) -> None:
    where = place_of(contained(project))
    bridge = Path(sys.modules["acp_launch"].__file__ or "").parent / "bridge"
    said = line(where, project, "--label", "acp-launch.launch=1")
    assert said.startswith("run -i --rm --init --label acp-launch.launch=1 --pull=never ")
    assert f" --workdir {project} " in said and "--network" not in said and "-t" not in said.split()
    assert f"--mount type=bind,source={project},target={project} " in said
    assert f"--mount type=bind,source={bridge},target={bridge},readonly " in said
    assert said.count("--mount") == 2
    assert said.endswith(f"--entrypoint /bin/sh {IMAGE} {bridge}/start.sh half")
    assert plan_of(contained(project)).agent.command == Path("their-agent")


def test_the_agent_in_a_container_has_no_variable_of_this_machine(project: Path) -> None:
    plan = plan_of(contained(project, agent={"command": "their-agent", "env": {"A": "1"}}))
    assert set(plan.agent.env) == {"A"}
    named = plan_of(contained(project, agent={"command": "a", "inherit_env": ["PATH"]}))
    assert set(named.agent.env) == {"PATH"}


@pytest.mark.parametrize(
    ("engine", "user", "uid", "words"),
    [
        ("podman", "keep", 0, "--user 0:0"),
        ("podman", "keep", 1000, "--userns=keep-id"),
        ("docker", "keep", 1000, "--user 1000:1000"),
        ("docker", "image", 1000, ""),
    ],
)
def test_the_agent_is_who_we_are_unless_the_image_says(
    project: Path, monkeypatch: pytest.MonkeyPatch, engine: str, user: str, uid: int, words: str
) -> None:
    monkeypatch.setattr("os.getuid", lambda: uid)
    monkeypatch.setattr("os.getgid", lambda: uid)
    there = place_of(contained(project, {"engine": engine, "user": user})).elsewhere
    assert isinstance(there, InContainer) and (" ".join(there.user), there.engine) == (words, engine)


def test_the_first_engine_that_is_installed_is_taken(project: Path) -> None:
    assert place_of(contained(project)).program.name == "podman"
    (project.parent / "bin" / "podman").unlink()
    assert place_of(contained(project)).program.name == "docker"
    assert said(contained(project, {"engine": "podman"})) == [
        "runtime.container: the agent runs in a container, and there is no podman; install podman, or remove"
        " runtime.container"
    ]


def test_mounts_are_at_their_own_paths_whatever_their_names(project: Path, tmp_path: Path) -> None:
    odd, lines = tmp_path / 'a, "b"', tmp_path / "one\ntwo"
    odd.mkdir()
    lines.mkdir()
    mounts = {"mounts": [str(odd), "/usr/share:ro"]}
    where = place_of(contained(project, mounts, workspace={"additional_directories": [str(lines)]}))
    words = [*lead(where, project)]
    assert f'type=bind,"source={tmp_path}/a, ""b""","target={tmp_path}/a, ""b"""' in words
    assert f'type=bind,"source={lines}","target={lines}"' in words
    assert "type=bind,source=/usr/share,target=/usr/share,readonly" in words
    assert can_write(where, odd / "x") and not can_write(where, Path("/usr/share/x"))
    assert shows(where, project / "x") and not shows(where, Path("/etc/passwd"))


def test_a_socket_is_not_mounted(project: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(tmp_path / "run" / "docker.sock"))
        for path in (tmp_path / "run", tmp_path / "run" / "docker.sock"):
            assert any(
                "docker.sock is a socket of this machine" in each
                for each in said(contained(project, {"mounts": [str(path)]}))
            )


@pytest.mark.parametrize(
    ("variables", "shown"),
    [
        ({"DOCKER_HOST": "unix://{project}/a/b/own"}, "project"),
        ({"CONTAINER_HOST": "unix:{tmp}/more/a/b/own"}, "more"),
        ({"DOCKER_HOST": "unix://{tmp}/link/b/own"}, "project"),
        ({"HOME": "{tmp}/home"}, "home/.docker"),
    ],
)
def test_an_engine_s_socket_is_not_mounted_with_what_lies_above_it(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: Mapping[str, str], shown: str
) -> None:
    """At any depth below a mount, the project, or an additional directory, whatever link leads to it."""
    (tmp_path / "link").symlink_to(project / "a")
    for name in ("DOCKER_HOST", "CONTAINER_HOST"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(project=project, tmp=tmp_path))
    path = tmp_path / shown / ("desktop/docker.sock" if "HOME" in variables else "a/b/own")
    path.parent.mkdir(parents=True)
    keys: Json = {"workspace": {"additional_directories": [str(path.parents[2])]}} if shown == "more" else {}
    mounts = [] if shown in ("project", "more") else [f"{tmp_path / shown}:ro"]

    def refused() -> list[str]:
        return [each for each in said(contained(project, {"mounts": mounts}, **keys)) if "is a socket" in each]

    path.touch()
    assert refused() == []
    path.unlink()
    with socket.socket(socket.AF_UNIX) as engine:
        monkeypatch.chdir(path.parent)  # a socket's path may be 107 bytes long
        engine.bind(path.name)
        (problem,) = refused()
    assert f"{path} is a socket of this machine: through an engine's the agent could do anything here" in problem


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/nowhere", ".mounts[0]: /nowhere does not exist; create it, or remove it from runtime.container.mounts"),
        ("~", "would undo the agent's place: it is your home"),
        *((path, "would undo the agent's place") for path in ("/usr", "/var/lib", "/sys", "/run")),
    ],
)
def test_a_mount_that_is_missing_or_gives_the_home_or_the_system_is_a_problem(
    project: Path, path: str, why: str
) -> None:
    assert any(why in each for each in said(contained(project, {"mounts": [path]})))


def test_code_of_a_server_with_a_secret_cannot_be_written_from_the_container(project: Path) -> None:
    (project / "server.py").write_text("")
    server = {"command": "/usr/bin/python3", "args": ["server.py"], "cwd": "${project}", "env": {"T": "${secret:t}"}}
    found = "; ".join(said(contained(project, mcp_servers={"s": server})))
    assert "server.py, and this server runs it outside" in found and "server.py:ro to runtime.container.mounts" in found


@pytest.mark.parametrize("command", ["codex", "bin/codex", "/opt/codex", "./codex"])
def test_a_command_there_keeps_its_directory(project: Path, command: str) -> None:
    agent = {"command": command}
    inside, far = plan_of(contained(project, agent=agent)), plan_of(remote(project, agent=agent))
    for plan, base in ((inside, project), (far, Path("/srv/shop"))):
        assert plan.agent.command == (base / "codex" if command.startswith(".") else Path(command))


def test_ssh_leads_to_the_directory_there(project: Path) -> None:
    resolved = remote(project)
    plan, where = plan_of(resolved), place_of(resolved)
    assert (plan.cwd, plan.directory, plan.location) == (project, Path("/srv/shop"), "build1:/srv/shop")
    options = "ExitOnForwardFailure=yes", "ClearAllForwardings=no", "ServerAliveInterval=15", "ServerAliveCountMax=2"
    assert line(where, project).startswith(f"-T -o BatchMode=yes -o {' -o '.join(options)} -- ")
    *_, host, command = lead(where, project)
    assert host == "build1" and command.endswith(shlex.join(["python3", BOOT]))
    assert not shows(where, project) and not can_write(where, project)
    seated = add_seat(where, Path("/run/x-12345678"))
    assert "-R /tmp/s:/run/x-12345678/seat -- build1" in shlex.join(lead(seated, project, (), "/tmp/s"))


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_shell_there_passes_the_program_on_unchanged(shell: str) -> None:
    program = b"import os;os.write(1, os.read(0, 9))"
    given = b"%08d\n%bTHE REST!" % (len(program), program)
    *_, command = lead(
        Place(program=Path("ssh"), mounts=(), elsewhere=OverSsh("build1", Path("/"), sys.executable)), Path("/")
    )
    words = [shell, "-c", command]
    done = subprocess.run(words, input=given, stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"THE REST!"


def test_a_program_beside_the_agent_runs_where_the_agent_does(project: Path) -> None:
    argv, env = enclose(
        ("their-agent", "login"), {"A": "a b", "HOME": "/h"}, project, place_of(contained(project)), has_terminal=True
    )
    assert argv[1:4] == ("run", "-it", "--rm") and argv[-4:] == ("--entrypoint", "their-agent", IMAGE, "login")
    assert "A" in argv and "HOME=/h" in argv and env == {"A": "a b"}
    argv, env = enclose(("their-agent", "login"), {"A": "a b"}, project, place_of(remote(project)), has_terminal=True)
    assert argv[1:4] == ("-t", "--", "build1") and env == {}
    assert argv[4] == "cd /srv/shop && exec sh -lc 'exec env \"$@\"' sh 'A=a b' their-agent login"


@pytest.mark.parametrize(
    ("keys", "path", "what"),
    [
        ({"client": {"terminal": True}}, "client.terminal", "its commands would run here"),
        ({"client": {"fs": "read"}}, "client.fs", "its files would be read here"),
        ({"workspace": {"additional_directories": ["/x"]}}, "workspace.additional_directories", "no directory of this"),
        ({"agent": {"registry": "x"}}, "agent.registry", "the registry installs on this machine"),
        ({"mcp_servers": {"s": {"command": "x", "bridge": False}}}, "mcp_servers.s.bridge", "start this server there"),
        (at({"ssh": {"host": "-oProxyCommand=x", "directory": "/x"}}), "runtime.ssh.host", "is not a host"),
        (at({"ssh": {"host": "h", "directory": "x"}}), "runtime.ssh.directory", "is not an absolute path there"),
        (at(SSH, {"confined": True}), "runtime.ssh", "confined is one already"),
        (at(CONTAINER, {"confined": {}}), "runtime.container", "confined is one already"),
        (at(CONTAINER, SSH), "runtime.ssh", "container is one already"),
        ({**at(CONTAINER), "agent": {"registry": "x"}}, "agent.registry", "the registry installs on this machine"),
        (at({"container": {"image": "--privileged"}}), "runtime.container.image", "is not the name of an image"),
        (at({"container": {"image": "x", "mounts": ["/a:/b"]}}), "runtime.container.mounts[0]", "has a colon"),
        (at({"container": None}), "runtime.container", "has no value"),
        (at({"ssh": None}), "runtime.ssh", "has no value"),
        (
            {**at(CONTAINER), "agent": {"command": "a", "inherit_env": "all"}},
            "agent.inherit_env",
            "where your PATH and HOME are not",
        ),
    ],
)
def test_what_cannot_be_done_from_here_is_refused(project: Path, keys: Json, path: str, what: str) -> None:
    more = {"runtime": {"ssh": {"host": "build1", "directory": "/srv"}}, **keys}
    with pytest.raises(ProfileError) as refused:
        planned(project, more.pop("runtime"), **more)
    assert any(each.path == path and what in each.message for each in refused.value.problems), refused.value.problems


def test_the_plan_shows_where_the_agent_is(project: Path) -> None:
    text = as_text(plan_of(contained(project, {"network": "none"})))
    assert f"container  {IMAGE}, by " in text and "network    none" in text
    for plan in (plan_of(contained(project)), plan_of(remote(project))):
        command = plan_json(plan)["agent"]["place"]["command"]
        assert plan.place is not None and command.startswith(f"{plan.place.program} ")
        assert f"  starts as  {command}" in as_text(plan).splitlines()
    there = plan_json(plan_of(remote(project)))["agent"]["place"]["elsewhere"]
    assert there == {"type": "ssh", "host": "build1", "directory": "/srv/shop", "python": "python3"}


def layered(project: Path, below: Json, above: Json) -> list[str]:
    (project / "below.yaml").write_text(json.dumps({"version": 1, "agent": {"command": "a"}, "runtime": below}))
    (project / "p.yaml").write_text(json.dumps({"version": 1, "extends": "./below.yaml", "runtime": above}))
    found = load(Found("p", project / "p.yaml", project, "path"))
    return [problem.message for problem in found.problems]


@pytest.mark.parametrize(
    ("below", "above", "what"),
    [
        (CONTAINER, {"container": None}, ["not in the container that what this file extends asks for"]),
        (SSH, {"ssh": None}, ["not on the machine that what this file extends names"]),
        (SSH, {"ssh": {"host": "b"}}, ["the agent has another machine"]),
        (NETLESS, {"container": {"network": "default"}}, ["which what this file extends takes"]),
        (CONTAINER, {"container": {"network": "host"}}, ["the agent has this machine's network"]),
        ({"container": {"image": "x", "network": "host"}}, {"container": {"network": "none"}}, []),
        (CONTAINER, {"container": {"mounts": ["/usr"]}}, ["other mounts than what this file extends gives"]),
        (
            CONTAINER,
            {"container": {"image": "y", "user": "image"}},
            ["has another image", "has another user"],
        ),
    ],
)
def test_a_layer_that_gives_the_agent_more_is_told(project: Path, below: Json, above: Json, what: list[str]) -> None:
    found = layered(project, below, above)
    assert len(found) == len(what) and all(part in message for part, message in zip(what, found, strict=True)), found


def test_the_tree_of_an_item_in_the_state_directory_is_mounted(project: Path) -> None:
    tree = directory("STATE") / "batches" / "b-1" / "trees" / "one"
    tree.mkdir(parents=True)
    where = place_of(contained(project, cwd=tree))
    assert can_write(where, tree / "x") and not can_write(where, tree.parent / "x")


def test_a_place_without_mounts_shows_nothing_of_this_machine() -> None:
    where = Place(program=Path("/usr/bin/ssh"), mounts=(), elsewhere=OverSsh("h", Path("/srv"), "python3"))
    assert add_seat(where, Path("/run/s")).mounts == ()
    inside = Place(program=Path("/p"), mounts=(), elsewhere=InContainer("podman", "x", "default", "never", ()))
    assert add_seat(inside, Path("/run/s")).mounts == (Mount(Path("/run/s"), "read", "seat"),)


def test_rules_are_about_paths_of_the_other_machine(project: Path) -> None:
    rules = {"rules": [{"deny": {"path": ["src/", "${project}/x", "/etc/*"]}}]}
    (rule,) = plan_of(remote(project, permissions=rules)).rules
    assert rule.match.path == ("/srv/shop/src/**", "/srv/shop/x", "/etc/*")
    calls = [{"kind": "edit", "locations": [{"path": path}]} for path in ("/srv/shop/src/a", str(project / "src/a"))]
    allowed = policy(plan_of(remote(project, permissions=rules)), home=str(project))
    assert [judge(allowed, call).answer for call in calls] == ["deny", "ask"]


@pytest.mark.parametrize(
    ("python", "said"),
    [
        ("exec sleep 1000", "it says nothing"),
        ("trap '' TERM; while :; do sleep 1000; done", "it says nothing"),
        ("while :; do echo y; done", "y\ny"),
        ("exit 0", "it says nothing"),
        ("echo what?; exit 1", "what?"),
        ("echo 3.7.1", "3.7.1"),
    ],
)
def test_what_is_no_python_there_is_told_and_leaves_nothing(tmp_path: Path, python: str, said: str) -> None:
    """Neither a process nor a socket. `timeout` is a hasty one."""
    for name, text in (("py", python), ("timeout", 'shift 3; exec /usr/bin/timeout -s KILL 0.3 "$@"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    there = OverSsh("build1", Path("/"), str(tmp_path / "py"))
    where = Place(program=Path("ssh"), mounts=(), elsewhere=there, seat=tmp_path / "x-12345678")
    (tmp_path / "socket").touch()
    *_, command = lead(where, Path("/"), (), str(tmp_path / "socket"))
    env = {"PATH": f"{tmp_path}:{os.defpath}", "MARK": str(tmp_path)}
    done = subprocess.run(["sh", "-c", command], env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    *output, last = done.stderr.decode().splitlines()
    assert (done.returncode, done.stdout) == (126, b"") and said in "\n".join(output)
    assert last == f"acp-launch: {there.python} of runtime.ssh.python cannot be run as Python 3.8 or later"
    assert not (tmp_path / "socket").exists()
    assert not [each for each in Path("/proc").glob("[0-9]*/environ") if str(tmp_path) in read(each)]


def read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # it has ended
        return ""


def test_a_line_that_falls_silent_before_the_program_comes_is_not_awaited_for_ever() -> None:
    """The alarm is the kernel's: it needs no other process there."""
    hasty = BOOT.replace(f"alarm({BEAT_SECONDS * BEATS})", "setitimer(0, 0.3)")
    assert hasty != BOOT
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", hasty], stdin=subprocess.PIPE) as booting:
        assert booting.wait(PATIENCE) == -signal.SIGALRM
