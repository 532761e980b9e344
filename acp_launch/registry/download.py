"""
A file from an address: an index, or an archive. Bounded in size and time, and never unencrypted across the network.

httpx2 is imported with the first request.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from acp_launch.profile.values import is_in_the_clear, is_local, url_fault, user_fault

if TYPE_CHECKING:
    import httpx2

CONNECT_TIMEOUT, SILENCE_TIMEOUT = 10.0, 30.0  # for a connection, and for the next piece of an answer
REDIRECTS = 5


class NotFetched(Exception):  # noqa: N818 - it reads as what it is
    """Raised if a file could not be had; the text continues a sentence that begins with what was wanted."""


def fetch(address: str, take: Callable[[bytes], object], *, most: int, limit: float) -> None:
    """Give the file at `address` to `take`, piece by piece: at most `most` bytes, within `limit` seconds.

    Raises:
        NotFetched: it could not be had, or not all of it.
    """
    import httpx2

    deadline, taken = time.monotonic() + limit, 0
    try:
        with _client(address) as client, client.stream("GET", address) as response:
            if response.status_code != 200:
                raise NotFetched(f"could not be fetched: {_host(str(response.url))} answered {response.status_code}")
            for piece in response.iter_raw():  # h11 refuses an answer that ends too early
                taken += len(piece)
                if taken > most:
                    raise NotFetched(f"is larger than {most // 1024**2} MiB")
                if time.monotonic() > deadline:
                    raise NotFetched(f"could not be fetched within {limit:g} s")
                take(piece)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise NotFetched(f"could not be fetched from {_host(address)}: {_reason(error)}") from None


def _client(address: str) -> "httpx2.Client":
    import httpx2

    def check(request: httpx2.Request) -> None:  # also those of redirects
        url = str(request.url)
        wrong = url_fault(url) or user_fault(url) or ("it is not an https address" if is_in_the_clear(url) else "")
        if wrong:
            raise NotFetched(f"was not asked for: {wrong} ({_host(url)})")

    try:
        return httpx2.Client(
            headers={"Accept-Encoding": "identity"},
            timeout=httpx2.Timeout(SILENCE_TIMEOUT, connect=CONNECT_TIMEOUT),
            trust_env=not is_local(address),
            follow_redirects=True,
            max_redirects=REDIRECTS,
            event_hooks={"request": [check]},
        )
    except (ValueError, ImportError, OSError) as error:  # a proxy, or certificates, of the environment
        raise NotFetched(f"could not be fetched: the proxy or the certificates cannot be used ({error})") from None


def _reason(error: BaseException) -> str:
    """Return the reason that lies deepest, on one line: the HTTP library's own words repeat its parts."""
    while below := error.__cause__ or error.__context__:
        error = below
    return " ".join(str(error).split())[:200] or type(error).__name__


def _host(address: str) -> str:
    """Return the host of an address; a path may hold a token."""
    try:
        return urlsplit(address).netloc.rpartition("@")[2] or "an address without a host"
    except ValueError:
        return "an invalid address"
