"""`doctor --gui`: the same checks in the environment of an editor, and fixes that help there."""

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.launcher import Launcher
from tests.cli.terminal import on_terminal
from tests.cli.test_doctor import TOKEN, Json, agent, checks, own, server, told

KEPT = ("ACP_TEST_MARK", "ACP_TEST_TRANSCRIPT", "PYTHON_KEYRING_BACKEND")


@pytest.fixture
def session(launch: Launcher, tmp_path: Path) -> Launcher:
    """A session's manager that tells PATH, and what the tests themselves need; `bin` is on the shell's PATH only."""
    folder = tmp_path / "bin"
    folder.mkdir()
    text = "".join(f'echo "{name}=${name}"\n' for name in KEPT)
    script(folder / "systemctl", f"echo PATH=/usr/bin:/bin\n{text}")
    launch.env["PATH"] = f"{folder}{os.pathsep}{launch.env['PATH']}"
    return launch


def script(file: Path, text: str, interpreter: str = "/bin/sh") -> Path:
    file.write_text(f"#!{interpreter}\n{text}")
    file.chmod(0o755)
    return file


def found(launch: Launcher, code: int, **env: Any) -> dict[str, Json]:
    done = launch("doctor", "p", "--gui", "--json", **env)
    assert done.code == code, (done.out, done.err)
    return checks(done)


def test_a_command_of_the_shells_path_is_named_by_its_absolute_path(session: Launcher, tmp_path: Path) -> None:
    command = shlex.join([sys.executable, "-I", "-S", str(agent("polite")["args"][-1])])
    there = script(tmp_path / "bin" / "my-agent", f"exec {command}\n")
    own(session, {"command": "my-agent"})
    assert session("doctor", "p").code == 0
    check = found(session, 3)["agent"]
    assert check["text"].endswith('agent.command: "my-agent" is not on PATH (looked in 2 folders)')
    assert check["fix"] == f"write command: {there}"
    own(session, {"command": str(there)})
    listed = found(session, 0)
    assert told(listed["desktop"]) == ("ok", "systemd, with PATH /usr/bin:/bin", "")
    assert (listed["agent"]["standing"], listed["session"]["standing"]) == ("ok", "ok")


def test_a_script_whose_interpreter_is_not_there_either_gets_its_path(session: Launcher, tmp_path: Path) -> None:
    command = shlex.join([sys.executable, "-I", "-S", *server("polite")["args"][2:]])
    script(tmp_path / "bin" / "my-node", f"exec {command}\n")
    script(tmp_path / "bin" / "my-server", "", "/usr/bin/env my-node")
    entry = {**server("polite"), "command": "my-server", "args": []}
    own(session, agent("polite"), mcp_servers={"s": entry})
    check = found(session, 3)["server s"]
    assert check["fix"] == f'add env: {{PATH: "{tmp_path}/bin:${{env:PATH}}"}} to it'
    entry["env"]["PATH"] = f"{tmp_path}/bin:${{env:PATH}}"
    own(session, agent("polite"), mcp_servers={"s": entry})
    assert found(session, 0)["server s"]["standing"] == "ok"


def test_a_variable_that_a_shell_exports_is_missing_there(session: Launcher) -> None:
    own(session, agent("polite", env={"A": "${env:MY_FOO}", "B": "${env:MY_BAR:-other}"}))
    env: Json = {"MY_FOO": "1", "MY_BAR": "2"}
    assert session("doctor", "p", **env).code == 0
    listed = found(session, 3, **env)
    assert listed["agent"]["text"].endswith("agent.env.A: the environment variable MY_FOO is not set")
    assert listed["agent"]["fix"].startswith("write its value or a secret instead, or set MY_FOO for the desktop")
    assert listed["desktop MY_BAR"]["facts"] == {"default": "other"}


def test_a_secret_of_the_shell_or_behind_a_passphrase_is_not_to_be_had_in_an_editor(session: Launcher) -> None:
    """On a terminal, too, nothing is asked: an editor's agent could not be answered."""
    own(session, agent("polite", env={"KEY": "${secret:github}"}))
    settings = Path(session.env["ACP_LAUNCH_CONFIG_DIR"], "config.yaml")
    settings.write_text("secrets: {store: file}\n")
    env: Json = {"ACP_LAUNCH_PASSPHRASE": "correct horse battery"}
    assert session("secret", "set", "github", stdin=TOKEN.encode(), **env).code == 0
    assert session("doctor", "p", **env).code == 0
    listed = found(session, 3, **env)
    fix = "let a key file open it: acp-launch help secrets"
    assert (listed["secrets"]["standing"], listed["secrets"]["fix"]) == ("warning", fix)
    assert (listed["secret github"]["standing"], listed["secret github"]["fix"]) == ("problem", fix)
    assert "ACP_LAUNCH_PASSPHRASE" in listed["desktop"]["facts"]["lost"]
    with on_terminal("doctor", "p", "--gui", cwd=session.project, env=session.env) as terminal:
        assert terminal.ends() == 3
    assert "passphrase for" not in terminal.text.lower()


def test_its_output_is_that_of_this_terminal(session: Launcher) -> None:
    done = session("doctor", "--gui")
    assert done.out.startswith(b"ok       desktop")
    assert json.loads(session("doctor", "--gui", "--json").out)["profile"] is None
