"""`config`: the user's settings, where each comes from, and changes of the file."""

import json
from pathlib import Path
from typing import Any

import pytest

from acp_launch.settings.model import keys
from tests.cli.launcher import Launcher


@pytest.fixture
def file(launch: Launcher) -> Path:
    return launch.config / "config.yaml"


def settings(launch: Launcher, **env: Any) -> dict[str, dict[str, Any]]:
    done = launch("config", "--json", **env)
    assert (done.code, done.err) == (0, "")
    return {each["key"]: each for each in json.loads(done.out)["settings"]}


def test_every_setting_is_shown_with_its_value_and_its_origin(launch: Launcher, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("# mine\nsecrets:\n  timeout: 20s\n  command: [op, read, '{name}']\n")
    done = launch("config", ACP_LAUNCH_SECRETS__STORE="command")
    lines = [line.split("  ") for line in done.out.decode().splitlines()]
    rows = {words[0]: [word.strip() for word in words[1:] if word.strip()] for words in lines}
    assert rows["SETTING"] == ["VALUE", "FROM"]
    assert rows["secrets.timeout"] == ["20s", f"{file}:3"]
    assert rows["secrets.store"] == ["command", "ACP_LAUNCH_SECRETS__STORE"]
    assert rows["secrets.command"] == ["op read '{name}'", f"{file}:4"]
    assert rows["secrets.file.path"] == ["(not set)", "default"]
    assert rows["directory: config"] == [str(file.parent), "ACP_LAUNCH_CONFIG_DIR"]
    assert {".".join(key) for key in keys()} < set(rows)
    edit = "to edit it: acp-launch config edit; about all settings: acp-launch help settings"
    assert done.err == f"the file is {file}; {edit}\n"


def test_json_and_the_documentation_have_the_same(launch: Launcher, file: Path) -> None:
    known = {".".join(key) for key in keys()}
    assert set(settings(launch)) == known
    page = launch("help", "settings").out.decode()
    assert [key for key in known if key not in page] == []
    variable = "ACP_LAUNCH_SECRETS__TIMEOUT"
    found = settings(launch, **{variable: "7s"})["secrets.timeout"]
    assert found == {"key": "secrets.timeout", "value": "7s", "source": variable, "variable": variable}
    whole = json.loads(launch("config", "show", "--json").out)
    assert (whole["file"], whole["exists"]) == (str(file), False)
    assert [each["name"] for each in whole["directories"]] == ["config", "state", "cache"]


def test_a_setting_is_set_and_unset_and_comments_stay(launch: Launcher, file: Path) -> None:
    done = launch("config", "set", "secrets.timeout", "20s")
    assert (done.code, done.err) == (0, "")
    assert '+   timeout: "20s"' in done.out.decode()
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text(f"{file.read_text()}# the end\n")
    assert launch("config", "set", "max_line", "8MiB").code == 0
    assert settings(launch)["secrets.timeout"]["value"] == "20s"
    assert "# the end" in file.read_text()
    assert launch("config", "unset", "secrets.timeout").code == 0
    assert settings(launch)["secrets.timeout"]["source"] == "default"
    again = launch("config", "unset", "max_line")
    assert again.code == 0
    assert settings(launch)["max_line"]["source"] == "default"


def test_a_change_that_would_be_wrong_is_refused(launch: Launcher, file: Path) -> None:
    for words, said in (
        (["secrets.timeout", "soon"], "secrets.timeout: expected a duration"),
        (["secrets.tmeout", "3s"], 'unknown setting "secrets.tmeout"; did you mean "secrets.timeout"?'),
        (["secrets", "{}"], 'unknown setting "secrets"'),
        (["secrets.store", "command"], "the store is a command, but secrets.command is not set"),
    ):
        done = launch("config", "set", *words)
        assert (done.code, said in done.err) == (2, True)
        assert not file.exists()


def test_settings_that_are_wrong_are_shown_with_their_lines(launch: Launcher, file: Path) -> None:
    launch.configure("secrets: {stor: file}\n")
    done = launch("config")
    assert done.code == 2
    assert f'{file}:1:11: secrets.stor: unknown key "stor"' in done.err
    assert launch("config", "path").out.decode() == f"{file}\n"


def test_a_file_in_a_project_is_refused(launch: Launcher) -> None:
    (launch.project / "conf").mkdir()
    (launch.project / "conf" / "config.yaml").write_text("max_line: 8MiB\n")
    done = launch("config", "set", "max_line", "9MiB", ACP_LAUNCH_CONFIG_DIR=str(launch.project / "conf"))
    assert (done.code, "a project cannot choose your settings" in done.err) == (2, True)
