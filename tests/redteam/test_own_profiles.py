"""
Ring 3. Profiles of the user's own, used in somebody's clone: the program that a profile names is what runs, and never what
the clone has laid where that program looks first.

Each snare is also shown to close: a profile of the clone's own, once it is accepted, does run what lies there.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.redteam.clone import GOOD, Clone, profile

NAME = "acp-launch-canary"  # of a package that is not published
MODULE = "acp_launch_canary"
PIPX_PACKAGES = Path("__pypackages__") / "{0.major}.{0.minor}".format(sys.version_info) / "lib" / "bin"


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
NPX: dict[str, Snare] = {
    "npx: bin": (bin_of_package, ["npx", "-y", NAME]),
    "npx: name": (name_of_package, ["npx", "-y", NAME]),
    "npm exec": (name_of_package, ["npm", "exec", "-y", "--", NAME]),
    "sh -c npx": (bin_of_package, ["sh", "-c", f"npx -y {NAME}"]),
    "npx: script-shell": (shell_for_scripts, ["npx", "-c", "true"]),
    "npx: node-options": (options_for_node, ["npx", "-c", "node -e 0"]),
}
FURTHER: dict[str, Snare] = {
    "node -e": (node_module, ["node", "-e", f"require('{NAME}')"]),
    "npm run": (script_of_package, ["npm", "run", "mcp"]),
    "uv run": (virtual_environment, ["uv", "run", "--no-sync", NAME]),
    "pipx run": (local_packages, ["pipx", "run", "--pypackages", NAME]),  # so that it fetches none in its place
}
SNARES = {**PYTHON, **NPX, **FURTHER}


def snares(chosen: Mapping[str, Snare]) -> pytest.MarkDecorator:
    """Those whose program is there."""
    needed = {
        name: next(word for word in words if word in ("python3", "node", "npx", "npm", "uv", "pipx") or " " in word)
        for name, (_, words) in chosen.items()
    }
    cases = []
    for name, snare in chosen.items():
        program = needed[name].replace("exec ", "").split()[0]
        there = shutil.which(program) is not None
        cases.append(pytest.param(snare, id=name, marks=pytest.mark.skipif(not there, reason=f"there is no {program}")))
    return pytest.mark.parametrize("snare", cases)


def offline(tmp_path: Path) -> dict[str, str]:
    """Whatever a program would fetch because it finds nothing here."""
    cache = str(tmp_path / "cache")
    return {"npm_config_offline": "true", "npm_config_cache": cache, "UV_OFFLINE": "1", "UV_CACHE_DIR": cache}


def server(command: Sequence[str], **more: Any) -> dict[str, Any]:
    return {"command": command[0], "args": command[1:], "restart": {"policy": "never"}, **more}


def own(clone: Clone, agent: Mapping[str, Any] = GOOD, **sections: Any) -> None:
    """A profile of the user's own, `mine`."""
    clone.own.mkdir(parents=True, exist_ok=True)
    (clone.own / "mine.yaml").write_text(profile(agent, **sections))


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
