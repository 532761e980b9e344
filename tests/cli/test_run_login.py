"""`:login` in an interactive session: the browser's way, beside a screen that is left for it."""

from tests.cli.launcher import DEMO, Launcher
from tests.cli.test_mcp_login import Json, browsing, home, logged_in
from tests.cli.test_run_interactive import ENTER, leaves, sitting
from tests.oauth.authority import Authority, authority

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


def test_a_server_that_has_turned_out_to_want_a_login_is_logged_in_to_and_started(home: Launcher) -> None:
    with authority() as server, browsing(home):
        profile(home, server, oauth=False, required=False, timeouts={"start": "3s"})
        with sitting("p", "--trust", cwd=home.project, env=home.env) as terminal:
            terminal.until("it wants a login")
            terminal.types(":login web" + ENTER)
            terminal.until("web: logged in")
            terminal.until("restarting web, so that it uses the login")
            terminal.until_it(lambda: server.asked("mcp /mcp")[-1]["authorization"] != "", "the token")
            leaves(terminal)


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
