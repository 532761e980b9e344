"""
Why a request to a remote server failed, in words.

What the HTTP library raised is told from what lies below it: name lookup, connection, TLS, proxy, the answer itself.
No text holds a header, a path or a query.
"""

import os
import socket
import ssl
from collections.abc import Iterator

from msgspec.structs import replace

from acp_launch.http import MisplacedError, SetUp, aiohttp
from acp_launch.mcp.http.wire import Failure, printable, shown_origin

CERTIFICATE = (
    "check its `url` ({where}) and this machine's clock; if its authority is your own, name the file with its"
    " certificate in SSL_CERT_FILE"
)
CHECK = "check that it runs, and its `url` ({where})"
PROXY = "check HTTPS_PROXY and HTTP_PROXY, and name hosts that need none in NO_PROXY"


def failure(error: BaseException, url: str, *, connect: float) -> Failure:
    """Describe an error of the HTTP library. `connect` is the limit of a connection in seconds."""
    if isinstance(error, SetUp):
        return Failure(error.how, error.fix, was_sent=False, is_final=True)
    chain = list(_chain(error))
    where = shown_origin(url)
    if tls := _tls_error(chain):
        return _describe_tls(tls, where)
    match error:
        case aiohttp.ClientHttpProxyError():  # its other texts may hold the address of the proxy
            why = f"{error.status} {printable(error.message)[:40]}".strip()
            return Failure(f"could not be reached through the proxy: {why}", PROXY, was_sent=False)
        case aiohttp.ClientProxyConnectionError():
            return _fail_unsent(_describe_connecting(chain), where, via=True)
        case aiohttp.ConnectionTimeoutError():
            kind = "TLS connection" if where.startswith("https:") else "connection"
            return _fail_unsent(f": no {kind} within {connect:g} s", where)
        case aiohttp.ClientConnectorError():
            unsent = _fail_unsent(_describe_connecting(chain), where)
            return replace(unsent, is_final=any(isinstance(below, MisplacedError) for below in chain))
        case ValueError():  # aiohttp.InvalidURL is one
            how = "could not be asked: its address or its headers cannot be sent"
            return Failure(how, "check its `url` and `headers`", was_sent=False, is_final=True)
    if any(isinstance(below, aiohttp.http_exceptions.ContentEncodingError) for below in chain):
        return Failure("sent an answer that cannot be decompressed")
    if why := _system_error(chain):
        return Failure(f"lost the connection ({why})")
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        return Failure("closed the connection before its answer was complete")
    if isinstance(error, aiohttp.ClientResponseError):
        return Failure("does not speak HTTP: its answer cannot be read", "check its `url`")
    return Failure("lost the connection")


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
    misplaced = next((str(below) for below in chain if isinstance(below, MisplacedError)), "")
    why = misplaced or _system_error(chain)
    return f": {why}" if why else ""


def _tls_error(chain: list[BaseException]) -> ssl.SSLError | None:
    """Return the error of TLS itself; aiohttp's are kinds of it, without its members."""
    found = (below for below in chain if isinstance(below, ssl.SSLError) and not isinstance(below, aiohttp.ClientError))
    return next(found, None)


def _system_error(chain: list[BaseException]) -> str:
    numbers = (below.errno for below in chain if isinstance(below, OSError) and isinstance(below.errno, int))
    number = next(numbers, None)
    return "" if number is None else os.strerror(number).lower()


def _describe_tls(error: ssl.SSLError, where: str) -> Failure:
    if isinstance(error, ssl.SSLCertVerificationError):
        how = f"has a TLS certificate that is not accepted: {error.verify_message}"
        return Failure(how, CERTIFICATE.format(where=where), was_sent=False, is_final=True)
    reason = str(getattr(error, "reason", None) or "")
    if "WRONG_VERSION_NUMBER" in reason or "HTTP_REQUEST" in reason:
        fix = f"the port may be one for http:// ({where})"
        return Failure("does not speak TLS at this address", fix, was_sent=False, is_final=True)
    return _fail_unsent(f": TLS failed ({(reason or 'the connection was cut').replace('_', ' ').lower()})", where)
