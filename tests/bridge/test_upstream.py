"""Elevated sessions with a server that has them, and with servers that do not."""

import json
from typing import Any, Literal

import pytest

from acp_launch.bridge.elevation import ANSWER_TIMEOUT, Sessions
from tests.bridge.talker import DEAD, HELLO, INITIALIZE, INITIALIZED, Json, Talker, answer, ask, call, tell
from tests.bridge.test_elevation import CHANGED, Launch, event, noted

TOOLS = [{"name": "a"}]


def opened(mode: Literal["probe", "on"] = "probe", sessions: Sessions | None = None) -> Talker:
    """The agent has done its handshake; the server was asked for a session."""
    talk = Talker()
    talk.exchange.seek(sessions or Sessions(mode))
    talk.introduced()
    talk.exchange.tick()
    return talk


def asked(talk: Talker, method: str) -> Json:
    """The one request of this method that the server has got since the last look."""
    (found,) = [each for each in talk.server_hears() if each.get("method") == method]
    return dict(found)


def methods(talk: Talker) -> list[str]:
    return [each["method"] for each in talk.server_hears()]


def used(talk: Talker) -> None:
    """The agent has read the tools, and subscribed to a resource."""
    talk.agent(ask(1, "tools/list"), ask(2, "resources/subscribe", uri="a:1"))
    talk.server(answer(1, {"tools": TOOLS}), answer(2, {}))
    talk.agent_hears(), talk.server_hears()


def begun() -> Talker:
    talk = opened()
    talk.server(answer(asked(talk, "session/start")["id"], {"sessionId": "s_theirs"}))
    assert talk.agent_hears() == []
    used(talk)
    return talk


def refused(request: Json, code: int) -> Json:
    return {"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": "what?"}}


# A server that has none.


@pytest.mark.parametrize("code", [-32601, -32602, -32600, None])
@pytest.mark.parametrize("mode", ["probe", "on"])
def test_a_server_without_sessions_is_known_as_such_and_the_conversation_goes_on(
    mode: Literal["probe", "on"], code: int | None
) -> None:
    """M-51: by each of these errors, and by 2 s of silence; the agent hears nothing of it."""
    sessions = Sessions(mode)
    talk = opened(sessions=sessions)
    request = asked(talk, "session/start")
    talk.agent(call(1))
    talk.server(answer(1, {}))
    if code is None:
        talk.wait(ANSWER_TIMEOUT - 0.1)
        assert not sessions.is_missing
        talk.wait(0.1)
    else:
        talk.server(refused(request, code))
    assert sessions.is_missing
    talk.server(answer(request["id"], {"sessionId": "too late"}) if code is None else noted(1))
    talk.exchange.tick()
    talk.agent(call(2))
    talk.server(answer(2, {}))
    assert [each.get("id") for each in talk.agent_hears()] == [1, 2] if code is None else [1, None, 2]
    assert methods(talk) == ["tools/call", "tools/call"], "it is asked once"
    notes = [event for event in talk.events if event.startswith("note")]
    assert notes == ["note: mcp server github has no sessions that can be resumed (session_elevation)"] * (mode == "on")


def test_with_probe_it_is_not_asked_again_and_with_on_by_each_process() -> None:
    """M-51."""
    modes: list[tuple[Literal["probe", "on"], list[str]]] = [("probe", []), ("on", ["session/start"])]
    for mode, again in modes:
        sessions = Sessions(mode)
        talk = opened(sessions=sessions)
        talk.server(refused(asked(talk, "session/start"), -32601))
        talk.restarted()
        talk.server_hears()
        talk.exchange.tick()
        assert methods(talk) == again
        other = opened(sessions=sessions)
        assert methods(other) == again


def test_a_server_that_ends_when_it_is_asked_is_never_asked_again() -> None:
    """M-51."""
    sessions = Sessions("on")
    talk = opened(sessions=sessions)
    assert methods(talk) == ["session/start"]
    talk.restarted()
    talk.exchange.tick()
    assert methods(talk) == ["initialize", "notifications/initialized"]
    assert methods(opened(sessions=sessions)) == []


def test_a_server_is_asked_only_after_the_handshake_and_never_without_the_setting() -> None:
    talk = Talker()
    talk.exchange.seek(Sessions("on"))
    talk.exchange.attached()
    talk.exchange.tick()
    talk.agent(INITIALIZE)
    talk.server(answer(0, HELLO))
    talk.exchange.tick()
    assert methods(talk) == ["initialize"]
    talk.agent(INITIALIZED)
    talk.exchange.tick()
    assert methods(talk) == ["notifications/initialized", "session/start"]
    stock = Talker().introduced()
    stock.exchange.tick()
    assert stock.server_heard == []


# A server that has them.


@pytest.mark.parametrize(("ids", "last"), [(["e1", "e2"], "e2"), ([7, 8], 8), ([], None)])
def test_a_new_connection_resumes_with_the_last_event_that_the_agent_got(ids: list[Any], last: Any) -> None:
    """Ids keep their type; what the server still knows is not sent again."""
    talk = begun()
    talk.server(*(tell("notifications/message", sessionEventId=id) for id in ids), tell("x"))
    talk.killed()
    talk.agent_hears()
    talk.back()
    replayed, initialized, request = talk.server_hears()
    assert (replayed["method"], initialized) == ("initialize", INITIALIZED)
    known = {"sessionId": "s_theirs"} | ({} if last is None else {"lastSessionEventId": last})
    assert (request["method"], request["params"]) == ("session/resume", known)
    talk.server(answer(request["id"], {"resumed": True, "catchup": True}), tell("x", sessionEventId="e3"))
    assert talk.agent_hears() == [tell("x", sessionEventId="e3")]
    talk.exchange.tick()
    assert talk.server_hears() == []
    talk.restarted()
    assert asked(talk, "session/resume")["params"]["lastSessionEventId"] == "e3"


def test_an_event_may_overtake_the_answer_that_begins_its_session() -> None:
    """They may come on two streams."""
    talk = opened()
    talk.server(tell("x", sessionEventId="e1"), answer(asked(talk, "session/start")["id"], {"sessionId": "s_theirs"}))
    talk.restarted()
    assert asked(talk, "session/resume")["params"] == {"sessionId": "s_theirs", "lastSessionEventId": "e1"}


@pytest.mark.parametrize("said", [{"resumed": True, "catchup": False}, {"resumed": True}])
def test_when_something_may_have_been_missed_the_agent_is_told_to_read_again(said: Json) -> None:
    """M-54: its lists, and the resources it has subscribed to."""
    talk = begun()
    talk.restarted()
    talk.server(answer(asked(talk, "session/resume")["id"], said))
    assert talk.agent_hears() == [
        {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"},
        tell(CHANGED, uri="a:1"),
    ]


@pytest.mark.parametrize("how", ["error", "silence", "not resumed"])
def test_a_session_that_the_server_has_forgotten_is_restored_as_without_one_and_begun_anew(how: str) -> None:
    talk = begun()
    talk.restarted()
    request = asked(talk, "session/resume")
    if how == "silence":
        talk.wait(ANSWER_TIMEOUT)
    else:
        talk.server(refused(request, -32010) if how == "error" else answer(request["id"], {"resumed": False}))
    assert methods(talk) == ["resources/subscribe", "tools/list"]
    talk.exchange.tick()
    assert methods(talk) == ["session/start"]


def test_a_connection_that_is_lost_while_it_resumes_is_resumed_again() -> None:
    talk = begun()
    for _ in range(2):
        talk.restarted()
        assert asked(talk, "session/resume")["params"] == {"sessionId": "s_theirs"}


def test_the_session_ends_with_the_agents_connection() -> None:
    talk = begun()
    talk.exchange.end_session()
    assert asked(talk, "session/end")["params"] == {"sessionId": "s_theirs"}
    talk.exchange.end_session()
    talk.exchange.on_gone(DEAD, for_good=True)
    assert talk.server_hears() == []


# Both halves.


class Joined:
    """Our half as a client, our other half as its server, and a scripted server behind that."""

    def __init__(self) -> None:
        self.launch = Launch()
        self.near = Talker()
        self.near.exchange.seek(Sessions("on"))
        self.far = self.there = self.launch.opened(introduced=False)
        self.near.exchange.attached()
        self.near.agent(INITIALIZE)
        self.pass_on()
        self.near.agent(INITIALIZED)
        self.near.exchange.tick()
        self.pass_on()

    def pass_on(self) -> None:
        """Let what was written arrive, until nothing moves."""
        while self.near.server_heard or self.there.agent_heard or self.far.server_heard:
            for line in take(self.near.server_heard):
                self.far.agent(line)
                if self.far.is_over:  # the conversation has moved to the one that was resumed
                    self.far = self.there
            for line in take(self.far.server_heard):
                said = json.loads(line)
                if said.get("method") == "initialize":
                    self.far.server(answer(said["id"], HELLO))
                elif "id" in said:
                    self.far.server(answer(said["id"], {}))
            for line in take(self.far.agent_heard):
                self.near.server(line)

    def reconnect(self) -> None:
        """The line is cut, and there is a new one."""
        self.there.disconnect()
        self.near.killed()
        self.far = self.launch.opened(introduced=False)
        self.near.exchange.attached()


def take(lines: list[bytes]) -> list[bytes]:
    taken, lines[:] = list(lines), []
    return taken


def test_our_two_halves_resume_each_other_and_the_agent_misses_nothing() -> None:
    """M-53: what was said while the line was cut comes once, in order."""
    both = Joined()
    both.there.server(noted(1), noted(2))
    both.pass_on()
    both.reconnect()
    both.there.server(noted(3), tell(CHANGED, uri="a:1"), tell(CHANGED, uri="a:1"))
    both.pass_on()
    both.there.server(noted(6))
    both.pass_on()
    heard = [each for each in both.near.agent_hears() if "method" in each]
    assert [each["params"]["sessionEventId"] for each in heard] == [event("s_1", number) for number in (1, 2, 3, 5, 6)]
    both.near.agent(call(7))
    both.pass_on()
    assert both.near.agent_hears() == [answer(7, {})]
