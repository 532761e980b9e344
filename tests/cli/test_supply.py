"""Ring 3. What a run lacks is asked for at the terminal: secrets and programs; without one it is a problem, as ever."""

import json
import os
import shlex
import sys
from pathlib import Path

import pytest

from acp_launch.app.secretvalue import ask_value
from acp_launch.plan.model import Need, Origin
from acp_launch.problem import marked
from tests.cli.launcher import AGENTS, Launcher
from tests.cli.terminal import on_terminal, yes_or_no
from tests.cli.test_secrets import (
    NO_KEYRING,
    PASSPHRASE,
    config_file,
    listed,
    sealed_with,
    value_of,
)
from tests.interactive.screen import on_screen

ONE, TWO = "first-value-of-a-secret", "second-value-of-a-secret"
PACKAGE = "@agentclientprotocol/claude-agent-acp"
OFFER = yes_or_no("Run this now?")


@pytest.fixture
def needy(launch: Launcher) -> Launcher:
    """A sealed file, and a profile with two secrets in it."""
    launch.configure("secrets: {store: file, file: {key_file: key}}\n")
    launch.profile("polite", agent={"env": {"A": "${secret:github}", "B": "${secret:team/docs}"}})
    return launch


def test_secrets_that_are_not_set_are_asked_for_and_the_run_goes_on(needy: Launcher) -> None:
    with on_terminal("run", "p", "hello there", cwd=needy.project, env=needy.env) as terminal:
        terminal.until('value of the secret "github"')
        terminal.types(f"{ONE}\n")
        terminal.until("github: stored in the sealed file")
        terminal.until('value of the secret "team/docs"')
        terminal.types(f"{TWO}\n")
        assert terminal.ends() == 0
    assert (
        "acp-launch: 2 secrets are not set; what you type is hidden, and stored in the sealed file (" in terminal.text
    )
    assert ".acp-launch/p.yaml:" in terminal.text and ": agent.env.A" in terminal.text
    assert "hello there" in terminal.text
    assert ONE not in terminal.text and TWO not in terminal.text
    assert (value_of(needy, "github"), value_of(needy, "team/docs")) == (ONE, TWO)


@pytest.mark.parametrize(("typed", "code"), [("half\x03", 130), ("\n", 3)])
def test_ctrl_c_and_an_empty_answer_end_the_questions_and_store_nothing_of_what_was_half_typed(
    needy: Launcher, typed: str, code: int
) -> None:
    with on_terminal("run", "p", "hello there", cwd=needy.project, env=needy.env) as terminal:
        terminal.until('value of the secret "github"')
        terminal.types(f"{ONE}\n")
        terminal.until('value of the secret "team/docs"')
        terminal.types(typed)
        assert terminal.ends() == code
    assert "Traceback" not in terminal.text
    assert ("fix: acp-launch secret set team/docs" in terminal.text) == (code == 3)
    assert set(listed(needy)) == {"github"}


@pytest.mark.parametrize(
    ("settings", "env", "told"),
    [
        (
            {"store": "command", "command": ["/usr/bin/printf", "%.0s", "{name}"]},
            {"A": "${secret:github}"},
            'secret "github" is not set in the command (printf)',
        ),
        (
            {"store": "file", "file": {"key_file": "key"}},
            {"A": "${secret:github}", "B": "${env:NOT_SET_ANYWHERE}"},
            "NOT_SET_ANYWHERE is not set",
        ),
    ],
    ids=["a store that only reads", "something else is missing"],
)
def test_nothing_is_asked_if_the_run_could_not_start_anyway(
    launch: Launcher, settings: dict[str, object], env: dict[str, str], told: str
) -> None:
    launch.configure(json.dumps({"secrets": settings}))
    launch.profile("polite", agent={"env": env})
    with on_terminal("run", "p", "hello there", cwd=launch.project, env=launch.env) as terminal:
        assert terminal.ends() == 3
    assert told in terminal.text
    assert "what you type is hidden" not in terminal.text


def test_without_a_keyring_a_sealed_file_is_offered_and_the_run_goes_on(launch: Launcher) -> None:
    """But not in a pipe."""
    del launch.env["PYTHON_KEYRING_BACKEND"]
    launch.profile("polite", agent={"env": {"A": "${secret:github}"}})
    piped = launch("run", "p", "hello there")
    file = "keep secrets in a sealed file instead: acp-launch config set secrets.store file"
    assert (piped.code, f"fix: export ACP_LAUNCH_SECRET_GITHUB=..., or {file}" in piped.err) == (3, True)
    with on_terminal("run", "p", "hello there", cwd=launch.project, env=launch.env) as terminal:
        terminal.until(NO_KEYRING)
        terminal.types("y")
        sealed_with(terminal, PASSPHRASE)
        terminal.until('value of the secret "github" (agent.env.A): ')
        terminal.types(f"{ONE}\n")
        assert terminal.ends() == 0
    config = config_file(launch)
    assert f"acp-launch: secrets.store: file is now in {config}\n" in terminal.text
    assert "hello there" in terminal.text and ONE not in terminal.text
    assert config.stat().st_mode & 0o077 == 0
    launch.env["ACP_LAUNCH_PASSPHRASE"] = PASSPHRASE
    assert value_of(launch, "github") == ONE


@pytest.mark.parametrize(
    ("path", "columns", "prompt"),
    [
        ("agent.args[0]", 80, 'value of the secret "k" (agent.args[0]): '),
        ("mcp_servers.everything.env.API_TOKEN", 40, 'value of the secret "k" (mcp_serve…: '),
        ("mcp_servers.everything.env.API_TOKEN", 20, "value of the s…: "),
    ],
)
def test_the_prompt_says_which_value_in_one_row(
    path: str, columns: int, prompt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def ask(prompt: str, **_: str) -> str:
        asked.append(prompt)
        return ""

    monkeypatch.setattr("acp_launch.app.secretvalue.screen", lambda: (columns, 24))
    monkeypatch.setattr("acp_launch.secret.hidden_input.ask_hidden", ask)
    assert ask_value("k", [Need("k", Origin("p.yaml", 1, 1, path)), Need("other", Origin("p.yaml", 2, 1, "x"))]) is None
    assert asked == [prompt]
    assert len(marked(prompt)) < columns


@pytest.fixture
def bare(launch: Launcher, tmp_path: Path) -> Launcher:
    """A machine with a fake npm, which installs claude-agent-acp, and nothing else."""
    folder = tmp_path / "bin"
    folder.mkdir()
    agent = shlex.join([sys.executable, "-I", "-S", str(AGENTS / "polite.py")])
    program(
        folder / "npm",
        f'echo "npm $*" "in $PWD"\nprintf "#!/bin/sh\\nexec {agent}\\n" > {folder}/claude-agent-acp\n'
        f"/bin/chmod +x {folder}/claude-agent-acp\n",
    )
    launch.env["PATH"] = str(folder)
    launch.write({"agent": {"command": "claude-agent-acp"}})
    return launch


def program(file: Path, body: str) -> None:
    file.write_text(f"#!/bin/sh\n{body}")
    file.chmod(0o755)


@pytest.mark.promise("install")
def test_an_agent_that_is_missing_is_installed_on_a_yes_and_the_run_goes_on(bare: Launcher) -> None:
    with on_terminal("run", "p", "hello there", cwd=bare.project, env=bare.env) as terminal:
        terminal.until(OFFER)
        terminal.types("y")
        assert terminal.ends() == 0
    assert (
        f"acp-launch: claude-agent-acp is not installed; to install it:\n    npm install -g {PACKAGE}\n"
        in terminal.text
    )
    assert f"npm install -g {PACKAGE} in {bare.env['HOME']}" in terminal.text
    assert terminal.text.rstrip().endswith("hello there")


def test_without_a_yes_nothing_is_installed_and_the_problem_is_told(bare: Launcher) -> None:
    piped = bare("run", "p", "hello there")
    assert (piped.code, OFFER in piped.err) == (3, False)
    assert f"fix: npm install -g {PACKAGE} (needs Node.js >=22), or give an absolute path" in piped.err
    with on_terminal("run", "p", "hello there", cwd=bare.project, env=bare.env) as terminal:
        terminal.until(OFFER)
        terminal.types("n")
        assert terminal.ends() == 3
    assert '"claude-agent-acp" is not on PATH' in terminal.text
    assert not (Path(bare.env["PATH"]) / "claude-agent-acp").exists()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("echo EACCES >&2\nexit 243\n", f"npm install -g {PACKAGE} exited with status 243"),
        ("exit 0\n", '"claude-agent-acp" is not on PATH'),
    ],
)
def test_an_installer_that_does_not_bring_the_program_leaves_the_problem(bare: Launcher, body: str, said: str) -> None:
    program(Path(bare.env["PATH"]) / "npm", body)
    with on_terminal("run", "p", "hello there", cwd=bare.project, env=bare.env) as terminal:
        terminal.until(OFFER)
        terminal.types("y")
        assert terminal.ends() == 3
    assert terminal.text.count(OFFER) == 1
    assert said in terminal.text


def node(bare: Launcher, version: str, prefix: Path, engines: str = ">=22") -> None:
    """Add a fake node, and a npm that knows its prefix and what the package wants, and installs with `--prefix`."""
    folder = Path(bare.env["PATH"])
    program(folder / "node", f"echo {version}\n")
    agent = shlex.join([sys.executable, "-I", "-S", str(AGENTS / "polite.py")])
    program(
        folder / "npm",
        f'case "$1" in view) echo "{engines}"; exit ;; prefix) echo {prefix}; exit ;; esac\n'
        f'bin={folder}; [ "$3" = --prefix ] && bin=$4/bin && /bin/mkdir -p $bin\n'
        f'printf "#!/bin/sh\\nexec {agent}\\n" > $bin/claude-agent-acp; /bin/chmod +x $bin/claude-agent-acp\n',
    )


@pytest.mark.parametrize("engines", [">=22", ""], ids=["registry", "no registry"])
def test_an_agent_that_wants_a_newer_node_is_not_installed(bare: Launcher, tmp_path: Path, engines: str) -> None:
    node(bare, "v20.20.2", tmp_path, engines)
    with on_terminal("run", "p", "hello there", cwd=bare.project, env=bare.env) as terminal:
        assert terminal.ends() == 3
    assert f"node: {PACKAGE} needs Node.js >=22, and node here is v20.20.2" in terminal.text
    assert OFFER not in terminal.text
    assert not (Path(bare.env["PATH"]) / "claude-agent-acp").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_user_who_may_not_write_npms_directory_installs_at_home(bare: Launcher, tmp_path: Path) -> None:
    (locked := tmp_path / "usr").mkdir(mode=0o555)
    node(bare, "v22.1.0", locked)
    own = Path(bare.env["HOME"]) / ".local"
    with on_terminal("run", "p", "hello there", cwd=bare.project, env=bare.env) as terminal:
        terminal.until(OFFER)
        terminal.types("y")
        assert terminal.ends() == 0
    assert f"    npm install -g --prefix {own} {PACKAGE}\n" in terminal.text
    assert f'{own}/bin is not on your PATH; for later runs: export PATH="$PATH:{own}/bin"' in terminal.text
    assert terminal.text.rstrip().endswith("hello there")


def test_ctrl_c_ends_the_installer_and_the_run(bare: Launcher) -> None:
    program(Path(bare.env["PATH"]) / "npm", "echo downloading\nread -r line\n")
    with on_terminal("run", "p", "hello there", cwd=bare.project, env=bare.env) as terminal:
        terminal.until(OFFER)
        terminal.types("y")
        terminal.until("downloading")
        terminal.types("\x03")
        assert terminal.ends() == 130
    assert "Traceback" not in terminal.text


@pytest.mark.parametrize(
    "profile",
    [
        {"agent": {"command": "./bin/claude-agent-acp"}},
        {"agent": {"command": "claude-agent-acp"}, "mcp_servers": {"x": {"command": "ghost-server"}}},
        {"agent": {"command": "goose", "args": ["acp"]}},
        {"agent": {"command": "kimi", "args": ["acp"]}},
    ],
    ids=["path", "unknown server", "an address", "no uv here"],
)
def test_nothing_is_offered_that_would_not_lead_to_a_run(bare: Launcher, profile: dict[str, object]) -> None:
    bare.write(profile)
    with on_terminal("run", "p", "hello there", cwd=bare.project, env=bare.env) as terminal:
        assert terminal.ends() == 3
    assert OFFER not in terminal.text


def test_trust_is_asked_before_anything_is_installed(bare: Launcher) -> None:
    argv = [sys.executable, "-m", "acp_launch", "run", "p", "hello there"]
    with on_screen(*argv, cwd=bare.project, columns=120, env=bare.env) as terminal:
        terminal.until(yes_or_no("Trust this profile and continue?"))
        assert OFFER not in "\n".join(terminal.rows)
        terminal.types("y")
        terminal.until(OFFER)
        terminal.types("y")
        assert terminal.ends() == 0
