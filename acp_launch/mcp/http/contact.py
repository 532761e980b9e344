"""
The first contact with a remote server, for those who ask how it went: its steps with their times, and its TLS version.

A `Contact` is given to a `RemoteProgram`, and watches its first request through the HTTP library's trace.
"""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct


class RemoteFacts(Struct, frozen=True):
    """What can be told of a connection to a remote server. `era` is `legacy`, `modern` or `sse`."""

    type: str
    era: str
    has_session: bool
    tls: str
    steps: Mapping[str, float]

    @property
    def as_json(self) -> dict[str, Any]:
        return {"type": self.type, "era": self.era or None, "session": self.has_session, "tls": self.tls or None}

    @property
    def timings(self) -> dict[str, float]:
        return {name: round(taken, 4) for name, taken in self.steps.items()}


class Contact:
    """The first request to a remote server. `steps` are in seconds, in their order: those that took place.

    `dns` is the look-up of the name, of the proxy's if there is one; `connect` the connection itself; `tls` its
    encryption; `first_answer` from the request to the beginning of its answer.
    """

    def __init__(self) -> None:
        self.steps: dict[str, float] = {}
        self.tls = ""  # "TLSv1.3"; empty without encryption
        self._since = 0.0

    @property
    def is_made(self) -> bool:
        return "first_answer" in self.steps

    async def heard(self, event: str, info: Mapping[str, Any]) -> None:
        """Take an event of the library's trace."""
        if self.is_made:
            return
        match event.partition(".")[2] if event.startswith("connection.") else event:
            case "connect_tcp.started":
                self._since = time.monotonic()
                await self._look_up(info.get("host"), info.get("port"))
            case "connect_tcp.complete":
                self._step("connect")
            case "start_tls.complete":
                self._step("tls")
                self.tls = _version(info.get("return_value"))
            case "http11.send_request_headers.started":
                self._since = time.monotonic()
            case "http11.receive_response_headers.complete":
                self._step("first_answer")

    async def _look_up(self, host: object, port: object) -> None:
        """Look a name up, as the library does not tell that from the connection; its own look-up follows and is quick.

        A name that cannot be looked up is the library's to report.
        """
        if not isinstance(host, str) or not isinstance(port, int):
            return
        with suppress(OSError, UnicodeError):
            await asyncio.get_running_loop().getaddrinfo(host, port)
            self._step("dns")

    def _step(self, name: str) -> None:
        now = time.monotonic()
        self.steps[name], self._since = now - self._since, now


def _version(stream: Any) -> str:
    secured = stream.get_extra_info("ssl_object") if stream is not None else None
    return (secured.version() or "") if secured is not None else ""
