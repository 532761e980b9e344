"""
One MCP conversation between an agent and a server that may die and come back. Sans-IO: lines in, lines out.

    absent ──attached──▶ open                    before the handshake: everything passes
       ▲       │
       │       └───────▶ replaying ──▶ open      the agent's `initialize` is sent again; the answer is not passed on
       └──lost── open, replaying ──lost, for good──▶ final ──lost, but not for good──▶ absent

    asleep ──attached──▶ open or replaying         a lazy server: its last process answers handshake and lists

Messages pass as the bytes they came in. The exchange reads `id` and `method`, remembers what a new process must be
told, and answers requests that would never get an answer. While absent, requests wait for the next process, within
bounds. No request is sent twice, because it is unknown what a dead process did with it; unless it is certain that it
never reached the server, as only the connection to a remote one can tell. While final, every request is
refused at once, until the user restarts the server.

`AgentSide` handles the agent's messages and `ServerSide` the server's; they share a `ConversationState`.
"""

from collections.abc import Sequence

from msgspec import UNSET, Raw

from acp_launch.bridge.conversation import (
    BROKEN,
    REMEMBERED,
    TIMED_OUT,
    ConversationState,
    Restorer,
    ServerGone,
    each,
)
from acp_launch.bridge.elevation import Sessions, Upstream
from acp_launch.bridge.ledger import NULL, OpenRequest, Waiting
from acp_launch.mcp.message import (
    CANCELLED,
    DISCOVER,
    INITIALIZE,
    INITIALIZED,
    LISTEN,
    PING,
    PROGRESS,
    ROOTS,
    ROOTS_CHANGED,
    TOOLS,
    cancelled_id,
    capabilities,
    is_stateless,
    no_discovery,
    reported_token,
    roots_result,
    wanted_token,
)
from acp_launch.protocol import jsonrpc
from acp_launch.protocol.jsonrpc import Envelope, key, with_id
from acp_launch.protocol.splice import at, is_object, with_members, without
from acp_launch.secret.redact import excerpt
from acp_launch.waits import next_notice

DISCOVER_TIMEOUT = 1.5  # then we refuse a `server/discover`, because some servers ignore unknown requests
SPLIT = "a message with a carriage return in it may be read as two, and this server's tools are restricted"


LOOKED_AT = REMEMBERED | {INITIALIZE, PING}  # requests of which more than the id matters, whichever side answers them
NOTHING = Raw(b"")
CAPABLE, OUR_ROOTS = ("params", "capabilities"), b'"roots":{"listChanged":true}'


def _with_roots(line: bytes) -> bytes:
    """Declare `roots` in an `initialize`; return it unchanged if it has no readable capabilities."""
    able = at(line, CAPABLE)
    if able is None or not is_object(line, able[0]):
        return line
    return with_members(without(line, CAPABLE, ("roots",)), CAPABLE, OUR_ROOTS)


REPLAYED = (CANCELLED, PROGRESS, INITIALIZED)  # about requests that have ended, or replayed anyway; never queued


class AgentSide:
    """Handles the lines of the agent, and passes them on to the server."""

    def __init__(self, state: ConversationState) -> None:
        self._state = state
        self._settled: Raw | None = None  # the server's question that the message in hand answers, by its own id

    def __call__(self, line: bytes) -> None:
        """Handle one line, without its newline."""
        if (rest := each(line, self._message, self._broke)) is not None:
            self._state.ports.to_server(rest)

    def forward_fast(self, line: bytes) -> Envelope | None:
        """Note an ordinary request, which the caller must then send on as it is; most are, and this is quick.

        Ordinary is what follows the list of tools, or the first call of one. Returns what it says.
        Otherwise returns None, and has done nothing: the line must be handled in full.
        """
        state = self._state
        if state.phase != "open" or state.needs_inspection or not state.knows_tools:
            return None
        if state.introduction.handshake in state.ledger.open:
            return None
        message = jsonrpc.decode(line)
        if message is None or message.method is UNSET or message.id is UNSET or message.method in LOOKED_AT:
            return None
        state.ledger.open[key(message.id)] = OpenRequest(message.id.copy(), message.method, NOTHING, state.ports.now())
        return message

    def _broke(self, line: bytes, error: Exception) -> None:
        """A message that we failed to handle gets no further; the side that waits for its result is told."""
        state = self._state
        state.mishaps.add("the agent", error)
        message = jsonrpc.decode(line)
        if message is None or message.id is UNSET:
            return
        if message.method is UNSET:
            if self._settled is not None:
                state.ports.to_server(jsonrpc.error(self._settled, jsonrpc.INTERNAL_ERROR, BROKEN))
            return
        state.ports.to_agent(jsonrpc.error(message.id, jsonrpc.INTERNAL_ERROR, BROKEN))
        state.queue.withdraw(message.id)
        state.ledger.settle(message.id)

    def _message(self, line: bytes) -> bytes | None:
        self._settled = None
        message = jsonrpc.decode(line)
        if message is None or (message.method is UNSET and message.id is UNSET):
            self._unreadable(line)
            return None
        if self._state.policy and (why := self._ambiguous(line) or self._state.policy.refusal(line)):
            if message.id is not UNSET and message.method is not UNSET:
                self._state.ports.to_agent(jsonrpc.error(message.id, jsonrpc.INVALID_PARAMS, why))
            return None
        if message.method is UNSET:
            return self._answers(message, line)
        if message.id is UNSET:
            return self._notifies(message, line)
        return self._asks(message, line)

    def _ambiguous(self, line: bytes) -> str:
        """Refuse a bare carriage return, which Python servers take as the end of a line."""
        return SPLIT if b"\r" in line.rstrip(b"\r") else ""

    def _unreadable(self, line: bytes) -> None:
        if line.strip():
            said = "this line is not a JSON-RPC message and was not passed on"
            self._state.ports.to_agent(jsonrpc.error(Raw(NULL), jsonrpc.PARSE_ERROR, said))

    def _answers(self, message: Envelope, line: bytes) -> bytes | None:
        assert message.id is not UNSET
        own = self._settled = self._state.questions.settle(message.id)
        if own is None:
            return None  # the question died with its server, or there was none
        return line if key(own) == key(message.id) else with_id(line, own)

    def _notifies(self, message: Envelope, line: bytes) -> bytes | None:
        state = self._state
        if message.method == CANCELLED and self._cancels_waiting(message.params):
            return None
        if message.method == INITIALIZED:
            state.memory.initialized = line
        if state.is_open:
            return line
        if state.phase == "asleep" and message.method == ROOTS_CHANGED and state.memory.initialize:
            return None  # it asks for the roots when it is started
        if message.method not in REPLAYED:
            state.queue.put(Waiting(line, None, state.ports.now()))
        return None

    def _cancels_waiting(self, params: Raw) -> bool:
        """Cancel a request; return whether it was still queued, so that the server need not be told."""
        cancelled = cancelled_id(params)
        if cancelled is None:
            return False
        if self._state.queue.withdraw(cancelled):
            return True
        self._state.ledger.cancel(cancelled)
        return False

    def _asks(self, message: Envelope, line: bytes) -> bytes | None:
        asked, state = self._asked(message), self._state
        if not state.introduction.has_asked:
            state.introduction.has_asked, state.introduction.is_stateless = True, is_stateless(message.params)
        if asked.method == DISCOVER and (state.knowledge.server == "legacy" or state.is_cached):
            state.ports.to_agent(no_discovery(asked.id, state.server))  # also to let a server sleep
            return None
        if asked.method == PING and (self._state.phase != "open" or self._state.ledger.open):
            self._state.pong(asked)  # a busy server need not answer, and an absent one cannot
            return None
        if asked.method == INITIALIZE and self._state.phase != "final":
            return self._introduces(asked, message, line)
        if self._state.answer_from_cache(asked):
            return None
        return self._state.forward(asked, line)

    def _asked(self, message: Envelope) -> OpenRequest:
        """Copy the parts of a request that are needed later; the line itself is not stored."""
        assert message.id is not UNSET
        method = str(message.method)
        return OpenRequest(
            message.id.copy(),
            method,
            params=message.params.copy() if method in REMEMBERED else Raw(b""),
            silent_since=0.0,
            token=self._token(message.params),
        )

    def _token(self, params: Raw) -> bytes | None:
        if self._state.call is None or (token := wanted_token(params)) is None:
            return None
        return key(token)

    def _introduces(self, asked: OpenRequest, message: Envelope, line: bytes) -> bytes | None:
        """Take the agent's handshake. Without a process it is sent as soon as one has started.

        It replaces an older handshake that is being replayed, whose answer is then dropped.
        """
        state = self._state
        if state.gives_roots:
            line = _with_roots(line)
        state.memory.initialize, state.memory.initialized, state.introduction.handshake = line, b"", key(asked.id)
        state.introduction.is_stateless, state.knows_tools = False, False
        state.introduction.has_roots = not state.gives_roots and "roots" in (capabilities(message.params) or ())
        state.introduce(message.params)
        if state.answer_from_cache(asked):
            return None
        asked.silent_since = state.ports.now()
        state.ledger.ask(asked)
        return line if state.phase in ("open", "replaying") else None


EXCERPT_CHARS = 120  # of a line that is not a message
STARTS = (b"{", b"[", b"\xef")  # first bytes of a message; the last one is of a byte order mark


class ServerSide:
    """Handles the lines of the server, and passes them on to the agent."""

    def __init__(self, state: ConversationState, restorer: Restorer) -> None:
        self._state, self._restorer = state, restorer
        self.upstream: Upstream | None = None  # if the server is asked for sessions
        self._has_noise = False
        self._settled: OpenRequest | None = None  # the request that the message in hand answers

    def __call__(self, line: bytes, message: Envelope | None = None) -> None:
        """Handle one line, without its newline. `message` is what it says, if that was read."""
        try:
            rest = each(line, self._read, self._broke) if message is None else self._message(message, line)
        except Exception as error:
            self._broke(line, error)
            return
        if rest is not None:
            self._state.ports.to_agent(rest)

    def forward_fast(self, line: bytes, message: Envelope | None = None) -> Envelope | None:
        """Note the answer to an ordinary request, as `AgentSide.forward_fast` does with the request.

        `message` is what it says, if that was read.
        """
        state = self._state
        if state.phase != "open" or state.needs_inspection or not state.knows_tools:
            return None
        if self._restorer.open:
            return None
        message = message or jsonrpc.decode(line)
        if message is None or message.method is not UNSET or message.id is UNSET or message.result is UNSET:
            return None
        number = key(message.id)
        asked = state.ledger.open.get(number)
        if asked is None or asked.method in LOOKED_AT or not state.memory.initialize:
            return None
        del state.ledger.open[number]
        state.health.heard = state.ports.now()
        state.ports.alive()
        return message

    def _broke(self, line: bytes, error: Exception) -> None:
        """A message that we failed to handle gets no further; the side that waits for its result is told."""
        state = self._state
        state.mishaps.add(f"the MCP server {state.process}", error)
        message = jsonrpc.decode(line)
        if message is None or message.id is UNSET:
            return
        if message.method is not UNSET:
            state.ports.to_server(jsonrpc.error(message.id, jsonrpc.INTERNAL_ERROR, BROKEN))
            state.questions.withdraw(message.id)
        elif asked := self._settled or state.ledger.settle(message.id):
            state.ports.to_agent(jsonrpc.error(asked.id, jsonrpc.INTERNAL_ERROR, BROKEN))

    def _read(self, line: bytes) -> bytes | None:
        if line[:64].lstrip()[:1] not in STARTS:
            self._noise(line)
            return None
        message = jsonrpc.decode(line)
        return self._unreadable(line) if message is None else self._message(message, line)

    def _message(self, message: Envelope, line: bytes) -> bytes | None:
        self._settled = None
        if message.method is UNSET and message.id is UNSET:
            return self._unreadable(line)
        self._state.health.heard = self._state.ports.now()
        self._state.ports.alive()
        if message.method is UNSET:
            return self._answers(message, line)
        if message.id is UNSET:
            return self._notifies(message, line)
        return self._asks(message, line)

    def _unreadable(self, line: bytes) -> bytes | None:
        """Repair an answer whose text is not UTF-8, as the agent would otherwise wait for ever; skip other lines."""
        repaired = line.decode(errors="replace").encode()
        if repaired != line and (message := jsonrpc.decode(repaired)) is not None:
            return self._message(message, repaired)
        self._noise(line)
        return None

    def _noise(self, line: bytes) -> None:
        """Skip a line that is not a message, such as a banner, and report the first (M-20)."""
        if not self._has_noise and line.strip():
            self._has_noise = True
            said = excerpt(line, EXCERPT_CHARS)
            self._state.observer.note(f"{self._state.process} writes lines to stdout that are not messages: {said!r}")

    def _answers(self, message: Envelope, line: bytes) -> bytes | None:
        assert message.id is not UNSET
        if self._restorer.answered(message, line):
            return None
        state = self._state
        if message.error is not UNSET and self._is_translated(message, line):
            return None
        asked = self._settled = state.ledger.settle(message.id)
        if state.phase == "replaying" and key(message.id) == state.introduction.handshake:
            return self._replayed(message, line, is_owed=asked is not None)
        if asked is None:  # no open request; only an error about an unreadable line has the id null
            return line if bytes(message.id) == NULL else None
        passed = self._refused(asked, line) if message.result is UNSET else state.done(asked, message, line)
        if asked.method == INITIALIZE and state.phase == "open":
            self._introduced()
        return passed

    def _introduced(self) -> None:
        """Pass on what the agent has said before the answer to its handshake (M-9)."""
        state = self._state
        if state.memory.initialized:
            state.ports.to_server(state.memory.initialized)
        state.open()

    def _is_translated(self, message: Envelope, line: bytes) -> bool:
        """Tell whether a refused handshake gets another answer later, as the server may be of the other era."""
        state = self._state
        assert message.id is not UNSET
        if key(message.id) != state.introduction.handshake or not (state.phase == "replaying" or state.is_introducing):
            return False
        return state.ports.refused(state.memory.initialize, line)

    def _refused(self, asked: OpenRequest, line: bytes) -> bytes:
        if asked.method == INITIALIZE:
            self._state.memory.initialize = b""  # not replayed; the agent may try again
        return line

    def _replayed(self, message: Envelope, line: bytes, *, is_owed: bool) -> bytes | None:
        """Take the answer to the repeated `initialize`; the agent gets it only if it never got one."""
        state = self._state
        if message.result is not UNSET:
            state.cache_answer(INITIALIZE, message.result)
            if state.memory.initialized:
                state.ports.to_server(state.memory.initialized)
            if self.upstream is None or not self.upstream.resumes():
                self._restorer.begin()
            state.open()
            state.become_ready()
        elif is_owed:
            state.memory.initialize = b""
            state.open()
        else:
            said = jsonrpc.fault(message.error).message if message.error is not UNSET else "no result"
            state.ports.wedged(f"refused the agent's handshake after its restart: {said}")
        return line if is_owed else None

    def _notifies(self, message: Envelope, line: bytes) -> bytes | None:
        if message.method == PROGRESS and self._state.call is not None:
            self._progressed(message.params)
        if message.method == CANCELLED:
            return self._withdraws(message.params, line)
        self._state.drop_cached(str(message.method))
        if self.upstream is not None:
            self.upstream.note(message.params)
        return line

    def _progressed(self, params: Raw) -> None:
        if (token := reported_token(params)) is not None:
            self._state.ledger.progress(key(token), self._state.ports.now())

    def _withdraws(self, params: Raw, line: bytes) -> bytes | None:
        """Cancel a question of the server under the id that the agent sees."""
        cancelled = cancelled_id(params)
        if cancelled is None:
            return line
        known_as = self._state.questions.withdraw(cancelled)
        if known_as is None or key(known_as) == key(cancelled):
            return line
        return jsonrpc.notification(CANCELLED, {"requestId": known_as})

    def _asks(self, message: Envelope, line: bytes) -> bytes | None:
        assert message.id is not UNSET
        state, id = self._state, message.id
        if (own := self._own_answer(id, str(message.method))) is not None:
            state.ports.to_server(own)
            return None
        return state.questions.ask(id, str(message.method), line)

    def _own_answer(self, id: Raw, method: str) -> bytes | None:
        """Answer a request of the server if the agent has not connected yet, does not declare roots, or is behind."""
        state = self._state
        if method == PING and not state.memory.initialized:
            return jsonrpc.result(id, {})
        if method == ROOTS and not state.introduction.has_roots:
            return jsonrpc.result(id, roots_result(state.directories))
        if not state.memory.initialize:
            return jsonrpc.error(id, jsonrpc.INVALID_REQUEST, "no client has introduced itself yet")
        if state.questions.is_full:
            return jsonrpc.error(id, jsonrpc.INTERNAL_ERROR, "too many requests are already waiting for an answer")
        return None


class Exchange:
    """One conversation. `start` limits a request's wait for a process, in seconds."""

    def __init__(self, state: ConversationState, *, start: float) -> None:
        self.state, self._start = state, start
        self.restorer = Restorer(state)
        self.from_agent = AgentSide(state)
        self.from_server = ServerSide(state, self.restorer)

    @property
    def is_discovering(self) -> bool:
        """Whether the server has been asked `server/discover`, and has not answered."""
        return any(asked.method == DISCOVER for asked in self.state.ledger.open.values())

    @property
    def tools(self) -> int | None:
        """The number of tools that the agent has seen, 0 if the server has none to show; None if it has not asked."""
        listing = self.state.memory.lists.get(TOOLS)
        if listing is None:
            return None if self.state.offers_tools else 0
        return listing.count

    @property
    def is_unread(self) -> bool:
        """Whether the server is ready and has tools that the agent does not know."""
        return self.state.is_ready and self.state.offers_tools and not self.state.knows_tools

    @property
    def is_introduced(self) -> bool:
        """Whether the agent has begun its handshake, and so waits for the server's start."""
        return bool(self.state.memory.initialize)

    @property
    def is_waiting(self) -> bool:
        """Whether a request is open at the server, or queued for it."""
        return bool(self.state.ledger.open or self.state.queue)

    @property
    def is_in_use(self) -> bool:
        """Whether the agent would miss the process: it waits for something, or has subscribed to it."""
        return self.is_waiting or bool(self.state.questions.open) or bool(self.state.memory.subscriptions)

    def fall_asleep(self) -> None:
        """Answer in place of the server, as far as its last process allows; the caller starts one for the rest."""
        self.state.phase = "asleep"

    def attached(self, *, probe: bool = False) -> None:
        """Begin to use a new process; `probe` pings it, unless the agent does no handshake.

        A server of both eras of MCP chooses by its first request ("stdio, choosing the era"): if that is our ping, an
        agent that asks for the newer era is refused, and begins with a handshake.
        """
        state = self.state
        state.is_ready = False
        state.health.begin(state.ports.now())
        if state.memory.initialize:
            state.phase = "replaying"
            state.ports.to_server(state.memory.initialize)
            return
        if probe and not state.introduction.is_stateless:
            self.restorer.ping()
        state.open()

    def detached(self) -> None:
        """Stop writing to a process that is ending; its requests stay open, and new ones wait."""
        if self.state.phase == "final":
            return
        self.state.phase = "absent"
        for asked in self.state.ledger.waiting():
            if asked.method == INITIALIZE:
                asked.silent_since = self.state.ports.now()  # it waits for a process now, not for an answer

    def on_gone(self, lost: ServerGone, *, for_good: bool, unsent: Sequence[bytes] = ()) -> None:
        """Handle the end of the process, after all its output was given to `from_server`.

        The requests among the `unsent` lines had no effect: they wait for the next process, as long as a request that
        was never written to one may wait.
        """
        state = self.state
        state.lost, state.phase = lost, "final" if for_good else "absent"
        self.restorer.forget()
        if self.from_server.upstream is not None:
            self.from_server.upstream.on_gone()
        waiting = self._unsent(unsent)
        again = {key(each.asked.id) for each in waiting if each.asked is not None}
        died, state.ledger.open = state.ledger.waiting(), {}
        for asked in died:
            if key(asked.id) not in again:
                self._died_with_it(asked, for_good=for_good)
        left = [*(state.queue.put_back(waiting) if waiting else ()), *(state.queue.take_all() if for_good else ())]
        for asked in [waiter.asked for waiter in left if waiter.asked is not None]:
            state.refuse(asked)
        for id in state.questions.die():
            params = {"requestId": id, "reason": f'MCP server "{state.server}" {lost.why}'}
            state.ports.to_agent(jsonrpc.notification(CANCELLED, params))

    def seek(self, sessions: Sessions) -> None:
        """Ask the server for a session that a new connection to it can resume."""
        self.from_server.upstream = Upstream(self.state, self.restorer, sessions)

    def end_session(self) -> None:
        """End that session, because the agent has left, or the user wants a new one."""
        if self.from_server.upstream is not None:
            self.from_server.upstream.end()

    def heard(self) -> None:
        """Note a sign of life that was not for the agent."""
        self.state.health.heard = self.state.ports.now()
        self.state.ports.alive()

    def restart_clocks(self) -> None:
        """Do not count the server's silence up to now, because it was not read, or waited for the agent."""
        state, now = self.state, self.state.ports.now()
        state.health.heard = now
        for asked in state.ledger.open.values():
            asked.silent_since = now

    def tick(self, *, is_stopped: bool = False, is_fetching: bool = False) -> None:
        """Check the clock: answer requests that waited too long; ping a silent server, or give it up.

        `is_stopped` tells that its process is stopped (SIGSTOP), `is_fetching` that it is being downloaded.
        """
        state, now = self.state, self.state.ports.now()
        self._expire_discovery(now)
        for asked in () if is_fetching else state.queue.expired(now - self._start):
            self._late(asked)
        if state.phase != "open":
            self._expire_handshake(now)
            return
        if self.from_server.upstream is not None:
            self.from_server.upstream.tick()
        self._excuse_questions(now)
        if self._time_out(now) and is_stopped:
            state.ports.wedged("is stopped (SIGSTOP)")
            return
        verdict = state.health.tick(now, busy=bool(state.ledger.open))
        if verdict == "ping":
            self.restorer.ping()
        elif verdict == "wedged":
            state.ports.wedged("no longer answers, not even a ping")

    def _excuse_questions(self, now: float) -> None:
        """Let a server be silent while it waits for the user; or, to pings alone, for the agent."""
        if any(question.for_user for question in self.state.questions.open.values()):
            self.restart_clocks()
        elif self.state.questions.open:
            self.state.health.heard = now

    def _expire_discovery(self, now: float) -> None:
        """Refuse a `server/discover` that a server ignores, as some do with what they do not know, or is not there."""
        state = self.state
        ignored = [asked for asked in state.ledger.waiting() if asked.method == DISCOVER]
        late = [asked for asked in ignored if now - asked.silent_since >= DISCOVER_TIMEOUT]
        if late:
            state.knowledge.learn("legacy")
        for asked in late:
            state.ledger.settle(asked.id)
        for asked in [*late, *state.queue.expired(now - DISCOVER_TIMEOUT, DISCOVER)]:
            state.ports.to_agent(no_discovery(asked.id, state.server))

    def _expire_handshake(self, now: float) -> None:
        for asked in self.state.ledger.waiting():
            if self.state.phase == "absent" and asked.method == INITIALIZE and now - asked.silent_since >= self._start:
                self.state.ledger.settle(asked.id)
                self._late(asked)

    def _late(self, asked: OpenRequest) -> None:
        said = f'MCP server "{self.state.server}" {self.state.lost.why}, and did not come back within {self._start:g} s'
        self.state.ports.to_agent(jsonrpc.error(asked.id, TIMED_OUT, said))

    def _unsent(self, lines: Sequence[bytes]) -> list[Waiting]:
        """List the open requests among these lines, and the notifications that a new process needs."""
        state, now = self.state, self.state.ports.now()
        found: list[Waiting] = []
        for part in (part for line in lines for part in jsonrpc.batch(line) or [line]):
            message = jsonrpc.decode(part)
            if message is None or message.method is UNSET:
                continue
            if message.id is UNSET:
                if message.method not in REPLAYED:
                    found.append(Waiting(part, None, now))
                continue
            asked = state.ledger.open.get(key(message.id))
            if asked is None or asked.method == INITIALIZE:
                continue
            if asked.unsent_since is None:
                asked.unsent_since = now
            found.append(Waiting(part, asked, asked.unsent_since))
        return found

    def _died_with_it(self, asked: OpenRequest, *, for_good: bool) -> None:
        if asked.method == PING:
            self.state.pong(asked)
        elif asked.method == DISCOVER:
            self.state.ports.to_agent(no_discovery(asked.id, self.state.server))
        elif asked.method == INITIALIZE and not for_good:
            asked.silent_since = self.state.ports.now()
            self.state.ledger.ask(asked)  # the next process answers it: nothing was done yet
        else:
            if asked.method == INITIALIZE:
                self.state.memory.initialize = b""  # not replayed; the agent may try again
            self.state.refuse(asked, was_sent=asked.method != INITIALIZE)

    def _time_out(self, now: float) -> bool:
        """Expire requests after `timeouts.call` of silence without progress; return whether one has expired."""
        limit = self.state.call
        if limit is None:
            return False
        endless = (INITIALIZE, LISTEN)  # it has its own limit; a subscription has none
        waiting = [asked for asked in self.state.ledger.waiting() if asked.method not in endless]
        late = [asked for asked in waiting if now - asked.silent_since >= limit]
        for asked in waiting:
            self._mention(asked, now - asked.silent_since, limit)
        for asked in late:
            self._give_up(asked, limit)
        if late and self.state.health.suspect(now, limit):
            self.restorer.ping()
        return bool(late)

    def _mention(self, asked: OpenRequest, silence: float, limit: float) -> None:
        """Report a wait for an answer by the rule for every wait."""
        if asked.word <= silence < limit:
            what = f"answer to {asked.method} from the MCP server {self.state.process}"
            self.state.observer.waiting(what, asked.word, limit)
            asked.word = next_notice(asked.word)

    def _give_up(self, asked: OpenRequest, limit: float) -> None:
        state = self.state
        state.ledger.settle(asked.id)
        how = f"did not answer {asked.method} within {limit:g} s (timeouts.call)"
        state.observer.note(f"mcp server {state.server} {how}")
        state.ports.to_agent(jsonrpc.error(asked.id, TIMED_OUT, f'MCP server "{state.server}" {how}'))
        params = {"requestId": asked.id, "reason": "timed out"}
        state.ports.to_server(jsonrpc.notification(CANCELLED, params))
