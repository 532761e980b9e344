"""`acp-launch` alone: where the user stands, and what to type next."""

import sys
from typing import Any

import pytest

from tests.cli.launcher import Launcher
from tests.cli.terminal import on_terminal
from tests.test_architecture import HEAVY, loaded

AGENT = {"command": sys.executable}


def shown(launch: Launcher, **env: Any) -> list[str]:
    ended = launch(**env)
    assert (ended.code, ended.err) == (0, "")
    return ended.out.decode().splitlines()


def needing(launch: Launcher, secret: str, **profile: Any) -> None:
    server = {"command": "cat", "env": {"TOKEN": f"${{secret:{secret}}}"}}
    launch.write({"agent": AGENT, "mcp_servers": {"tracker": server}, **profile}, name="needy")


@pytest.mark.promise("first steps")
def test_in_a_new_directory_it_says_how_to_begin(launch: Launcher) -> None:
    assert shown(launch) == [
        f"project   {launch.project}",
        "profiles  none yet; acp-launch list shows the built-in ones",
        "sessions  none yet",
        "",
        "next  acp-launch run demo  try it: an agent that needs no account",
        "      acp-launch init      create a profile for this project",
        "      acp-launch import    import agents and MCP servers from other tools",
        "      acp-launch --help    all commands; acp-launch help is the manual",
    ]
    assert not (launch.state / "sessions").exists(), "it makes no store"


def test_it_shows_profiles_with_their_trust_and_the_latest_sessions(launch: Launcher) -> None:
    launch.profile("polite", description="Reads pull requests")  # type: ignore[arg-type]
    for prompt in ("one", "two", "three"):
        assert launch("run", "p", f"Prompt {prompt}").code == 0
    assert launch("run", "p", "Prompt four", "--session", "fix-42").code == 0
    assert shown(launch) == [
        f"project   {launch.project}",
        "profiles  p                    not trusted yet  Reads pull requests",
        "sessions  fix-42: Prompt four  just now         p",
        "          Prompt three         just now         p",
        "          Prompt two           just now         p",
        "",
        "next  acp-launch run p    start a session; shows first what it would run, and asks",
        "      acp-launch session  resume a session",
        "      acp-launch --help   all commands; acp-launch help is the manual",
    ]
    assert launch("trust", "p", "--yes").code == 0
    assert shown(launch)[1].split() == ["profiles", "p", "trusted", "Reads", "pull", "requests"]
    launch.profile("polite", description="Reads more")  # type: ignore[arg-type]
    assert shown(launch)[1].endswith("changed since you trusted it  Reads more")


def test_a_missing_secret_and_a_broken_profile_come_first_among_the_next_commands(launch: Launcher) -> None:
    needing(launch, "github")
    launch.write({"agnet": AGENT}, name="broken")
    lines = shown(launch)
    assert lines[1:4] == [
        "profiles  broken  1 problem",
        "          needy   not trusted yet",
        "secrets   github  not set          needed by needy",
    ]
    assert [line.split("  ")[1 if line.startswith("next") else 3].strip() for line in lines[-4:]] == [
        "acp-launch validate broken",
        "acp-launch secret set github",
        "acp-launch run needy",
        "acp-launch --help",
    ]


def test_of_many_profiles_the_first_are_shown(launch: Launcher) -> None:
    for number in range(11):
        launch.profile("polite", name=f"p{number:02}")
    lines = shown(launch)
    assert lines[8] == "          p07  not trusted yet"
    assert lines[9] == "          3 more: acp-launch list"


def test_a_secret_in_a_variable_or_in_the_index_is_set(launch: Launcher) -> None:
    needing(launch, "github")
    assert not [line for line in shown(launch, ACP_LAUNCH_SECRET_GITHUB="not-real") if "secrets" in line]
    index = launch.state / "secrets.json"
    index.parent.mkdir(parents=True, exist_ok=True)
    index.write_text('{"version": 1, "stores": {"keyring": {"github": 1.0}}}')
    index.chmod(0o600)
    assert not [line for line in shown(launch) if "secrets" in line]
    index.write_text('{"version": 1, "stores": 7}')
    assert not [line for line in shown(launch) if "secrets" in line], "it does not guess"


def test_what_a_command_keeps_is_not_guessed(launch: Launcher) -> None:
    needing(launch, "github")
    store = {"ACP_LAUNCH_SECRETS__STORE": "command", "ACP_LAUNCH_SECRETS__COMMAND": '["false", "{name}"]'}
    assert not [line for line in shown(launch, **store) if "secrets" in line]


def test_a_damaged_store_of_sessions_is_no_obstacle(launch: Launcher) -> None:
    store = launch.state / "sessions" / "sessions.db"
    store.parent.mkdir(parents=True)
    store.write_bytes(b"no database" * 100)
    assert "sessions  cannot be read: acp-launch session list" in shown(launch)


def test_texts_of_a_profile_cannot_drive_the_terminal(launch: Launcher) -> None:
    launch.profile("polite", description="\x1b]0;owned\x07 and\nmore")  # type: ignore[arg-type]
    assert all(line.isprintable() for line in shown(launch))


def test_on_a_terminal_no_line_is_wider_than_it(launch: Launcher) -> None:
    launch.profile("polite", description="Reads pull requests " * 9)  # type: ignore[arg-type]
    with on_terminal(cwd=launch.project, env={**launch.env, "COLUMNS": "70"}) as terminal:
        assert terminal.ends() == 0
    assert max(len(line) for line in terminal.text.splitlines() if "project" not in line) == 70


@pytest.mark.parametrize("again", [False, True])
def test_it_starts_quickly_and_asks_no_keyring(again: bool) -> None:
    heavy = HEAVY - {"msgspec", "sqlite3"}
    assert not heavy & loaded() if again else not {"keyring", "psutil", "asyncio", "typer"} & loaded()
