"""Sessions of an agent that share a server (M-39, docs/profiles.md "Shared servers")."""

from tests.seat.stage import Agent, Stage
from tests.seat.test_restart import states

UPDATED = "notifications/resources/updated"


def heard(agent: Agent, server: str) -> list[str]:
    """The methods of what came without being asked for."""
    return [each["line"].split('"method": "')[1].split('"')[0] for each in agent.do("heard", server)]


def test_two_connections_have_one_process_and_each_gets_its_own(stage: Stage) -> None:
    with stage.play(servers={"polite": stage.server("polite", share=True)}) as play:
        agent = play.agent
        agent.do("open", "polite", "second")
        assert agent.call("polite", "pid") == agent.call("second", "pid")
        assert agent.opened("polite")["result"] == agent.opened("second")["result"]
        agent.ask("polite", "resources/subscribe", uri="test://one")
        agent.ask("second", "resources/subscribe", uri="test://one")
        agent.ask("polite", "logging/setLevel", level="error")
        agent.ask("second", "logging/setLevel", level="debug")
        assert agent.call("second", "state")["subscriptions"] == ["test://one"]
        agent.ask("polite", "resources/unsubscribe", uri="test://one")
        assert agent.call("polite", "touch", uri="test://one") == "touched"
        assert agent.call("polite", "log", level="info", text="hello") == "logged"
        agent.expect("second", UPDATED)
        agent.expect("second", "notifications/message")
        assert heard(agent, "polite") == []
        agent.do("close", "polite")
        assert agent.call("second", "add", a=1, b=2) == 3
        done = play.end()
    assert done.code == 0, done.err
    assert len(stage.roll.heard("polite")) == 1
    assert states(done, "polite") == ["starting", "ready"]


def test_a_shared_server_may_be_lazy_and_is_there_for_the_next_session(stage: Stage) -> None:
    servers = {"polite": stage.server("polite", share=True, start="lazy")}
    for starts in (1, 2):
        with stage.play(servers=servers) as play:
            agent = play.agent
            agent.tools("polite")
            agent.do("open", "polite", "second")
            agent.tools("second")
            agent.do("close", "polite")
            agent.do("close", "second")
            agent.do("open", "polite", "third")
            assert agent.call("third", "state")["calls"] == 1
            assert play.end().code == 0
        assert len(stage.roll.heard("polite")) == starts
