"""Server-sent events from bytes, however they were cut (WHATWG HTML; M-25)."""

import pytest

from acp_launch.mcp.http.stream import EventStream, ServerEvent
from acp_launch.protocol.jsonrpc import LineTooLong

WHOLE = (
    "\ufeff: a comment\r\n"
    "id: 1\r\n"
    "retry: 250\r\n"
    "data:\r\n"
    "\r\n"
    "event: message\r"
    "data: größe\r"
    "data:  two\r"
    "\r"
    "unknown: field\n"
    "data\n"
    "id: a\0b\n"
    "retry: soon\n"
    "\n"
    ": only a comment\n"
    "\n"
    "data: \u2028 stays\n"
    "\n"
    "data: never ended\n"
)
EVENTS = [
    ServerEvent("message", b"", "1", 0.25),
    ServerEvent("message", "größe\n two".encode(), "1", None),
    ServerEvent("message", b"", "1", None),
    ServerEvent("message", "\u2028 stays".encode(), "1", None),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_survive_any_chunking(size: int) -> None:
    data = WHOLE.encode()
    stream = EventStream(limit=1000)
    found = [event for at in range(0, len(data), size) for event in stream.feed(data[at : at + size])]
    assert found == EVENTS


def test_an_event_larger_than_the_limit_is_the_servers_fault() -> None:
    stream = EventStream(limit=20)
    assert len(list(stream.feed(b"data: 12345678901234\n\ndata: 12345678901234\n\n"))) == 2
    with pytest.raises(LineTooLong):
        list(stream.feed(b"data: 1234567890\ndata: 1234567890\n"))


def test_comments_for_ever_do_not_add_up() -> None:
    stream = EventStream(limit=20)
    for _ in range(100):
        assert list(stream.feed(b": still here\n\n")) == []
