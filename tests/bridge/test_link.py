"""One side's pipe: every line is handed on, whatever becomes of the others."""

import asyncio
import os
from collections.abc import Sequence

from acp_launch.bridge.link import Link, LinkEnd
from acp_launch.protocol.jsonrpc import Envelope
from tests.patience import PATIENCE


def test_a_line_that_breaks_its_receiver_costs_no_other_line() -> None:
    """All in one chunk, as a fast writer's lines come."""
    heard: list[bytes] = []
    broke: list[Exception] = []
    bursts: list[bool] = []
    joined: list[tuple[bytes, list[object]]] = []

    def take(line: bytes) -> None:
        if line == b"one":
            raise LookupError("an id that is no id")
        heard.append(line)

    async def story() -> None:
        ended = asyncio.Event()

        def over(over: LinkEnd) -> None:
            ended.set()

        source, theirs = os.pipe()
        sink, ours = os.pipe()
        os.set_blocking(source, False)
        os.write(theirs, b"none\none\ntwo\nthree\nfo")
        os.write(theirs, b"ur\n")
        os.close(theirs)

        def passes(line: bytes) -> Envelope | None:
            return Envelope(method=line.decode()) if line.startswith(b"t") else None

        def send_on(lines: bytes, messages: Sequence[Envelope]) -> None:
            joined.append((lines, [message.method for message in messages]))

        hears = take, over, lambda: None, bursts.append, broke.append, passes, send_on
        link = Link(source, ours, *hears, max_line=100)
        async with asyncio.timeout(PATIENCE):
            await ended.wait()
        link.close()
        for descriptor in (source, sink, ours):
            os.close(descriptor)

    asyncio.run(story())
    assert heard == [b"none", b"four"]
    assert joined == [(b"two\nthree", ["two", "three"])], "what may pass as it came, goes on at once"
    assert [type(error) for error in broke] == [LookupError]
    assert bursts in ([True, False], [True, False, True, False])
