"""
A registry of the test: an index and its archives on loopback, and package managers that install small programs.

    with serving() as web:
        web.put("/agent.tgz", content)
        web.index(entry("agent", binary=web.url + "/agent.tgz"))

Every request is kept.
"""

import hashlib
import json
import shlex
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from acp_launch.registry.install import this_platform

Json = dict[str, Any]
PROGRAM = f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -m acp_launch.demo.agent\n"


@dataclass(frozen=True)
class File:
    """What is answered at a path. `cut`: the connection ends after so many bytes of the body."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = None


@dataclass
class Web:
    """A server. `asked` are the paths of its requests."""

    url: str = ""
    files: dict[str, File] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"{self.url}/registry.json"

    def put(self, path: str, body: bytes, **more: Any) -> str:
        """Publish a file; return its address."""
        self.files[path] = File(body, **more)
        return self.url + path

    def index(self, *entries: Json) -> None:
        self.put("/registry.json", written(*entries))

    def count(self, path: str) -> int:
        return self.asked.count(path)


def written(*entries: Json) -> bytes:
    return json.dumps({"version": "1.0.0", "agents": entries, "extensions": []}).encode()


def entry(id: str, version: str = "1.0.0", **distribution: Any) -> Json:
    about = {"name": id.title(), "description": f"About {id}"}
    return {"id": id, "version": version, **about, "distribution": distribution}


def binary(archive: str, content: bytes | None, cmd: str = "./bin/agent", **more: Any) -> Json:
    """Of this platform; with the hash of `content`, if there is one."""
    known = {"sha256": hashlib.sha256(content).hexdigest()} if content is not None else {}
    return {this_platform(): {"archive": archive, "cmd": cmd, **known, **more}}


@contextmanager
def serving() -> Iterator[Web]:
    web = Web()

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            web.asked.append(self.path)
            file = web.files.get(self.path, File(b"not here", 404))
            self.send_response(file.status)
            for name, value in {"Content-Length": str(len(file.body)), **file.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(file.body[: file.cut])
            self.close_connection = True

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    web.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
