"""
The reasons why a request did not reach a server or got no answer, each as one sentence and what to do about it.

What the HTTP library raised is told from what lies below it: name lookup, connection, TLS, proxy, the answer itself.
No text holds a header, a path or a query.
"""

import errno
import os
import socket
import ssl
from collections.abc import Iterator

from acp_launch.mcp.http.wire import Failure, shown_origin

UNTRUSTED = (18, 19, 20, 21, 2)  # X509_V_ERR_*: self-signed, unknown issuer
EXPIRED, NOT_YET, OTHER_NAME, OTHER_ADDRESS = 10, 9, 62, 64
AUTHORITY = "if its authority is your own, name the file with its certificate in SSL_CERT_FILE"


def failure(error: BaseException, url: str, *, connect: float) -> Failure:
    """Describe an error of the HTTP library. `connect` is the limit of a connection in seconds."""
    import httpx2

    chain = list(_chain(error))
    where = shown_origin(url)
    for below in chain:
        if isinstance(below, ssl.SSLError):
            return _tls(below, where)
    if isinstance(error, httpx2.ProxyError):
        return _fail_unsent(f"could not be reached through the proxy: {_quote_status(error)}", PROXY)
    if isinstance(error, httpx2.ConnectTimeout):
        return _fail_unsent(f"could not be reached: no connection within {connect:g} s", _fix(where))
    if isinstance(error, httpx2.ConnectError):
        return _describe_connecting(chain, where)
    if isinstance(error, httpx2.UnsupportedProtocol | httpx2.LocalProtocolError | httpx2.InvalidURL):
        return Failure(
            "could not be asked: its address or its headers cannot be sent",
            "check its `url` and `headers`",
            was_sent=False,
            is_final=True,
        )
    if isinstance(error, httpx2.DecodingError):
        return Failure("sent an answer that cannot be decompressed")
    return _describe_break(error, chain)


def too_late(seconds: float) -> Failure:
    return Failure(f"did not answer within {seconds:g} s", timed_out=True)


LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
PROXY = "check HTTPS_PROXY and HTTP_PROXY, and name hosts that need none in NO_PROXY"


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


def _describe_connecting(chain: list[BaseException], where: str) -> Failure:
    via = f"; it is reached through a proxy: {PROXY}" if _has_proxy(where) else ""
    for below in chain:
        if isinstance(below, socket.gaierror):
            said = below.strerror or "its name is unknown"
            return _fail_unsent(f"could not be reached: its name cannot be looked up ({said})", _fix(where) + via)
    for below in chain:
        if isinstance(below, OSError) and isinstance(below.errno, int):
            return _fail_unsent(f"could not be reached: {_errno(below.errno)}", _fix(where) + via)
    return _fail_unsent("could not be reached", _fix(where) + via)


def _has_proxy(where: str) -> bool:
    if where.startswith(tuple(f"{scheme}://{host}" for scheme in ("http", "https") for host in LOOPBACK)):
        return False
    names = ("HTTPS_PROXY", "https_proxy") if where.startswith("https") else ("http_proxy", "HTTP_PROXY")
    return any(os.environ.get(name) for name in (*names, "ALL_PROXY", "all_proxy"))


def _errno(number: int) -> str:
    if number == errno.ECONNREFUSED:
        return "connection refused"
    return os.strerror(number).lower()


def _fix(where: str) -> str:
    return f"check that it runs, and its `url` ({where})"


def _fail_unsent(how: str, fix: str) -> Failure:
    return Failure(how, fix, was_sent=False)


def _tls(error: ssl.SSLError, where: str) -> Failure:
    if not isinstance(error, ssl.SSLCertVerificationError):
        reason = str(getattr(error, "reason", None) or "")
        if "WRONG_VERSION_NUMBER" in reason or "HTTP_REQUEST" in reason:
            fix = f"the port may be one for http:// ({where})"
            return Failure("does not speak TLS at this address", fix, was_sent=False, is_final=True)
        said = (reason or "the connection was cut").replace("_", " ").lower()
        return _fail_unsent(f"could not be reached: TLS failed ({said})", _fix(where))
    code = error.verify_code
    if code == EXPIRED:
        how, fix = "has an expired TLS certificate", "ask its operator to renew it; and check this machine's clock"
    elif code == NOT_YET:
        how, fix = "has a TLS certificate that is not valid yet", "check this machine's clock"
    elif code in (OTHER_NAME, OTHER_ADDRESS):
        how, fix = "has a TLS certificate for another name", f"check its `url` ({where})"
    elif code in UNTRUSTED:
        how, fix = "has a TLS certificate of an unknown authority", AUTHORITY
    else:
        how, fix = f"has a TLS certificate that is not accepted ({error.verify_message})", AUTHORITY
    return Failure(how, fix, was_sent=False, is_final=True)


def _describe_break(error: BaseException, chain: list[BaseException]) -> Failure:
    import httpx2

    for below in chain:
        if isinstance(below, OSError) and isinstance(below.errno, int):
            return Failure(f"lost the connection ({_errno(below.errno)})")
    if isinstance(error, httpx2.RemoteProtocolError):
        said = str(error).lower()
        if any(word in said for word in ("disconnected", "closed", "incomplete", "without sending")):
            return Failure("closed the connection before its answer was complete")
        return Failure("does not speak HTTP: its answer cannot be read", "check its `url`")
    return Failure("lost the connection")


def _quote_status(error: BaseException) -> str:
    """Return the status with which a proxy refused; its other texts may hold its address."""
    said = str(error)
    return said[:60] if said[:3].isdigit() else "it does not let us through"


def advice(server: str, reason: str) -> tuple[str, str]:
    """Split the reason of an end into what it explains and what to do, which names the keys of the profile."""
    why, _, fix = reason.rpartition(": ")
    for key in ("url", "headers", "type"):
        fix = fix.replace("its `", "`").replace(f"`{key}`", f"mcp_servers.{server}.{key}")
    return why, fix
