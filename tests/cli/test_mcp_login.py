"""`mcp login`, `logout` and `status`: a browser's way, the terminal's way, and what is left of each failure."""

import base64
import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import httpx2
import pytest

from acp_launch.oauth.grant import Logins
from tests.cli.forkserver import completed
from tests.cli.launcher import DEMO, Ended, Launcher
from tests.cli.terminal import on_terminal
from tests.cli.test_secrets import files_holding
from tests.oauth.authority import Authority, authority
from tests.patience import PATIENCE, until_ended

Json = dict[str, Any]
PASTE = "Paste the address that the browser ends at"
ID_TOKEN = "e30." + base64.urlsafe_b64encode(json.dumps({"preferred_username": "ada"}).encode()).decode() + ".x"


class Browser:
    """A browser whose user consents at once, in a thread of the test. `BROWSER` only hands the address over."""

    def __init__(self, launch: Launcher) -> None:
        self.pages: list[str] = []
        self.addresses: list[str] = []
        self._pipe = launch.project.parent / "visited"
        os.mkfifo(self._pipe)
        launch.env["BROWSER"] = f"/bin/sh -c 'echo \"$$ $1\" >{self._pipe}' x %s"
        self._thread = threading.Thread(target=self._browse, daemon=True)
        self._thread.start()

    def _browse(self) -> None:
        while said := self._pipe.read_text().strip():
            pid, _, address = said.partition(" ")
            until_ended(int(pid))  # or the command could end before what it has started
            self.addresses.append(address)
            self.pages.append(httpx2.get(address, follow_redirects=True, timeout=PATIENCE).text)

    def close(self) -> None:
        self._pipe.write_text("")
        self._thread.join(PATIENCE)


@pytest.fixture
def home(launch: Launcher) -> Launcher:
    """A sealed file for tokens, and no browser."""
    launch.configure("secrets: {store: file, file: {key_file: key}}\n")
    for variable in ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY", "DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        launch.env.pop(variable, None)
    return launch


@contextmanager
def browsing(launch: Launcher) -> Iterator[Browser]:
    browser = Browser(launch)
    try:
        yield browser
    finally:
        browser.close()


def profile(launch: Launcher, *servers: Authority, **oauth: Any) -> None:
    """A profile whose agent does not exist, and with remote servers `docs`, `docs2`, …"""
    names = ["docs", *(f"docs{number}" for number in range(2, 9))]
    listed = {
        name: {"type": "http", "url": server.url, "oauth": oauth or True}
        for name, server in zip(names, servers, strict=False)
    }
    launch.write({"agent": {"command": "no-such-agent"}, "mcp_servers": listed})


def records(launch: Launcher) -> list[Json]:
    files = (launch.state / "logins").glob("*.json")
    return [json.loads(file.read_text()) for file in files]


def logged_in(launch: Launcher, *words: str) -> str:
    done = launch("mcp", "login", "p", *words)
    assert done.code == 0, done.err
    return done.err


def state(launch: Launcher, name: str = "docs") -> Json:
    servers = json.loads(launch("mcp", "status", "p", "--json").out)["servers"]
    return next(each for each in servers if each["name"] == name)


def sent_tokens(server: Authority) -> set[str]:
    """Every token that the servers have seen."""
    bearers = {each["authorization"].removeprefix("Bearer ") for each in server.asked("mcp /mcp")} - {""}
    return bearers | {each["form"]["token"] for each in server.asked("as /revoke")}


@pytest.mark.promise("login")
def test_a_login_in_the_browser_is_kept_shown_and_taken_back(home: Launcher) -> None:
    with authority(tokens={"id_token": ID_TOKEN}) as server, browsing(home) as browser:
        profile(home, server, scopes=["read", "write"])
        assert state(home)["state"] == "not logged in"
        assert "\n             not logged in\n" in home("plan", "p").out.decode()
        said = logged_in(home)
        assert f"acp-launch: docs ({server.mcp}) sends you to {server.issuer} to log in:" in said
        assert browser.addresses[0] in said, "the address is always told"
        assert "acp-launch: docs: logged in as ada, for read, write\n" in said
        assert "acp-launch run p" in said
        assert ["Return to your terminal" in page for page in browser.pages] == [True]
        found = state(home)
        assert (found["state"], found["account"], found["scopes"]) == ("logged in", "ada", ["read", "write"])
        assert (found["issuer"], found["renewed"]) == (server.issuer, True)
        planned = home("plan", "p").out.decode()
        assert "\n  login      OAuth, for the scopes read, write" in planned
        assert "\n             as ada, until " in planned
        listed = home("mcp", "list", "p").out.decode()
        assert "LOGIN" in listed and "as ada, until " in listed
        for words, key in ((["plan", "p"], "mcp_servers"), (["mcp", "list", "p"], "servers")):
            assert json.loads(home(*words, "--json").out)[key][0]["login"]["account"] == "ada"
        out = home("mcp", "logout", "p")
        assert (out.code, out.err) == (0, "acp-launch: docs: logged out, its tokens are revoked and deleted\n")
        hints = [each["form"]["token_type_hint"] for each in server.asked("as /revoke")]
        assert hints == ["refresh_token", "access_token"]
        assert (state(home)["state"], records(home)) == ("not logged in", [])
        tokens = sent_tokens(server)
    assert len(tokens) == 2
    for token in tokens:
        assert token not in said + out.err
        assert files_holding(token, Path(home.env["HOME"]), home.project.parent) == []
    again = home("mcp", "logout", "p")
    assert (again.code, again.err) == (0, "acp-launch: docs: not logged in\n")


def test_all_logs_in_to_what_has_no_login_only(home: Launcher) -> None:
    with authority() as one, authority() as other, browsing(home) as browser:
        profile(home, one, other)
        unclear = home("mcp", "login", "p")
        assert (unclear.code, "docs, docs2 ask for a login" in unclear.err) == (2, True)
        logged_in(home, "docs2")
        shown = {words: home("mcp", "status", "p", *words, "--json") for words in [("docs",), ("docs2",), ("--all",)]}
        names = {words: [each["name"] for each in json.loads(done.out)["servers"]] for words, done in shown.items()}
        assert names == {("docs",): ["docs"], ("docs2",): ["docs2"], ("--all",): ["docs", "docs2"]}
        assert [done.code for done in shown.values()] == [6, 0, 6]
        said = logged_in(home, "--all")
        assert "acp-launch: docs2: logged in, until " in said and "nothing was done" in said
        assert "acp-launch: docs: logged in\n" in said
        assert len(browser.addresses) == 2
        out = home("mcp", "logout", "p", "--all")
    assert [line for line in out.err.splitlines() if "logged out" in line] == [
        "acp-launch: docs: logged out, its tokens are revoked and deleted",
        "acp-launch: docs2: logged out, its tokens are revoked and deleted",
    ]


def test_all_goes_on_after_a_failure_and_ends_with_the_worst_exit_code(home: Launcher) -> None:
    with authority(redirect={"code": None, "error": "access_denied"}) as one, authority() as other, browsing(home):
        profile(home, one, other)
        done = home("mcp", "login", "p", "--all")
        assert done.code == 6
        assert "refused the login: access_denied" in done.err
        assert "acp-launch: docs2: logged in" in done.err
        assert [record["url"] for record in records(home)] == [other.url]


def test_a_second_login_takes_the_tokens_of_the_first_back(home: Launcher) -> None:
    with authority() as server, browsing(home):
        profile(home, server)
        logged_in(home)
        home("mcp", "tools", "p", "docs")
        first = sent_tokens(server)
        assert server.asked("as /revoke") == []
        logged_in(home)
        revoked = [each["form"] for each in server.asked("as /revoke")]
    assert [each["token_type_hint"] for each in revoked] == ["refresh_token", "access_token"]
    assert {each["token"] for each in revoked} > first, "the new ones are not among them"
    assert len({each["token"] for each in revoked} - first) == 1, "the refresh token, which no server has seen before"


def test_tokens_whose_record_is_lost_are_found_by_a_logout(home: Launcher) -> None:
    with authority() as server, authority() as other, browsing(home):
        profile(home, server, other)
        logged_in(home, "docs")
        logged_in(home, "docs2")
        logins = Logins(home.state)
        (lost,) = (login for login in logins.all() if login.url == server.url)
        logins.drop(lost)
        out = home("mcp", "logout", "p", "docs")
        assert (out.code, out.err) == (0, "acp-launch: docs: logged out, its tokens are revoked and deleted\n")
        assert len(server.asked("as /revoke")) == 2
        assert ([login.url for login in logins.all()], other.asked("as /revoke")) == ([other.url], [])


def test_a_configured_client_uses_its_secret_and_its_port(home: Launcher) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with authority(clients={"ours": "s3cret-s3cret"}) as server, browsing(home) as browser:
        profile(home, server, client_id="ours", client_secret="${secret:docs}", callback_port=port)
        missing = home("mcp", "login", "p")
        assert (missing.code, 'secret "docs" is not set' in missing.err) == (3, True)
        home.env["ACP_LAUNCH_SECRET_DOCS"] = "s3cret-s3cret"
        alone = home("mcp", "login", "p")
        assert (alone.code, server.asked("as /token"), browser.addresses) == (6, [], [])
        line = f"write `issuer: {server.issuer}` beside client_secret (.acp-launch/p.yaml:12:22)"
        assert f"names {server.issuer} as its authorization server" in alone.err and line in alone.err
        pinned = {"client_id": "ours", "client_secret": "${secret:docs}", "callback_port": port}
        profile(home, server, **pinned, issuer=f"{server.issuer}/")
        assert home("validate", "p").code == 0
        said = logged_in(home)
        assert f"redirect_uri=http%3A%2F%2F127.0.0.1%3A{port}%2Fcallback" in browser.addresses[0]
        assert (server.asked("as /register"), records(home)[0]["client"]) == ([], "ours")
        assert "s3cret-s3cret" not in said
        assert home("mcp", "logout", "p").code == 0
        assert len(server.asked("as /revoke")) == 2
        logged_in(home)
        profile(home, server, **pinned)
        out = home("mcp", "logout", "p")
        assert (out.code, len(server.asked("as /revoke"))) == (0, 2)
    assert f"{server.issuer} may not get the client secret, as the profile lacks `issuer: {server.issuer}`" in out.err


@pytest.mark.parametrize(
    ("server", "is_there", "said"),
    [
        ({"revocation_endpoint": None}, True, "the server cannot revoke tokens, so they stay valid until they expire"),
        ({}, False, "the server did not revoke the tokens: the authorization server"),
    ],
)
def test_a_logout_that_the_server_does_not_hear_of_removes_the_tokens(
    home: Launcher, server: Json, is_there: bool, said: str
) -> None:
    with authority(server=server) as there, browsing(home):
        profile(home, there)
        logged_in(home)
        out = home("mcp", "logout", "p") if is_there else None
    out = out or home("mcp", "logout", "p")
    assert (out.code, records(home)) == (0, [])
    assert "docs: logged out, its tokens are deleted\n" in out.err and said in out.err


def test_an_untrusted_profile_opens_no_page(home: Launcher) -> None:
    with authority() as server, browsing(home) as browser:
        profile(home, server)
        for verb, code in (("status", 6), ("login", 7), ("logout", 7)):  # without `--trust`
            assert completed(["mcp", verb, "p"], env=home.env, cwd=home.project).returncode == code
        assert (browser.addresses, server.log) == ([], [])


def test_without_browser_and_terminal_nothing_is_asked(home: Launcher) -> None:
    with authority() as server:
        profile(home, server)
        env: Any
        for env, words, why in (
            ({}, (), "no browser was found"),
            ({"SSH_CONNECTION": "a 1 b 2", "BROWSER": "/bin/true"}, (), "this is an SSH session"),
            ({"BROWSER": "/bin/true"}, ("--no-browser",), "--no-browser is given"),
        ):
            refused = home("mcp", "login", "p", *words, **env)
            told = f"a login needs a browser or a terminal: {why}, and stdin is not a terminal"
            assert (refused.code, told in refused.err, records(home)) == (6, True, []), refused.err
            assert "acp-launch mcp login p docs" in refused.err
        assert server.asked("as /authorize") == server.asked("as /token") == []


def address_in(text: str) -> str:
    (address,) = [row.strip("▐ ") for row in text.splitlines() if "/authorize?" in row]
    return address


def came_to(address: str) -> str:
    """Where the browser of another machine ends, which cannot reach us."""
    answer = httpx2.get(address, follow_redirects=False, timeout=PATIENCE)
    assert answer.status_code == 302
    return str(answer.headers["location"])


def test_over_ssh_the_address_is_pasted_and_not_shown(home: Launcher) -> None:
    home.env |= {"SSH_CONNECTION": "a 1 b 2", "BROWSER": "/bin/false"}
    with authority() as server:
        profile(home, server)
        with on_terminal("mcp", "login", "p", cwd=home.project, env=home.env) as terminal:
            terminal.until(PASTE)
            ended = came_to(address_in(terminal.text))
            terminal.types("http://127.0.0.1:1/callback?code=x&state=y\n")
            terminal.until("That is not the answer to this login")
            terminal.until("Paste another address (it is not shown), then Enter: ")
            code = ended.partition("code=")[2].partition("&")[0]
            terminal.types(f"{ended}&padding={'x' * 6000}\n")
            assert terminal.ends() == 0, terminal.text
        assert "acp-launch: docs: logged in" in terminal.text
        assert code not in terminal.text
        assert len(records(home)) == 1


def test_a_code_that_is_typed_elsewhere_needs_no_terminal_here(home: Launcher) -> None:
    with authority(device=["authorization_pending"], server={"device_authorization_endpoint": "{as}/device"}) as server:
        profile(home, server)
        said = logged_in(home)
        assert f"{server.issuer}/type" in said
        assert "The code to type or to compare there: ABCD-EFGH" in said
        assert "acp-launch: docs: logged in" in said
        assert len(records(home)) == 1


@pytest.mark.parametrize(("key", "code"), [("\x04", 6), ("\x03", 130)])
def test_ctrl_d_and_ctrl_c_at_the_question_leave_nothing(home: Launcher, key: str, code: int) -> None:
    with authority() as server:
        profile(home, server)
        with on_terminal("mcp", "login", "p", "--no-browser", cwd=home.project, env=home.env) as terminal:
            terminal.answers({PASTE: key})
            assert terminal.ends() == code, terminal.text
        assert (records(home), server.asked("as /token")) == ([], [])


@pytest.mark.parametrize(
    ("store", "prefix", "said"),
    [
        ("{store: command, command: [/bin/echo, '{name}']}", (), "cannot store a login: "),
        (
            "{store: file, file: {key_file: key}}",
            ("sh", "-c", 'ulimit -f 0; exec "$@"', "sh"),
            "cannot read or write the records of logins: file too large",
        ),
    ],
    ids=["only reads", "full disk"],
)
def test_what_cannot_keep_a_login_is_found_out_before_the_browser_opens(
    home: Launcher, store: str, prefix: tuple[str, ...], said: str
) -> None:
    home.configure(f"secrets: {store}\n")
    with authority() as server, browsing(home) as browser:
        profile(home, server)
        with home.start("mcp", "login", "p", prefix=prefix) as running:
            refused = running.end()
        assert (refused.code, browser.addresses, server.log) == (3, [], [])
    assert said in refused.err
    assert not [*(home.state / "logins").glob("trial*")]


def test_status_asks_neither_the_store_nor_a_server(home: Launcher) -> None:
    """A login that is expired, and not renewed, is none."""
    with authority(rotation="none") as server, browsing(home):
        profile(home, server)
        logged_in(home)
        (home.config / "secrets.sealed").write_text("broken")
        before = len(server.log)
        shown = home("mcp", "status", "p")
        assert (shown.code, len(server.log)) == (0, before)
        assert "logged in, until " in shown.out.decode()
    (file,) = (home.state / "logins").glob("*.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "expires": 1.0}))
    shown = home("mcp", "status", "p")
    assert (shown.code, "expired " in shown.out.decode()) == (6, True)
    assert "not logged in to docs" in shown.err and "acp-launch mcp login p docs" in shown.err
    assert state(home)["state"] == "expired"


def test_what_cannot_be_meant_is_a_usage_error(home: Launcher) -> None:
    home.write({"agent": {"command": sys.executable}, "mcp_servers": {"notes": {"command": sys.executable}}})
    unknown, program = 'p has no MCP server "nodes"; did you mean "notes"?', '"notes" is a program on this machine'
    none = "no MCP server of p is known to want a login"
    for words, told in (
        (("login", "p", "nodes"), unknown),
        (("login", "p", "notes"), f"{program}, which needs no login"),
        (("login", "p"), none),
        (("logout", "p", "notes", "--all"), "--all takes no SERVER"),
        (("status", "p", "notes", "--all"), "--all takes no SERVER"),
        (("status", "p", "notes"), f"{program}, which needs no login"),
        (("status", "p", "nodes"), unknown),
    ):
        refused = home("mcp", *words)
        assert (refused.code, told in refused.err) == (2, True), refused.err
    shown = home("mcp", "status", "p")
    assert (shown.code, shown.err) == (0, f"acp-launch: {none}\n")


def used(launch: Launcher) -> Ended:
    return launch("mcp", "tools", "p", "docs")


@pytest.mark.parametrize("rotation", ["strict", "none"])
def test_a_login_that_the_server_has_revoked_is_told_and_done_again(home: Launcher, rotation: str) -> None:
    """As soon as a run has learned of it; without a refresh token the server only refuses the access token."""
    with authority(rotation=rotation) as server, browsing(home) as browser:
        profile(home, server)
        logged_in(home)
        assert used(home).code == 0
        urlopen(f"{server.issuer}/forget", timeout=PATIENCE).close()
        assert (state(home)["state"], used(home).code) == ("logged in", 6)
        shown = home("mcp", "status", "p")
        assert (shown.code, "logged in, revoked by the server" in shown.out.decode()) == (6, True)
        assert "acp-launch mcp login p docs" in shown.err
        assert state(home)["state"] == "revoked"
        said = logged_in(home, "--all")
        assert said.startswith("acp-launch: docs: logged in, revoked by the server\n")
        assert ("docs: logged in" in said.partition("\n")[2], len(browser.addresses)) == (True, 2)
        assert (state(home)["state"], used(home).code) == ("logged in", 0)


@pytest.mark.parametrize("learn", [("doctor", "p"), ("mcp", "tools", "p", "docs"), ("run", "p", "hi")])
def test_a_server_that_wants_a_login_without_the_key_is_known_to_all_verbs_from_then_on(
    home: Launcher, learn: tuple[str, ...]
) -> None:
    fix = "acp-launch mcp login p docs"
    with authority() as server, authority() as other, browsing(home):
        entries = {
            "docs": {"type": "http", "url": server.url},
            "open": {"type": "http", "url": other.url, "required": False},
        }
        home.write({"agent": DEMO, "mcp_servers": entries})
        assert home("mcp", "status", "p").code == 0
        assert home("mcp", "login", "p").code == 2
        learned = home(*learn)
        told = learned.err + learned.out.decode()
        assert (learned.code, "it wants a login" in told, fix in told) == (6, True, True), told
        known = home("mcp", "status", "p", "docs")
        assert (known.code, fix in known.err, state(home)["state"]) == (6, True, "not logged in")
        if learn[0] == "mcp":
            assert "docs: logged in" in logged_in(home)
            assert (home("mcp", "status", "p", "docs").code, used(home).code) == (0, 0)
            assert home("mcp", "logout", "p", "docs").code == 0
            forgotten = home("mcp", "status", "p", "docs")
            assert (forgotten.code, forgotten.err) == (0, "acp-launch: docs is not known to want a login\n")
