"""The verbs about profiles: answers on stdout, the rest on stderr, and exit codes (docs/scripting.md)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from acp_launch.cli.app import app
from acp_launch.errors import MachineError, ProfileError, UsageError
from acp_launch.profile.discover import built_in
from acp_launch.profile.schema import text as schema_text
from acp_launch.session.events import write_schema
from tests.cli.launcher import Launcher
from tests.patience import PATIENCE

GOOD = "version: 1\ndescription: Good one\nagent:\n  command: ${python}\n  env: {KEY: '${secret:k}', B: v-a-l-u-e}\n"
BAD = "version: 1\nagent: {comand: x}\n"
BAD_LINES = '{file}:2:9: agent.comand: unknown key "comand"; did you mean "command"?\n    fix: write command\n'


class Answer:
    def __init__(self, *arguments: str) -> None:
        result = CliRunner().invoke(app, list(arguments))
        self.code, self.out, self.err = result.exit_code, result.stdout, result.stderr
        self.raised = result.exception

    @property
    def data(self) -> dict[str, list[dict[str, object]]]:
        decoded: dict[str, list[dict[str, object]]] = json.loads(self.out)
        return decoded


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".acp-launch").mkdir()
    (tmp_path / ".acp-launch" / "good.yaml").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def broken(project: Path) -> str:
    (project / ".acp-launch" / "bad.yaml").write_text(BAD)
    return str(Path(".acp-launch") / "bad.yaml")


def test_a_good_profile_is_one_quiet_line(project: Path) -> None:
    answer = Answer("validate", "good")
    assert (answer.code, answer.out, answer.err) == (0, ".acp-launch/good.yaml: ok\n", "")


@pytest.mark.promise("profile")
def test_validate_works_through_all_and_fails_in_the_end(project: Path) -> None:
    file = broken(project)
    answer = Answer("validate", "bad", "good", "./gone.yaml")
    assert answer.code == 2
    assert answer.out == ".acp-launch/good.yaml: ok\n"
    assert answer.err == (
        BAD_LINES.format(file=file)
        + "gone.yaml: no such file\n    fix: acp-launch list shows all profiles\n"
        + "2 problems; 2 of 3 profiles cannot be used\n"
    )


def test_a_credential_in_a_description_is_not_listed(project: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    text = GOOD.replace("Good one", f"Good one {token}")
    (project / ".acp-launch" / "good.yaml").write_text(text)
    for answer in (Answer("list"), Answer("list", "--json")):
        assert token not in answer.out
        assert "Good one ***" in answer.out


def test_validate_without_names_takes_every_profile_there_is(project: Path) -> None:
    answer = Answer("validate")
    assert answer.code == 0
    assert answer.out.splitlines() == [".acp-launch/good.yaml: ok"] + [
        f"{file.stem} (built-in): ok" for file in sorted(built_in().glob("*.yaml"))
    ]
    assert Answer("validate").out == answer.out, "from the cache, too"


def test_validate_names_a_broken_parent_that_no_profile_extends(project: Path) -> None:
    (project / ".acp-launch" / "_base.yaml").write_text("mcp_servers:\n  x: {comand: y}\n")
    answer = Answer("validate")
    assert answer.code == 2
    assert ".acp-launch/good.yaml: ok" in answer.out
    assert answer.err.startswith(
        '.acp-launch/_base.yaml:2:7: mcp_servers.x.comand: unknown key "comand"; did you mean "command"?\n'
    )


def test_validate_as_json_says_the_same_on_stdout_alone(project: Path) -> None:
    file = broken(project)
    answer = Answer("validate", "--json", "good", "bad")
    assert (answer.code, answer.err) == (2, "")
    assert [(report["name"], report["ok"]) for report in answer.data["profiles"]] == [("good", True), ("bad", False)]
    assert [(each["file"], each["line"], each["column"], each["path"]) for each in answer.data["problems"]] == [
        (file, 2, 9, "agent.comand"),
    ]


def test_an_unknown_name_is_a_usage_error(project: Path) -> None:
    answer = Answer("validate", "goood")
    assert isinstance(answer.raised, UsageError)
    assert answer.raised.message == 'no profile named "goood"; did you mean "good"?'


def test_a_plan_shows_what_would_start_and_no_value_of_the_environment(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setenv("SHELL_TOKEN", "hunter2")
        answer = Answer("plan", "good")
        verbose = Answer("plan", "good", "--verbose")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0] == f"profile      good  ({project / '.acp-launch' / 'good.yaml'})"
    assert lines[1] == "             Good one  .acp-launch/good.yaml:2:14"
    assert f"directory    {project}" in lines
    assert "timeouts     initialize 2m, session 1m, silence 30m" in lines
    assert f"  command    {sys.executable}  .acp-launch/good.yaml:4:12" in lines
    assert "  variables  B  .acp-launch/good.yaml:5:32" in lines
    assert "             KEY  .acp-launch/good.yaml:5:14, ${secret:k}" in lines
    assert "SHELL_TOKEN" not in answer.out and "SHELL_TOKEN  inherited" in verbose.out
    assert not any(value in answer.out + verbose.out for value in ("hunter2", "v-a-l-u-e"))


def test_the_demo_can_be_planned_from_anywhere(project: Path) -> None:
    plan = json.loads(Answer("plan", "demo", "--json").out)
    assert plan["agent"]["command"] == sys.executable
    assert plan["agent"]["args"] == ["-I", "-m", "acp_launch.demo.agent"]
    assert [(server["name"], server["command"], server["args"]) for server in plan["mcp_servers"]] == [
        ("notes", sys.executable, ["-I", "-m", "acp_launch.demo.server"])
    ]


def test_the_plan_follows_the_cwd_option(project: Path) -> None:
    (project / "sub").mkdir()
    assert json.loads(Answer("plan", "good", "--json", "--cwd", "sub").out)["cwd"] == str(project / "sub")


def test_a_plan_this_machine_cannot_have_is_a_machine_error(project: Path) -> None:
    answer = Answer("plan", "good", "--cwd", "gone")
    assert isinstance(answer.raised, MachineError) and answer.raised.exit_code == 3
    assert str(answer.raised) == (
        f'--cwd: the directory "{project / "gone"}" does not exist\n    fix: mkdir -p {project / "gone"}'
    )
    as_json = Answer("plan", "good", "--cwd", "gone", "--json")
    assert (as_json.code, as_json.err) == (3, "")
    assert [problem["file"] for problem in as_json.data["problems"]] == ["--cwd"]


MISSING = """\
version: 1
agent: {command: ghost-agent, args: [--acp]}
mcp_servers:
  here: {command: "${python}"}
  gone: {command: ghost-server, args: [-v]}
  extra: {command: ghost-extra, required: false}
"""


def test_a_plan_shows_everything_and_marks_what_is_not_installed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    (project / ".acp-launch" / "good.yaml").write_text(MISSING)
    answer = Answer("plan", "good")
    assert answer.code == 3
    shown = [line.split("  .acp-launch")[0] for line in answer.out.splitlines()]
    marked = [(shown[index - 1], line) for index, line in enumerate(shown) if line.startswith("  missing ")]
    assert marked == [
        (f"  command    {name}", f'  missing    "{name}" is not on PATH (looked in 1 folder)')
        for name in ("ghost-agent", "ghost-server", "ghost-extra")
    ]
    assert f"  command    {sys.executable}" in shown and "  arguments  -v" in shown
    assert answer.err.splitlines()[-1] == "2 problems, 1 warning; a run would not start"
    answer = Answer("plan", "good", "--json")
    plan = json.loads(answer.out)
    assert (answer.code, answer.err) == (3, "")
    assert plan["agent"]["missing"] == '"ghost-agent" is not on PATH (looked in 1 folder)'
    assert [server["name"] for server in plan["mcp_servers"] if server["missing"]] == ["gone", "extra"]
    assert [problem["path"].rpartition(".")[0] for problem in plan["problems"]] == [
        *("agent", "mcp_servers.gone", "mcp_servers.extra")
    ]


def test_a_plan_of_a_broken_profile_is_a_profile_error(project: Path) -> None:
    file = broken(project)
    answer = Answer("plan", "bad")
    assert isinstance(answer.raised, ProfileError)
    assert str(answer.raised) + "\n" == BAD_LINES.format(file=file)
    assert Answer("plan", "bad", "--json").code == 2


def test_list_shows_shadowed_and_broken_profiles_too(project: Path) -> None:
    file = broken(project)
    (project / ".acp-launch" / "demo.yaml").write_text(GOOD)
    answer = Answer("list")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.splitlines()[:3] == [
        f"bad       project   (1 problem: acp-launch validate {file})",
        "demo      project   Good one",
        "good      project   Good one",
    ]
    assert (
        "demo      built-in  A scripted agent to try acp-launch with; no account, no network "
        "(shadowed by .acp-launch/demo.yaml)"
    ) in answer.out.splitlines()


def test_list_as_json_is_complete(project: Path) -> None:
    broken(project)
    entries = Answer("list", "--json").data["profiles"]
    assert entries[0] == {
        "name": "bad",
        "origin": "project",
        "description": "",
        "file": str(project / ".acp-launch" / "bad.yaml"),
        "project": str(project),
        "shadowed_by": None,
        "problems": 1,
    }
    assert {entry["name"] for entry in entries} >= {"good", "demo", "claude", "codex", "gemini", "opencode"}


def test_show_prints_the_file_as_it_is(project: Path) -> None:
    answer = Answer("show", "good")
    assert (answer.code, answer.out) == (0, GOOD)
    assert answer.err == f"# {project / '.acp-launch' / 'good.yaml'}\n"


def test_a_broken_profile_can_be_shown_and_a_missing_one_cannot(project: Path) -> None:
    broken(project)
    assert Answer("show", "bad").out == BAD
    assert isinstance(Answer("show", "./gone.yaml").raised, ProfileError)


def test_schema_goes_to_stdout_or_to_a_file(project: Path) -> None:
    assert Answer("schema").out == schema_text()
    assert Answer("schema", "--events").out == write_schema()
    written = Answer("schema", "-o", "schema.json")
    assert (written.code, written.out, written.err) == (0, "", "")
    assert (project / "schema.json").read_text(encoding="utf-8") == schema_text()


def test_a_schema_that_cannot_be_written_is_a_usage_error(project: Path) -> None:
    answer = Answer("schema", "--write", "no/such/dir.json")
    assert isinstance(answer.raised, UsageError)
    assert answer.raised.message == "cannot write no/such/dir.json: No such file or directory"


def test_a_list_says_how_many_profiles_were_not_read(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_launch.profile.load.MAX_PARSED", 1)
    for name in ("a", "b", "c"):
        (project / ".acp-launch" / f"{name}.yaml").write_text(BAD)
    for options in ((), ("--json",)):
        answer = Answer("list", *options)
        told = "profiles of this project that were not read, as they are too many or too large: 3"
        assert (answer.code, answer.err) == (0, f"acp-launch: {told}\n")
        assert "good" in answer.out


def test_a_name_that_a_project_of_thousands_lacks_is_told_in_short(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(60):
        (project / ".acp-launch" / f"p{number:02}.yaml").touch()
    answer = Answer("show", "nope")
    assert isinstance(answer.raised, UsageError)
    assert "p43, or 16 more that acp-launch list shows; or give" in answer.raised.fix


@pytest.mark.parametrize("words", ["list", "run demo hello", "batch run b.yaml"])
def test_a_current_directory_that_is_gone_is_said_so(launch: Launcher, words: str) -> None:
    """A machine that cannot: exit 3, whichever step asks for the directory first."""
    command = 'mkdir gone; cd gone; rmdir ../gone; exec "$@"'
    argv = ["sh", "-c", command, "sh", sys.executable, "-P", "-m", "acp_launch", *words.split()]
    ended = subprocess.run(argv, cwd=launch.project, env=launch.env, capture_output=True, text=True, timeout=PATIENCE)
    told = "acp-launch: the directory you are in no longer exists\n    fix: cd somewhere else\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "", told)


TOKEN = "ghp_" + "a1B2" * 9
LEAKING = f"version: 1\nagent: {{command: x}}\nmcp_servers:\n  github: {{command: x, env: {{GITHUB_TOKEN: {TOKEN}}}}}\n"
LEAK_LINES = (
    ".acp-launch/leaking.yaml:4:44: mcp_servers.github.env.GITHUB_TOKEN: this looks like a GitHub token\n"
    '    fix: acp-launch secret set github, then write "${secret:github}" here\n'
)
ODD = "version: 1\nagent: {command: x, env: {API_KEY: changeme}}\n"
ODD_LINES = (
    '.acp-launch/odd.yaml:2:36: agent.env.API_KEY: warning: "changeme" is a placeholder, not a key\n'
    '    fix: acp-launch secret set api-key, then write "${secret:api-key}" here\n'
)


@pytest.fixture
def careless(project: Path) -> Path:
    (project / ".acp-launch" / "leaking.yaml").write_text(LEAKING)
    (project / ".acp-launch" / "odd.yaml").write_text(ODD)
    return project


def test_validate_refuses_a_profile_that_holds_a_credential(careless: Path) -> None:
    for _ in range(2):  # checked, then known
        answer = Answer("validate", "leaking", "good")
        assert (answer.code, answer.out) == (2, ".acp-launch/good.yaml: ok\n")
        assert answer.err == LEAK_LINES + "1 problem; 1 of 2 profiles did not pass\n"


def test_a_plan_says_nothing_of_credentials(careless: Path) -> None:
    (careless / ".acp-launch" / "leaking.yaml").write_text(LEAKING.replace("command: x", 'command: "${python}"'))
    answer = Answer("plan", "leaking")
    assert (answer.code, answer.err) == (0, "")
    assert TOKEN not in answer.out


def test_a_warning_passes_unless_validate_is_strict(careless: Path) -> None:
    lenient = Answer("validate", "odd")
    assert (lenient.code, lenient.out, lenient.err) == (0, ".acp-launch/odd.yaml: ok\n", ODD_LINES)
    strict = Answer("validate", "--strict", "odd", "good")
    assert (strict.code, strict.out) == (2, ".acp-launch/good.yaml: ok\n")
    assert strict.err == ODD_LINES + "1 warning; 1 of 2 profiles did not pass\n"


def test_strict_as_json_says_which_profiles_pass(careless: Path) -> None:
    lenient, strict = (Answer("validate", "--json", *more, "odd", "good") for more in ([], ["--strict"]))
    assert (lenient.code, strict.code, strict.err) == (0, 2, "")
    assert [report["ok"] for report in lenient.data["profiles"]] == [True, True]
    assert [report["ok"] for report in strict.data["profiles"]] == [False, True]
    assert [problem["severity"] for problem in strict.data["problems"]] == ["warning"]


def test_a_leak_is_no_reason_to_list_a_profile_as_broken(careless: Path) -> None:
    assert [entry["problems"] for entry in Answer("list", "--json").data["profiles"]][:3] == [0, 0, 0]
