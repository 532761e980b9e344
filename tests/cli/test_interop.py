"""`import` and `export` as a person uses them; secrets go to a sealed file, so that no test needs a keyring."""

import json
import stat
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from acp_launch.cli import export
from tests.cli.launcher import DEMO_SERVER, Ended, Launcher
from tests.cli.terminal import Terminal, on_terminal, yes_or_no
from tests.cli.test_secrets import (
    NO_KEYRING,
    config_file,
    files_holding,
    listed,
    value_of,
)
from tests.interactive.screen import on_screen

PROFILE = """\
# ours
version: 1
agent:
  command: true  # kept as it is

# the end
"""
PLAIN = {"files": {"command": "files-mcp", "args": ["--root", "/srv"]}}
TOKENS = {
    "github": "ghp_Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0Uv1Wx2",
    "openai": "sk-proj-Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0",
    "slack": "xoxb-17653672481-19874698323-pdFZKVeTuE8sk7oOHcbrzqgy",
    "password": "correct-horse-battery",
    "short": "hunter2",
    "bearer": "Zq81-kkLm-29fj",
    "random": "q7Rk29fLmZt41vXw83NcDp05",
    "dsn": "s3cr3t-p4ss",
    "option": "tok-9f8e7d6c5b",
    "query": "AIzaSyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q",
}
TEN = {
    "one": {
        "command": "npx",
        "args": ["-y", "pkg", "--token", TOKENS["option"], f"--dsn=postgres://u:{TOKENS['dsn']}@h/d", TOKENS["random"]],
        "env": {
            "GITHUB_TOKEN": TOKENS["github"],
            "OPENAI_API_KEY": TOKENS["openai"],
            "SLACK": TOKENS["slack"],
            "DB_PASSWORD": TOKENS["password"],
            "ADMIN_PWD": TOKENS["short"],
            "AGAIN": f"x={TOKENS['password']};y",
        },
    },
    "two": {
        "type": "http",
        "url": f"https://x.example/mcp?key={TOKENS['query']}",
        "headers": {"Authorization": f"Bearer {TOKENS['bearer']}"},
    },
}


@pytest.fixture
def project(launch: Launcher) -> Launcher:
    """A sealed store, and a profile `p` with comments."""
    launch.configure("secrets: {store: file, file: {key_file: key}}\n")
    (launch.project / ".git").mkdir()
    profile(launch).write_text(PROFILE.replace("command: true", "command: cat"))
    return launch


def profile(launch: Launcher) -> Path:
    return launch.project / ".acp-launch" / "p.yaml"


def declared(launch: Launcher, servers: object, name: str = ".mcp.json") -> Path:
    file = launch.project / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"mcpServers": servers}))
    return file


def asked(launch: Launcher, *arguments: str) -> AbstractContextManager[Terminal]:
    return on_terminal("import", *arguments, cwd=launch.project, env=launch.env)


def taken(launch: Launcher, *options: str) -> Ended:
    return launch("import", "claude", "--into", "p", *options)


# import


def test_a_server_is_added_and_every_other_byte_of_the_profile_stays(project: Launcher) -> None:
    declared(project, PLAIN)
    before = profile(project).read_text()
    done = taken(project, "--yes")
    added = "mcp_servers:\n  files:\n    command: files-mcp\n    args: [--root, /srv]\n"
    assert done.code == 0
    assert done.err == "acp-launch: .acp-launch/p.yaml: files imported\n"
    assert "".join(f"+ {line}\n" for line in added.splitlines()) in done.out.decode()
    after = profile(project).read_text()
    assert added in after
    assert [line for line in before.splitlines() if line not in after.splitlines()] == []
    assert project("validate", "p").code == 0


@pytest.mark.promise("import")
def test_of_ten_literal_tokens_none_is_left_behind_and_all_are_in_the_store(project: Launcher) -> None:
    """The file they came from is the only one in the project, in the home and on the terminal that holds them."""
    source = declared(project, TEN)
    done = taken(project, "--yes")
    assert done.code == 0, done.err
    written = profile(project).read_text()
    for value in TOKENS.values():
        assert value not in written
        assert value.encode() not in done.out
        assert value not in done.err
        assert files_holding(value, project.project, Path(project.env["HOME"])) == [source]
    names = listed(project)
    assert len(names) == 10
    assert {value_of(project, name) for name in names} == set(TOKENS.values())
    assert all(f"${{secret:{name}}}" in written for name in names)
    assert project("secret", "check", "p").code == 0
    again = taken(project, "--yes")
    assert (again.code, again.out) == (0, b"")
    assert again.err.endswith("acp-launch: .acp-launch/p.yaml already has all of it; nothing was changed\n")
    assert (profile(project).read_text(), listed(project)) == (written, names)


def test_each_credential_is_named_with_its_place_and_its_new_name(project: Launcher) -> None:
    """A secret that holds something else is not overwritten."""
    assert project("secret", "set", "gh", stdin=b"of the user").code == 0
    declared(project, {"gh": {"command": "x", "env": {"TOKEN": TOKENS["github"]}}})
    done = taken(project, "--yes")
    store = project.config / "secrets.sealed"
    assert done.err == (
        "acp-launch: gh: env.TOKEN is a GitHub token; it becomes the secret gh/token\n"
        f"acp-launch: stored in the sealed file ({store}): gh/token\n"
        "acp-launch: the tokens are still in .mcp.json: delete them there, and rotate any that were shared\n"
        "acp-launch: .acp-launch/p.yaml: gh imported\n"
    )
    assert "${secret:gh/token}" in profile(project).read_text()
    assert (value_of(project, "gh"), value_of(project, "gh/token")) == ("of the user", TOKENS["github"])


def test_of_servers_with_one_name_the_nearest_is_imported_and_the_other_is_named(project: Launcher) -> None:
    """And of their files only the one that the imported token was in is named with it."""
    far = Path(project.env["HOME"]) / ".claude.json"
    same = {"command": "same-mcp", "env": {"TOKEN": TOKENS["github"]}}
    far.write_text(json.dumps({"mcpServers": {"files": {"command": "far-mcp"}, "same": {"command": "same-mcp"}}}))
    source = declared(project, {**PLAIN, "same": {"command": "same-mcp"}, "gh": same})
    done = project("import", "claude", "--into", "p", "--yes")
    assert done.code == 0, done.err
    assert "files-mcp" in profile(project).read_text()
    again = f"acp-launch import {far} --only files --as NAME"
    assert f"acp-launch: files in {far} is not imported: .mcp.json has another; to add it: {again}\n" in done.err
    assert "same in" not in done.err
    assert "acp-launch: the tokens are still in .mcp.json: delete them there" in done.err
    far.write_text(json.dumps({"mcpServers": {"x": {"command": "x", "env": {"TOKEN": TOKENS["openai"]}}, "gh": same}}))
    source.write_text(json.dumps({"mcpServers": PLAIN}))
    assert f"the tokens are still in {far}: " in project("import", "claude", "--into", "p", "--yes").err


def test_nothing_is_written_for_a_dry_run_or_without_a_yes(project: Launcher) -> None:
    declared(project, TEN)
    before = profile(project).read_bytes()
    no_terminal = "acp-launch: there is no terminal to ask on; nothing was written\n    fix: --yes imports all of it\n"
    for options, code, said in (
        (["--dry-run"], 0, "acp-launch: nothing was written (--dry-run)\n"),
        ([], 2, no_terminal),
    ):
        done = taken(project, *options)
        assert (done.code, done.err.endswith(said)) == (code, True), done.err
        assert b"${secret:one/github-token}" in done.out
        assert profile(project).read_bytes() == before
        assert not (project.config / "secrets.sealed").exists()


def test_a_person_is_asked_about_the_change_and_about_each_credential(project: Launcher) -> None:
    server = {
        "command": "x",
        "args": [TOKENS["random"]],
        "env": {"TOKEN": TOKENS["github"], "API_KEY": TOKENS["openai"]},
    }
    declared(project, {"s": server})
    with asked(project, "claude", "--into", "p") as terminal:
        terminal.answers(
            {
                "[n] No": "y\n",
                "[n] No, it is not a secret; leave it as it is": "n\n",
                "s: env.TOKEN is a GitHub token. Store it?": "",
                "s/token\n▐ [n] No, I will store it myself": "y",
                "s: env.API_KEY is an OpenAI key. Store it?": "",
                "s/api-key\n▐ [n] No, I will store it myself": "n",
            }
        )
        assert terminal.ends() == 0
        shown = terminal.text
    assert "acp-launch secret set s/api-key" in shown
    assert TOKENS["github"] not in shown
    assert TOKENS["openai"] not in shown
    written = profile(project).read_text()
    assert f"args: [{TOKENS['random']}]" in written
    assert "${secret:s/token}" in written
    assert "${secret:s/api-key}" in written
    assert list(listed(project)) == ["s/token"]


@pytest.mark.parametrize(
    ("words", "answers", "code"),
    [
        ([], {"Numbers of those to import [all]: ": "none\n"}, 0),
        ([], {"Numbers of those to import [all]: ": "\x03"}, 130),
        (["claude", "--into", "p"], {"[n] No": "n"}, 2),
        (["claude", "--into", "p"], {"[n] No": "y\n", "[n] No, I will store it myself": "\x03"}, 130),
    ],
    ids=str,
)
def test_the_file_stays_as_it_is_unless_the_user_agrees(
    project: Launcher, words: list[str], answers: dict[str, str], code: int
) -> None:
    declared(project, TEN)
    before = profile(project).read_bytes()
    with asked(project, *words) as terminal:
        terminal.answers(answers)
        assert terminal.ends() == code
    assert (profile(project).read_bytes(), listed(project)) == (before, {})


def test_another_server_of_the_same_name_stays_unless_it_is_forced_or_named(project: Launcher) -> None:
    declared(project, PLAIN)
    assert taken(project, "--yes").code == 0
    ours = profile(project).read_text().replace("files-mcp\n", "files-mcp\n    required: false\n")
    profile(project).write_text(ours)
    assert taken(project, "--yes").code == 0
    assert profile(project).read_text() == ours, "what the user has added is no conflict"
    declared(project, {"files": {"command": "other"}, "new": {"command": "y"}})
    done = taken(project, "--yes")
    assert (done.code, done.err) == (
        0,
        "acp-launch: files already exists and differs; --force replaces it, --as NAME adds it under another name\n"
        "acp-launch: .acp-launch/p.yaml: new imported\n",
    )
    done = taken(project, "--yes", "--only", "files")
    assert done.code == 2
    assert done.err.endswith(
        "acp-launch: nothing was written to .acp-launch/p.yaml\n"
        "    fix: --force replaces the existing entries, --as NAME adds to it\n"
    )
    assert taken(project, "--yes", "--only", "files", "--as", "more").code == 0
    assert "  more:\n    command: other\n" in profile(project).read_text()
    assert "  files:\n    command: files-mcp\n" in profile(project).read_text()
    assert taken(project, "--yes", "--only", "files", "--force").code == 0
    assert "command: files-mcp" not in profile(project).read_text()
    assert "# ours" in profile(project).read_text()


def test_what_a_profile_inherits_is_there_already(project: Launcher) -> None:
    """Its own entry would be merged with that of its parent into one that nobody wrote."""
    parent = project.project / ".acp-launch" / "_base.yaml"
    parent.write_text(
        "version: 1\nmcp_servers:\n  files: {command: files-mcp, args: [--root, /srv]}\n  b: {command: b}\n"
    )
    profile(project).write_text("version: 1\nextends: ./_base.yaml\nagent: {command: cat}\n")
    before = profile(project).read_text()
    declared(project, {**PLAIN, "b": {"type": "http", "url": "https://b.example"}})
    done = taken(project, "--yes")
    assert (done.code, profile(project).read_text()) == (2, before)
    assert done.err.startswith("acp-launch: b already exists and differs;")


def test_nothing_in_an_imported_file_drives_the_terminal(project: Launcher) -> None:
    declared(project, {"a\x1b]0;x\x07\u202e": {"command": "\x1b[2Jx", "b\x1b[31m": 1}})
    done = taken(project, "--yes")
    assert done.code == 0
    assert "\x1b" not in done.err + done.out.decode()
    assert "\u202e" not in done.err + done.out.decode()


def test_a_server_that_is_switched_off_is_named_and_taken_only_by_its_name(project: Launcher) -> None:
    declared(project, {"a": {"command": "x"}, "b": {"command": "y", "disabled": True}})
    assert project("import").out.decode() == "Claude Code  .mcp.json  servers: a; switched off: b\n"
    assert json.loads(project("import", "--json").out)["found"][0]["off"] == ["b"]
    done = taken(project, "--dry-run")
    assert "acp-launch: b is switched off there, and not imported; --only b imports it\n" in done.err
    assert b"b:" not in done.out
    assert taken(project, "--yes", "--only", "b").code == 0
    text = profile(project).read_text()
    assert ("  b:\n" in text, "  a:\n" in text) == (True, False)
    done = taken(project, "--only", "d")
    said = 'acp-launch: there is no entry "d"\n    fix: --only takes one of these: a, b\n'
    assert (done.code, done.err) == (2, said)


def test_an_agent_of_an_editor_begins_a_profile(project: Launcher) -> None:
    file = project.project / "settings.json"
    file.write_text(
        '{// mine\n"agent_servers": {"My Agent": {"type": "custom", "command": "cat", "args": ["--acp"]}},'
        ' "context_servers": {"s": {"command": "x"}},}'
    )
    done = project("import", "settings.json", "--into", "fresh", "--yes")
    assert done.code == 0, done.err
    made = project.project / ".acp-launch" / "fresh.yaml"
    assert made.read_text() == (
        "version: 1\n\nagent:\n  command: cat\n  args: [--acp]\n\nmcp_servers:\n  s:\n    command: x\n"
    )
    assert project("validate", "fresh").code == 0


def test_a_new_profile_gets_the_agent_that_is_named_and_another_keeps_its_own(project: Launcher) -> None:
    declared(project, PLAIN)
    before, folder = profile(project).read_bytes(), project.project / ".acp-launch"
    for options, said in (
        (
            ["--into", "fresh"],
            "acp-launch: .acp-launch/fresh.yaml does not exist yet, and the source has no agent for it\n"
            "    fix: name the agent of the new profile: --agent claude\n",
        ),
        (
            ["--into", "p", "--agent", "gemini"],
            "acp-launch: .acp-launch/p.yaml exists, and keeps its agent\n"
            "    fix: leave --agent out, or choose another name for a new profile\n",
        ),
    ):
        done = project("import", "claude", *options, "--yes")
        assert (done.code, done.err) == (2, said)
    assert (profile(project).read_bytes(), (folder / "fresh.yaml").exists()) == (before, False)
    done = project("import", "claude", "--into", "fresh", "--agent", "gemini", "--yes")
    assert done.code == 0, done.err
    text = (folder / "fresh.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=./schema.json\n")
    assert "agent:\n  command: gemini\n  args: [--acp]\n" in text
    assert "mcp_servers:\n  files:\n    command: files-mcp\n    args: [--root, /srv]\n" in text
    assert "schema.json" in (folder / ".gitignore").read_text().splitlines()
    again = project("import", "claude", "--into", "fresh", "--agent", "gemini", "--yes")
    assert again.err == "acp-launch: .acp-launch/fresh.yaml already has all of it; nothing was changed\n"


@pytest.mark.promise("import")
def test_import_as_the_first_command_leads_to_a_running_session(project: Launcher) -> None:
    """Source, agent, place, name, credential; then trust, a secret, and a session: in one go."""
    profile(project).unlink()
    run = {**DEMO_SERVER, "command": sys.executable}
    declared(project, {"notes": {**run, "env": {"TOKEN": TOKENS["github"]}}})
    with on_screen(
        sys.executable, "-m", "acp_launch", "import", cwd=project.project, columns=120, rows=60, env=project.env
    ) as terminal:
        dialogue = {
            "1.  .mcp.json  notes": "",
            "Numbers of those to import [all]:": "\n",
            "Agent [1]:": "demo\n",
            "Location [1]:": "\n",
            "Name of the profile [demo]:": "work\n",
            yes_or_no("Change it?"): "y",
            "[n] No, I will store it myself": "n",
            yes_or_no("Run work now?"): "y",
            yes_or_no("Trust this profile and continue?"): "y",
            "a secret is not set": "",
            'value of the secret "notes" (mcp_servers.notes.env.TOKEN):': "a-value-of-mine\n",
        }
        for question, answer in dialogue.items():
            terminal.until(question)
            terminal.types(answer)
        terminal.until("Demo agent")
        assert TOKENS["github"] not in "\n".join(terminal.rows)
        terminal.types(":quit\r")
        assert terminal.ends() == 0


def test_import_on_a_terminal_adds_to_a_profile_that_is_there(project: Launcher) -> None:
    declared(project, PLAIN)
    with asked(project) as terminal:
        terminal.answers(
            {
                "Numbers of those to import [all]: ": "1\n",
                "Profiles here: p": "",
                "Name of the profile [p]: ": "\n",
                "[n] No": "y",
                yes_or_no("Run p now?"): "n",
            }
        )
        assert terminal.ends() == 0
    assert "files-mcp" in profile(project).read_text()


def test_import_that_can_store_nothing_ends_before_it_asks_for_the_profile(project: Launcher) -> None:
    del project.env["PYTHON_KEYRING_BACKEND"]
    config_file(project).unlink()
    declared(project, {"gh": {"command": "cat", "env": {"TOKEN": TOKENS["github"]}}})
    before = profile(project).read_bytes()
    with asked(project) as terminal:
        terminal.until("Numbers of those to import [all]: ")
        terminal.types("\n")
        terminal.until(NO_KEYRING)
        terminal.types("n")
        assert terminal.ends() == 3
    assert "cannot read the store: the keyring (Secret Service) does not work here: " in terminal.text
    assert "Name of the profile" not in terminal.text
    assert profile(project).read_bytes() == before


def test_neither_a_built_in_profile_nor_one_outside_of_the_project_is_written_to(project: Launcher) -> None:
    declared(project, PLAIN)
    done = project("import", "claude", "--into", "demo", "--yes")
    assert done.code == 2
    assert done.err.startswith('acp-launch: "demo" is built into acp-launch and cannot be changed\n')
    outside = project.project.parent / "outside"
    outside.mkdir()
    profile(project).rename(outside / "p.yaml")
    profile(project).symlink_to(outside / "p.yaml")
    done = taken(project, "--yes")
    assert (done.code, "leads out of the project" in done.err) == (2, True)
    profile(project).unlink()
    profile(project).parent.rename(outside / "away")
    profile(project).parent.symlink_to(outside)
    done = project("import", "claude", "--into", "other", "--yes")
    assert (done.code, "other.yaml is a link that leads out of the project" in done.err) == (2, True)
    assert sorted(each.name for each in outside.iterdir()) == ["away", "p.yaml"]
    assert "files" not in (outside / "p.yaml").read_text()


@pytest.mark.parametrize("link", [".mcp.json", ".cursor"])
def test_a_tools_file_that_leads_out_of_the_project_is_not_read(project: Launcher, link: str) -> None:
    """A repository, or a confined agent, would choose which servers and tokens of the user come into the profile."""
    private = declared(project, TEN, name="../private/mcp.json")
    (project.project / link).symlink_to(private if link == ".mcp.json" else private.parent)
    source = ".mcp.json" if link == ".mcp.json" else ".cursor/mcp.json"
    before = profile(project).read_text()
    for words in (("claude" if link == ".mcp.json" else "cursor",), (source,), (source, "--from", "claude")):
        done = project("import", *words, "--into", "p", "--yes")
        assert (done.code, done.out) == (2, b"")
        assert f"{source}: this file is a link that leads out of the project\n" in done.err
    assert "leads out of the project" in project("import").out.decode()
    assert (profile(project).read_text(), listed(project)) == (before, {})


def test_what_is_imported_is_not_trusted_with_it(project: Launcher) -> None:
    """Neither a profile that was not accepted before, nor a new one."""
    declared(project, {"evil": {"command": "./evil.sh"}})
    refused = []
    for into in (("p",), ("new", "--agent", "demo")):
        assert project("import", "claude", "--into", *into, "--yes").code == 0
        words = [sys.executable, "-m", "acp_launch", "run", into[0], "hello"]
        done = subprocess.run(words, cwd=project.project, env=project.env, capture_output=True, text=True, check=False)
        assert "./evil.sh" in done.stderr
        refused.append(done.returncode)
    assert refused == [7, 7]


def test_what_is_on_this_machine_is_listed_with_the_commands_that_import_it(project: Launcher) -> None:
    done = project("import")
    assert (done.code, done.out) == (0, b"")
    assert done.err.startswith("acp-launch: no configuration of another tool was found; to import a file: ")
    declared(project, PLAIN)
    declared(project, PLAIN, ".cursor/mcp.json")
    done = project("import")
    assert done.out.decode() == (
        "Claude Code  .mcp.json         servers: files\nCursor       .cursor/mcp.json  servers: files\n"
    )
    assert done.err == (
        "    acp-launch import .mcp.json --from claude --into PROFILE\n"
        "    acp-launch import .cursor/mcp.json --from cursor --into PROFILE\n"
    )
    found = json.loads(project("import", "--json").out)["found"]
    assert [(one["tool"], one["servers"]) for one in found] == [("claude", ["files"]), ("cursor", ["files"])]
    profile(project).unlink()
    (advised, *_) = project("import").err.splitlines()
    assert advised == "    acp-launch import .mcp.json --from claude --into tools --agent claude"
    assert project(*advised.split()[1:], "--yes").code == 0
    assert project("validate", "tools").code == 0


def test_what_is_no_source_is_said_before_a_profile_is_asked_for(project: Launcher) -> None:
    assert "no source is given" in project("import", "--into", "p").err
    assert project("import", "foo").err.startswith('acp-launch: "foo" is neither a tool nor a file\n')
    (project.project / "my servers.json").write_text('{"mcpServers": {"files": {"command": "files"}}}')
    done = project("import", "my servers.json", "--from", "claude")
    assert (done.code, done.err) == (
        2,
        "acp-launch: no profile is given to import into\n"
        "    fix: acp-launch import 'my servers.json' --from claude --into PROFILE\n",
    )


def test_if_nothing_can_be_imported_the_answer_says_so_and_asks_for_nothing(project: Launcher) -> None:
    unfit, off = {"command": "x", "args": "-y"}, {"command": "x", "disabled": True}
    servers: Any
    for servers, said in (
        ({}, "    fix: acp-launch import lists the sources on this machine"),
        ({"b": unfit}, "    b: its args is not a list of strings\n    fix: acp-launch import lists"),
        ({"b": off}, "    fix: --only takes what is switched off there: b"),
    ):
        declared(project, servers)
        for options in (("--agent", "claude", "--as", "x"), ()):
            done = project.within("import", "claude", "--into", "fresh", "--yes", *options)
            assert done.code == 2
            assert done.err.startswith(f"acp-launch: nothing in .mcp.json can be imported\n{said}")
    assert not (project.project / ".acp-launch" / "fresh.yaml").exists()


def test_of_an_agent_that_was_named_the_reason_is_said(project: Launcher) -> None:
    (project.project / ".acpxrc.json").write_text(
        '{"agents": {"a": {"command": "x \'y"}, "b": {"command": "cat --acp"}}}'
    )
    unclosed = "    a: its command has a quote that is not closed\n"
    for options, said in (
        (["--only", "a"], f"a cannot be imported\n{unclosed}    fix: --only also takes b\n"),
        (["--agent", "demo"], "the source has only agents: b\n"),
        (["--only", "b", "--agent", "demo"], "--agent and --only both name an agent\n"),
    ):
        done = project("import", ".acpxrc.json", "--into", "fresh", "--yes", *options)
        assert (done.code, done.err.startswith(f"acp-launch: {said}")) == (2, True), done.err
    assert not (project.project / ".acp-launch" / "fresh.yaml").exists()
    assert project("import", ".acpxrc.json", "--only", "b", "--into", "fresh", "--yes").code == 0
    assert "command: cat\n  args: [--acp]\n" in (project.project / ".acp-launch" / "fresh.yaml").read_text()


@pytest.mark.parametrize(("answer", "user"), [("n", "admin"), ("y", '"${secret:s}"')])
def test_on_a_terminal_the_user_says_whether_it_is_the_password(project: Launcher, answer: str, user: str) -> None:
    declared(project, {"s": {"command": "x", "env": {"DB_USER": "admin", "DB_PASSWORD": "admin"}}})
    with asked(project, "claude", "--into", "p") as terminal:
        terminal.answers(
            {
                "[n] No": "y\n",
                "[n] No, I will store it myself": "y",
                "s: env.DB_USER has the same text as s: env.DB_PASSWORD. Is it a password, too?": "",
                "[n] No, leave it as it is": answer,
            }
        )
        assert terminal.ends() == 0
    assert f"DB_USER: {user}" in profile(project).read_text()
    assert list(listed(project)) == ["s"]


# export


def with_servers(launch: Launcher) -> None:
    profile(launch).write_text(
        "version: 1\nagent: {command: cat, args: [--acp]}\nmcp_servers:\n"
        '  gh:\n    command: npx\n    env: {GITHUB_TOKEN: "${secret:gh}"}\n'
    )


def test_an_entry_is_printed_with_the_tools_own_reference_to_the_secret(project: Launcher) -> None:
    """The secret itself is not looked up."""
    with_servers(project)
    assert project("secret", "set", "gh", stdin=TOKENS["github"].encode()).code == 0
    done = project("export", "p", "--to", "vscode")
    assert done.code == 0
    assert json.loads(done.out) == {
        "servers": {"gh": {"type": "stdio", "command": "npx", "args": [], "env": {"GITHUB_TOKEN": "${input:gh}"}}},
        "inputs": [{"id": "gh", "type": "promptString", "description": "the secret gh", "password": True}],
    }
    assert done.err == 'acp-launch: VS Code asks for gh (secret "gh") and stores it\n'


def test_an_entry_is_written_beside_those_of_others_whose_credentials_are_not_shown(project: Launcher) -> None:
    with_servers(project)
    text = (
        '{\n  // the team\'s\n  "mcpServers": {\n'
        f'    "theirs": {{"command": "x", "env": {{"PASSWORD": "{TOKENS["short"]}"}}}}, // and theirs\n  }}\n}}\n'
    )
    file = project.project / ".mcp.json"
    file.write_text(text)
    file.chmod(0o600)
    unasked = project("export", "p", "--to", "claude", "--write")
    assert (unasked.code, file.read_text()) == (2, text)
    assert unasked.err.endswith("there is no terminal to ask on; nothing was written\n    fix: --yes writes it\n")
    done = project("export", "p", "--to", "claude", "--write", "--yes")
    assert done.code == 0, done.err
    assert TOKENS["short"] not in done.err + done.out.decode()
    added = '    "gh": {\n      "type": "stdio",\n      "command": "npx",\n      "args": [],\n      "env": {\n'
    added += '        "GITHUB_TOKEN": "${GITHUB_TOKEN}"\n      }\n    }\n'
    assert file.read_text() == text.replace("// and theirs\n", f"// and theirs\n{added}")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = project("export", "p", "--to", "claude", "--write", "--yes")
    assert again.err.startswith("acp-launch: .mcp.json already has all of it; nothing was changed\n")


def test_a_file_of_the_project_gets_no_path_of_this_machine_or_a_word_about_it(project: Launcher) -> None:
    servers = {"s": {"command": "bin/server", "args": ["${project}/data"]}}
    project.write({"agent": {"command": "cat"}, "mcp_servers": servers})
    for tool, file, command, is_told in (
        ("claude", ".mcp.json", "${CLAUDE_PROJECT_DIR:-.}/bin/server", False),
        ("cursor", ".cursor/mcp.json", "${workspaceFolder}/bin/server", False),
        ("qwen", ".qwen/settings.json", str(project.project / "bin" / "server"), True),
    ):
        (project.project / file).parent.mkdir(exist_ok=True)
        done = project("export", "p", "--to", tool, "--file", file, "--yes")
        (entry,) = next(iter(json.loads((project.project / file).read_text()).values())).values()
        said = f"acp-launch: {file} belongs to the project, and gets paths of this machine: s.command, s.args.0\n"
        assert (entry["command"], said in done.err) == (command, is_told), done.err
        own = project("export", "p", "--to", tool, "--file", str(project.project.parent / f"{tool}.json"), "--yes")
        assert "belongs to the project" not in own.err


def zed(launch: Launcher) -> Path:
    return Path(launch.env["HOME"]) / ".config" / "zed" / "settings.json"


def test_an_editor_gets_acp_launch_with_the_profile_whose_servers_and_secrets_stay(project: Launcher) -> None:
    """A project's profile has its path, because an editor starts its agents in a directory of its own choice."""
    with_servers(project)
    done = project("export", "p", "--to", "zed", "--write", "--yes")
    assert done.code == 0, done.err
    (entry,) = json.loads(zed(project).read_text())["agent_servers"].values()
    words = [entry.pop("command"), *entry.pop("args")]
    assert Path(words[0]).is_absolute()
    assert words[-2:] == ["serve", str(profile(project))]
    assert entry == {"type": "custom", "env": {}}
    assert list(json.loads(zed(project).read_text())) == ["agent_servers"]
    assert done.err == (
        f"acp-launch: {zed(project)}: p written\n"
        "acp-launch: Zed starts acp-launch, which runs p: its servers and secrets stay in the profile\n"
        "acp-launch: Zed cannot ask whether you trust it: acp-launch trust p\n"
        "acp-launch: an editor that the desktop starts lacks the variables of your shell: acp-launch help serve\n"
    )
    again = project("export", "p", "--to", "zed", "--write", "--yes")
    assert "already has all of it; nothing was changed" in again.err


def test_the_program_is_named_so_that_it_starts_from_any_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "bin" / "acp-launch"
    program.parent.mkdir()
    program.touch(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["bin/../bin/acp-launch", "export"])
    assert export._launcher() == (str(program),)
    monkeypatch.setattr(sys, "argv", ["acp_launch/__main__.py", "export"])
    assert export._launcher() == (sys.executable, "-P", "-m", "acp_launch")


def test_in_a_projects_own_file_a_profile_has_its_name_and_the_path_of_acp_launch_is_told_of(
    project: Launcher,
) -> None:
    with_servers(project)
    file = project.project / ".acpxrc.json"
    file.write_text("{}")
    done = project("export", "p", "--to", "acpx", "--write", "--yes")
    assert "acp-launch: .acpxrc.json belongs to the project, and gets paths of this machine: p.argv.0\n" in done.err
    assert json.loads(file.read_text())["agents"]["p"]["argv"][-2:] == ["serve", "p"]


def test_servers_of_an_earlier_export_are_told_of_since_the_agent_would_have_them_twice(project: Launcher) -> None:
    with_servers(project)
    assert project("export", "p", "--to", "zed", "--write", "--yes", "--direct").code == 0
    before = json.loads(zed(project).read_text())
    assert before["agent_servers"]["p"]["command"] == "cat"
    refused = project("export", "p", "--to", "zed", "--write", "--yes")
    assert (refused.code, json.loads(zed(project).read_text())) == (2, before)
    assert "acp-launch: agent_servers.p already exists and differs; --force replaces it\n" in refused.err
    done = project("export", "p", "--to", "zed", "--write", "--yes", "--force")
    assert done.code == 0, done.err
    assert "acp-launch: Zed has gh besides, and gives it to all agents; remove it there\n" in done.err
    assert json.loads(zed(project).read_text())["context_servers"] == before["context_servers"]


def test_a_tool_without_a_file_is_printed_for_and_not_written_to(project: Launcher) -> None:
    with_servers(project)
    done = project("export", "p", "--to", "toad")
    assert (done.code, done.out.decode().endswith(f"serve {profile(project)}' .\n")) == (0, True)
    outside = project.project.parent / "outside.json"
    outside.write_text("{}")
    (project.project / ".mcp.json").symlink_to(outside)
    for words, said in (
        (
            ["neovim", "--write"],
            "there is no file of Neovim that acp-launch can change\n"
            "    fix: print it: acp-launch export p --to neovim\n",
        ),
        (
            ["ed"],
            'unknown tool "ed"\n    fix: choose one of claude-desktop, claude, vscode, cursor, qwen, copilot, cline,'
            " roo, kiro, windsurf, zed, jetbrains, crush, acpx, toad, neovim, emacs\n",
        ),
        (
            ["codex"],
            "export --to codex was removed\n    fix: start the agent with acp-launch: acp-launch run p\n",
        ),
        (["claude", "--write", "--yes"], ".mcp.json is a link that leads out of the project\n"),
    ):
        done = project("export", "p", "--to", *words)
        assert (done.code, done.out, done.err.startswith(f"acp-launch: {said}")) == (2, b"", True), done.err
    assert outside.read_text() == "{}"


def of_jetbrains(launch: Launcher) -> None:
    file = Path(launch.env["HOME"]) / ".jetbrains" / "acp.json"
    file.parent.mkdir()
    file.write_text('{"agent_servers": {"One": {"command": "one-agent"}}}')


def test_an_agent_for_a_profile_that_has_one_is_not_said_to_be_nothing(project: Launcher) -> None:
    of_jetbrains(project)
    done = project("import", "jetbrains", "--into", "p", "--yes")
    assert (done.code, done.err) == (
        2,
        "acp-launch: a profile has one agent, and the source has only agents: One\n"
        "    fix: say which: --only NAME; --force replaces the one that is there\n",
    )
    done = project("import", "jetbrains", "--into", "p", "--yes", "--only", "One")
    assert done.code == 2
    assert "an agent already exists and differs; --force replaces it\n" in done.err
    assert done.err.endswith(
        "nothing was written to .acp-launch/p.yaml\n    fix: --force replaces the existing entries\n"
    )
    assert project("import", "jetbrains", "--into", "p", "--yes", "--only", "One", "--force").code == 0
    assert "  command: one-agent  # kept as it is\n" in profile(project).read_text()
    done = project("import", "jetbrains", "--into", "p", "--yes", "--only", "One")
    assert (done.code, done.err) == (0, "acp-launch: .acp-launch/p.yaml already has all of it; nothing was changed\n")


def test_an_agent_that_is_acp_launch_itself_is_not_imported(project: Launcher) -> None:
    assert project("export", "p", "--to", "zed", "--write", "--yes").code == 0
    why = f"    p: it is acp-launch itself, which runs the profile {profile(project)}\n"
    done = project("import", "zed", "--into", "new", "--yes")
    assert (done.code, done.err) == (
        2,
        f"acp-launch: nothing in {zed(project)} can be imported\n"
        f"{why}    fix: acp-launch import lists the sources on this machine\n",
    )
