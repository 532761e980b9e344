"""What a front that comes late is shown."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from acp_launch.host.fronts import CALLS, LAST, coalesce

Json = dict[str, Any]


def line(update: Json) -> bytes:
    params = {"sessionId": "s", "update": update}
    return (
        json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}, separators=(",", ":")).encode()
        + b"\n"
    )


def updates(lines: list[bytes]) -> list[Json]:
    return [json.loads(each)["params"]["update"] for each in lines]


def text(said: str) -> Json:
    return {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": said}}


def call(id: str, **members: object) -> Json:
    return {"sessionUpdate": "tool_call_update", "toolCallId": id, **members}


def test_what_later_updates_replace_is_left_out_and_the_rest_stays_in_order() -> None:
    first = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Read", "status": "pending", "kind": "read"}
    said = [
        {"sessionUpdate": "plan", "entries": [1]},
        text("a"),
        first,
        {"sessionUpdate": "usage_update", "used": 1},
        text("b"),
        call("c", status="in_progress"),
        {"sessionUpdate": "plan", "entries": [2]},
        call("c", status="completed", content=[]),
        {"sessionUpdate": "usage_update", "used": 2},
    ]
    assert updates(coalesce(list(map(line, said)))) == [
        text("a"),
        {**first, "status": "completed", "content": []},
        text("b"),
        {"sessionUpdate": "plan", "entries": [2]},
        {"sessionUpdate": "usage_update", "used": 2},
    ]


def test_a_line_that_cannot_be_read_stays() -> None:
    odd = b'{"method":"session/update","params":{"update":7}}\n'
    assert coalesce([odd, odd]) == [odd, odd]


UPDATE = st.one_of(
    st.text(max_size=3).map(text),
    st.tuples(st.sampled_from(sorted(LAST)), st.integers(0, 9)).map(
        lambda pair: {"sessionUpdate": pair[0], "n": pair[1]}
    ),
    st.tuples(st.sampled_from("ab"), st.sampled_from(["status", "title", "content"]), st.integers(0, 9)).map(
        lambda each: call(each[0], **{each[1]: each[2]})
    ),
)


@given(st.lists(UPDATE, max_size=40))
def test_nothing_that_counts_is_lost_and_nothing_comes_twice(said: list[Json]) -> None:
    """Against a model: words in order, the last of each kind, and each call with its latest members."""
    left = updates(coalesce(list(map(line, said))))
    kind = "sessionUpdate"
    assert [each for each in left if each[kind] == "agent_message_chunk"] == [
        each for each in said if each[kind] == "agent_message_chunk"
    ]
    for name in LAST:
        assert [each for each in left if each[kind] == name] == [each for each in said if each[kind] == name][-1:]
    merged: dict[str, Json] = {}
    for each in said:
        if each[kind] in CALLS:
            merged[each["toolCallId"]] = merged.get(each["toolCallId"], {}) | each
    assert [each for each in left if each[kind] in CALLS] == list(merged.values())
    assert coalesce(list(map(line, left))) == list(map(line, left))
