"""`login` and `logout`, with real agents, and on a real terminal where a person is asked or a program needs one."""

import json
import os
import re
import shlex
import shutil
import signal
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.cli.launcher import AGENTS, SERVERS, Launcher
from tests.cli.serving import serving
from tests.cli.terminal import Terminal, on_terminal

CTRL_C = "\x03"
WAYS = ("agent", "terminal", "key")
HINT = "login methods that need a terminal are shown only on a terminal\n"


class Account:
    """A profile `p` whose agent wants a login; it is logged in while a file exists."""

    def __init__(self, launch: Launcher) -> None:
        self.launch = launch
        self._store = launch.project / "account"

    @property
    def is_in(self) -> bool:
        return self._store.exists()

    def log_in(self) -> None:
        self._store.touch()

    def offers(self, *ways: str, servers: dict[str, object] | None = None, **agent: object) -> None:
        self.launch.profile("login", str(self._store), *ways, agent=agent, mcp_servers=servers or {})

    def at_terminal(self, *arguments: str) -> AbstractContextManager[Terminal]:
        """acp-launch at a terminal; nothing that it started is left when it has ended: the fork server looks."""
        return on_terminal(*arguments, cwd=self.launch.project, env={**self.launch.env, "TERM": "dumb"})


@pytest.fixture
def account(launch: Launcher) -> Account:
    return Account(launch)


def logged_in(method: str) -> str:
    return f'▐ acp-launch: logged in to test-agent with "{method}"\n▐     to use it: acp-launch run p\n'


def test_the_only_way_is_taken_and_the_agent_is_heard_meanwhile(account: Account) -> None:
    """C-23. What it says cannot drive the terminal."""
    account.offers("agent")
    done = account.launch("login", "p")
    said = "open \\x1b[31mhttps://example.com/login\n"
    assert (done.code, done.out, done.err) == (0, b"", said + logged_in("Browser"))
    assert done.methods == ["initialize", "authenticate"]
    assert done.params("authenticate") == {"methodId": "browser"}
    assert account.is_in
    assert account.launch("run", "p", "hi").out == b"You said: hi\n"


def test_without_a_terminal_none_is_offered_and_of_several_ways_one_has_to_be_named(account: Account) -> None:
    """C-25."""
    account.offers(*WAYS)
    done = account.launch("login", "p")
    assert (done.code, done.out, done.err) == (
        6,
        b"",
        "acp-launch: test-agent offers several ways to log in, and acp-launch cannot ask you which\n"
        "    browser: Browser\n"
        "    key: API key\n"
        "    fix: name one: acp-launch login p browser\n",
    )
    capabilities = done.params("initialize")["clientCapabilities"]
    assert "auth" not in capabilities and "_meta" not in capabilities
    assert account.launch("login", "p", "browser").code == 0


def test_a_way_that_is_not_there_is_a_mistake_on_the_command_line(account: Account) -> None:
    account.offers(*WAYS)
    fix = "    fix: acp-launch login p --list shows what it has\n"
    for words, said in (
        (["browse"], f'acp-launch: test-agent has no login "browse"; did you mean "browser"?\n{fix}'),
        (["--json"], "acp-launch: --json needs --list\n"),
        (["browser", "--list"], "acp-launch: --list takes no METHOD\n"),
    ):
        done = account.launch("login", "p", *words)
        assert (done.code, done.err, "authenticate" in done.methods) == (2, said, False)


def test_an_agent_that_refuses_or_offers_nothing_is_exit_6(account: Account) -> None:
    account.offers("refusing")
    done = account.launch("login", "p")
    said = "the agent answered authenticate with an error: the account is closed (-32603)"
    assert (done.code, done.err) == (
        6,
        f'acp-launch: the login "Never" failed: {said}\n    fix: try again, or another way: acp-launch login p\n',
    )
    account.offers()
    done = account.launch("login", "p")
    assert (done.code, done.err.partition("\n")[0]) == (6, "acp-launch: test-agent offers no way to log in")
    done = account.launch("login", "p", "--list")
    assert (done.code, done.out, done.err) == (0, b"", f"acp-launch: test-agent offers no way to log in\n{HINT}")


def test_what_a_profile_that_cannot_be_changed_lacks_goes_elsewhere(account: Account, tmp_path: Path) -> None:
    """Each command that is advised does what it is advised for."""
    launch = account.launch
    program = tmp_path / "bin" / "codex-acp"
    program.parent.mkdir()
    words = [sys.executable, "-I", "-S", str(AGENTS / "login.py"), str(launch.project / "store"), "key"]
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    program.chmod(0o755)
    launch.env["PATH"] = f"{program.parent}:{os.environ['PATH']}"
    done = launch("login", "codex", "key")
    assert (done.code, done.err) == (
        6,
        'acp-launch: "API key" is not a login: the agent reads LOGIN_KEY from its environment\n'
        "    API key: https://example.com/keys\n"
        "    to have it in every shell, create your own profile that extends codex:\n"
        "        acp-launch init my-codex --extends codex\n"
        "        acp-launch secret set login-key\n"
        "        acp-launch profile set my-codex agent.env.LOGIN_KEY '${secret:login-key}'\n"
        "    fix: export LOGIN_KEY=..., then run this again: the agent inherits it\n",
    )
    assert launch("login", "codex", "key", LOGIN_KEY="k").code == 0
    (launch.project / "store").unlink()
    launch.env |= {"ACP_LAUNCH_SECRETS__STORE": "file", "ACP_LAUNCH_PASSPHRASE": "correct horse battery"}
    for command in re.findall(r"^        acp-launch (.*)$", done.err, re.MULTILINE):
        ended = launch(*shlex.split(command), stdin=b"s3cr3t-value-of-it")
        assert ended.code == 0, ended.err
    assert launch("login", "my-codex", "key").code == 0


def test_the_ways_are_listed_for_people_and_for_scripts(account: Account) -> None:
    account.offers("agent", "key", "legacy")
    done = account.launch("login", "p", "--list")
    assert (done.code, done.err) == (0, HINT)
    assert done.out.decode() == (
        "METHOD   TYPE           NAME\n"
        "browser  agent          Browser  Opens a page\n"
        "key      env_var        API key  (reads LOGIN_KEY)\n"
        "old      terminal-auth  Old way\n"
    )
    done = account.launch("login", "p", "--list", "--json")
    assert (done.code, done.err) == (0, "")
    said = json.loads(done.out)
    assert said["agent"] == "test-agent"
    assert said["methods"][0] == {"id": "browser", "name": "Browser", "type": "agent", "description": "Opens a page"}
    assert said["methods"][1]["variables"] == [
        {"name": "LOGIN_KEY", "secret": "login-key", "optional": False},
        {"name": "LOGIN_REGION", "secret": "login-region", "optional": True},
    ]


def test_in_a_terminal_the_ways_that_need_one_are_listed_too(account: Account) -> None:
    """C-25."""
    account.offers("terminal")
    with account.at_terminal("login", "p", "--list") as terminal:
        assert terminal.ends() == 0
    assert terminal.text == "METHOD  TYPE      NAME\ntty     terminal  Terminal\n"


def test_logging_out_where_it_is_offered(account: Account) -> None:
    """C-29."""
    account.offers("agent")
    account.log_in()
    done = account.launch("logout", "p")
    assert (done.code, done.out, done.err) == (0, b"", "acp-launch: logged out of test-agent\n")
    assert (done.methods, account.is_in) == (["initialize", "logout"], False)
    done = account.launch("logout", "p")
    assert (done.code, done.err) == (0, "acp-launch: test-agent was not logged in\n")


def test_ctrl_c_gives_up_waiting_for_the_agent(account: Account) -> None:
    account.offers("deaf")
    with account.at_terminal("login", "p") as terminal:
        terminal.until('logging in with "Deaf"; Ctrl-C cancels\n')
        terminal.types(CTRL_C)
        assert terminal.ends() == 130
    assert terminal.text.endswith("acp-launch: stopped\n")


def test_a_person_chooses_and_the_program_on_the_terminal_does_it(account: Account) -> None:
    """C-24, C-26, C-27: the configured command with the method's arguments, then a fresh agent."""
    account.offers(*WAYS)
    with account.at_terminal("login", "p") as terminal:
        terminal.answers({"[n] None of these": "n"})
        assert terminal.ends() == 6
    chosen = "▐ acp-launch: no login was chosen\n▐     fix: choose one of these: acp-launch login p\n"
    assert terminal.text.endswith(chosen)
    with account.at_terminal("login", "p") as terminal:
        terminal.answers({"[3] Terminal": "3", "ask, new: ": "please\n"})
        assert terminal.ends() == 0
    assert "▐ Log in with:\n" in terminal.text
    assert "▐ [1] Browser: Opens a page  [2] API key: (reads LOGIN_KEY)  [3] Terminal" in terminal.text
    assert terminal.text.endswith(logged_in("Terminal"))
    assert account.is_in


@pytest.mark.promise("login")
def test_a_run_logs_in_when_the_agent_wants_it_and_goes_on_with_its_prompt(account: Account) -> None:
    """C-30."""
    account.offers("agent")
    with account.at_terminal("run", "p", "hi") as terminal:
        terminal.until("[1] ")
        terminal.types("1")
        assert terminal.ends() == 0
    assert "▐ The agent test-agent needs a login\n▐ Log in with:\n▐ [1] Browser: Opens a page" in terminal.text
    assert terminal.text.rstrip().endswith("You said: hi")


def test_servers_outlive_the_agent_that_is_started_again_after_a_login(account: Account) -> None:
    """The second agent is given them; a required one that was stopped with the first would fail the run."""
    server = {"command": sys.executable, "args": ["-I", "-S", str(SERVERS / "polite.py")], "required": True}
    account.offers("terminal", servers={"polite": server})
    with account.at_terminal("run", "p", "hi") as terminal:
        terminal.answers({"[1] ": "1", "ask, new: ": "please\n"})
        assert terminal.ends() == 0, terminal.text
    assert terminal.text.rstrip().endswith("You said: hi")


@pytest.mark.parametrize(
    ("way", "keys", "why"), [("wait", CTRL_C, "was killed by SIGINT"), ("raw", "", "was killed by SIGKILL")]
)
def test_any_end_but_status_0_is_a_failure_and_leaves_the_terminal_as_it_was(
    account: Account, way: str, keys: str, why: str
) -> None:
    """C-27."""
    account.offers(f"terminal:{way}")
    with account.at_terminal("login", "p") as terminal:
        terminal.answers({f"{way}, new: ": keys, "another way: acp-launch login p\n": ""})
        assert terminal.ends() == 6
    assert "\r\n▐     fix: try again".encode() in terminal.raw, "line ends are made by the terminal again"
    assert f'acp-launch: the login "Terminal" failed: {Path(sys.executable).name} {why}\n' in terminal.text
    assert not account.is_in


def test_a_signal_in_the_login_ends_everything(account: Account) -> None:
    account.offers("terminal:wait")
    with account.at_terminal("login", "p") as terminal:
        terminal.until("wait, new: ")
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.ends() == 143
    assert terminal.text.endswith("acp-launch: stopped\n")


def test_a_command_of_the_agents_choosing_is_shown_whole_and_run_only_when_allowed(account: Account) -> None:
    account.offers("legacy")
    with account.at_terminal("login", "p") as terminal:
        terminal.answers({"[n] No": "\x1b"})
        assert terminal.ends() == 6
    shown = f"WAY='an old one' {shutil.which('touch')} {account.launch.project / 'account'}".replace(" ", "")
    told = re.sub(r"\n▐ +\| |[ \n]", "", terminal.text)  # rows may be broken, also within a long path
    assert f'▐"Oldway"isacommandthattheagentchose,notyourprofile:▐{shown}▐in{account.launch.project}▐' in told
    assert not account.is_in
    assert terminal.text.endswith(
        '▐ acp-launch: the login "Old way" was not run\n▐     fix: choose another: acp-launch login p --list\n'
    )


def test_an_editor_runs_a_login_on_its_terminal_through_serve(account: Account) -> None:
    """C-26: it appends the arguments of the method to those it starts its agent with."""
    account.offers("terminal", "agent")
    with serving(account.launch) as editor:
        own, other = editor.begin(auth={"terminal": True})["authMethods"]
        assert own["name"] == "Browser"
        refusal = editor.request("session/new", editor.place())["error"]
        assert (refusal["code"], refusal["message"]) == (-32000, "Authentication required")
    with account.at_terminal("serve", "p", *other["args"]) as terminal:
        terminal.until("ask, new: ")
        terminal.types("please\n")
        assert terminal.ends() == 0
    with serving(account.launch) as editor:
        editor.begin()
        editor.open()
