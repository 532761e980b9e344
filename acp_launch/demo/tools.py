"""Tool calls as an agent makes them: announced, permitted unless they only read, made, and always ended."""

import json
import os
import time
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Self

from acp_launch.demo.toolbox import Server
from acp_launch.demo.turn import Turn, TurnCancelled
from acp_launch.demo.wire import Message, RpcError

# The state of a call as the client sees it (ACP v1 "tool calls"). A refused question and a cancelled turn end it as
# failed.


OPTIONS: list[Message] = [
    {"optionId": "allow-once", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "allow-always", "name": "Always allow in this session", "kind": "allow_always"},
    {"optionId": "reject-once", "name": "Reject", "kind": "reject_once"},
]
PLANNING = "I did not do it: in the mode `plan` I change nothing. `mode ask` gets me out of it."


class ToolCall:
    """A tool call, announced at its creation. Use it in a `with`, so that a cancelled turn ends it."""

    def __init__(
        self,
        turn: Turn,
        title: str,
        kind: str,
        raw_input: Message,
        *,
        content: Sequence[Message] = (),
        locations: Sequence[Message] = (),
    ) -> None:
        self._turn = turn
        self.identity = os.urandom(6).hex()
        self.announced: Message = {"toolCallId": self.identity, "title": title, "kind": kind, "rawInput": raw_input}
        self.announced |= {"content": [*content]} if content else {}
        self.announced |= {"locations": [*locations]} if locations else {}
        self.announced["status"] = "pending"
        turn.update("tool_call", **self.announced)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, TurnCancelled):
            self.end("failed", "cancelled")

    def refusal(self, key: tuple[str, str]) -> str:
        """Return why the call is not allowed, in words; empty if it is. An "always" is remembered for `key`."""
        if self._turn.session.options.mode == "plan":
            self.end("failed", "nothing is changed in the mode plan")
            return PLANNING
        if self._turn.session.options.mode == "code" or key in self._turn.session.allowed:
            return ""
        try:
            chosen = self._turn.ask_permission(self.announced, OPTIONS)
        except RpcError as error:
            self.end("failed", f"the client could not be asked: {error}")
            return f"I did not do it, because I could not ask for permission: {error}"
        return self.decided(chosen, key)

    def decided(self, chosen: str | None, key: tuple[str, str]) -> str:
        """Return the same for an answered question.

        Raises:
            TurnCancelled: the answer was `cancelled`.
        """
        if chosen is None:
            raise TurnCancelled
        if chosen == "allow-always":
            self._turn.session.allowed.add(key)
        if chosen in {"allow-once", "allow-always"}:
            return ""
        self.end("failed", "rejected")
        return "I did not do it: permission was refused."

    def begin(self, **fields: object) -> None:
        self._turn.update("tool_call_update", toolCallId=self.identity, status="in_progress", **fields)

    def end(self, status: str, text: str, *, keep: Sequence[Message] = ()) -> None:
        """End it as `completed` or `failed`. The text becomes the call's content, unless `keep` has content."""
        content = [*keep] or [{"type": "content", "content": {"type": "text", "text": text}}]
        self._turn.update("tool_call_update", toolCallId=self.identity, status=status, content=content, rawOutput=text)


ANSWER = 60.0  # seconds; longest wait for a tool
READY = 15.0  # seconds; longest wait for servers that are still starting


class Attempt(NamedTuple):
    """The result of a tool call, in words; `was_made` is False if the tool is unknown or was not allowed."""

    words: str
    was_made: bool


def reads_only(tool: Message) -> bool:
    annotations = tool.get("annotations")
    return isinstance(annotations, dict) and annotations.get("readOnlyHint") is True


def ready_servers(turn: Turn, seconds: float) -> list[Server]:
    """Return the session's servers. Wait at most `seconds` until each has tools or a problem."""
    end = time.monotonic() + seconds
    for server in turn.session.servers:
        # Short waits, so that a cancelled turn does not wait for a slow server.
        while not server.ready.wait(0.02) and time.monotonic() < end:
            turn.pause(0.001)
    return turn.session.servers


def use_first(turn: Turn, tool: str, arguments: Message, *, title: str) -> None:
    """Call the tool on the first server that has it."""
    servers = ready_servers(turn, READY)
    server = next((each for each in servers if each.tool(tool)), None)
    if server is None:
        turn.say(f"No MCP server of this session has a tool `{tool}`. Say `tools` for a list.")
        return
    use(turn, server.name, tool, arguments, title=title)


def use(turn: Turn, name: str, tool: str, arguments: Message, *, title: str) -> None:
    """Announce the call, ask, make it, and report the result."""
    turn.say(attempt(turn, name, tool, arguments, title=title).words)


def attempt(turn: Turn, name: str, tool: str, arguments: Message, *, title: str) -> Attempt:
    """Do the same as `use`, but let the caller report the result."""
    server = next((each for each in ready_servers(turn, READY) if each.name == name), None)
    found = server.tool(tool) if server else None
    if server is None or found is None:
        missing = f"No server `{name}` with a tool `{tool}`. Say `tools` for a list."
        return Attempt(missing, was_made=False)
    with ToolCall(turn, title, _kind(found), arguments) as call:
        refusal = "" if reads_only(found) else call.refusal((server.name, tool))
        words = refusal or _make(turn, server, tool, arguments, call)
    return Attempt(words, was_made=not refusal)


def _kind(tool: Message) -> str:
    if reads_only(tool):
        return "read"
    return "edit" if isinstance(tool.get("annotations"), dict) else "other"


def _make(turn: Turn, server: Server, tool: str, arguments: Message, call: ToolCall) -> str:
    """Make the call and return its result in words."""
    call.begin()
    try:
        result = turn.call_tool(server, tool, arguments, ANSWER)
    except (RpcError, OSError) as error:
        call.end("failed", str(error))
        return f"The tool `{tool}` of `{server.name}` failed: {error}"
    text = _text(result)
    failed = result.get("isError") is True
    call.end("failed" if failed else "completed", text)
    return f"The tool `{tool}` failed: {text}" if failed else text


def _text(result: Message) -> str:
    blocks = result.get("content")
    texts = [block.get("text") for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
    return "\n".join(text for text in texts if isinstance(text, str)) or "(the tool returned no text)"


# The replies that list and call the tools of the session's MCP servers.


LISTED = 15.0  # seconds for servers to start before their tools are listed
APART = 0.2  # seconds between two calls of `repeat`: long enough to kill the server in between
OFTEN = 1000  # calls of `repeat`


def tools(turn: Turn, rest: str) -> None:
    if not turn.session.servers:
        turn.say("No MCP server was given to this session.")
        return
    for server in ready_servers(turn, LISTED):
        lines = [f"**{server.name}**: {_condition(server.problem, len(server.tools))}\n", *map(_tool, server.tools)]
        turn.say("\n".join(lines).rstrip() + "\n\n")  # a blank line ends the Markdown list


def _tool(tool: Message) -> str:
    asks = "" if reads_only(tool) else " (asks first)"
    described, *_ = str(tool.get("description") or "no description").strip().splitlines() or [""]
    return f"- `{tool['name']}`{asks}: {described}"


def _condition(problem: str, count: int) -> str:
    return f"not connected: {problem}" if problem else f"connected, {count} tool{'' if count == 1 else 's'}"


def note(turn: Turn, rest: str) -> None:
    if not rest:
        turn.say("What should I note? Say `note buy milk`.")
        return
    use_first(turn, "add_note", {"text": rest}, title=f"Note: {rest[:60]}")


def notes(turn: Turn, rest: str) -> None:
    use_first(turn, "list_notes", {}, title="Read the notes")


def add(turn: Turn, rest: str) -> None:
    try:
        a, b = (float(word) if "." in word else int(word) for word in rest.split())
    except ValueError:
        turn.say("I need two numbers: `add 2 3`.")
        return
    use_first(turn, "add", {"a": a, "b": b}, title=f"Add {a} and {b}")


def call(turn: Turn, rest: str) -> None:
    if wanted := _wanted(turn, rest, "which server", 'call notes add_note {"text":"hi"}'):
        server, tool, arguments = wanted
        use(turn, server, tool, arguments, title=f"{server}: {tool}")


def repeat(turn: Turn, rest: str) -> None:
    often, _, rest = rest.partition(" ")
    example = 'repeat 20 notes add {"a":1,"b":2}'
    if not often.isdecimal() or not 1 <= int(often) <= OFTEN:
        turn.say(f"I repeat a call from 1 to {OFTEN} times: `{example}`.")
        return
    if wanted := _wanted(turn, rest, "how often, which server", example):
        _calls(turn, int(often), *wanted)


def _calls(turn: Turn, often: int, server: str, tool: str, arguments: Message) -> None:
    """Make the calls, each with its result or error on a line, until one is not allowed."""
    for number in range(1, often + 1):
        made = attempt(turn, server, tool, arguments, title=f"{server}: {tool} ({number} of {often})")
        turn.say(f"{number}. {' '.join(made.words.split())}\n")
        if not made.was_made:
            return
        turn.pause(APART if number < often else 0)


def _wanted(turn: Turn, rest: str, what: str, example: str) -> tuple[str, str, Message] | None:
    """Return the server, the tool and its arguments; None after an error was reported."""
    server, tool, text = [*rest.split(None, 2), "", "", ""][:3]
    try:
        arguments = json.loads(text or "{}")
    except ValueError as error:
        turn.say(f"These arguments are not JSON: {error}")
        return None
    if tool and isinstance(arguments, dict):
        return server, tool, arguments
    turn.say(f"Say {what}, which tool, and its arguments as a JSON object: `{example}`.")
    return None
