"""One prompt turn: prompt → updates… → stop reason (ACP v1 "prompt turn")."""

import asyncio
from collections.abc import Callable, Sequence

from msgspec import Raw

from acp_launch.errors import AgentRefused, WaitExpired
from acp_launch.protocol import acp
from acp_launch.session.client import Client, usage
from acp_launch.session.connection import Connection
from acp_launch.session.observer import TurnEnd

KNOB = "silence"
CANCELLED = Raw(b'{"stopReason":"cancelled"}')
# Seconds for an agent to end a turn that is cancelled; real ones need less than 0.2. Then the agent counts as hung.
GRACE = 3.0
LATE_GRACE = 1.0  # when the run has taken as long as it may: nobody waits who could say that it is enough
STUCK_GRACE = 0.5  # when nobody takes our output, so that we cannot read how it ends


class Turn:
    """A turn that can be cancelled while it runs."""

    def __init__(
        self,
        connection: Connection,
        client: Client,
        session_id: str,
        *,
        silence: float,
        over: Callable[[], None] = lambda: None,
    ) -> None:
        """`silence` is the longest silence in seconds; while a person is being asked, nobody is silent.

        `over` is called before the observer is told of the end, which is the last thing it is told of a turn.
        """
        self._over = over
        self._connection = connection
        self._client = client
        self._session_id = session_id
        self._silence = silence
        self._patience = asyncio.timeout(None)
        self._grace: float | None = None  # once it is being cancelled
        self.is_running = False  # the prompt was sent and is not answered

    def cancel(self, grace: float = GRACE) -> None:
        """Ask the agent to end the turn; it is over when the agent answers, or after the grace (C-62).

        Nothing for a turn that is over, or is being cancelled.
        """
        if self.is_running and self._grace is None:
            self._grace = min(grace, STUCK_GRACE) if self._connection.held_back else grace
            self._client.cancel(self._session_id, self._grace)
            self._patience.reschedule(asyncio.get_running_loop().time() + self._grace)

    async def run(self, blocks: Sequence[object]) -> TurnEnd:
        """Send the prompt and wait for the turn's end.

        Raises:
            AgentError, AuthRequired: as `Connection.call`.
            WaitExpired: the agent was silent too long, or went on after being cancelled.
        """
        self._client.new_turn()
        call = self._connection.conversation.prompt(self._session_id, blocks)
        try:
            async with self._patience:
                self.is_running = True
                result = await self._connection.call(
                    call,
                    what="sign of life from the agent in its turn",
                    limit=self._silence,
                    knob=KNOB,
                    since=self._alive,
                )
        except TimeoutError:
            if self._connection.held_back:
                return self._end(CANCELLED)
            hung = WaitExpired(f"the agent went on for {self._grace:g} s after its turn was cancelled")
            raise self._connection.blamed(hung) from None
        except AgentRefused:
            if self._grace is None:
                raise
            result = CANCELLED  # agents must not turn a cancellation into an error, and some do
        finally:
            self.is_running = False
        return self._end(result)

    def _alive(self) -> float:
        """What is being cancelled has a deadline of its own, and no silence is mentioned any more."""
        return self._client.alive() if self._grace is None else asyncio.get_running_loop().time()

    def _end(self, result: Raw) -> TurnEnd:
        reason = acp.text(acp.mapping(acp.decoded(result)).get("stopReason")) or "unknown"
        turn = TurnEnd(reason, usage(result), self._client.denied, self._client.title, result)
        self._over()
        self._connection.observer.ended(turn)
        return turn
