"""
The requests of the agent that we serve, each beside the pump, so that a slow one holds up nothing (C-11).

Every one is answered exactly once: with its result, its refusal, or -32800 when the agent takes it back (C-65). Those
that ask a person are answered `cancel` when their turn is cancelled; a file or a command of a cancelled turn goes on,
since it is the agent that knows what depends on it.
"""

import asyncio

from acp_launch.errors import LaunchError
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.conversation import ELICITATION
from acp_launch.protocol.event import ServiceAsked
from acp_launch.protocol.jsonrpc import BROKEN
from acp_launch.session.connection import AGENT, Connection
from acp_launch.session.service import Refusal, Services


class Serving:
    def __init__(self, connection: Connection, services: Services) -> None:
        self._connection = connection
        self._services = services
        self._open: dict[bytes, tuple[ServiceAsked, asyncio.Task[None]]] = {}

    @property
    def is_busy(self) -> bool:
        """Whether the agent waits for us."""
        return bool(self._open)

    def asked(self, question: ServiceAsked) -> None:
        self._open[bytes(question.id)] = (question, self._connection.beside(self._served(question)))

    def withdrawn(self, id: bytes) -> bool:
        """Stop serving a request. Whether it was one of ours."""
        _, task = self._open.pop(id, (None, None))
        if task is not None:
            task.cancel()
        return task is not None

    def cancel(self, session_id: str) -> None:
        """The turn of a session is being cancelled: nobody is asked about it any longer."""
        for id, (question, task) in list(self._open.items()):
            if question.method == ELICITATION and question.session_id in ("", session_id):
                del self._open[id]
                task.cancel()
                self._connection.send(self._connection.conversation.serve(question.id, {"action": "cancel"}))

    async def _served(self, question: ServiceAsked) -> None:
        serve = self._services.get(question.method)
        conversation = self._connection.conversation
        try:
            if serve is None:
                raise Refusal(jsonrpc.METHOD_NOT_FOUND, "method not found")
            result = await serve(question.params)
        except Refusal as refusal:
            line = conversation.refuse(question.id, refusal.code, refusal.message, refusal.data)
        except LaunchError:
            raise
        except Exception as error:  # a bug of ours costs the request, not the session
            self._connection.mishaps.add(AGENT, error)
            line = conversation.refuse(question.id, jsonrpc.INTERNAL_ERROR, BROKEN)
        else:
            line = conversation.serve(question.id, result)
        self._open.pop(bytes(question.id), None)
        self._connection.reply(line)
