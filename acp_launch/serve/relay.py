"""
The relay between an editor and an agent: two hops of JSON-RPC, one message a line. Sans-IO.

    editor ── request "a" ──▶ relay ── request 0 ──▶ agent
    editor ◀── answer "a" ─── relay ◀── answer 0 ─── agent

Each hop has its own ids: a request of one side goes on under a number of ours, and its answer gets the id back
as the bytes it was. All other bytes pass, also of methods that nothing here knows. What the profile has to say hooks in
by side and method: a hook of a request passes it on, edited or not, or takes it and settles it later; a request that
was passed on with `answered` has its answer taken; a hook of a notification edits or drops it.
"""

from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import UNSET, Raw

from acp_launch.protocol import acp, edits, ids, jsonrpc, splice
from acp_launch.protocol.conversation import ELICITATION
from acp_launch.protocol.jsonrpc import NULL, Envelope

Side = Literal["editor", "agent"]
OTHER: Mapping[Side, Side] = {"editor": "agent", "agent": "editor"}
CANCEL = "$/cancel_request"
UPDATE = "session/update"
PARSE_ERROR, INVALID_REQUEST = -32700, -32600
TOLD = (1, 100, 10_000)  # the lines of this kind that are reported, by count

Send = Callable[[str, bytes], None]  # takes a method, empty for an answer, and a line without its end
Answered = Callable[[bytes], None]  # takes the line of an answer
RequestHook = Callable[["Request"], None]  # passes the request on, takes it, or settles it
NoticeHook = Callable[[bytes, Raw], bytes | None]  # takes the line and its params; returns what goes on


class Request:
    """A request of one side. It is passed on, or `taken`, until it is settled by its answer."""

    def __init__(self, side: Side, id: bytes | None, method: str, line: bytes) -> None:
        """`id` is None for a request of our own."""
        self.side, self.id, self.method, self.line = side, id, method, line
        self.number: int | None = None  # under which it was passed on
        self.is_settled = False
        self.limit: float | None = None  # seconds for the answer, if not those of its method
        self.answered: Answered | None = None  # takes the answer, which is then not sent
        self.withdrawn: Callable[[], None] = lambda: None  # hears that its side does not want it any more

    @property
    def params(self) -> dict[str, object]:
        """Decode its params, read leniently; only before it is passed on."""
        message = jsonrpc.decode(self.line)
        return {} if message is None else acp.mapping(acp.decoded(message.params))


class Relay:
    def __init__(self, send: Mapping[Side, Send], note: Callable[[str], None]) -> None:
        """`send` writes a line to a side; `note` shows a line to the user."""
        self.requests: dict[Side, dict[str, RequestHook]] = {"editor": {}, "agent": {ELICITATION: self._elicit}}
        self.notices: dict[Side, dict[str, NoticeHook]] = {"editor": {}, "agent": {}}
        self._send, self._note = send, note
        self._next = 0
        self._asked: dict[Side, dict[bytes, Request]] = {"editor": {}, "agent": {}}  # by our number, at that side
        self._open: dict[Side, dict[bytes, Request]] = {"editor": {}, "agent": {}}  # by its id, of that side
        self._junk = 0
        self._parked: list[Callable[[], None]] | None = None  # what follows once there is an agent again
        self.parked: Callable[[], None] = lambda: None  # hears that a request waits for an agent

    def receive(self, side: Side, line: bytes) -> None:
        """Take a line of a side, without its end."""
        message = jsonrpc.decode(line)
        if message is None:
            self._not_a_message(side, line)
        elif message.method is UNSET:
            self._answer(side, message, line)
        elif message.id is UNSET:
            self._notified(side, str(message.method), line, message.params)
        else:
            self._called(side, bytes(message.id), str(message.method), line)

    @property
    def waiting(self) -> list[Request]:
        """The requests that the agent has not answered yet."""
        return list(self._asked["agent"].values())

    @property
    def is_asking(self) -> bool:
        """Whether the agent waits for an answer of the editor."""
        return bool(self._asked["editor"])

    # What happens to a request.

    def pass_on(self, request: Request, line: bytes | None = None) -> None:
        """Pass a request on to the other side, in other words if `line` is given."""
        if self._parked is not None and request.side == "editor":
            self._park(request, lambda: self.pass_on(request, line))
            return
        request.number = number = self._number()
        written = str(number).encode()
        self._asked[OTHER[request.side]][written] = request
        self._send[OTHER[request.side]](request.method, edits.with_id(line or request.line, Raw(written)))
        request.line = b""  # it may be large

    def finish(self, request: Request, line: bytes) -> None:
        """Answer a request with a line of the other side."""
        if self._settle(request) and request.id is not None:
            self._send[request.side]("", edits.with_id(line, Raw(request.id)))

    def answer(self, request: Request, result: object) -> None:
        """Answer a request with a result of ours."""
        if self._settle(request):
            self._send[request.side]("", jsonrpc.result(_id(request), result))

    def refuse(self, request: Request, code: int, message: str, data: object = None) -> None:
        if self._settle(request):
            self._send[request.side]("", jsonrpc.error(_id(request), code, message, data))

    def ask(self, side: Side, method: str, params: object, answered: Answered) -> Request:
        """Send a request of our own; `answered` takes the answer, or the error that stands for it."""
        request = Request(OTHER[side], None, method, b"")
        request.answered = answered
        request.number = number = self._number()
        self._asked[side][str(number).encode()] = request
        self._send[side](method, jsonrpc.request(number, method, params))
        return request

    def forward(self, side: Side, method: str, line: bytes) -> None:
        """Pass a notification of a side on that a hook has held back."""
        self._send[OTHER[side]](method, line)

    def tell(self, side: Side, method: str, params: object) -> None:
        """Send a notification of our own."""
        self._send[side](method, jsonrpc.notification(method, params))

    def forget(self, request: Request) -> None:
        """Take no answer to a request of our own any more (C-66)."""
        if request.number is not None:
            self._asked[OTHER[request.side]].pop(str(request.number).encode(), None)

    def lost(self, why: Callable[[str], tuple[int, str]]) -> None:
        """Settle all that the agent has left open when it ended; `why` gives code and message, for a method.

        What it had asked the editor is withdrawn there, and the answers are not missed. Requests wait until `resume`.
        """
        self._parked = self._parked or []
        for request in self._asked["agent"].values():
            self._fail(request, *why(request.method))
        for number, request in list(self._asked["editor"].items()):
            if request.id is not None:
                del self._asked["editor"][number]
                self.tell("editor", CANCEL, {"requestId": int(number)})
        for request in self._open["agent"].values():
            request.is_settled = True
            request.withdrawn()
        self._asked["agent"], self._open["agent"] = {}, {}

    def give_up(self, code: int, message: str, data: object) -> None:
        """Refuse the requests that wait for an agent."""
        for request in [each for each in self._open["editor"].values() if each.number is None]:
            request.withdrawn()
            self.refuse(request, code, message, data)
        self._parked = []

    def resume(self) -> None:
        """Let the requests go on that wait for an agent."""
        waiting, self._parked = self._parked or [], None
        for go_on in waiting:
            go_on()

    # Lines.

    def _notified(self, side: Side, method: str, line: bytes, params: Raw) -> None:
        if method == CANCEL:
            self._withdraw(side, line, params)
            return
        if side == "editor" and self._parked is not None:
            return  # it is about what has ended with the agent
        hook = self.notices[side].get(method)
        if hook is not None:
            changed = hook(line, params)
            if changed is None:
                return
            line = changed
        self._send[OTHER[side]](method, line)

    def _called(self, side: Side, id: bytes, method: str, line: bytes) -> None:
        request = Request(side, id, method, line)
        self._open[side][ids.key(Raw(id))] = request  # of two with one id, the later one can be withdrawn
        hook = self.requests[side].get(method, self.pass_on)
        if self._parked is not None and side == "editor":
            self._park(request, lambda: self._go_on(request, hook))
        else:
            self._go_on(request, hook)

    def _go_on(self, request: Request, hook: RequestHook) -> None:
        try:
            hook(request)
        except splice.Malformed:
            self.refuse(request, PARSE_ERROR, "Parse error")

    def _park(self, request: Request, go_on: Callable[[], None]) -> None:
        assert self._parked is not None
        self._parked.append(lambda: None if request.is_settled else go_on())
        self.parked()

    def _elicit(self, request: Request) -> None:
        """Pass a question of the agent on. One that belongs to a request of the editor names it by its id there."""
        line = request.line
        found = edits.at(line, ("params", "requestId"))
        asked = None if found is None else self._asked["agent"].get(line[found[0] : found[1]])
        if found is not None and asked is not None and asked.id is not None:
            line = line[: found[0]] + asked.id + line[found[1] :]
        self.pass_on(request, line)

    def _answer(self, side: Side, message: Envelope, line: bytes) -> None:
        if message.id is UNSET:
            self._not_a_message(side, line)
            return
        request = self._asked[side].pop(bytes(message.id), None)
        if request is None:
            if not self._was_ours(bytes(message.id)):
                self._note_junk(side, "an answer to a request that was never made")
        elif request.answered is not None:
            request.answered(line)
        else:
            self.finish(request, line)

    def _withdraw(self, side: Side, line: bytes, params: Raw) -> None:
        """Withdraw a request of this side (C-65): where it was passed on by its number there, else here."""
        found = edits.at(line, ("params", "requestId"))
        request = None if found is None else self._open[side].get(ids.key(Raw(line[found[0] : found[1]])))
        if found is None or request is None:
            return  # unknown, or answered already
        if request.number is None:
            request.withdrawn()
            self.refuse(request, jsonrpc.CANCELLED, "Request cancelled")
        else:
            number = str(request.number).encode()
            self._send[OTHER[side]](CANCEL, line[: found[0]] + number + line[found[1] :])

    def _not_a_message(self, side: Side, line: bytes) -> None:
        if not line.strip():
            return
        if side == "agent":
            self._note_junk(side, "a line that is not a JSON-RPC message")
        elif jsonrpc.is_json(line):
            self._send[side]("", jsonrpc.error(NULL, INVALID_REQUEST, "Invalid Request"))
        else:
            self._send[side]("", jsonrpc.error(NULL, PARSE_ERROR, "Parse error"))

    def _note_junk(self, side: Side, what: str) -> None:
        self._junk += 1
        if self._junk in TOLD:
            self._note(f"the output of the {side} holds {what}; ignored ({self._junk} so far)")

    def _was_ours(self, id: bytes) -> bool:
        """Tell whether this is a number that was forgotten: a late answer."""
        return id.isdigit() and len(id) <= jsonrpc.DIGITS and int(id) < self._next

    def _number(self) -> int:
        self._next += 1
        return self._next - 1

    def _settle(self, request: Request) -> bool:
        """Return whether the request was still open."""
        if request.is_settled:
            return False
        request.is_settled = True
        if request.id is not None:
            key = ids.key(Raw(request.id))
            if self._open[request.side].get(key) is request:
                del self._open[request.side][key]
        return True

    def _fail(self, request: Request, code: int, message: str) -> None:
        if request.answered is not None:
            request.answered(jsonrpc.error(NULL, code, message))
        else:
            self.refuse(request, code, message)


def _id(request: Request) -> Raw:
    return NULL if request.id is None else Raw(request.id)


def is_update(line: bytes) -> bool:
    """Tell whether a line of the agent is a `session/update`."""
    message = jsonrpc.decode(line)
    return message is not None and message.method == UPDATE and message.id is UNSET
