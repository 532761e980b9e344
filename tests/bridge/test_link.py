"""One side's pipe: every line is handed on, whatever becomes of the others."""

import asyncio
import os
from collections.abc import Sequence

from acp_launch.process.flow import FastPath, Link, LinkEnd, LinkUser
from acp_launch.protocol.jsonrpc import Envelope
from tests.looped import looped
from tests.patience import PATIENCE


class User(LinkUser):
    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.broke: list[Exception] = []
        self.bursts: list[bool] = []
        self.ended = asyncio.Event()

    def receive(self, line: bytes) -> None:
        if line == b"one":
            raise LookupError("an id that is no id")
        self.heard.append(line)

    def over(self, end: LinkEnd) -> None:
        self.ended.set()

    def on_drained(self) -> None:
        """Nothing is written here."""

    def on_burst(self, is_on: bool) -> None:
        self.bursts.append(is_on)

    def fail(self, error: Exception) -> None:
        self.broke.append(error)


@looped
async def test_a_line_that_breaks_its_receiver_costs_no_other_line() -> None:
    """All in one chunk, as a fast writer's lines come."""
    user = User()
    joined: list[tuple[bytes, list[object]]] = []

    def forward_fast(line: bytes) -> Envelope | None:
        return Envelope(method=line.decode()) if line.startswith(b"t") else None

    def forward(lines: bytes, messages: Sequence[Envelope]) -> None:
        joined.append((lines, [message.method for message in messages]))

    source, theirs = os.pipe()
    sink, ours = os.pipe()
    os.set_blocking(source, False)
    os.write(theirs, b"none\none\ntwo\nthree\nfo")
    os.write(theirs, b"ur\n")
    os.close(theirs)
    link = Link(source, ours, user, FastPath(forward_fast, forward), max_line=100)
    async with asyncio.timeout(PATIENCE):
        await user.ended.wait()
    link.close()
    for descriptor in (source, sink, ours):
        os.close(descriptor)
    assert user.heard == [b"none", b"four"]
    assert joined == [(b"two\nthree", ["two", "three"])], "what may pass as it came, goes on at once"
    assert [type(error) for error in user.broke] == [LookupError]
    assert user.bursts in ([True, False], [True, False, True, False])
