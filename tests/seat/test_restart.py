"""A server dies and comes back, and the session goes on (docs/internals.md "Restart of a server")."""

from pathlib import Path

import pytest

from tests.cli.launcher import Ended
from tests.seat.stage import Json, Stage

AT_ONCE = {"backoff": {"initial": "10ms"}}  # restarts nobody has to wait for
LOST = -32010  # bridge/conversation.py
LAST_WORDS = ["crasher: going down", "crasher: last words"]


def steps(done: Ended, server: str) -> list[Json]:
    """What it went through until it was stopped with the run."""
    events = [event for event in done.events if event["type"] == "server" and event["name"] == server]
    return [event for event in events if event["state"] not in ("stopping", "stopped") or event["reason"]]


def states(done: Ended, server: str) -> list[str]:
    return [step["state"] for step in steps(done, server)]


def error(text: str, server: str, *stderr: str) -> Json:
    return {"code": LOST, "message": text, "data": {"server": server, "stderr": list(stderr)}}


@pytest.mark.promise("restart")
@pytest.mark.parametrize(("tool", "how"), [("crash", "exited with status 3"), ("kill", "was killed by SIGKILL")])
def test_a_call_to_a_server_that_dies_of_it_is_answered_and_the_next_one_works(
    stage: Stage, tool: str, how: str
) -> None:
    servers = {"crasher": stage.server("crasher", restart=AT_ONCE), "other": stage.server("polite")}
    with stage.play(servers=servers) as play:
        agent = play.agent
        agent.start("other", "wait", path=stage.fifo("go"))
        said = f'MCP server "crasher" {how} during tools/call, whose outcome is unknown; it is being started again'
        refused = agent.refused("crasher", tool)
        assert (refused["code"], refused["message"]) == (LOST, said)
        assert agent.call("crasher", "add", a=1, b=2) == 3
        stage.release("go", "undisturbed")
        assert [answer["result"]["content"][0]["text"] for answer in agent.awaits()] == ["undisturbed"]
        done = play.end()
    assert done.code == 0
    assert states(done, "crasher") == ["starting", "ready", "resting", "starting", "ready"]
    assert states(done, "other") == ["starting", "ready"]


@pytest.mark.promise("restart")
def test_a_server_that_keeps_dying_is_given_up_and_every_call_says_why(stage: Stage, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    restart = {"max": 3, **AT_ONCE}
    servers = {"crasher": stage.server("crasher", f"while={broken}", restart=restart), "other": stage.server("polite")}
    with stage.play(servers=servers) as play:
        agent = play.agent
        assert agent.call("crasher", "add", a=1, b=1) == 2
        broken.touch()
        agent.refused("crasher", "crash")
        why = "failed: exited with status 3; 3 restarts are used up"
        said = f'MCP server "crasher" {why}; its last stderr lines: {" / ".join(LAST_WORDS)}'
        for _ in range(2):
            assert agent.refused("crasher", "add", a=1, b=1) == error(said, "crasher", *LAST_WORDS)
        assert agent.ask("crasher", "tools/list")["error"] == error(said, "crasher", *LAST_WORDS)
        assert agent.call("other", "add", a=1, b=1) == 2
        done = play.end()
    assert done.code == 0
    crashes = ["resting", "starting"] * 3
    assert states(done, "crasher") == ["starting", "ready", *crashes, "failed"]
    (last,) = [event for event in done.events if event["type"] == "server" and event["state"] == "failed"]
    assert (last["exit"], last["reason"], last["detail"]) == (
        "exited with status 3",
        "3 restarts are used up",
        LAST_WORDS,
    )
    assert len(stage.roll.heard("crasher")) == 4
