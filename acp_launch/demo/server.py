"""
A small real MCP server over stdio, started as `python -I -m acp_launch.demo.server`: it stores notes and adds numbers.

It uses the standard library only, speaks the handshake versions of MCP (2024-11-05 to 2025-11-25), and ends with its
stdin.
"""

import sys
from collections.abc import Callable

import acp_launch
from acp_launch.demo.store import append, home
from acp_launch.demo.wire import INVALID_PARAMS, METHOD_NOT_FOUND, Message, RpcError, Wire, decode

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")  # newest first
NOTES = "notes.txt"


def add_note(arguments: Message) -> str:
    text = arguments.get("text")
    if not isinstance(text, str) or not text.strip():
        raise ValueError("text must be a string that is not empty")
    line = " ".join(text.split())  # a note is one line of the file
    append(home() / NOTES, line.encode("utf-8", "replace") + b"\n", create=True)
    return f"Noted: {line}"


def list_notes(arguments: Message) -> str:
    path = home() / NOTES
    lines = path.read_text("utf-8", "replace").splitlines() if path.exists() else []
    return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1)) or "There are no notes yet."


def add(arguments: Message) -> str:
    return str(_number(arguments, "a") + _number(arguments, "b"))


def _number(arguments: Message, name: str) -> float:
    value = arguments.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} must be a number")
    return value


def _describe(description: str, annotations: Message, **properties: str) -> Message:
    types = {name: {"type": kind} for name, kind in properties.items()}
    schema = {"type": "object", "properties": types, "required": list(types), "additionalProperties": False}
    return {"description": description, "inputSchema": schema, "annotations": annotations}


READS: Message = {"readOnlyHint": True}
WRITES: Message = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False}
TOOLS: dict[str, tuple[Callable[[Message], str], Message]] = {
    "add_note": (add_note, _describe("Append a note to the notes file", WRITES, text="string")),
    "list_notes": (list_notes, _describe("List all notes", READS)),
    "add": (add, _describe("Add two numbers", READS, a="number", b="number")),
}


def _initialize(params: Message) -> Message:
    wanted = params.get("protocolVersion")
    return {
        "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[0],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "acp-launch-notes", "version": acp_launch.__version__},
    }


def _call_tool(params: Message) -> Message:
    """Call a tool. Unknown tools and malformed calls are errors; a tool's failure is a result (MCP "tools")."""
    name, arguments = params.get("name"), params.get("arguments", {})
    if not isinstance(name, str) or name not in TOOLS:
        raise RpcError(INVALID_PARAMS, f"this server has no tool {name!r}")
    try:
        text, failed = TOOLS[name][0](arguments), False
    except (ValueError, OSError) as error:
        text, failed = str(error), True
    return {"content": [{"type": "text", "text": text}], "isError": failed}


METHODS: dict[str, Callable[[Message], Message]] = {
    "initialize": _initialize,
    "ping": lambda params: {},
    "tools/list": lambda params: {"tools": [{"name": name, **about} for name, (_, about) in TOOLS.items()]},
    "tools/call": _call_tool,
}


def answer(message: Message) -> Message | None:
    """Return the response to a request; None for other messages, which have none."""
    if "method" not in message or "id" not in message:
        return None
    try:
        if message["method"] not in METHODS:
            raise RpcError(METHOD_NOT_FOUND, f"this server has no method {message['method']}")
        return {"id": message["id"], "result": METHODS[message["method"]](message.get("params") or {})}
    except RpcError as error:
        return {"id": message["id"], "error": error.members()}


def main() -> None:
    wire = Wire(sys.stdout.fileno())
    try:
        for line in sys.stdin.buffer:
            try:
                response = answer(decode(line) or {})
            except RpcError as error:
                response = {"id": None, "error": error.members()}
            if response is not None:
                wire.send(response)
    except (BrokenPipeError, KeyboardInterrupt):
        print("the client closed our output", file=sys.stderr)


if __name__ == "__main__":
    main()
