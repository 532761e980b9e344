"""An MCP server over HTTP, for a test: one tool that tells what headers it was called with, and one that never ends."""

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.patience import PATIENCE

SESSION = "s-1"
TOOLS = [
    {"name": "headers", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "forever", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
]


class Web(ThreadingHTTPServer):
    """`way` is how it answers: as `json`, as a `stream` of events, or over the one stream of the older transport
    (`sse`). What it was sent is in `seen`, as (method, JSON-RPC method, headers)."""

    daemon_threads = True

    def __init__(self, way: str = "json", status: int = 0) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.way, self.status = way, status
        self.seen: queue.SimpleQueue[tuple[str, str, dict[str, str]]] = queue.SimpleQueue()
        self.outward: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.over = threading.Event()
        self.endpoint = "/messages?id=1"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/mcp"

    def heard(self, method: str) -> dict[str, str]:
        """The headers of the next message of that name."""
        while True:
            verb, said, headers = self.seen.get(timeout=PATIENCE)
            if method in (verb, said):
                return headers


class Handler(BaseHTTPRequestHandler):
    server: Web

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._note(message.get("method", ""))
        if self.server.status:
            self.send_error(self.server.status)
            return
        if message.get("params", {}).get("name") == "forever":
            self.server.over.wait(PATIENCE)
        answer = self._answer(message)
        if self.server.way == "sse":
            self.server.outward.put(b"data: " + answer)
            self._reply(202, "", b"")
        elif not answer:
            self._reply(202, "", b"")
        elif self.server.way == "json":
            self._reply(200, "application/json", answer)
        else:
            ping = b'{"jsonrpc":"2.0","id":"p","method":"ping"}'
            self._reply(
                200, "text/event-stream", b"id: 1\ndata:\n\n: hi\ndata: " + ping + b"\n\ndata: " + answer + b"\n\n"
            )

    def do_GET(self) -> None:
        self._note("")
        if self.server.status:
            self.send_error(self.server.status)
            return
        endpoint = self.server.endpoint.encode()
        self._reply(200, "text/event-stream", b"event: endpoint\ndata: " + endpoint + b"\n\n")
        while line := self.server.outward.get():
            self.wfile.write(line + b"\n\n")
            self.wfile.flush()

    def do_DELETE(self) -> None:
        self._note("")
        self._reply(204, "", b"")

    def log_message(self, *args: object) -> None:
        """Not on the stderr of the tests."""

    def _note(self, said: str) -> None:
        self.server.seen.put((self.command, said, dict(self.headers.items())))

    def _reply(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Mcp-Session-Id", SESSION)
        if kind:
            self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def _answer(self, message: dict[str, Any]) -> bytes:
        results: dict[str, dict[str, Any]] = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "web", "version": "1"},
            },
            "tools/list": {"tools": TOOLS},
            "tools/call": {"content": [{"type": "text", "text": f"token {self.headers.get('X-Token')}"}]},
        }
        if "id" not in message or "method" not in message:
            return b""
        unknown = {"error": {"code": -32601, "message": f"there is no method {message['method']}"}}
        found = {"result": results[message["method"]]} if message["method"] in results else unknown
        return json.dumps({"jsonrpc": "2.0", "id": message["id"], **found}).encode()


@contextmanager
def serving(way: str = "json", status: int = 0) -> Iterator[Web]:
    with Web(way, status) as web:
        thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield web
        finally:
            web.over.set()
            web.outward.put(b"")
            web.shutdown()
            thread.join(PATIENCE)
