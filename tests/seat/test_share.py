"""Sessions of an agent that share a server (M-39, docs/profiles.md "Shared servers")."""

from tests.remote.children import tempered
from tests.seat.stage import Agent, Stage
from tests.seat.test_restart import AT_ONCE, states

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


def test_a_crash_is_told_to_each_session_and_what_they_wanted_is_restored(stage: Stage) -> None:
    with stage.play(servers={"crasher": stage.server("crasher", share=True, restart=AT_ONCE)}) as play:
        agent = play.agent
        agent.do("open", "crasher", "second")
        agent.ask("second", "resources/subscribe", uri="test://two")
        agent.start("crasher", "wait", path=stage.fifo("never"))
        stage.roll.hear("crasher").says("waiting")
        assert agent.refused("second", "crash")["code"] == -32010
        assert [answer["error"]["code"] for answer in agent.awaits()] == [-32010]
        assert agent.call("crasher", "touch", uri="test://two") == "touched"
        agent.expect("second", UPDATED)
        assert heard(agent, "crasher") == []
        assert play.end().code == 0


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


def test_the_sessions_of_a_remote_server_have_one_connection(stage: Stage) -> None:
    with tempered() as server, stage.play(servers={"web": {"type": "http", "url": server.url, "share": True}}) as play:
        agent = play.agent
        agent.do("open", "web", "second")
        assert (agent.call("web", "add", a=1, b=2), agent.call("second", "add", a=3, b=4)) == (3, 7)
        sessions = {dict(map(tuple, request["headers"])).get("Mcp-Session-Id") for request in server.requests}
        assert len(sessions - {None}) == 1
        assert play.end().code == 0
