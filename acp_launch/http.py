"""
The HTTP client of acp-launch: connection pools, TLS, proxies, and where a name may lead.

aiohttp is imported with this module, and from it, which takes 70 ms: import it where a request is sure to follow.
"""

import os
import platform
import socket
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import truststore
from yarl import URL

from acp_launch.profile.values import is_local, is_loopback

KEEP_ALIVE_SECONDS = 4.0  # many servers close an unused connection after 5
MAX_HEAD_BYTES = 64 * 1024  # of a line in the head of an answer
BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")


@contextmanager
def _loading_no_certificates() -> Iterator[None]:
    """Leave the TLS contexts that are made meanwhile without certificates, so that they accept no server.

    aiohttp makes two when it is imported, for requests without a context: they would read the certificates of the
    system twice, which takes 35 ms and 2 MiB. Our requests over TLS have a context of their own, see `make_client`.
    """
    ssl.SSLContext.set_default_verify_paths = lambda self: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        del ssl.SSLContext.set_default_verify_paths  # what it inherits is in force again


with _loading_no_certificates():
    import aiohttp as aiohttp

REQUEST_ERRORS = (aiohttp.ClientError, OSError, ValueError)


class SetUp(Exception):  # noqa: N818 - reads as what it is about
    """Raised if requests cannot be made on this machine at all; `how` and `fix` are for a user."""

    def __init__(self, how: str, fix: str) -> None:
        super().__init__(how)
        self.how, self.fix = how, fix


class MisplacedError(OSError):
    """Raised if a name leads to this machine, or elsewhere, and the address says otherwise."""


class JudgedResolver(aiohttp.ThreadedResolver):
    """Looks up names before a connection, and keeps addresses on this machine (`is_near`), or the others."""

    def __init__(self, *, is_near: bool) -> None:
        super().__init__()
        self._is_near = is_near

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[aiohttp.abc.ResolveResult]:
        found = await super().resolve(host, port, family)
        fit = [each for each in found if is_loopback(each["host"]) is self._is_near]
        if found and not fit:
            where = f"{found[0]['host']}, which is {'not ' if self._is_near else ''}on this machine"
            raise MisplacedError(f"its name leads to {where}")
        return fit


def make_client(
    url: str,
    *,
    is_own: bool,
    connect: float,
    traces: Iterable[aiohttp.TraceConfig] = (),
    response_class: type[aiohttp.ClientResponse] = aiohttp.ClientResponse,
) -> aiohttp.ClientSession:
    """Return a client for the origin of an address, with `connect` seconds for a connection. To be made in a loop.

    DNS may give the name `localhost` any address; and, unless the address is the user's own (`is_own`), another name
    one of this machine: a name that leads where it does not belong is not connected to. A proxy is not judged.

    Raises:
        SetUp: certificates or proxies are set up wrongly.
    """
    host, is_near = urlsplit(url).hostname or "", is_local(url)
    proxy = None if is_near else _proxy(url)  # a near one is reached without, whatever NO_PROXY says
    is_judged = proxy is None and not is_loopback(host) and (is_near or not is_own)
    is_over_tls = url.startswith("https:") or (proxy is not None and proxy.scheme == "https")
    connector = aiohttp.TCPConnector(
        limit=0,
        keepalive_timeout=KEEP_ALIVE_SECONDS,
        resolver=JudgedResolver(is_near=is_near) if is_judged else None,
        ssl=_context() if is_over_tls else True,
        socket_factory=_open_socket,
    )
    return aiohttp.ClientSession(
        connector=connector,
        proxy=proxy,
        cookie_jar=aiohttp.CookieJar(unsafe=True),  # also of a host that is an IP address
        timeout=aiohttp.ClientTimeout(total=None, connect=connect),
        skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent", "Content-Type"),
        max_line_size=MAX_HEAD_BYTES,
        max_field_size=MAX_HEAD_BYTES,
        trace_configs=list(traces),
        response_class=response_class,
    )


def _open_socket(about: aiohttp.AddrInfoType) -> socket.socket:
    """Open a socket that lets the kernel notice when the other end of a quiet connection is gone."""
    family, kind, protocol, *_ = about
    plug = socket.socket(family, kind, protocol)
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            plug.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return plug


def _proxy(url: str) -> URL | None:
    """Return the proxy of the environment for an address."""
    parts, proxies = urlsplit(url), getproxies()
    found = proxies.get(parts.scheme) or proxies.get("all")
    if not found or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    try:
        proxy = URL(found if "://" in found else f"http://{found}")
        if proxy.scheme in ("http", "https") and proxy.host and proxy.port:
            return proxy
    except ValueError:
        pass
    how = "could not be reached: the proxy in HTTPS_PROXY, HTTP_PROXY or ALL_PROXY cannot be used"
    raise SetUp(how, "write it as http://host:port")


def _context() -> ssl.SSLContext:
    file, directory = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    try:
        return _trust(file, directory)
    except (OSError, ssl.SSLError) as error:
        how = "could not be reached: the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read"
        raise SetUp(how, f"correct that variable, or unset it ({error})") from None


@lru_cache(maxsize=4)
def _trust(file: str | None, directory: str | None) -> ssl.SSLContext:
    """Load the certificates that these variables name, or the system's: it takes long enough to do it once."""
    if file or directory:
        return ssl.create_default_context(cafile=file or None, capath=directory or None)
    if platform.system() == "Darwin":
        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context = ssl.create_default_context()
    if not context.cert_store_stats()["x509_ca"] and (bundle := next(filter(os.path.isfile, BUNDLES), None)):
        context.load_verify_locations(bundle)  # a Python that was built for another distribution
    return context


@asynccontextmanager
async def requested(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    content: bytes = b"",
    is_own: bool = True,
    connect: float,
    silence: float | None = None,
) -> AsyncIterator[aiohttp.ClientResponse]:
    """Make one request with a client of its own, and provide the answer. `silence`: seconds between two pieces of it.

    Raises:
        SetUp: as `make_client`.
        aiohttp.ClientError, OSError, ValueError: the request has failed, see `REQUEST_ERRORS`.
    """
    limits = aiohttp.ClientTimeout(total=None, connect=connect, sock_read=silence)
    async with (
        make_client(url, is_own=is_own, connect=connect) as client,
        client.request(
            method,
            URL(url, encoded=url.isascii()),
            headers=headers,
            data=content or None,
            timeout=limits,
            allow_redirects=False,
        ) as answer,
    ):
        yield answer
