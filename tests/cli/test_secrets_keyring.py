"""The verbs and a run with a real keyring: a D-Bus session and a GNOME Keyring of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.launcher import ROOT, Launcher
from tests.patience import PATIENCE
from tests.secret.bus import Desktop
from tests.secret.test_service import lock

TOKEN = "t0ken-" + "a1B2c3" * 4


@pytest.fixture
def home(launch: Launcher, desktop: Desktop) -> Launcher:
    """Somebody at a desktop, who has set nothing up."""
    del launch.env["PYTHON_KEYRING_BACKEND"]
    launch.env |= desktop.environ
    return launch


def kept(launch: Launcher, name: str, value: str = TOKEN) -> None:
    done = launch("secret", "set", name, stdin=value.encode())
    assert (done.code, done.err) == (0, f"{name}: stored in the keyring (Secret Service)\n")


def test_set_once_then_found_by_a_run(home: Launcher) -> None:
    kept(home, "github", "an-old-value")
    kept(home, "github")
    home.profile("polite", agent={"env": {"KEY": "${secret:github}"}}, mcp_servers={})
    done = home("run", "p", "hello", "--output", "quiet")
    assert (done.code, done.out) == (0, b"You said: hello\n"), done.err
    check = json.loads(home("secret", "check", "p", "--json").out)
    assert [(each["name"], each["state"], each["source"]) for each in check["secrets"]] == [
        ("github", "found", "keyring (Secret Service)")
    ]


def test_a_colleague_without_them_is_told_the_commands(home: Launcher) -> None:
    home.profile("polite", agent={"env": {"KEY": "${secret:github}", "DOCS": "${secret:docs}"}})
    done = home("run", "p", "hello")
    assert done.code == 3
    lines = [line.partition(": ")[2] for line in done.err.splitlines()]
    assert lines == [
        'agent.env.KEY: secret "github" is not set in the keyring (Secret Service)',
        "acp-launch secret set github",
        'agent.env.DOCS: secret "docs" is not set in the keyring (Secret Service)',
        "acp-launch secret set docs",
        "",
    ]


def test_the_list_knows_what_others_have_put_there_and_forgets_what_is_gone(home: Launcher) -> None:
    kept(home, "github")
    other = subprocess.run(
        [sys.executable, "-c", "import keyring; keyring.set_password('acp-launch', 'team/other', 'x')"],
        env={**home.env, "PYTHON_KEYRING_BACKEND": "keyring.backends.SecretService.Keyring"},
        timeout=PATIENCE,
        check=True,
    )
    assert other.returncode == 0
    names = [each["name"] for each in json.loads(home("secret", "list", "--json").out)["secrets"]]
    assert names == ["github", "team/other"]
    assert home("secret", "rm", "github", "team/other").code == 0
    assert json.loads(home("secret", "list", "--json").out)["secrets"] == []


def test_a_locked_keyring_says_so_and_nothing_starts(home: Launcher, desktop: Desktop) -> None:
    kept(home, "github")
    lock(desktop)
    home.profile("polite", agent={"env": {"KEY": "${secret:github}"}})
    done = home("run", "p", "hello")
    assert (done.code, done.heard) == (3, [])
    assert 'agent.env.KEY: cannot read secret "github": the desktop keyring is locked' in done.err
    assert [each["name"] for each in json.loads(home("secret", "list", "--json").out)["secrets"]] == ["github"]


def test_without_a_bus_a_run_says_what_to_do(launch: Launcher) -> None:
    del launch.env["PYTHON_KEYRING_BACKEND"]
    launch.profile("polite", agent={"env": {"KEY": "${secret:github}"}})
    done = launch("run", "p", "hello")
    assert (done.code, done.heard) == (3, [])
    assert 'agent.env.KEY: cannot read secret "github": ' in done.err
    assert "    fix: " in done.err
    assert "Traceback" not in done.err
    assert launch("run", "p", "hello", ACP_LAUNCH_SECRET_GITHUB=TOKEN).code == 0


HANGING = """
from keyring.backend import KeyringBackend
import threading

class Keyring(KeyringBackend):
    priority = 1
    def get_password(self, service, username):
        threading.Event().wait()
    set_password = delete_password = get_password
"""


def test_a_keyring_that_waits_for_an_answer_for_ever_is_given_up(launch: Launcher, tmp_path: Path) -> None:
    """A dialog nobody can see must not hang us: the run ends by itself, and says why."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "hanging.py").write_text(HANGING)
    path = os.pathsep.join([str(tmp_path / "modules"), str(ROOT)])
    launch.profile("polite", agent={"env": {"KEY": "${secret:github}"}})
    launch.env |= {"PYTHON_KEYRING_BACKEND": "hanging.Keyring", "PYTHONPATH": path, "ACP_LAUNCH_SECRETS__TIMEOUT": "1s"}
    done = launch("run", "p", "hello")
    assert (done.code, done.heard) == (3, [])
    assert "did not answer within 1 s; it may be showing a dialog" in done.err
    assert "fix: answer it and try again, or wait longer: export ACP_LAUNCH_SECRETS__TIMEOUT=2s\n" in done.err
    assert launch("secret", "set", "github", stdin=b"a-value").code == 3
