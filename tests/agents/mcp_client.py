"""An agent that opens the stdio MCP servers it is given, as agents do, and does with them what a test says.

argv: `handshake=now` (default: at session/new), `lazy` (before the first request) or `never`; `version=V`, which it
asks of MCP (default 2025-06-18); `roots=/a,/b`, `sampling`, `elicitation`: what it declares, and then answers;
`hold=METHOD`, what it is asked and leaves unanswered; `only=A,B`, the servers it opens of those it is given.

The servers get PATH, HOME and their entry's env, nothing else. A prompt is a list of commands, one on a line; each is
answered with one line of JSON as a message of the agent. With `obey` the commands come from the liveness line instead
(`LIVENESS`, where the agent has said `agent PID`) and are answered there, until `end`. JSON arguments hold no newline.

    call SERVER TOOL [JSON]     a tool's answer, whole        ask SERVER METHOD [JSON]    any request's answer
    start SERVER TOOL [JSON]    without waiting: its id       await                       the answers of those started
    notify SERVER METHOD [JSON]                               raw SERVER LINE             sends exactly this line
    answer SERVER ID            the answer with this id       expect SERVER METHOD        the next message with it
    heard SERVER                all that was no answer        opened SERVER               its answer to `initialize`
    close SERVER                closes its stdin: the shim's exit status, once it has ended
    reopen SERVER               once more, and shakes hands   open SERVER AS              a second connection
    gone SERVER                 waits until it ends: the exit status
    pids                        of agent, parent and shims    entries                     what session/new said
    environment                 the agent's own

An answer is {"line": TEXT}, the line as it came; from LONG bytes on {"bytes": N, "sha256": …}; {"lost": true} when the
connection ended first. `batch` is the method of an array.
"""

import hashlib
import json
import os
import socket
import sys
import threading
from collections.abc import Callable
from typing import IO, Any

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script
from tests.agents.mcp_connection import Server, news, options
from tests.agents.script import Message

LONG = 100_000  # bytes
servers: dict[str, Server] = {}
entries: dict[str, Message] = {}
started: list[tuple[Server, str]] = []
turns: list[Message] = []
ended: set[int | str] = set()


def shown(line: bytes | None) -> Message:
    if line is None:
        return {"lost": True}
    if len(line) < LONG:
        return {"line": line.decode()}
    return {"bytes": len(line), "sha256": hashlib.sha256(line).hexdigest()}


def params(text: str) -> Message:
    return dict(json.loads(text)) if text else {}


def tool(text: str) -> tuple[Server, Message]:
    server, _, rest = text.partition(" ")
    name, _, arguments = rest.partition(" ")
    return servers[server].introduced(), {"name": name, "arguments": params(arguments)}


def words(text: str, count: int) -> list[str]:
    """The last one is the rest."""
    return [*text.split(" ", count - 1), *[""] * count][:count]


def call(text: str) -> Message:
    server, asked = tool(text)
    return shown(server.answer(server.request("tools/call", asked)))


def start(text: str) -> Message:
    server, asked = tool(text)
    started.append((server, server.request("tools/call", asked)))
    return {"id": json.loads(started[-1][1])}


def await_(text: str) -> list[Message]:
    answers = [shown(server.answer(key)) for server, key in started]
    started.clear()
    return answers


def ask(text: str) -> Message:
    name, method, rest = words(text, 3)
    server = servers[name].introduced()
    return shown(server.answer(server.request(method, params(rest))))


def notify(text: str) -> Message:
    name, method, rest = words(text, 3)
    servers[name].introduced().notify(method, params(rest))
    return {}


def raw(text: str) -> Message:
    name, line = words(text, 2)
    servers[name].write(line.encode())
    return {}


def answer(text: str) -> Message:
    name, key = words(text, 2)
    return shown(servers[name].answer(key))


def expect(text: str) -> Message:
    name, method = words(text, 2)
    return shown(servers[name].expect(method))


def open_(name: str, entry: Message) -> Message:
    server = servers[name] = Server(entry)
    if options.get("handshake", "now") == "now":
        server.begin()
        server.finish()
    return shown(server.introduction())


def open_as(text: str) -> Message:
    name, alias = words(text, 2)
    entries[alias] = entries[name]
    return open_(alias, entries[name])


def close(text: str) -> Message:
    servers[text].close()
    return {"status": servers[text].status()}


def pids(text: str) -> Message:
    shims = {name: server.pid for name, server in servers.items()}
    return {"agent": os.getpid(), "parent": os.getppid(), "shims": shims}


COMMANDS: dict[str, Callable[[str], Any]] = {
    "call": call,
    "ask": ask,
    "start": start,
    "await": await_,
    "notify": notify,
    "raw": raw,
    "answer": answer,
    "expect": expect,
    "heard": lambda text: [shown(line) for line in servers[text].heard()],
    "opened": lambda text: shown(servers[text].introduction()),
    "open": open_as,
    "reopen": lambda text: open_(text, entries[text]),
    "close": close,
    "gone": lambda text: {"status": servers[text].status()},
    "pids": pids,
    "entries": lambda text: entries,
    "environment": lambda text: dict(os.environ),
}


def obeyed(line: str) -> str:
    """One command, and what came of it. Whatever goes wrong is an answer too: a test waits for it."""
    command, _, rest = line.partition(" ")
    try:
        return json.dumps(COMMANDS[command](rest))
    except Exception as error:
        return json.dumps({"failed": f"{line[:200]}: {error!r}"})


def session(request: Message) -> None:
    entries.update({entry["name"]: entry for entry in request["params"]["mcpServers"] if "command" in entry})
    wanted = options["only"].split(",") if "only" in options else entries
    servers.update({name: Server(entries[name]) for name in wanted})
    if options.get("handshake", "now") == "now":
        for server in servers.values():
            server.begin()
        for server in servers.values():
            server.finish()
    script.new(request)


def turn(request: Message) -> None:
    for line in script.said(request).splitlines():
        if line == "obey":
            obey()
        else:
            script.say(script.session_of(request), obeyed(line) + "\n")
    end(request, "end_turn")


def end(request: Message, reason: str) -> None:
    """Each turn ends once: when it is done, or when it is cancelled."""
    with news:
        if request["id"] not in ended:
            ended.add(request["id"])
            script.end(request, reason)


def begin(request: Message) -> None:
    turns.append(request)
    apart(turn)(request)


def cancel(message: Message) -> None:
    """At once, whatever a command still waits for."""
    for request in turns:
        end(request, "cancelled")


def obey() -> None:
    for line in liveness:
        if line == "end\n":
            return
        liveness.write(obeyed(line.rstrip("\n")) + "\n")
        liveness.flush()


def hello() -> IO[str]:
    line = socket.create_connection(("127.0.0.1", int(os.environ["LIVENESS"])), timeout=10)
    line.settimeout(None)
    line.sendall(f"agent {os.getpid()}\n".encode())
    return line.makefile("rw", encoding="utf-8", newline="\n")


def apart(act: script.Answer) -> script.Answer:
    """The main thread goes on reading, so that the end of input ends us at any moment, as it does real agents."""
    return lambda request: threading.Thread(target=act, args=(request,), daemon=True).start()


liveness = hello() if "LIVENESS" in os.environ else open(os.devnull, "r+")  # noqa: PTH123, SIM115
script.serve({"session/new": apart(session), "session/prompt": begin, "session/cancel": cancel})
os._exit(0)  # no thread is waited for
