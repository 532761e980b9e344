"""Ring 3. The API in programs of others (docs/api.md)."""

import asyncio
from typing import Any

import pytest

from tests.cli.launcher import Launcher
from tests.looped import bounded
from tests.test_readme import ROOT, blocks


def block(word: str) -> str:
    (found,) = [each.text for each in blocks((ROOT / "docs" / "api.md").read_text()) if word in each.text]
    return found


@bounded
async def test_a_service_streams_the_events_and_ends_with_its_client(
    launch: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(launch.project)
    names: dict[str, Any] = {"__name__": "service"}
    exec(block("async def answer"), names)
    assert "".join([piece async for piece in names["answer"]("add 2 3")]) == "5"
    task = asyncio.create_task(anext(names["answer"]("slow")))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
