"""
What we answer in a server's place: JSON-RPC errors that say which server, what happened to it, and what comes next.

The code is one of the range JSON-RPC leaves to implementations and MCP 2026-07-28 leaves free (-32000 to -32019).
"""

from collections.abc import Sequence

from msgspec import Raw, Struct

from acp_launch.process.change import Change
from acp_launch.protocol.written import written

SERVER_LOST = -32010
TIMED_OUT = -32011
AGAIN, NOT_STARTED = "it is being started again", "could not be started"
BROKEN = "this message was not passed on, by a bug in acp-launch"
WORDS = 5  # stderr lines repeated in a message: agents mostly show nothing but the message


class Lost(Struct, frozen=True, kw_only=True):
    """Why a server cannot answer now; `comes_back` is what happens next, empty when nothing does."""

    server: str
    why: str
    comes_back: str = ""
    stderr: Sequence[str] = ()

    def line(self, id: Raw, method: str, *, was_sent: bool) -> bytes:
        """The answer to request `id`; `was_sent` tells whether the server may have begun with it."""
        during = f" during {method}, whose outcome is unknown" if was_sent else ""
        message = f'MCP server "{self.server}" {self.why}{during}'
        if self.comes_back:
            message += f"; {self.comes_back}"
        elif self.stderr:
            message += "; its last words: " + " / ".join(self.stderr[-WORDS:])
        return error(id, SERVER_LOST, message, {"server": self.server, "stderr": list(self.stderr)})


def lost(change: Change, name: str) -> Lost:
    """For the agent's ears: what could not be started is not for them, its path included."""
    if change.state == "resting":
        return Lost(server=name, why=change.exit or NOT_STARTED, comes_back=AGAIN, stderr=change.detail)
    why = "; ".join(filter(None, (change.exit, change.reason))) if change.exit else NOT_STARTED
    return Lost(server=name, why=f"failed: {why}", stderr=change.detail)


def error(id: Raw, code: int, message: str, data: object = None) -> bytes:
    """A JSON-RPC error as one line without its end."""
    body: dict[str, object] = {"code": code, "message": message}
    if data is not None:
        body["data"] = data
    return written({"jsonrpc": "2.0", "id": id, "error": body})


def result(id: Raw, value: object) -> bytes:
    return written({"jsonrpc": "2.0", "id": id, "result": value})


def request(id: bytes, method: str, params: object | None = None) -> bytes:
    body: dict[str, object] = {"jsonrpc": "2.0", "id": Raw(id), "method": method}
    if params is not None:
        body["params"] = params
    return written(body)


def notification(method: str, params: object | None = None) -> bytes:
    body: dict[str, object] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        body["params"] = params
    return written(body)
