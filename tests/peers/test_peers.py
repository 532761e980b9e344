"""Agents written on the published SDK, 0.12 and the 1.0 pre-release, driven by the real `acp-launch run`."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import launch
from tests.cli.launcher import ROOT, Ended, Launcher

__all__ = ["launch"]  # a fixture
# Both SDKs are one distribution, so the pre-release lives in an environment of its own. Read now: tests get no ACP_*.
RC_PYTHON = os.environ.get("ACP_LAUNCH_TEST_RC_PYTHON", "")
HOW = (
    "set ACP_LAUNCH_TEST_RC_PYTHON to the python of a virtual environment made with: "
    "pip install 'agent-client-protocol>=1.0.0rc3,<2'"
)
needs_rc = pytest.mark.skipif(not RC_PYTHON, reason=HOW)
BOTH = pytest.mark.parametrize("sdk", ["0.12.1", pytest.param("1.", marks=needs_rc)])


@pytest.fixture
def peer(launch: Launcher, sdk: str) -> Launcher:
    """A project whose profile `p` starts the peer on the SDK whose version begins so."""
    python = sys.executable if sdk.startswith("0") else RC_PYTHON
    env = {"PYTHONPATH": str(ROOT), "ACP_TEST_HISTORY": str(history(launch))}
    launch.write({"agent": {"command": python, "args": ["-m", "tests.peers.sdk"], "env": env}})
    return launch


def history(launch: Launcher) -> Path:
    """One file a session of the peer."""
    return launch.project / "history"


def updates(ended: Ended, kind: str) -> list[dict[str, Any]]:
    found = [event["update"] for event in ended.events if event["type"] == "update"]
    return [update for update in found if update["sessionUpdate"] == kind]


def texts(ended: Ended, kind: str) -> list[str]:
    return [update["content"]["text"] for update in updates(ended, kind)]


@pytest.mark.promise("answer")
@pytest.mark.sample(1)
@BOTH
def test_an_allowed_tool_call_does_its_work(peer: Launcher) -> None:
    ended = peer("run", "p", "--output", "json", "--approve", "all", "write note.txt")
    assert ended.code == 0, ended.err
    permission = ended.event("permission")
    assert (permission["allowed"], permission["optionId"], permission["by"]) == (True, "yes", "--approve all")
    (started,) = updates(ended, "tool_call")
    assert (started["title"], started["kind"], started["status"]) == ("Write note.txt", "edit", "pending")
    assert [update["status"] for update in updates(ended, "tool_call_update")] == ["completed"]
    assert texts(ended, "agent_message_chunk") == ["wrote note.txt"]
    assert (peer.project / "note.txt").read_text() == "written by the peer\n"


@BOTH
def test_a_denied_tool_call_does_nothing_and_the_turn_goes_on(peer: Launcher) -> None:
    ended = peer("run", "p", "--output", "json", "--approve", "none", "write note.txt")
    assert ended.code == 0, ended.err
    permission = ended.event("permission")
    assert (permission["allowed"], permission["optionId"], permission["by"]) == (False, "no", "--approve none")
    assert [update["status"] for update in updates(ended, "tool_call_update")] == ["failed"]
    assert texts(ended, "agent_message_chunk") == ["did not write note.txt"]
    assert not (peer.project / "note.txt").exists()


@BOTH
def test_ctrl_c_cancels_the_turn(peer: Launcher) -> None:
    with peer.start("run", "p", "--output", "json", "wait") as running:
        while "waiting" not in running.shows(""):
            pass
        running.kill(signal.SIGINT)
        ended = running.end()
    assert (ended.code, ended.methods[-1]) == (130, "session/cancel")


@BOTH
def test_a_named_session_is_loaded_again_with_its_history_hidden_listed_and_removed(peer: Launcher, sdk: str) -> None:
    """`session/delete` came with 1.0 of the SDK; of an older agent's session the name is forgotten."""
    first = peer("run", "p", "--session", "notes", "--output", "json", "the first thing")
    assert first.code == 0, first.err
    agent = first.event("initialized")["result"]["agentInfo"]
    assert agent["name"] == "peer"
    assert agent["version"].startswith(sdk)
    assert [event["type"] for event in first.events] == ["initialized", "session", *["update"] * 3, "result"]
    assert texts(first, "agent_thought_chunk") == ["They said the first thing"]
    assert texts(first, "agent_message_chunk") == ["You said: ", "the first thing"]
    assert first.event("result")["stopReason"] == "end_turn"
    second = peer("run", "p", "--session", "notes", "recall")
    assert (second.code, second.out) == (0, b"the first thing\n"), second.err
    assert "You said" not in second.err
    listed = peer("session", "list", "--agent", "p")
    assert listed.code == 0, listed.err
    assert first.event("session")["sessionId"] in listed.out.decode()
    assert peer("session", "rm", "notes").code == 0
    assert len([*history(peer).iterdir()]) == (1 if sdk.startswith("0") else 0)
    again = peer("run", "p", "--session", "notes", "--output", "json", "recall")
    assert again.event("session")["how"] == "new"
