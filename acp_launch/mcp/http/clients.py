"""
The HTTP clients for remote servers: connection pools, TLS, proxies; and the reasons why a request failed, in words.

What the HTTP library raised is told from what lies below it: name lookup, connection, TLS, proxy, the answer itself.
No text holds a header, a path or a query.

httpx2 is imported, and TLS set up, when the first address needs it.
"""

import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from acp_launch.mcp.http.wire import Failure, shown_origin
from acp_launch.profile.values import is_local, is_loopback

if TYPE_CHECKING:
    import httpx2

KEEP_ALIVE_SECONDS = 4.0  # many servers close an unused connection after 5

CERTIFICATE = (
    "check its `url` ({where}) and this machine's clock; if its authority is your own, name the file with its"
    " certificate in SSL_CERT_FILE"
)
CHECK = "check that it runs, and its `url` ({where})"
PROXY = "check HTTPS_PROXY and HTTP_PROXY, and name hosts that need none in NO_PROXY"


class SetUp(Exception):  # noqa: N818 - reads as what it is about
    """Raised if requests cannot be made on this machine at all; `how` and `fix` are those of a `Failure`."""

    def __init__(self, how: str, fix: str) -> None:
        super().__init__(how)
        self.how, self.fix = how, fix


class MisplacedError(OSError):
    """Raised if a connection was made to this machine, or elsewhere, and its address says otherwise."""


def judge_place(url: str, *, is_own: bool) -> Mapping[str, object]:
    """Return an extension of a request that refuses a connection by where it was made to, before anything is sent.

    DNS may give the name `localhost` any address; and, unless the address is the user's own (`is_own`), another name
    one of this machine. A proxy is not judged.
    """
    host, is_near = urlsplit(url).hostname or "", is_local(url)
    if is_loopback(host) or (is_own and not is_near):
        return {}
    asked: list[str] = []

    async def judge(event: str, info: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.started":
            asked[:] = [str(info["host"])]
        if event != "connection.connect_tcp.complete" or asked != [host]:
            return
        stream = info["return_value"]
        place = str(stream.get_extra_info("server_addr")[0])
        if is_loopback(place) is not is_near:
            await stream.aclose()
            raise MisplacedError(f"its name leads to {place}, which is {'not ' if is_near else ''}on this machine")

    return {"trace": judge}


def make_client(url: str) -> "httpx2.AsyncClient":
    """Return a client for the origin of an address.

    Raises:
        SetUp: certificates or proxies are set up wrongly.
    """
    import httpx2

    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if url.startswith("https:"):
            context = _trust(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
    except (OSError, ssl.SSLError) as error:
        how = "could not be reached: the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read"
        raise SetUp(how, f"correct that variable, or unset it ({error})") from None
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=KEEP_ALIVE_SECONDS)
    uses_proxies = not is_local(url)  # a near one is reached without, whatever NO_PROXY says
    try:
        return httpx2.AsyncClient(
            verify=context, limits=limits, timeout=None, trust_env=uses_proxies, follow_redirects=False
        )
    except (ValueError, ImportError, httpx2.InvalidURL):
        how = "could not be reached: the proxy in HTTPS_PROXY, HTTP_PROXY or ALL_PROXY cannot be used"
        raise SetUp(how, "write it as http://host:port") from None


@lru_cache(maxsize=4)
def _trust(file: str | None, directory: str | None) -> ssl.SSLContext:
    """Load the certificates that these variables name, or those of the system: it takes long enough to do it once."""
    import httpx2

    return httpx2.create_ssl_context()


# Why a request failed.


def failure(error: BaseException, url: str, *, connect: float) -> Failure:
    """Describe an error of the HTTP library. `connect` is the limit of a connection in seconds."""
    import httpx2

    chain = list(_chain(error))
    where = shown_origin(url)
    if isinstance(error, MisplacedError):
        fix = CHECK.format(where=where)
        return Failure(f"could not be reached: {error}", fix, was_sent=False, is_final=True)
    if tls := next((below for below in chain if isinstance(below, ssl.SSLError)), None):
        return _describe_tls(tls, where)
    if isinstance(error, httpx2.ProxyError):
        said = str(error)  # it begins with the status of a refusal; other texts may hold the proxy's address
        why = said[:60] if said[:3].isdigit() else "it does not let us through"
        return Failure(f"could not be reached through the proxy: {why}", PROXY, was_sent=False)
    if isinstance(error, httpx2.ConnectTimeout):
        return _fail_unsent(f": no connection within {connect:g} s", where)
    if isinstance(error, httpx2.ConnectError):
        return _fail_unsent(_describe_connecting(chain), where, via=_has_proxy(url, where))
    if isinstance(error, httpx2.UnsupportedProtocol | httpx2.LocalProtocolError | httpx2.InvalidURL):
        how = "could not be asked: its address or its headers cannot be sent"
        return Failure(how, "check its `url` and `headers`", was_sent=False, is_final=True)
    return _describe_break(error, chain)


def _describe_break(error: BaseException, chain: list[BaseException]) -> Failure:
    import httpx2

    if isinstance(error, httpx2.DecodingError):
        return Failure("sent an answer that cannot be decompressed")
    if why := _system_error(chain):
        return Failure(f"lost the connection ({why})")
    if not isinstance(error, httpx2.RemoteProtocolError):
        return Failure("lost the connection")
    if any(word in str(error).lower() for word in ("disconnected", "closed", "incomplete", "without sending")):
        return Failure("closed the connection before its answer was complete")
    return Failure("does not speak HTTP: its answer cannot be read", "check its `url`")


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    for _ in range(20):
        if seen is None:
            return
        yield seen
        if isinstance(seen, BaseExceptionGroup):
            seen = seen.exceptions[0]  # of the addresses that were tried
            continue
        seen = seen.__cause__ or seen.__context__


def _fail_unsent(how: str, where: str, *, via: bool = False) -> Failure:
    proxy = f"; it is reached through a proxy: {PROXY}" if via else ""
    return Failure(f"could not be reached{how}", CHECK.format(where=where) + proxy, was_sent=False)


def _describe_connecting(chain: list[BaseException]) -> str:
    if unknown := next((below for below in chain if isinstance(below, socket.gaierror)), None):
        return f": its name cannot be looked up ({unknown.strerror or 'its name is unknown'})"
    why = _system_error(chain)
    return f": {why}" if why else ""


def _system_error(chain: list[BaseException]) -> str:
    numbers = (below.errno for below in chain if isinstance(below, OSError) and isinstance(below.errno, int))
    number = next(numbers, None)
    return "" if number is None else os.strerror(number).lower()


def _has_proxy(url: str, where: str) -> bool:
    names = ("HTTPS_PROXY", "https_proxy") if where.startswith("https") else ("http_proxy", "HTTP_PROXY")
    return not is_local(url) and any(os.environ.get(name) for name in (*names, "ALL_PROXY", "all_proxy"))


def _describe_tls(error: ssl.SSLError, where: str) -> Failure:
    if isinstance(error, ssl.SSLCertVerificationError):
        how = f"has a TLS certificate that is not accepted: {error.verify_message}"
        return Failure(how, CERTIFICATE.format(where=where), was_sent=False, is_final=True)
    reason = str(getattr(error, "reason", None) or "")
    if "WRONG_VERSION_NUMBER" in reason or "HTTP_REQUEST" in reason:
        fix = f"the port may be one for http:// ({where})"
        return Failure("does not speak TLS at this address", fix, was_sent=False, is_final=True)
    return _fail_unsent(f": TLS failed ({(reason or 'the connection was cut').replace('_', ' ').lower()})", where)


def advice(server: str, reason: str) -> tuple[str, str]:
    """Split the reason of an end into what it explains and what to do, which names the keys of the profile."""
    why, _, fix = reason.rpartition(": ")
    for key in ("url", "headers", "type"):
        fix = fix.replace("its `", "`").replace(f"`{key}`", f"mcp_servers.{server}.{key}")
    return why, fix
