"""Why a request failed, in words: what the HTTP library raised, and what lies below it."""

import errno
import socket
import ssl

import httpx2
import pytest

from acp_launch.mcp.http.clients import failure

URL = "https://user:pw@docs.example.com/mcp?token=abc"


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
        (httpx2.ConnectTimeout(""), TimeoutError(), "could not be reached: no connection within 10 s"),
        (
            httpx2.ConnectError(""),
            socket.gaierror(-2, "Name or service not known"),
            "could not be reached: its name cannot be looked up (Name or service not known)",
        ),
        (httpx2.ConnectError(""), OSError(errno.ENETUNREACH, "x"), "could not be reached: network is unreachable"),
        (
            httpx2.ConnectError(""),
            OSError("all attempts failed"),
            "could not be reached",
        ),
        (
            httpx2.ConnectError(""),
            ExceptionGroup("", [ConnectionRefusedError(errno.ECONNREFUSED, "x")]),
            "could not be reached: connection refused",
        ),
        (httpx2.ConnectError("any words with abc"), None, "could not be reached"),
    ],
)
def test_a_server_that_cannot_be_reached_was_not_asked(error: Exception, cause: BaseException, how: str) -> None:
    assert told(error, cause) == (how, CHECK, False, False)


def test_what_cannot_be_sent_will_never_be() -> None:
    how, fix, was_sent, is_final = told(httpx2.LocalProtocolError("Illegal header value b'abc'"))
    assert (how, was_sent, is_final) == ("could not be asked: its address or its headers cannot be sent", False, True)
    assert "`headers`" in fix


@pytest.mark.parametrize(
    ("error", "cause", "how"),
    [
        (
            httpx2.ReadError(""),
            ConnectionResetError(errno.ECONNRESET, "x"),
            "lost the connection (connection reset by peer)",
        ),
        (httpx2.ReadError(""), None, "lost the connection"),
        (
            httpx2.RemoteProtocolError("Server disconnected"),
            None,
            "closed the connection before its answer was complete",
        ),
        (httpx2.RemoteProtocolError("illegal status line"), None, "does not speak HTTP: its answer cannot be read"),
        (httpx2.DecodingError(""), None, "sent an answer that cannot be decompressed"),
    ],
)
def test_a_server_that_fails_later_may_have_been_asked(error: Exception, cause: BaseException, how: str) -> None:
    found = told(error, cause)
    assert (found[0], found[2]) == (how, True)


def test_a_tls_failure_without_a_certificate_in_it_may_pass() -> None:
    how, _, was_sent, is_final = told(httpx2.ConnectError(""), ssl.SSLError(1, "[SSL: TLSV1_ALERT] x"))
    assert how.startswith("could not be reached: TLS failed (")
    assert (was_sent, is_final) == (False, False)
