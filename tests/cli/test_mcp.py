"""The verbs about MCP servers: real servers, no agent (the profile's does not even exist)."""

import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.launcher import ROOT, SERVERS, Launcher, alive, patient
from tests.cli.terminal import on_terminal
from tests.patience import PATIENCE

SEEN = "run it again with --trace FILE to see what was said"
TRACE = "; run it again with --trace FILE to see what was said"
STDIO = "is the command right? some servers speak MCP on stdio only with a flag or a subcommand"
Json = dict[str, Any]


def server(temper: str, *arguments: str, **keys: Any) -> Json:
    """One of tests/servers; it inherits the mark by which a test finds what was left behind."""
    command = {"command": sys.executable, "args": ["-I", "-S", str(SERVERS / f"{temper}.py"), *arguments]}
    keys["env"] = {"ACP_TEST_TRANSCRIPT": "", **keys.get("env", {})}  # which is judged as an agent's
    return {**command, "inherit_env": "all", **keys}


def profile(launch: Launcher, **servers: Json) -> None:
    agent = {"command": "no-such-agent", "env": {"KEY": "${secret:of-the-agent}", "X": "${env:NOT_SET}"}}
    launch.write({"agent": agent, "mcp_servers": servers})


def polite(launch: Launcher, *arguments: str, **keys: Any) -> None:
    profile(launch, polite=server("probe_polite", *arguments, **keys))


def shown(launch: Launcher, *arguments: str) -> str:
    """What a verb that succeeds prints; nothing is on stderr."""
    done = launch("mcp", *arguments)
    assert (done.code, patient(done.err)) == (0, "")
    return done.out.decode()


OWN = f"""
import os
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.agents import script

def hello(request):
    offered = {{"tools": {{}}}} if "roots" in request["params"]["capabilities"] else {{"tools": {{}}, "logging": {{}}}}
    about = {{"serverInfo": {{"name": "own"}}}}
    script.answer(request, {{"protocolVersion": "2025-11-25", "capabilities": offered, **about}})

METHODS = {{
    "initialize": hello,
    "ping": lambda request: script.answer(request, {{}}),
    "tools/list": lambda request: script.answer(request, {{"tools": [{{"name": "only"}}]}}),
}}
"""


def own(launch: Launcher, body: str) -> None:
    """A server that does as `body` says; with METHODS it is an ordinary one."""
    file = launch.project / "server.py"
    file.write_text(OWN + body)
    command = {"command": sys.executable, "args": ["-I", "-S", str(file)], "inherit_env": "all"}
    profile(launch, own={**command, "env": {"ACP_TEST_TRANSCRIPT": ""}})


def answer(launch: Launcher, tool: str, *arguments: str) -> Any:
    return json.loads(shown(launch, "call", "p", "polite", tool, *arguments))


def failure(launch: Launcher, *arguments: str) -> tuple[int, str]:
    """How a verb that fails ends; nothing is on stdout."""
    done = launch("mcp", *arguments)
    assert done.out == b""
    return done.code, done.err


# list


def test_list_shows_references_and_starts_nothing(launch: Launcher) -> None:
    profile(
        launch,
        files={"command": "${env:NOT_SET}/no-such-server", "required": False},
        direct={"command": "npx", "bridge": False},
        docs={"type": "http", "url": "https://docs.example.com/mcp?key=${secret:docs}"},
    )
    header, *rows = shown(launch, "list", "p").splitlines()
    assert header.split("  ")[0] == "NAME"
    assert [row.split() for row in rows] == [
        ["files", "stdio", "${env:NOT_SET}/no-such-server", "no", "yes"],
        ["direct", "stdio", "npx", "yes", "no"],
        ["docs", "http", "https://docs.example.com/mcp?key=${secret:docs}", "yes", "yes"],
    ]
    files, _, docs = json.loads(shown(launch, "list", "p", "--json"))["servers"]
    command = {"type": "stdio", "command": "${env:NOT_SET}/no-such-server"}
    assert files == {"name": "files", **command, "required": False, "bridge": True}
    url = {"type": "http", "url": "https://docs.example.com/mcp?key=${secret:docs}"}
    assert docs == {"name": "docs", **url, "required": True, "bridge": True}


# inspect


def test_inspect_shows_who_it_is_and_what_it_got(launch: Launcher) -> None:
    polite(launch, tools={"deny": ["die"]}, inherit_env=["LANG", "PATH"], env={"TOKEN": "t-value-that-is-secret"})
    out = shown(launch, "inspect", "p", "polite")
    lines = [line for line in out.splitlines() if not line.startswith("timings ")]
    assert lines == [
        "server        polite 1.2 (The Polite One)",
        "protocol      MCP 2025-11-25",
        "capabilities  logging, prompts, resources, tools",
        "offers        16 tools, 1 resource (1 hidden by the profile)",
        'refused       prompts/list: the MCP server "polite" answered prompts/list with an error: the prompts are lost'
        " (-32603)",
        "ping          answered",
        "variables     ACP_TEST_TRANSCRIPT, TOKEN",
        f"  inherited   {', '.join(name for name in ('LANG', 'PATH') if name in os.environ)}",
        f"roots         file://{launch.project}  (it asked for them)",
        "instructions  Be polite.",
        "              Always.",
    ]
    assert "t-value-that-is-secret" not in out


def test_inspect_json_uses_the_names_servers_know_it_by(launch: Launcher) -> None:
    """M-50."""
    other = launch.project / "a b"
    other.mkdir()
    polite(launch, "2024-11-05", inherit_env=[], env={"TOKEN": "secret-x"})
    launch.extend(workspace={"additional_directories": ["a b"]}, agent={"command": "no-such-agent"})
    out = shown(launch, "inspect", "p", "polite", "--json")
    assert "secret-x" not in out
    found = json.loads(out)
    timings = found.pop("timings")
    assert list(timings) == ["initialize", "tools/list", "resources/list"]
    assert all(0 <= taken < PATIENCE for taken in timings.values())
    refused = 'the MCP server "polite" answered prompts/list with an error: the prompts are lost (-32603)'
    assert found == {
        "profile": "p",
        "server": "polite",
        "server_info": {"name": "polite", "title": "The Polite One", "version": "1.2"},
        "protocol_version": "2024-11-05",
        "capabilities": {"tools": {}, "resources": {}, "prompts": {}, "logging": {}},
        "instructions": "Be polite.\nAlways.",
        "counts": {"tools": 16, "resources": 1, "resource_templates": None, "prompts": None},
        "hidden_tools": 0,
        "refused": {"prompts/list": refused},
        "connection": {"type": "stdio", "era": "legacy"},
        "answers_ping": True,
        "roots_asked": 1,
        "client_info": {
            "name": "acp-launch",
            "version": found["client_info"]["version"],
            "protocol_version": "2024-11-05",
            "sampling_supported": False,
            "sampling_caps": {"supported": False, "audio": {"supported": False}},
            "env": {"ACP_TEST_TRANSCRIPT": "***", "TOKEN": "***"},
            "roots": [
                {"uri": f"file://{launch.project}", "name": "project"},
                {"uri": f"file://{launch.project}/a%20b", "name": "a b"},
            ],
        },
    }


def test_inspect_waits_for_no_ping_that_is_refused(launch: Launcher) -> None:
    profile(launch, pager=server("probe_pager"))
    found = json.loads(shown(launch, "inspect", "p", "pager", "--json"))
    assert (found["answers_ping"], found["counts"]["tools"], found["roots_asked"]) == (False, 7, 0)


# what the server gets


def test_the_server_gets_the_directory_the_roots_and_the_variables_of_its_plan(
    launch: Launcher, tmp_path: Path
) -> None:
    polite(launch, inherit_env="minimal", env={"TOKEN": "x"})
    assert answer(launch, "roots") == [{"uri": f"file://{launch.project}", "name": "project"}]
    assert answer(launch, "roots", "--cwd", str(tmp_path))[0]["uri"] == f"file://{tmp_path}"
    for words, directory in (([], launch.project), (["--cwd", str(tmp_path)], tmp_path)):
        assert shown(launch, "call", "p", "polite", "cwd", *words) == f"{directory}\n"
    done = launch("mcp", "call", "p", "polite", "env", AWS_SECRET_ACCESS_KEY="k", ACP_LAUNCH_SECRET_OTHER="o-secret")
    got = json.loads(done.out)
    assert (got["TOKEN"], got["PATH"]) == ("x", os.environ["PATH"])
    assert not {"AWS_SECRET_ACCESS_KEY", "ACP_LAUNCH_SECRET_OTHER"} & set(got)


def test_only_the_secrets_of_that_server_are_looked_up_and_none_is_shown(launch: Launcher) -> None:
    own = server("probe_polite", env={"TOKEN": "${secret:mine}"})
    profile(launch, polite=own, other=server("probe_polite", env={"TOKEN": "${secret:missing}"}))
    done = launch("mcp", "call", "p", "polite", "env", ACP_LAUNCH_SECRET_MINE="s3cr3t-value")
    assert (done.code, done.err, json.loads(done.out)["TOKEN"]) == (0, "", "***")
    for arguments in (["call", "p", "polite", "env", "--json"], ["inspect", "p", "polite", "--json"]):
        done = launch("mcp", *arguments, ACP_LAUNCH_SECRET_MINE="s3cr3t-value")
        assert (done.code, b"s3cr3t" in done.out, b"***" in done.out) == (0, False, True)
    code, err = failure(launch, "tools", "p", "other")
    assert code == 3
    assert 'cannot read secret "missing"' in err or 'secret "missing" is not set' in err


# tools


@pytest.mark.promise("mcp")
def test_tools_are_listed_with_their_arguments_as_far_as_the_profile_allows(launch: Launcher) -> None:
    polite(launch, tools={"allow": ["e*", "fail"], "deny": ["env"]})
    done = launch("mcp", "tools", "p", "polite")
    assert (done.code, done.err) == (0, "acp-launch: 13 more tools hidden by the profile\n")
    assert done.out.decode() == (
        "echo    Says something.\n"
        "        (count: integer, note: string, tags: array|null)\n"
        "fail    Says something.\n"
        "escape  Says something.\n"
    )
    found = json.loads(shown(launch, "tools", "p", "polite", "--json"))
    assert (found["server"], found["hidden"]) == ("polite", 13)
    assert [tool["name"] for tool in found["tools"]] == ["echo", "fail", "escape"]
    assert found["tools"][0]["inputSchema"]["$defs"] == {"tags": {"anyOf": [{"type": "array"}, {"type": "null"}]}}


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("many", 'the answer of the MCP server "pager" to tools/list has more than 1000 pages'),
        ("none", 'the MCP server "pager" answered tools/list without a list of tools'),
    ],
)
def test_pages_that_never_end_are_a_broken_protocol(launch: Launcher, mode: str, message: str) -> None:
    profile(launch, pager=server("probe_pager", mode))
    assert failure(launch, "tools", "p", "pager") == (5, f"acp-launch: {message}\n    fix: {SEEN}\n")


def test_the_answer_is_there_before_the_server_has_ended(launch: Launcher) -> None:
    gate = launch.project / "gate"
    os.mkfifo(gate)
    own(launch, f"script.serve(METHODS)\nos.read(os.open({str(gate)!r}, os.O_RDONLY), 1)")
    opened = os.open(gate, os.O_RDWR)
    try:
        with launch.start("mcp", "tools", "p", "own") as running:
            running.shows("only")
            assert any(str(launch.project / "server.py") in each for each in alive(running.mark))
            os.write(opened, b"x")
            assert running.end().code == 0
    finally:
        os.close(opened)
    assert " own stopped, exited with status 0 ---" in launch("logs", "p").out.decode()


def test_a_reader_that_is_slow_does_not_make_us_deaf(launch: Launcher) -> None:
    polite(launch)
    with launch.start("mcp", "call", "p", "polite", "big", "size:=1000000") as running:
        running.gets_stuck()
        running.kill(signal.SIGTERM)
        _, err = running.process.communicate(timeout=PATIENCE)
        assert (running.process.returncode, err) == (143, b"acp-launch: stopped\n")
        assert alive(running.mark) == []


def test_what_a_server_still_asks_is_answered_before_its_input_ends(launch: Launcher) -> None:
    """Servers that wait for an answer do not end with their input."""
    own(
        launch,
        """
answered = []
METHODS["notifications/initialized"] = lambda message: script.send({"id": "late", "method": "roots/list"})
METHODS[None] = lambda response: answered.append(response["id"])
script.serve(METHODS)
script.complain(f"answered: {answered}")
""",
    )
    assert shown(launch, "tools", "p", "own") == "only\n"
    assert "answered: ['late']\n" in launch("logs", "p").out.decode()


def test_roots_are_declared_to_be_inspected_and_else_as_the_profile_says(launch: Launcher) -> None:
    """Some servers have more tools for clients with roots, which most agents are not."""
    own(launch, "script.serve(METHODS)")
    assert json.loads(shown(launch, "inspect", "p", "own", "--json"))["capabilities"] == {"tools": {}}
    for roots, declared in (({}, {}), ({"roots": "session"}, {"roots": {"listChanged": True}})):
        polite(launch, **roots)
        assert answer(launch, "client")["capabilities"] == declared


def test_a_name_that_is_missing_or_unknown_is_answered_with_those_there_are(launch: Launcher) -> None:
    """What is hidden is not suggested."""
    polite(launch, tools={"deny": ["roots"]})
    given = "fix: name one; acp-launch mcp list p lists them"
    for words, said, fix in (
        (["inspect", "p"], "no MCP server is given: p has polite", given),
        (["tools", "p"], "no MCP server is given: p has polite", given),
        (["call", "p"], "no MCP server is given: p has polite", given),
        (["call", "p", "polite"], "no tool is given", "fix: acp-launch mcp tools p polite lists them"),
        (
            ["call", "p", "polit", "echo"],
            'p has no MCP server "polit"; did you mean "polite"?',
            "fix: acp-launch mcp list p",
        ),
        (
            ["call", "p", "polite", "ecko"],
            'the MCP server "polite" has no tool "ecko"; did you mean "echo"?',
            "fix: acp-launch mcp tools p polite",
        ),
        (
            ["call", "p", "polite", "root"],
            'the MCP server "polite" has no tool "root"',
            "fix: acp-launch mcp tools p polite",
        ),
    ):
        assert failure(launch, *words) == (2, f"acp-launch: {said}\n    {fix}\n")
    profile(launch)
    none = "acp-launch: p has no MCP servers\n"
    assert failure(launch, "tools", "p") == (2, f"{none}    fix: add some under mcp_servers in the profile\n")
    assert launch("mcp", "list", "p").err == none
    assert json.loads(shown(launch, "list", "p", "--json")) == {"servers": []}


# call


def test_arguments_come_from_stdin_or_a_file(launch: Launcher, tmp_path: Path) -> None:
    polite(launch)
    written = b'{\n  "note": "from outside"\n}\n'
    file = tmp_path / "arguments.json"
    file.write_bytes(written)
    call = ("mcp", "call", "p", "polite", "echo")
    for done in (
        launch(*call, "-", stdin=written),
        launch(*call, "-f", "-", stdin=written),
        launch(*call, "-f", str(file)),
    ):
        assert (done.code, json.loads(done.out)) == (0, {"note": "from outside"})
    none = str(tmp_path / "none.json")
    for words, said in (
        (
            ["-f", none],
            f"cannot read the arguments from {none}: No such file or directory\n    fix: name a file of JSON\n",
        ),
        (["-f", "/dev/zero"], "the arguments in /dev/zero are more than 64 MiB\n    fix: name a file of JSON\n"),
        (["a=1", "-f", str(file)], "the arguments are given twice\n    fix: give them as words, or with --file\n"),
    ):
        assert failure(launch, *call[1:], *words) == (2, f"acp-launch: {said}")


def test_the_error_of_a_tool_is_on_stderr_and_ends_in_9(launch: Launcher) -> None:
    polite(launch)
    assert failure(launch, "call", "p", "polite", "fail") == (9, "it cannot be done\n")
    done = launch("mcp", "call", "p", "polite", "fail", "--json")
    assert (done.code, done.err, json.loads(done.out)["isError"]) == (9, "", True)


def test_a_server_that_dies_in_a_call_is_unreachable_with_its_last_words(launch: Launcher) -> None:
    """A tool that the profile denies is not called."""
    polite(launch)
    assert failure(launch, "call", "p", "polite", "die") == (
        8,
        'acp-launch: the MCP server "polite" exited with status 7 before it answered tools/call\n'
        "    probe_polite: last words\n",
    )
    polite(launch, tools={"deny": ["di*"]})
    assert failure(launch, "call", "p", "polite", "die") == (
        2,
        'acp-launch: the tool "die" of "polite" is not allowed by the profile (tools.deny: di*)\n'
        "    fix: allow it: mcp_servers.polite.tools in the profile\n",
    )


def test_a_call_has_a_deadline_and_the_server_is_told(launch: Launcher, tmp_path: Path) -> None:
    file = tmp_path / "cancelled"
    polite(launch, "2025-06-18", str(file), timeouts={"call": "200ms"})
    head = 'acp-launch: no result of "wait" from the MCP server "polite" within'
    fix = "    fix: if it needs longer: --timeout DURATION"
    key = ", or mcp_servers.polite.timeouts.call in the profile"
    assert failure(launch, "call", "p", "polite", "wait") == (124, f"{head} 0.2 s\n{fix}{key}\n")
    assert json.loads(file.read_bytes())["reason"] == "it took too long"
    assert failure(launch, "call", "p", "polite", "wait", "--timeout", "0.25") == (124, f"{head} 0.25 s\n{fix}\n")
    code, err = failure(launch, "call", "p", "polite", "wait", "--timeout", "soon")
    assert (code, err.splitlines()[0]) == (2, 'acp-launch: --timeout: expected a duration, found "soon"')


def test_ctrl_c_cancels_the_call_and_ends_the_server(launch: Launcher, tmp_path: Path) -> None:
    file = tmp_path / "cancelled"
    wanted = server("probe_polite", "2025-06-18", str(file))
    del wanted["env"]  # so that this test hears what the server is asked
    profile(launch, polite=wanted)
    with launch.start("mcp", "call", "p", "polite", "wait") as running:
        running.hears("tools/call")
        running.kill(signal.SIGINT)
        _, err = running.process.communicate(timeout=PATIENCE)
        assert (running.process.returncode, err) == (130, b"acp-launch: stopped\n")
        assert alive(running.mark) == []
    assert json.loads(file.read_bytes())["reason"] == "the user stopped it"


def test_a_line_of_progress_is_for_terminals_and_the_log_for_the_verbose(launch: Launcher) -> None:
    """What a server says on stderr is kept for `logs`."""
    polite(launch)
    assert shown(launch, "call", "p", "polite", "progress") == "done\n"
    began, said, ended = launch("logs", "p", "polite").out.decode().splitlines()
    assert re.fullmatch(r"--- [-\d]+ [:\d]+ polite starting \(pid \d+\) ---", began)
    assert said == "probe_polite: working"
    assert re.fullmatch(r"--- [-\d]+ [:\d]+ polite stopped, exited with status 0 ---", ended)
    done = launch("mcp", "call", "p", "polite", "progress", "--verbose")
    assert (done.code, done.out) == (0, b"done\n")
    assert set(done.err.splitlines()) == {'▐ polite: info (db): {"rows": 3}', "probe_polite: working"}
    for tool, text in (
        ("progress", "▐ polite: 1/2: step 1\r\n▐ polite: 2/2: step 2\r\ndone\r\n"),
        ("escape", "\\x1b[31mred\ufffd\r\n"),
    ):
        with on_terminal(
            "mcp", "call", "p", "polite", tool, cwd=launch.project, env={**launch.env, "TERM": "dumb"}
        ) as at:
            assert at.ends() == 0
        assert at.raw.decode() == text


# what goes wrong


@pytest.mark.parametrize(
    ("mode", "code", "message"),
    [
        (
            "quits",
            8,
            'the MCP server "rude" exited with status 3 before it answered initialize\n'
            f"    probe_rude: no database\n    fix: {STDIO}",
        ),
        ("prompt", 8, "this is not an MCP server: it printed text, and no answer to initialize from "),
        ("mute", 124, 'no answer to initialize from the MCP server "rude" within 0.5 s\n'),
    ],
)
def test_whose_fault_it_is_decides_the_exit_code(launch: Launcher, mode: str, code: int, message: str) -> None:
    profile(launch, rude=server("probe_rude", mode, timeouts={"start": "500ms"}))
    ended, err = failure(launch, "tools", "p", "rude")
    assert (ended, err.startswith(f"acp-launch: {message}")) == (code, True), err


def test_a_missing_command_is_this_machines_fault(launch: Launcher) -> None:
    profile(launch, gone={"command": "no-such-server"}, polite=server("probe_polite"))
    code, err = failure(launch, "tools", "p", "gone")
    assert code == 3
    assert 'mcp_servers.gone.command: "no-such-server" is not on PATH' in err
    assert err.endswith("1 problem; nothing was started\n")
    assert launch("mcp", "tools", "p", "polite").code == 0


# others' servers


def test_a_server_on_the_mcp_package_agrees_with_us(launch: Launcher) -> None:
    """The official Python SDK is the oracle: it checks every message we send."""
    profile(launch, sdk={"command": sys.executable, "args": [str(SERVERS / "probe_sdk.py")]})
    found = json.loads(shown(launch, "inspect", "p", "sdk", "--json"))
    assert found["server_info"] == {"name": "sdk", "title": "", "version": "9.1"}
    assert found["protocol_version"] == "2025-11-25"
    assert found["counts"] == {"tools": 4, "resources": 1, "resource_templates": 0, "prompts": 1}
    assert (found["refused"], found["answers_ping"]) == ({}, True)
    assert shown(launch, "call", "p", "sdk", "add", "a=1", "b=2") == "3\n"


def test_a_flood_that_is_no_protocol_is_not_waited_out(launch: Launcher) -> None:
    flood = "import os\nwhile True: os.write(1, b'y\\n' * 30000)"
    launch.profile("polite", mcp_servers={"yes": {"command": sys.executable, "args": ["-I", "-S", "-c", flood]}})
    done = launch("mcp", "inspect", "p", "yes")
    assert done.code == 5
    said = 'acp-launch: the MCP server "yes" wrote more than 1 MiB to stdout that is not JSON-RPC\n'
    assert patient(done.err) == said + "    it printed: y\n" * 5 + f"    fix: {STDIO}{TRACE}\n"
