"""
A registry of the test: an index and its archives on loopback, and package managers that install small programs.

    with serving() as web:
        web.put("/agent.tgz", content)
        web.index(entry("agent", binary=web.url + "/agent.tgz"))

Every request is kept. `npm` and `uv` (`managers`) install a program that starts the demo agent, note how they were
called, and fail for a package called `broken`.
"""

import hashlib
import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from acp_launch.registry.install import this_platform

Json = dict[str, Any]
PROGRAM = f"#!/bin/sh\nexec {sys.executable} -I -m acp_launch.demo.agent\n"


@dataclass(frozen=True)
class File:
    """What is answered at a path. `cut`: the connection ends after so many bytes of the body."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = None


@dataclass
class Web:
    """A server. `asked` are the paths of its requests, with `If-None-Match` if they had one."""

    url: str = ""
    files: dict[str, File] = field(default_factory=dict)
    asked: list[tuple[str, str | None]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"{self.url}/registry.json"

    def put(self, path: str, body: bytes, **more: Any) -> str:
        """Publish a file; return its address."""
        self.files[path] = File(body, **more)
        return self.url + path

    def index(self, *entries: Json, etag: str = "") -> None:
        self.put("/registry.json", written(*entries), headers={"ETag": etag} if etag else {})

    def count(self, path: str) -> int:
        return sum(asked == path for asked, _ in self.asked)


def written(*entries: Json) -> bytes:
    return json.dumps({"version": "1.0.0", "agents": entries, "extensions": []}).encode()


def entry(id: str, version: str = "1.0.0", **distribution: Any) -> Json:
    return {
        "id": id,
        "name": id.title(),
        "version": version,
        "description": f"About {id}",
        "distribution": distribution,
    }


def binary(archive: str, content: bytes | None, cmd: str = "./bin/agent", **more: Any) -> Json:
    """Of this platform; with the hash of `content`, if there is one."""
    known = {"sha256": hashlib.sha256(content).hexdigest()} if content is not None else {}
    return {this_platform(): {"archive": archive, "cmd": cmd, **known, **more}}


@contextmanager
def serving() -> Iterator[Web]:
    web = Web()

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("If-None-Match")
            web.asked.append((self.path, asked))
            file = web.files.get(self.path, File(b"not here", 404))
            if asked and asked == file.headers.get("ETag"):
                file = File(status=304)
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


MANAGER = f"""#!{sys.executable} -IS
import json, os, pathlib, sys

def program(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text({PROGRAM!r})
    path.chmod(0o755)

with open(__file__ + ".calls", "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
package = sys.argv[-1]
if "broken" in package:
    sys.exit("npm error: this package does not install")
if sys.argv[1] == "install":
    name, version = package.rsplit("@", 1)
    modules = pathlib.Path(sys.argv[sys.argv.index("--prefix") + 1], "node_modules")
    program(modules / ".bin" / "agent-program")
    said = {{"name": name, "version": version, "bin": {{"agent-program": "x.js"}}}}
    (modules / name).mkdir(parents=True)
    (modules / name / "package.json").write_text(json.dumps(said))
    packages = {{"node_modules/" + name: {{"integrity": "sha512-of-" + version}}}}
    (modules / ".package-lock.json").write_text(json.dumps({{"packages": packages}}))
else:
    name = package.split("==")[0].split("[")[0]
    program(pathlib.Path(os.environ["UV_TOOL_DIR"], name, "bin", name))
    bin = pathlib.Path(os.environ["UV_TOOL_BIN_DIR"])
    bin.mkdir()
    (bin / name).symlink_to(pathlib.Path(os.environ["UV_TOOL_DIR"], name, "bin", name))
"""


def managers(directory: Path) -> str:
    """Put `npm` and `uv` there; return the PATH with them."""
    directory.mkdir()
    for name in ("npm", "uv"):
        (directory / name).write_text(MANAGER)
        (directory / name).chmod(0o755)
    return f"{directory}{os.pathsep}{os.environ['PATH']}"


def calls(directory: Path, name: str) -> list[list[str]]:
    file = directory / f"{name}.calls"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
