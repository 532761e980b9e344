"""
A token endpoint on loopback, in threads of the test: scripted answers, or an authority that rotates refresh tokens.

Every request is kept. `held` lets a request wait until the test says so.
"""

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qsl

from acp_launch.oauth.grant import Grant, OAuthClient
from acp_launch.secret.value import Secret
from tests.patience import PATIENCE

RESOURCE = "https://mcp.example/mcp"


@dataclass(frozen=True)
class Reply:
    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)


def said(status: int = 200, headers: Mapping[str, str] | None = None, **members: Any) -> Reply:
    return Reply(status, json.dumps(members).encode(), {"Content-Type": "application/json", **(headers or {})})


@dataclass(frozen=True)
class Posted:
    path: str
    headers: Mapping[str, str]
    form: Mapping[str, str]
    method: str = "POST"


Rotation = Literal["strict", "grace", "none"]


@dataclass
class Authority:
    """One grant of an authorization server, whose access tokens are `a1`, `a2`, … and refresh tokens `r1`, `r2`, ….

    `strict` takes a refresh token once, and a second use ends the grant, as for a stolen one. `grace` takes the last
    one again, too. `none` never changes it.
    """

    rotation: Rotation = "strict"
    life: float | None = 3600
    number: int = 1
    is_over: bool = False
    refused: int = 0

    def reply(self, form: Mapping[str, str]) -> Reply:
        number = int(form["refresh_token"].removeprefix("refresh-token-"))
        usable = {"strict": (self.number,), "grace": (self.number, self.number - 1), "none": (1,)}[self.rotation]
        if self.is_over or number not in usable:
            self.is_over |= self.rotation != "grace"
            self.refused += 1
            return said(400, error="invalid_grant", error_description="this refresh token was used before")
        self.number += 1
        return said(**self.tokens)

    @property
    def tokens(self) -> dict[str, Any]:
        tokens: dict[str, Any] = {"access_token": access(self.number), "token_type": "Bearer"}
        if self.life is not None:
            tokens["expires_in"] = self.life
        return tokens if self.rotation == "none" else tokens | {"refresh_token": refresh(self.number)}

    def grant(self, client: OAuthClient, *, expires: float | None) -> Grant:
        """The grant of the first login."""
        first = Secret(access(1)), Secret(refresh(1))
        return Grant(client=client, resource=RESOURCE, access=first[0], refresh=first[1], expires=expires)


def access(number: int) -> str:
    return f"access-token-{number}"


def refresh(number: int) -> str:
    return f"refresh-token-{number}"


@dataclass
class Endpoint:
    """`script` is answered first, then the authority. While `held` is clear, requests wait before their answer."""

    address: str = ""
    authority: Authority = field(default_factory=Authority)
    script: "deque[Reply | Callable[[], Reply]]" = field(default_factory=deque)
    posted: list[Posted] = field(default_factory=list)
    held: threading.Event = field(default_factory=threading.Event)
    came: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))  # one for each request
    lock: threading.Lock = field(default_factory=threading.Lock)

    def client(self, **members: Any) -> OAuthClient:
        given: dict[str, Any] = {
            "issuer": self.address,
            "token_endpoint": f"{self.address}/token",
            "revocation_endpoint": f"{self.address}/revoke",
            "client_id": "us",
        }
        return OAuthClient(**given | members)

    def decide(self, posted: Posted) -> Reply:
        with self.lock:
            self.posted.append(posted)
            if self.script:
                reply = self.script.popleft()
                return reply if isinstance(reply, Reply) else reply()
            return self.authority.reply(posted.form)


@contextmanager
def serving(authority: Authority | None = None) -> Iterator[Endpoint]:
    endpoint = Endpoint(authority=authority or Authority())
    endpoint.held.set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = PATIENCE

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            form = dict(parse_qsl(body.decode(), keep_blank_values=True))
            reply = endpoint.decide(Posted(self.path, dict(self.headers), form, self.command))
            endpoint.came.release()
            endpoint.held.wait(PATIENCE)
            try:
                self._answer(reply)
            except OSError:  # the caller was killed or gave up
                self.close_connection = True

        do_GET = do_POST  # noqa: N815 - the name is the library's

        def _answer(self, reply: Reply) -> None:
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A caller that was killed resets its connection."""

    server = Server(("127.0.0.1", 0), Handler)
    endpoint.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.held.set()
        server.shutdown()
        thread.join()
        server.server_close()
