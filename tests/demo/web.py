"""An MCP server over HTTP, for a test: a tool that tells the token it was called with, and one that is only there."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.patience import PATIENCE

TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("headers", "other")]
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "web", "version": "1"}}


class Web(ThreadingHTTPServer):
    daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/mcp"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = {"type": "text", "text": f"token {self.headers.get('X-Token')}"}
        results = {"initialize": HELLO, "tools/list": {"tools": TOOLS}, "tools/call": {"content": [text]}}
        found = results.get(message.get("method", ""))
        unknown = {"error": {"code": -32601, "message": "there is no such method"}}
        answer = {"jsonrpc": "2.0", "id": message.get("id"), **({"result": found} if found else unknown)}
        self.send_response(200 if "id" in message else 202)
        self.send_header("Mcp-Session-Id", "s-1")
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode() if "id" in message else b"")

    def do_GET(self) -> None:
        self.send_error(405)

    def do_DELETE(self) -> None:
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Not on the stderr of the tests."""


@contextmanager
def serving() -> Iterator[Web]:
    with Web(("127.0.0.1", 0), Handler) as web:
        thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield web
        finally:
            web.shutdown()
            thread.join(PATIENCE)
