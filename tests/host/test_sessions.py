"""Sessions of a host, without an agent (docs/up.md)."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from acp_launch.host import sessions
from acp_launch.host.sessions import HostSession


def test_what_a_front_knows_already_is_forgotten_with_the_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """A front that stays attached for years costs no more than one that came just now."""
    monkeypatch.setattr(sessions, "KEPT", 100)

    async def story() -> None:
        session = HostSession(cast(Any, SimpleNamespace(now=lambda: 0.0)), "work")
        front = cast(Any, SimpleNamespace(is_alone=False, news=lambda: None))
        for _ in range(1000):
            session.happened(b"{}\n", own=front)
            session.happened(b"{}\n")
        kept = session.window.since(session.window.lost, 0.0)
        assert kept is not None
        assert [session.is_hidden(id, front) for id, _ in kept] == [True, False] * 50
        assert not any(session.is_hidden(id, front) for id in range(1, session.window.lost))

    asyncio.run(story())
