"""Ring 3. `--trace` and `trace`: what agent, servers and acp-launch said to each other, and how it reads."""

import json
import re
import stat
from itertools import pairwise
from typing import Any

import pytest

from tests.cli.launcher import Ended, Launcher
from tests.cli.terminal import on_terminal
from tests.cli.test_mcp import profile as servers_of
from tests.cli.test_mcp import server
from tests.cli.test_run_secrets import CANARIES, blabber, planted, shapes

__all__ = ["planted"]  # a fixture
Json = dict[str, Any]
SAY = "script.say(script.session_of(request), 'hello')"


def entries(launch: Launcher, name: str = "t") -> list[Json]:
    return [json.loads(line) for line in (launch.project / name).read_bytes().splitlines()]


def steps(launch: Launcher) -> list[list[str]]:
    return rows(launch("trace", "t"))


def rows(done: Ended) -> list[list[str]]:
    """The way and the message of each row of the screen."""
    assert done.code == 0, done.err
    head, *others = done.out.decode().splitlines()
    assert head.split() == ["TIME", "TOOK", "FROM", "→", "TO", "MESSAGE"]
    return [[row[21:41].strip(), row[43:]] for row in others]


@pytest.mark.promise("diagnosis")
def test_a_run_is_traced_both_ways_with_its_servers_and_its_processes(launch: Launcher) -> None:
    done = launch("run", "demo", "add 20 22", "--trace", "t", "--output", "quiet")
    assert (done.code, done.out) == (0, b"42\n")
    assert stat.S_IMODE((launch.project / "t").stat().st_mode) == 0o600
    lines = entries(launch)
    assert (lines[0]["type"], lines[0]["verb"], lines[0]["profile"]) == ("trace", "run", "demo")
    assert lines[-1]["type"] == "end"
    assert all(before["at"] <= after["at"] for before, after in pairwise(lines))
    found = steps(launch)
    asked = [
        ("acp-launch → agent", "initialize"),
        ("acp-launch → agent", "session/new"),
        ("acp-launch → agent", "session/prompt"),
        ("acp-launch → notes", "ping"),
        ("agent → notes", "initialize"),
        ("agent → notes", "tools/call"),
        ("agent → notes", "tools/list"),
    ]
    methods = {method for _, method in asked}
    shown = [(way, message.partition(":")[0]) for way, message in found]
    assert sorted(step for step in shown if step[1] in methods) == asked
    answered = [(" → ".join(reversed(way.split(" → "))), of.removeprefix("answer to ")) for way, of in shown]
    assert sorted(step for step, of in zip(answered, shown, strict=True) if of[1].startswith("answer to ")) == asked
    processes = [(way, message.split()[0].strip(",")) for way, message in found if "→" not in way]
    assert sorted(processes) == [("agent", "exited"), ("agent", "started"), ("notes", "exited"), ("notes", "started")]
    assert not [message for _, message in found if "not answered" in message]


def test_the_sequence_says_who_asked_what_and_how_long_it_took(launch: Launcher) -> None:
    launch("run", "demo", "add 20 22", "--trace", "t", "--output", "quiet")
    done = launch("trace", "t")
    shown = rows(done)
    assert ["acp-launch → agent", "session/prompt: add 20 22"] in shown
    assert ["agent → acp-launch", "answer to session/prompt: end_turn"] in shown
    assert ["agent → notes", "tools/call: add"] in shown
    assert ["notes → agent", "answer to tools/list: 3 tools"] in shown
    assert ["notes", "exited with status 0"] in shown
    assert " ms  notes → agent         answer to tools/call\n" in done.out.decode()
    assert done.err.startswith("acp-launch: run of demo, 20")


def test_steps_that_repeat_are_one_line(launch: Launcher) -> None:
    launch.scripted(
        "def prompt(request):\n"
        "    for _ in range(300):\n"
        "        script.say(script.session_of(request), 'x')\n"
        "    script.end(request)\n"
        "script.serve({'session/prompt': prompt})"
    )
    assert launch("run", "p", "hello", "--trace", "t").code == 0
    counted = [message for _, message in rows(launch("trace", "t")) if "×" in message]
    assert counted == ["session/update: agent_message_chunk ×300"]


def test_an_agent_that_leaves_a_request_unanswered_is_seen(launch: Launcher) -> None:
    launch.scripted(f"script.serve({{'session/prompt': lambda request: ({SAY}, sys.exit(3))}})")
    assert launch("run", "p", "hello", "--trace", "t").code == 4
    shown = rows(launch("trace", "t"))
    assert ["agent", "exited with status 3"] in shown
    assert shown[-1] == ["acp-launch → agent", "session/prompt: hello was not answered"]


def test_an_error_and_a_line_that_is_no_message_are_seen(launch: Launcher) -> None:
    launch.scripted(
        "script.write(b'Loading \\x1b[2J model\\n')\n"
        "script.serve({'session/prompt': lambda request: script.refuse(request, -32603, 'Internal error')})"
    )
    assert launch("run", "p", "hello", "--trace", "t").code == 4
    shown = rows(launch("trace", "t"))
    assert ["agent → acp-launch", "not a message: Loading \ufffd[2J model"] in shown
    assert ["agent → acp-launch", "error for session/prompt: Internal error (-32603)"] in shown


@pytest.mark.promise("secret")
def test_no_secret_is_in_a_trace(planted: Launcher) -> None:
    """Of these, the agent gets two in `session/new`, and repeats them."""
    blabber(planted)
    planted("run", "p", "hello", "--trace", "t", "--output", "json", "--approve", "none")
    raw = (planted.project / "t").read_text()
    assert "session/new" in raw and "***" in raw
    assert not [shape for value in CANARIES.values() for shape in shapes(value) if shape in raw]


@pytest.mark.parametrize("verb", ["tools", "inspect", "call"])
def test_a_verb_with_a_server_is_traced(launch: Launcher, verb: str) -> None:
    servers_of(launch, polite=server("probe_polite"))
    words = ["echo", "text=hi"] if verb == "call" else []
    launch("mcp", verb, "p", "polite", *words, "--trace", "t")
    found = steps(launch)
    assert next(step for step in found if "→" in step[0]) == ["acp-launch → polite", "initialize"]
    assert [way for way, message in found if message.startswith("answer to tools/list")] == ["polite → acp-launch"]
    assert [message.split()[0] for way, message in found if way == "polite"] == ["started,", "exited"]


def test_doctor_is_traced(launch: Launcher) -> None:
    assert launch("doctor", "demo", "--trace", "t").code == 0
    assert {way for way, message in steps(launch) if message.startswith("initialize")} == {
        "acp-launch → agent",
        "acp-launch → notes",
    }


@pytest.mark.parametrize("arguments", [("login", "p", "--list"), ("session", "list", "p", "--agent"), ("logout", "p")])
def test_every_verb_that_starts_an_agent_can_be_traced(launch: Launcher, arguments: tuple[str, ...]) -> None:
    launch.profile("polite")
    launch(*arguments, "--trace", "t")
    assert ["acp-launch → agent", "initialize"] in [[way, message[:10]] for way, message in steps(launch)]


def test_what_acp_launch_answers_or_changes_itself_is_told_apart(launch: Launcher) -> None:
    """`add_note` is hidden from the agent: the list that it gets is not the server's."""
    command = {"command": "${python}", "args": ["-P", "-m", "acp_launch.demo.server"]}
    launch.write(
        {"extends": "demo", "mcp_servers": {"notes": {**command, "cwd": "${project}", "tools": {"deny": ["add_note"]}}}}
    )
    assert launch("run", "p", "add 1 2", "--trace", "t").code == 0
    assert [step for step in steps(launch) if "tools/list" in step[1]] == [
        ["agent → notes", "tools/list"],
        ["notes → acp-launch", "answer to tools/list: 3 tools"],
        ["acp-launch → agent", "answer to tools/list: 2 tools"],
    ]


# A failure that gives no reason, and a broken protocol, point to it.


def test_an_internal_error_points_to_the_trace(launch: Launcher) -> None:
    launch.profile("refuser", "error", "-32603", "Internal error")
    without = "it gives no other reason; try another version of it, or agent.inherit_env: minimal in a profile"
    said = "acp-launch: the agent answered session/prompt with an error: Internal error (-32603)\n    fix: "
    done = launch("run", "p", "hi")
    assert (done.code, done.err) == (4, f"{said}{without}; run it again with --trace FILE to see what was said\n")
    done = launch("run", "p", "hi", "--trace", "my trace")
    assert (done.code, done.err) == (4, f"{said}{without}; acp-launch trace 'my trace' shows what was said\n")
    assert b"error for session/prompt: Internal error (-32603)" in launch("trace", "my trace").out


def test_a_broken_protocol_points_to_the_trace(launch: Launcher) -> None:
    launch.profile("liar", "no-session", mcp_servers={"rude": server("probe_rude", "null")})
    assert launch("run", "p", "hi").err.endswith("    fix: run it again with --trace FILE to see what was said\n")
    done = launch("run", "p", "hi", "--trace", "t")
    assert (done.code, done.err.splitlines()[-1]) == (5, "    fix: acp-launch trace t shows what was said")
    done = launch("mcp", "tools", "p", "rude", "--trace", "t")
    assert (done.code, done.err.splitlines()[-1]) == (5, "    fix: acp-launch trace t shows what was said")
    checks = json.loads(launch("doctor", "p", "--json", "--trace", "t").out)["checks"]
    assert [check["fix"] for check in checks if check["check"] in ("session", "server")] == [
        "acp-launch trace t shows what was said",
        "acp-launch trace t shows what was said",
    ]


# Files that are no traces, or not whole ones.


def test_what_is_not_a_trace_gets_one_message(launch: Launcher) -> None:
    (launch.project / "binary").write_bytes(b"\x00\xff" * 1000)
    (launch.project / "empty").touch()
    (launch.project / "other.json").write_text('{"type":"note","time":"","at":0}\n')
    (launch.project / "newer").write_text('{"type":"trace","time":"","at":0,"version":2}\n')
    fix = "    fix: write one: acp-launch run PROFILE PROMPT --trace FILE\n"
    for name in ("binary", "empty", "other.json"):
        done = launch("trace", name)
        assert (done.code, done.out, done.err) == (2, b"", f"acp-launch: {name} is not a trace\n{fix}")
    assert launch("trace", "newer").err.startswith("acp-launch: newer is a trace of a newer acp-launch\n")
    assert launch("trace", "none").err == f"acp-launch: cannot read none: no such file or directory\n{fix}"
    assert launch("trace", ".").err == f"acp-launch: cannot read .: is a directory\n{fix}"


def test_a_torn_trace_is_shown_as_far_as_it_goes(launch: Launcher) -> None:
    launch("run", "demo", "add 20 22", "--trace", "t", "--output", "quiet")
    whole = (launch.project / "t").read_bytes().splitlines(keepends=True)
    (launch.project / "t").write_bytes(b"".join([*whole[:4], b"garbage\n", *whole[4:8], whole[8][:40]]))
    done = launch("trace", "t")
    assert len(rows(done)) >= 7
    assert done.err.splitlines()[1:] == [
        "acp-launch: skipped 2 lines of t that cannot be read",
        "acp-launch: the trace is incomplete: its run was killed, is still running, or could not write it",
    ]


def test_a_trace_is_read_from_stdin(launch: Launcher) -> None:
    launch("run", "demo", "add 20 22", "--trace", "t", "--output", "quiet")
    text = (launch.project / "t").read_bytes()
    assert launch("trace", "-", stdin=text).out == launch("trace", "t").out


def test_text_in_a_trace_cannot_drive_the_terminal(launch: Launcher) -> None:
    """On a terminal each step is one line that fits, in colour."""
    head = {"type": "trace", "time": "\x1b[2J", "at": 0, "version": 1, "verb": "\x9b2J", "profile": "\u202e"}
    evil = "\x1b[2J\x9b2J\u202e▐ acp-launch: \r\n" + "x" * 500
    step = {"type": "message", "time": "", "at": 1, "from": evil, "to": "agent", "server": evil}
    lines = [
        head,
        {**step, "message": {"method": evil, "params": {"name": evil}}},
        {**step, "text": evil},
        {"type": "exit", "time": "", "at": 2, "server": evil, "how": evil},
        {
            "type": "message",
            "time": "",
            "at": 3,
            "from": "agent",
            "to": "acp-launch",
            "message": {"id": 1, "error": evil},
        },
    ]
    (launch.project / "t").write_text("".join(json.dumps(line) + "\n" for line in lines))
    env = {name: value for name, value in launch.env.items() if name != "NO_COLOR"}
    with on_terminal("trace", "t", cwd=launch.project, env={**env, "TERM": "xterm-256color"}) as terminal:
        assert terminal.ends() == 0
        text = terminal.raw.decode().replace("\r\n", "\n")
    assert "\x1b[31m" in text
    plain = re.sub(r"\x1b\[(?:[0-2]|3[135])m", "", text)
    assert plain.replace("\n", "").isprintable() and "▐" not in plain
    own = [line for line in plain.splitlines() if not line.startswith("acp-launch: ")]
    assert len(own) == 5 and all(len(line) <= 80 for line in own)
