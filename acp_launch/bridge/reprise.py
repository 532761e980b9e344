"""
What we ask a server ourselves: a ping, and after a restart what a new process must know and may have changed. Sans-IO.

The answers are ours and never reach the agent. It hears `list_changed` for the lists that differ from what it was
shown, each kind once.
"""

from collections.abc import Callable

from msgspec import UNSET, Raw

from acp_launch.bridge import refusal
from acp_launch.bridge.ids import Numbers
from acp_launch.bridge.listing import LISTS, Listing
from acp_launch.bridge.talk import PING, Talk
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.jsonrpc import Envelope

Answered = Callable[[Envelope, bytes], None]


class Reprise:
    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._numbers = Numbers()
        self._open: dict[bytes, Answered] = {}
        self._told: set[str] = set()

    def answered(self, message: Envelope, line: bytes) -> bool:
        """Whether this answer was for us."""
        assert message.id is not UNSET
        take = self._open.pop(bytes(message.id), None)
        if take is not None:
            take(message, line)
        return take is not None

    def forget(self) -> None:
        """The process is gone; nothing will be answered."""
        self._open.clear()

    def ping(self) -> None:
        self._ask(PING, None, self._pong)

    def begin(self) -> None:
        """Tell a new process what the old one knew; ask for the lists."""
        self._told.clear()
        for method, params in self._talk.memory.wishes():
            self._ask(method, params, self._noted(method))
        for method, known in self._talk.memory.lists.items():
            self._list(method, known, Listing(method), None)

    def _ask(self, method: str, params: object, take: Answered) -> None:
        id = self._numbers.fresh({**self._open, **self._talk.ledger.open})
        self._open[id] = take
        self._talk.around.to_server(refusal.request(id, method, params))

    def _pong(self, message: Envelope, line: bytes) -> None:
        self._talk.health.knows_ping = True

    def _noted(self, method: str) -> Answered:
        def take(message: Envelope, line: bytes) -> None:
            if message.error is not UNSET:
                said = jsonrpc.fault(message.error).message
                self._talk.around.note(f"{self._talk.server} refused {method} after its restart: {said}")

        return take

    def _list(self, method: str, known: Listing, listing: Listing, cursor: str | None) -> None:
        """Compare what there is with what the agent knows, unless it has looked again by itself meanwhile."""

        def take(message: Envelope, line: bytes) -> None:
            if message.result is UNSET or self._talk.memory.lists.get(method) is not known:
                return
            following = listing.add(self._visible(method, message, line))
            if following is not None:
                self._list(method, known, listing, following)
            elif not listing.same(known):
                self._tell(LISTS[method][1])

        self._ask(method, None if cursor is None else {"cursor": cursor}, take)

    def _visible(self, method: str, message: Envelope, line: bytes) -> Raw:
        """The page as the agent would be shown it; an error shows nothing."""
        if method == "tools/list" and self._talk.policy:
            message = jsonrpc.decode(self._talk.policy.filtered(line)[0]) or message
        return Raw(b"{}") if message.result is UNSET else message.result

    def _tell(self, notification: str) -> None:
        if notification not in self._told:
            self._told.add(notification)
            self._talk.around.to_agent(refusal.notification(notification))
