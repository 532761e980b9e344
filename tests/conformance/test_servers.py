"""Server scenarios: whatever our fixture passes alone, it passes at an agent's HTTP address (M-59)."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from tests.conformance.suite import WAYS, Fixture, all_against, fixture, listening, lost
from tests.realservers.published import needs_npm

pytestmark = [needs_npm, pytest.mark.timeout(500)]


@pytest.fixture(scope="module")
def server() -> Iterator[Fixture]:
    with fixture() as found:
        yield found


UNRESUMED = {"server-sse-polling"}  # docs/internals.md


@contextmanager
def fronted(behind: Mapping[str, Any]) -> Iterator[str]:
    """The address of this server behind ours."""
    with listening("tests.conformance.host", json.dumps(behind)) as port:
        yield f"http://localhost:{port}/mcp"


def least(way: str) -> int:
    """How many scenarios there must be at least; a suite that runs nothing proves nothing."""
    return {"0.1.16": 32, "0.2 at 2025-11-25": 33}[way]


@pytest.mark.parametrize("way", WAYS)
def test_what_a_server_passes_alone_it_passes_behind_ours_over_stdio_and_over_http(server: Fixture, way: str) -> None:
    with fronted({"argv": server.argv}) as over_stdio, fronted({"url": server.url}) as over_http:
        alone, stdio, http = all_against([server.url, over_stdio, over_http], way)
    good = [name for name, score in alone.items() if score.is_good]
    assert len(good) >= least(way), {name: score.said for name, score in alone.items() if name not in good}
    assert [lost(alone, each).keys() - UNRESUMED for each in (stdio, http)] == [set(), set()]
