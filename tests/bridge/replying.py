"""An HTTP request without HTTP, and a server's side without a server, for the sans-IO half of our HTTP server."""

import json
from typing import Any

from tests.bridge.fronted import events

Json = dict[str, Any]


class Said:
    """The answer to one request, as it was given."""

    def __init__(self) -> None:
        self.is_open = self.is_gone = self.is_full = self.is_over = False
        self.status, self.session, self.text = 0, "", b""

    def answer(self, status: int, body: bytes = b"") -> None:
        assert not (self.is_open or self.is_over)
        self.status, self.text, self.is_over = status, body, True

    def open(self, session: str) -> None:
        assert not (self.is_open or self.is_over)
        self.status, self.session, self.is_open = 200, session, True

    def write(self, event: bytes) -> None:
        assert self.is_open
        assert not self.is_over
        self.text += event

    def end(self) -> None:
        assert self.is_open
        self.is_over = True

    @property
    def messages(self) -> list[Json]:
        if self.is_open:
            return [json.loads(event["data"]) for event in events(self.text) if event.get("data")]
        said = json.loads(self.text) if self.text else []
        return said if isinstance(said, list) else [said]


class Server:
    """What the server was sent."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def send(self, line: bytes) -> None:
        self.lines.append(line)

    def take(self) -> list[Json]:
        taken, self.lines = self.lines, []
        return [json.loads(line) for line in taken]


def line(**message: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()
