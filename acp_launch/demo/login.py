"""
The login of the demo agent, which is required only with ACP_LAUNCH_DEMO_LOGIN=1 (ACP v1 "authentication").

Three methods lead to the same state, so that each can be tried: `authenticate`; this program run with `--login` on a
terminal; and DEMO_TOKEN in the environment. The state, a login without a name, is a file in the demo directory.
"""

import os
import sys
from pathlib import Path

from acp_launch.demo import home
from acp_launch.demo import params as read
from acp_launch.demo.turn import ClientOffers
from acp_launch.demo.wire import AUTH_REQUIRED, INVALID_PARAMS, Message, RpcError

TOKEN = "DEMO_TOKEN"
WORD = "demo"

AGENT: Message = {"id": "demo-agent", "name": "Log in at once", "description": "Does not ask anything"}
TERMINAL: Message = {
    "type": "terminal",
    "id": "demo-terminal",
    "name": "Log in on the terminal",
    "description": "Asks for a word",
    "args": ["--login"],
}
# No longer in the protocol, but agents still send it.
ENVIRONMENT: Message = {
    "type": "env_var",
    "id": "demo-token",
    "name": "A token in the environment",
    "vars": [{"name": TOKEN, "label": "Any text"}],
}


def is_done() -> bool:
    return bool(os.environ.get(TOKEN)) or _file().exists()


def methods(offered: ClientOffers) -> list[Message]:
    return [AGENT, *([TERMINAL] if offered.terminal_login else []), ENVIRONMENT]


def authenticate(params: Message) -> Message:
    method = read.text(params, "methodId")
    if method == AGENT["id"]:
        _remember()
        return {}
    if method != ENVIRONMENT["id"]:
        raise RpcError(INVALID_PARAMS, f"authenticate takes {AGENT['id']} or {ENVIRONMENT['id']}, not {method[:64]!r}")
    if not os.environ.get(TOKEN):
        raise RpcError(AUTH_REQUIRED, f"{TOKEN} is not in this agent's environment")
    return {}


def logout(params: Message) -> Message:
    """Forget the login. DEMO_TOKEN belongs to the environment, and stays."""
    _file().unlink(missing_ok=True)
    return {}


def converse() -> int:
    """Run `--login`: ask on the terminal; return the exit status."""
    if not sys.stdin.isatty():
        print("the demo agent needs a terminal to log in", file=sys.stderr)
        return 1
    try:
        word = input(f"Demo agent: type the word {WORD} to log in: ")
    except (EOFError, KeyboardInterrupt):
        print("\nnot logged in")
        return 1
    if word.strip() != WORD:
        print(f"{word.strip()!r} is not the word; not logged in")
        return 1
    _remember()
    print("logged in")
    return 0


def _remember() -> None:
    _file().touch(mode=0o600)


def _file() -> Path:
    return home.directory() / "login"
