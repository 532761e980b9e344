"""What is wrong before anything starts: exit 2 and 3, with the place and the way out (DESIGN §5)."""

import json
import re

import pytest

from tests.cli.launcher import AGENTS, Launcher

WAYS = "    fix: give it after the profile, with --file FILE, or on stdin\n"


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        (
            [],
            None,
            "which profile?\n    fix: acp-launch run PROFILE PROMPT…; acp-launch list shows the profiles\n",
        ),
        (["p"], None, f"the prompt is empty\n{WAYS}"),
        (["p"], b" \n\t", f"the prompt is empty\n{WAYS}"),
        (["p"], b"ab\xff", "the prompt from stdin is not UTF-8 (byte 2)\n"),
        (["p", "--file", "gone.md"], None, "cannot read the prompt from gone.md: No such file or directory\n"),
        (
            ["p", "hi", "--file", "x.md"],
            None,
            "the prompt is given twice: as words and with --file\n    fix: keep one of them\n",
        ),
        (
            ["p", "hi", "--continue", "--new"],
            None,
            "--continue takes the latest session, so it goes without --session and --new\n",
        ),
        (
            ["p", "hi", "--continue", "--session", "s"],
            None,
            "--continue takes the latest session, so it goes without --session and --new\n",
        ),
    ],
)
def test_a_command_line_that_asks_for_nothing_sensible_is_refused_in_one_sentence(
    launch: Launcher, arguments: list[str], stdin: bytes | None, said: str
) -> None:
    launch.profile("polite")
    done = launch("run", *arguments, stdin=stdin)
    assert (done.code, done.out, done.err) == (2, b"", f"acp-launch: {said}")
    assert done.heard == []


def test_options_with_impossible_values_are_refused_by_name(launch: Launcher) -> None:
    launch.profile("polite")
    done = launch("run", "p", "hi", "--output", "xml")
    assert done.code == 2
    assert done.err.endswith(
        "Error: Invalid value for '--output' / '-o': 'xml' is not one of 'text', 'json', 'quiet'.\n"
    )
    done = launch("run", "p", "hi", ACP_LAUNCH_MAX_LINE="lots")
    assert (done.code, done.err) == (
        2,
        "acp-launch: ACP_LAUNCH_MAX_LINE is 'lots'\n    fix: a number of bytes, 4096 or more\n",
    )


def test_an_unknown_profile_is_told_with_where_it_was_looked_for(launch: Launcher) -> None:
    launch.profile("polite", name="review")
    done = launch("run", "reviev", "hi")
    assert done.code == 2
    head, *looked, fix = done.err.splitlines()
    assert head == 'acp-launch: no profile named "reviev"; did you mean "review"?'
    assert looked[0] == f"    looked in {launch.project}/.acp-launch"
    assert f"    looked in {launch.env['ACP_LAUNCH_CONFIG_DIR']}/profiles" in looked
    assert re.fullmatch(r"    fix: there is .*review; a file is given by its path: \./reviev\.yaml", fix)


def test_a_wrong_profile_is_told_with_its_line_and_starts_nothing(launch: Launcher) -> None:
    launch.profile("polite", agent={"argz": []})
    done = launch("run", "p", "hi")
    assert done.code == 2
    assert re.fullmatch(
        r'\.acp-launch/p\.yaml:\d+:3: agent\.argz: unknown key "argz"; did you mean "args"\?\n'
        r"    fix: write args\n1 problem; nothing was started\n",
        done.err,
    )
    assert done.heard == []


def test_what_this_machine_lacks_is_told_at_its_place_in_the_profile(launch: Launcher) -> None:
    launch.write({"agent": {"command": "no-such-command-anywhere"}, "workspace": {"cwd": "gone"}})
    done = launch("run", "p", "hi")
    assert done.code == 3
    assert re.sub(r"looked in \d+ folders?", "looked in N folders", done.err) == (
        '.acp-launch/p.yaml:4:14: agent.command: "no-such-command-anywhere" is not on PATH (looked in N folders)\n'
        "    fix: install it, or give an absolute path; a shell's aliases and functions do not count\n"
        f'.acp-launch/p.yaml:7:10: workspace.cwd: the directory "{launch.project}/gone" does not exist\n'
        f"    fix: mkdir -p {launch.project}/gone\n"
        "2 problems; nothing was started\n"
    )


def test_a_missing_secret_stops_the_run_before_the_agent_starts(launch: Launcher) -> None:
    launch.profile("polite", agent={"env": {"KEY": "${secret:vault}"}})
    done = launch("run", "p", "hi")
    assert done.code == 3
    assert re.fullmatch(
        r'\.acp-launch/p\.yaml:\d+:\d+: agent\.env\.KEY: no secret named "vault"\n'
        r"    fix: export ACP_LAUNCH_SECRET_VAULT=\.\.\.\n1 problem; nothing was started\n",
        done.err,
    )
    assert done.heard == []


def test_a_directory_given_on_the_command_line_must_exist(launch: Launcher) -> None:
    launch.profile("polite")
    done = launch("run", "p", "hi", "--cwd", "/no/such/place")
    assert (done.code, done.err) == (
        3,
        '--cwd: the directory "/no/such/place" does not exist\n'
        "    fix: mkdir -p /no/such/place\n1 problem; nothing was started\n",
    )


def test_http_and_sse_servers_an_agent_cannot_take_are_named(launch: Launcher) -> None:
    """C-40."""
    url = "http://127.0.0.1:9/mcp"
    launch.profile("polite", mcp_servers={"docs": {"type": "http", "url": url}, "old": {"type": "sse", "url": url}})
    done = launch("run", "p", "hi")
    assert done.code == 3
    assert re.sub(r":\d+:\d+:", ":", done.err) == (
        '.acp-launch/p.yaml: mcp_servers.docs.url: test-agent takes no http MCP servers, so it cannot have "docs"'
        " (mcpCapabilities.http is not advertised)\n"
        "    fix: remove the server from the profile, or use an agent that takes it\n"
        '.acp-launch/p.yaml: mcp_servers.old.url: test-agent takes no sse MCP servers, so it cannot have "old"'
        " (mcpCapabilities.sse is not advertised)\n"
        "    fix: remove the server from the profile, or use an agent that takes it\n"
        "2 problems; nothing was started\n"
    )
    assert done.methods == ["initialize"]


def test_a_script_is_told_every_problem_as_data(launch: Launcher) -> None:
    launch.write({"agent": {"command": "no-such-command-anywhere"}})
    done = launch("run", "p", "hi", "--output", "json")
    assert done.code == 3
    (error,) = done.events
    assert (error["type"], error["exitCode"]) == ("error", 3)
    (problem,) = error["problems"]
    assert (problem["file"], problem["line"], problem["path"]) == (".acp-launch/p.yaml", 4, "agent.command")
    assert json.loads(done.out)["problems"] == error["problems"]


def test_an_agent_runs_without_any_profile(launch: Launcher) -> None:
    agent = "python3 -I -S " + str(launch.project / "agent.py")
    done = launch("run", "--agent", agent, "hi")
    assert done.code == 4
    assert "can't open file" in done.err
    done = launch("run", "--agent", f"python3 -I -S {AGENTS}/polite.py", "hello", "you")
    assert (done.code, done.out, done.err) == (0, b"You said: hello you\n", "")
    assert done.params("session/new") == {"cwd": str(launch.project), "mcpServers": []}
