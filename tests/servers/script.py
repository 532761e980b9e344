"""
What the MCP servers in this directory share: messages, one on a line; calls that wait, in threads of their own; and
the liveness line.

They are run as `python -I -S tests/servers/NAME.py ARGS…`, standard library only. When `LIVENESS` names a port of
127.0.0.1, every process connects there and says `NAME PID`, and later in single words what a test waits for. The kernel
closes that line when the process dies, and not a moment earlier. `LIVENESS_NAME` is said instead of the program's name.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable

from tests.agents import script as agent

TYPE_CHECKING = False  # to import these takes a third of what such a program needs to start
if TYPE_CHECKING:
    import socket
    from typing import Any

Message = dict[str, "Any"]
Answer = Callable[[Message], None]

write, complain, hang, ignore = agent.write, agent.complain, agent.hang, agent.ignore
_lines: "list[socket.socket]" = []
_answered = threading.Condition()
_answers: dict[str, Message] = {}


def name(default: str) -> str:
    return os.environ.get("LIVENESS_NAME", default)


def hello(name: str) -> None:
    """Forked processes call it again: each has a line of its own."""
    for line in _lines:
        line.close()
    _lines.clear()
    if port := os.environ.get("LIVENESS"):
        import socket

        from tests.patience import PATIENCE

        line = socket.create_connection(("127.0.0.1", int(port)), timeout=PATIENCE)
        line.settimeout(None)
        _lines.append(line)
        tell(f"{name} {os.getpid()}")


def tell(text: str) -> None:
    """One line to the test."""
    for line in _lines:
        line.sendall(text.encode() + b"\n")


def send(message: object) -> None:
    write(json.dumps(message, ensure_ascii=False).encode() + b"\n")


def answer(request: Message, result: object) -> None:
    send({"jsonrpc": "2.0", "id": request["id"], "result": result})


def refuse(request: Message, code: int, text: str) -> None:
    send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": text}})


def notify(method: str, params: Message | None = None) -> None:
    send({"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params}))


def ask(method: str, params: Message, *, identity: object) -> Message:
    """Send a request to the client and return its response. Only in a thread `apart`: the main one reads."""
    send({"jsonrpc": "2.0", "id": identity, "method": method, "params": params})
    with _answered:
        _answered.wait_for(lambda: json.dumps(identity) in _answers)
        return _answers.pop(json.dumps(identity))


def apart(answer: Answer, request: Message) -> None:
    """In a thread of its own, which ends with the program at the latest."""
    threading.Thread(target=answer, args=(request,), daemon=True).start()


def read() -> "tuple[Any, bytes] | None":
    """The next message or batch and the line it came in; None at the end of input. What is no JSON is skipped."""
    while line := sys.stdin.buffer.readline():
        try:
            return json.loads(line), line
        except ValueError:
            continue
    return None


def with_line(message: Message, line: bytes) -> Message:
    """A request knows how it was written."""
    return message | {"line": line.decode()} if "method" in message else message


def take(message: Message, answers: dict[str, Answer]) -> None:
    """Answer one message; a response goes to whoever asked."""
    method = message.get("method")
    if method is None:
        with _answered:
            _answers[json.dumps(message.get("id"))] = message
            _answered.notify_all()
    elif method in answers:
        answers[method](message)
    elif "id" in message:
        refuse(message, -32601, f"no method {method}")


def serve(answers: dict[str, Answer]) -> None:
    """Until the end of input; `ping` is understood by all."""
    methods: dict[str, Answer] = {"ping": lambda request: answer(request, {}), **answers}
    while (found := read()) is not None:
        message, line = found
        if isinstance(message, dict):
            take(with_line(message, line), methods)


def leave_behind(act: Callable[[], object]) -> None:
    """Do this in a double-forked daemon, which belongs to nobody and ignores TERM, INT and HUP."""
    if first := os.fork():
        os.waitpid(first, 0)
        return
    os.setsid()
    if os.fork() == 0:
        ignore(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        act()
        hang()
    os._exit(0)
