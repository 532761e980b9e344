"""
The life of a served profile: the editor's streams, and one agent after the other.

    editor ── stdin ──▶ Proxy ──▶ relay ──▶ agent
    editor ◀─ stdout ── Proxy ◀── relay ◀── agent

It ends when the editor closes its end. The editor is read no faster than the agent takes, and the agent no faster than
the editor takes.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec
from msgspec import DecodeError, Raw, Struct

from acp_launch.console.stream.redacted import ChunkHold, with_text
from acp_launch.errors import AgentError, LaunchError, RemoteProtocolError, WaitExpired
from acp_launch.launch.loop import Interrupts
from acp_launch.process.child import HASTY, attach, first_of, stop
from acp_launch.process.flow import HIGH, LOW, Inflow, Lent, Outflow
from acp_launch.process.spawn import Spawned
from acp_launch.protocol import acp, edits, jsonrpc
from acp_launch.protocol.conversation import Updated
from acp_launch.protocol.jsonrpc import INTERNAL_ERROR, Call, LineFramer, LineTooLong
from acp_launch.rpc import LAST_WORDS, Transport, TransportClosed, connected
from acp_launch.secret.redact import redactor
from acp_launch.serve import handshake
from acp_launch.serve.relay import UPDATE, Relay, Request, is_update
from acp_launch.serve.sessions import CLOSING, OPENING, SETTING, Caller, HostDoor, ServeNeeds, Sessions
from acp_launch.session.login import LIMIT as LOGIN
from acp_launch.waits import seconds, to_beat

BEAT = 1.0  # seconds between two looks at what the agent has not answered
TOLD = 5  # stderr lines of an agent that has ended
ACTS = frozenset({"fs/write_text_file", "terminal/create"})  # what the editor does must be what the agent wants


def fault(error: LaunchError) -> tuple[int, str, object]:
    """Return an error as code, message and data, for an editor to show; what the agent has answered stays as it was."""
    if error.reply is not None:
        return error.reply
    lines = [*map(str.strip, error.message.splitlines()), *error.detail, *([f"fix: {error.fix}"] if error.fix else [])]
    return INTERNAL_ERROR, redactor.text("\n".join(lines)), {"exitCode": error.exit_code}


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


class _ChunkUpdate(acp.Chunk):
    sessionUpdate: str = ""  # noqa: N815 - the protocol's


class _ChunkParams(Struct):
    sessionId: str  # noqa: N815 - the protocol's
    update: _ChunkUpdate


class _ChunkLine(Struct):
    params: _ChunkParams


_chunk_line = msgspec.json.Decoder(_ChunkLine)


class Masked:
    """The way of lines to the editor once there are secrets: none of these passes, cut over several updates or not."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._seams = ChunkHold(redactor, self._show)
        self._lines: deque[bytes] = deque()  # of the updates that `_seams` has

    def updates(self, lines: Sequence[bytes]) -> None:
        """Pass several on, those together of which none needs a look at its neighbours."""
        alone: list[bytes] = []
        for line in lines:
            try:
                said = _chunk_line.decode(line).params
            except (DecodeError, RecursionError):  # it holds no chunk
                said = None
            if said and self._seams.passes(said.sessionId, said.update.sessionUpdate, said.update.content.text):
                alone.append(line)
            else:
                self._together(alone)
                alone = []
                self.update(line)
        self._together(alone)

    def _together(self, lines: Sequence[bytes]) -> None:
        block = b"\n".join(lines)
        if redactor.raw_json(block) is not block:
            block = b"\n".join(map(redactor.raw_json, lines))
        if block:
            self._send(block + b"\n")

    def update(self, line: bytes) -> None:
        """Pass a `session/update` on, now or with one that follows."""
        message = jsonrpc.decode(line)
        found = acp.read_update(message.params) if message else None
        if found is None:
            self.other(line)
            return
        self._lines.append(line)
        self._seams.take(Updated(*found, replay=False))

    def other(self, line: bytes, *, is_masked: bool = True) -> None:
        """Pass any other line on, and before it the updates that were held."""
        self._seams.release()
        self._send((redactor.raw_json(line) if is_masked else line) + b"\n")

    def _show(self, update: Updated, text: str | None) -> None:
        line = self._lines.popleft()
        if text is not None:
            line = edits.replaced(line, ("params", "update"), with_text(bytes(update.update), text))
        self._send(redactor.raw_json(line) + b"\n")


class Proxy:
    """One editor, and the agent of the profile."""

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
        self._masked = Masked(self._outflow.send)
        self._relay = Relay({"editor": self._to_editor, "agent": self._to_agent}, needs.observer.note)
        self._sessions = Sessions(needs, interrupts, self._relay, fault)
        timeouts = needs.plan.timeouts
        self._limits = {
            **dict.fromkeys((*OPENING, *CLOSING, *SETTING, "session/list", "logout"), timeouts.session),
            "initialize": timeouts.initialize,
            "authenticate": LOGIN,
            "session/prompt": timeouts.silence,
        }
        self._params: object = None  # of the editor's `initialize`, once it was answered
        self._wanted = asyncio.Event()  # a request waits for an agent
        self._failure: LaunchError | None = None  # how the last agent ended
        self._spoke = 0.0  # loop time of the agent's last sign of life
        self._hook()

    async def run(self, spawned: Spawned | HostDoor) -> None:
        """Serve with one agent after the other, until the editor ends.

        Raises:
            LaunchError: no agent has ever answered; `Stopped` after a signal.
        """
        wanted: Spawned | HostDoor | None = spawned
        try:
            async with self._sessions.running():
                while wanted is not None:
                    await self._with_agent(wanted)
                    wanted = await self._next_agent()
        finally:
            self._inflow.close()
            self._outflow.close()
        if self._failure is not None and not self._sessions.has_met:
            raise self._failure

    def _hook(self) -> None:
        asked = self._relay.requests
        asked["editor"]["initialize"] = self._initialize
        for method in self._kept:
            asked["agent"][method] = self._refuse_kept
        self._relay.parked = self._wanted.set

    # The agent.

    async def _with_agent(self, spawned: Spawned | HostDoor) -> None:
        """Relay until the agent or the editor ends, and stop the agent."""
        failure: LaunchError | None = None
        async with self._attached(spawned) as transport:
            is_last = True
            try:
                await first_of(
                    self._read(transport),
                    self._write(transport),
                    self._over.wait(),
                    self._watch(),
                    self._revive(),
                )
                is_last = self._over.is_set()
                if not is_last:
                    how, last_words = await transport.describe_end()
                    failure = AgentError(f"the agent {how}", detail=last_words[-TOLD:])
            except LaunchError as error:
                failure, is_last = error, self._over.is_set()
            finally:
                if is_last:  # also when a signal ends us
                    self._sessions.stopping()
                    self._interrupts.stopping()
        if failure is not None:
            self._lose(failure)

    @asynccontextmanager
    async def _attached(self, spawned: Spawned | HostDoor) -> AsyncIterator[Transport]:
        """Attach to the agent; leaving stops it if it is ours."""
        needs = self._needs
        if isinstance(spawned, HostDoor):
            from acp_launch.serve.hosted import hosted_agent  # few have a host

            async with hosted_agent(spawned.knock, needs.observer, max_line=needs.max_line) as agent:
                yield agent
            return
        async with attach(spawned, log=needs.log) as child:
            with connected(child, needs.trace) as transport:
                try:
                    yield transport
                finally:
                    await stop(child, grace=HASTY, hurry=self._interrupts.hurry)

    async def _next_agent(self) -> Spawned | HostDoor | None:
        """Wait until a request wants an agent again, and start it; None once the editor has ended."""
        while not self._over.is_set():
            await first_of(self._wanted.wait(), self._over.wait())
            self._wanted.clear()
            if not self._over.is_set():
                try:
                    return self._needs.respawn()
                except AgentError as error:
                    self._lose(error)
        return None

    def _lose(self, error: LaunchError) -> None:
        """Settle what an agent has left open. The next request starts it again."""
        code, text, data = fault(error)
        has_begun = self._params is not None
        after = "; it is started again with the next request" if has_begun else ""
        self._needs.observer.note(f"{error.message}{after}")
        self._failure = error
        self._unsent, self._unsent_size = [], 0
        self._inflow.resume()
        tail = "".join(f"\n{line}" for line in error.detail)
        self._relay.lost(lambda method: (INTERNAL_ERROR, f"{error.message} before it answered {method}{after}{tail}"))
        self._relay.give_up(code, text, data)
        self._wanted.clear()
        self._sessions.agent_lost()

    async def _revive(self) -> None:
        """Bring an agent that was started again to where the last one was; then wait for ever.

        Raises:
            LaunchError: it does not come up.
        """
        if self._params is not None:
            limits = self._needs.plan.timeouts
            caller = Caller(self._relay, self._needs.observer)
            call = Call(0, "initialize", jsonrpc.request(0, "initialize", self._params))
            what = "answer to initialize from the agent that was started again"
            self._sessions.met(await caller.call(call, what=what, limit=limits.initialize))
            await self._sessions.reopen(limits.session)
        self._relay.resume()
        await asyncio.Event().wait()

    async def _watch(self) -> None:
        """Wait until the agent lets the time for an answer pass. While it waits for the editor, it has time.

        Raises:
            WaitExpired: it does not answer any more.
        """
        now, since = asyncio.get_running_loop().time, dict[Request, float]()
        self._spoke = now()
        while True:
            await asyncio.sleep(to_beat(now(), BEAT))
            if self._relay.is_asking or self._outflow.is_full:
                self._spoke = now()
            since = {request: since.get(request, now()) for request in self._relay.waiting}
            for request, asked in since.items():
                limit = request.limit or self._limits.get(request.method)
                if limit is not None and now() >= max(asked, self._spoke) + limit:
                    raise WaitExpired(f"no sign of life from the agent within {seconds(limit)}")

    async def _read(self, transport: Transport) -> None:
        """Relay what the agent says, until it ends."""
        framer, outflow = LineFramer(limit=self._needs.max_line), self._outflow
        now = asyncio.get_running_loop().time
        while chunk := await transport.read():
            self._spoke = now()
            outflow.gather()
            try:
                self._said(framer, chunk)
            except LineTooLong as error:
                fix = "if the agent is right, raise the cap: ACP_LAUNCH_MAX_LINE=<bytes>"
                raise RemoteProtocolError(f"the agent sent {error}", fix=fix) from None
            finally:
                outflow.release()
            while outflow.is_full:
                self._room.clear()
                await self._room.wait()

    def _said(self, framer: LineFramer, chunk: bytes) -> None:
        """Relay what the agent says. Updates that do not concern us go on together, as a turn has very many."""
        is_dull, concerns, receive = self._sessions.is_dull, framer.is_within, self._relay.receive
        whole = is_dull(chunk)
        plain: list[bytes] = []
        for line in framer.feed(chunk):
            if whole and (not concerns or is_dull(line)) and is_update(line):
                plain.append(line)
            else:
                self._pass(plain)
                plain = []
                receive("agent", line)
                whole = whole and is_dull(b"")  # an answer may let updates wait
            concerns = False  # only the first one began before this chunk
        self._pass(plain)

    def _pass(self, lines: list[bytes]) -> None:
        """Write updates of the agent to the editor."""
        if lines and redactor.is_empty:
            self._outflow.send(b"\n".join(lines) + b"\n")
        elif lines:
            self._masked.updates(lines)

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
                self._relay.receive("editor", line)
        except LineTooLong as error:
            self._needs.observer.note(f"the editor sent {error}; to raise the cap: ACP_LAUNCH_MAX_LINE=<bytes>")
            self._over.set()

    def _to_editor(self, method: str, line: bytes) -> None:
        if redactor.is_empty:
            self._outflow.send(line + b"\n")
        elif method == UPDATE:
            self._masked.update(line)
        else:
            self._masked.other(line, is_masked=method not in ACTS)

    def _to_agent(self, method: str, line: bytes) -> None:
        self._unsent.append(line + b"\n")
        self._unsent_size += len(line) + 1
        self._news.set()
        if self._unsent_size > HIGH:
            self._inflow.pause()

    # The handshake.

    def _initialize(self, request: Request) -> None:
        params = request.params

        def came(line: bytes) -> None:
            line = self._met(line)
            if edits.at(line, ("error",)) is None:
                self._params = params
            self._relay.finish(request, line)

        request.answered = came
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
        return handshake.answered(line, self._needs.plan.called)

    def _refuse_kept(self, request: Request) -> None:
        """Refuse what the profile keeps from the agent (C-68)."""
        self._relay.refuse(request, jsonrpc.METHOD_NOT_FOUND, "method not found")
