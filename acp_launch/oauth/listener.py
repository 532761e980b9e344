"""
The `flow.Door` of a login: a listener on 127.0.0.1 that the browser comes back to, or an address that the user pastes.

The listener takes one answer: the right path, our own Host, and the state of the login that waits. All other requests
get an error page and change nothing. What a page quotes of an answer is escaped and cut; the page needs no script and
loads nothing. Requests are bounded in size, time and number.
"""

import asyncio
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from html import escape
from urllib.parse import parse_qs

from msgspec import Struct

from acp_launch.mcp.http.wire import printable
from acp_launch.waits import awaited

PATIENCE = 300.0  # seconds for the user
HEAD = 16 * 1024  # bytes of a request's head
HEAD_TIME = 10.0  # seconds for a request's head
PAGE_TIME = 2.0  # seconds for a page to be taken
AT_ONCE = 16  # connections; a browser opens some ahead, and sends nothing on them
FIELDS = 50  # of an answer
QUOTED = 200  # characters that a page quotes of an answer
HOST = "127.0.0.1"
PATH = "/callback"
ANSWER = "answer from the browser"  # what is waited for
Show = Callable[[str], None]
Pasted = Callable[[str], Awaitable[str]]
Waiting = Callable[[str, float, float], None]

_STYLE = """
:root { color-scheme: light dark; font: 1.1rem/1.5 system-ui, sans-serif }
body { margin: 18vh auto 0; max-width: 34rem; padding: 0 1.5rem }
h1 { font-size: 1.4rem }
p { overflow-wrap: anywhere }
"""
_SECURED = (
    "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n"
    "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'\r\n"
)


class Page(Struct, frozen=True):
    """What a browser is shown. `text` may quote others: it is escaped."""

    status: str
    title: str
    text: str

    def response(self) -> bytes:
        body = (
            f'<!doctype html><html lang="en"><meta charset="utf-8">'
            f'<meta name="viewport" content="width=device-width"><title>{escape(self.title)}</title>'
            f"<style>{_STYLE}</style><h1>{escape(self.title)}</h1><p>{escape(self.text)}</p></html>\n"
        ).encode(errors="replace")
        head = f"HTTP/1.1 {self.status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        return f"{head}{_SECURED}Connection: close\r\n\r\n".encode() + body


NOT_FOUND = Page("404 Not Found", "Nothing is here", "This address waits for the answer of a login of acp-launch.")
NOT_OURS = Page("400 Bad Request", "Not our login", "This is not the answer to the login of acp-launch, which goes on.")
TWICE = Page("400 Bad Request", "Answered already", "acp-launch has the answer of this login already.")
UNREADABLE = Page("400 Bad Request", "Not a request", "acp-launch cannot read this request.")
TAKEN = Page(
    "200 OK",
    "acp-launch has the answer",
    "You can close this page. The terminal says whether you are logged in.",
)


class LoopbackDoor:
    """Waits for the browser. `listening` opens and ends the listener."""

    def __init__(
        self, show: Show, waiting: Waiting, *, pasted: Pasted | None = None, patience: float = PATIENCE
    ) -> None:
        """`show` tells the user an address, and may open it. `pasted` asks for the address that the browser came back
        to, where the browser is on another machine; its argument says what was wrong with the one before."""
        self._show, self._waiting, self._pasted, self._patience = show, waiting, pasted, patience
        self._port = 0
        self._state = ""
        self._came_back: asyncio.Future[str] | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._unread: set[asyncio.Task[None] | None] = set()  # connections whose request has not come

    @property
    def redirect_uri(self) -> str:
        return f"http://{HOST}:{self._port}{PATH}"

    async def answer(self, address: str, state: str) -> str:
        """Show an address; return the one that the browser came back to with this state.

        Raises:
            WaitExpired: it did not come back in time.
        """
        self._state, self._came_back = state, asyncio.get_running_loop().create_future()
        typing = asyncio.ensure_future(self._typed()) if self._pasted else None
        try:
            self._show(address)
            return await awaited(self._came_back, what=ANSWER, limit=self._patience, waiting=self._waiting)
        finally:
            self._state, self._came_back = "", None
            if typing is not None:
                typing.cancel()
                await asyncio.wait({typing})

    @asynccontextmanager
    async def listening(self, port: int = 0) -> AsyncIterator[None]:
        """Listen while the block runs; 0 is any free port. A page that is on its way is still sent at the end.

        Raises:
            OSError: the port is taken.
        """
        server = await asyncio.start_server(self._accept, HOST, port, limit=HEAD)
        self._port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            for task in self._unread:
                if task is not None:
                    task.cancel()
            if self._connections:
                await asyncio.wait(self._connections)

    async def _typed(self) -> None:
        """Ask for the address until it is the right one."""
        assert self._pasted is not None
        complaint, came_back = "", self._came_back
        while came_back is not None and not came_back.done():
            try:
                text = (await self._pasted(complaint)).strip()
            except Exception as error:
                if not came_back.done():
                    came_back.set_exception(error)
                return
            _, address = self._judged_address(text)
            complaint = f"That is not the answer of this login, which begins with {self.redirect_uri}?"
            if address and not came_back.done():
                came_back.set_result(address)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= AT_ONCE:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._connections.add(task)
        self._unread.add(task)
        for tasks in (self._connections, self._unread):
            task.add_done_callback(tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_TIME):
                head = await reader.readuntil(b"\r\n\r\n")
            self._unread.discard(asyncio.current_task())
            page, address = self._judged(head)
            if address and self._came_back is not None:
                self._came_back.set_result(address)
            async with asyncio.timeout(PAGE_TIME):
                writer.write(page.response())
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a connection that brings no request, or takes no page, changes nothing
        finally:
            writer.transport.abort()

    def _judged(self, head: bytes) -> tuple[Page, str]:
        """Return the page for a request, and the address of the answer if it is the one that is waited for."""
        request, *lines = head.decode("latin-1").split("\r\n")
        method, _, rest = request.partition(" ")
        target, _, version = rest.partition(" ")
        if method != "GET" or not version.startswith("HTTP/1."):
            return UNREADABLE, ""
        named = [line.partition(":") for line in lines]
        hosts = [value.strip() for name, _, value in named if name.lower() == "host"]
        if hosts != [f"{HOST}:{self._port}"]:  # a page of another site, by a name that leads to this machine
            return NOT_OURS, ""
        return self._judged_address(f"http://{HOST}:{self._port}{target}")

    def _judged_address(self, address: str) -> tuple[Page, str]:
        before, _, query = address.partition("?")
        if before != self.redirect_uri:
            return NOT_FOUND, ""
        try:
            said = parse_qs(query, keep_blank_values=True, max_num_fields=FIELDS)
        except ValueError:
            return UNREADABLE, ""
        states = said.get("state", [])
        is_ours = len(states) == 1 and hmac.compare_digest(states[0].encode(errors="replace"), self._state.encode())
        if not self._state or not is_ours:
            return NOT_OURS, ""
        if self._came_back is None or self._came_back.done():
            return TWICE, ""
        return _taken(said.get("error", []), said.get("error_description", [])), address


def _taken(error: list[str], description: list[str]) -> Page:
    """Return the page for the answer. A refusal is quoted; only the server that was asked can know the state."""
    if not error:
        return TAKEN
    said = printable(": ".join([*error[:1], *description[:1]]))
    quoted = said if len(said) <= QUOTED else f"{said[:QUOTED]}…"
    return Page("200 OK", "The login was refused", f"The authorization server says: {quoted}. You can close this page.")
