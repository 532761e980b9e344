"""Servers that misbehave, through the seat: what the session sees of it, and that nobody else does."""

import json
import signal

from tests.seat.stage import Stage

LIES = ["wrong_id", "other_type", "both", "neither", "null_id", "list", "no_jsonrpc", "number", "twice", "half"]
SAMPLING = "sampling/createMessage"


def test_the_truth_of_a_server_that_lies_arrives_and_its_lies_disturb_nothing(stage: Stage) -> None:
    with stage.play(servers={"liar": stage.server("liar"), "other": stage.server("polite")}) as play:
        agent = play.agent
        for lie in LIES:
            assert agent.call("liar", "lie", how=lie) == "the truth", lie
            assert agent.call("other", "echo", text=lie) == lie
        assert agent.do("heard", "liar") == []
        assert play.end().code == 0


def test_banners_and_a_flood_of_stderr_are_no_part_of_the_conversation(stage: Stage) -> None:
    """M-19, M-20."""
    with stage.play(servers={"chatty": stage.server("chatty")}) as play:
        assert play.agent.call("chatty", "add", a=1, b=2) == 3
        assert play.agent.do("heard", "chatty") == []
        done = play.end()
    notes = [event["text"] for event in done.events if event["type"] == "note"]
    assert notes == ["chatty writes lines to stdout that are not messages: 'Welcome to the chatty server!'"]


def test_a_line_longer_than_the_cap_costs_only_its_server(stage: Stage) -> None:
    stage.launch.env["ACP_LAUNCH_MAX_LINE"] = "1000000"
    servers = {"bigmouth": stage.server("bigmouth"), "other": stage.server("polite")}
    with stage.play(servers=servers) as play:
        agent = play.agent
        said = agent.refused("bigmouth", "talk", bytes=2_000_000)["message"]
        assert said == (
            'MCP server "bigmouth" has sent a line of more than 1,000,000 bytes during tools/call,'
            " whose outcome is unknown; it is being started again"
        )
        assert agent.call("other", "add", a=1, b=2) == agent.call("bigmouth", "add", a=1, b=2) == 3


def test_what_a_server_asks_of_an_agent_that_can_is_asked_with_the_ids_it_gave(stage: Stage) -> None:
    """M-2, M-43."""
    with stage.play("sampling", "elicitation", servers={"asker": stage.server("polite")}) as play:
        agent = play.agent
        for id in ("a string", 7, "7", 12345678901234567890123456):
            answer = agent.call("asker", "ask", method=SAMPLING, id=id)
            assert (answer["id"], answer["result"]["content"]["text"]) == (id, "sampled")
        answer = agent.call("asker", "ask", method="elicitation/create", id=0)
        assert answer["result"] == {"action": "accept", "content": {"name": "elicited"}}
        refused = agent.call("asker", "ask", method="from/the/future", id=1)
        assert refused["error"] == {"code": -32601, "message": "no method from/the/future"}


def test_a_stopped_server_without_a_time_out_is_mentioned_and_goes_on_when_it_is_woken(stage: Stage) -> None:
    with stage.play(servers={"stopped": stage.server("stopped")}) as play:
        agent = play.agent
        agent.start("stopped", "stop")
        server = stage.roll.hear("stopped")
        server.says("stopping")
        while json.loads(play.running.shows("{")).get("text") != "stopped is stopped (SIGSTOP); calls to it wait":
            pass
        server.kill(signal.SIGCONT)
        assert [answer["result"]["content"][0]["text"] for answer in agent.awaits()] == ["continued"]
        assert agent.call("stopped", "pid") == server.pid


def test_a_session_waits_for_a_required_server_that_is_slow_to_start(stage: Stage) -> None:
    with stage.play_later(servers={"slow": stage.server("slow", stage.fifo("go"))}) as running:
        stage.roll.hear("slow")
        running.hears("initialize")
        stage.release("go", "now")
        with stage.enter(running) as play:
            assert play.agent.call("slow", "add", a=1, b=2) == 3


def test_a_server_that_cannot_bear_a_ping_before_its_handshake_is_spared_it_the_next_time(stage: Stage) -> None:
    restart = {"backoff": {"initial": "10ms"}}
    with stage.play(servers={"pinghater": stage.server("pinghater", restart=restart)}) as play:
        assert play.agent.call("pinghater", "add", a=1, b=2) == 3
        assert play.end().code == 0
    assert len(stage.roll.heard("pinghater")) == 2
