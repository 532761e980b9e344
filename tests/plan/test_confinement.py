"""What a confined agent is shown of this machine, and what would undo that (Linux)."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from hashlib import sha512
from pathlib import Path
from typing import Any

import pytest

import acp_launch
from acp_launch.errors import StateError
from acp_launch.plan import confinement
from acp_launch.plan.confinement import prepare_place
from acp_launch.plan.model import Place, StdioPlan
from acp_launch.plan.resolve import Resolved, adhoc, resolve
from acp_launch.profile.discover import Found
from acp_launch.profile.load import load
from acp_launch.profile.model import Network
from tests.plan.places import list_paths

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")
Json = Mapping[str, Any]
SECRET: Json = {"TOKEN": "${secret:t}"}
OWN: Json = {"type": "http", "url": "https://x", "bridge": False}


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home, with a bubblewrap that is never started."""
    home = Path(os.environ["HOME"])
    program(home.parent / "bin" / "bwrap")
    monkeypatch.setenv("PATH", f"{home.parent / 'bin'}:/usr/bin:/bin")
    return home


@pytest.fixture
def project(tmp_path: Path, home: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def link(path: Path, target: Path) -> Path:
    path.symlink_to(target)
    return path


def program(file: Path, text: str = "#!/bin/sh\n") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)
    return file


def laid(project: Path, sections: Json, cwd: Path | None = None) -> Resolved:
    file = project / "p.yaml"
    whole = {"version": 1, "agent": {"command": "/bin/sh"}, "runtime": {"confined": {}}, **sections}
    file.write_text(json.dumps(whole))
    return resolve(load(Found("p", file, project, "path")), cwd=cwd or project, environ=os.environ)


def planned(
    project: Path, confined: Json | None = None, *, cwd: Path | None = None, agent: Json | None = None, **servers: Json
) -> Resolved:
    sections = {"runtime": {"confined": confined or {}}, "mcp_servers": servers}
    return laid(project, {**sections, **({"agent": agent} if agent else {})}, cwd)


def place_of(resolved: Resolved) -> Place:
    assert resolved.plan is not None and resolved.plan.place is not None, said(resolved)
    return resolved.plan.place


def said(resolved: Resolved) -> list[str]:
    return [f"{problem.path}: {problem.message}; {problem.fix}" for problem in resolved.problems]


def local(command: str, *args: str, **more: Any) -> Json:
    return {"command": command, "args": list(args), **more}


@pytest.mark.parametrize(
    ("key", "path", "why"),
    [
        ("read", "~", "it is your home"),
        ("write", "{home}/..", "it holds your home"),
        ("read", "/", "it holds your home"),
        ("read", "/run", "it is the sockets of this machine"),
        ("write", "/tmp", "it holds your home"),
        ("state", "~/state", "it is acp-launch's own files"),
        ("write", "~/config/profiles", "it lies in acp-launch's own files"),
        ("read", "/proc/1", "it lies in the processes"),
        ("write", "/etc", "it lies in /etc"),
        ("write", "{package}/bridge", "it lies in {package}"),
        ("write", "{package}/..", "it holds {package}"),
    ],
)
def test_a_mount_that_undoes_the_place_is_a_problem(project: Path, home: Path, key: str, path: str, why: str) -> None:
    names = {"home": str(home), "package": str(Path(acp_launch.__file__).parent)}
    (home / "config" / "profiles").mkdir(parents=True)
    (home / "state").mkdir()
    resolved = planned(project, {key: [path.format(**names)]})
    assert resolved.plan is None
    (problem,) = said(resolved)
    assert problem.startswith(f"runtime.confined.{key}[0]: ")
    assert f"would undo the agent's place: {why.format(**names)}" in problem


def test_a_session_in_the_home_is_a_problem(project: Path, home: Path) -> None:
    resolved = planned(project, cwd=home)
    assert resolved.plan is None
    assert said(resolved) == [
        f": {home} would undo the agent's place: it is your home; work in a directory below it, or another one"
    ]


def test_the_runtime_directory_is_not_shown(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run" / "acp-launch").mkdir(parents=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    for path, why in (("run", "it is the runtime directory"), ("run/acp-launch", "the sockets of acp-launch")):
        (problem,) = said(planned(project, {"read": [str(tmp_path / path)]}))
        assert why in problem


def test_what_does_not_exist_is_a_problem_and_state_is_made(project: Path, home: Path) -> None:
    assert said(planned(project, {"read": ["no"], "write": [str(home / "no")]})) == [
        f"runtime.confined.read[0]: {project}/no does not exist; create it, or remove it from runtime.confined.read",
        f"runtime.confined.write[0]: {home}/no does not exist; create it, or remove it from runtime.confined.write",
    ]
    where = place_of(planned(project, {"state": ["~/.a/b", "~/.c.json"]}))
    assert not (home / ".a").exists(), "a plan changes nothing"
    prepare_place(where)
    assert (home / ".a" / "b").stat().st_mode & 0o777 == 0o700
    assert (home / ".c.json").read_text() == "{}\n"
    prepare_place(where)
    (problem,) = said(planned(project, {"state": [str(project / "x")]}))
    assert "is state, but does not lie in your home; write it under runtime.confined.write" in problem


def test_only_what_a_program_needs_is_shown(project: Path, home: Path) -> None:
    """The installation of the agent and of its interpreter, at their own paths, and the links that lead there."""
    node = home / ".nvm" / "versions" / "node" / "v22"
    program(node / "bin" / "node")
    package = node / "lib" / "node_modules" / "agent"
    program(package / "cli.js", "#!/usr/bin/env node\n")
    (node / "bin" / "agent").symlink_to("../lib/node_modules/agent/cli.js")
    (home / ".local" / "bin").mkdir(parents=True)
    (home / ".local" / "bin" / "agent").symlink_to(node / "bin" / "agent")
    agent = {"command": str(home / ".local" / "bin" / "agent"), "env": {"PATH": f"{node / 'bin'}:/usr/bin"}}
    where = place_of(planned(project, agent=agent))
    assert list_paths(where, "agent") == (node,)
    assert where.links[home / ".local" / "bin" / "agent"] == package / "cli.js"
    assert list_paths(where, "session") == (project,)
    shown = [mount.path for mount in where.mounts if mount.access == "empty"]
    assert {Path("/run"), Path("/tmp"), home} <= set(shown)


def test_a_virtual_environment_is_shown_with_its_python(project: Path, home: Path) -> None:
    base, made = home / "python", home / ".local" / "share" / "uv" / "tools" / "agent"
    program(base / "bin" / "python3.12")
    (base / "lib").mkdir()
    (made / "lib").mkdir(parents=True)
    (made / "pyvenv.cfg").write_text("")
    program(made / "bin" / "agent", "#!/bin/sh\n")
    (made / "bin" / "python").symlink_to(base / "bin" / "python3.12")
    where = place_of(planned(project, agent={"command": str(made / "bin" / "agent")}))
    assert set(list_paths(where, "agent")) == {base, made}


def test_a_program_among_many_is_shown_alone(project: Path, home: Path) -> None:
    agent = program(home / ".local" / "bin" / "agent")
    (home / ".local" / "lib").mkdir()
    assert list_paths(place_of(planned(project, agent={"command": str(agent)})), "agent") == (agent,)


def test_a_package_of_npx_is_started_from_its_cache(project: Path, home: Path) -> None:
    """npx locks the directory, and asks the registry, each time; so it is not started inside."""
    program(home / ".local" / "bin" / "npx")
    agent = {"command": str(home / ".local" / "bin" / "npx"), "args": ["-y", "@x/agent@1.6.0", "--acp"]}
    (problem,) = said(planned(project, agent=agent))
    assert problem == (
        "agent.args: @x/agent@1.6.0 is not in the cache of npx, and a confined agent cannot fetch it; "
        "npx -y -p @x/agent@1.6.0 true"
    )
    modules = home / ".npm" / "_npx" / sha512(b"@x/agent@1.6.0").hexdigest()[:16] / "node_modules"
    program(modules / "@x" / "agent" / "cli.js", "#!/bin/sh\n")
    (modules / "@x" / "agent" / "package.json").write_text('{"version": "1.6.0", "bin": {"agent-acp": "cli.js"}}')
    (modules / ".bin").mkdir()
    (modules / ".bin" / "agent-acp").symlink_to("../@x/agent/cli.js")
    where = place_of(planned(project, agent=agent))
    assert where.direct is not None
    assert (where.direct.command, where.direct.skipped) == (modules / ".bin" / "agent-acp", 2)
    assert list_paths(where, "agent") == (modules,)


def test_a_package_of_uvx_is_started_from_its_cache(project: Path, home: Path) -> None:
    program(home / ".local" / "bin" / "uvx")
    agent = {"command": str(home / ".local" / "bin" / "uvx"), "args": ["--from", "My-Agent==1.2", "agent", "acp"]}
    (problem,) = said(planned(project, agent=agent))
    assert problem.endswith("uvx --from My-Agent==1.2 python -c ''")
    made = home / ".cache" / "uv" / "archive-v0" / "x"
    (made / "lib" / "python3.12" / "site-packages" / "my_agent-1.2.dist-info").mkdir(parents=True)
    program(made / "bin" / "agent")
    where = place_of(planned(project, agent=agent))
    assert where.direct is not None and where.direct.command == made / "bin" / "agent" and where.direct.skipped == 3


Serve = Callable[[Path], Json]


@pytest.mark.parametrize(
    ("server", "named"),
    [
        (lambda p: local("python3", f"{p}/srv.py", env=SECRET), "srv.py"),
        (lambda p: local("python3", f"{p}/srv.py"), "srv.py"),
        (lambda p: local("python3", f"{p}/not-yet.py"), "not-yet.py"),
        (lambda p: local(str(program(p / "srv"))), "srv"),
        (lambda p: local("python3", "-m", "x", cwd=str(p)), ""),
        (lambda p: local("sh", "-c", f"cd /; exec {p}/srv.py"), "srv.py"),
        (lambda p: local("/bin/cat", env={"PYTHONPATH": f"/usr:{p}/lib"}), "lib"),
        (lambda p: local("make", "-C", str(p)), ""),
        (lambda p: local("npm", "--prefix", str(p), "run", "x"), ""),
        (lambda p: local("python3", str(link(p / "way", p / "lib") / "srv.py")), "way"),
        (lambda p: local(str(link(p / "bin", Path("/bin")) / "cat")), "bin"),
    ],
    ids=[
        *("secret", "plain", "absent", "program", "module", "shell", "variable", "make", "npm"),
        *("link above a script", "link above a program"),
    ],
)
def test_code_that_the_agent_can_write_does_not_run_outside(project: Path, server: Serve, named: str) -> None:
    """With a secret it would leak in the first run; without one it would still run as the user."""
    (project / "srv.py").write_text("")
    (project / "lib").mkdir()
    (project / "lib" / "srv.py").write_text("")
    for name in ("make", "npm"):
        program(project.parent / "bin" / name)
    protected = {} if named == "lib" else {"read": ["lib"]}
    resolved = planned(project, protected, s=server(project))
    path = str(project / named) if named else str(project)
    assert resolved.plan is None
    (problem,) = said(resolved)
    assert f": the agent can write {path}, and this server runs it outside of the agent's place, as you" in problem
    assert problem.endswith(f"keep it outside of {project}")


OPAQUE = [
    lambda p: local("/bin/cat", str(p)),
    lambda p: local("/bin/cat", f"--rules={p}/srv.py"),
    lambda p: local("/bin/cat", f"-C{p}/lib"),
    lambda p: local("/bin/cat", f"@{p}/options"),
    lambda p: local("/bin/cat", f"/usr/share:{p}/lib"),
    lambda p: local("/bin/cat", f"file://{p}/srv.py"),
    lambda p: local("/bin/cat", f"file://localhost{p}/a%20b/srv.py"),
    lambda p: local("/bin/cat", f"type=bind,src={p},dst=/work"),
    lambda p: local("/bin/cat", json.dumps({"roots": [str(p)]})),
    lambda p: local("/bin/cat", f"+{p}/srv.py,ro"),
    lambda p: local("/bin/cat", f"x.jar!{p}/srv.py"),
    lambda p: local("/bin/cat", f"{p}/a b/srv.py"),
    lambda p: local("/bin/cat", f"--root={p}/a b/srv.py"),
    lambda p: local("/bin/cat", str(p.parent)),
    lambda p: local("/bin/cat", cwd=str(p)),
    lambda p: local("/bin/cat", f"{os.path.relpath(p, '/usr')}/srv.py", cwd="/usr"),
    lambda p: local("sh", "-c", "exec $HERE/run.sh", env={"HERE": str(p)}),
    lambda p: local("sh", "-c", "exec $${HERE:-/x}/run.sh", env={"HERE": f"{p}/lib/.."}),
    lambda p: local("/bin/cat", f"$HOME/{os.path.relpath(p, os.environ['HOME'])}/run.sh"),
    lambda p: local("/bin/cat", f"~/{os.path.relpath(p, os.environ['HOME'])}/run.sh"),
]


SECRETS: list[Json] = [
    {"env": SECRET},
    {"args": ["--token", "${secret:t}"]},
    {"env": {"AUTH": "${env:GITHUB_TOKEN}"}},
    {"inherit_env": ["GITHUB_TOKEN", "HOME"]},
    {"inherit_env": ["SSH_AUTH_SOCK", "HOME"]},
]


@pytest.mark.parametrize(
    ("server", "secret"), [*((each, SECRETS[0]) for each in OPAQUE), *((OPAQUE[0], each) for each in SECRETS[1:])]
)
def test_a_server_with_a_secret_is_given_nothing_that_the_agent_can_write(
    project: Path, server: Serve, secret: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not known what it does there, unless the profile says that it runs nothing of it."""
    monkeypatch.setenv("GITHUB_TOKEN", "not-a-real-one")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
    given = server(project)
    made = {**given, **secret, "env": {**given.get("env", {}), **secret.get("env", {})}}
    made["args"] = [*secret.get("args", []), *given["args"]]
    problem = next((each for each in said(planned(project, s=made)) if "the agent can write" in each), "")
    assert str(project) in problem, problem
    if given["command"] == "sh":
        return
    assert ", and this server, which has a secret, may run it outside, as you; write data: [" in problem
    (found,) = local_servers(planned(project, s={**made, "data": ["${project}/.."]}))
    assert found.data == (project.parent,)


def local_servers(resolved: Resolved) -> tuple[StdioPlan, ...]:
    place_of(resolved)
    assert resolved.plan is not None
    return tuple(each for each in resolved.plan.servers if isinstance(each, StdioPlan))


def test_data_excuses_no_program_and_no_script(project: Path) -> None:
    for server in (
        local("python3", f"{project}/srv.py"),
        local(str(program(project / "srv"))),
        local("python3", "-m", "x", cwd=str(project)),
        local("/bin/cat", env={"NODE_OPTIONS": f"--require {project}/x.js"}),
    ):
        (problem,) = said(planned(project, s={**server, "data": ["${project}"]}))
        assert "this server runs it outside of the agent's place" in problem


LAY: list[tuple[str, Callable[[str], dict[str, Any]]]] = [
    ("runtime.confined.write[0]", lambda path: {"runtime": {"confined": {"write": [path]}}}),
    ("runtime.confined.read[0]", lambda path: {"runtime": {"confined": {"read": [path]}}}),
    ("workspace.additional_directories[0]", lambda path: {"workspace": {"additional_directories": [path]}}),
    ("workspace.cwd", lambda path: {"workspace": {"cwd": path}}),
    ("mcp_servers.s.cwd", lambda path: {"mcp_servers": {"s": local("/bin/cat", cwd=path)}}),
    ("mcp_servers.s.args[0]", lambda path: {"mcp_servers": {"s": local("/bin/cat", path)}}),
    ("mcp_servers.s.env.ROOT", lambda path: {"mcp_servers": {"s": local("/bin/cat", env={"ROOT": path})}}),
]


@pytest.mark.parametrize("spelled", ["${project}/a/b", "${project}/x/../a/b", "${home}/BACK/a/b"])
@pytest.mark.parametrize("above", [True, False])
@pytest.mark.parametrize(("key", "sections"), LAY, ids=[key for key, _ in LAY])
def test_a_link_that_an_agent_has_laid_counts_in_no_later_launch(
    project: Path, home: Path, key: str, sections: Callable[[str], dict[str, Any]], above: bool, spelled: str
) -> None:
    """The accepted profile is the same, and mounted what the link leads to."""
    (home / ".ssh" / "b" / "c").mkdir(parents=True)
    (home / ".ssh" / "c").mkdir()
    (project / "a").mkdir()
    if above:
        (project / "a").rmdir()
        link(project / "a", home / ".ssh")
    else:
        link(project / "a" / "b", home / ".ssh")
    resolved = laid(project, sections(spelled.replace("BACK", os.path.relpath(project, home))))
    assert resolved.plan is None
    problem = said(resolved)[0]
    assert problem.split("[0]")[0].split(":")[0] == key.split("[0]")[0], problem
    target = home / ".ssh" / ("b" if above else "")
    assert f"{project}/a/b" in problem and f"leads out of {project}, to {target}" in problem
    assert f"name {target}" in problem


@pytest.mark.parametrize(("key", "sections"), LAY, ids=[key for key, _ in LAY])
def test_a_link_within_what_the_agent_writes_is_a_problem_too(
    project: Path, key: str, sections: Callable[[str], dict[str, Any]]
) -> None:
    """It would make writable what `read` protects, or show to a server what the agent chooses."""
    (project / "tools" / "sub").mkdir(parents=True)
    link(project / "a", project / "tools" / "sub")
    whole = {"runtime": {"confined": {"write": ["."]}}, **sections("${project}/a")}
    problem = said(laid(project, whole))[0]
    assert problem.startswith(key.split("[")[0]), problem
    assert f"{project}/a is a link to {project}/tools/sub, which a confined agent can change" in problem


def test_a_link_that_the_agent_of_another_launch_could_lay_is_a_problem(project: Path, home: Path) -> None:
    """Of state, and of paths that are not the project's: what confined agents could write is noted at each start."""
    for name in (".ssh", "shared", ".other"):
        (home / name).mkdir()
    prepare_place(place_of(planned(project, {"state": ["~/.other"], "write": [str(home / "shared")]})))
    for name in (".other/mine", "shared/mine"):
        link(home / name, home / ".ssh")
    link(home / "users", home / "shared")
    link(home / ".users", home / ".ssh")
    (home / "p2").mkdir()
    for confined in ({"state": ["~/.other/mine"]}, {"write": ["~/shared/mine"]}, {"read": ["${home}/users/mine"]}):
        (problem,) = said(planned(home / "p2", confined))
        assert f"mine is a link to {home}/.ssh, which a confined agent can change; it would be mounted" in problem
    for confined in ({"state": ["~/.users"]}, {"read": ["~/users"]}):
        place_of(planned(home / "p2", confined))  # of the user: no agent writes the home itself
    prepare_place(place_of(planned(project, {"state": ["~/.other"]})))
    ledger = home / "state" / "confined"
    assert ledger.read_bytes().count(b"\0") == 3, "each is noted once"
    ledger.unlink()
    ledger.mkdir()
    (problem,) = said(planned(home / "p2"))
    assert problem.startswith(f"runtime.confined: cannot read {ledger}, which tells what agents could write: ")


def test_what_was_judged_is_what_is_mounted(project: Path, home: Path) -> None:
    """Another agent may lay a link after the plan was made, also before a restart."""
    (project / "build").mkdir()
    where = place_of(planned(project, {"write": ["build"]}))
    assert {each.path: each.access for each in where.mounts}[project / "build"] == "write", "it cannot be replaced"
    (project / "build").rmdir()
    link(project / "build", home)
    with pytest.raises(StateError, match=f"{project}/build has become a link, to {home}"):
        prepare_place(where)


def test_directories_that_servers_are_given_cannot_be_replaced(project: Path) -> None:
    (project / "docs" / "en").mkdir(parents=True)
    (project / "sub").mkdir()
    (project / "data.db").write_text("")
    server = local("/bin/cat", f"{project}/docs/en", f"{project}/data.db", cwd=str(project / "sub"))
    where = place_of(planned(project, s=server))
    assert set(list_paths(where, "between")) == {project / name for name in ("docs", "docs/en", "sub")}


def test_what_a_program_of_the_agents_leads_to_is_shown_only_if_the_profile_says_so(project: Path, home: Path) -> None:
    """The agent could make it a link to a key, or name it in the first line of a script."""
    secret = program(home / "keys" / "key")
    for command in (link(project / "agent", secret), program(project / "script", f"#!{secret}\n")):
        agent = {"command": str(command)}
        (problem,) = said(planned(project, agent=agent))
        assert problem == (
            f"agent.command: the agent can change {command}, which leads to {secret}, and that is not shown; "
            f"add {home}/keys to runtime.confined.read"
        )
        place_of(planned(project, {"read": [str(home / "keys")]}, agent=agent))
    link(project / "words", home / ".netrc")
    (home / ".netrc").write_text("")
    (problem,) = said(planned(project, agent={"command": "/bin/cat", "args": [str(project / "words")]}))
    assert f"which leads to {home}/.netrc, and that is not shown" in problem


@pytest.mark.parametrize(
    "server",
    [
        lambda p: local("python3", "-I", "-m", "server", env=SECRET),
        lambda p: local("/bin/cat", str(p)),
        lambda p: local("/bin/cat", f"{p}/data.db"),
        lambda p: local("/bin/cat", cwd=str(p)),
        lambda p: local("python3", f"{p}/lib/srv.py", env=SECRET),
    ],
    ids=["elsewhere", "directory", "data", "cwd", "read"],
)
def test_what_it_cannot_write_and_data_may_be_given_to_servers(project: Path, server: Serve) -> None:
    (project / "lib").mkdir()
    (project / "lib" / "srv.py").write_text("")
    place_of(planned(project, {"read": ["lib"]}, s=server(project)))


def test_packages_above_a_script_are_its_code(project: Path) -> None:
    """Node looks for packages in each directory above."""
    (project / "tools").mkdir()
    (project / "tools" / "srv.js").write_text("")
    server = local("/bin/sh", str(project / "tools" / "srv.js"))
    (problem,) = said(planned(project, {"read": ["tools"]}, s=server))
    assert f"the agent can write {project}/node_modules" in problem
    (project / "node_modules").mkdir()
    place_of(planned(project, {"read": ["tools", "node_modules"]}, s=server))


def test_a_writable_cache_of_a_runner_is_code(project: Path, home: Path) -> None:
    npx = program(home / ".local" / "bin" / "npx")
    (problem,) = said(planned(project, {"state": ["~/.npm"]}, s=local(str(npx), "-y", "server")))
    assert f"the agent can write {home}/.npm" in problem


def test_a_server_runs_in_an_empty_directory_and_finds_no_program_of_the_agent(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{project}/.venv/bin:{os.environ['PATH']}")
    resolved = planned(project, s=local("/bin/cat"))
    assert resolved.plan is not None
    (server,) = resolved.plan.servers
    assert isinstance(server, StdioPlan) and server.cwd is None
    assert server.env["PATH"].reveal({}) == f"{home.parent / 'bin'}:/usr/bin:/bin"


@pytest.mark.parametrize(
    ("network", "server", "message"),
    [
        ("shared", local("/bin/cat", bridge=False, env=SECRET), "the agent would get the secrets of this server"),
        ("shared", {**OWN, "headers": {"A": "${secret:t}"}}, "the agent would get the secrets of this server"),
        ("none", OWN, "the agent connects to this server itself, but has no network"),
    ],
    ids=["local", "remote", "network"],
)
def test_a_server_of_the_agents_own_has_no_secret(project: Path, network: Network, server: Json, message: str) -> None:
    (problem,) = said(planned(project, {"network": network}, s=server))
    assert problem == f"mcp_servers.s.bridge: {message}; remove bridge: false"


def test_without_a_network_servers_are_not_reached_over_http(project: Path) -> None:
    agent = {"command": "/bin/sh", "mcp": "http"}
    (problem,) = said(planned(project, {"network": "none"}, agent=agent, s=local("/bin/cat")))
    assert problem == (
        "runtime.confined.network: the agent reaches its servers over HTTP, but has no network; "
        "write network: shared, or agent: {mcp: stdio}"
    )
    place_of(planned(project, {"network": "none"}, s={"type": "http", "url": "https://x"}))


def test_without_a_profile_the_agent_inherits_little(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_OWN", "x")
    for is_confined in (True, False):
        resolved = adhoc("/bin/sh", cwd=project, environ=os.environ, is_confined=is_confined)
        assert resolved.plan is not None
        assert ("MY_OWN" in resolved.plan.agent.env, resolved.plan.place is None) == (not is_confined, not is_confined)


def test_elsewhere_it_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confinement, "PLATFORM", "darwin")
    (problem,) = said(planned(project))
    assert problem.startswith("runtime.confined: a confined agent needs Linux and bubblewrap; run it on Linux")


CERTIFICATES = [
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NIX_SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE"),
    *("GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "NODE_EXTRA_CA_CERTS", "PIP_CERT", "DENO_CERT", "npm_config_cafile"),
    *("CARGO_HTTP_CAINFO", "HTTPLIB2_CA_CERTS", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "VAULT_CACERT", "PGSSLROOTCERT"),
    *("CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", "CODEX_CA_CERTIFICATE", "YARN_HTTPS_CA_FILE_PATH", "HEX_CACERTS_PATH"),
]
OTHERS = ["DOCKER_CERT_PATH", "MY_CERT", "CLIENT_CERT_FILE", "MOCHAPATH", "CA", "JAVA_PATH", "LOCAL_FILE"]


def test_a_session_bus_that_belongs_to_the_network_is_told(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older `dbus-daemon` has an abstract socket by default; the keyring answers there."""
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:abstract=/tmp/dbus-x,guid=1")
    resolved = planned(project)
    assert resolved.plan is not None and said(resolved) == [
        "runtime.confined: the agent reaches your session bus, and so your keyring: its socket is an abstract one; "
        "write network: none, or start the bus at a path (unix:path=)"
    ]
    assert said(planned(project, confined={"network": "none"})) == []
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/user/1/bus")
    assert said(planned(project)) == []


def test_certificates_that_variables_name_are_shown(project: Path, home: Path) -> None:
    """Of a company, in the home: without them the agent trusts no server. Not a client's own, which has a key."""
    company = home / "certificates" / "company.pem"
    company.parent.mkdir()
    company.write_text("")
    for name in (*CERTIFICATES, *OTHERS):
        resolved = planned(project, agent={"command": "/bin/sh", "env": {name: str(company)}})
        assert (company in {each.path for each in place_of(resolved).mounts}) == (name in CERTIFICATES), name


def test_certificates_are_shown_only_to_read_and_without_what_is_private(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        (home / name).mkdir()
    link(home / "way", home / "one")
    monkeypatch.setenv("SSL_CERT_DIR", f"{home}/way:/etc/ssl:{home}/two:{home}/none:relative:")
    where = place_of(planned(project))
    shown = {each.path: each.access for each in where.mounts}
    assert (shown[home / "one"], shown[home / "two"], where.links[home / "way"]) == ("read", "read", home / "one")
    assert home / "none" not in shown and Path("/etc/ssl") not in shown, "that is there already"
    monkeypatch.setenv("SSL_CERT_DIR", str(home))
    resolved = planned(project)
    assert resolved.plan is not None and said(resolved) == [
        f"runtime.confined: {home}, which SSL_CERT_DIR names, is not shown: it is your home; name another"
    ]
    link(project / "ca.pem", home / ".netrc")
    (home / ".netrc").write_text("")
    monkeypatch.setenv("SSL_CERT_DIR", str(project / "ca.pem"))
    (problem,) = said(planned(project))
    assert f"{project}/ca.pem leads out of {project}, to {home}/.netrc; it would be mounted" in problem


def test_the_resolver_is_shown_wherever_links_lead(
    project: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WSL has it below /mnt, others by a link of a link."""
    var, mnt = home / "var", home / "mnt"
    for each in (var / "run", mnt):
        each.mkdir(parents=True)
    (mnt / "resolv.conf").write_text("")
    link(home / "short", var / "run")
    link(var / "run" / "resolv.conf", mnt / "resolv.conf")
    monkeypatch.setattr(confinement, "RESOLVER", link(home / "etc", home / "short" / "resolv.conf"))
    where = place_of(planned(project))
    assert mnt / "resolv.conf" in {each.path for each in where.mounts}
    assert {home / "etc", home / "short", var / "run" / "resolv.conf"} <= set(where.links)


@pytest.mark.parametrize("manager", ["pyenv", "rbenv", "asdf", "mise", "volta"])
def test_a_shim_of_a_version_manager_needs_the_manager(project: Path, home: Path, manager: str) -> None:
    top = home / (".local/share/mise" if manager == "mise" else f".{manager}")
    if manager == "volta":
        program(top / "bin" / "volta-shim")
        shim = link(top / "bin" / "agent", top / "bin" / "volta-shim")
    elif manager == "mise":
        (top / "shims").mkdir(parents=True)
        shim = link(top / "shims" / "agent", program(home / ".local" / "bin" / "mise"))
    else:
        shim = program(top / "shims" / "agent", f"#!/usr/bin/env bash\nexec {top}/libexec/{manager} exec agent\n")
    (problem,) = said(planned(project, agent={"command": str(shim)}))
    assert problem == (
        f"agent.command: {shim} is a shim, which finds the program itself in {top}, and that is not shown; "
        f"name the program that `{manager} which agent` prints, or add {top} to runtime.confined.read"
    )
    place_of(planned(project, {"read": [str(top)]}, agent={"command": str(shim)}))


def test_a_script_whose_interpreter_is_a_shim_needs_its_manager_too(project: Path, home: Path) -> None:
    program(home / ".asdf" / "shims" / "node")
    agent = program(home / "lib" / "agent", "#!/usr/bin/env node\n")
    env = {"PATH": f"{home}/.asdf/shims:/usr/bin:/bin"}
    (problem,) = said(planned(project, agent={"command": str(agent), "env": env}))
    assert f"name the program that `asdf which node` prints, or add {home}/.asdf to runtime.confined.read" in problem


def test_git_has_the_users_name_behind_what_the_profile_gives_it(project: Path, home: Path) -> None:
    (home / ".gitconfig").write_text("[user]\nname = Me\nemail = me@x\n")
    (project / ".git").mkdir()
    env = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "a.b", "GIT_CONFIG_VALUE_0": "c"}
    resolved = planned(project, agent={"command": "/bin/sh", "env": env})
    assert resolved.plan is not None
    given = {name: value.display() for name, value in resolved.plan.agent.env.items() if name.startswith("GIT_CONFIG")}
    assert given == {
        "GIT_CONFIG_COUNT": "3",
        **{"GIT_CONFIG_KEY_0": "a.b", "GIT_CONFIG_VALUE_0": "c"},
        **{"GIT_CONFIG_KEY_1": "user.name", "GIT_CONFIG_VALUE_1": "Me"},
        **{"GIT_CONFIG_KEY_2": "user.email", "GIT_CONFIG_VALUE_2": "me@x"},
    }


def test_a_repository_that_is_shown_anyway_stays_as_it_is(project: Path, home: Path) -> None:
    """The agent works in a checkout, and in a linked worktree of it."""
    common, tree = home / "main" / ".git", home / "tree"
    for each in (common / "objects", common / "refs", common / "worktrees" / "tree", tree):
        each.mkdir(parents=True)
    for file, text in (
        (common / "HEAD", ""),
        (common / "worktrees" / "tree" / "commondir", "../.."),
        (common / "worktrees" / "tree" / "gitdir", f"{tree}/.git"),
        (tree / ".git", f"gitdir: {common}/worktrees/tree"),
    ):
        file.write_text(text)
    assert list_paths(place_of(planned(project, {"write": [str(tree)]})), "git")
    assert not list_paths(place_of(planned(project, {"write": [str(tree), str(home / "main")]})), "git")


def test_what_the_place_protects_is_the_same_in_the_next_launch(project: Path, home: Path) -> None:
    """Links within it are the user's: the agent writes around it, and that is noted."""
    (project / "lib").mkdir()
    agent = link(project / "lib" / "agent", program(home / "tools" / "agent"))
    script = link(project / "lib" / "srv.py", project / "lib" / "real.py")
    script.touch()
    server = local("python3", str(script), env=SECRET)
    for _ in range(2):
        where = place_of(planned(project, {"read": ["lib"]}, agent={"command": str(agent)}, s=server))
        prepare_place(where)
    assert home / "tools" in list_paths(where, "agent")
