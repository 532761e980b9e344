"""
A `flow.BrowserLogin`: a listener on this machine that the browser comes back to, or an address that the user pastes.

The listener takes one answer: the right path, our own Host, and the state of the login that waits. All other requests
get an error page and change nothing. What a page quotes of an answer is escaped and cut; the page needs no script and
loads nothing. Requests are bounded in size and time.
"""

import asyncio
import errno
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from html import escape
from urllib.parse import parse_qsl

from acp_launch.errors import WaitExpired
from acp_launch.mcp.http.wire import printable
from acp_launch.oauth.exchange import NO_RESOURCE
from acp_launch.oauth.flow import Waiting
from acp_launch.waits import awaited, stretch

MAX_HEAD_BYTES = 16 * 1024  # of a request
HEAD_TIMEOUT = stretch(10.0)  # for a request's head, and for its page to be taken
QUOTED_CHARS = 200  # of an answer, on a page
MAX_IDLE = 16  # connections whose request has not come; the oldest is closed for a further one
NUMBERS = {"127.0.0.1": ("127.0.0.1",), "localhost": ("127.0.0.1", "::1")}  # a browser tries either for localhost
PATH = "/callback"
Pasted = Callable[[str], Awaitable[str]]

_STYLE = ":root{color-scheme:light dark;font:1.1rem/1.5 system-ui,sans-serif}body{margin:18vh auto 0;max-width:34rem}"
_SECURED = (
    "Content-Type: text/html; charset=utf-8\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
    "X-Content-Type-Options: nosniff\r\nConnection: close\r\n"
    "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'\r\n"
)


def page(status: str, title: str, text: str) -> bytes:
    """Return an answer to a browser. `text` may quote others: it is escaped."""
    body = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style><h1>{escape(title)}</h1><p>{escape(text)}</p></html>\n"
    ).encode(errors="replace")
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{_SECURED}\r\n".encode() + body


OTHER = page("400 Bad Request", "Not this login", "This is not the answer to the login that acp-launch is waiting for.")


class LoopbackListener:
    """Waits for the browser. `listening` opens and ends the listener."""

    def __init__(
        self,
        show: Callable[[str], None],
        waiting: Waiting,
        *,
        host: str = "127.0.0.1",
        pasted: Pasted | None = None,
        patience: float = 300.0,
    ) -> None:
        """`show` tells the user an address, and may open it. `host` is the redirect address's, a key of
        `NUMBERS`. `pasted` asks for the address that a browser on another machine came back to; its argument says what
        was wrong with the one before."""
        self._host = host
        self._show, self._waiting, self._pasted, self._patience = show, waiting, pasted, patience
        self._port = 0
        self._state = ""
        self._answer: asyncio.Future[Mapping[str, str]] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle: dict[asyncio.StreamWriter, None] = {}  # connections whose request has not come, the oldest first

    @property
    def redirect_uri(self) -> str:
        return f"http://{self._host}:{self._port}{PATH}"

    async def answer(self, address: str, state: str) -> Mapping[str, str]:
        """Show an address; return the parameters that the browser came back with, this state among them.

        Raises:
            WaitExpired: it did not come back in time.
        """
        self._state, self._answer = state, asyncio.get_running_loop().create_future()
        typing = asyncio.ensure_future(self._ask(self._pasted, self._answer)) if self._pasted else None
        try:
            self._show(address)
            what = "answer from the browser"
            return await awaited(self._answer, what=what, limit=self._patience, waiting=self._waiting)
        except WaitExpired as expired:  # many authorization servers tell the fault to the browser alone
            other = ", or write oauth.callback: localhost" if self._host != "localhost" else ""
            redirect = f"if its page refused the redirect address, register {self.redirect_uri} there{other}"
            expired.fix = f"log in again; {redirect}; if it refused `resource`, {NO_RESOURCE}"
            raise
        finally:
            self._state = ""
            if typing is not None:
                typing.cancel()
                await asyncio.wait({typing})

    @asynccontextmanager
    async def listen(self, port: int = 0) -> AsyncIterator[None]:
        """Listen while the block runs; 0 is any free port. A page that is on its way is still sent at the end.

        Raises:
            OSError: the port is taken.
        """
        servers = await self._bind(port)
        self._port = servers[0].sockets[0].getsockname()[1]
        try:
            yield
        finally:
            for server in servers:
                server.close()
            for idle in self._idle:
                idle.transport.abort()
            if self._tasks:
                await asyncio.wait(self._tasks)

    async def _bind(self, port: int) -> list[asyncio.Server]:
        """Listen at each number of the host, at the same port: another user of this machine could listen at the other,
        and get what the browser brings."""
        first, *others = NUMBERS[self._host]
        servers = [await asyncio.start_server(self._accept, first, port, limit=MAX_HEAD_BYTES)]
        found = servers[0].sockets[0].getsockname()[1]
        try:
            servers += [
                await asyncio.start_server(self._accept, other, found, limit=MAX_HEAD_BYTES) for other in others
            ]
        except OSError as error:
            if error.errno == errno.EADDRINUSE:  # else this machine has no such number
                servers[0].close()
                raise
        return servers

    async def _ask(self, ask: Pasted, answer: "asyncio.Future[Mapping[str, str]]") -> None:
        """Ask for the address until it is the right one."""
        complaint = ""
        try:
            while not answer.done():
                self._take((await ask(complaint)).strip())
                complaint = f"That is not the answer to this login: it begins with {self.redirect_uri}?"
        except Exception as error:
            if not answer.done():
                answer.set_exception(error)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._idle[writer] = None
        if len(self._idle) > MAX_IDLE:
            oldest = next(iter(self._idle))
            del self._idle[oldest]
            oldest.transport.abort()
        self._tasks.add(task := asyncio.get_running_loop().create_task(self._serve(reader, writer)))
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_TIMEOUT):
                head = await reader.readuntil(b"\r\n\r\n")
                self._idle.pop(writer, None)
                writer.write(self._reply(head))
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a connection that brings no request, or takes no page, changes nothing
        finally:
            self._idle.pop(writer, None)
            writer.transport.abort()

    def _reply(self, head: bytes) -> bytes:
        request, *lines = head.decode("latin-1").split("\r\n")
        method, target, version = (*request.split(" "), "", "")[:3]
        hosts = [line[5:].strip() for line in lines if line[:5].lower() == "host:"]
        is_ours = hosts == [f"{self._host}:{self._port}"]  # else a page of another site, by its own name for us
        is_get = method == "GET" and version.startswith("HTTP/1.")
        said = self._take(f"http://{self._host}:{self._port}{target}") if is_get and is_ours else None
        if said is None:
            return OTHER
        if "error" not in said:
            text = "You can close this page. The terminal says whether you are logged in."
            return page("200 OK", "Return to your terminal", text)
        quoted = printable(f"{said['error']}: {said.get('error_description', '')}")[:QUOTED_CHARS]
        return page("200 OK", "The login was refused", f"The server says: {quoted}. You can close this page.")

    def _take(self, address: str) -> Mapping[str, str] | None:
        """Let the login go on with the parameters of this address, and return them; None if it is not the answer."""
        before, _, query = address.partition("?")
        try:
            given = parse_qsl(query, keep_blank_values=True, max_num_fields=50)
        except ValueError:
            return None
        said = dict(given)
        is_ours = hmac.compare_digest(said.get("state", "").encode(errors="replace"), self._state.encode())
        is_wanted = before == self.redirect_uri and self._state and is_ours and len(said) == len(given)  # each once
        if not is_wanted or self._answer is None or self._answer.done():
            return None
        self._answer.set_result(said)
        return said
