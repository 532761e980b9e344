"""
The replies of the demo agent. There is no model: the first word of the prompt chooses one of the replies below.

A reply streams into its turn, and reports its errors as text. Its module is imported at the first use, so that the
agent starts fast. The agent of the tests has more of them (tests/agents/demo.py).
"""

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from acp_launch.demo import tools
from acp_launch.demo.turn import Turn
from acp_launch.demo.wire import Message

FIRST = 1.0  # seconds for servers to start before a session's first answer

INTRODUCTION = "I am a scripted demo agent: a real ACP agent without a model behind it. Try one of these:\n"


class Reply(NamedTuple):
    """A reply. `play` takes the turn and the rest of the prompt; it is named by its module here, or is a function."""

    play: str | Callable[[Turn, str], None]
    hint: str
    description: str


GROUPS: dict[str, dict[str, Reply]] = {
    "Talking": {
        "help": Reply("replies.introduce", "", "what I can do"),
        "markdown": Reply("talk.markdown", "", "headings, lists, a table, code"),
        "think": Reply("talk.think", "TEXT", "think before answering"),
        "plan": Reply("talk.plan", "", "show a plan and carry it out"),
        "count": Reply("talk.count", "N", "count slowly, so that you can cancel me"),
        "slowly": Reply("talk.slowly", "TEXT", "say it word by word"),
        "history": Reply("talk.history", "", "how many turns this session has had: shows that it was loaded"),
        "where": Reply("talk.where", "", "the directories this session works in"),
        "look": Reply("talk.look", "", "describe what is attached to the prompt"),
    },
    "MCP servers": {
        "tools": Reply("tools.tools", "", "the MCP servers of this session and their tools"),
        "note": Reply("tools.note", "TEXT", "write a note with an MCP tool; asks for permission first"),
        "notes": Reply("tools.notes", "", "read the notes back with an MCP tool"),
        "add": Reply("tools.add", "A B", "add two numbers with an MCP tool"),
        "call": Reply("tools.call", "SERVER TOOL {JSON}", "call any tool of any connected MCP server"),
        "repeat": Reply(
            "tools.repeat", "N SERVER TOOL {JSON}", "the same, N times in a row: kill the server meanwhile"
        ),
    },
    "Files and commands": {
        "read": Reply("files.read", "FILE [LINE [COUNT]]", "read a file, through the client if it serves files"),
        "edit": Reply("files.edit", "FILE [TEXT]", "add a line to a file; asks first, and shows the diff"),
        "shell": Reply("files.shell", "COMMAND", "run a command in a terminal of the client; asks first"),
    },
    "Asking you": {
        "unasked": Reply("asking.unasked", "", "a command I pretend to run without asking"),
        "form": Reply("asking.form", "", "a form with a field of each kind"),
    },
    "The session": {
        "mode": Reply("talk.mode", "[MODE]", "show the session options, or change the mode"),
    },
    "Trouble": {
        "crash": Reply("talk.crash", "", "end in the middle of the turn, with exit status 3"),
    },
}
REPLIES = {name: each for group in GROUPS.values() for name, each in group.items()}
ALIASES = {"remember": "note", "slow": "count"}


def reply(turn: Turn, text: str, *, is_first: bool) -> None:
    """Play the reply chosen by `text`. The first one waits for the servers, since a session may have only one turn."""
    if is_first:
        tools.ready_servers(turn, FIRST)
    word, _, rest = text.removeprefix("/").partition(" ")
    name = word.strip().lower() if text else "help"
    chosen = REPLIES.get(ALIASES.get(name, name))
    if chosen is None:
        _echo(turn, text)
    else:
        _play(chosen, turn, rest.strip())
    names = [_name(block) for block in turn.blocks if block["type"] != "text"]
    if names and chosen is not REPLIES["look"]:
        turn.say(f"\n\nAttached: {', '.join(names)}")
    if turn.session.options.verbose:
        turn.say(f"\n\n(mode {turn.session.options.mode}, model {turn.session.options.model})")


def introduce(turn: Turn, rest: str) -> None:
    turn.say(INTRODUCTION)
    for group, replies in GROUPS.items():
        lines = [f"- `{f'{name} {each.hint}'.strip()}`: {each.description}" for name, each in replies.items()]
        turn.say(f"\n**{group}**\n\n" + "\n".join(lines) + "\n")


def _play(chosen: Reply, turn: Turn, rest: str) -> None:
    play = chosen.play
    if isinstance(play, str):
        module, _, function = play.partition(".")
        play = getattr(import_module(f"acp_launch.demo.{module}"), function)
    play(turn, rest)


def _echo(turn: Turn, text: str) -> None:
    turn.say(f"You said: {text}\n\nI am a scripted demo without a model, so I can only repeat it. Try `help`.")


def _name(block: Message) -> str:
    """Return a short name of an attachment."""
    uri = block.get("uri") or block.get("resource", {}).get("uri")
    return str(block.get("name") or uri or f"{block['type']} ({block.get('mimeType')})")
