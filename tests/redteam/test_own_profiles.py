"""
Ring 3. Profiles of the user's own, used in somebody's clone: what a profile names is what runs, and never what lies in
the clone where that program looks first.

Each snare is also shown to close: a profile of the clone's own, once it is accepted, does run what lies there.
"""

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE
from tests.redteam.clone import GOOD, Clone, profile

NAME = "acp-launch-canary"  # of a package that is not published
MODULE = "acp_launch_canary"
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # with those of this environment
PIPX_PACKAGES = Path("__pypackages__") / f"{sys.version_info.major}.{sys.version_info.minor}" / "lib" / "bin"


@pytest.fixture(autouse=True)
def programs_of_this_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Older Pythons than the one we run on know no PYTHONSAFEPATH."""
    monkeypatch.setenv("PATH", PATH)


def python_module(clone: Clone) -> None:
    for name in (MODULE, "json"):
        (clone.root / f"{name}.py").write_text(f"import os\nos.system({str(clone.root / 'tool')!r})\n")


def bin_of_package(clone: Clone) -> None:
    script(clone, "b/evil.js")
    package(clone, name="harmless", bin={NAME: "b/evil.js"})


def name_of_package(clone: Clone) -> None:
    script(clone, "evil.js")
    package(clone, name=NAME, bin="evil.js")


def script_of_package(clone: Clone) -> None:
    package(clone, name="harmless", scripts={"mcp": "./tool"})


def node_module(clone: Clone) -> None:
    script(clone, f"node_modules/{NAME}/index.js")


def shell_for_scripts(clone: Clone) -> None:
    (clone.root / ".npmrc").write_text("script-shell=./tool\n")


def options_for_node(clone: Clone) -> None:
    script(clone, "evil.js")
    (clone.root / ".npmrc").write_text("node-options=--require ./evil.js\n")


def virtual_environment(clone: Clone) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(clone.root / ".venv")], check=True)
    shutil.copy(clone.root / "tool", clone.root / ".venv" / "bin" / NAME)
    (clone.root / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1"\nrequires-python = ">=3.8"\n')


def local_packages(clone: Clone) -> None:
    (clone.root / PIPX_PACKAGES).mkdir(parents=True)
    shutil.copy(clone.root / "tool", clone.root / PIPX_PACKAGES / NAME)


def script(clone: Clone, name: str) -> None:
    file = clone.root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        f"#!/usr/bin/env node\nrequire('child_process').execFileSync({json.dumps(str(clone.root / 'tool'))})\n"
    )
    file.chmod(0o755)


def package(clone: Clone, **members: Any) -> None:
    (clone.root / "package.json").write_text(json.dumps({"version": "1.0.0", **members}))


Snare = tuple[Callable[[Clone], None], list[str]]
PYTHON: dict[str, Snare] = {
    "python -m": (python_module, ["python3", "-m", MODULE]),
    "python -c": (python_module, ["python3", "-c", "import json"]),
    "python -um": (python_module, ["python3", "-W", "ignore", "-um", MODULE]),
    "env python -m": (python_module, ["env", "LANG=C", "python3", "-m", MODULE]),
    "sh -c python -m": (python_module, ["sh", "-c", f"exec python3 -m {MODULE}"]),
}
TAKEN_OVER: dict[str, Snare] = {
    "npx: bin": (bin_of_package, ["npx", "-y", NAME]),
    "npx: script-shell": (shell_for_scripts, ["npx", "-c", "true"]),
}
SNARES: dict[str, Snare] = {
    **PYTHON,
    **TAKEN_OVER,
    "npm exec": (name_of_package, ["npm", "exec", "-y", "--", NAME]),
    "sh -c npx": (bin_of_package, ["sh", "-c", f"npx -y {NAME}"]),
    "npx: node-options": (options_for_node, ["npx", "-c", "node -e 0"]),
    "node -e": (node_module, ["node", "-e", f"require('{NAME}')"]),
    "npm run": (script_of_package, ["npm", "run", "mcp"]),
    "uv run": (virtual_environment, ["uv", "run", "--no-sync", NAME]),
    "pipx run": (local_packages, ["pipx", "run", "--pypackages", NAME]),  # so that it fetches none in its place
}


def snares(chosen: Mapping[str, Snare]) -> pytest.MarkDecorator:
    """Those whose program is there."""
    cases = []
    for name, snare in chosen.items():
        words = " ".join(snare[1]).split()
        program = next(word for word in words if word in ("python3", "node", "npx", "npm", "uv", "pipx"))
        is_there = shutil.which(program, path=PATH) is not None
        mark = pytest.mark.skipif(not is_there, reason=f"there is no {program}")
        cases.append(pytest.param(snare, id=name, marks=mark))
    return pytest.mark.parametrize("snare", cases)


def offline(tmp_path: Path) -> dict[str, Any]:
    """Whatever a program would fetch because it finds nothing here."""
    cache = str(tmp_path / "cache")
    return {"npm_config_offline": "true", "npm_config_cache": cache, "UV_OFFLINE": "1", "UV_CACHE_DIR": cache}


def server(command: Sequence[str], **more: Any) -> dict[str, Any]:
    return {"command": command[0], "args": command[1:], "restart": {"policy": "never"}, **more}


def own(clone: Clone, agent: Mapping[str, Any] = GOOD, **sections: Any) -> None:
    """A profile of the user's own, `mine`."""
    clone.own.mkdir(parents=True, exist_ok=True)
    (clone.own / "mine.yaml").write_text(profile(agent, **sections))


@pytest.mark.promise("trust")
@pytest.mark.sample(1, 5)
@snares(SNARES)
def test_a_server_runs_nothing_that_lies_in_the_clone(clone: Clone, snare: Snare, tmp_path: Path) -> None:
    plant, words = snare
    plant(clone)
    own(clone, mcp_servers={"s": server(words, required=False)})
    env = offline(tmp_path)
    ended = clone.acp_launch("run", "mine", "hello", **env)
    assert (ended.returncode, clone.sang) == (0, False), ended.stderr
    clone.write(profile(GOOD, mcp_servers={"s": server(words, required=False)}))
    clone.accepts()
    clone.starts(**env)


@pytest.mark.sample(0, 2)
@snares(PYTHON)
def test_an_agent_in_python_imports_nothing_that_lies_in_the_clone(clone: Clone, snare: Snare) -> None:
    """It works in the project all the same, which its own code may import from on purpose."""
    plant, words = snare
    plant(clone)
    agent = {"command": words[0], "args": words[1:]}
    own(clone, agent)
    ended = clone.acp_launch("run", "mine", "hello")
    assert (ended.returncode, clone.sang) == (4, False), ended.stderr
    clone.write(profile(agent))
    clone.accepts()
    clone.starts()


@snares(TAKEN_OVER)
def test_an_agent_that_the_clone_would_take_over_is_not_started(clone: Clone, snare: Snare, tmp_path: Path) -> None:
    """It has to work in the project, and npm has no switch for this; so has a server that is to run there."""
    plant, words = snare
    plant(clone)
    env = offline(tmp_path)
    program = {"command": words[0], "args": words[1:]}
    own(clone, program)
    clone.refuses("run", "mine", "hello", why=" from this project", code=3, **env)
    own(clone, mcp_servers={"s": {**program, "cwd": "."}})
    clone.refuses("run", "mine", "hello", why=" from this project", code=3, **env)
    clone.write(profile(program))
    clone.accepts()
    clone.starts(**env)


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("python -m", {"cwd": "${project}"}),
        ("python -c", {"cwd": "."}),
        ("sh -c python -m", {"bridge": False}),
    ],
)
def test_a_server_in_python_that_runs_in_the_clone_imports_nothing_of_it(
    clone: Clone, name: str, way: dict[str, Any]
) -> None:
    """Without a bridge it is the agent that starts it: what it is told to start is judged by starting that."""
    plant, words = PYTHON[name]
    plant(clone)
    own(clone, mcp_servers={"s": {"command": words[0], "args": words[1:], **way}})
    ended = clone.acp_launch("mcp", "tools", "mine", "s")
    assert (ended.returncode, clone.sang) == (8, False), ended.stderr
    more = {"env": {"PYTHONSAFEPATH": ""}}
    own(clone, mcp_servers={"s": {"command": words[0], "args": words[1:], **way, **more}})
    clone.acp_launch("mcp", "tools", "mine", "s")
    assert clone.sang, "a profile that wants it has it"


def lurker(tmp_path: Path) -> dict[str, Any]:
    """A program that runs a `tool` wherever it is started, or above."""
    file = tmp_path / "lurker"
    file.write_text(
        '#!/bin/sh\nhere=$PWD; while [ -n "$here" ]; do [ -x "$here/tool" ] && "$here/tool"; here=${here%/*}; done\n'
    )
    file.chmod(0o755)
    return {"command": str(file), "restart": {"policy": "never"}}


@pytest.mark.parametrize("verb", ["run mine hello", "doctor mine", "mcp call mine s x"])
def test_no_verb_starts_a_server_of_ones_own_in_the_clone(clone: Clone, verb: str, tmp_path: Path) -> None:
    deep = clone.root / "a" / "b"
    deep.mkdir(parents=True)
    own(clone, mcp_servers={"s": lurker(tmp_path)})
    clone.acp_launch(*verb.split(), cwd=deep)
    assert not clone.sang
    own(clone, mcp_servers={"s": {**lurker(tmp_path), "cwd": "${cwd}"}})
    clone.acp_launch(*verb.split(), cwd=deep)
    assert clone.sang, "that is where it would have been"


def test_a_server_that_is_a_program_of_the_project_runs_in_it(clone: Clone) -> None:
    for command in ("./tool", "${project}/tool", "${cwd}/tool"):
        own(clone, mcp_servers={"s": {"command": command, "restart": {"policy": "never"}}})
        planned = json.loads(clone.decides("plan", "mine", "--json").stdout)["mcp_servers"][0]
        assert (planned["cwd"], planned["cwd_from"]) == (str(clone.root), "session")


def test_an_agent_that_imports_nothing_from_its_directory_is_left_alone(clone: Clone, tmp_path: Path) -> None:
    """What keeps Python from importing there is inherited by all that an agent starts, the project's tests for one."""
    script = tmp_path / "agent.py"
    script.write_text("import helper\n")
    (tmp_path / "helper.py").write_text(f"open({str(clone.trace)!r}, 'w').close()\n")
    own(clone, {"command": "python3", "args": [str(script), "-m", "x"]})
    clone.acp_launch("run", "mine", "hello")
    assert clone.sang, "the modules beside a script of one's own"
    for words in (["sh", "-c", "true"], ["python3", "-I", str(script)], ["cat"], ["env", "python3", str(script), "-c"]):
        own(clone, {"command": words[0], "args": words[1:]})
        env = json.loads(clone.decides("plan", "mine", "--json").stdout)["agent"]["env"]
        assert "PYTHONSAFEPATH" not in env, words


SITTER = """
import os, stat, sys
here = os.getcwd()
seen = [here, oct(stat.S_IMODE(os.stat(here).st_mode)), os.listdir(here)]
line = open(sys.argv[1], "w")
line.write(repr(seen) + "\\n")
line.flush()
open("left", "w").close()
sys.stdin.read()
"""


@pytest.fixture
def sitter(clone: Clone, tmp_path: Path) -> Path:
    """The fifo on which a server of the user's own says where it is, for as long as it lives."""
    fifo, program = tmp_path / "fifo", tmp_path / "sitter.py"
    os.mkfifo(fifo)
    program.write_text(SITTER)
    own(clone, mcp_servers={"s": server([sys.executable, str(program), str(fifo)], required=False)})
    return fifo


def test_its_directory_is_private_and_empty_and_goes_with_the_launch(clone: Clone, sitter: Path) -> None:
    process = subprocess.Popen(
        clone.argv("run", "mine", "hello"), cwd=clone.root, env=clone.environment(), stderr=subprocess.PIPE, text=True
    )
    with sitter.open() as line:
        here, mode, held = ast.literal_eval(line.readline())
        _, said = process.communicate(timeout=PATIENCE)
        assert line.read() == "", "it ended"
    assert process.returncode == 0
    state = Path(os.environ["ACP_LAUNCH_STATE_DIR"])
    assert (Path(here).is_relative_to(state / "workdirs"), mode, held) == (True, "0o700", [])
    assert list((state / "workdirs").iterdir()) == []
    assert "mcp server s wrote into its own directory, which is removed now: left; to keep" in said


def test_the_directories_of_a_launch_that_was_killed_are_removed_by_the_next(clone: Clone, sitter: Path) -> None:
    process = subprocess.Popen(
        clone.argv("run", "mine", "count 10000"),
        cwd=clone.root,
        env=clone.environment(),
        stdout=subprocess.PIPE,  # it goes on until it is killed
        stderr=subprocess.DEVNULL,
    )
    (clone.own / "good.yaml").write_text(profile(GOOD, mcp_servers={"s": server(["cat"], required=False)}))
    with sitter.open() as line:
        here, _, _ = ast.literal_eval(line.readline())
        assert clone.acp_launch("reap").returncode == 0
        assert Path(here).is_dir(), "it is in use"
        process.kill()
        process.wait(PATIENCE)
        assert process.stdout is not None
        process.stdout.close()
        assert line.read() == "", "the guard has ended it"
    assert Path(here).is_dir()
    assert clone.acp_launch("run", "good", "hello").returncode == 0
    assert list((Path(os.environ["ACP_LAUNCH_STATE_DIR"]) / "workdirs").iterdir()) == []
