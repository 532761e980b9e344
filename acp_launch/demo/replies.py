"""
What the demo agent says. No model: the first word of the prompt chooses one of the replies below.

A reply streams into its turn. Anything it is unsure about it says in words: a demo's errors are part of its answer.
"""

import json
from collections.abc import Callable
from typing import NamedTuple

from acp_launch.demo import tooluse
from acp_launch.demo.turn import Turn
from acp_launch.demo.wire import Message

BEAT = 0.05  # seconds between the chunks of `count`: slow enough to press Ctrl-C, fast enough not to bore
STEP = 0.03  # seconds for each step of `plan`
MOST = 10_000  # chunks of `count`
READY = 15.0  # seconds we let servers start before listing what they have
FIRST = 1.0  # seconds we let servers start before a session's first answer
APART = 0.2  # seconds between two calls of `repeat`: long enough to kill the server in between
OFTEN = 1000  # calls of `repeat`

INTRODUCTION = "I am a scripted demo agent: a real ACP agent without a model behind it. Try one of these:\n\n"


class Reply(NamedTuple):
    play: Callable[[Turn, str], None]
    hint: str
    description: str


def reply(turn: Turn, text: str, blocks: list[Message], *, is_first: bool) -> None:
    """Play the reply the text asks for. The first waits for the servers: a turn may be all that is asked of us."""
    if is_first:
        tooluse.ready_servers(turn, FIRST)
    word, _, rest = text.removeprefix("/").partition(" ")
    chosen = REPLIES.get(word.strip().lower()) if text else REPLIES["help"]
    if chosen is None:
        _echo(turn, text)
    else:
        chosen.play(turn, rest.strip())
    names = [str(block.get("name") or _uri(block)) for block in blocks if block["type"] != "text"]
    if names:
        turn.say(f"\n\nAttached: {', '.join(names)}")


def _uri(block: Message) -> object:
    return block.get("uri") or block.get("resource", {}).get("uri", "a resource")


def _echo(turn: Turn, text: str) -> None:
    turn.say(f"You said: {text}\n\nI am a scripted demo without a model, so that is all I can make of it. Try `help`.")


def _help(turn: Turn, rest: str) -> None:
    lines = [f"- `{f'{name} {each.hint}'.strip()}`: {each.description}" for name, each in REPLIES.items()]
    turn.say(INTRODUCTION + "\n".join(lines) + "\n")


def _tools(turn: Turn, rest: str) -> None:
    if not turn.session.servers:
        turn.say("No MCP server was given to this session.")
        return
    for server in tooluse.ready_servers(turn, READY):
        lines = [f"**{server.name}**: {_condition(server.problem, len(server.tools))}\n", *map(_tool, server.tools)]
        turn.say("\n".join(lines).rstrip() + "\n\n")  # Markdown: else what follows belongs to the list's last item


def _tool(tool: Message) -> str:
    asks = "" if tooluse.reads_only(tool) else " (asks first)"
    described, *_ = str(tool.get("description") or "no description").strip().splitlines() or [""]
    return f"- `{tool['name']}`{asks}: {described}"


def _condition(problem: str, count: int) -> str:
    return f"not connected: {problem}" if problem else f"connected, {count} tool{'' if count == 1 else 's'}"


def _note(turn: Turn, rest: str) -> None:
    if not rest:
        turn.say("What should I note? Say `note buy milk`.")
        return
    tooluse.use_first(turn, "add_note", {"text": rest}, title=f"Note: {rest[:60]}")


def _notes(turn: Turn, rest: str) -> None:
    tooluse.use_first(turn, "list_notes", {}, title="Read the notes")


def _add(turn: Turn, rest: str) -> None:
    try:
        a, b = (float(word) if "." in word else int(word) for word in rest.split())
    except ValueError:
        turn.say("I need two numbers: `add 2 3`.")
        return
    tooluse.use_first(turn, "add", {"a": a, "b": b}, title=f"Add {a} and {b}")


def _call(turn: Turn, rest: str) -> None:
    if wanted := _wanted(turn, rest, "which server", 'call notes add_note {"text":"hi"}'):
        server, tool, arguments = wanted
        tooluse.use(turn, server, tool, arguments, title=f"{server}: {tool}")


def _repeat(turn: Turn, rest: str) -> None:
    often, _, rest = rest.partition(" ")
    example = 'repeat 20 notes add {"a":1,"b":2}'
    if not often.isdecimal() or not 1 <= int(often) <= OFTEN:
        turn.say(f"I repeat a call from 1 to {OFTEN} times: `{example}`.")
        return
    if wanted := _wanted(turn, rest, "how often, which server", example):
        _calls(turn, int(often), *wanted)


def _calls(turn: Turn, often: int, server: str, tool: str, arguments: Message) -> None:
    """Each with its result or its error in a line of its own, until one may not be made."""
    for number in range(1, often + 1):
        attempt = tooluse.attempt(turn, server, tool, arguments, title=f"{server}: {tool} ({number} of {often})")
        turn.say(f"{number}. {' '.join(attempt.words.split())}\n")
        if not attempt.was_made:
            return
        turn.pause(APART if number < often else 0)


def _wanted(turn: Turn, rest: str, what: str, example: str) -> tuple[str, str, Message] | None:
    """The server, the tool and its arguments; None once it is said what is wrong with them."""
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


def _plan(turn: Turn, rest: str) -> None:
    steps = ["Read the request", "Do the work", "Report"]
    for done in range(len(steps) + 1):
        status = ["completed"] * done + ["in_progress"] + ["pending"] * len(steps)
        turn.update(
            "plan",
            entries=[
                {"content": step, "priority": "medium", "status": state}
                for step, state in zip(steps, status, strict=False)
            ],
        )
        turn.pause(STEP if done < len(steps) else 0)
    turn.say(f"All {len(steps)} steps of the plan are done.")


def _think(turn: Turn, rest: str) -> None:
    turn.think(rest or "There is nothing to think about.")
    turn.say("I have thought about it.")


def _count(turn: Turn, rest: str) -> None:
    if not rest.isdecimal() or not 1 <= int(rest) <= MOST:
        turn.say(f"I count from 1 to a number up to {MOST}: `count 20`.")
        return
    for number in range(1, int(rest) + 1):
        turn.say(f"{number} ")
        turn.pause(BEAT)


def _history(turn: Turn, rest: str) -> None:
    *before, _ = [record["turn"] for record in turn.session.records() if "turn" in record]
    last = f" The last prompt was: {before[-1]}" if before else ""
    turn.say(f"Before this one, the session had {len(before)} turn{'' if len(before) == 1 else 's'}.{last}")


def _where(turn: Turn, rest: str) -> None:
    turn.say(f"Working directory: {turn.session.cwd}\n")
    for directory in turn.session.directories:
        turn.say(f"Additional directory: {directory}\n")


REPLIES = {
    "help": Reply(_help, "", "what I can do"),
    "tools": Reply(_tools, "", "the MCP servers of this session and their tools"),
    "note": Reply(_note, "TEXT", "write a note with an MCP tool; asks for permission first"),
    "remember": Reply(_note, "TEXT", "the same as note"),
    "notes": Reply(_notes, "", "read the notes back with an MCP tool"),
    "add": Reply(_add, "A B", "add two numbers with an MCP tool"),
    "call": Reply(_call, "SERVER TOOL {JSON}", "call any tool of any connected MCP server"),
    "repeat": Reply(_repeat, "N SERVER TOOL {JSON}", "the same, N times in a row: kill the server meanwhile"),
    "plan": Reply(_plan, "", "show a plan and carry it out"),
    "think": Reply(_think, "TEXT", "think before answering"),
    "count": Reply(_count, "N", "count slowly, so that you can cancel me"),
    "slow": Reply(_count, "N", "the same as count"),
    "history": Reply(_history, "", "how many turns this session has had: shows that it was loaded again"),
    "where": Reply(_where, "", "the directories this session works in"),
}
