"""`profile add-server`, `set`, `remove`: one change of a profile's own file, judged before it is written."""

import stat
from pathlib import Path

import pytest

from acp_launch.profile.discover import built_in, find
from acp_launch.profile.load import load
from acp_launch.profile.trust import accept, trust_state
from acp_launch.settings.load import load as load_settings
from tests.cli.typed import Typed, typing

PROFILE = """\
# ours
version: 1
agent:
  command: ${python}   # any
mcp_servers:
  # code
  github: {command: npx, env: {TOKEN: "${secret:github}"}}
"""
TOKEN = "ghp_" + "a1B2" * 9


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".acp-launch").mkdir()
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".acp-launch" / "p.yaml").write_text(PROFILE)
    return tmp_path


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Typed:
    return typing(capsys, "profile")


def text(project: Path) -> str:
    return (project / ".acp-launch" / "p.yaml").read_text()


def test_a_program_is_added_as_a_server_and_the_change_is_shown(project: Path, typed: Typed) -> None:
    answer = typed("add-server", "p", "files", "--env", "A=${env:A}", "--", "npx", "-y", "@x/files", "a b")
    added = [
        "  files:",
        "    command: npx",
        '    args: [-y, "@x/files", a b]',
        '    env: {A: "${env:A}"}',
    ]
    assert answer == (0, "\n".join([".acp-launch/p.yaml  +4 -0", *(f"+ {line}" for line in added), ""]), "")
    assert text(project) == PROFILE + "\n".join(added) + "\n"


def test_an_address_is_added_as_a_server(project: Path, typed: Typed) -> None:
    header = "Authorization=Bearer ${secret:docs}"
    assert typed("add-server", "p", "docs", "--url", "https://x.example/mcp", "--header", header).code == 0
    assert typed("add-server", "p", "old", "--url", "https://x.example/sse", "--type", "sse").code == 0
    assert text(project) == (
        PROFILE
        + "  docs:\n    type: http\n    url: https://x.example/mcp\n"
        + '    headers: {Authorization: "Bearer ${secret:docs}"}\n'
        + "  old:\n    type: sse\n    url: https://x.example/sse\n"
    )


def test_what_is_no_server_is_refused(project: Path, typed: Typed) -> None:
    for name, arguments, said in (
        ("new", [], "a server has either a command or a --url\n    fix: give its command after --, as in "),
        ("new", ["--url", "https://x", "--", "npx"], "a server has either a command or a --url\n"),
        ("new", ["--header", "A=b", "--", "npx"], "--header goes with --url\n    fix: give a program its token in "),
        ("new", ["--env", TOKEN, "--", "npx"], "--env takes NAME=VALUE\n    fix: --env 'TOKEN=${secret:NAME}'\n"),
        (
            "new",
            ["--url", "https://x", "--header", f"Authorization: Bearer {TOKEN}"],
            "--header takes NAME=VALUE\n    fix: --header 'Authorization=Bearer ${secret:NAME}'\n",
        ),
        (
            "github",
            ["--", "x"],
            'server "github" already exists\n'
            "    fix: choose another name, or first: acp-launch profile remove p mcp_servers.github\n",
        ),
    ):
        done = typed("add-server", "p", name, *arguments)
        assert (done.code, done.out, done.err.startswith(f"acp-launch: {said}")) == (2, "", True), done.err
        assert TOKEN not in done.err
    assert text(project) == PROFILE


@pytest.mark.promise("profile")
def test_a_change_that_would_make_the_profile_wrong_is_not_made(project: Path, typed: Typed) -> None:
    assert typed("set", "p", "agent.comand", "x") == (
        2,
        "",
        '.acp-launch/p.yaml: agent.comand: unknown key "comand"; did you mean "command"?\n    fix: write command\n'
        "1 problem; nothing was changed\n",
    )
    assert typed("remove", "p", "agent.command").err == (
        ".acp-launch/p.yaml: agent.command: this key is required\n    fix: add: command: ...\n"
        "1 problem; nothing was changed\n"
    )
    assert text(project) == PROFILE


def test_a_profile_that_was_wrong_before_can_be_mended_step_by_step(project: Path, typed: Typed) -> None:
    file = project / ".acp-launch" / "p.yaml"
    file.write_text(PROFILE + "nonsense: 1\nfurther: 2\n")
    assert typed("remove", "p", "nonsense") == (
        0,
        ".acp-launch/p.yaml  +0 -1\n- nonsense: 1\n",
        "acp-launch: the profile has other problems: acp-launch validate p\n",
    )
    assert typed("remove", "p", "further").err == ""
    assert file.read_text() == PROFILE


@pytest.mark.parametrize("key", ["mcp_servers.github.env.OTHER", "description", "agent.args[0]"])
def test_a_token_is_refused_and_shown_nowhere(project: Path, typed: Typed, key: str) -> None:
    """Nor is one that is there already, by a change beside it."""
    answer = typed("set", "p", key, TOKEN)
    assert (answer.code, "this looks like a GitHub token" in answer.err) == (2, True)
    assert answer.err.endswith(
        "1 problem; nothing was changed\nacp-launch: your shell's history now has the token: rotate it\n"
    )
    assert TOKEN not in answer.out + answer.err
    assert text(project) == PROFILE
    (project / ".acp-launch" / "p.yaml").write_text(PROFILE.replace("${secret:github}", TOKEN))
    answer = typed("set", "p", "mcp_servers.github.required", "false")
    assert (answer.code, TOKEN in answer.out + answer.err, TOKEN in text(project)) == (0, False, True)


def test_what_a_parent_says_is_removed_by_a_null(project: Path, typed: Typed) -> None:
    child = project / ".acp-launch" / "child.yaml"
    child.write_text("version: 1\nextends: p\n")
    assert typed("remove", "child", "mcp_servers.github") == (
        2,
        "",
        ".acp-launch/child.yaml: mcp_servers.github: this is not set in the file\n"
        "    fix: acp-launch show --merged child prints what is there, and which file sets it\n"
        "1 problem; nothing was changed\n",
    )
    assert typed("set", "child", "mcp_servers.github", "null").code == 0
    assert child.read_text() == ("version: 1\nextends: p\n\nmcp_servers:\n  github: null\n")
    assert load(find("child", start=project, settings=load_settings())).profile.mcp_servers == {}
    assert text(project) == PROFILE


def test_a_built_in_profile_is_not_changed(project: Path, typed: Typed) -> None:
    before = (built_in() / "demo.yaml").read_bytes()
    said = (
        'acp-launch: "demo" is built into acp-launch and cannot be changed\n'
        "    fix: create a profile that extends it: acp-launch init my-demo --extends demo\n"
    )
    for name in ("demo", str(built_in() / "demo.yaml")):
        assert typed("set", name, "description", "x") == (2, "", said)
    assert (built_in() / "demo.yaml").read_bytes() == before


def test_a_link_is_not_followed_out_of_the_project_and_stays_within_it(
    project: Path, typed: Typed, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "x.yaml"
    elsewhere.write_text(PROFILE)
    file, link = (project / ".acp-launch" / name for name in ("p.yaml", "l.yaml"))
    link.symlink_to(elsewhere)
    said = (
        "acp-launch: .acp-launch/l.yaml is a link that leads out of the project\n    fix: name the file it leads to\n"
    )
    assert typed("set", "l", "description", "x") == (2, "", said)
    assert elsewhere.read_text() == PROFILE
    file.chmod(0o640)
    link.unlink()
    link.symlink_to("p.yaml")
    assert typed("set", "l", "description", "x").code == 0
    assert (link.is_symlink(), stat.S_IMODE(file.stat().st_mode)) == (True, 0o640)
    assert text(project) == PROFILE.replace("version: 1\n", "version: 1\ndescription: x\n")
    assert sorted(each.name for each in file.parent.iterdir()) == ["l.yaml", "p.yaml"]


def test_neither_what_is_so_already_nor_a_dry_run_is_written(project: Path, typed: Typed) -> None:
    """A text that would drive the terminal is shown harmless."""
    file = project / ".acp-launch" / "p.yaml"
    before = file.stat().st_ino
    already = "acp-launch: the profile already says this; nothing was changed\n"
    assert typed("set", "p", "version", "1") == (0, "", already)
    shown = '.acp-launch/p.yaml  +1 -0\n+ description: "a\\x1b[31m\\u202eb"\n'
    assert typed("set", "p", "description", "a\x1b[31m\u202eb", "--dry-run") == (0, shown, "")
    assert (file.stat().st_ino, text(project)) == (before, PROFILE)


def trust_in(project: Path) -> str:
    settings = load_settings()
    return trust_state(load(find("p", start=project, settings=settings)), settings).how


def test_a_profile_that_was_trusted_stays_so_after_the_users_own_change_alone(project: Path, typed: Typed) -> None:
    """A change by others is not trusted with it, nor a file of the project that the change adds to the profile."""
    settings = load_settings()
    accept(load(find("p", start=project, settings=settings)), settings)
    for words in (
        ("set", "p", "agent.args", "[x]"),
        ("add-server", "p", "files", "--", "files-mcp"),
        ("remove", "p", "mcp_servers.files"),
    ):
        assert (typed(*words).err, trust_in(project)) == ("", "accepted")
    (project / ".acp-launch" / "_base.yaml").write_text("version: 1\nagent: {env: {A: b}}\n")
    again = "acp-launch: trust it again before the next run: acp-launch trust p\n"
    assert (typed("set", "p", "extends", "_base").err, trust_in(project)) == (again, "changed")
    assert (typed("set", "p", "agent.args", "[y]").err, trust_in(project)) == ("", "changed")
