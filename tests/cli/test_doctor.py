"""`doctor` with real agents, servers, keyrings and leftovers: every fault is told, and none hides another."""

import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from acp_launch.session.connection import ACP_MODE
from tests.cli import forkserver
from tests.cli.launcher import AGENTS, DEMO, Ended, Launcher
from tests.cli.terminal import on_terminal
from tests.cli.test_mcp import server
from tests.demo.web import serving
from tests.patience import PATIENCE
from tests.remote.children import tempered
from tests.secret.bus import Desktop
from tests.secret.test_service import lock

FAIL_KEYRING = "unset PYTHON_KEYRING_BACKEND, or name another one there"
TOKEN = "t0ken-" + "a1B2c3" * 4
Json = dict[str, Any]


def agent(temper: str, *arguments: str, **keys: Any) -> Json:
    return {"command": sys.executable, "args": ["-I", "-S", str(AGENTS / f"{temper}.py"), *arguments], **keys}


def own(launch: Launcher, agent: Json, name: str = "p", **sections: Any) -> None:
    """A profile of the user's own, which is trusted."""
    folder = launch.config / "profiles"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.yaml").write_text(json.dumps({"version": 1, "agent": agent, **sections}, indent=1))


def checks(done: Ended) -> dict[str, Json]:
    """By name and subject; each is there once."""
    said = json.loads(done.out)["checks"]
    found = {f"{each['check']} {each['subject']}".strip(): each for each in said}
    assert len(found) == len(said), [f"{each['check']} {each['subject']}" for each in said]
    return found


def examined(launch: Launcher, code: int, *arguments: str, **env: Any) -> dict[str, Json]:
    done = launch("doctor", "p", "--json", *arguments, **env)
    assert done.code == code, (done.out, done.err)
    assert json.loads(done.out)["exit_code"] == code
    return checks(done)


def told(check: Json) -> tuple[str, str, str]:
    return check["standing"], check["text"], check["fix"]


def steady(text: str, launch: Launcher) -> list[str]:
    """Without what differs between machines and runs."""
    for pattern, instead in (
        (r"\d+ ms|\d+\.\d\d s", "N ms"),
        (r"[\d.]+ [KMGT]iB free", "N free"),
        (r"\d[\d.]*\S* on Python .*", "VERSIONS"),
        (r"(open files +).*", r"\1LIMIT"),
        (r"((?:shims|control group|confinement|node) +).*", r"\1WAY"),
        (rf"{re.escape(sys.executable)}( \(.*\))?", "PYTHON"),
        (r"(directory runtime +).*", r"\1PLACE"),
    ):
        text = re.sub(pattern, instead, text)
    return text.replace(str(launch.project), "PROJECT").splitlines()


GOOD = """\
ok       acp-launch            VERSIONS
ok       settings              the defaults; there is no ~/config/config.yaml
ok       directory config      ~/config (0755)
ok       directory state       ~/state (does not exist yet; created when needed)
ok       directory cache       ~/cache (does not exist yet; created when needed)
ok       disk state            N free
ok       disk cache            N free
ok       directory runtime     PLACE
ok       limit open files      LIMIT
ok       shims                 WAY
ok       control group         WAY
ok       confinement           WAY
ok       node                  WAY
ok       leftovers             none; 0 launches running
warning  secrets               keyring (keyring.backends.fail.Keyring): the keyring backend \
keyring.backends.fail.Keyring (chosen by PYTHON_KEYRING_BACKEND) always fails
                               fix: unset PYTHON_KEYRING_BACKEND, or name another one there
ok       profile p             ~/config/profiles/p.yaml (user)
ok       trust                 your own, or built in
ok       command agent         PYTHON
ok       command server files  PYTHON
ok       secret github         found: ACP_LAUNCH_SECRET_GITHUB
ok       agent                 test-agent 1.0.0, ACP 1; answered in N ms
                               can: http, logout
                               logins: Browser (browser)
ok       session               opened in N ms
ok       server files          The Polite One 1.2, MCP 2025-11-25; 16 tools (1 hidden by the profile), 1 resource; \
ready in N ms
ok       server docs           web 1, MCP 2025-06-18; 2 tools; ready in N ms
0 problems, 1 warning, 23 ok
"""


def logged_in(launch: Launcher, *ways: str) -> Json:
    """An agent that offers a login, which is done."""
    account = launch.project / "logged-in"
    account.touch()
    return agent("login", str(account), "agent", *ways)


@pytest.mark.promise("diagnosis")
def test_the_screen_of_a_profile_that_is_fit_for_a_run(launch: Launcher) -> None:
    own(
        launch,
        logged_in(launch, "http"),
        mcp_servers={
            "files": server("probe_polite", tools={"deny": ["die"]}, env={"TOKEN": "${secret:github}"}),
            "docs": {"type": "http", "url": "http://127.0.0.1:${env:PORT}/${env:TENANT}"},
        },
    )
    launch.config.chmod(0o755)
    with serving() as web:
        port = str(web.server_address[1])
        done = launch("doctor", "p", ACP_LAUNCH_SECRET_GITHUB=TOKEN, PORT=port, TENANT="acme-tenant")
    assert done.code == 0, done.err
    assert steady(done.out.decode(), launch) == GOOD.splitlines()
    assert done.err == ""
    assert done.methods == ["initialize", "session/new"]
    assert not [text for text in (TOKEN, "acme-tenant") if text in done.out.decode()]
    assert launch.env["HOME"] not in done.out.decode()


def test_json_has_the_same_as_data(launch: Launcher) -> None:
    own(launch, logged_in(launch), mcp_servers={"files": server("probe_polite")})
    found = examined(launch, 0)
    timings = [found[name]["facts"].pop("timings") for name in ("agent", "session", "server files")]
    lists = ["initialize", "tools/list", "resources/list"]
    assert [list(each) for each in timings] == [["initialize"], ["session/new"], lists]
    assert all(0 <= taken < PATIENCE for each in timings for taken in each.values())
    assert found["agent"]["facts"] == {
        "agent_name": "test-agent",
        "agent_version": "1.0.0",
        "protocol_version": 1,
        "capabilities": ["logout"],
        "auth_methods": [{"id": "browser", "name": "Browser", "type": "agent"}],
    }
    facts = found["server files"]["facts"]
    assert (facts["server_name"], facts["protocol_version"]) == ("polite", "2025-11-25")
    assert facts["counts"] == {"tools/list": 16, "resources/list": 1}
    assert (list(facts["refused"]), facts["answers_ping"], facts["downloaded"]) == (["prompts/list"], True, False)


def test_without_a_profile_it_is_about_the_machine_and_every_profile_there_is(launch: Launcher) -> None:
    own(launch, agent("polite"), name="mine")
    (launch.project / ".acp-launch" / "broken.yaml").write_text("version: 1\nagent: {comand: x}\n")
    done = launch("doctor", "--json")
    assert (done.code, done.err) == (2, "")
    found = checks(done)
    assert found["profiles"]["text"] == "mine, claude, codex, demo, gemini, opencode"
    standing, text, fix = told(found["profile broken"])
    assert (standing, fix) == ("problem", f"acp-launch validate {launch.project}/.acp-launch/broken.yaml")
    assert re.fullmatch(r"\d problems? \(project\)", text)
    assert done.heard == []


# What is wrong


def test_what_is_missing_stops_only_the_parts_that_need_it(launch: Launcher) -> None:
    secret = server("probe_polite", env={"TOKEN": "${secret:github}"})
    own(launch, {"command": "no-such-agent"}, mcp_servers={"files": server("probe_polite"), "hub": secret})
    found = examined(launch, 3)
    folders = len(os.environ["PATH"].split(os.pathsep))
    assert told(found["agent"]) == (
        "problem",
        f'~/config/profiles/p.yaml:4:14: agent.command: "no-such-agent" is not on PATH (looked in {folders} folders)',
        "install it, or give an absolute path; aliases and functions of a shell do not work here",
    )
    assert "command agent" not in found
    assert (found["server files"]["standing"], found["secret github"]["standing"]) == ("ok", "problem")
    fix = f"export ACP_LAUNCH_SECRET_GITHUB=..., or {FAIL_KEYRING}"
    assert told(found["server hub"]) == ("warning", "not started: it needs the secret github", fix)


@pytest.mark.promise("diagnosis")
def test_a_server_that_dies_says_its_last_words_and_whether_a_session_needs_it(launch: Launcher) -> None:
    servers = {"a": server("crasher", "start"), "b": server("crasher", "start", required=False)}
    own(launch, agent("polite"), mcp_servers=servers)
    found = examined(launch, 8)
    assert told(found["server a"]) == (
        "problem",
        'the MCP server "a" exited with status 3 before it answered initialize',
        "is the command right? some servers speak MCP on stdio only with a flag or a subcommand",
    )
    assert found["server a"]["detail"][-1] == "crasher: last words"
    assert found["server b"]["standing"] == "warning"
    own(launch, agent("polite"), mcp_servers={"b": servers["b"]})
    examined(launch, 0)


def test_what_says_nothing_is_given_up_at_its_own_limit(launch: Launcher) -> None:
    own(
        launch,
        agent("mute", timeouts={"initialize": "300ms"}),
        mcp_servers={"m": server("mute", timeouts={"start": "200ms"}), "ok": server("probe_polite")},
    )
    found = examined(launch, 4)
    assert told(found["agent"]) == (
        "problem",
        "no answer to initialize from the agent within 0.3 s",
        f"{ACP_MODE}; if it needs longer: agent.timeouts.initialize in the profile",
    )
    assert told(found["server m"])[:2] == ("problem", 'no answer to initialize from the MCP server "m" within 0.2 s')
    assert found["server ok"]["standing"] == "ok"


def test_a_login_that_is_wanted_shows_when_a_session_is_asked_for(launch: Launcher) -> None:
    own(launch, agent("auth"))
    found = examined(launch, 6)
    assert found["agent"]["standing"] == "ok"
    wanted = "the agent wants a login first: Authentication required"
    assert told(found["session"]) == ("problem", wanted, "acp-launch login p")
    assert found["session"]["detail"][0] == "it offers: Log in with a browser (browser): Opens a page of the provider"
    done = launch("doctor", "p", "--no-session", "--json")
    assert (done.code, done.methods) == (0, ["initialize"])
    unopened = "not opened (--no-session); a run may still fail to open one"
    assert told(checks(done)["session"]) == ("warning", unopened, "acp-launch doctor p")


# What a run refuses


@pytest.fixture
def refused(launch: Launcher) -> "Callable[..., list[Json]]":
    """What `doctor` finds wrong with a profile that a run refuses; both have the same exit code, and a run says of each
    problem what `doctor` says."""

    def both(agent: Json, code: int, *arguments: str, **sections: Any) -> list[Json]:
        own(launch, agent, **sections)
        run = launch("run", "p", "hi", "--output", "json", *arguments)
        done = launch("doctor", "p", "--json", *arguments)
        assert (run.code, done.code) == (code, code), (run.err, done.out)
        wrong = [each for each in json.loads(done.out)["checks"] if each["standing"] == "problem"]
        error = run.event("error")
        said = [(f"{each['path']}: {each['message']}", each["fix"]) for each in error["problems"]]
        said = said or [(error["message"].replace(launch.env["HOME"], "~"), error["fix"])]
        assert [(re.sub(r"^\S+:\d+:\d+: ", "", each["text"]), each["fix"]) for each in wrong] == said
        return wrong

    return both


def test_a_server_that_the_agent_does_not_take_is_a_problem_of_both(
    launch: Launcher, refused: "Callable[..., list[Json]]"
) -> None:
    with tempered() as docs, tempered(era="sse") as old:
        remote = {
            "docs": {"type": "http", "url": docs.url, "bridge": False},
            "old": {"type": "sse", "url": old.url, "bridge": False},
        }
        wrong = refused(agent("polite", "sse"), 3, mcp_servers=remote)
        assert [each["subject"] for each in wrong] == ["docs"]
        wrong = refused(agent("polite"), 3, mcp_servers=remote)
        assert [each["subject"] for each in wrong] == ["docs", "old"]


def test_a_session_of_another_directory_is_a_problem_of_both(
    launch: Launcher, refused: "Callable[..., list[Json]]", tmp_path: Path
) -> None:
    own(launch, agent("replayer"), session={"name": "work"})
    assert launch("run", "p", "hi").code == 0
    (wrong,) = refused(agent("replayer"), 3, "--cwd", str(tmp_path), session={"name": "work"})
    assert (wrong["check"], wrong["subject"]) == ("session", "work")
    (wrong,) = refused(agent("polite"), 3, session={"name": "work"})
    assert wrong["text"] == 'the agent can neither load nor resume a session, so "work" cannot be continued'
    (wrong,) = refused(agent("polite"), 3, session={"mode": "plan"})
    assert wrong["text"].endswith(" session.mode: the agent has no options to set")


def test_a_session_that_was_opened_is_given_back(launch: Launcher) -> None:
    own(launch, agent("forgetful"))
    done = launch("doctor", "p", "--session")
    assert done.code == 0, done.out
    assert done.methods == ["initialize", "session/new", "session/delete"]
    assert done.params("session/new") == {"cwd": str(launch.project), "mcpServers": []}


def test_a_wrong_profile_starts_nothing_and_the_machine_is_told_all_the_same(launch: Launcher) -> None:
    assert told(examined(launch, 2)["profile"])[:2] == ("problem", 'no profile named "p"')
    own(launch, {"comand": "x"}, mcp_servers={"files": server("probe_polite")})
    done = launch("doctor", "p", "--json")
    found = json.loads(done.out)["checks"]
    assert (done.code, {each["check"] for each in found if each["standing"] == "problem"}) == (2, {"profile"})
    assert {"directory", "disk", "limit", "leftovers"} <= {each["check"] for each in found}
    assert "server" not in {each["check"] for each in found}


def test_wrong_settings_are_told_and_nothing_is_guessed(launch: Launcher) -> None:
    launch.configure("max_line: 3 parsecs\n")
    found = examined(launch, 2)
    assert list(found) == ["acp-launch", "settings"]
    assert found["settings"]["text"].startswith("~/config/config.yaml:1:11: max_line: ")


def test_a_profile_of_a_project_starts_nothing_until_it_is_trusted(launch: Launcher) -> None:
    touched, shell = launch.project / "touched", shutil.which("sh")
    command = {"command": "sh", "args": ["-c", f"touch {touched}"]}
    launch.write({"agent": {**command, "env": {"A": "${secret:github}"}}, "mcp_servers": {"s": command}})
    launch.env["ACP_LAUNCH_SECRET_GITHUB"] = TOKEN
    # Not by `launch`, which trusts whatever a test has written.
    done = forkserver.completed(["doctor", "p", "--json"], env=launch.env, cwd=launch.project)
    assert done.returncode == 7
    found = checks(Ended(7, done.stdout.encode(), "", []))
    assert told(found["trust"]) == (
        "problem",
        "this project's profile is not trusted yet; nothing was started",
        "to trust it: acp-launch trust p; to run it once: --trust",
    )
    assert [" ".join(line.split()) for line in found["trust"]["detail"]] == [
        f"directory {launch.project}",
        "permissions ask",
        f"agent {shell} -c 'touch {touched}'",
        'sets A: "${secret:github}"',
        "gets your whole environment",
        f"mcp server s: {shell} -c 'touch {touched}'",
        f"directory {launch.project} (the session's)",
        "secrets github",
    ]
    assert not {"agent", "server s", "secret github", "command agent"} & set(found)
    assert not touched.exists()
    assert examined(launch, 4)["trust"]["standing"] == "warning"
    assert touched.exists()


@pytest.mark.parametrize("opens", [True, False], ids=["opened", "not opened"])
def test_a_required_server_that_never_answers_is_a_problem_of_both(launch: Launcher, opens: bool) -> None:
    """Whatever its agent makes of it: no prompt without a user is sent, as its turn would lack what it needs."""
    mute = server("mute", timeouts={"start": "300ms"}, restart={"policy": "never"})
    own(launch, DEMO if opens else agent("polite"), mcp_servers={"m": mute})
    wrong = told(examined(launch, 8)["server m"])
    silent = 'no answer to initialize from the MCP server "m" within 0.3 s'
    assert wrong[:2] == ("problem", silent)
    done = launch("run", "p", "hello", *([] if opens else ["--output", "json"]))
    assert (done.code, "session/prompt" in done.methods) == (8, False), done.err
    assert done.err.splitlines()[-2:] == [
        f"acp-launch: {silent}",
        f"    fix: {wrong[2]}; with required: false a run starts without it",
    ]
    if opens:
        assert [line.partition("acp-launch: ")[2] for line in done.err.splitlines()][:2] == [
            "m has not answered within 0.3 s; the session opens meanwhile",
            "the prompt waits for m (0.3 s), as timeouts.start says",
        ]
        assert done.out == b""
    else:
        assert "result" not in [event["type"] for event in done.events]
        assert (done.events[-1]["type"], done.event("error")["exitCode"]) == ("error", 8)
    own(launch, DEMO if opens else agent("polite"), mcp_servers={"m": {**mute, "required": False}})
    assert launch("run", "p", "hello").code == 0


def test_a_server_that_answers_the_handshake_only_is_no_problem_of_an_agent_that_opens_none(launch: Launcher) -> None:
    """It does not answer our ping, so before the prompt we shake hands with it, as `doctor` does."""
    own(launch, agent("polite"), mcp_servers={"shy": server("pinghater", timeouts={"start": "20s"})})
    examined(launch, 0)
    done = launch("run", "p", "hi")
    assert (done.code, done.out) == (0, b"You said: hi\n"), done.err


def test_a_keyring_that_answers_is_said_to_and_for_a_locked_one_no_dialog_is_shown(
    launch: Launcher, desktop: Desktop
) -> None:
    del launch.env["PYTHON_KEYRING_BACKEND"]
    launch.env |= desktop.environ
    kept = launch("secret", "set", "github", stdin=TOKEN.encode())
    assert kept.code == 0, kept.err
    own(launch, agent("polite", env={"KEY": "${secret:github}"}))
    found = examined(launch, 0)
    assert told(found["secrets"]) == ("ok", "keyring (Secret Service): it answers without a dialog", "")
    assert told(found["secret github"]) == ("ok", "found: keyring (Secret Service)", "")
    lock(desktop)
    found = examined(launch, 3)
    reason = "the desktop keyring is locked, and acp-launch cannot ask you to unlock it"
    assert told(found["secrets"])[:2] == ("warning", f"keyring (Secret Service): {reason}")
    assert told(found["secret github"])[:2] == ("problem", reason)
    fix = found["secret github"]["fix"]
    assert told(found["agent"]) == ("warning", "not started: it needs the secret github", fix)
    assert found["secrets"]["facts"] == {"store": "keyring", "state": "locked"}


def test_a_command_that_keeps_secrets_is_looked_for_and_not_run(launch: Launcher) -> None:
    env: Json = {"ACP_LAUNCH_SECRETS__STORE": "command", "ACP_LAUNCH_SECRETS__COMMAND": '["no-such-store", "{name}"]'}
    found = checks(launch("doctor", "--json", **env))
    standing, text, _ = told(found["secrets"])
    assert standing == "warning"
    assert text.startswith('command: "no-such-store" is not on PATH')


# Leftovers, and its own end


def test_what_a_dead_run_left_behind_is_told_and_not_touched(launch: Launcher) -> None:
    """A run was killed together with its guards; its agent ended by itself, and left a daemon."""
    launch.profile("wrapper", "cancellable")
    launch("trust", "p", "--yes")
    with launch.start("run", "p", "hi", "--output", "json", apart=True) as running:
        running.hears("session/prompt")
        (found,) = json.loads(launch("ps", "--json").out)["launches"]
        guards = [each["pid"] for each in found["processes"] if each["name"] == "guard"]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in (running.process.pid, *guards):
                os.kill(pid, number)
        running.process.wait(PATIENCE)
        for _ in range(2):
            standing, text, fix = told(checks(launch("doctor", "--json"))["leftovers"])
            assert (standing, fix) == ("warning", "acp-launch reap; the next start stops them too")
            assert re.search(r"^a run of p left behind .*\bpython\S* \(\d+\)", text)
        launch("reap")
        assert told(checks(launch("doctor", "--json"))["leftovers"]) == ("ok", "none; 0 launches running", "")


def test_a_signal_ends_everything_and_what_is_known_is_printed(launch: Launcher) -> None:
    own(launch, agent("mute"), mcp_servers={"s": server("mute")})
    with launch.start("doctor", "p", "--json") as running:
        running.hears("initialize")
        running.kill(signal.SIGTERM)
        done = running.end()
    assert done.code == 143, done.err
    said = json.loads(done.out)
    assert (said["complete"], said["exit_code"]) == (False, 0)
    found = checks(done)
    assert told(found["agent"]) == ("warning", "the check was interrupted", "run it again")
    assert found["leftovers"]["standing"] == "ok"
    assert "acp-launch: stopped; these are the results so far\n" in done.err


def test_on_a_terminal_it_says_what_it_starts_and_ctrl_c_shows_what_is_known(launch: Launcher) -> None:
    own(launch, agent("mute"), mcp_servers={"s": server("mute")})
    with on_terminal("doctor", "p", cwd=launch.project, env=launch.env) as terminal:
        terminal.until("acp-launch: starting agent, s")
        terminal.types("\x03")
        assert terminal.ends() == 130
    assert re.search(r"\nwarning +agent +the check was interrupted\n", terminal.text)
    assert "\n0 problems, 3 warnings, " in terminal.text
