"""A server dies and comes back, and the session goes on (docs/internals.md "Restart of a server")."""

from pathlib import Path

import pytest

from tests.cli.launcher import Ended
from tests.seat.stage import Json, Stage

AT_ONCE = {"backoff": {"initial": "10ms"}}  # restarts nobody has to wait for
LOST = -32010  # bridge/conversation.py
LAST_WORDS = ["crasher: going down", "crasher: last words"]


def states(done: Ended, server: str) -> list[str]:
    """Those it went through until it was stopped with the run."""
    events = [event for event in done.events if event["type"] == "server" and event["name"] == server]
    return [event["state"] for event in events if event["state"] not in ("stopping", "stopped") or event["reason"]]


def error(text: str, server: str, *stderr: str) -> Json:
    return {"code": LOST, "message": text, "data": {"server": server, "stderr": list(stderr)}}


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


def test_a_new_process_is_told_what_the_old_one_knew_and_no_list_is_said_to_have_changed(stage: Stage) -> None:
    with stage.play(servers={"crasher": stage.server("crasher", restart=AT_ONCE)}) as play:
        agent = play.agent
        agent.tools("crasher")
        agent.ask("crasher", "logging/setLevel", level="warning")
        for name in ("one", "two"):
            agent.ask("crasher", "resources/subscribe", uri=f"test://{name}")
        agent.ask("crasher", "resources/unsubscribe", uri="test://one")
        before = agent.call("crasher", "state")
        agent.refused("crasher", "crash")
        after = agent.call("crasher", "state")
        assert (after["level"], after["subscriptions"]) == ("warning", ["test://two"])
        assert after["initialize"] == before["initialize"]
        assert after["initialized"]
        assert after["calls"] == 1  # the one that asks: a call is never repeated
        assert agent.call("crasher", "touch", uri="test://two") == "touched"
        heard = agent.do("heard", "crasher")
        assert [line["line"] for line in heard] == [
            '{"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "test://two"}}'
        ]


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


def test_a_server_that_ends_by_itself_stays_away_unless_its_policy_is_always(stage: Stage) -> None:
    always = {"policy": "always", **AT_ONCE}
    servers = {"once": stage.server("quitter"), "again": stage.server("quitter", restart=always)}
    with stage.play(servers=servers) as play:
        agent = play.agent
        assert agent.call("once", "add", a=1, b=2) == agent.call("again", "add", a=1, b=2) == 3
        stage.roll.hear("once").dies()
        message = str(agent.refused("once", "add", a=1, b=2)["message"])
        assert "exited with status 0; its restart policy is on-failure" in message
        first, second = (stage.roll.hear("again") for _ in range(2))
        assert agent.call("again", "pid") == second.pid != first.pid
        done = play.end()
    assert states(done, "once")[-2:] == ["ready", "stopped"]
