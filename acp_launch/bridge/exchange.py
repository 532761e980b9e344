"""
One MCP conversation between an agent and a server that may die and come back. Sans-IO: lines in, lines out.

    absent ──attached──▶ open                    no handshake was seen yet: everything passes
       ▲       │
       │       └───────▶ replaying ──▶ open      the agent's own `initialize` is asked again, its answer kept from it
       └──lost── open, replaying ──lost, for good──▶ final ──lost, but not for good──▶ absent

Messages pass as the bytes they came in. We read `id` and `method`, remember what a new process must be told, and step
in where an answer would never come. While absent, requests wait for the next process, within bounds; none is ever
sent twice, because what a dead process did with it is unknown. While final, every request is refused at once, until
a person has the server started anew.
"""

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from acp_launch.bridge import refusal, roots
from acp_launch.bridge.fromagent import FromAgent
from acp_launch.bridge.fromserver import FromServer
from acp_launch.bridge.health import Health
from acp_launch.bridge.ledger import Asked
from acp_launch.bridge.refusal import TIMED_OUT, Lost
from acp_launch.bridge.replay import INITIALIZE
from acp_launch.bridge.reprise import Reprise
from acp_launch.bridge.talk import CANCELLED, PING, Phase, Surroundings, Talk
from acp_launch.protocol.mishap import Mishaps

if TYPE_CHECKING:
    from acp_launch.bridge.toolpolicy import ToolPolicy


class Exchange:
    """`start` is how long a request may wait for a process, `call` how long for its answer (None: for ever)."""

    def __init__(
        self,
        server: str,
        around: Surroundings,
        policy: "ToolPolicy | None",
        directories: Sequence[PurePath],
        *,
        start: float,
        call: float | None = None,
        health: Health | None = None,
        gives_roots: bool = False,
    ) -> None:
        self._talk = Talk(
            server, around, policy, directories, call=call, health=health or Health(), gives_roots=gives_roots
        )
        self._start = start
        self._reprise = Reprise(self._talk)
        self.from_agent = FromAgent(self._talk)
        self.from_server = FromServer(self._talk, self._reprise)

    @property
    def mishaps(self) -> Mishaps:
        """Takes failures of ours with a message of either side."""
        return self._talk.mishaps

    @property
    def phase(self) -> Phase:
        return self._talk.phase

    @property
    def tools(self) -> int | None:
        """How many the agent was shown; None while it has not asked."""
        listing = self._talk.memory.lists.get("tools/list")
        return listing.count if listing else None

    @property
    def is_introduced(self) -> bool:
        """The agent has begun its handshake, so somebody waits for the server's start."""
        return bool(self._talk.memory.initialize)

    @property
    def is_waiting(self) -> bool:
        """Some request is with the server, or waits for it."""
        return bool(self._talk.ledger.wanted() or self._talk.queue)

    def attached(self, *, probe: bool = False) -> None:
        """A process can be written to; `probe` asks it for a sign of life, unless its agent shakes no hands."""
        talk = self._talk
        talk.is_ready = False
        talk.health.begin(talk.around.now())
        if talk.memory.initialize:
            talk.phase = "replaying"
            talk.around.to_server(talk.memory.initialize)
            return
        talk.was_pinged = probe and not talk.is_modern
        if talk.was_pinged:
            self._reprise.ping()
        talk.open()

    def detached(self) -> None:
        """The process cannot be written to any more; what it was asked is still open, what comes now has to wait."""
        if self._talk.phase == "final":
            return
        self._talk.phase = "absent"
        for asked in self._talk.ledger.wanted():
            if asked.method == INITIALIZE:
                asked.silent_since = self._talk.around.now()  # from now on it waits for a process, not for an answer

    def lost(self, lost: Lost, *, for_good: bool) -> None:
        """The process is gone, and all it wrote was given to `from_server`."""
        talk = self._talk
        talk.lost, talk.phase = lost, "final" if for_good else "absent"
        self._reprise.forget()
        for asked in talk.ledger.close():
            self._died_with_it(asked, for_good=for_good)
        for id in talk.questions.die():
            params = {"requestId": id, "reason": f'MCP server "{talk.server}" {lost.why}'}
            talk.around.to_agent(refusal.notification(CANCELLED, params))
        if for_good:
            self._refuse_waiting()

    def roots_changed(self, directories: Sequence[PurePath]) -> None:
        """Tell the server, unless the agent answers for its roots itself."""
        talk = self._talk
        talk.directories = directories
        if talk.phase == "open" and talk.memory.initialized and not talk.agent_has_roots:
            talk.around.to_server(refusal.notification(roots.CHANGED))

    def excuse(self) -> None:
        """Nobody listened to the server, for the agent takes nothing: its silence up to now is not its own."""
        talk, now = self._talk, self._talk.around.now()
        talk.health.heard(now)
        for asked in talk.ledger.open.values():
            asked.silent_since = now

    def tick(self, *, is_stopped: bool = False) -> None:
        """Look at the clock: requests that waited too long are answered, a silent server is pinged or given up.

        `is_stopped`: its process is there and does not run (SIGSTOP).
        """
        talk, now = self._talk, self._talk.around.now()
        for asked in talk.queue.expired(now - self._start):
            self._late(asked)
        if talk.phase != "open":
            self._expire_handshake(now)
            return
        if talk.questions.open:
            self.excuse()  # it waits for the agent, or for a person
        if self._time_out(now) and is_stopped:
            talk.around.wedged("is stopped (SIGSTOP)")
            return
        verdict = talk.health.tick(now, busy=bool(talk.ledger.wanted()))
        if verdict == "ping":
            self._reprise.ping()
        elif verdict == "wedged":
            talk.around.wedged("does not answer any more, not even a ping")

    def _expire_handshake(self, now: float) -> None:
        for asked in self._talk.ledger.wanted():
            if self._talk.phase == "absent" and asked.method == INITIALIZE and now - asked.silent_since >= self._start:
                self._talk.ledger.settle(asked.id)
                self._late(asked)

    def _late(self, asked: Asked) -> None:
        said = f'MCP server "{self._talk.server}" {self._talk.lost.why}, and was not back within {self._start:g} s'
        self._talk.around.to_agent(refusal.error(asked.id, TIMED_OUT, said))

    def _died_with_it(self, asked: Asked, *, for_good: bool) -> None:
        if asked.method == PING:
            self._talk.pong(asked)
        elif asked.method == INITIALIZE and not for_good:
            asked.silent_since = self._talk.around.now()
            self._talk.ledger.ask(asked)  # the next process answers it: nothing was done yet
        else:
            self._forget_handshake(asked)
            self._talk.refuse(asked, was_sent=asked.method != INITIALIZE)

    def _forget_handshake(self, asked: Asked) -> None:
        """One that was refused is not replayed to a process that comes all the same; the agent may try again."""
        if asked.method == INITIALIZE:
            self._talk.memory.initialize = b""

    def _refuse_waiting(self) -> None:
        for waiting in self._talk.queue.take_all():
            if waiting.asked is not None:
                self._talk.refuse(waiting.asked)

    def _time_out(self, now: float) -> bool:
        """`timeouts.call`: silence of this length, progress being no silence. Whether some call was too late."""
        limit = self._talk.call
        if limit is None:
            return False
        waiting = [asked for asked in self._talk.ledger.wanted() if asked.method != INITIALIZE]  # that has its own
        late = [asked for asked in waiting if now - asked.silent_since >= limit]
        for asked in waiting:
            self._mention(asked, now - asked.silent_since, limit)
        for asked in late:
            self._give_up(asked, limit)
        if late and self._talk.health.suspect(now, limit):
            self._reprise.ping()
        return bool(late)

    def _mention(self, asked: Asked, silence: float, limit: float) -> None:
        """Every wait has a word: after three seconds, then at growing intervals."""
        if asked.word <= silence < limit:
            self._talk.around.waiting(asked.method, asked.word, limit)
            asked.word = min(asked.word * 3, asked.word + 60)

    def _give_up(self, asked: Asked, limit: float) -> None:
        talk = self._talk
        talk.ledger.settle(asked.id)
        how = f"did not answer {asked.method} within {limit:g} s (timeouts.call)"
        talk.around.note(f"mcp server {talk.server} {how}")
        talk.around.to_agent(refusal.error(asked.id, TIMED_OUT, f'MCP server "{talk.server}" {how}'))
        params = {"requestId": asked.id, "reason": "timed out"}
        talk.around.to_server(refusal.notification(CANCELLED, params))
