"""What a session says, as one line of JSON for each event."""

import json

import jsonschema
import msgspec
import pytest
from msgspec import Raw

from acp_launch.document.scalars import Duration
from acp_launch.process.lifecycle import Change, Standing
from acp_launch.session import events
from acp_launch.session.events import AnyEvent, decode, encode, redact, write_schema
from tests.secret.canaries import knowing

TIME = "2026-11-27T08:30:00.250Z"
EVENTS: list[AnyEvent] = [
    events.InitializedEvent(TIME, result=Raw(b'{"protocolVersion": 1}')),
    events.UpdateEvent(TIME, session_id="s", update=Raw(b'{"sessionUpdate":"plan", "new": [1]}')),
    events.PermissionEvent(
        TIME, tool_call={"title": "x"}, options=[], allowed=False, option_id=None, by="you", title="x"
    ),
    events.FileEvent(TIME, path="/a", how="write", outcome="done", reason=None, created=True),
    events.WaitingEvent(TIME, what="the agent", seconds=3.0, limit=Duration(30)),  # as a profile has it
    Change(time=TIME, server="s", state="resting", exit="was killed by SIGKILL", detail=("a",), retry=0.5),
    events.ServersEvent(TIME, when="turn", servers=[Standing(server="s", state="ready", after=0.5)]),
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


def test_half_of_a_character_is_read_as_a_question_mark_and_a_later_member_not_at_all() -> None:
    line = b'{"type":"note","time":"t","later":1,"text":"cut \\ud83d"}'
    assert decode(line) == events.NoteEvent("t", text="cut ?")


def test_half_of_a_character_is_written_as_it_was() -> None:
    event = events.SessionEvent(TIME, session_id="\ud83d", name="s", how="new", replayed=0, result=Raw(b'{"a": 1}'))
    line = encode(event)
    assert json.loads(line) == {
        **{"type": "session", "time": TIME, "sessionId": "\ud83d", "name": "s", "how": "new"},
        **{"replayed": 0, "result": {"a": 1}, "turns": 0, "title": ""},
    }
    assert b'"sessionId":"\\ud83d"' in line


def test_each_type_is_of_the_union() -> None:
    schema = msgspec.json.schema(AnyEvent)
    assert len(schema["anyOf"]) == len(events.TYPES)


SECRET = "refused-by-canary"
PROBLEM = events.ErrorProblem(file="f", line=1, column=2, path="p", message=SECRET, fix="", severity="error")


@pytest.mark.parametrize(
    "event",
    [
        events.InitializedEvent(result=Raw(json.dumps({"a": [SECRET]}).encode())),
        events.PermissionEvent(
            tool_call={SECRET: 1}, options=[{"name": SECRET}], allowed=True, option_id=SECRET, by="you", title=SECRET
        ),
        events.UnaskedEvent(tool_call={"a": {"b": SECRET}}, by="permissions.default: ask"),
        events.FileEvent(path=SECRET, how="write", outcome="done", old=SECRET, new=f"x{SECRET}"),
        events.TerminalEvent(terminal_id="t", command=SECRET, cwd=SECRET, output=SECRET),
        events.CancelledEvent(tool_calls=[{"title": SECRET}], limit=1.0),
        events.WaitingEvent(what=SECRET, seconds=1.0, limit=2.0),
        Change(server=SECRET, state="failed", exit=SECRET, detail=("a", SECRET)),
        events.ServersEvent(when="turn", servers=[Standing(server="s", state="failed", reason=SECRET)]),
        events.ResultEvent(stop_reason="end_turn", usage={SECRET: 1}, denied=SECRET, result=Raw(b"{}")),
        events.ErrorEvent(
            exit_code=4, message=SECRET, fix=SECRET, detail=(SECRET,), problems=[PROBLEM], code=None, data={"a": SECRET}
        ),
    ],
    ids=lambda event: type(event).__name__,
)
def test_an_event_is_told_without_secrets_and_can_still_be_read(event: AnyEvent) -> None:
    line = encode(redact(event, knowing(SECRET)))
    assert SECRET.encode() not in line
    assert b"***" in line
    assert decode(line) is not None
    assert redact(event, knowing("another-canary")) is event


@pytest.mark.parametrize("word", ["refused", "starting", "credentials"])
def test_a_word_of_ours_that_is_a_secret_too_stays(word: str) -> None:
    """It is no news, and a reader knows the event by it."""
    told: list[AnyEvent] = [
        events.FileEvent(path="/a", how="read", outcome="refused", reason="r"),
        Change(server="s", state="starting", fault="credentials"),
    ]
    assert [redact(event, knowing(word)) for event in told] == told
