"""
The replies of the demo agent. There is no model: the first word of the prompt chooses one of the replies below.

A reply streams into its turn, and reports its errors as text. The agent of the tests has more (tests/agents/demo.py).
"""

import os
import sys
from collections.abc import Callable
from typing import NamedTuple

from acp_launch.demo import files, servers, tools
from acp_launch.demo.session import Turn
from acp_launch.demo.wire import Message

FIRST = 1.0  # seconds for servers to start before a session's first answer
CHUNK_SECONDS = 0.05  # between the chunks of `count`: slow enough to press Ctrl-C, fast enough not to bore
STEP_SECONDS = 0.03  # of `plan`
MAX_CHUNKS = 10_000  # of `count`


def introduce(turn: Turn, rest: str) -> None:
    turn.say("I am a scripted demo agent: a real ACP agent without a model behind it. Try one of these:\n")
    for group, each in GROUPS.items():
        lines = [f"- `{f'{name} {each[name].hint}'.strip()}`: {each[name].description}" for name in each]
        turn.say(f"\n**{group}**\n\n" + "\n".join(lines) + "\n")


def think(turn: Turn, rest: str) -> None:
    turn.think(rest or "There is nothing to think about.")
    turn.say("I have thought about it.")


def plan(turn: Turn, rest: str) -> None:
    steps = ["Read the request", "Do the work", "Report"]
    for done in range(len(steps) + 1):
        status = ["completed"] * done + ["in_progress"] + ["pending"] * len(steps)
        entries = [
            {"content": step, "priority": "medium", "status": state} for step, state in zip(steps, status, strict=False)
        ]
        turn.update("plan", entries=entries)
        turn.pause(STEP_SECONDS if done < len(steps) else 0)
    turn.say(f"All {len(steps)} steps of the plan are done.")


def count(turn: Turn, rest: str) -> None:
    if rest.isdecimal() and 1 <= int(rest) <= MAX_CHUNKS:
        say_slowly(turn, " ".join(map(str, range(1, int(rest) + 1))))
    else:
        turn.say(f"I count from 1 to a number up to {MAX_CHUNKS}: `count 20`.")


def say_slowly(turn: Turn, rest: str) -> None:
    for word in (rest or "Say `slowly` and the words to repeat.").split():
        turn.say(f"{word} ")
        turn.pause(CHUNK_SECONDS)


def tell_history(turn: Turn, rest: str) -> None:
    *before, _ = [record["turn"] for record in turn.session.records() if "turn" in record]
    last = f" The last prompt was: {before[-1]}" if before else ""
    turn.say(f"Before this one, the session had {len(before)} turn{'' if len(before) == 1 else 's'}.{last}")


def describe_attachments(turn: Turn, rest: str) -> None:
    blocks = [block for block in turn.blocks if block["type"] != "text"]
    for number, block in enumerate(blocks, 1):
        turn.say(f"{number}. {_describe(block)}\n")
    if not blocks:
        turn.say("Nothing is attached to this prompt.")


def _describe(block: Message) -> str:
    place = block.get("resource", block)
    uri, kind = place.get("uri"), place.get("mimeType") or "no type given"
    if isinstance(text := place.get("text"), str):
        return f"the text of {uri} ({len(text)} characters), which begins with: {text.partition(chr(10))[0][:60]}"
    if block["type"] == "resource":
        return f"the bytes of {uri} ({kind})"
    if block["type"] == "resource_link":
        return f"a link to {uri} ({kind})"
    return f"{block['type']} of type {kind}, {len(block['data'])} characters of base64"


def crash(turn: Turn, rest: str) -> None:
    turn.say("I am about to ")
    servers.stop(turn.session.servers)
    print("demo agent: crashing as requested", file=sys.stderr, flush=True)
    os._exit(3)


class Reply(NamedTuple):
    """A reply. `play` takes the turn and the rest of the prompt."""

    play: Callable[[Turn, str], None]
    hint: str
    description: str


GROUPS: dict[str, dict[str, Reply]] = {
    "Talking": {
        "help": Reply(introduce, "", "what I can do"),
        "think": Reply(think, "TEXT", "think before answering"),
        "plan": Reply(plan, "", "show a plan and carry it out"),
        "count": Reply(count, "N", "count slowly, so that you can cancel me"),
        "slowly": Reply(say_slowly, "TEXT", "say it word by word"),
        "history": Reply(tell_history, "", "how many turns this session has had: shows that it was loaded"),
        "look": Reply(describe_attachments, "", "describe what is attached to the prompt"),
    },
    "MCP servers": {
        "tools": Reply(tools.tools, "", "the MCP servers of this session and their tools"),
        "note": Reply(tools.note, "TEXT", "write a note with an MCP tool; asks for permission first"),
        "add": Reply(tools.add, "A B", "add two numbers with an MCP tool"),
        "call": Reply(tools.call, "SERVER TOOL {JSON}", "call any tool of any connected MCP server"),
        "repeat": Reply(tools.repeat, "N SERVER TOOL {JSON}", "the same, N times in a row: kill the server meanwhile"),
    },
    "Files and commands": {
        "edit": Reply(files.edit, "FILE [TEXT]", "add a line to a file; asks first, and shows the diff"),
        "shell": Reply(files.run, "COMMAND", "run a command in a terminal of the client; asks first"),
    },
    "You": {
        "form": Reply(files.ask, "", "a form with a field of each kind"),
        "crash": Reply(crash, "", "end in the middle of the turn, with exit status 3"),
    },
}
REPLIES = {name: each for group in GROUPS.values() for name, each in group.items()}
ALIASES = {"remember": "note"}


def list_commands() -> list[Message]:
    """Return the replies as slash commands."""
    return [
        {"name": name, "description": reply.description, **({"input": {"hint": reply.hint}} if reply.hint else {})}
        for name, reply in REPLIES.items()
    ]


def reply(turn: Turn, text: str) -> None:
    """Play the reply chosen by `text`. The first one waits for the servers, since a session may have only one turn."""
    if turn.session.turns == 1:
        tools.ready_servers(turn, FIRST)
    word, _, rest = text.removeprefix("/").partition(" ")
    name = word.strip().lower() if text else "help"
    chosen = REPLIES.get(ALIASES.get(name, name))
    if chosen is None:
        turn.say(f"You said: {text}\n\nI am a scripted demo without a model, so I can only repeat it. Try `help`.")
    else:
        chosen.play(turn, rest.strip())
    options = turn.session.options.values
    if options.get("verbose"):
        turn.say(f"\n\n(mode {options['mode']}, model {options['model']})")
