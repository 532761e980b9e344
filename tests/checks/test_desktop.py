"""The environment that a desktop gives to an editor, on each system, and as its session's manager tells it."""

from collections.abc import Sequence

import pytest

from acp_launch.checks.desktop import checks, defaults, desktop, variables

OWN = {
    "HOME": "/home/me",
    "PATH": "/home/me/.nvm/bin:/usr/bin",
    "XDG_RUNTIME_DIR": "/run/user/1000",
    "ANTHROPIC_API_KEY": "k",
    "EDITOR": "vi",
}


def silent(argv: Sequence[str]) -> str:
    return ""


def test_without_a_manager_of_the_session_path_is_short_and_exports_of_the_shell_are_gone() -> None:
    there = desktop(OWN, "linux", silent)
    assert there.environ == {
        "HOME": "/home/me",
        "XDG_RUNTIME_DIR": "/run/user/1000",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
    }
    assert (there.lacks("EDITOR"), there.lacks("HOME"), there.lacks("NEVER_SET")) == (True, False, False)


def test_systemd_is_asked_for_the_environment_of_the_session() -> None:
    asked = []

    def ask(argv: Sequence[str]) -> str:
        asked.append(list(argv))
        return "PATH=/opt/bin:/usr/bin\nEDITOR=nano\n"

    there = desktop(OWN, "linux", ask)
    assert asked == [["systemctl", "--user", "show-environment"]]
    assert (there.source, there.path, there.environ["EDITOR"]) == ("systemd", "/opt/bin:/usr/bin", "nano")
    assert there.environ["HOME"] == "/home/me"


def test_launchd_is_asked_for_what_it_sets() -> None:
    told = {"PATH": "/opt/homebrew/bin:/usr/bin\n", "SSH_AUTH_SOCK": ""}
    there = desktop(OWN, "darwin", lambda argv: told[argv[-1]])
    assert (there.path, "SSH_AUTH_SOCK" in there.environ) == ("/opt/homebrew/bin:/usr/bin", False)
    assert desktop(OWN, "darwin", silent).path == "/usr/bin:/bin:/usr/sbin:/sbin"


def test_windows_gives_every_program_the_same() -> None:
    assert desktop(OWN, "win32", silent).environ == OWN


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=plain", "plain"),
        ("A=with=sign", "with=sign"),
        ("A=$'two words'", "two words"),
        (r"A=$'tab\there \'quoted\' \303\274 \xc3\xbc ü'", "tab\there 'quoted' ü ü ü"),
        (r"A=$'\x'", r"$'\x'"),
        ("A=", ""),
    ],
)
def test_a_value_is_read_as_it_was_quoted(line: str, value: str) -> None:
    assert variables(f"{line}\nnot a variable\nno-name=x\n") == {"A": value}


def test_what_agents_read_is_told_by_name_and_without_its_value() -> None:
    there = desktop({**OWN, "https_proxy": "http://u:pass@p", "ACP_LAUNCH_SECRET_GITHUB": "s"}, "linux", silent)
    (found,) = checks(there, {"ACP_LAUNCH_STATE_DIR": "/s"}, {"ACP_LAUNCH_STATE_DIR": "/s"})
    assert found.facts["lost"] == ["ACP_LAUNCH_SECRET_GITHUB", "ANTHROPIC_API_KEY", "https_proxy"]
    assert "pass" not in str(found)


def test_a_directory_of_ours_that_only_a_shell_sets_is_told() -> None:
    _, found = checks(desktop(OWN, "linux", silent), {"ACP_LAUNCH_STATE_DIR": "/a"}, {"ACP_LAUNCH_STATE_DIR": "/b"})
    assert (found.verdict, found.subject) == ("warning", "ACP_LAUNCH_STATE_DIR")
    assert found.text == "it would be /b there; /a is checked"


def test_a_default_that_only_an_editor_gets_is_told() -> None:
    profile = {"agent": {"args": ["${env:EDITOR:-ed} ${env:LANG:-C}", "$${env:EDITOR:-x}"], "env": {"A": 1}}}
    (found,) = defaults(desktop(OWN, "linux", silent), profile)
    assert (found.subject, found.text) == ("EDITOR", "not set there, so the profile's default is used: ed")
