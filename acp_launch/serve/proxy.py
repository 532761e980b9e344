"""
The life of a served profile: the editor's streams, and one agent after the other.

    editor ── stdin ──▶ Proxy ──▶ relay ──▶ agent
    editor ◀─ stdout ── Proxy ◀── relay ◀── agent

It ends when the editor closes its end. The editor is read no faster than the agent takes, and the agent no faster than
the editor takes.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Raw

from acp_launch.errors import AgentError, LaunchError, ProblemsError, RemoteProtocolError
from acp_launch.launch.loop import Interrupts
from acp_launch.process.child import HASTY, attach, first_of, stop
from acp_launch.process.flow import HIGH, LOW, Inflow, Lent, Outflow
from acp_launch.process.spawn import Spawned
from acp_launch.protocol import edits, jsonrpc
from acp_launch.protocol.jsonrpc import INTERNAL_ERROR, LineFramer, LineTooLong
from acp_launch.rpc import LAST_WORDS, Transport, TransportClosed, connected
from acp_launch.secret.redact import redactor
from acp_launch.serve import handshake
from acp_launch.serve.relay import Relay, Request
from acp_launch.serve.sessions import ServeNeeds, Sessions

ACTS = frozenset({"fs/write_text_file", "terminal/create"})  # what the editor does must be what the agent wants


def fault(error: LaunchError) -> tuple[int, str, object]:
    """Return an error as code, message and data, for an editor to show; what the agent has answered stays as it was."""
    if error.reply is not None:
        return error.reply
    if isinstance(error, ProblemsError):
        text = "\n".join(map(str, error.problems))
    else:
        text = "\n".join([error.message, *error.detail, *([f"fix: {error.fix}"] if error.fix else [])])
    return INTERNAL_ERROR, redactor.text(text), {"exitCode": error.exit_code}


async def refuse_all(error: LaunchError, source: Lent, sink: Lent | int, *, max_line: int) -> None:
    """Answer each request of the editor with an error, until the editor ends: it shows the one about `initialize`."""
    over = asyncio.Event()
    framer, outflow = LineFramer(limit=max_line), Outflow(sink, lambda: None, over.set)
    relay = Relay(
        {"editor": lambda method, line: outflow.send(line + b"\n"), "agent": lambda method, line: None},
        lambda text: None,
    )

    def heard(chunk: bytes) -> None:
        try:
            for line in framer.feed(chunk):
                relay.receive("editor", line)
                for request in relay.waiting:
                    relay.refuse(request, *fault(error))
        except LineTooLong:
            over.set()

    inflow = Inflow(source, heard, over.set)
    try:
        await over.wait()
    finally:
        inflow.close()
        outflow.close()


class Proxy:
    """One editor, and the agent of the profile."""

    are_logins_ours = True  # a login on a terminal runs through us, as the editor starts us

    def __init__(self, needs: ServeNeeds, interrupts: Interrupts, source: Lent, sink: Lent | int) -> None:
        self._needs, self._interrupts = needs, interrupts
        self._kept = handshake.withheld(needs.plan)
        self._framer = LineFramer(limit=needs.max_line)
        self._over = asyncio.Event()  # the editor has ended
        self._room = asyncio.Event()  # the editor takes more
        self._outflow = Outflow(sink, self._room.set, self._over.set)
        self._inflow = Inflow(source, self._heard, self._over.set)
        self._unsent: list[bytes] = []  # lines for the agent
        self._unsent_size = 0
        self._news = asyncio.Event()  # there are some
        self._relay = Relay({"editor": self._to_editor, "agent": self._to_agent}, needs.observer.note)
        self._sessions = Sessions(needs, interrupts, self._relay, fault)
        self._hook()

    async def run(self, spawned: Spawned | None) -> None:
        """Serve until the editor ends; without a process, with the agent of a host.

        Raises:
            LaunchError: see the tree in `errors`.
        """
        try:
            async with self._sessions.running():
                await self._with_agent(spawned)
        finally:
            self._inflow.close()
            self._outflow.close()

    def _hook(self) -> None:
        asked = self._relay.requests
        asked["editor"]["initialize"] = self._initialize
        for method in self._kept:
            asked["agent"][method] = self._refuse_kept

    # The agent.

    async def _with_agent(self, spawned: Spawned | None) -> None:
        """Relay until the agent or the editor ends, and stop the agent."""
        async with self._agent(spawned) as transport:
            try:
                await first_of(self._read(transport), self._write(transport), self._over.wait())
                if not self._over.is_set():
                    how, last_words = await transport.describe_end()
                    self._relay.lost(lambda method: (INTERNAL_ERROR, f"the agent {how} before it answered {method}"))
                    raise AgentError(f"the agent {how}", detail=last_words)
            finally:
                self._sessions.stopping()
                self._interrupts.stopping()

    @asynccontextmanager
    async def _agent(self, spawned: Spawned | None) -> AsyncIterator[Transport]:
        """Attach to the agent, and stop it if it is ours."""
        if spawned is None:
            from acp_launch.serve.hosted import hosted_agent  # few have a host

            assert self._needs.knock is not None, "there is a host"
            hosted = hosted_agent(self._needs.knock, self._needs.observer, max_line=self._needs.max_line)
            async with hosted as agent:
                yield agent
            return
        async with attach(spawned, log=self._needs.log) as child:
            with connected(child, self._needs.trace) as transport:
                try:
                    yield transport
                finally:
                    await stop(child, grace=HASTY, hurry=self._interrupts.hurry)

    async def _read(self, transport: Transport) -> None:
        """Relay what the agent says, until it ends."""
        framer, outflow, receive = LineFramer(limit=self._needs.max_line), self._outflow, self._relay.receive
        while chunk := await transport.read():
            outflow.gather()
            try:
                for line in framer.feed(chunk):
                    receive("agent", line)
            finally:
                outflow.release()
            while outflow.is_full:
                self._room.clear()
                await self._room.wait()

    async def _write(self, transport: Transport) -> None:
        """Write what is for the agent, until it takes no more."""
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                data, self._unsent = b"".join(self._unsent), []
                await transport.write(data)
                self._unsent_size -= len(data)
                if self._unsent_size <= LOW:
                    self._inflow.resume()
        except TransportClosed:
            # A process that closed its stdin is usually ending; what it says to the end is read.
            await asyncio.sleep(LAST_WORDS)

    # Lines.

    def _heard(self, chunk: bytes) -> None:
        try:
            for line in self._framer.feed(chunk):
                self._take(line)
        except LineTooLong as error:
            self._needs.observer.note(f"the editor sent {error}; to raise the cap: ACP_LAUNCH_MAX_LINE=<bytes>")
            self._over.set()

    def _take(self, line: bytes) -> None:
        """Take a line of the editor."""
        self._relay.receive("editor", line)

    def _to_editor(self, method: str, line: bytes) -> None:
        if not redactor.is_empty and method not in ACTS:
            line = redactor.raw_json(line)
        self._outflow.send(line + b"\n")

    def _to_agent(self, method: str, line: bytes) -> None:
        self._unsent.append(line + b"\n")
        self._unsent_size += len(line) + 1
        self._news.set()
        if self._unsent_size > HIGH:
            self._inflow.pause()

    # The handshake.

    def _initialize(self, request: Request) -> None:
        request.answered = lambda line: self._relay.finish(request, self._met(line))
        self._relay.pass_on(request, handshake.asked(request.line, self._kept))

    def _met(self, line: bytes) -> bytes:
        """Take the agent's answer to `initialize`."""
        place = edits.at(line, ("result",))
        if place is None:
            return line
        try:
            self._sessions.met(Raw(line[place[0] : place[1]]))
        except RemoteProtocolError as error:
            return jsonrpc.error(jsonrpc.NULL, *fault(error))
        return handshake.answered(line, self._needs.plan.called, are_logins_ours=self.are_logins_ours)

    def _refuse_kept(self, request: Request) -> None:
        """Refuse what the profile keeps from the agent (C-68)."""
        self._relay.refuse(request, jsonrpc.METHOD_NOT_FOUND, "method not found")
