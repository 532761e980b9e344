"""The verbs and a run with a real keyring: a D-Bus session and a GNOME Keyring of their own."""

import json

import pytest

from tests.cli.launcher import Launcher
from tests.oauth.authority import authority
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


@pytest.mark.promise("secret")
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


def test_a_locked_keyring_is_found_out_before_a_login_asks_anything(home: Launcher, desktop: Desktop) -> None:
    kept(home, "github")
    with authority() as server:
        entry = {"type": "http", "url": server.url, "oauth": True}
        home.profile("polite", mcp_servers={"docs": entry})
        lock(desktop)
        done = home("mcp", "login", "p", "--no-browser")
        assert (done.code, server.log) == (3, [])
    assert "cannot store a login: the desktop keyring is locked" in done.err


def test_a_locked_keyring_says_so_and_nothing_starts(home: Launcher, desktop: Desktop) -> None:
    kept(home, "github")
    lock(desktop)
    home.profile("polite", agent={"env": {"KEY": "${secret:github}"}})
    done = home("run", "p", "hello")
    assert (done.code, done.heard) == (3, [])
    assert 'agent.env.KEY: cannot read secret "github": the desktop keyring is locked' in done.err
    assert [each["name"] for each in json.loads(home("secret", "list", "--json").out)["secrets"]] == ["github"]
