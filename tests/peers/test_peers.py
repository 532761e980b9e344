"""Agents written on the published SDK, 0.12 and the 1.0 pre-release, driven by the real `acp-launch run`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.peers.bench import Bench, make_bench, marked

# Both SDKs are one distribution, so the pre-release lives in an environment of its own. Read now: tests get no ACP_*.
RC_PYTHON = os.environ.get("ACP_LAUNCH_TEST_RC_PYTHON", "")
HOW = (
    "set ACP_LAUNCH_TEST_RC_PYTHON to the python of a virtual environment made with: "
    "pip install 'agent-client-protocol>=1.0.0rc3,<2'"
)
needs_rc = pytest.mark.skipif(not RC_PYTHON, reason=HOW)


@pytest.fixture
def old(tmp_path: Path) -> Bench:
    return make_bench(tmp_path / "project", python=sys.executable, module="tests.peers.sdk_0_12", sdk="0.12.1")


@pytest.fixture
def rc(tmp_path: Path) -> Bench:
    return make_bench(tmp_path / "project", python=RC_PYTHON, module="tests.peers.sdk_1_0", sdk="1.")


@pytest.fixture(params=["old", pytest.param("rc", marks=needs_rc)])
def bench(request: pytest.FixtureRequest) -> Bench:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Bench)
    return found


def test_a_process_that_a_run_left_would_be_found() -> None:
    """Every test here relies on it."""
    command = [sys.executable, "-c", "print('up', flush=True); input()"]
    env = {**os.environ, "ACP_TEST_MARK": "left"}
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "up\n"
        assert marked("left") == [" ".join(command)]
        process.communicate("\n", timeout=PATIENCE)
    assert marked("left") == []


def test_a_turn_brings_every_thought_and_chunk_in_order(bench: Bench) -> None:
    ended = bench.run("--output", "json", "hello there")
    assert ended.code == 0, ended.stderr
    agent = ended.event("initialized")["result"]["agentInfo"]
    assert agent["name"] == "peer"
    assert agent["version"].startswith(bench.sdk)
    assert [event["type"] for event in ended.events] == ["initialized", "session", *["update"] * 3, "result"]
    assert ended.event("session")["how"] == "new"
    assert ended.texts("agent_thought_chunk") == ["They said hello there"]
    assert ended.texts("agent_message_chunk") == ["You said: ", "hello there"]
    assert ended.event("result")["stopReason"] == "end_turn"


def test_text_output_is_the_agents_words_alone(bench: Bench) -> None:
    ended = bench.run("hello there")
    assert (ended.code, ended.stdout) == (0, "You said: hello there\n")


@pytest.mark.promise("answer")
@pytest.mark.sample(1)
def test_an_allowed_tool_call_does_its_work(bench: Bench) -> None:
    ended = bench.run("--output", "json", "--approve", "all", "write note.txt")
    assert ended.code == 0, ended.stderr
    permission = ended.event("permission")
    assert (permission["allowed"], permission["optionId"], permission["by"]) == (True, "yes", "--approve all")
    (started,) = ended.updates("tool_call")
    assert (started["title"], started["kind"], started["status"]) == ("Write note.txt", "edit", "pending")
    assert [update["status"] for update in ended.updates("tool_call_update")] == ["completed"]
    assert ended.texts("agent_message_chunk") == ["wrote note.txt"]
    assert (bench.project / "note.txt").read_text() == "written by the peer\n"


def test_a_denied_tool_call_does_nothing_and_the_turn_goes_on(bench: Bench) -> None:
    ended = bench.run("--output", "json", "--approve", "none", "write note.txt")
    assert ended.code == 0, ended.stderr
    permission = ended.event("permission")
    assert (permission["allowed"], permission["optionId"], permission["by"]) == (False, "no", "--approve none")
    assert [update["status"] for update in ended.updates("tool_call_update")] == ["failed"]
    assert ended.texts("agent_message_chunk") == ["did not write note.txt"]
    assert not (bench.project / "note.txt").exists()


def test_with_no_one_to_ask_the_tool_call_is_denied_and_the_exit_code_says_so(bench: Bench) -> None:
    ended = bench.run("write note.txt")
    assert (ended.code, ended.stdout) == (10, "did not write note.txt\n")
    assert "no terminal to ask on" in ended.stderr
    assert not (bench.project / "note.txt").exists()


def test_ctrl_c_cancels_the_turn(bench: Bench) -> None:
    ended = bench.interrupt("waiting", "wait")
    assert ended.code == 130, ended.stderr
    assert ended.texts("agent_message_chunk") == ["waiting"]
    assert ended.event("result")["stopReason"] == "cancelled"


def test_a_named_session_is_loaded_again_with_its_history_hidden(bench: Bench) -> None:
    first = bench.run("--session", "notes", "the first thing")
    second = bench.run("--session", "notes", "recall")
    assert (first.code, first.stdout) == (0, "You said: the first thing\n")
    assert (second.code, second.stdout) == (0, "the first thing\n"), second.stderr
    assert "You said" not in second.stderr
    third = bench.run("--session", "notes", "--output", "json", "recall")
    assert third.code == 0, third.stderr
    assert third.said(type="replay") == [
        ("user", "the first thing"),
        ("agent", "You said: the first thing"),
        ("user", "recall"),
        ("agent", "the first thing"),
    ]
    session = third.event("session")
    assert (session["name"], session["how"], session["replayed"]) == ("notes", "load", 4)
    assert third.said(type="update") == [("agent", "the first thing\nrecall")]


def test_a_session_under_another_name_knows_nothing_of_the_first(bench: Bench) -> None:
    assert bench.run("--session", "one", "the first thing").code == 0
    ended = bench.run("--session", "two", "--output", "json", "recall")
    assert ended.event("session")["how"] == "new"
    assert ended.texts("agent_message_chunk") == [""]


def test_a_session_the_agent_has_forgotten_is_an_error(bench: Bench) -> None:
    assert bench.run("--session", "notes", "the first thing").code == 0
    for file in (bench.project / "history").iterdir():
        file.unlink()
    ended = bench.run("--session", "notes", "recall")
    assert (ended.code, ended.stdout) == (3, "")
    assert 'the agent has forgotten the session "notes"' in ended.stderr
    assert "--new" in ended.stderr


def test_the_agent_lists_its_sessions(bench: Bench) -> None:
    session = bench.run("--session", "notes", "--output", "json", "the first thing").event("session")
    ended = bench.launch("session", "list", "--agent", "peer")
    assert ended.code == 0, ended.stderr
    assert session["sessionId"] in ended.stdout


@needs_rc
def test_removing_a_session_deletes_it_at_an_agent_that_can(rc: Bench) -> None:
    """`session/delete` came with 1.0 of the SDK."""
    assert rc.run("--session", "notes", "the first thing").code == 0
    assert len(list((rc.project / "history").iterdir())) == 1
    ended = rc.launch("session", "rm", "notes")
    assert ended.code == 0, ended.stderr
    assert list((rc.project / "history").iterdir()) == []


def test_removing_a_session_at_an_agent_that_cannot_delete_forgets_it_here(old: Bench) -> None:
    assert old.run("--session", "notes", "the first thing").code == 0
    ended = old.launch("session", "rm", "notes")
    assert ended.code == 0, ended.stderr
    assert len(list((old.project / "history").iterdir())) == 1
    assert old.run("--session", "notes", "--output", "json", "recall").event("session")["how"] == "new"
