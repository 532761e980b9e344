"""
Whether a server that says nothing is still there, judged by pings of ours. Pure: `tick` is called now and then.

- An idle server that has answered a ping before is asked again after 30 s of silence; three unanswered ones in a row
  mean that it is wedged. One that never answered any is left alone: not every server knows `ping` (MCP 2026-07-28
  has none), but then it answers with an error, which counts.
- While a request is with the server it is busy, and a busy server need not answer.
- After `timeouts.call` has run out on a request, one ping is asked at once, busy or not: the answer proves that the
  server lives and was only slow. It has as long as the call had, and 5 s at least.

Any line from the server is a sign of life.
"""

from typing import Literal

IDLE = 30.0  # seconds of silence
MISSES = 3
LEAST = 5.0  # seconds for the ping after a time-out


class Health:
    def __init__(self, *, idle: float = IDLE, least: float = LEAST) -> None:
        self.knows_ping = False  # it has answered one, if only with an error
        self._idle, self._least = idle, least
        self._heard = 0.0
        self._asked: float | None = None
        self._misses = 0
        self._patience: float | None = None  # set: it is suspected

    def begin(self, now: float) -> None:
        """A new process."""
        self._heard, self._asked, self._misses, self._patience = now, None, 0, None

    def heard(self, now: float) -> None:
        self._heard = now
        self._asked, self._misses, self._patience = None, 0, None

    def suspect(self, now: float, limit: float) -> bool:
        """A call took longer than `limit`; whether to ping now."""
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
