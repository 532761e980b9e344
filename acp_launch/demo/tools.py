"""Tool calls as an agent makes them, announced, permitted unless they only read, made, and always ended; and the
replies that list and call the tools of the session's MCP servers."""

import json
import os
import time
from collections.abc import Sequence
from typing import Self

from acp_launch.demo.servers import Server
from acp_launch.demo.session import PERMISSION, Turn, TurnCancelled
from acp_launch.demo.wire import Message, RpcError

OPTIONS: list[Message] = [
    {"optionId": "allow-once", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "allow-always", "name": "Always allow in this session", "kind": "allow_always"},
    {"optionId": "reject-once", "name": "Reject", "kind": "reject_once"},
]
PLANNING = "I did not do it: in the mode `plan` I change nothing."
REFUSED = "I did not do it: permission was refused."

ANSWER = 60.0  # seconds; longest wait for a tool
READY = 15.0  # seconds; longest wait for servers that are still starting
APART = 0.2  # seconds between two calls of `repeat`: long enough to kill the server in between
OFTEN = 1000  # calls of `repeat`


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

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, TurnCancelled):
            self.end("failed", "cancelled")

    def refusal(self, key: tuple[str, str]) -> str:
        """Return why the call is not allowed, in words; empty if it is. An "always" is remembered for `key`.

        Raises:
            TurnCancelled: the answer was `cancelled`.
        """
        session = self._turn.session
        if session.options.values["mode"] == "plan":
            self.end("failed", "nothing is changed in the mode plan")
            return PLANNING
        if session.options.values["mode"] == "code" or key in session.allowed:
            return ""
        option = chosen_option(self._turn.ask(PERMISSION, {"toolCall": self.announced, "options": OPTIONS}))
        if option is None:
            raise TurnCancelled
        if option == "allow-always":
            session.allowed.add(key)
        if option in {"allow-once", "allow-always"}:
            return ""
        self.end("failed", "rejected")
        return REFUSED

    def begin(self, **fields: object) -> None:
        self._turn.update("tool_call_update", toolCallId=self.identity, status="in_progress", **fields)

    def end(self, status: str, text: str, *, keep: Sequence[Message] = ()) -> None:
        """End it as `completed` or `failed`. The text becomes the call's content, unless `keep` has content."""
        content = [*keep] or [{"type": "content", "content": {"type": "text", "text": text}}]
        self._turn.update("tool_call_update", toolCallId=self.identity, status=status, content=content, rawOutput=text)


def chosen_option(answer: Message) -> str | None:
    """Return the chosen option in an answer to a permission question; None for `cancelled`."""
    outcome = answer.get("outcome")
    return outcome.get("optionId") if isinstance(outcome, dict) and outcome.get("outcome") == "selected" else None


def ready_servers(turn: Turn, seconds: float) -> list[Server]:
    """Return the session's servers. Wait at most `seconds` until each has tools or a problem."""
    end = time.monotonic() + seconds
    for server in turn.session.servers:
        # Short waits, so that a cancelled turn does not wait for a slow server.
        while not server.ready.wait(0.02) and time.monotonic() < end:
            turn.check()
    return turn.session.servers


def use(turn: Turn, name: str, tool: str, arguments: Message, *, title: str) -> tuple[str, bool]:
    """Announce the call, ask, and make it, on the server `name`, or on the first that has the tool if that is empty.
    Return the result in words, and whether the call was made."""
    servers = [each for each in ready_servers(turn, READY) if name in ("", each.name) and each.tool(tool)]
    if not servers:
        return f"No server {f'`{name}` ' if name else ''}with a tool `{tool}`. Say `tools` for a list.", False
    found = servers[0].tool(tool) or {}
    kind = "read" if _reads_only(found) else "edit" if found.get("annotations") else "other"
    with ToolCall(turn, title, kind, arguments) as call:
        refusal = "" if kind == "read" else call.refusal((servers[0].name, tool))
        return refusal or _make(turn, servers[0], tool, arguments, call), not refusal


def _make(turn: Turn, server: Server, tool: str, arguments: Message, call: ToolCall) -> str:
    """Make the call and return its result in words. A cancelled turn cancels the call."""
    call.begin()
    try:
        request = server.ask_tool(tool, arguments)
        try:
            result = turn.wait(request, ANSWER)
        except (TurnCancelled, TimeoutError):
            server.withdraw(request)
            raise
    except (RpcError, OSError) as error:
        call.end("failed", str(error))
        return f"The tool `{tool}` of `{server.name}` failed: {error}"
    texts = [block["text"] for block in result.get("content", []) if block.get("type") == "text"]
    text = "\n".join(texts) or "(the tool returned no text)"
    failed = result.get("isError") is True
    call.end("failed" if failed else "completed", text)
    return f"The tool `{tool}` failed: {text}" if failed else text


def _reads_only(tool: Message) -> bool:
    return tool.get("annotations", {}).get("readOnlyHint") is True


# The replies.


def tools(turn: Turn, rest: str) -> None:
    if not turn.session.servers:
        turn.say("No MCP server was given to this session.")
    for server in ready_servers(turn, READY):
        count = f"connected, {len(server.tools)} tool{'' if len(server.tools) == 1 else 's'}"
        lines = [f"**{server.name}**: {f'not connected: {server.problem}' if server.problem else count}\n"]
        for tool in server.tools:
            asks = "" if _reads_only(tool) else " (asks first)"
            described = str(tool.get("description") or "no description").strip().partition("\n")[0]
            lines.append(f"- `{tool['name']}`{asks}: {described}")
        turn.say("\n".join(lines).rstrip() + "\n\n")  # a blank line ends the Markdown list


def note(turn: Turn, rest: str) -> None:
    if rest:
        turn.say(use(turn, "", "add_note", {"text": rest}, title=f"Note: {rest[:60]}")[0])
    else:
        turn.say("What should I note? Say `note buy milk`.")


def add(turn: Turn, rest: str) -> None:
    try:
        a, b = (float(word) if "." in word else int(word) for word in rest.split())
    except ValueError:
        turn.say("I need two numbers: `add 2 3`.")
        return
    turn.say(use(turn, "", "add", {"a": a, "b": b}, title=f"Add {a} and {b}")[0])


def call(turn: Turn, rest: str) -> None:
    if wanted := _read_call(turn, rest, 'call notes add_note {"text":"hi"}'):
        server, tool, arguments = wanted
        turn.say(use(turn, server, tool, arguments, title=f"{server}: {tool}")[0])


def repeat(turn: Turn, rest: str) -> None:
    """Make the calls, each with its result or error on a line, until one is not allowed."""
    count, _, rest = rest.partition(" ")
    example = 'repeat 20 notes add {"a":1,"b":2}'
    if not count.isdecimal() or not 1 <= int(count) <= OFTEN:
        turn.say(f"I repeat a call from 1 to {OFTEN} times: `{example}`.")
        return
    wanted = _read_call(turn, rest, example)
    for number in range(1, int(count) + 1) if wanted else ():
        server, tool, arguments = wanted or ("", "", {})
        words, was_made = use(turn, server, tool, arguments, title=f"{server}: {tool} ({number} of {count})")
        turn.say(f"{number}. {' '.join(words.split())}\n")
        if not was_made:
            return
        turn.pause(APART if number < int(count) else 0)


def _read_call(turn: Turn, rest: str, example: str) -> tuple[str, str, Message] | None:
    """Return the server, the tool and its arguments; None after an error was reported."""
    server, tool, text = [*rest.split(None, 2), "", "", ""][:3]
    try:
        arguments = json.loads(text or "{}")
    except ValueError as error:
        turn.say(f"These arguments are not JSON: {error}")
        return None
    if tool and isinstance(arguments, dict):
        return server, tool, arguments
    turn.say(f"Say which server, which tool, and its arguments as a JSON object: `{example}`.")
    return None
