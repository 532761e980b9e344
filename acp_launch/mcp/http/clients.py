"""
The HTTP clients of an event loop, shared by all its remote servers: connections, TLS, proxies, and machine sleep.

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
COOKIES = 16 * 1024  # bytes of cookies that one server may have us send


class SetUp(Exception):  # noqa: N818 - reads as what it is about
    """Raised if requests cannot be made on this machine at all; `how` and `fix` are those of a `Failure`."""

    def __init__(self, how: str, fix: str) -> None:
        super().__init__(how)
        self.how, self.fix = how, fix


class Cookies:
    """The cookies of one connection: some hosts find the machine that knows the session by them."""

    def __init__(self, note: Callable[[str], None]) -> None:
        import httpx2

        self._cookies, self._note, self._is_too_much = httpx2.Cookies(), note, False

    def add_to(self, request: "httpx2.Request") -> None:
        self._cookies.set_cookie_header(request)

    def take(self, response: "httpx2.Response") -> None:
        self._cookies.extract_cookies(response)
        jar = self._cookies.jar
        if sum(len(each.name) + len(each.value or "") + len(each.path) + 1 for each in jar) <= COOKIES:
            return
        jar.clear()
        if not self._is_too_much:
            self._is_too_much = True
            self._note(f"its cookies have more than {COOKIES:,} bytes; they are not kept")


class Clients:
    """The clients of one event loop. `join` them while they are needed; the last to `leave` closes them."""

    _of_loops: ClassVar["WeakKeyDictionary[asyncio.AbstractEventLoop, Clients]"] = WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._users: set[Callable[[], None]] = set()
        self._clients: dict[tuple[bool, bool], httpx2.AsyncClient] = {}
        self._old: list[httpx2.AsyncClient] = []  # of the time before a sleep; some of their requests may go on
        self._watching: asyncio.TimerHandle | None = None
        self._asleep = seconds_asleep()

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
            self._asleep = seconds_asleep()
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

    def client(self, url: str) -> "httpx2.AsyncClient":
        """Return the client for an address.

        Raises:
            SetUp: certificates or proxies are set up wrongly.
        """
        is_secure, is_near = url.startswith("https:"), is_loopback(url)
        if (is_secure, is_near) not in self._clients:
            self._clients[is_secure, is_near] = _make(is_secure=is_secure, is_near=is_near)
        return self._clients[is_secure, is_near]

    def renew(self) -> None:
        """Use new connections from now on, after the machine has slept; the present ones until their requests end."""
        self._old += self._clients.values()
        self._clients = {}
        for slept in list(self._users):
            slept()

    def _watch(self) -> None:
        before, self._asleep = self._asleep, seconds_asleep()
        if self._asleep - before >= SLEPT:
            self.renew()
        self._watching = self._loop.call_later(WATCH, self._watch)


def seconds_asleep() -> float:
    """Return how many seconds the machine has slept since it was started; 0 where that is unknown."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


def is_loopback(url: str) -> bool:
    return urlsplit(url).hostname in LOOPBACK


def _make(*, is_secure: bool, is_near: bool) -> "httpx2.AsyncClient":
    import ssl
    from http.cookiejar import CookieJar, DefaultCookiePolicy

    import httpx2

    try:
        context = httpx2.create_ssl_context() if is_secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    except (OSError, ssl.SSLError) as error:
        how = "could not be reached: the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read"
        raise SetUp(how, f"correct that variable, or unset it ({error})") from None
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=KEPT_ALIVE)
    none = CookieJar(DefaultCookiePolicy(allowed_domains=()))  # each server has its own
    try:
        return httpx2.AsyncClient(
            verify=context, limits=limits, timeout=None, trust_env=not is_near, cookies=none, follow_redirects=False
        )
    except (ValueError, ImportError, httpx2.InvalidURL):
        how = "could not be reached: the proxy in HTTPS_PROXY, HTTP_PROXY or ALL_PROXY cannot be used"
        raise SetUp(how, "write it as http://host:port") from None
