"""The first contact with a remote server: its steps, in their order and each once."""

import asyncio
from typing import Any

from acp_launch.mcp.http.contact import Contact

Event = tuple[str, dict[str, Any]]


class Secured:
    """A stream of the HTTP library, and the TLS connection in it."""

    def get_extra_info(self, name: str) -> "Secured":
        assert name == "ssl_object"
        return self

    def version(self) -> str:
        return "TLSv1.3"


def heard(*events: Event) -> Contact:
    async def story() -> Contact:
        contact = Contact()
        for event, info in events:
            await contact.heard(event, info)
        return contact

    return asyncio.run(story())


OPENING = (
    ("connection.connect_tcp.started", {"host": "127.0.0.1", "port": 443}),
    ("connection.connect_tcp.complete", {"return_value": None}),
)
ASKING: tuple[Event, ...] = (
    ("http11.send_request_headers.started", {}),
    ("http11.receive_response_headers.complete", {}),
)


def test_the_steps_are_told_in_their_order() -> None:
    secured: tuple[Event, ...] = (
        ("connection.start_tls.started", {}),
        ("connection.start_tls.complete", {"return_value": Secured()}),
    )
    contact = heard(*OPENING, *secured, *ASKING)
    assert (list(contact.steps), contact.tls) == (["dns", "connect", "tls", "first_answer"], "TLSv1.3")
    assert all(taken >= 0 for taken in contact.steps.values())


def test_without_tls_there_is_no_step_for_it_and_later_requests_do_not_count() -> None:
    contact = heard(*OPENING, *ASKING)
    before = dict(contact.steps)
    assert (list(before), contact.tls, contact.is_made) == (["dns", "connect", "first_answer"], "", True)
    again = heard(*OPENING, *ASKING, *OPENING, *ASKING)
    assert list(again.steps) == list(before)


def test_a_name_that_cannot_be_looked_up_is_left_to_the_library() -> None:
    contact = heard(("connection.connect_tcp.started", {"host": "a" * 64 + ".invalid", "port": 1}))
    assert (contact.steps, contact.is_made) == ({}, False)
