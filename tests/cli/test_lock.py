"""The lock file: what `lock` writes, what `--locked` refuses, and that a changed one is trusted anew."""

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.hosted import up
from tests.cli.launcher import AGENTS, Launcher
from tests.registry.published import PROGRAM, Web, binary, entry, serving

SERVER = {"command": "npx", "args": ["-y", "@s/server@1.2.3"]}
TOOL = {"command": "uvx", "args": ["tool==2.0.0"], "required": False, "start": "lazy"}
HASH = "sha256:" + "ab" * 32

AGENT = f"sha256:{hashlib.sha256(PROGRAM.encode()).hexdigest()}"
# npm and uv that tell hashes.
TELLING = f"""#!/bin/sh
case "$1" in
    view) echo "sha512-told-of-$2" | tr -d '@/.-' | sed 's/^sha512/sha512-/' ;;
    pip) for last; do true; done; cat "$last" >&2
         printf '%s' 'tool==2.0.0 --hash={HASH} --hash={HASH}' ;;
esac
"""


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as web:
        yield web


@pytest.fixture
def project(launch: Launcher, web: Web, tmp_path: Path) -> Launcher:
    """A project with an agent of the registry, a server of npm and one of PyPI."""
    managers = tmp_path / "managers"
    managers.mkdir()
    for name in ("npm", "uv", "npx", "uvx"):
        (managers / name).write_text(TELLING if name in ("npm", "uv") else "#!/bin/sh\nexit 1\n")
        (managers / name).chmod(0o755)
    launch.env["PATH"] = f"{managers}{os.pathsep}{os.environ['PATH']}"
    launch.env["ACP_LAUNCH_REGISTRY"] = web.address
    publish(web, "1.0.0")
    assert launch("agents", "install", "agent").code == 0
    profile(launch)
    return launch


def publish(web: Web, version: str) -> None:
    content = PROGRAM.encode()
    web.index(entry("agent", version, binary=binary(web.put("/agent", content), content)))


def profile(launch: Launcher, **servers: Any) -> None:
    launch.write({"agent": {"registry": "agent"}, "mcp_servers": {"files": SERVER, "tool": TOOL, **servers}})


def file(launch: Launcher) -> Path:
    return launch.project / ".acp-launch" / "lock.yaml"


def refused(launch: Launcher) -> str:
    """What `--locked` says against the profile, everywhere the same."""
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
    validated, run, served = (
        launch(*words, "--locked", stdin=json.dumps(hello).encode() + b"\n")
        for words in (("validate", "p"), ("run", "p", "hello"), ("serve", "p"))
    )
    assert [validated.code, run.code, served.code] == [2, 2, 2], (validated, run, served)
    first, second = ([line for line in done.err.splitlines() if not line[:1].isdigit()] for done in (validated, run))
    assert first == second
    assert json.loads(served.out)["error"]["message"] in first[0]
    return "\n".join(first)


def test_lock_writes_packages_with_their_hashes(project: Launcher) -> None:
    """Of each profile: they share the file."""
    done = project("lock", "p", "--json")
    assert done.code == 0, done.err
    text = file(project).read_text()
    assert text.startswith("# Written by acp-launch lock PROFILE; ")
    locked = {
        "agent": {"package": "binary:agent@1.0.0", "integrity": [AGENT]},
        "mcp_servers.files": {"package": "npm:@s/server@1.2.3", "integrity": ["sha512-toldofsserver123"]},
        "mcp_servers.tool": {"package": "pypi:tool==2.0.0", "integrity": [HASH]},
    }
    assert json.loads(text.partition("\n")[2]) == {"version": 1, "profiles": {"p": locked}}
    told = json.loads(done.out)
    assert told["file"] == str(file(project))
    assert {each["path"]: each["package"] for each in told["packages"]} == {
        key: each["package"] for key, each in locked.items()
    }
    project.write({"agent": {"registry": "agent@1.0.0"}}, name="other")
    assert project("lock", "other").code == 0
    both = json.loads(file(project).read_text().partition("\n")[2])["profiles"]
    assert both == {"other": {"agent": locked["agent"]}, "p": locked}
    assert project("validate", "--locked").code == 0
    assert [each["name"] for each in json.loads(project("list", "--json").out)["profiles"]].count("lock") == 0
    assert project("validate", "lock").code == 2, "it is not a profile"


def test_locked_refuses_what_differs(project: Launcher, web: Web) -> None:
    assert "the project's lock file says nothing of p" in refused(project)
    assert project("lock", "p").code == 0
    profile(project, files={**SERVER, "args": ["-y", "@s/server@1.2.4"]})
    assert "npm:@s/server@1.2.4 would run, but npm:@s/server@1.2.3 is locked" in refused(project)
    profile(project, files={**SERVER, "args": ["-y", "@s/server"]})
    said = refused(project)
    assert "@s/server names no exact version" in said
    assert "fix: write @s/server@1.2.3" in said
    profile(project, more={**SERVER, "args": ["@s/more@1.0.0"]})
    assert "npm:@s/more@1.0.0 is not in the lock file" in refused(project)
    project.write({"agent": {"registry": "agent"}, "mcp_servers": {"files": SERVER}})
    assert "pypi:tool==2.0.0 is locked, but is not started" in refused(project)
    profile(project)
    publish(web, "1.1.0")
    assert project("agents", "install", "agent").code == 0
    assert "binary:agent@1.1.0 would run, but binary:agent@1.0.0 is locked" in refused(project)
    assert project("agents", "rm", "agent@1.1.0").code == 0
    assert project("validate", "p", "--locked").code == 0
    text = file(project).read_text()
    file(project).write_text(text.replace(AGENT, "sha256:other"))
    assert f"is installed with another hash than the locked one: {AGENT}" in refused(project)


@pytest.mark.promise("install")
def test_a_locked_run_starts_what_is_locked(launch: Launcher) -> None:
    launch.profile("polite")
    assert launch("run", "p", "hello", "--locked").code == 0, "it starts no package"
    for others in (("p", "hello", "--detach"), ("hello", "--agent", "x")):
        wrong = launch("run", *others, "--locked")
        assert (wrong.code, "cannot be combined with" in wrong.err) == (2, True)


def test_a_locked_run_uses_no_host_that_started_another_version(project: Launcher, web: Web) -> None:
    content = f"#!/bin/sh\nexec {sys.executable} -I -S {AGENTS}/polite.py\n".encode()

    def install(version: str) -> None:
        web.index(entry("agent", version, binary=binary(web.put("/agent", content), content)))
        assert project("agents", "install", "agent").code == 0

    project.write({"agent": {"registry": "agent"}})
    install("1.1.0")
    with up(project) as host:
        install("1.2.0")
        assert project("lock", "p").code == 0
        done = project("run", "p", "hello", "--locked")
        assert (done.code, done.methods.count("session/prompt")) == (0, 1), done.err
        assert "session/prompt" not in host.methods


def test_a_changed_lock_is_trusted_anew(project: Launcher) -> None:
    assert project("trust", "p", "--yes").code == 0
    assert "is trusted already" in project("trust", "p").err
    assert project("lock", "p").code == 0
    asked = project("trust", "p", "--yes").err
    assert "mcp_servers.files to npm:@s/server@1.2.3" in asked
    assert '+ lock.agent.package: "binary:agent@1.0.0"' in asked
    assert "is trusted already" in project("trust", "p").err
    file(project).write_text(file(project).read_text().replace(HASH, "sha256:" + "cd" * 32))
    assert "changed since you accepted it" in project("trust", "p", "--yes").err
    file(project).unlink()
    assert "is trusted already" not in project("trust", "p").err


def test_what_cannot_be_locked_says_why(project: Launcher) -> None:
    profile(project, files={**SERVER, "args": ["@s/server@latest"]})
    done = project("lock", "p")
    assert (done.code, "names no exact version" in done.err, file(project).exists()) == (2, True, False)
    assert project("lock", "demo").code == 2
    file(project).write_text("# Written\n{]")
    broken = project("validate", "p")
    assert (broken.code, "lock.yaml: the lock file cannot be read" in broken.err) == (2, True)


@pytest.mark.parametrize("before", ["", '# mine\n{"version": 1, "profiles": {}}\n'], ids=["dangling", "existing"])
def test_a_lock_file_that_leads_out_of_the_project_is_not_written(launch: Launcher, before: str) -> None:
    launch.write({"agent": {"command": "true"}})
    outside = launch.project.parent / "outside"
    if before:
        outside.write_text(before)
    file(launch).symlink_to(outside)
    done = launch("lock", "p")
    said = "acp-launch: .acp-launch/lock.yaml is a link that leads out of the project\n"
    assert (done.code, done.err) == (2, f"{said}    fix: name the file it leads to\n")
    assert (outside.read_text() if outside.exists() else "") == before
