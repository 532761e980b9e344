"""
Replies that use the client: its files (ACP v1 "file system"), its terminals (ACP v1 "terminals") and its forms (ACP v1
"elicitation").
"""

import os
from pathlib import Path

from acp_launch.demo.session import Turn
from acp_launch.demo.tools import ToolCall
from acp_launch.demo.wire import NOT_FOUND, Message, RpcError

LINE = "Edited by the demo agent."
OUTPUT = 100_000  # bytes of output to keep
TITLE = 200  # characters
NO_FILES = (
    "Your client does not serve files (clientCapabilities.fs), and I read no others."
    " In a profile, `client: {fs: true}` offers them."
)
NO_TERMINALS = (
    "Your client offers no terminals (clientCapabilities.terminal), so I cannot run anything."
    " In a profile, `client: {terminal: true}` offers them."
)
NO_FORMS = "Your client offers no forms (clientCapabilities.elicitation.form), so I cannot show one."

FIELDS: Message = {
    "name": {
        "type": "string",
        "title": "Name",
        "description": "Of the release",
        "minLength": 1,
        "maxLength": 40,
    },
    "ticket": {"type": "string", "title": "Ticket", "pattern": "^[A-Z]+-[0-9]+$", "default": "DEMO-1"},
    "email": {"type": "string", "title": "Notify", "format": "email"},
    "page": {"type": "string", "title": "Web page", "format": "uri"},
    "day": {"type": "string", "title": "Date", "format": "date"},
    "moment": {"type": "string", "title": "Date and time", "format": "date-time"},
    "channel": {"type": "string", "title": "Channel", "enum": ["stable", "beta", "nightly"], "default": "beta"},
    "size": {
        "type": "string",
        "title": "Size",
        "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}],
    },
    "copies": {"type": "integer", "title": "Copies", "minimum": 1, "maximum": 9, "default": 1},
    "share": {"type": "number", "title": "Share of users", "minimum": 0, "maximum": 1, "default": 0.5},
    "urgent": {"type": "boolean", "title": "Urgent", "default": False},
    "platforms": {
        "type": "array",
        "title": "Platforms",
        "minItems": 1,
        "items": {"type": "string", "enum": ["linux", "macos", "windows"]},
        "default": ["linux"],
    },
    "reviewers": {
        "type": "array",
        "title": "Reviewers",
        "maxItems": 2,
        "items": {"anyOf": [{"const": "a", "title": "Ada"}, {"const": "g", "title": "Grace"}]},
    },
}
REQUIRED = ["name", "channel", "copies", "platforms"]
FORM: Message = {
    "mode": "form",
    "message": "What should the next release be like?",
    "requestedSchema": {"type": "object", "title": "Release", "properties": FIELDS, "required": REQUIRED},
}


def edit(turn: Turn, rest: str) -> None:
    name, text = split_name(rest)
    if not name:
        turn.say("Name a file, and optionally the line to add: `edit notes.txt buy milk`.")
        return
    if not turn.session.offers("fs", "readTextFile") or not turn.session.offers("fs", "writeTextFile"):
        turn.say(NO_FILES)
        return
    path = absolute(turn, name)
    try:
        old: str | None = read_text(turn, path)
    except RpcError as error:
        if error.code != NOT_FOUND:
            turn.say(f"I could not read {name}: {error}")
            return
        old = None
    before = old or ""
    new = before + ("\n" if before and not before.endswith("\n") else "") + (text or LINE) + "\n"
    diff = {"type": "diff", "path": path, "oldText": old, "newText": new}
    location = {"path": path, "line": len(new.splitlines())}
    title = f"{'Create' if old is None else 'Edit'} {name}"
    with ToolCall(turn, title, "edit", {"path": path}, content=[diff], locations=[location]) as call:
        turn.say(call.refusal(("demo", "edit")) or _write(turn, name, diff, call))


def _write(turn: Turn, name: str, diff: Message, call: ToolCall) -> str:
    call.begin()
    try:
        turn.ask("fs/write_text_file", {"path": diff["path"], "content": diff["newText"]})
    except RpcError as error:
        call.end("failed", str(error))
        return f"I could not write {name}: {error}"
    call.end("completed", f"wrote {len(diff['newText'])} characters", keep=[diff])
    return f"{name} is written, through the client."


def split_name(rest: str) -> tuple[str, str]:
    """Split off the file name, which may be quoted and may be written as a mention."""
    rest = rest.removeprefix("@")
    name, _, after = rest[1:].partition('"') if rest.startswith('"') else rest.partition(" ")
    return name, after.strip()


def absolute(turn: Turn, name: str) -> str:
    return os.path.normpath(Path(turn.session.cwd, name))


def read_text(turn: Turn, path: str, **window: int) -> str:
    content = turn.ask("fs/read_text_file", {"path": path, **window}).get("content")
    return content if isinstance(content, str) else ""


def run(turn: Turn, rest: str) -> None:
    if not rest:
        turn.say("Name a command: `shell ls -l`.")
        return
    if not turn.session.offers("terminal"):
        turn.say(NO_TERMINALS)
        return
    with ToolCall(turn, rest[:TITLE], "execute", {"command": rest, "cwd": turn.session.cwd}) as call:
        turn.say(call.refusal(("demo", "shell")) or _run_in_terminal(turn, rest, call))


def _run_in_terminal(turn: Turn, command: str, call: ToolCall) -> str:
    """Run the command and return the result in words."""
    asked = {"command": "sh", "args": ["-c", command], "cwd": turn.session.cwd, "outputByteLimit": OUTPUT}
    try:
        terminal = {"terminalId": str(turn.ask("terminal/create", asked).get("terminalId"))}
    except RpcError as error:
        call.end("failed", str(error))
        return f"The client did not run it: {error}"
    shown: Message = {"type": "terminal", **terminal}
    call.begin(content=[shown])
    try:
        ended = turn.ask("terminal/wait_for_exit", terminal)
        said = turn.ask("terminal/output", terminal)
    except RpcError as error:
        call.end("failed", str(error), keep=[shown])
        return f"The terminal failed: {error}"
    finally:  # a cancelled turn ends its command too; the answer cannot change anything
        turn.open("terminal/release", terminal)
    outcome = f"signal {ended['signal']}" if ended.get("signal") else f"exit status {ended.get('exitCode')}"
    call.end("completed" if ended.get("exitCode") == 0 else "failed", outcome, keep=[shown])
    count = len(str(said.get("output") or "").splitlines())
    rest = ", without its beginning" if said.get("truncated") is True else ""
    return f"It ended with {outcome} and printed {count} line{'' if count == 1 else 's'}{rest}."


def ask(turn: Turn, rest: str) -> None:
    if not turn.session.offers("elicitation", "form"):
        turn.say(NO_FORMS)
        return
    try:
        answer = turn.ask("elicitation/create", FORM)
    except RpcError as error:
        turn.say(f"The client could not show the form: {error}")
        return
    content = answer.get("content")
    if answer.get("action") != "accept" or not isinstance(content, dict):
        turn.say(f"The form was not filled in ({answer.get('action')}).")
        return
    turn.say("You said:\n\n" + "".join(f"- {name}: {value!r}\n" for name, value in content.items()))
