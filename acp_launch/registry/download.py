"""
A file from an address: an index, or an archive. Bounded in size and time, and never unencrypted across the network.

aiohttp is imported with the first request.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from acp_launch.profile.values import is_in_the_clear, url_fault, user_fault

if TYPE_CHECKING:
    from aiohttp import ClientResponse

CONNECT_TIMEOUT, SILENCE_TIMEOUT = 10.0, 30.0  # for a connection, and for the next piece of an answer
REDIRECTS = 5
MOVED = (301, 302, 303, 307, 308)


Requested = Callable[..., AbstractAsyncContextManager["ClientResponse"]]  # `acp_launch.http.requested`


class NotFetched(Exception):  # noqa: N818 - it reads as what it is
    """Raised if a file could not be had; the text continues a sentence that begins with what was wanted."""


def fetch(address: str, take: Callable[[bytes], object], *, most: int, limit: float) -> None:
    """Give the file at `address` to `take`, piece by piece: at most `most` bytes, within `limit` seconds.

    Raises:
        NotFetched: it could not be had, or not all of it.
    """
    asyncio.run(_fetch(address, take, most, limit))


async def _fetch(address: str, take: Callable[[bytes], object], most: int, limit: float) -> None:
    from acp_launch.http import REQUEST_ERRORS, SetUp, requested

    url = address
    try:
        async with asyncio.timeout(limit):
            for _ in range(REDIRECTS + 1):
                clear = "it is not an https address" if is_in_the_clear(url) else ""
                if wrong := url_fault(url) or user_fault(url) or clear:
                    raise NotFetched(f"was not asked for: {wrong} ({_host(url)})")
                if not (url := await _get(requested, url, take, most)):
                    return
            raise NotFetched(f"could not be fetched: {_host(address)} redirects more than {REDIRECTS} times")
    except SetUp as error:
        raise NotFetched(f"{error.how}: {error.fix}") from None
    except REQUEST_ERRORS as error:
        if type(error) is TimeoutError:  # aiohttp's are kinds of it, and say more
            raise NotFetched(f"could not be fetched within {limit:g} s") from None
        raise NotFetched(f"could not be fetched from {_host(url)}: {_reason(error)}") from None


async def _get(requested: Requested, url: str, take: Callable[[bytes], object], most: int) -> str:
    """Give the file at an address to `take`; return where it has moved instead, or an empty text."""
    taken, plain = 0, {"Accept-Encoding": "identity"}
    async with requested("GET", url, headers=plain, connect=CONNECT_TIMEOUT, silence=SILENCE_TIMEOUT) as answer:
        if answer.status in MOVED and (place := answer.headers.get("Location")):
            return urljoin(url, place)
        if answer.status != 200:
            raise NotFetched(f"could not be fetched: {_host(url)} answered {answer.status}")
        while piece := await answer.content.readany():  # an answer that ends too early is refused
            taken += len(piece)
            if taken > most:
                raise NotFetched(f"is larger than {most // 1024**2} MiB")
            take(piece)
    return ""


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
