"""One open session: where it works, its MCP servers, its journal, and the turn that is running, if one is."""

import sys
import threading

from acp_launch.demo import replies, toolbox
from acp_launch.demo.offered import Offered
from acp_launch.demo.options import Options
from acp_launch.demo.store import Store
from acp_launch.demo.turn import Turn, TurnCancelled
from acp_launch.demo.wire import INTERNAL_ERROR, INVALID_REQUEST, Message, RpcError, Wire, aside

WINDOW = 100_000  # words; what `usage_update` gives as the size of our context
JOIN = 1.0  # seconds; a cancelled turn ends in a few milliseconds, unless the client stopped reading
TITLE = 60  # characters


class Session:
    """`tell` and the journal agree: what a client was told during a turn is what a later load replays."""

    def __init__(
        self, identity: str, cwd: str, directories: list[str], *, store: Store, wire: Wire, offered: Offered
    ) -> None:
        self.identity = identity
        self.cwd = cwd
        self.directories = directories
        self.allowed: set[tuple[str, str]] = set()
        self.offered = offered
        self.options = Options(with_booleans=offered.booleans)
        self.cost: float | None = None
        self.turn: Turn | None = None
        self.servers: list[toolbox.Server] = []
        self._store = store
        self._wire = wire
        self._thread: threading.Thread | None = None
        self._turns = 0  # since it was opened

    def connect(self, entries: list[Message]) -> None:
        """Start the MCP servers, or connect to them; returns before they have answered."""
        self.servers = [_server(entry, self.cwd) for entry in entries]

    def tell(self, update: Message) -> None:
        """Send an update of the conversation, once it is in the journal."""
        self.record(update)
        self.notify(update)

    def record(self, update: Message) -> None:
        self._store.append(self.identity, {"update": update})

    def notify(self, update: Message) -> None:
        """Send an update that is no part of the conversation."""
        self._wire.notify("session/update", {"sessionId": self.identity, "update": update})

    def state(self) -> Message:
        """What the answer that opens the session tells of it."""
        return {"modes": self.options.modes(), "configOptions": self.options.listed()}

    def choose_mode(self, mode: str) -> None:
        self.options.choose("mode", mode)
        self.tell_mode()
        self.tell_options()

    def tell_mode(self) -> None:
        self.notify({"sessionUpdate": "current_mode_update", "currentModeId": self.options.mode})

    def tell_options(self) -> None:
        self.notify({"sessionUpdate": "config_option_update", "configOptions": self.options.listed()})

    def advertise(self) -> None:
        commands = [
            {"name": name, "description": reply.description, **({"input": {"hint": reply.hint}} if reply.hint else {})}
            for name, reply in replies.REPLIES.items()
        ]
        self.notify({"sessionUpdate": "available_commands_update", "availableCommands": commands})

    def records(self) -> list[Message]:
        return self._store.read(self.identity)[1]

    def replay(self) -> None:
        for record in self.records():
            if isinstance(record.get("update"), dict):
                self.notify(record["update"])

    def prompt(self, request: object, blocks: list[Message]) -> None:
        """Begin a turn; its thread answers the request.

        Raises:
            RpcError: a turn is running already, or none can be begun.
        """
        if self.turn is not None:
            raise RpcError(INVALID_REQUEST, "a prompt is still running in this session")
        turn = Turn(self, self._wire, request, blocks)
        self.turn, self._turns = turn, self._turns + 1  # before its thread, which takes the turn away again
        try:
            self._thread = aside(lambda: self._run(turn))
        except RpcError:
            self.turn, self._turns = None, self._turns - 1
            raise

    def close(self) -> None:
        """Cancel the running turn, wait until its prompt is answered, end the MCP servers."""
        if self.turn is not None:
            self.turn.cancel(withdraw=True)
        if self._thread is not None:
            self._thread.join(JOIN)
        toolbox.stop(self.servers)

    def _run(self, turn: Turn) -> None:
        """The turn's thread: whatever happens, the prompt is answered exactly once."""
        try:
            answer = self._play(turn)
        except RpcError as error:
            self._end(turn, error)
        except (OSError, TimeoutError) as error:
            self._end(turn, RpcError(INTERNAL_ERROR, str(error)))
        except Exception:
            import traceback

            traceback.print_exc()
            self._end(turn, RpcError(INTERNAL_ERROR, "a bug in the demo agent; its stderr has the traceback"))
        else:
            self._end(turn, answer)

    def _end(self, turn: Turn, outcome: Message | RpcError) -> None:
        self.turn = None  # before the answer, so that a prompt sent on receiving it is not refused
        try:
            if isinstance(outcome, RpcError):
                self._wire.refuse(turn.request, outcome)
            else:
                self._wire.answer(turn.request, outcome)
        except BrokenPipeError:
            print("the client closed our output in the middle of a turn", file=sys.stderr)

    def _play(self, turn: Turn) -> Message:
        text = "\n".join(block["text"] for block in turn.blocks if block["type"] == "text").strip()
        self._note_prompt(text, turn.blocks)
        try:
            replies.reply(turn, text, is_first=self._turns == 1)
            turn.check()
            stop = "end_turn"
        except TurnCancelled:
            stop = "cancelled"
        return {"stopReason": stop, "usage": self._usage(text, turn)}

    def _note_prompt(self, text: str, blocks: list[Message]) -> None:
        records = self.records()
        if not any("title" in record for record in records):
            title = text[:TITLE] or "(no text)"
            self._store.append(self.identity, {"title": title})
            self.notify({"sessionUpdate": "session_info_update", "title": title})
        self._store.append(self.identity, {"turn": text})
        for block in blocks:
            said = {"sessionUpdate": "user_message_chunk", "messageId": f"p{len(records)}", "content": block}
            self._store.append(self.identity, {"update": said})

    def _usage(self, prompt: str, turn: Turn) -> Message:
        """Counted words, since there is no model that would count tokens."""
        asked = len(prompt.split())
        cost = {} if self.cost is None else {"cost": {"amount": self.cost, "currency": "USD"}}
        self.notify({"sessionUpdate": "usage_update", "used": _words(self.records()), "size": WINDOW, **cost})
        return {"inputTokens": asked, "outputTokens": turn.words, "totalTokens": asked + turn.words}


def _server(entry: Message, cwd: str) -> toolbox.Server:
    if "url" not in entry:
        return toolbox.Stdio(entry, cwd)
    from acp_launch.demo.remote import Remote  # as slow to load as all the rest of us

    return Remote(entry)


def _words(records: list[Message]) -> int:
    contents = [record["update"].get("content") for record in records if isinstance(record.get("update"), dict)]
    return sum(len(content.get("text", "").split()) for content in contents if isinstance(content, dict))
