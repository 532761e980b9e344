"""Servers that are started at their first use, and stopped after a while without (docs/profiles.md "Lazy servers")."""

import json
from pathlib import Path

import pytest

from tests.cli.launcher import scripted_server, upgrade
from tests.remote.children import tempered
from tests.seat.stage import Stage
from tests.seat.test_restart import states

QUICK = "30ms"


def learn(stage: Stage, **servers: object) -> None:
    """A first run, in which the agent reads the tools."""
    with stage.play(servers=servers) as play:
        for name in servers:
            play.agent.tools(name)
        assert play.end().code == 0


def test_a_lazy_server_is_not_started_for_its_lists_but_for_a_call(stage: Stage) -> None:
    entry = stage.server("polite", start="lazy")
    learn(stage, polite=entry)
    assert len(stage.roll.heard("polite")) == 1
    with stage.play(servers={"polite": entry}) as play:
        assert "add" in play.agent.tools("polite")
        assert play.agent.opened("polite")["result"]["serverInfo"]["name"] == "test-server"
        assert len(stage.roll.heard("polite")) == 1
        done = play.end()
    assert (done.code, states(done, "polite")) == (0, ["asleep"])
    (told,) = [event for event in done.events if event["type"] == "servers" and event["when"] == "opened"]
    assert [(each["name"], each["state"], each["tools"]) for each in told["servers"]] == [("polite", "asleep", 13)]
    with stage.play(servers={"polite": entry}) as play:
        tools = play.agent.tools("polite")
        assert play.agent.call("polite", "add", a=1, b=2) == 3
        state = play.agent.call("polite", "state")
        assert json.loads(state["initialize"])["params"]["clientInfo"] == {"name": "test-agent", "version": "1.0.0"}
        assert (state["initialized"], state["calls"]) == (True, 2)
        assert play.agent.do("heard", "polite") == [], "the list is still that one"
        assert play.agent.tools("polite") == tools
        done = play.end()
    assert (done.code, states(done, "polite")) == (0, ["asleep", "starting", "ready"])


def test_the_lists_of_another_version_of_its_program_are_not_shown(stage: Stage) -> None:
    entry = scripted_server(stage.scratch, stage.server("polite", start="lazy"))
    learn(stage, polite=entry)
    upgrade(entry)
    learn(stage, polite=entry)
    assert len(stage.roll.heard("polite")) == 2
    learn(stage, polite=entry)
    assert len(stage.roll.heard("polite")) == 2


@pytest.mark.promise("restart")
@pytest.mark.sample(1)
@pytest.mark.parametrize("start", ["lazy", "eager"])
@pytest.mark.parametrize("share", [False, True])
def test_an_unused_server_is_stopped_and_its_next_use_starts_it_with_what_it_knew(
    stage: Stage, start: str, share: bool
) -> None:
    with stage.play(servers={"polite": stage.server("polite", start=start, share=share, idle=QUICK)}) as play:
        agent = play.agent
        agent.tools("polite")
        agent.ask("polite", "logging/setLevel", level="warning")
        first = stage.roll.hear("polite")
        first.dies()
        assert agent.call("polite", "state")["level"] == "warning"
        second = stage.roll.hear("polite")
        assert second.pid != first.pid
        second.dies()
        assert agent.do("heard", "polite") == []
        done = play.end()
    assert done.code == 0
    events = [event for event in done.events if event["type"] == "server"]
    assert {"asleep"} < {event["state"] for event in events} <= {"starting", "ready", "asleep", "stopping", "stopped"}
    assert {event["restarts"] for event in events} == {0}


def test_a_call_in_flight_and_a_subscription_are_uses(stage: Stage) -> None:
    with stage.play(servers={"polite": stage.server("polite", start="lazy", idle=QUICK)}) as play:
        agent = play.agent
        agent.ask("polite", "resources/subscribe", uri="test://one")
        pid = agent.call("polite", "pid")
        while (server := stage.roll.hear("polite")).pid != pid:
            server.dies()  # it was stopped before the agent was there
        agent.start("polite", "wait", path=stage.fifo("go"))
        server.says("waiting")
        stage.release("go", "done")
        assert [answer["result"]["content"][0]["text"] for answer in agent.awaits()] == ["done"]
        assert agent.call("polite", "touch", uri="test://one") == "touched"
        agent.expect("polite", "notifications/resources/updated")
        assert server.is_alive
        agent.ask("polite", "resources/unsubscribe", uri="test://one")
        server.dies()
        assert play.end().code == 0


def test_a_lazy_server_that_cannot_be_started_fails_at_its_first_use(stage: Stage, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    entry = stage.server("crasher", f"while={broken}", start="lazy", restart={"max": 0})
    learn(stage, crasher=entry)
    broken.touch()
    with stage.play(servers={"crasher": entry}) as play:
        play.agent.tools("crasher")
        refused = play.agent.refused("crasher", "add", a=1, b=2)
        assert 'MCP server "crasher" failed: exited with status 3' in refused["message"]
        done = play.end()
    assert states(done, "crasher") == ["asleep", "starting", "failed"]


def test_a_remote_server_may_be_lazy_too(stage: Stage) -> None:
    with tempered() as server:
        entry = {"type": "http", "url": server.url, "start": "lazy", "idle": QUICK}
        learn(stage, web=entry)
        asked = len(server.requests)
        with stage.play(servers={"web": entry}) as play:
            assert "echo" in play.agent.tools("web")
            assert len(server.requests) == asked
            assert play.agent.call("web", "add", a=1, b=2) == 3
            done = play.end()
    assert done.code == 0, done.err
    assert states(done, "web")[:3] == ["asleep", "starting", "ready"]
