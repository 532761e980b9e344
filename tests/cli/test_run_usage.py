"""What is wrong before anything starts: exit 2 and 3, with the place and the way out (docs/scripting.md)."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.cli.launcher import AGENTS, Launcher, command
from tests.patience import PATIENCE

WAYS = "    fix: give it after the profile, with --file FILE, or on stdin\n"
GONE = "No such file or directory\n    fix: name a file of text\n"
PROGRAM = "    fix: give a program: --agent 'claude-agent-acp'\n"
NAME = "    fix: choose a printable name of 1 to 200 characters that begins with no dash\n"


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        (["p"], None, f"the prompt is empty\n{WAYS}"),
        (["p"], b" \n\t", f"the prompt is empty\n{WAYS}"),
        (["p"], b"ab\xff", "the prompt from stdin is not UTF-8 (byte 2)\n    fix: convert it: iconv -t UTF-8\n"),
        (["p", "--file", "gone.md"], None, f"cannot read the prompt from gone.md: {GONE}"),
        (["p", "hi", "--file", "gone.md"], None, f"cannot read the prompt from gone.md: {GONE}"),
        (["--agent", "", "hi"], None, f"--agent: the command is empty\n{PROGRAM}"),
        (["--agent", "''", "hi"], None, f"--agent: the command is empty\n{PROGRAM}"),
        (["--agent", "x 'y", "hi"], None, "--agent: no closing quotation in x 'y\n    fix: correct the quoting\n"),
        (["p", "hi", "--session", ""], None, f"the session's name is empty\n{NAME}"),
        (["p", "hi", "--session=-s"], None, f'the session\'s name "-s" begins with "-" like an option\n{NAME}'),
        (["--agent", "cat", "hi", "-s", "-"], None, f'the session\'s name "-" begins with "-" like an option\n{NAME}'),
        (["p", "hi", "-s", "a\tb"], None, f"the session's name holds characters that cannot be printed\n{NAME}"),
        (
            ["p", "hi", "-s", "a" * 201],
            None,
            f"the session's name has 201 characters; at most 200 are allowed\n{NAME}",
        ),
        (
            ["what's up", "there"],
            None,
            "no profile named \"what's up\"\n    fix: the profile comes first: acp-launch run demo 'what'\"'\"'s up'\n",
        ),
        (
            ["p", "hi", "--continue", "--new"],
            None,
            "--continue cannot be combined with --session or --new\n",
        ),
        (
            ["p", "hi", "--continue", "--session", "s"],
            None,
            "--continue cannot be combined with --session or --new\n",
        ),
    ],
)
def test_a_command_line_that_asks_for_nothing_sensible_is_refused_in_one_sentence(
    launch: Launcher, arguments: list[str], stdin: bytes | None, said: str
) -> None:
    launch.profile("polite")
    done = launch.within("run", *arguments, stdin=stdin)
    assert (done.code, done.out, done.err) == (2, b"", f"acp-launch: {said}")
    assert done.heard == []


@pytest.mark.promise("profile")
def test_missing_secrets_are_told_together_with_everything_else_in_the_order_of_the_file(launch: Launcher) -> None:
    launch.write(
        {
            "agent": {"command": "no-such-command-anywhere", "env": {"KEY": "${secret:vault}${env:NO_SUCH_VARIABLE}"}},
            "mcp_servers": {"docs": {"type": "http", "url": "https://x/", "headers": {"A": "${secret:docs}"}}},
        }
    )
    done = launch.within("run", "p", "hi", ACP_LAUNCH_SECRETS__STORE="file")
    assert done.code == 3
    lines = [
        re.sub(r"^\S+?:(\d+):\d+: | \(looked.*| in the sealed file .*", "", line) for line in done.err.splitlines()
    ]
    assert [line for line in lines if not line.startswith("    fix: ")] == [
        'agent.command: "no-such-command-anywhere" is not on PATH',
        'agent.env.KEY: secret "vault" is not set',
        "agent.env.KEY: the environment variable NO_SUCH_VARIABLE is not set",
        'mcp_servers.docs.headers.A: secret "docs" is not set',
        "4 problems; nothing was started",
    ]
    assert lines[3] == "    fix: export ACP_LAUNCH_SECRET_VAULT=..., or acp-launch secret set vault"


@pytest.mark.parametrize("option", ["--file", "--attach"])
def test_a_prompt_is_not_taken_through_a_link_out_of_the_project(launch: Launcher, option: str) -> None:
    launch.profile("polite")
    private = Path(launch.env["HOME"]) / "private.md"
    private.write_text("private")
    (launch.project / "way.md").symlink_to(private)
    done = launch("run", "p", "hi", option, "way.md")
    said = f"way.md: a link leads out of the project, to {private}"
    assert (done.code, done.out, done.err) == (2, b"", f"acp-launch: {said}\n    fix: name that file itself\n")
    assert launch("run", "p", "hi", option, str(private), "-o", "quiet").code == 0


@pytest.mark.promise("answer")
def test_words_and_a_file_make_one_prompt(launch: Launcher) -> None:
    launch.profile("polite")
    (launch.project / "notes.md").write_text("one\ntwo\n")
    done = launch("run", "p", "sum", "up:", "--file", "notes.md", "--output", "quiet")
    assert (done.code, done.out, done.err) == (0, b"You said: sum up:\n\none\ntwo\n", "")
    done = launch("run", "p", "sum up:", "--file", "-", stdin=b"three")
    assert (done.code, done.out, done.err) == (0, b"You said: sum up:\n\nthree\n", "")


def test_what_is_piped_in_and_not_read_is_mentioned(launch: Launcher, tmp_path: Path) -> None:
    launch.profile("polite")
    note = "acp-launch: stdin is not read, because the command line has a prompt; --file - adds it\n"
    for content, told in ((b"more", note), (b"", "")):
        assert with_pipe(launch, content, "hi") == (0, b"You said: hi\n", told)
        (tmp_path / "in").write_bytes(content)
        with (tmp_path / "in").open("rb") as file, launch.start("run", "p", "hi", stdin=file.fileno()) as running:
            done = running.end()
        assert (done.code, done.out, done.err) == (0, b"You said: hi\n", told)


def with_pipe(launch: Launcher, content: bytes, *words: str) -> tuple[int, bytes, str]:
    """The pipe stays open at its other end, so that whoever reads it to its end waits for ever."""
    ours, theirs = os.pipe()
    try:
        os.write(theirs, content)
        with launch.start("run", "p", *words, stdin=ours) as running:
            done = running.end()
    finally:
        os.close(ours)
        os.close(theirs)
    return done.code, done.out, done.err


@pytest.mark.parametrize("arguments", [["run", "p", "hi"], ["list"]])
def test_a_closed_stdout_is_named_and_nothing_starts(launch: Launcher, arguments: list[str]) -> None:
    launch.profile("polite")
    done = closed(launch, ">&-", *arguments)
    assert (done.returncode, done.stderr) == (1, b"acp-launch: cannot write to stdout: it is closed\n")


def test_a_closed_stdin_and_stderr_are_no_obstacle(launch: Launcher) -> None:
    launch.profile("polite")
    done = closed(launch, "<&- 2>&-", "run", "p", "hi")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"You said: hi\n", b"")
    assert closed(launch, "<&- >&- 2>&-", "run", "p", "hi").returncode == 1


def closed(launch: Launcher, redirections: str, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    """Run acp-launch as a shell does with these redirections."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirections}', "sh", *command(*arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=launch.project,
        env=launch.env,
        timeout=PATIENCE,
        check=False,
    )


def test_a_tilde_that_the_shell_left_alone_is_the_home_directory(launch: Launcher, tmp_path: Path) -> None:
    launch.profile("polite")
    (tmp_path / "at home").mkdir()
    done = launch("run", "p", "hi", "--cwd=~/at home", HOME=str(tmp_path))
    assert (done.code, done.params("session/new")["cwd"]) == (0, f"{tmp_path}/at home")
    done = launch.within("run", "p", "hi", "--cwd=~no-such-user/x")
    assert (done.code, done.err) == (
        2,
        "acp-launch: --cwd: no home directory is known for ~no-such-user/x\n    fix: give an absolute path\n",
    )


def test_an_agent_runs_without_any_profile(launch: Launcher) -> None:
    agent = "python3 -I -S " + str(launch.project / "agent.py")
    done = launch("run", "--agent", agent, "hi")
    assert done.code == 4
    assert "can't open file" in done.err
    done = launch("run", "--agent", shlex.join(["python3", "-I", "-S", f"{AGENTS}/polite.py"]), "hello", "you")
    assert (done.code, done.out, done.err) == (0, b"You said: hello you\n", "")
    assert done.params("session/new") == {"cwd": str(launch.project), "mcpServers": []}


@pytest.mark.sample(0, 4)
@pytest.mark.parametrize("verb", [["trust"], ["logs"], ["import"], ["show"], ["run", "p", "--file"]])
@pytest.mark.parametrize("path", ["/a" * 5000 + ".yaml", "./loop/x.yaml"], ids=["too long", "loop"])
def test_a_path_that_cannot_be_looked_at_ends_in_a_message(launch: Launcher, verb: list[str], path: str) -> None:
    """As one in a directory that we may not enter."""
    launch.profile("polite")
    (launch.project / "loop").symlink_to("loop")
    done = launch(*verb, path)
    assert done.code == 2 and "Traceback" not in done.err, done.err
