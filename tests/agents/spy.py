"""An agent that evaluates each line of a prompt as Python, and says the value as JSON: what it can see and do."""

import ctypes
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script
from tests.agents.mcp_connection import Server
from tests.agents.script import Message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

entries: dict[str, Message] = {}


def processes() -> dict[str, str]:
    """Every other process that is to be seen, with its environment as far as that can be read."""
    found = {}
    for pid in (each.name for each in Path("/proc").iterdir() if each.name.isdecimal()):
        if int(pid) != os.getpid():
            found[pid] = attempt(lambda pid=pid: read(f"/proc/{pid}/cmdline") + read(f"/proc/{pid}/environ"))
    return found


def attempt(do: "Any") -> "Any":
    try:
        return do()
    except OSError as error:
        return error.strerror


def read(path: str) -> str:
    return Path(path).read_bytes().decode(errors="replace")


def write(path: str, text: str = "x") -> str:
    """Write a file; the reason if that is refused."""
    return str(attempt(lambda: f"{Path(path).write_text(text)} written"))


def tree(top: str) -> list[str]:
    """All that lies below a directory."""
    return sorted(map(str, Path(top).rglob("*")))


def reach(address: "Any") -> str:
    """Connect to a path, to an abstract socket (`@NAME`), or to a port of 127.0.0.1."""
    is_port = isinstance(address, int)
    with socket.socket(socket.AF_INET if is_port else socket.AF_UNIX) as line:
        where = ("127.0.0.1", address) if is_port else address.replace("@", "\0", 1)
        return "connected" if line.connect_ex(where) == 0 else "refused"


def trace(pid: int) -> str:
    """Attach to a process with ptrace(2), as a debugger does, and let it go; 0 is a child that waits."""
    libc = ctypes.CDLL(None, use_errno=True)
    child = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) if pid == 0 else None
    failed = libc.ptrace(16, child.pid if child else pid, None, None)
    why = os.strerror(ctypes.get_errno())
    if child:
        child.kill()
        child.wait()
    return why if failed else "attached"


def run(*argv: str) -> str:
    """What a command prints, run by this agent itself."""
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout.strip()


def served(command: str, **more: "Any") -> Message:
    """The output and the status of a command that the client runs."""
    session = {"sessionId": "session-1"}
    made = script.ask("terminal/create", {**session, "command": command, **more}, identity=1)
    if "error" in made:
        return made
    terminal = {**session, "terminalId": made["result"]["terminalId"]}
    script.ask("terminal/wait_for_exit", terminal, identity=2)
    return dict(script.ask("terminal/output", terminal, identity=3)["result"])


def call(server: str, tool: str, **arguments: "Any") -> str:
    """The text that a tool of a server answers with."""
    line = Server(entries[server])
    line.begin()
    line.finish()
    answer = line.answer(line.request("tools/call", {"name": tool, "arguments": arguments}))
    return str(json.loads(answer or b"null"))


def session(request: Message) -> None:
    entries.update({entry["name"]: entry for entry in request["params"]["mcpServers"] if "command" in entry})
    script.new(request)


def turn(request: Message) -> None:
    for line in script.said(request).splitlines():
        script.say(script.session_of(request), json.dumps(eval(line)) + "\n")
    script.end(request)


script.serve({"session/new": session, "session/prompt": turn})
