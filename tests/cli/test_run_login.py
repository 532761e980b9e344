"""
`run` on a terminal offers the login that it lacks, and goes on; `:login` in an interactive session: the browser's way,
beside a screen that is left for it.
"""

from urllib.request import urlopen

import pytest

from tests.cli.launcher import DEMO, Launcher
from tests.cli.terminal import on_terminal
from tests.cli.test_mcp_login import Json, browsing, home, logged_in, records
from tests.cli.test_run_interactive import ENTER, leaves, sitting
from tests.oauth.authority import Authority, authority
from tests.patience import PATIENCE

__all__ = ["home"]  # the fixture


def profile(launch: Launcher, server: Authority, **keys: object) -> None:
    entry: Json = {"type": "http", "url": server.url, "oauth": True, **keys}
    launch.write({"agent": DEMO, "mcp_servers": {"web": entry}, "permissions": {"default": "allow"}})


def test_a_user_logs_in_again_from_within_a_session(home: Launcher) -> None:
    with authority() as server, browsing(home) as browser:
        profile(home, server)
        logged_in(home)
        with sitting("p", "--trust", cwd=home.project, env=home.env) as terminal:
            terminal.until("ready ·")
            before = server.asked("mcp /mcp")[-1]["authorization"]
            terminal.types(":login web" + ENTER)
            terminal.until("web: logged in")
            terminal.until("restarting web, so that it uses the login")
            terminal.until_it(lambda: server.asked("mcp /mcp")[-1]["authorization"] != before, "the new token")
            leaves(terminal)
        assert len(browser.addresses) == 2
        assert server.asked("mcp /mcp")[-1]["authorization"] not in ("", before)


def test_a_server_that_the_session_was_opened_without_is_there_after_a_login_and_a_return(home: Launcher) -> None:
    with authority() as server, browsing(home):
        profile(home, server, required=False)
        with sitting("p", "--trust", cwd=home.project, env=home.env) as terminal:
            terminal.until("fix: acp-launch mcp login p web")
            terminal.until("ready ·")
            terminal.types(":login web" + ENTER)
            terminal.until("web: logged in")
            terminal.until("this session was opened without web")
            terminal.until("leave with :quit")
            leaves(terminal)
        with sitting("p", "--trust", cwd=home.project, env=home.env) as terminal:
            terminal.until("ready ·")
            terminal.until_it(lambda: server.asked("mcp /mcp")[-1]["authorization"] != "", "the token")
            leaves(terminal)


def test_a_login_that_fails_leaves_the_session_as_it_was(home: Launcher) -> None:
    with authority() as server, browsing(home):
        profile(home, server)
        logged_in(home)
        with sitting("p", "--trust", cwd=home.project, env=home.env | {"BROWSER": ""}) as terminal:
            terminal.until("ready ·")
            terminal.types(":login nothing" + ENTER)
            terminal.until('no server "nothing" wants a login')
            terminal.types(":login web" + ENTER)
            terminal.until("Paste the address that the browser ends at")
            terminal.types("\x03")
            terminal.until("the login to web was not changed")
            terminal.types("history" + ENTER)
            terminal.until("the session had 0 turns")
            leaves(terminal)


@pytest.mark.parametrize("lack", ["never", "unasked", "revoked"])
def test_a_run_on_a_terminal_offers_the_login_that_it_lacks_and_goes_on(home: Launcher, lack: str) -> None:
    """Never logged in; to a server that turns out to want it, though the profile does not say so; login revoked."""
    with authority() as server, browsing(home) as browser:
        profile(home, server, oauth=lack != "unasked")
        if lack == "revoked":
            logged_in(home)
            urlopen(f"{server.issuer}/forget", timeout=PATIENCE).close()
        before = len(browser.addresses)
        with on_terminal("run", "p", "hi there", "--trust", cwd=home.project, env=home.env) as terminal:
            terminal.until("Log in now?\n▐ [y] Yes  [n] No")
            terminal.types("y")
            terminal.until("web: logged in")
            terminal.until("You said: hi there")
            assert terminal.ends() == 0, terminal.text
        assert len(browser.addresses) == before + 1
        assert server.asked("mcp /mcp")[-1]["authorization"] != ""


def test_a_run_ends_as_without_a_terminal_if_the_login_is_declined(home: Launcher) -> None:
    with authority() as server, browsing(home) as browser:
        profile(home, server)
        with on_terminal("run", "p", "hi there", "--trust", cwd=home.project, env=home.env) as terminal:
            terminal.until("Log in now?\n▐ [y] Yes  [n] No")
            terminal.types("n")
            terminal.until("acp-launch mcp login p web")
            assert terminal.ends() == 6, terminal.text
        assert (browser.addresses, records(home)) == ([], [])
        assert "hi there" not in terminal.text.partition("Log in now?")[2]
