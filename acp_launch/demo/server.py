"""
A small real MCP server over stdio, started as `python -I -m acp_launch.demo.server`: it stores notes and adds numbers.

It uses the standard library only, speaks the handshake versions of MCP (2024-11-05 to 2025-11-25), and ends with its
stdin.
"""

import sys
from collections.abc import Callable

import acp_launch
from acp_launch.demo.store import append, home
from acp_launch.demo.wire import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, Message, RpcError, Wire, decode

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")  # newest first
LONGEST = 10_000  # characters of a note
NOTES = "notes.txt"


def add_note(arguments: Message) -> str:
    text = arguments.get("text")
    if not isinstance(text, str) or not text.strip():
        raise ValueError("text must be a string that is not empty")
    if len(text) > LONGEST:
        raise ValueError(f"text has {len(text)} characters; a note has at most {LONGEST}")
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


class Server:
    """The server's methods."""

    def __init__(self) -> None:
        self._initialized = False
        self._methods: dict[str, Callable[[Message], Message]] = {
            "initialize": self._initialize,
            "ping": lambda params: {},
            "tools/list": lambda params: {"tools": [{"name": name, **about} for name, (_, about) in TOOLS.items()]},
            "tools/call": _call_tool,
        }

    def answer(self, message: Message) -> Message | None:
        """Return the response to a request; None for other messages, which have none."""
        if "method" not in message or "id" not in message:
            return None
        try:
            return {"id": message["id"], "result": self._call_method(message["method"], message.get("params", {}))}
        except RpcError as error:
            return {"id": message["id"], "error": error.members()}

    def _call_method(self, method: str, params: object) -> Message:
        if method not in self._methods:
            raise RpcError(METHOD_NOT_FOUND, f"this server has no method {method}")
        if not self._initialized and method not in {"initialize", "ping"}:
            raise RpcError(INVALID_REQUEST, f"initialize comes before {method}")
        if not isinstance(params, dict):
            raise RpcError(INVALID_PARAMS, "params must be an object")
        return self._methods[method](params)

    def _initialize(self, params: Message) -> Message:
        wanted = params.get("protocolVersion")
        if not isinstance(wanted, str):
            raise RpcError(INVALID_PARAMS, "protocolVersion must be a string")
        self._initialized = True
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
    if not isinstance(arguments, dict):
        raise RpcError(INVALID_PARAMS, "arguments must be an object")
    try:
        text, failed = TOOLS[name][0](arguments), False
    except (ValueError, OSError) as error:
        text, failed = str(error), True
    return {"content": [{"type": "text", "text": text}], "isError": failed}


def main() -> None:
    server, wire = Server(), Wire(sys.stdout.fileno())
    try:
        for line in sys.stdin.buffer:
            try:
                answer = server.answer(decode(line) or {})
            except RpcError as error:
                answer = {"id": None, "error": error.members()}
            if answer is not None:
                wire.send(answer)
    except (BrokenPipeError, KeyboardInterrupt):
        print("the client closed our output", file=sys.stderr)


if __name__ == "__main__":
    main()
