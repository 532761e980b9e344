"""
The HTTP clients of an event loop, shared by all its remote servers: connection pools, TLS, proxies, and machine sleep.

httpx2 is imported, and TLS set up, when the first address needs it.
"""

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    import httpx2

LOOPBACK = ("127.0.0.1", "localhost", "::1")  # reached without a proxy, whatever NO_PROXY says
KEPT_ALIVE = 4.0  # seconds an unused connection is kept: many servers close them after 5
WATCH = 5.0  # seconds between two looks at the clocks
SLEPT = 2.0  # seconds that the machine must have slept


class SetUp(Exception):  # noqa: N818 - reads as what it is about
    """Raised if requests cannot be made on this machine at all; `how` and `fix` are those of a `Failure`."""

    def __init__(self, how: str, fix: str) -> None:
        super().__init__(how)
        self.how, self.fix = how, fix


class Clients:
    """The clients of one event loop. `join` them while they are needed; the last to `leave` closes them."""

    _of_loops: ClassVar["WeakKeyDictionary[asyncio.AbstractEventLoop, Clients]"] = WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._users: set[Callable[[], None]] = set()
        self._clients: dict[tuple[bool, bool], httpx2.AsyncClient] = {}
        self._old: list[httpx2.AsyncClient] = []
        self._watching: asyncio.TimerHandle | None = None
        self._asleep = asleep()

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> "Clients":
        if loop not in cls._of_loops:
            cls._of_loops[loop] = cls(loop)
        return cls._of_loops[loop]

    def join(self, slept: Callable[[], None]) -> None:
        """Begin to use them; `slept` is called when the machine has slept, as connections may be dead without a sign.

        It is also the name under which the user leaves.
        """
        self._users.add(slept)
        if self._watching is None:
            self._asleep = asleep()
            self._watching = self._loop.call_later(WATCH, self._watch)

    async def leave(self, slept: Callable[[], None]) -> None:
        self._users.discard(slept)
        if self._users:
            return
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        clients = [*self._clients.values(), *self._old]
        self._clients, self._old = {}, []
        for client in clients:
            await client.aclose()

    async def client(self, url: str) -> "httpx2.AsyncClient":
        """Return the client for an address.

        Raises:
            SetUp: certificates or proxies are set up wrongly.
        """
        while len(self._old) > 1:
            await self._old.pop(0).aclose()
        parts = urlsplit(url)
        kind = parts.scheme == "https", parts.hostname in LOOPBACK
        if (client := self._clients.get(kind)) is None:
            client = self._clients[kind] = _client(is_secure=kind[0], is_near=kind[1])
        return client

    def woke_up(self) -> None:
        """Use new connections from now on, after the machine has slept; the present ones until their requests end."""
        self._old += self._clients.values()
        self._clients = {}
        for slept in list(self._users):
            slept()

    def _watch(self) -> None:
        before, self._asleep = self._asleep, asleep()
        if self._asleep - before >= SLEPT:
            self.woke_up()
        self._watching = self._loop.call_later(WATCH, self._watch)


def asleep() -> float:
    """Return how many seconds the machine has slept since it was started; 0 where that is unknown."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


def _client(*, is_secure: bool, is_near: bool) -> "httpx2.AsyncClient":
    import ssl
    from http.cookiejar import CookieJar, DefaultCookiePolicy

    import httpx2

    try:
        context = httpx2.create_ssl_context() if is_secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    except (OSError, ssl.SSLError) as error:
        how = "could not be reached: the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read"
        raise SetUp(how, f"correct that variable, or unset it ({error})") from None
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=KEPT_ALIVE)
    try:
        none = CookieJar(DefaultCookiePolicy(allowed_domains=()))  # each server has its own
        return httpx2.AsyncClient(
            verify=context, limits=limits, timeout=None, trust_env=not is_near, cookies=none, follow_redirects=False
        )
    except (ValueError, ImportError, httpx2.InvalidURL):
        how = "could not be reached: the proxy in HTTPS_PROXY, HTTP_PROXY or ALL_PROXY cannot be used"
        raise SetUp(how, "write it as http://host:port") from None
