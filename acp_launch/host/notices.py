"""What a host says while no front shows it: on its terminal until it is up, then in the agent's log, and to fronts."""

from typing import TYPE_CHECKING

from acp_launch.console.stream.text import Notices
from acp_launch.process.lifecycle import Change, Standing
from acp_launch.secret.redact import redactor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from acp_launch.host.hub import Hub
    from acp_launch.host.sessions import HostSession
    from acp_launch.process.logs import LogFile
    from acp_launch.session.observer import When


class HostNotices(Notices):
    """The observer of what concerns no session: servers, and notes."""

    log: "LogFile"

    def __init__(self) -> None:
        self._hub: Hub | None = None
        self.is_up = False

    def of(self, hub: "Hub") -> None:
        self._hub = hub

    def note(self, text: str) -> None:
        text = redactor.text(text)
        if not self.is_up:
            super().note(text)
        else:
            self.log.mark(text)
        for session in self._sessions():
            session.feed.note(text)

    def server(self, change: Change) -> None:
        if not self.is_up:
            super().server(change)
        for session in self._sessions():
            session.feed.server(change)

    def standing(self, servers: "Sequence[Standing]", when: "When") -> None:
        for session in self._sessions():
            session.feed.standing(servers, when)

    def waiting(self, what: str, seconds: float, limit: float) -> None:
        if not self.is_up:
            super().waiting(what, seconds, limit)

    def _sessions(self) -> "Sequence[HostSession]":
        return list(self._hub.sessions.values()) if self._hub else []
