"""Replies that list and call the tools of the session's MCP servers."""

import json

from acp_launch.demo import tooluse
from acp_launch.demo.turn import Turn
from acp_launch.demo.wire import Message

READY = 15.0  # seconds for servers to start before their tools are listed
APART = 0.2  # seconds between two calls of `repeat`: long enough to kill the server in between
OFTEN = 1000  # calls of `repeat`


def tools(turn: Turn, rest: str) -> None:
    if not turn.session.servers:
        turn.say("No MCP server was given to this session.")
        return
    for server in tooluse.ready_servers(turn, READY):
        lines = [f"**{server.name}**: {_condition(server.problem, len(server.tools))}\n", *map(_tool, server.tools)]
        turn.say("\n".join(lines).rstrip() + "\n\n")  # a blank line ends the Markdown list


def _tool(tool: Message) -> str:
    asks = "" if tooluse.reads_only(tool) else " (asks first)"
    described, *_ = str(tool.get("description") or "no description").strip().splitlines() or [""]
    return f"- `{tool['name']}`{asks}: {described}"


def _condition(problem: str, count: int) -> str:
    return f"not connected: {problem}" if problem else f"connected, {count} tool{'' if count == 1 else 's'}"


def note(turn: Turn, rest: str) -> None:
    if not rest:
        turn.say("What should I note? Say `note buy milk`.")
        return
    tooluse.use_first(turn, "add_note", {"text": rest}, title=f"Note: {rest[:60]}")


def notes(turn: Turn, rest: str) -> None:
    tooluse.use_first(turn, "list_notes", {}, title="Read the notes")


def add(turn: Turn, rest: str) -> None:
    try:
        a, b = (float(word) if "." in word else int(word) for word in rest.split())
    except ValueError:
        turn.say("I need two numbers: `add 2 3`.")
        return
    tooluse.use_first(turn, "add", {"a": a, "b": b}, title=f"Add {a} and {b}")


def call(turn: Turn, rest: str) -> None:
    if wanted := _wanted(turn, rest, "which server", 'call notes add_note {"text":"hi"}'):
        server, tool, arguments = wanted
        tooluse.use(turn, server, tool, arguments, title=f"{server}: {tool}")


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
        attempt = tooluse.attempt(turn, server, tool, arguments, title=f"{server}: {tool} ({number} of {often})")
        turn.say(f"{number}. {' '.join(attempt.words.split())}\n")
        if not attempt.was_made:
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
