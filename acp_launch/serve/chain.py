"""
A place in a chain of proxies: one connection, to a conductor, for both sides (draft "Proxy chains" of ACP).

    editor ◀─▶ conductor ◀─ our stdin and stdout ─▶ Chained ─▶ relay
    agent  ◀─▶

The conductor starts the agent, so the profile's own is not started. What goes to the agent and what comes from it is
wrapped as `proxy/successor`, but for answers and withdrawals: their ids tell which side they belong to.
"""

from msgspec import UNSET, Raw

from acp_launch.process.child import first_of
from acp_launch.process.spawn import Spawned
from acp_launch.protocol import edits, jsonrpc
from acp_launch.protocol.jsonrpc import INVALID_PARAMS, Envelope
from acp_launch.serve.proxy import Proxy
from acp_launch.serve.relay import CANCEL, INVALID_REQUEST
from acp_launch.serve.sessions import HostDoor

# As the draft spells it, and as the conductor that is published does.
SPELLINGS = {"proxy/initialize": "proxy/successor", "_proxy/initialize": "_proxy/successor"}


def wrapped(line: bytes, method: str) -> bytes:
    """Wrap a request or notification of ours for the agent."""
    id, params = edits.at(line, ("id",)), edits.at(line, ("params",))
    inner = _members(line, ("method", edits.at(line, ("method",))), ("params", params))
    return b'{"jsonrpc":"2.0",%b"method":"%b","params":{%b}}' % (
        b'"id":%b,' % line[slice(*id)] if id else b"",
        method.encode(),
        inner,
    )


def unwrapped(line: bytes) -> bytes | None:
    """Return the request or notification of the agent that is wrapped; None if it names no method."""
    method, params = edits.at(line, ("params", "method")), edits.at(line, ("params", "params"))
    if method is None or not line[method[0] : method[1]].startswith(b'"'):
        return None
    if params is not None and line[slice(*params)] == b"null":  # means the same as none
        params = None
    return b'{"jsonrpc":"2.0",%b}' % _members(
        line, ("id", edits.at(line, ("id",))), ("method", method), ("params", params)
    )


def _members(line: bytes, *found: tuple[str, tuple[int, int] | None]) -> bytes:
    """Write members whose values stand at these places of a line; those without a place are left out."""
    return b",".join(b'"%b":%b' % (key.encode(), line[slice(*place)]) for key, place in found if place)


class Chained(Proxy):
    """A proxy whose agent is its successor in a chain."""

    are_logins_ours = False  # the editor starts the conductor
    successor = "proxy/successor"  # in the conductor's spelling

    async def run(self, spawned: Spawned | HostDoor | None = None) -> None:
        """Serve until the conductor ends; it starts the agent.

        Raises:
            LaunchError: see the tree in `errors`.
        """
        assert spawned is None, "the conductor has started the agent"
        try:
            async with self._sessions.running():
                try:
                    await first_of(self._resuming(), self._over.wait())
                finally:
                    self._sessions.stopping()
                    self._interrupts.stopping()
        finally:
            self._inflow.close()
            self._outflow.close()

    async def _resuming(self) -> None:
        """Read on whenever the conductor takes more."""
        while True:
            await self._room.wait()
            self._room.clear()
            self._inflow.resume()

    def _take(self, line: bytes) -> None:
        message = jsonrpc.decode(line)
        if message is None:
            self._relay.receive("editor", line)
        elif message.method is UNSET or message.method == CANCEL:
            self._relay.receive(self._relay.side_of(line, message), line)
        else:
            self._taken(line, message, message.method)
        if self._outflow.is_full:
            self._inflow.pause()

    def _taken(self, line: bytes, message: Envelope, method: str) -> None:
        """Take a request or notification of either side."""
        if method in SPELLINGS:
            self.successor = SPELLINGS[method]
            self._relay.receive("editor", edits.replaced(line, ("method",), b'"initialize"'))
        elif method == self.successor:
            inner = unwrapped(line)
            if inner is not None:
                self._relay.receive("agent", inner)
            else:
                self._refuse(message, INVALID_PARAMS, f"{method} names no method")
        elif method == "initialize":
            self._refuse(message, INVALID_REQUEST, "proxy/initialize is expected: this is serve --proxy")
        else:
            self._relay.receive("editor", line)

    def _refuse(self, message: Envelope, code: int, why: str) -> None:
        if message.id is not UNSET:
            self._outflow.send(jsonrpc.error(Raw(message.id), code, why) + b"\n")

    def _to_agent(self, method: str, line: bytes) -> None:
        is_wrapped = method not in ("", CANCEL)
        self._outflow.send((wrapped(line, self.successor) if is_wrapped else line) + b"\n")
