"""Wants a login before session/new. `login.py STORE METHOD...`: it is logged in while the file STORE exists.

agent      `authenticate` does it, after a word on stderr        refusing   refuses to
deaf       never answers `authenticate`                          two        another `agent`
terminal   this program with `--login ask` does it, on a terminal, where the client has one; `terminal:raw`,
           `terminal:wait` and `terminal:fail` are programs that do not, and `terminal:lie` says it did;
           `terminal:look` says which terminal it has, as often as its size changes
key        reads LOGIN_KEY, and optionally LOGIN_REGION; is content with `authenticate` once it has one
legacy     a command line of its own, which does it at once
naming     is content with `authenticate` once it has OPENAI_API_KEY; until then its errors name that
http       takes http servers
internal   answers session/new with an error that does not say why, and `loud` with a word on stderr
stays      does not offer to log out
"""

import os
import signal
import sys
import tty
from pathlib import Path

sys.path.insert(0, __file__.rsplit("/", 3)[0])
from tests.agents import script

store, *kinds = sys.argv[1:]
METHODS: dict[str, script.Message] = {
    "agent": {"id": "browser", "name": "Browser", "description": "Opens a page"},
    "two": {"id": "device", "name": "Device code"},
    "refusing": {"id": "never", "name": "Never"},
    "deaf": {"id": "deaf", "name": "Deaf"},
    "key": {
        "id": "key",
        "name": "API key",
        "type": "env_var",
        "vars": [{"name": "LOGIN_KEY", "label": "your key"}, {"name": "LOGIN_REGION", "optional": True}],
        "link": "https://example.com/keys",
    },
    "naming": {"id": "openai", "name": "OpenAI"},
    "legacy": {
        "id": "old",
        "name": "Old way",
        "_meta": {"terminal-auth": {"command": "touch", "args": [f"{store}"], "env": {"WAY": "an old one"}}},
    },
}


def terminal_method(kind: str) -> script.Message:
    way = kind.partition(":")[2] or "ask"
    return {"id": "tty", "name": "Terminal", "type": "terminal", "args": ["--login", way], "env": {"WAY": "new"}}


def initialize(request: script.Message) -> None:
    can = request["params"]["clientCapabilities"].get("auth", {}).get("terminal") is True
    methods = [METHODS[kind] for kind in kinds if kind in METHODS]
    methods += [terminal_method(kind) for kind in kinds if kind.startswith("terminal") and can]
    able: script.Message = {} if "stays" in kinds else {"auth": {"logout": {}}}
    able |= {"mcpCapabilities": {"http": True}} if "http" in kinds else {}
    about = {"name": "test-agent", "version": "1.0.0"}
    script.answer(
        request, {"protocolVersion": 1, "agentCapabilities": able, "agentInfo": about, "authMethods": methods}
    )


def authenticate(request: script.Message) -> None:
    way = request["params"]["methodId"]
    if way == "never":
        script.refuse(request, -32603, "the account is closed")
    elif way == "key" and not os.environ.get("LOGIN_KEY"):
        script.refuse(request, -32000, "no key")
    elif way == "openai" and not os.environ.get("OPENAI_API_KEY"):
        script.refuse(request, -32603, "Internal error", details="Missing environment variable OPENAI_API_KEY")
    elif way != "deaf":
        script.complain("open \x1b[31mhttps://example.com/login")
        Path(store).touch()
        script.answer(request, {})


def logout(request: script.Message) -> None:
    if not Path(store).exists():
        script.refuse(request, -32000, "not logged in")
        return
    Path(store).unlink()
    script.answer(request, {})


def new(request: script.Message) -> None:
    if Path(store).exists():
        script.new(request)
    elif "internal" in kinds:
        if "loud" in kinds:
            script.complain("something is wrong")
        script.refuse(request, -32603, "Internal error", startupFailureReason="bypass_root")
    elif "naming" in kinds:
        script.refuse(request, -32603, "Internal error", details="set OPENAI_API_KEY (INVALID_API_KEY)")
    else:
        script.refuse(request, -32000, "Authentication required")


def look() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])
    for _ in range(2):
        size, number = os.get_terminal_size(0), os.minor(os.fstat(0).st_rdev)
        is_front = os.tcgetpgrp(0) == os.getpgrp()
        sys.stderr.write(f"terminal {number}, {size.columns} x {size.lines}, in front: {is_front}\n")
        sys.stderr.flush()
        signal.sigwait([signal.SIGWINCH])


def converse(way: str) -> int:
    """What `--login` does, on the terminal."""
    sys.stderr.write(f"{way}, {os.environ.get('WAY')}: ")
    sys.stderr.flush()
    if way == "raw":
        tty.setraw(0)
        os.kill(os.getpid(), signal.SIGKILL)
    if way == "look":
        look()
    if way == "wait":
        script.hang()
    if way == "lie":
        return 0
    if way == "fail" or sys.stdin.readline().strip() != "please":
        return 3
    Path(store).touch()
    return 0


if "--login" in kinds:
    raise SystemExit(converse(kinds[-1]))
script.serve({"initialize": initialize, "authenticate": authenticate, "logout": logout, "session/new": new})
