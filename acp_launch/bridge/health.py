"""
Health of a silent server, judged by pings. Pure: the caller calls `tick` now and then.

- An idle server that has answered a ping before gets another after 30 s of silence. Three unanswered pings in a row
  mean that it is wedged. A server that has never answered a ping is left alone. A server that does not know `ping` (MCP
  2026-07-28 has none) answers with an error, which counts as an answer.
- A server with an open request is busy, and a busy server need not answer.
- After `timeouts.call` has expired on a request, one ping is sent at once, even to a busy server. An answer proves that
  the server lives and was only slow. The ping has as long as the call had, and at least 5 s.

Any line from the server is a sign of life.
"""

from typing import Literal

from acp_launch.waits import stretch

IDLE = 30.0  # seconds of silence
MISSES = 3
LEAST = stretch(5.0)  # seconds for the ping after a time-out


class Health:
    def __init__(self, *, idle: float = IDLE, least: float = LEAST) -> None:
        self.knows_ping = False  # it has answered a ping, possibly with an error
        self._idle, self._least = idle, least
        self._heard = 0.0
        self._asked: float | None = None
        self._misses = 0
        self._patience: float | None = None  # seconds for the ping after a time-out; set while it is suspected

    def begin(self, now: float) -> None:
        """Start anew for a new process of the server."""
        self._heard, self._asked, self._misses, self._patience = now, None, 0, None

    def heard(self, now: float) -> None:
        self._heard = now
        self._asked, self._misses, self._patience = None, 0, None

    def suspect(self, now: float, limit: float) -> bool:
        """Suspect the server because a call took longer than `limit`; return whether to ping now."""
        if self._patience is not None or not self.knows_ping:
            return False
        self._asked, self._patience = now, max(limit, self._least)
        return True

    @property
    def is_suspected(self) -> bool:
        return self._patience is not None

    def tick(self, now: float, *, busy: bool) -> Literal["ping", "wedged", "fine"]:
        if self._patience is not None:
            return "wedged" if now - (self._asked or now) > self._patience else "fine"
        if busy:
            self._heard, self._asked, self._misses = now, None, 0
            return "fine"
        return self._while_idle(now)

    def _while_idle(self, now: float) -> Literal["ping", "wedged", "fine"]:
        if not self.knows_ping or now - (self._asked or self._heard) <= self._idle:
            return "fine"
        self._misses += self._asked is not None
        if self._misses >= MISSES:
            return "wedged"
        self._asked = now
        return "ping"
