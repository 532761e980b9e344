"""Ring 3. `replay`: the agent of a trace, which says what it said and checks what the client sends."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from acp_launch.cli import replay
from acp_launch.errors import RemoteProtocolError
from tests.cli.launcher import AGENTS, DEMO_SERVER, SERVERS, Ended, Launcher

Json = dict[str, Any]
RUN = ("--approve", "all", "-o", "json")
FIX = "undo what has changed since, or record it again: acp-launch run PROFILE PROMPT --trace FILE"
POLITE: Json = {"command": sys.executable, "args": ["-I", "-S", str(SERVERS / "polite.py")]}
PROMPTS = [
    *("help", "think hard", "plan", "count 3", "slowly a b", "history", "where", "tools", "note x", "notes", "add 2 3"),
    *('call notes add {"a":1,"b":2}', 'repeat 2 notes add {"a":1,"b":2}', "read f", "read nope", "edit f more"),
    *("shell echo hi", "shell exit 3", "form", "crash", "something else"),
]
PLAYED: Json = {"command": sys.executable, "args": ["-P", "-m", "acp_launch", "replay", "t"]}


@pytest.fixture
def recorded(launch: Launcher) -> Callable[[str], Ended]:
    """Record a run of the demo agent in `t`; the profile `p` plays it."""
    rest: Json = {"client": {"fs": True, "terminal": True}, "mcp_servers": {"notes": DEMO_SERVER}}
    demo = {"command": sys.executable, "args": ["-I", str(AGENTS / "demo.py")]}
    launch.write({"agent": demo, **rest}, name="real")
    launch.write({"agent": PLAYED, **rest})
    file = launch.project / "f"

    def record(prompt: str) -> Ended:
        file.write_text("one\ntwo\n")
        done = launch("run", "real", prompt, "--trace", "t", *RUN)
        file.write_text("one\ntwo\n")
        return done

    return record


def comparable(done: Ended) -> tuple[list[Json], list[Json]]:
    """The events that a replay repeats, and those of commands, which run beside the agent. MCP calls are not repeated,
    and each launch names its session and its agent's command."""
    kept = [event for event in done.events if event["type"] not in {"server", "servers"}]
    for event in kept:
        del event["time"]
        event.pop("name" if event["type"] == "session" else "detail", None)
    commands = [event for event in kept if event["type"] == "terminal"]
    output = "".join(event["output"] for event in commands)
    last = [{**commands[-1], "output": output}] if commands else []
    return [event for event in kept if event["type"] != "terminal"], last


@pytest.mark.promise("replay")
@pytest.mark.sample(1, 4)
@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_replay_gives_the_events_of_the_run(launch: Launcher, recorded: Callable[[str], Ended], prompt: str) -> None:
    first = recorded(prompt)
    again = launch("run", "p", prompt, *RUN)
    assert first.code == again.code == (4 if prompt == "crash" else 0), again.err
    assert comparable(again) == comparable(first)


def test_commands_of_the_demo_are_all_replayed() -> None:
    from acp_launch.demo.replies import REPLIES

    assert {*REPLIES} - {prompt.split()[0] for prompt in PROMPTS} == {"look"}  # below, with something to look at


def test_an_attached_file_is_compared(launch: Launcher, recorded: Callable[[str], Ended]) -> None:
    recorded("help")
    first = launch("run", "real", "look", "--attach", "f", "--trace", "t", *RUN)
    assert comparable(launch("run", "p", "look", "--attach", "f", *RUN)) == comparable(first)
    (launch.project / "f").write_text("another")
    done = launch("run", "p", "look", "--attach", "f", *RUN)
    assert done.code == 4
    assert "session/prompt differs from the trace" in str(done.event("error")["detail"])


def differing(done: Ended) -> list[str]:
    """What the failed run says of its agent, without the command."""
    assert done.code == 4, done.err
    return [line.strip() for line in done.event("error")["detail"] if not line.startswith("command: ")]


def test_another_answer_to_a_question_ends_the_run_with_the_difference(
    launch: Launcher, recorded: Callable[[str], Ended]
) -> None:
    recorded("note x")
    done = launch("run", "p", "note x", "--approve", "none", "-o", "json")
    assert done.event("error")["message"] == "the agent exited with status 5 before it answered session/prompt"
    said, difference, fix = differing(done)
    assert said.startswith("acp-launch: t:")
    assert said.endswith(": the answer to session/request_permission differs from the trace")
    assert difference == 'result.outcome.optionId: "allow-once" in the trace, "reject-once" now'
    assert fix == "fix: undo what has changed since, or record it again: acp-launch run real PROMPT --trace t"
    line = json.loads((launch.project / "t").read_bytes().splitlines()[int(said.split(":")[2]) - 1])
    assert line["message"]["result"] == {"outcome": {"outcome": "selected", "optionId": "allow-once"}}


def test_another_prompt_file_or_capability_is_a_difference(launch: Launcher, recorded: Callable[[str], Ended]) -> None:
    recorded("read f")
    assert 'params.prompt[0].text: "read f" in the trace, "read g" now' in differing(launch("run", "p", "read g", *RUN))
    (launch.project / "f").write_text("one\nthree\n")
    assert 'result.content: "one\\ntwo\\n" in the trace, "one\\nthree\\n" now' in differing(
        launch("run", "p", "read f", *RUN)
    )
    launch.extend(client={"fs": True})
    done = launch("run", "p", "read f", *RUN)
    assert "params.clientCapabilities.terminal: true in the trace, false now" in differing(done)
    assert done.event("error").get("fix", "") == ""  # the agent's own last words say what to do
    launch.extend(client={"fs": True, "terminal": True}, mcp_servers={})
    assert any(line.startswith("params.mcpServers: [{") for line in differing(launch("run", "p", "read f", *RUN)))


@pytest.mark.promise("replay")
def test_a_call_that_is_not_in_the_trace_is_a_difference(launch: Launcher, recorded: Callable[[str], Ended]) -> None:
    recorded("help")
    assert launch("run", "p", "help", "--session", "s", *RUN).code == 0
    said, *_ = differing(launch("run", "p", "help", "--session", "s", *RUN))
    assert said.endswith(": session/load came, but the trace has session/new")


def test_servers_over_http_are_those_of_an_agent_that_starts_them(launch: Launcher) -> None:
    """As copilot, which takes servers over HTTP only; its replay is offered programs."""
    command = [sys.executable, "-I", "-S", str(AGENTS / "over_http.py")]
    rest: Json = {"mcp_servers": {"polite": POLITE}}
    launch.write({"agent": {"command": command[0], "args": command[1:], "mcp": "http"}, **rest}, name="real")
    launch.write({"agent": PLAYED, **rest})
    first = launch("run", "real", 'add {"a": 1, "b": 2}', "--trace", "t", *RUN)
    assert b'"type":"http"' in (launch.project / "t").read_bytes()
    again = launch("run", "p", 'add {"a": 1, "b": 2}', *RUN)
    assert (first.code, again.code) == (0, 0), again.err
    launch.write({"agent": PLAYED, "mcp_servers": {"other": POLITE}})
    assert any("mcpServers" in line for line in differing(launch("run", "p", 'add {"a": 1, "b": 2}', *RUN)))


def test_another_directory_is_not_a_difference(launch: Launcher, recorded: Callable[[str], Ended]) -> None:
    recorded("edit f more")
    elsewhere = launch.project / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "f").write_text("one\ntwo\n")
    launch.extend(agent={**PLAYED, "args": [*PLAYED["args"][:-1], str(launch.project / "t")]})
    done = launch("run", "p", "edit f more", "--cwd", "elsewhere", *RUN)
    assert done.code == 0, done.err
    assert (elsewhere / "f").read_text() == "one\ntwo\nmore\n"
    assert (launch.project / "f").read_text() == "one\ntwo\n"


# A trace that cannot be played.


def head(**of: Any) -> Json:
    return {"type": "trace", "version": 1, **of}


def said(sender: str, message: Any = None, **of: Any) -> Json:
    return {"type": "message", "from": sender, "message": message, **of}


START, END = {"type": "start", "pid": 1}, {"type": "end"}
WRITE = {"id": 1, "method": "fs/write_text_file", "params": {"path": "/x", "content": "a *** b"}}
UNFIT = {
    "not a trace": [{"type": "other"}],
    "a trace of version 2; version 1 can be played": [head(version=2), END],
    "the trace is cut: its run was killed, is still running, or could not write it": [head(), START],
    "it has 2 lives of its agent (lines 2, 3); one can be played": [head(), START, START, END],
    "it has no message of an agent": [head(), {"type": "start", "server": "s"}, said("server", {}, server="s"), END],
    ":2: a message is cut in the trace (2,000,000 bytes)": [head(), said("agent", size=2_000_000), END],
    ":2: fs/write_text_file has a masked secret (***), so it cannot be repeated": [head(), said("agent", WRITE), END],
    ":2: a message of the client that is not JSON-RPC": [head(), said("acp-launch", text="x"), END],
}


def test_the_version_that_is_played_is_the_one_that_is_written() -> None:
    from acp_launch import trace

    assert replay.VERSION == trace.VERSION


def write_trace(launch: Launcher, *entries: Json) -> Path:
    file = launch.project / "t"
    file.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    return file


@pytest.mark.parametrize("reason", UNFIT)
def test_a_trace_that_cannot_be_played_is_refused(launch: Launcher, reason: str) -> None:
    write_trace(launch, *UNFIT[reason])
    done = launch("replay", "t", stdin=b"")
    place = "" if reason.startswith(":") else ": "
    assert (done.code, done.out) == (2, b"")
    assert done.err == f"acp-launch: t{place}{reason}\n    fix: {replay.RECORD}\n"


def test_a_torn_line_and_a_missing_file_are_refused(launch: Launcher) -> None:
    file = write_trace(launch, head(), START)
    file.write_text(file.read_text() + '{"type":"mess')
    done = launch("replay", "t", stdin=b"")
    assert (done.code, done.err.splitlines()[0]) == (
        2,
        "acp-launch: t:3: the trace is cut or damaged: this line cannot be read",
    )
    done = launch("replay", "nothing", stdin=b"")
    assert (done.code, done.err.splitlines()[0]) == (
        2,
        "acp-launch: nothing: cannot read it: no such file or directory",
    )


# A trace and a client by hand.

ASK = {"id": 7, "method": "ask", "params": {"sessionId": "s"}}


def play(launch: Launcher, *entries: Json, client: list[Json]) -> Ended:
    write_trace(launch, head(), START, *entries, END)
    return launch("replay", "t", stdin=b"".join(json.dumps(each).encode() + b"\n" for each in client))


def heard(done: Ended) -> list[Json]:
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def test_ids_of_client_sessions_and_terminals_are_those_of_this_run(launch: Launcher) -> None:
    create, params = {"id": 1, "method": "terminal/create"}, {"terminalId": "T", "sessionId": "S"}
    done = play(
        launch,
        said("acp-launch", {"id": 5, "method": "session/load", "params": {"sessionId": "S", "cwd": "/old"}}),
        said("agent", {"id": 5, "result": {}}),
        said("agent", {**create, "params": {"sessionId": "S", "cwd": "/old/sub", "command": "/older"}}),
        said("acp-launch", {"id": 1, "result": {"terminalId": "T"}}),
        said("agent", {"method": "session/update", "params": params}),
        client=[
            {"id": "five", "method": "session/load", "params": {"sessionId": "s", "cwd": "/new"}},
            {"id": 1, "result": {"terminalId": "t"}},
        ],
    )
    assert heard(done) == [
        {"id": "five", "result": {}},
        {**create, "params": {"sessionId": "s", "cwd": "/new/sub", "command": "/older"}},
        {"method": "session/update", "params": {"terminalId": "t", "sessionId": "s"}},
    ]


def test_answers_and_calls_that_cross_may_come_in_another_order(launch: Launcher) -> None:
    call, answer = {"method": "told", "params": {}}, {"id": 7, "result": {}}
    recorded = [said("agent", ASK), said("acp-launch", answer), said("acp-launch", call), said("agent", text="junk")]
    orders: list[list[Json]] = [[answer, call], [call, answer]]
    for client in orders:
        done = play(launch, *recorded, client=client)
        assert (done.code, done.out) == (0, json.dumps(ASK, separators=(",", ":")).encode() + b"\njunk\n")


def test_a_mask_in_what_the_client_sent_stands_for_any_text(launch: Launcher) -> None:
    recorded = said("acp-launch", {"method": "told", "params": {"text": "a *** and *** b"}})
    assert heard(play(launch, recorded, client=[{"method": "told", "params": {"text": "a *1*\n and 2 b"}}])) == []
    done = play(launch, recorded, client=[{"method": "told", "params": {"text": "a 1 or 2 b"}}])
    assert (done.code, done.err.splitlines()[1].strip()) == (
        5,
        'params.text: "a *** and *** b" in the trace, "a 1 or 2 b" now',
    )


@pytest.mark.parametrize(
    ("client", "what"),
    [
        ([], ":3: the client left, but the trace has told"),
        ([{"id": 9, "result": {}}], ":3: an answer to request 9 came, and the trace has no more of that"),
        ([{"method": "told"}, {"method": "x"}], ":3: x came, and the trace has no more of that"),
    ],
)
def test_what_the_trace_does_not_have_is_a_difference(launch: Launcher, client: list[Json], what: str) -> None:
    done = play(launch, said("acp-launch", {"method": "told"}), client=client)
    assert (done.code, done.err) == (5, f"acp-launch: t{what}\n    fix: {FIX}\n")


def test_the_text_of_an_error_and_a_message_that_is_cut_are_not_compared(launch: Launcher) -> None:
    done = play(
        launch,
        said("agent", ASK),
        said("acp-launch", {"id": 7, "error": {"code": -1, "message": "old words"}}),
        said("acp-launch", None, size=2_000_000, id=3, method="long", text="{"),
        client=[{"id": 7, "error": {"code": -1, "message": "new"}}, {"id": 4, "method": "long", "params": {"a": 1}}],
    )
    assert heard(done) == [ASK]


def test_a_client_that_says_nothing_in_a_turn_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("select.select", lambda *_: ([], [], []))
    steps = [replay.Step(3, is_expected=True, message={"method": "session/cancel"})]
    player = replay.Player(tmp_path / "t", replay.Script(steps, 0))
    player._open["1"] = 1
    with pytest.raises(RemoteProtocolError, match="t:3: nothing came for 30 s, but the trace has session/cancel"):
        player._receive(steps[0])


def test_a_replay_imports_nothing_heavy(launch: Launcher) -> None:
    from tests.test_architecture import HEAVY, UNNEEDED, loaded

    file = write_trace(launch, head(), START, said("agent", text="hello"), END)
    assert not {*HEAVY, *UNNEEDED, "acp_launch.trace"} & (loaded("replay", str(file)) - {"msgspec"})
