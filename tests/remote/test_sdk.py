"""Connections to servers on the published `mcp` package, in each way it serves HTTP."""

import subprocess

import pytest

from tests.conformance.suite import listening
from tests.looped import looped

from .peer import connected, remote


@pytest.mark.sample(0, 2)
@pytest.mark.parametrize("kind", ["stateful", "stateless", "json", "sse"])
@looped
async def test_a_server_of_the_sdk_is_used_like_any_other(kind: str) -> None:
    """M-8, M-24, M-25, M-31, M-32, M-41: from the first ping to the end, in both eras where it speaks both."""
    with listening("tests.servers.http_sdk", kind, stderr=subprocess.DEVNULL) as url:
        async with connected(remote(url)) as peer:
            assert "result" in await peer.call("ping")
            assert peer.remote.era == ("sse" if kind == "sse" else "modern")
            answer = await peer.shake_hands()
            assert answer["result"]["protocolVersion"] == "2025-11-25"
            assert (await peer.tool("add", a=1, b=2))["result"]["structuredContent"] == {"result": 3}
            asked = [peer.ask("tools/call", {"name": "add", "arguments": {"a": n, "b": 0}}) for n in range(8)]
            for number, id in enumerate(asked):
                assert (await peer.answer(id))["result"]["structuredContent"] == {"result": number}
            counted = {"name": "count", "arguments": {"steps": 3}, "_meta": {"progressToken": "t"}}
            assert "result" in await peer.call("tools/call", counted)
            told = [message for message in peer.heard if message.get("method") == "notifications/progress"]
            assert len(told) == (0 if kind == "json" else 3)
            if kind != "sse":
                answer = await peer.answer(
                    peer.ask_modern("tools/call", {"name": "add", "arguments": {"a": 2, "b": 2}})
                )
                assert answer["result"]["structuredContent"] == {"result": 4}
            await peer.remote.stop(grace=2)
            assert peer.logged == b""
