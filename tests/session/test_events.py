"""What a session says, as one line of JSON for each event."""

import json

import jsonschema
import msgspec
import pytest
from msgspec import Raw

from acp_launch.session import events
from acp_launch.session.events import AnyEvent, decode, encode, write_schema

TIME = "2026-11-27T08:30:00.250Z"
EVENTS: list[AnyEvent] = [
    events.InitializedEvent(TIME, result=Raw(b'{"protocolVersion": 1}')),
    events.UpdateEvent(TIME, session_id="s", update=Raw(b'{"sessionUpdate":"plan", "new": [1]}')),
    events.PermissionEvent(TIME, tool_call={"title": "x"}, options=[], allowed=False, option_id=None, by="you"),
    events.FileEvent(TIME, path="/a", how="write", outcome="done", reason=None, created=True),
    events.WaitingEvent(TIME, what="the agent", seconds=3.0, limit=30.0),
    events.ServersEvent(TIME, when="turn", servers=[]),
    events.ErrorEvent(
        TIME, exit_code=4, message="m", fix="", detail=["d"], problems=[], code=-32603, data={"a": [1, None]}
    ),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_is_a_line_of_the_schema_and_is_read_again(event: AnyEvent) -> None:
    line = encode(event)
    assert decode(line) == event
    jsonschema.Draft202012Validator(json.loads(write_schema())).validate(json.loads(line))


def test_type_and_time_come_first_and_the_words_of_an_agent_are_as_they_were() -> None:
    assert encode(EVENTS[1]) == (
        b'{"type":"update","time":"%b","sessionId":"s","update":{"sessionUpdate":"plan", "new": [1]}}' % TIME.encode()
    )


@pytest.mark.parametrize(
    "line",
    [b"", b"[]", b"7", b'{"type":"new","time":"t"}', b'{"type":"note","time":"t"}', b"[" * 100_000, b"\xff"],
    ids=range(7),
)
def test_a_line_that_is_not_an_event_is_none(line: bytes) -> None:
    assert decode(line) is None


def test_half_of_a_character_is_read_as_a_question_mark() -> None:
    assert decode(b'{"type":"note","time":"t","text":"cut \\ud83d"}') == events.NoteEvent("t", text="cut ?")


def test_half_of_a_character_is_written_as_it_was() -> None:
    event = events.SessionEvent(TIME, session_id="\ud83d", name="s", how="new", replayed=0, result=Raw(b'{"a": 1}'))
    line = encode(event)
    assert json.loads(line) == {
        **{"type": "session", "time": TIME, "sessionId": "\ud83d", "name": "s", "how": "new"},
        **{"replayed": 0, "result": {"a": 1}},
    }
    assert b'"sessionId":"\\ud83d"' in line


def test_members_that_come_later_are_ignored() -> None:
    assert decode(b'{"type":"note","time":"t","later":1,"text":"x"}') == events.NoteEvent("t", text="x")


def test_each_type_is_of_the_union() -> None:
    schema = msgspec.json.schema(AnyEvent)
    assert len(schema["anyOf"]) == len(events.TYPES)
