"""
The server of tests.soak, run with -I -S: one thread, which answers in order. What it does besides is asked of it.

`initialize` and `ping` are answered; argv `crash` dies before it reads anything, `loud` complains of each line it
reads, `eager` floods before it reads. Tools: `echo` {text}; `die`;
`hold` {path} reads nothing until that fifo was written; `flood` {bytes, size, stuck} sends that much in numbered
notifications of that size, and complains once when for `stuck` ms (half a second) nobody takes any; `shut` {descriptor}
closes its stdin or stdout and lives on.
"""

import json
import os
import select
import signal
import sys
from collections.abc import Callable
from typing import Any

HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "soak", "version": "1"},
}
STUCK = 500  # ms
EAGER = 24_000_000  # bytes
Json = dict[str, Any]


def main() -> None:
    if "crash" in sys.argv:
        complain("crashing, as asked")
        os._exit(3)
    if "eager" in sys.argv:
        flood(EAGER, 4_000)
    is_loud = "loud" in sys.argv
    for line in sys.stdin.buffer:
        if is_loud:
            complain(f"heard {len(line)} bytes")
        take(json.loads(line))


def take(message: Json) -> None:
    if "id" not in message:
        return
    if message["method"] == "initialize":
        answer(message, HELLO)
    elif message["method"] == "tools/call":
        params = message["params"]
        said = TOOLS[params["name"]](**params["arguments"])
        answer(message, {"content": [{"type": "text", "text": said}]})
    else:
        answer(message, {})


def answer(request: Json, result: Json) -> None:
    write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode() + b"\n")


def write(data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(1, left) :]


def complain(text: str) -> None:
    os.write(2, text.encode() + b"\n")


def echo(text: str = "") -> str:
    return text


def die() -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return "unreachable"


def hold(path: str) -> str:
    complain("holding")
    with open(path) as fifo:  # noqa: PTH123
        return fifo.read()


def flood(bytes: int, size: int, stuck: int = STUCK) -> str:
    """`size` is at most what a pipe takes whole: a write of that much does not block when there is room."""
    poll = select.poll()
    poll.register(1, select.POLLOUT)
    was_stuck = False
    for number in range(bytes // size):
        if not was_stuck and not poll.poll(stuck):
            was_stuck = True
            complain(f"stuck after {number * size} bytes")
        write(numbered(number, size))
    return f"{bytes // size} sent"


def numbered(number: int, size: int) -> bytes:
    head = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%d ' % number
    return head + b"x" * (size - len(head) - 4) + b'"}}\n'


def shut(descriptor: int) -> str:
    os.close(descriptor)
    complain(f"closed {descriptor}")
    while True:
        signal.pause()


TOOLS: dict[str, Callable[..., str]] = {
    "echo": echo,
    "die": die,
    "hold": hold,
    "flood": flood,
    "shut": shut,
}

if __name__ == "__main__":
    main()
