"""Ring 3. Nothing of a project runs before it was accepted, and nothing runs that is not what was accepted."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli import forkserver
from tests.cli.inprocess import completed
from tests.cli.launcher import DEMO, DEMO_SERVER, needs_a_process
from tests.cli.terminal import on_terminal, yes_or_no
from tests.interactive.screen import on_screen

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".acp-launch").mkdir(parents=True)
    (tmp_path / "project" / ".git").mkdir()
    return tmp_path / "project"


@pytest.fixture
def run(project: Path) -> Run:
    def run(*arguments: str, cwd: Path = project, **env: str) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, **env}
        if needs_a_process(arguments):
            return forkserver.completed(arguments, env=environment, cwd=cwd)
        return completed(arguments, env=environment, cwd=cwd)

    return run


def write(project: Path, name: str = "review", **profile: Any) -> Path:
    file = project / ".acp-launch" / f"{name}.yaml"
    file.write_text(json.dumps({"version": 1, "agent": DEMO, **profile}, indent=1))
    return file


def test_the_screen_says_what_plan_says_in_its_words_and_order(project: Path, run: Run) -> None:
    (project / "lib").mkdir()
    write(
        project,
        workspace={"additional_directories": ["lib"]},
        session={"mode": "plan", "config": {"model": "opus", "fast": True}},
        permissions={"rules": [{"deny": {"command": "rm *"}}], "unattended": "allow-reads"},
        client={"fs": "read", "terminal": True},
        mcp_servers={"notes": {**DEMO_SERVER, "required": False}},
    )
    refused, plan = run("run", "review", "add 2 3").stderr, run("plan", "review").stdout
    screen = [" ".join(row.replace('"', "").split()) for row in refused.splitlines()]
    planned = [" ".join(row.partition("  .acp-launch/")[0].split()) for row in plan.splitlines()]
    both = [row for row in planned if row in screen]
    assert [row for row in screen if row in planned] == both
    words = [row.split(maxsplit=1)[0] for row in both]
    settings = ["directory", "also", "mode", "config", "fast:", "permissions", "deny", "unattended", "client"]
    assert words == [*settings, "directory"], "the last one is the server's"
    labels = [row[2:14].strip() for row in refused.splitlines() if row[:3] != " " * 3]
    assert [label for label in labels if label in ("agent", "mcp server")] == ["agent", "mcp server"]


@pytest.mark.promise("trust")
def test_a_project_profile_is_refused_until_it_is_trusted_and_runs_afterwards(project: Path, run: Run) -> None:
    write(
        project,
        permissions={"default": "allow"},
        client={"terminal": True},
        mcp_servers={
            "notes": {**DEMO_SERVER, "env": {"TOKEN": "${env:HOME}"}},
            "docs": {"type": "http", "url": "https://docs.example.com/mcp", "headers": {"X-Team": "a"}},
        },
    )
    refused = run("run", "review", "add 2 3")
    assert (refused.returncode, refused.stdout) == (7, "")
    said = " ".join(refused.stderr.split())
    assert "this project's profile is not trusted yet: .acp-launch/review.yaml" in said
    assert f"agent {shlex.quote(sys.executable)} -I -m acp_launch.demo.agent" in said
    assert (
        f"server notes: {shlex.quote(sys.executable)} -I -m acp_launch.demo.server from ${{python}} sets TOKEN: "
        in said
    )
    assert 'server docs: http https://docs.example.com/mcp sends X-Team: "a"' in said
    assert "permissions allow" in said
    assert "client runs commands for the agent" in said
    assert os.environ["HOME"] not in said.replace(str(project), ""), "names of variables, never their values"
    assert "fix: to trust it: acp-launch trust review; to run it once: --trust" in said

    write(project)
    accepted = run("trust", "review", "--yes")
    assert (accepted.returncode, accepted.stdout) == (0, "")
    assert accepted.stderr.endswith(
        "acp-launch: trusted; you will be asked again if it changes: .acp-launch/review.yaml\n"
    )
    done = run("run", "review", "count 2")
    assert (done.returncode, done.stdout) == (0, "1 2 \n")
    assert "review" in run("trust", "--list").stdout
    again = run("trust", "review")
    assert "is trusted already: it has not changed since you trusted it" in again.stderr


def test_a_remote_server_is_shown_with_what_is_sent_to_it_and_given_away(project: Path, run: Run) -> None:
    there = {"type": "http", "url": "http://docs.example.com/mcp", "insecure": True}
    write(
        project,
        mcp_servers={
            "docs": {**there, "env": {"REGION": "eu"}},
            "theirs": {**there, "headers": {"X-Key": "${secret:key}"}, "bridge": False, "required": False},
        },
    )
    said = " ".join(run("run", "review", "hi").stderr.split())
    docs, theirs = said.split("server theirs: ")
    assert 'server docs: http http://docs.example.com/mcp sends X-Env-REGION: "eu" may send them unencrypted' in docs
    assert "connects to it" not in docs
    assert 'sends X-Key: "${secret:key}" may send them unencrypted (insecure: true)' in theirs
    assert "the agent connects to it, and gets its address, its headers and their secrets not required" in theirs


def test_a_login_is_shown_with_its_scopes_and_client(project: Path, run: Run) -> None:
    there = {"type": "http", "url": "https://docs.example.com/mcp"}
    oauth = {"client_id": "ours", "client_secret": "${secret:docs}", "scopes": ["read", "write"]}
    pinned = {**oauth, "issuer": "https://login.example.com"}
    loose = {"callback": "localhost", "resource": False}
    write(project, mcp_servers={"docs": {**there, "oauth": pinned}, "wiki": {**there, "oauth": loose}})
    said = " ".join(run("run", "review", "hi").stderr.split())
    docs, wiki = said.split("server wiki: ")
    assert "asks you to log in at https://login.example.com, for the scopes read, write, as the client ours" in docs
    assert (
        "asks you to log in, for the scopes that it names, answered at localhost, "
        "for a token that may be good elsewhere (resource: false)"
    ) in wiki


def test_one_run_may_do_without(project: Path, run: Run) -> None:
    write(project)
    assert run("run", "--trust", "review", "where").returncode == 0
    assert run("run", "review", "where").returncode == 7, "the profile was not trusted for good"


@pytest.mark.promise("trust")
def test_a_change_makes_it_inert_again_and_is_shown_and_a_comment_does_not(project: Path, run: Run) -> None:
    file = write(project)
    run("trust", "review", "--yes")
    text = file.read_text()
    file.write_text(f"# a comment\n{text}\n# another\n")
    assert run("run", "review", "where").returncode == 0
    write(project, description="harmless")
    refused = run("run", "review", "where")
    assert refused.returncode == 7
    assert "this profile has changed since you trusted it" in refused.stderr
    assert "changed since you accepted it on " in refused.stderr
    assert '+ description: "harmless"' in refused.stderr
    file.write_text(text)
    assert run("run", "review", "where").returncode == 0, "it is what was accepted"


def test_it_is_taken_back(project: Path, run: Run) -> None:
    write(project)
    run("trust", "review", "--yes")
    assert run("trust", "review", "--revoke").returncode == 0
    assert run("run", "review", "where").returncode == 7
    assert run("trust", "review", "--revoke").returncode == 2


def test_without_a_terminal_nothing_is_accepted_unasked(project: Path, run: Run) -> None:
    write(project)
    refused = run("trust", "review")
    assert refused.returncode == 7
    assert "the profile was not trusted" in refused.stderr
    assert run("run", "review", "where").returncode == 7


KEYS = {"y": 0, "\nn": 7, "\x04": 7, "\x03": 130}


@pytest.mark.promise("trust")
@pytest.mark.sample(1)
@pytest.mark.parametrize(("typed", "code"), KEYS.items())
def test_a_person_is_shown_everything_and_asked(project: Path, run: Run, typed: str, code: int) -> None:
    write(project)
    with on_terminal("trust", "review", cwd=project, env={**os.environ, "TERM": "xterm"}) as terminal:
        terminal.until(yes_or_no("Trust this profile?"))
        assert "acp_launch.demo.agent" in terminal.text
        terminal.types(typed)
        assert terminal.ends() == code
    assert run("run", "review", "where").returncode == (0 if code == 0 else 7)


def test_what_is_the_users_own_or_built_in_is_trusted(project: Path, run: Run) -> None:
    own = Path(os.environ["ACP_LAUNCH_CONFIG_DIR"]) / "profiles"
    own.mkdir(parents=True)
    (own / "mine.yaml").write_text(json.dumps({"version": 1, "agent": DEMO}))
    assert run("run", "mine", "where").returncode == 0
    assert run("run", "demo", "where").returncode == 0
    assert "it is your own, or built in" in run("trust", "mine").stderr


@pytest.mark.parametrize(("typed", "code"), [("y", 0), ("n", 7)])
def test_a_person_who_runs_it_is_asked_at_once(project: Path, run: Run, typed: str, code: int) -> None:
    write(project)
    argv = [sys.executable, "-m", "acp_launch", "run", "review", "where"]
    with on_screen(*argv, cwd=project, columns=120) as terminal:
        terminal.until(yes_or_no("Trust this profile and continue?"))
        terminal.types(typed)
        assert terminal.ends() == code
    assert run("run", "review", "where").returncode == code


def test_no_other_tool_is_made_to_run_what_was_not_accepted(project: Path, run: Run) -> None:
    write(project, mcp_servers={"evil": {"command": "touch", "args": ["pwned"]}})
    claude, zed = project / ".mcp.json", Path(os.environ["HOME"]) / ".config" / "zed" / "settings.json"
    for tool in ("claude", "zed"):
        refused = run("export", "review", "--to", tool, "--write", "--yes")
        assert (refused.returncode, refused.stdout) == (7, "")
        assert "this project's profile is not trusted yet" in refused.stderr
        assert "server evil: /" in " ".join(refused.stderr.split())
    assert not claude.exists() and not zed.exists()
    elsewhere = run("export", "review", "--to", "claude", "--file", "elsewhere.json", "--yes")
    assert (elsewhere.returncode, (project / "elsewhere.json").exists()) == (7, False)

    printed = run("export", "review", "--to", "claude")
    assert (printed.returncode, list(json.loads(printed.stdout)["mcpServers"])) == (0, ["evil"])
    waved = run("export", "review", "--to", "claude", "--write", "--yes", "--trust")
    assert (waved.returncode, claude.exists()) == (0, True)
    assert run("trust", "review", "--yes").returncode == 0
    assert run("export", "review", "--to", "zed", "--write", "--yes").returncode == 0
    assert zed.exists()


def test_what_was_typed_before_the_question_accepts_nothing(project: Path) -> None:
    """Two lines that are pasted into a shell: the second one would be the answer."""
    write(project)
    shell = f"{shlex.quote(sys.executable)} -m acp_launch trust review; echo ended with $?"
    with on_screen("sh", "-c", f"read line; {shell}", cwd=project, columns=120, rows=30) as terminal:
        terminal.types("go\ny\n")
        terminal.until(yes_or_no("Trust this profile?"))
        terminal.types("n")
        terminal.until("ended with 7")
    assert not any("trusted as it is now" in row for row in terminal.all)


@pytest.mark.parametrize("arguments", [("--list", "review"), ("--list", "--revoke"), ("--list", "--yes")])
def test_what_does_not_go_together_is_a_usage_error_and_changes_nothing(
    project: Path, run: Run, arguments: tuple[str, ...]
) -> None:
    write(project)
    assert run("trust", "review", "--yes").returncode == 0
    assert run("trust", *arguments).returncode == 2
    assert "review" in run("trust", "--list").stdout


def test_a_name_does_not_take_back_what_is_trusted_in_another_project(project: Path, run: Run, tmp_path: Path) -> None:
    file = write(project)
    assert run("trust", "review", "--yes").returncode == 0
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    refused = run("trust", "review", "--revoke", cwd=other)
    assert refused.returncode == 2
    assert '"review" is not trusted here\n    fix: give the file\'s path; ' in refused.stderr
    assert run("trust", str(file), "--revoke", cwd=other).returncode == 0
