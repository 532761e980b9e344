"""A host in place of the agent: it speaks ACP to an editor, with several sessions on one line."""

import socket
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from acp_launch.host.front import ENDED, Told, show
from acp_launch.host.wire import EVENT, META, Entrance, SocketTransport, understood
from acp_launch.launch.context import LaunchContext
from acp_launch.launch.loop import Interrupts
from acp_launch.launch.run import Ending, Launch, Story, converse
from acp_launch.launch.servers import LaunchServers
from acp_launch.protocol import acp
from acp_launch.protocol.conversation import Extension
from acp_launch.session.connection import Connection
from acp_launch.session.observer import Observer

T = TypeVar("T")


class HostAsAgent(Launch):
    """A launch whose agent is a host. The host starts its own agent again when it is wanted."""

    def __init__(
        self,
        context: LaunchContext,
        observer: Observer,
        interrupts: Interrupts,
        servers: LaunchServers,
        find: Callable[[], Callable[[], socket.socket]],
    ) -> None:
        """Prepare it. `find` gives what connects to the host, or raises AgentError."""
        super().__init__(context, observer, interrupts, servers)
        self._find = find

    async def meet(self, story: Story[T], ending: Ending) -> T:
        """Run `story` with a connection to the host."""

        async def met(connection: Connection) -> T:
            connection.understood, connection.extension = understood, self._tell
            return await story(connection)

        with self._find()() as line:
            transport = SocketTransport(line, ENDED)
            told = converse(self.context, transport, self.observer, met, self.interrupts)
            return await self.interrupts.watch(told)

    def _tell(self, extension: Extension) -> None:
        if extension.method == EVENT:
            show(self.observer, msgspec.json.decode(extension.params, type=Told))


def entering(params: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the params that open a session, for a host; `name` is the session's in the store."""
    entrance = msgspec.to_builtins(Entrance(name=name, can_ask=True, editor=True))
    return {**params, "_meta": {**acp.mapping(params.get("_meta")), META: entrance}}
