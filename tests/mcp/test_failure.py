"""Why a request failed, in words: what the HTTP library raised, and what lies below it."""

import errno
import socket
import ssl

import aiohttp
import pytest
import yarl
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.http_exceptions import ContentEncodingError
from multidict import CIMultiDict, CIMultiDictProxy

from acp_launch.mcp.http.clients import failure

URL = "https://user:pw@docs.example.com/mcp?token=abc"

KEY = ConnectionKey("docs.example.com", 443, True, True, None, None, None)
ABOUT = aiohttp.RequestInfo(yarl.URL(URL), "POST", CIMultiDictProxy(CIMultiDict()), yarl.URL(URL))


def unconnected(error: OSError | None = None) -> aiohttp.ClientConnectorError:
    return aiohttp.ClientConnectorError(KEY, error or OSError())


def told(error: Exception, cause: BaseException | None = None) -> tuple[str, str, bool, bool]:
    error.__cause__ = cause
    found = failure(error, URL, connect=10.0)
    assert "pw" not in found.fix
    assert "abc" not in f"{found}"
    return found.how, found.fix, found.was_sent, found.is_final


CHECK = "check that it runs, and its `url` (https://docs.example.com)"


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("error", "cause", "how"),
    [
        (aiohttp.ConnectionTimeoutError(""), TimeoutError(), "could not be reached: no TLS connection within 10 s"),
        (
            unconnected(),
            socket.gaierror(-2, "Name or service not known"),
            "could not be reached: its name cannot be looked up (Name or service not known)",
        ),
        (unconnected(), OSError(errno.ENETUNREACH, "x"), "could not be reached: network is unreachable"),
        (
            unconnected(),
            OSError("all attempts failed"),
            "could not be reached",
        ),
        (
            unconnected(),
            ExceptionGroup("", [ConnectionRefusedError(errno.ECONNREFUSED, "x")]),
            "could not be reached: connection refused",
        ),
        (unconnected(OSError("any words with abc")), None, "could not be reached"),
    ],
)
def test_a_server_that_cannot_be_reached_was_not_asked(error: Exception, cause: BaseException, how: str) -> None:
    assert told(error, cause) == (how, CHECK, False, False)


def test_what_cannot_be_sent_will_never_be() -> None:
    how, fix, was_sent, is_final = told(ValueError("Illegal header value b'abc'"))
    assert (how, was_sent, is_final) == ("could not be asked: its address or its headers cannot be sent", False, True)
    assert "`headers`" in fix


@pytest.mark.parametrize(
    ("error", "cause", "how"),
    [
        (
            aiohttp.ClientOSError(errno.ECONNRESET, "x"),
            None,
            "lost the connection (connection reset by peer)",
        ),
        (aiohttp.ClientOSError(""), None, "lost the connection"),
        (
            aiohttp.ServerDisconnectedError(),
            None,
            "closed the connection before its answer was complete",
        ),
        (
            aiohttp.ClientPayloadError("Response payload is not completed"),
            ConnectionResetError(errno.ECONNRESET, "x"),
            "lost the connection (connection reset by peer)",
        ),
        (aiohttp.ClientPayloadError(), None, "closed the connection before its answer was complete"),
        (aiohttp.ClientResponseError(ABOUT, ()), None, "does not speak HTTP: its answer cannot be read"),
        (aiohttp.ClientPayloadError(), ContentEncodingError("gzip"), "sent an answer that cannot be decompressed"),
    ],
)
def test_a_server_that_fails_later_may_have_been_asked(error: Exception, cause: BaseException, how: str) -> None:
    found = told(error, cause)
    assert (found[0], found[2]) == (how, True)


def test_a_tls_failure_without_a_certificate_in_it_may_pass() -> None:
    how, _, was_sent, is_final = told(unconnected(), ssl.SSLError(1, "[SSL: TLSV1_ALERT] x"))
    assert how.startswith("could not be reached: TLS failed (")
    assert (was_sent, is_final) == (False, False)
