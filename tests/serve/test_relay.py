"""Ring 1. Two hops: only ids change, and every request has one answer."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from acp_launch.protocol import jsonrpc
from acp_launch.serve.relay import OTHER, Relay, Request, Side

Sent = list[bytes]
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
IDS = st.integers(-(2**70), 2**70) | st.text(max_size=8) | st.none() | st.floats(allow_nan=False, allow_infinity=False)
SIDES = st.sampled_from(["editor", "agent"])
LAYOUTS = st.sampled_from([None, (", ", ": "), (",\t", " :\r ")])
MEMBERS = ("jsonrpc", "id", "method", "params")


class Wire:
    """A relay, and all that it has sent and noted."""

    def __init__(self) -> None:
        self.sent: dict[Side, Sent] = {"editor": [], "agent": []}
        self.notes: list[str] = []
        self.relay = Relay(
            {
                "editor": lambda method, line: self.sent["editor"].append(line),
                "agent": lambda method, line: self.sent["agent"].append(line),
            },
            self.notes.append,
        )

    def says(self, side: Side, message: object) -> None:
        self.relay.receive(side, message if isinstance(message, bytes) else json.dumps(message).encode())

    def got(self, side: Side) -> list[Any]:
        """What a side was sent since the last look."""
        lines, self.sent[side] = self.sent[side], []
        return [json.loads(line) for line in lines]


def asked(id: object, method: str = "session/prompt", **params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def answer(id: object, result: object = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": result}


def test_both_sides_may_use_the_same_ids_and_get_their_own_back() -> None:
    wire = Wire()
    wire.says("editor", asked("a"))
    wire.says("agent", asked("a", "fs/read_text_file"))
    wire.says("editor", asked(0))
    first, second = (message["id"] for message in wire.got("agent"))
    (reading,) = (message["id"] for message in wire.got("editor"))
    wire.says("agent", answer(second, "two"))
    wire.says("editor", answer(reading, "text"))
    wire.says("agent", answer(first, "one"))
    assert wire.got("editor") == [answer(0, "two"), answer("a", "one")]
    assert wire.got("agent") == [answer("a", "text")]


@given(IDS, IDS, VALUES, st.text(min_size=1), SIDES, LAYOUTS, st.permutations(MEMBERS))
def test_nothing_but_the_id_changes_of_a_request_and_of_its_answer(
    id: object, other: object, value: object, method: str, side: Side, layout: Any, order: list[str]
) -> None:
    wire = Wire()
    wire.says(side, asked(other, "before"))
    written = {"jsonrpc": '"2.0"', "id": json.dumps(id), "method": json.dumps(method), "params": json.dumps(value)}

    def line(number: str, members: list[str], separators: Any = None) -> bytes:
        comma, colon = separators or (",", ":")
        text = comma.join(f'"{key}"{colon}{number if key == "id" else written[key]}' for key in members)
        return f"{{{text}}}".encode()

    before = line(written["id"], order, layout)
    wire.says(side, before)
    sent = wire.sent[OTHER[side]][1]
    assert sent == line("1", order, layout)
    reply = b'{"result":' + json.dumps(value).encode() + b', "jsonrpc" : "2.0", "id":1 ,"x":[]}'
    wire.says(OTHER[side], reply)
    assert wire.sent[side] == [reply.replace(b'"id":1 ', b'"id":' + written["id"].encode() + b" ")]
    assert wire.notes == []


@given(VALUES, st.text(min_size=1).filter(lambda method: method != "$/cancel_request"), SIDES)
def test_a_notification_passes_byte_for_byte(value: object, method: str, side: Side) -> None:
    wire = Wire()
    line = b' {"params" :' + json.dumps(value).encode() + b',"method":' + json.dumps(method).encode() + b"}\r"
    wire.says(side, line)
    assert wire.sent[OTHER[side]] == [line]
    assert wire.sent[side] == []


@given(st.binary() | st.text().map(str.encode) | VALUES.map(lambda value: json.dumps(value).encode()), SIDES)
def test_no_line_makes_it_fail_and_only_messages_pass(line: bytes, side: Side) -> None:
    wire = Wire()
    wire.says(side, line)
    for sent in (*wire.sent["editor"], *wire.sent["agent"]):
        json.loads(sent)
    assert wire.sent["agent" if side == "editor" else "editor"] == [] or jsonrpc.decode(line) is not None


def test_the_editor_is_told_what_is_not_a_message_and_the_user_what_the_agent_says_besides() -> None:
    wire = Wire()
    for line in (b"hello", b"[]", b"1", b"{}", b"", b"  "):
        wire.says("editor", line)
    assert [message["error"]["code"] for message in wire.got("editor")] == [-32700, -32600, -32600, -32600]
    for _ in range(100):
        wire.says("agent", b"a banner")
    assert wire.got("editor") == wire.got("agent") == []
    assert [note.rpartition("(")[2] for note in wire.notes] == ["1 so far)", "100 so far)"]


def test_a_request_is_withdrawn_under_its_number_on_the_other_hop() -> None:
    wire = Wire()
    wire.says("editor", asked("x"))
    wire.says("editor", asked("y"))
    wire.says("editor", {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "y", "_meta": {}}})
    sent = wire.got("agent")
    assert sent[2]["params"] == {"requestId": sent[1]["id"], "_meta": {}}
    wire.says("agent", {"jsonrpc": "2.0", "id": sent[1]["id"], "error": {"code": -32800, "message": "gone"}})
    assert wire.got("editor") == [{"jsonrpc": "2.0", "id": "y", "error": {"code": -32800, "message": "gone"}}]
    for unknown in ("y", "z", None):
        wire.says("editor", {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": unknown}})
    wire.says("editor", {"jsonrpc": "2.0", "method": "$/cancel_request"})
    assert wire.got("agent") == [], "what is unknown, or answered, is not withdrawn"


def test_a_question_about_a_request_names_it_by_its_own_id() -> None:
    wire = Wire()
    wire.says("editor", asked("log in", "authenticate"))
    (login,) = wire.got("agent")
    for id, named in (("a", login["id"]), ("b", "unknown"), ("c", None)):
        wire.says("agent", asked(id, "elicitation/create", mode="url", requestId=named))
    wire.says("agent", asked("d", "elicitation/create", sessionId="s"))
    sent = [message["params"] for message in wire.got("editor")]
    assert [params.get("requestId", "none") for params in sent] == ["log in", "unknown", None, "none"]


def test_a_request_that_was_taken_is_withdrawn_here() -> None:
    wire = Wire()
    taken: list[Request] = []
    heard: list[bool] = []
    wire.relay.requests["editor"]["session/new"] = taken.append
    wire.says("editor", asked(7, "session/new"))
    taken[0].withdrawn = lambda: heard.append(True)
    wire.says("editor", {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 7}})
    wire.relay.answer(taken[0], {})
    assert heard == [True]
    assert [message["error"]["code"] for message in wire.got("editor")] == [-32800], "it is answered once"
    assert wire.got("agent") == []


def test_an_answer_comes_once_and_one_to_nothing_is_dropped() -> None:
    wire = Wire()
    wire.says("editor", asked(1))
    wire.says("agent", answer(0))
    wire.says("agent", answer(0))
    assert wire.got("editor") == [answer(1)]
    assert wire.notes == [], "a late one is allowed"
    wire.says("agent", answer(99))
    assert "never made" in wire.notes[0]


def test_what_the_agent_leaves_open_when_it_ends_is_settled_on_both_sides() -> None:
    wire = Wire()
    own: list[bytes] = []
    wire.says("editor", asked("p"))
    wire.relay.ask("agent", "session/set_mode", {}, own.append)
    wire.says("agent", asked(5, "terminal/wait_for_exit"))
    (reading,) = (message["id"] for message in wire.got("editor"))
    wire.relay.lost(lambda method: (-32603, f"it ended before {method}"))
    refused, withdrawn = wire.got("editor")
    assert (refused["id"], refused["error"]["message"]) == ("p", "it ended before session/prompt")
    assert withdrawn["params"] == {"requestId": reading}
    assert json.loads(own[0])["error"]["message"] == "it ended before session/set_mode"
    wire.got("agent")
    wire.says("editor", answer(reading))
    wire.says("agent", answer(0))
    assert wire.got("agent") == wire.got("editor") == []
    assert wire.notes == [], "a late answer is not news"


def ended(wire: Wire) -> None:
    wire.relay.lost(lambda method: (-32603, "it ended"))


def test_requests_wait_for_the_next_agent_in_their_order_and_notifications_do_not() -> None:
    wire = Wire()
    wanted: list[bool] = []
    wire.relay.parked = lambda: wanted.append(True)
    ended(wire)
    wire.says("editor", asked("a"))
    wire.says("editor", {"jsonrpc": "2.0", "method": "session/cancel", "params": {}})
    wire.says("editor", asked("b"))
    wire.says("editor", asked("c"))
    wire.says("editor", {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "b"}})
    wire.relay.ask("agent", "initialize", {}, lambda line: None)
    assert [message["method"] for message in wire.got("agent")] == ["initialize"], "ours goes first"
    assert [message["id"] for message in wire.got("editor")] == ["b"], "it is withdrawn here"
    wire.relay.resume()
    first, second = (message["id"] for message in wire.got("agent"))
    wire.says("agent", answer(second, "c"))
    wire.says("agent", answer(first, "a"))
    assert wire.got("editor") == [answer("c", "c"), answer("a", "a")]
    assert len(wanted) == 3


def test_requests_that_wait_are_refused_if_no_agent_comes() -> None:
    wire = Wire()
    ended(wire)
    wire.says("editor", asked("a"))
    wire.relay.give_up(-32603, "no agent", {"exitCode": 4})
    assert [message["error"]["message"] for message in wire.got("editor")] == ["no agent"]
    wire.says("editor", asked("b"))
    wire.relay.resume()
    assert [message["method"] for message in wire.got("agent")] == ["session/prompt"]


def test_a_request_that_was_taken_before_the_agent_ended_goes_on_with_the_next_one() -> None:
    wire = Wire()
    taken: list[Request] = []
    wire.relay.requests["editor"]["session/new"] = taken.append
    wire.says("editor", asked(7, "session/new"))
    ended(wire)
    wire.relay.pass_on(taken[0], b'{"id":7,"method":"session/new","params":{"edited":true}}')
    assert wire.got("agent") == []
    wire.relay.resume()
    assert wire.got("agent") == [{"id": 0, "method": "session/new", "params": {"edited": True}}]
