"""An open session: its directories, its MCP servers, its journal on disk, and its running turn."""

import json
import os
import re
import sys
import threading
import time
from pathlib import Path

from acp_launch.demo import home, replies, toolbox
from acp_launch.demo.turn import ClientOffers, Options, Turn, TurnCancelled
from acp_launch.demo.wire import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    NOT_FOUND,
    Message,
    RpcError,
    Wire,
    aside,
)

# The sessions on disk: one append-only journal per session, `sessions/<id>.jsonl`.
#
# The first line describes the session, the others are records in their order: `{"title": …}`, `{"turn": the prompt's
# text}` and `{"update": a session/update}`. A new journal is written under another name and renamed, and grows by
# single
# appends. So `kill -9` costs at most its unfinished last line, and processes do not disturb each other. A list reads
# only the first two lines of each.


PAGE = 20  # sessions; small, so that clients meet paging
HEAD = 1 << 20  # bytes; the longest first line accepted
SAFE = re.compile(r"[0-9a-f]{32}")  # the form that `create` makes; no other name is a file of ours


class Store:
    """The sessions on disk."""

    def __init__(self) -> None:
        self._folder = home.directory() / "sessions"
        self._folder.mkdir(mode=0o700, exist_ok=True)

    def create(self, cwd: str, directories: list[str]) -> str:
        identity = os.urandom(16).hex()
        head = {"sessionId": identity, "cwd": cwd, "additionalDirectories": directories}
        aside = self._folder / f".{identity}"
        home.append(aside, _line(head), create=True)
        aside.replace(self._path(identity))
        return identity

    def append(self, identity: str, record: Message) -> None:
        """Add a record. A session that was deleted meanwhile, also by another process, is not created again."""
        try:
            home.append(self._path(identity), _line(record), create=False)
        except FileNotFoundError as error:
            raise _unknown(identity) from error

    def read(self, identity: str) -> tuple[Message, list[Message]]:
        """Return the session and its records.

        Raises:
            RpcError: -32002 unknown session, -32603 its file is damaged.
        """
        path = self._path(identity)
        try:
            lines = [_parse(line) for line in _whole_lines(path)]
        except FileNotFoundError as error:
            raise _unknown(identity) from error
        head, *records = [line for line in lines if line is not None] or [{}]
        if None in lines or head.get("sessionId") != identity or not isinstance(head.get("cwd"), str):
            raise RpcError(INTERNAL_ERROR, f"the file of session {identity} is damaged; it was not changed: {path}")
        return head, records

    def delete(self, identity: str) -> None:
        """Delete a session; a missing one is ignored."""
        if SAFE.fullmatch(identity):
            self._path(identity).unlink(missing_ok=True)

    def page(self, cwd: str | None, cursor: str | None) -> tuple[list[Message], str | None]:
        """Return up to PAGE sessions, last used first, and the cursor of the next page, if any."""
        places = sorted(self._places(), reverse=True)
        if cursor is not None:
            after = _place(cursor)
            places = [place for place in places if place < after]
        found: list[Message] = []
        last = (0, "")
        for place in places:
            item = self._item(*place)
            if item is None or (cwd is not None and item["cwd"] != cwd):
                continue
            if len(found) == PAGE:
                return found, f"{last[0]} {last[1]}".encode().hex()
            found.append(item)
            last = place
        return found, None

    def _path(self, identity: str) -> Path:
        if not SAFE.fullmatch(identity):
            raise _unknown(identity)
        return self._folder / f"{identity}.jsonl"

    def _places(self) -> list[tuple[int, str]]:
        places = []
        for path in self._folder.glob("*.jsonl"):
            try:
                places.append((path.stat().st_mtime_ns, path.stem))
            except FileNotFoundError:  # deleted by another process meanwhile
                continue
        return places

    def _item(self, used: int, identity: str) -> Message | None:
        """Return the entry for `session/list`; None if the file is missing or damaged."""
        try:
            with self._path(identity).open("rb") as file:
                head, second = _parse(file.readline(HEAD)), _parse(file.readline(HEAD))
        except (OSError, RpcError):
            return None
        if head is None or head.get("sessionId") != identity or not isinstance(head.get("cwd"), str):
            return None
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(used / 1e9))
        title = {"title": second["title"]} if second and isinstance(second.get("title"), str) else {}
        return {**head, **title, "updatedAt": stamp}


def _whole_lines(path: Path) -> list[bytes]:
    """Return the complete lines. An incomplete last line, left by a crash during a write, is cut off."""
    with path.open("r+b") as file:
        home.lock(file.fileno())
        content = file.read()
        whole, newline, torn = content.rpartition(b"\n")
        if torn and newline:
            file.truncate(len(content) - len(torn))
    return whole.split(b"\n")


def _line(record: Message) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def _parse(line: bytes) -> Message | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _place(cursor: str) -> tuple[int, str]:
    try:
        used, identity = bytes.fromhex(cursor).decode().split(" ")
        return int(used), identity
    except ValueError as error:
        raise RpcError(INVALID_PARAMS, "this cursor is not one of ours") from error


def _unknown(identity: str) -> RpcError:
    return RpcError(NOT_FOUND, f"no session {identity[:64]!r}")


WINDOW = 100_000  # words; the context size in `usage_update`
JOIN = 1.0  # seconds; a cancelled turn ends within milliseconds, unless the client stopped reading
TITLE = 60  # characters


class Session:
    """An open session. `tell` writes to the client and to the journal, so a later load replays what the client
    received.
    """

    def __init__(
        self, identity: str, cwd: str, directories: list[str], *, store: Store, wire: Wire, offered: ClientOffers
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
        self._turns = 0  # since the session was opened

    def connect(self, entries: list[Message]) -> None:
        """Start the MCP servers, or connect to them, without waiting for their answers."""
        self.servers = [_server(entry, self.cwd) for entry in entries]

    def tell(self, update: Message) -> None:
        """Write an update of the conversation to the journal, then send it."""
        self.record(update)
        self.notify(update)

    def record(self, update: Message) -> None:
        self._store.append(self.identity, {"update": update})

    def notify(self, update: Message) -> None:
        """Send an update that is not part of the conversation."""
        self._wire.notify("session/update", {"sessionId": self.identity, "update": update})

    def state(self) -> Message:
        """Return the session's state for the answer that opens it."""
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
            RpcError: a turn is running already, or its thread cannot start.
        """
        if self.turn is not None:
            raise RpcError(INVALID_REQUEST, "a prompt is still running in this session")
        turn = Turn(self, self._wire, request, blocks)
        self.turn, self._turns = turn, self._turns + 1  # before its thread starts, which removes the turn at its end
        try:
            self._thread = aside(lambda: self._run(turn))
        except RpcError:
            self.turn, self._turns = None, self._turns - 1
            raise

    def close(self) -> None:
        """Cancel the running turn, wait until its prompt is answered, stop the MCP servers."""
        if self.turn is not None:
            self.turn.cancel(withdraw=True)
        if self._thread is not None:
            self._thread.join(JOIN)
        toolbox.stop(self.servers)

    def _run(self, turn: Turn) -> None:
        """Run the turn's thread, which answers the prompt exactly once."""
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
        self.turn = None  # before the answer, because the client may send the next prompt at once
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
        """Return the usage in words, since no model counts tokens."""
        asked = len(prompt.split())
        cost = {} if self.cost is None else {"cost": {"amount": self.cost, "currency": "USD"}}
        self.notify({"sessionUpdate": "usage_update", "used": _words(self.records()), "size": WINDOW, **cost})
        return {"inputTokens": asked, "outputTokens": turn.words, "totalTokens": asked + turn.words}


def _server(entry: Message, cwd: str) -> toolbox.Server:
    if "url" not in entry:
        return toolbox.StdioServer(entry, cwd)
    from acp_launch.demo.remote import Remote  # it takes as long to import as the rest of the agent

    return Remote(entry)


def _words(records: list[Message]) -> int:
    contents = [record["update"].get("content") for record in records if isinstance(record.get("update"), dict)]
    return sum(len(content.get("text", "").split()) for content in contents if isinstance(content, dict))
